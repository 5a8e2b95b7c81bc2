package jinja

import (
	"bytes"
	"compress/gzip"
	"encoding/json"
	"io"
	"os"
	"strings"
	"testing"
	"time"
)

// testNow is the time of every golden; testdata/make_goldens.py uses the same.
var testNow = time.Date(2025, time.July, 10, 15, 6, 7, 0, time.UTC)

// readGolden reads a golden file, which may be compressed.
func readGolden(t testing.TB, name string, into any) {
	t.Helper()
	b, err := os.ReadFile("testdata/" + name)
	if err != nil {
		t.Fatal(err)
	}
	if strings.HasSuffix(name, ".gz") {
		z, err := gzip.NewReader(bytes.NewReader(b))
		if err != nil {
			t.Fatal(err)
		}
		if b, err = io.ReadAll(z); err != nil {
			t.Fatal(err)
		}
	}
	if err := json.Unmarshal(b, into); err != nil {
		t.Fatal(name, err)
	}
}

func mustParse(t testing.TB, source string) *Template {
	t.Helper()
	tmpl, err := Parse("test", source)
	if err != nil {
		t.Fatalf("%v in %q", err, source)
	}
	return tmpl
}

func render(t testing.TB, source, vars string) (string, error) {
	t.Helper()
	segs, err := mustParse(t, source).Render(Input{JSON: []byte(vars), Now: testNow}, Limits{})
	return Text(segs), err
}

// firstDiff shows where two texts part.
func firstDiff(got, want string) string {
	i := 0
	for i < len(got) && i < len(want) && got[i] == want[i] {
		i++
	}
	cut := func(s string) string { return s[max(0, i-60):min(len(s), i+60)] }
	return "got  ..." + jsonText(cut(got)) + "\nwant ..." + jsonText(cut(want))
}

func jsonText(s string) string {
	b, _ := json.Marshal(s)
	return string(b)
}

// notPython is the one case of rendered.json whose target Python does not
// produce: it prints a list of dicts as JSON, where Python prints its repr.
const notPython = "MadeAgents/Hammer2.1"

func TestRenderedTemplates(t *testing.T) {
	var cases []struct {
		Group, Name, Template, Target string
		Data                          json.RawMessage
	}
	readGolden(t, "rendered.json", &cases)
	var g goldenFile
	readGolden(t, "goldens.json.gz", &g)
	if len(cases) != 27 || len(g.Rendered) != 27 {
		t.Fatalf("%d cases and %d by Python, want 27", len(cases), len(g.Rendered))
	}
	for _, c := range cases {
		got, err := render(t, c.Template, string(c.Data))
		if err != nil {
			t.Errorf("%s/%s: %v", c.Group, c.Name, err)
			continue
		}
		if want := g.Rendered[c.Name]; got != want {
			t.Errorf("%s/%s by Python:\n%s", c.Group, c.Name, firstDiff(got, want))
		}
		if c.Name != notPython && got != c.Target {
			t.Errorf("%s/%s:\n%s", c.Group, c.Name, firstDiff(got, c.Target))
		}
	}
}
