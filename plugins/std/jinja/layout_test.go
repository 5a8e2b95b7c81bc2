package jinja

import (
	"encoding/json"
	"errors"
	"strings"
	"testing"
)

// TestLayout compares pprint and wordwrap with jinja2's.
func TestLayout(t *testing.T) {
	var file struct {
		Vars json.RawMessage
		Rows [][]any
	}
	readGolden(t, "layout.json.gz", &file)
	if len(file.Rows) < 700 {
		t.Fatalf("only %d rows", len(file.Rows))
	}
	for _, row := range file.Rows {
		checkRow(t, row[0].(string), file.Vars, row)
	}
}

// TestLeftOut: what Python would take and this package does not is refused when the template is loaded.
func TestLeftOut(t *testing.T) {
	for source, want := range map[string]string{
		"a\n{{ x|random }}":                                 "t:2:6: The filter 'random' is not supported: a rendering depends on nothing but its input.",
		"{% if x %}{{ (x|urlize) if y }}{% endif %}":        "t:1:17: The filter 'urlize' is not supported: prompts have no links.",
		"{% for a in b %}{{ lipsum(n=1) }}{% endfor %}":     "t:1:20: The function 'lipsum' is not supported: a rendering depends on nothing but its input.",
		"{{ lipsum }}{{ x.lipsum() }}":                      "",
		"{% macro lipsum() %}x{% endmacro %}{{ lipsum() }}": "",
		"{% set lipsum = f %}{{ lipsum() }}":                "",
	} {
		_, err := Parse("t", source)
		var s *SyntaxError
		switch {
		case want == "" && err != nil:
			t.Errorf("%s: %v", source, err)
		case want != "" && (!errors.As(err, &s) || !strings.HasPrefix(err.Error(), want)):
			t.Errorf("%s: %v\nwant %s", source, err, want)
		}
	}
}
