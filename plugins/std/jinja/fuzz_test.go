package jinja

import (
	"errors"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// fuzzLimits keep one input below some milliseconds.
var fuzzLimits = Limits{Steps: 20_000, Output: 64 << 10, Memory: 1 << 20, Depth: 30}

// checkRendering renders with small limits and checks what must hold of any result.
func checkRendering(t *testing.T, tmpl *Template, vars []byte) {
	t.Helper()
	segs, err := tmpl.Render(Input{JSON: vars, Now: testNow}, fuzzLimits)
	if err != nil {
		if !errors.Is(err, ErrRender) && !errors.Is(err, ErrInput) {
			t.Errorf("%v is neither ErrRender nor ErrInput", err)
		}
		if strings.Contains(err.Error(), "BUG") {
			t.Error(err)
		}
		return
	}
	total := 0
	for i, s := range segs {
		total += len(s.Text)
		if s.Text == "" || i > 0 && segs[i-1].Data == s.Data {
			t.Errorf("segment %d is empty or not merged", i)
		}
	}
	if int64(total) > fuzzLimits.Output {
		t.Errorf("%d bytes, more than %d", total, fuzzLimits.Output)
	}
	again, err := tmpl.Render(Input{JSON: vars, Now: testNow}, fuzzLimits)
	if err != nil || Text(again) != Text(segs) {
		t.Errorf("a second rendering differs: %v", err)
	}
}

// FuzzSource feeds sources to the parser and renders those that are templates.
func FuzzSource(f *testing.F) {
	files, _ := filepath.Glob("testdata/templates/*/*.jinja")
	for i, name := range files {
		if b, err := os.ReadFile(name); err == nil && i%6 == 0 {
			f.Add(string(b))
		}
	}
	for _, s := range []string{"{{ x|tojson }}", "{% for i in range(9) recursive %}{{ loop(i) }}{% endfor %}",
		"{% macro m(a, b=1) %}{{ caller(varargs, **kwargs) }}{% endmacro %}{% call m(1) %}{% endcall %}",
		"{{ '%5.2f{}' % 1.5 }}", "{% raw %}{% endraw", "{{ s[::-1].split('a', 1) is in l }}"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, source string) {
		tmpl, err := Parse("fuzz", source)
		if err != nil {
			if !errors.Is(err, ErrSyntax) {
				t.Errorf("%v is not ErrSyntax", err)
			}
			return
		}
		checkRendering(t, tmpl,
			[]byte(`{"x": {"a": [1, 2.5, null, "<é>"]}, "s": "abcabc", "l": [3, 1, 2], "messages": [{"role": "user", "content": "hi"}]}`))
	})
}

// FuzzData feeds values to a template that does many things with them.
func FuzzData(f *testing.F) {
	tmpl, err := Parse("fuzz",
		`{% macro show(v) %}{% if v is mapping %}{% for k, w in v|items %}{{ k }}:{{ show(w) }},{% endfor %}`+
			`{% elif v is string %}{{ v|trim|title }}{{ v.split()|join('-') }}{{ v[1:-1] }}{{ '%10s' % v }}{{ '{:>9}'.format(v) }}`+
			`{% elif v is iterable %}{% for w in v %}{{ loop.index }}{{ show(w) }}{% endfor %}{% else %}{{ v }}{% endif %}{% endmacro %}`+
			`{{ show(x) }}{{ x|tojson(indent=2) }}{{ x }}{{ [x, 1]|string|upper }}`)
	if err != nil {
		f.Fatal(err)
	}
	for _, s := range []string{`{"x": 1}`,
		`{"x": {"a": ["ß", "\ud800", 1e300, -0.0, 12345678901234567890, {"b": {}}]}}`, `{"x": "a\u0000\u2028 b"}`} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, vars []byte) { checkRendering(t, tmpl, vars) })
}
