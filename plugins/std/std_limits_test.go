package std_test

import (
	"errors"
	"os"
	"strconv"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// hostile are templates that loop, recurse or build gigabytes.
var hostile = []string{
	"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
	"{% for i in range(100000) %}{% for j in range(100000) %}{% if i == j %}{{ loop.index }}{% endif %}{% endfor %}{% endfor %}",
	"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
	"{% macro m(x) %}{% for i in [1] %}{% if true %}{{ [m([x])]|map('string')|list|join(x|default('a', true)) ~ 'x' }}{% endif %}{% endfor %}{% endmacro %}{{ m(1) }}",
	"{% macro m() %}{% call m() %}{% endcall %}{{ caller() }}{% endmacro %}{% call m() %}{{ m() }}{% endcall %}",
	"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
	"{% block b %}{{ self.b() }}{% endblock %}",
	"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
	"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
	"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
	"{% set ns = namespace(s=[1]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s|tojson }}",
	"{% set ns = namespace(s=[1]) %}{% for i in range(5000) %}{% set ns.s = {'a': ns.s} %}{% endfor %}{{ ns.s|string }}",
	"{% set ns = namespace(s=[1]) %}{% for i in range(5000) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s == [ns.s] }}",
	"{{ 'x' * 10000000000 }}", "{{ [0] * 10000000000 }}", "{{ [0] * 3900000 }}{{ [1] * 3900000 }}{{ [2] * 3900000 }}",
	"{{ 9 ** (9 ** 9) }}", "{{ 10 ** 1000000 }}",
	"{{ 'x'.center(10000000000) }}", "{{ '%10000000000d' % 1 }}", "{{ '{:10000000000}'.format(1) }}",
	"{{ ('x' * 100000).replace('x', 'x' * 100000) }}", "{{ ('x,' * 1000000).split(',') }}",
	"{{ ('x' * 10000000)|list }}",
	"{{ [1]|tojson(indent=100000000) }}", "{{ (['x' * 100000] * 10000)|join }}",
	"{{ range(99999)|map('string')|map('center', 100000)|list }}",
	"{% for i in range(99999) %}{{ '" + strings.Repeat("x", 400) + "' }}{% endfor %}",
	"{% for i in range(99999) %}{% set x %}{% for j in range(999) %}{{ messages[0].content }}{% endfor %}{% endset %}{% endfor %}",
	"{% for i in range(99999) %}{% for j in range(99999) %}{% set x = messages|tojson %}{% endfor %}{% endfor %}",
	"{% for i in range(99999) %}{% set x = (range(99999)|list)|sort|unique|list %}{% endfor %}",
	"{% for i in range(99999) %}{% set x = 'ab' * 500000 %}{% set y = x.count('b') + x.find('c') + x|length %}{% endfor %}",
	"{% for i in range(99999) %}{% for j in range(99999) %}{% set x = (9 ** 9999) * (7 ** 9999) // 3 %}{% endfor %}{% endfor %}",
	"{% for i in range(99999) %}{% set x = ('é' * 99999)|upper|title|trim %}{% endfor %}",
	"{% for i in range(99999) %}{% set x = ('word ' * 9999)|wordcount + ('word ' * 9999)|replace('w', 'v')|length %}{% endfor %}",
	"{% for i in range(99999) %}{{ ('word ' * 9999)|wordwrap(5)|length }}{{ ('a--b-c' * 9999)|wordwrap(1)|length }}{% endfor %}",
	"{% for i in range(99999) %}{{ ('word ' * 9999)|pprint|length }}{% endfor %}",
	"{% for i in range(99999) %}{{ ('word' * 9999)|pprint|length }}{% endfor %}",
	"{% set ns = namespace(s=['x' * 90]) %}{% for i in range(190) %}{% set ns.s = [ns.s] %}{% endfor %}{% for i in range(99999) %}{{ ns.s|pprint }}{% endfor %}",
	"{% set ns = namespace(s={}) %}{% for i in range(900) %}{% set ns.s = dict(ns.s, **{i|string: ['x' * 80]}) %}{% endfor %}{% for i in range(9999) %}{{ ns.s|pprint }}{% endfor %}",
}

// TestJinjaHostile: they end with a refusal that says which limit they ran into, before the sandbox ends them.
func TestJinjaHostile(t *testing.T) {
	sources, hostile := object{}, long.Every(6, hostile)
	for i, s := range hostile {
		sources[strconv.Itoa(i)] = s
	}
	g := renders(t, object{"model": object{"templates": sources}})
	for i, s := range hostile {
		before := g.Stats()
		_, err := rendered(t, g, marshal(t,
			object{"messages": []object{{"role": "user", "content": strings.Repeat("some words ", 500)}},
				"template": strconv.Itoa(i)}))
		after := g.Stats()
		var no *guest.Refusal
		if !errors.As(err, &no) || !strings.Contains(no.Text, "LimitError: ") {
			t.Errorf("%.120s: %v, want a limit", s, err)
		}
		t.Logf("%5.2f Gfuel %5d ms  %.60s: %v", float64(after.Fuel-before.Fuel)/1e9,
			(after.Nanoseconds-before.Nanoseconds)/1e6, s, err)
	}
}

// TestJinjaDeep: values and sources nested as deep as they may be end in a result or a refusal, not in a fault.
func TestJinjaDeep(t *testing.T) {
	g := renders(t, object{"parts": "keep",
		"model": object{"templates": object{"default": "{{ messages }}{{ messages|tojson }}{{ messages == messages|list }}{{ messages|tojson(indent=1)|length }}"}}})
	for _, depth := range []int{10, 150, 195, 205, 5000, 100_000} {
		_, err := rendered(t, g, []byte(`{"messages":[{"content":`+strings.Repeat("[", depth)+strings.Repeat("]",
			depth)+`}]}`))
		var no *guest.Refusal
		if err != nil && !errors.As(err, &no) {
			t.Errorf("values %d deep: %v", depth, err)
		}
		if (err == nil) != (depth < 200) {
			t.Errorf("values %d deep: %v", depth, err)
		}
	}
	for _, source := range []string{
		"{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}", strings.Repeat("{% if x %}", 5000),
		"{{ 1" + strings.Repeat(" + 1", 100_000) + " }}",
	} {
		_, err := tryLoad(t, module(t, "jinja"), string(marshal(t, object{"source": source})))
		var no *guest.Refusal
		if !errors.As(err, &no) || !strings.HasPrefix(no.Text, "default:1:") {
			t.Errorf("%.20s: %v, want a refusal with line and column", source, err)
		}
	}
	sources := object{}
	for i, s := range deepest {
		sources[strconv.Itoa(i)] = s
	}
	g = renders(t, object{"model": object{"templates": sources}})
	for i, source := range deepest {
		_, err := rendered(t, g, marshal(t, object{"messages": []object{}, "template": strconv.Itoa(i)}))
		var no *guest.Refusal
		if err != nil && !errors.As(err, &no) {
			t.Errorf("%.60s: %v, want a result or a refusal", source, err)
		}
		t.Logf("%.60s: %v", source, err)
	}
}

// deepest are templates as long and as deep as they may be, with a call where the expression is deepest.
var deepest = []string{
	macro(strings.Repeat("(", 45) + "m()" + strings.Repeat(" + '')", 45)), macro("m()" + strings.Repeat(" + ''", 990)),
	macro("m()" + strings.Repeat("|d", 990)), macro("m()" + strings.Repeat(" and 1", 990)),
	macro("m()" + strings.Repeat(".x", 990)), macro("m()"),
	"{{ " + strings.Repeat("[", 45) + strings.Repeat("]", 45) + "|tojson }}",
	"{% macro m() %}" + strings.Repeat("{% if true %}{% for i in [1] %}{% filter trim %}", 40) + "{{ m() }}" +
		strings.Repeat("{% endfilter %}{% endfor %}{% endif %}", 40) + "{% endmacro %}{{ m() }}",
}

// macro is a template that calls itself in an expression.
func macro(expression string) string {
	return "{% macro m() %}{{ " + expression + " }}{% endmacro %}{{ m() }}"
}

// TestJinjaReused: instances that rendered a long conversation are used again: their memory did not grow.
func TestJinjaReused(t *testing.T) {
	long.Test(t)
	src, err := os.ReadFile("jinja/testdata/templates/trl/qwen3.jinja")
	if err != nil {
		t.Fatal(err)
	}
	g := renders(t, object{"model": object{"templates": object{"default": string(src)}}})
	request := conversation(t, 1500)
	for range 8 {
		if _, err := rendered(t, g, request); err != nil {
			t.Fatal(err)
		}
	}
	if s := g.Stats(); s.Instances.Discarded > 0 || s.Instances.Reset < 8 {
		t.Errorf("%d bytes: %+v", len(request), s.Instances)
	}
}

// TestToolcallsLong: a long message, which makes garbage for many collections, stays within the fuel of its steps and
// in the memory of its instance.
func TestToolcallsLong(t *testing.T) {
	g := parses(t, object{"format": "hermes"})
	request := marshal(t, object{"tools": []object{{"type": "function", "function": object{"name": "now"}}},
		"tool_choice": "auto", "parallel_tool_calls": true, "prompt_end": ""})
	text := strings.Repeat("Some text of the answer, 12 é. ", 400)
	for i := range 100 {
		text += "<tool_call>\n{\"name\": \"now\", \"arguments\": {\"text\": \"" + strings.Repeat("word ", 20*(i%10)) +
			"\"}}\n</tool_call>\n"
	}
	events := parsed(t, g, request, nil, cut(strings.Repeat(text, 3), 3))
	calls := 0
	for _, e := range events {
		if e.Kind == abi.EventEnd {
			calls++
		}
	}
	if calls != 128 { // the library's limit
		t.Errorf("%d calls, want 128", calls)
	}
	if s := g.Stats(); s.Instances.Discarded > 0 || s.Calls < 50_000 {
		t.Errorf("%+v", s)
	}
}
