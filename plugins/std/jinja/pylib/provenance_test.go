package pylib_test

import (
	"fmt"
	"strings"
	"testing"

	"tgi/plugins/std/jinja"
	"tgi/plugins/std/jinja/pylib"
)

// TestNoStringMethodForgets: whatever a method or filter makes of the request's
// text, none of its letters turn up as the template's.
func TestNoStringMethodForgets(t *testing.T) {
	var calls []string
	for _, name := range pylib.StrMethods() {
		for _, a := range []string{"", "'q'", "3", "'q', 'w'", "3, 'w'", "['q']"} {
			calls = append(calls, fmt.Sprintf("c.%s(%s)", name, a), fmt.Sprintf("('w' ~ c ~ 'w').%s(%s)", name, a))
		}
	}
	for _, name := range pylib.Filters() {
		for _, a := range []string{"", "()", "('q')", "(3)", "('q', 'w')", "('q', 3, 'w')"} {
			calls = append(calls, fmt.Sprintf("c|%s%s", name, a), fmt.Sprintf("['w', c]|%s%s", name, a),
				fmt.Sprintf("('w' ~ c ~ 'w')|%s%s", name, a))
		}
	}
	done := 0
	for _, call := range calls {
		tmpl, err := jinja.Parse("call", "{{ "+call+" }}")
		if err != nil {
			t.Fatal(err)
		}
		segs, err := tmpl.Render(jinja.Input{JSON: []byte(`{"c": "ZZqZZ zzQzz"}`)}, jinja.Limits{})
		if err != nil {
			continue
		}
		done++
		for _, s := range segs {
			if !s.Data && strings.ContainsAny(s.Text, "Zz") {
				t.Errorf("%s: %v", call, segs)
			}
		}
	}
	if done < 250 {
		t.Errorf("only %d calls worked", done)
	}
}
