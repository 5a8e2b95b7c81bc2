package toolcalls

import (
	"encoding/json"
	"path/filepath"
	"testing"
)

// TestPresets parses what models write and compares with the events that testdata says.
func TestPresets(t *testing.T) {
	files, err := filepath.Glob("testdata/presets/*.txt")
	if err != nil {
		t.Fatal(err)
	}
	have := make(map[string]bool)
	for _, file := range files {
		head, all := readSamples(t, file)
		for i, s := range all {
			t.Run(filepath.Base(file)+"/"+s.name, func(t *testing.T) {
				got := feed(s.parser(t), s.text)
				if *update {
					all[i].events = written(got)
				} else if w := written(got); w != s.events {
					t.Errorf("text\n%s\ngot\n%s\nwant\n%s", s.text, w, s.events)
				}
				checkOrder(t, got)
			})
		}
		if *update {
			rewrite(t, file, head, all)
		}
		have[filepath.Base(file)] = true
	}
	for _, name := range Presets() {
		if !have[name+".txt"] {
			t.Errorf("preset %s has no samples", name)
		}
	}
}

// checkOrder demands what every caller relies on: calls come one after the other, indexes count up, the arguments of a
// call that ended are one JSON object, and every call ends or fails.
func checkOrder(t testing.TB, events []Event) {
	t.Helper()
	open, next := -1, 0
	var arguments string
	for _, e := range events {
		switch e.Kind {
		case Content, Reasoning:
			if open >= 0 {
				t.Errorf("%s %q inside call %d", e.Kind, e.Text, open)
			}
		case CallBegin:
			if open >= 0 || e.Index != next || e.Name == "" || e.ID == "" {
				t.Errorf("call %d %q %q begins while %d is open; want index %d, a name and an id", e.Index, e.Name,
					e.ID, open, next)
			}
			open, next, arguments = e.Index, next+1, ""
		case Arguments:
			if e.Index != open {
				t.Errorf("arguments of call %d while %d is open", e.Index, open)
			}
			arguments += e.Text
		case CallEnd:
			if e.Index != open {
				t.Errorf("end of call %d while %d is open", e.Index, open)
			}
			var object map[string]json.RawMessage
			if err := json.Unmarshal([]byte(arguments), &object); err != nil || object == nil {
				t.Errorf("call %d ended with arguments %q: %v", e.Index, arguments, err)
			}
			open = -1
		case CallFailed:
			if e.Index != open || e.Reason == "" {
				t.Errorf("call %d failed (%q) while %d is open", e.Index, e.Reason, open)
			}
			open = -1
		}
	}
	if open >= 0 {
		t.Errorf("call %d neither ended nor failed", open)
	}
}
