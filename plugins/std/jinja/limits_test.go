package jinja

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestLimits: templates that loop, recurse or build gigabytes end with ErrLimit
// or with Python's own exception.
func TestLimits(t *testing.T) {
	small := Limits{Steps: 1_000_000, Output: 1 << 20, Memory: 16 << 20}
	for _, source := range []string{
		"{% for i in range(100000) %}{% for j in range(100000) %}{% endfor %}{% endfor %}",
		"{% macro m() %}{{ m() }}{% endmacro %}{{ m() }}",
		"{% for i in [1] recursive %}{{ loop([1]) }}{% endfor %}",
		"{% block b %}{{ self.b() }}{% endblock %}",
		"{% set ns = namespace(s='x') %}{% for i in range(99) %}{% set ns.s = ns.s ~ ns.s %}{% endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = ns.s + ns.s %}{% endfor %}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(99) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s }}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(300) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s|tojson }}",
		"{% set ns = namespace(s=[1]) %}{% for i in range(300) %}{% set ns.s = [ns.s] %}{% endfor %}{{ ns.s == [ns.s] }}",
		"{{ 'x' * 10000000000 }}", "{{ [0] * 10000000000 }}", "{{ 9 ** (9 ** 9) }}", "{{ 10 ** 1000000 }}",
		"{{ 'x'.center(10000000000) }}", "{{ '%10000000000d' % 1 }}", "{{ '%.*f' % (1000000000, 1.0) }}",
		"{{ '{:10000000000}'.format(1) }}", "{{ '{:.2000000000f}'.format(1.0) }}",
		"{{ ('x' * 100000).replace('x', 'x' * 100000) }}", "{{ ('x' * 100000).replace('', 'x' * 100000) }}",
		"{{ '\t'.expandtabs(10000000000) }}", "{{ ('x,' * 1000000).split(',') }}",
		"{{ [1]|tojson(indent=100000000) }}", "{{ [1]|batch(10000000000, 1)|list }}",
		"{{ [1]|slice(10000000000)|list }}", "{{ ('x' * 1000000)|list }}",
		"{{ (('x\n' * 100000)|indent(100000))|length }}",
		"{{ (['x' * 100000] * 10000)|join }}",
		"{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}",
		"{% set x %}{% for i in range(99999) %}{{ 'xxxxxxxxxxxxxxxxxxxxxxxxx' }}{% endfor %}{% endset %}",
		"{{ range(99999)|map('string')|map('center', 100000)|list }}", "{{ 'x'.zfill(10000000000) }}",
		"{{ ('x' * 100000).join('y' * 100000) }}",
		"{{ {'x' * 100000: [1] * 10000}|pprint }}",
		"{% set ns = namespace(s=['x' * 90]) %}{% for i in range(190) %}{% set ns.s = [ns.s, ns.s] %}{% endfor %}{{ ns.s|pprint }}",
		"{{ ('x ' * 100000)|wordwrap(1, true, 'y' * 1000) }}",
		"{% for i in range(90000) %}{{ ('x ' * 10000)|wordwrap(2)|length }}{{ ('x ' * 10000)|pprint|length }}{% endfor %}",
	} {
		_, err := mustParse(t, source).Render(Input{JSON: []byte(`{}`)}, small)
		if !errors.Is(err, ErrLimit) || !errors.Is(err, ErrRender) {
			t.Errorf("%s: %v, want ErrLimit", source, err)
		}
	}
}

func TestDeepSource(t *testing.T) {
	for _, source := range []string{
		"{{ " + strings.Repeat("(", 5000) + "1" + strings.Repeat(")", 5000) + " }}",
		"{{ " + strings.Repeat("[", 5000), "{{ " + strings.Repeat("-", 5000) + "1 }}", "{{ " + strings.Repeat("not ",
			5000) + "1 }}",
		strings.Repeat("{% if x %}", 5000), "{{ " + strings.Repeat("1 if 1 else ", 5000) + "1 }}",
		"{{ " + strings.Repeat("{1:", 5000),
		"{{ 1" + strings.Repeat(" + 1", 3000) + " }}", "{{ s" + strings.Repeat("|upper", 3000) + " }}",
		"{{ s" + strings.Repeat(".x", 3000) + " }}", "{{ s" + strings.Repeat("()", 3000) + " }}",
		"{{ 1" + strings.Repeat(" and 1", 3000) + " }}", "{{ 1" + strings.Repeat(" or 1", 3000) + " }}",
		"{{ 1" + strings.Repeat(" is odd", 3000) + " }}", "{{ 1" + strings.Repeat(" if 1", 3000) + " }}",
	} {
		if _, err := Parse("deep", source); !errors.Is(err, ErrSyntax) {
			t.Errorf("%.30q: %v, want ErrSyntax", source, err)
		}
	}
	for _, source := range []string{
		"{{ 1" + strings.Repeat(" + 1", 900) + " }}", "{{ s" + strings.Repeat("|upper", 900) + " }}",
		"{{ s" + strings.Repeat(".x", 900) + " }}",
	} {
		if tmpl, err := Parse("long", source); err == nil {
			_, _ = tmpl.Render(Input{JSON: []byte(`{"s": "x"}`)}, Limits{}) // must only end
		}
	}
	if _, err := Parse("big", strings.Repeat(" ", maxSource+1)); !errors.Is(err, ErrSyntax) {
		t.Errorf("a source beyond the limit: %v", err)
	}
}

func TestErrors(t *testing.T) {
	_, err := Parse("chat.jinja", "a\n{% if x %}\n  {{ é + }}\n")
	if got, want := fmt.Sprint(err), "chat.jinja:3:10: unexpected 'end of print statement'"; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	_, err = render(t, "{% if true %}\n{{ raise_exception('no ' ~ 1) }}{% endif %}", `{}`)
	if !errors.Is(err, ErrRaised) || err.Error() != "line 2: TemplateError: no 1" {
		t.Errorf("%v", err)
	}
	for _, vars := range []string{``, `[]`, `{`, `{"a" 1}`, `{"a": 01}`, `{"a": tru}`, `{"a": "\x"}`, `{} x`,
		`{"a": "` + "x", strings.Repeat(`{"a":`, 300)} {
		if _, err := render(t, "x", vars); !errors.Is(err, ErrInput) {
			t.Errorf("%.20s: %v, want ErrInput", vars, err)
		}
	}
}

func TestJSONInput(t *testing.T) {
	got, err := render(t, "{{ a }}|{{ z|tojson }}|{{ b }}",
		`{"z": {"y": 1, "x": 2, "y": 3}, "a": [1.0, 1e2, 123456789012345678901, -0, "\ud83d\ude00\u00e9\ud800", true, null], "b": "a\"\n"}`)
	if want := "[1.0, 100.0, 123456789012345678901, 0, '😀é\uFFFD', True, None]|{\"y\": 3, \"x\": 2}|a\"\n"; err != nil || got != want {
		t.Errorf("got %s, %v\nwant %s", got, err, want)
	}
}

// TestInSandbox: the limits of a guest are no limits for a megabyte of conversation.
func TestInSandbox(t *testing.T) {
	request := conversation(4000)
	if len(request) < 1<<20 {
		t.Fatalf("%d bytes", len(request))
	}
	files, _ := filepath.Glob("testdata/templates/*/*.jinja")
	done := 0
	for _, name := range files {
		src, err := os.ReadFile(name)
		if err != nil {
			t.Fatal(err)
		}
		m, err := NewModel(map[string]string{"default": string(src)}, nil, PartsAuto)
		if err != nil {
			t.Fatal(err)
		}
		_, err = m.Render(request, InSandbox)
		if errors.Is(err, ErrLimit) {
			t.Errorf("%s: %v", name, err)
		} else if err == nil {
			done++
		}
	}
	if done < 40 {
		t.Errorf("only %d templates rendered it", done)
	}
}
