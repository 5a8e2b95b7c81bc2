package jinja

import (
	"encoding/json"
	"errors"
	"testing"
)

// TestExpressions compares tens of thousands of small templates with jinja2:
// texts, classes of exceptions, their messages, and lines of syntax errors.
func TestExpressions(t *testing.T) {
	var file struct {
		Vars json.RawMessage
		Rows [][]any
	}
	readGolden(t, "expressions.json.gz", &file)
	if len(file.Rows) < 30_000 {
		t.Fatalf("only %d rows", len(file.Rows))
	}
	kinds := map[string]int{}
	for _, row := range file.Rows {
		source := row[0].(string)
		kind := checkRow(t, source, file.Vars, row)
		kinds[kind]++
	}
	t.Log(kinds)
}

// checkRow renders one row and says what it compared.
func checkRow(t *testing.T, source string, vars []byte, row []any) string {
	t.Helper()
	tmpl, err := Parse("row", source)
	var got string
	if err == nil {
		var segs []Segment
		segs, err = tmpl.Render(Input{JSON: vars, Now: testNow}, Limits{})
		got = Text(segs)
	}
	if len(row) == 2 {
		if want := row[1].(string); err != nil || got != want {
			t.Errorf("%s\n got %s, %v\nwant %s", jsonText(source), jsonText(got), err, jsonText(want))
		}
		return "text"
	}
	class, msg := row[2].(string), row[3].(string)
	var e *RenderError
	var s *SyntaxError
	switch {
	case err == nil:
		t.Errorf("%s\n got %s\nwant %s: %s", jsonText(source), jsonText(got), class, msg)
	case class == "SyntaxError":
		if !errors.As(err, &s) || s.Msg != msg || s.Line != int(row[4].(float64)) {
			t.Errorf("%s\n got %v\nwant line %v: %s", jsonText(source), err, row[4], msg)
		}
	case !errors.As(err, &e) || e.Class != class || e.Msg != msg:
		t.Errorf("%s\n got %v\nwant %s: %s", jsonText(source), err, class, msg)
	}
	return class
}
