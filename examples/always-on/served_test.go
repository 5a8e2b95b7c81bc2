package alwayson

import (
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"tgi/examples/internal/served"
)

// pin is a request that the model answers with a number of four digits.
const pin = "Please put 4821 in quotes."

// digits favours the digits, which are single tokens, and a space between them.
const digits = `"do_sample":true,"temperature":2.0,"max_new_tokens":40,"logit_bias":{"18":50,"19":50,"20":50,"21":50,"22":50,"709":48}`

// tooLong is a number of more than three digits as the rule counts them.
var tooLong = regexp.MustCompile(`[0-9]([^0-9A-Za-z]*[0-9]){3}`)

func TestServed(t *testing.T) {
	s := served.Start(t, ".")
	for question, want := range map[string]string{
		pin:                  `"482...`,
		"Put 12 in quotes.":  `"12"`,
		"What is 7 times 8?": "7 times 8 is 56.",
	} {
		if r := s.Ask(t, question, `{}`); r.Text != want {
			t.Errorf("%s: %+v, want %s", question, r, want)
		}
	}
	for seed := range 10 {
		r := s.Ask(t, pin, fmt.Sprintf(`{"seed":%d,%s}`, seed+1, digits))
		if r.Text == "" || tooLong.MatchString(r.Text) {
			t.Errorf("seed %d: %+v", seed+1, r)
		}
	}
	r := s.Ask(t, pin, `{"plugins":[{"name":"no-long-numbers","params":{"digits":20}}]}`)
	if r.Status != http.StatusUnprocessableEntity || r.ErrorType != "validation" {
		t.Errorf("a request changes the operator's rule: %+v", r)
	}
	s.Documented(t, "README.md")
}

// TestSkipped: with half of the fuel that its steps take the plugin fails after
// some of them, and the answer goes on without it.
func TestSkipped(t *testing.T) {
	files := map[string]string{"tgi.toml": "tgi.toml", "no-long-numbers.wasm": "no-long-numbers.wasm"}
	enough := served.Start(t, served.Folder(t, files))
	question := fmt.Sprintf(`{"details":true,"seed":1,%s}`, digits)
	if r := enough.Ask(t, pin, question); r.Status != http.StatusOK || len(r.Details.Plugins) > 0 {
		t.Fatalf("with enough fuel: %+v", r)
	}
	half := enough.PluginMetric(t, "tgi_plugin_fuel_total", "no-long-numbers") / enough.PluginMetric(t,
		"tgi_plugin_calls_total", "no-long-numbers") / 2

	folder := served.Folder(t, files)
	f, err := os.OpenFile(filepath.Join(folder, "tgi.toml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		t.Fatal(err)
	}
	fmt.Fprintf(f, "\n[plugin.limits]\nfuel_per_step = %.0f\n", half)
	if err := f.Close(); err != nil {
		t.Fatal(err)
	}
	r := served.Start(t, folder).Ask(t, pin, question)
	if r.Status != http.StatusOK || !tooLong.MatchString(r.Text) {
		t.Errorf("numbers stay short without the rule, so the other test says nothing: %+v", r)
	}
	if p := r.Details.Plugins; len(p) != 1 || p[0].Name != "no-long-numbers" || p[0].Error == "" {
		t.Errorf("plugins in the details: %+v", p)
	}
}
