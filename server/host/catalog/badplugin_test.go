package catalog

import (
	"fmt"
	"log/slog"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server/config"
)

// badSettings are values of the right kind that no request could be served with, of every setting of the built-in
// plugins that can have one.
var badSettings = []struct{ plugin, setting, value string }{
	{"banned-strings", "strings", `[""]`}, {"banned-strings", "depth", "17"}, {"banned-strings", "locked", "true"},
	{"banned-words", "words", `["a", ""]`},
	{"best-of-judge", "n", "33"}, {"best-of-judge", "temperature", "0.001"},
	{"budget-then-answer", "budget", "0"},
	{"dry", "multiplier", "-1"}, {"dry", "base", "0.5"}, {"dry", "allowed_length", "0"}, {"dry", "range", "-1"},
	{"dry", "sequence_breakers", `["\n", ""]`},
	{"grammar", "whitespace", `"some"`}, {"grammar", "indent", "201"}, {"grammar", "draft", `"4"`},
	{"grammar", "x-order", `"none"`},
	{"json-repair", "schema", `{type = "objekt"}`}, {"json-repair", "schema", `{pattern = "(?<=a)b"}`},
	{"json-repair", "schema", `"text"`}, {"json-repair", "tries", "65"}, {"json-repair", "held", "0"},
	{"loop-breaker", "rounds", "1"}, {"loop-breaker", "tokens", "1"}, {"loop-breaker", "period", "101"},
	{"mirostat", "tau", "21"}, {"mirostat", "eta", "1.5"},
	{"no-repeat-ngram", "n", "65"},
	{"redact", "patterns", `["phone"]`}, {"redact", "strings", `[""]`},
	{"redact", "with", `"` + strings.Repeat("x", 65) + `"`},
	{"thinking-budget", "budget", "-1"}, {"thinking-budget", "min", "1025"}, {"thinking-budget", "open", `""`},
	{"thinking-budget", "close", `"` + strings.Repeat("x", 65) + `"`}, {"thinking-budget", "start_inside", `"yes"`},
	{"thinking-budget", "message", `"` + strings.Repeat("q ", 600) + `"`},
	{"vote", "n", "0"}, {"vote", "temperature", "11"},
	{"watermark", "scheme", `"other"`}, {"watermark", "scheme", `"transformers"`}, // which needs more fuel
	{"watermark", "greenlist_ratio", "1"}, {"watermark", "bias", "101"}, {"watermark", "hashing_key", "0"},
	{"watermark", "context_width", "33"},
	{"xtc", "probability", "1.5"}, {"xtc", "threshold", "0"},
}

// TestCheckConfig: what no request could be served with is found, with its line, before there is a request.
func TestCheckConfig(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	var text strings.Builder
	var want []string
	for i, c := range badSettings {
		fmt.Fprintf(&text, "[[plugin]]\nname = \"p%d\"\nsource = \"builtin:%s\"\n[plugin.config]\n%s = %s\n", i,
			c.plugin, c.setting, c.value)
		line := fmt.Sprintf("%s:%d:1: plugin.config.%s: p%d: ", file, 5*i+5, c.setting, i)
		if c.value == `"transformers"` {
			line = fmt.Sprintf("%s:%d:1: plugin.limits.fuel_per_step: ", file, 5*i+3)
		}
		want = append(want, line)
	}
	if err := os.WriteFile(file, []byte(text.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	l, err := config.Read(nil, func(name string) (string, bool) { return file, name == "TGI_CONFIG" })
	if err != nil {
		t.Fatal(err)
	}
	err = Check(t.Context(), l.Config, "test", slog.New(slog.DiscardHandler), func(Checked) {})
	if err == nil {
		t.Fatal("nothing is found")
	}
	for _, line := range want {
		if !strings.Contains(err.Error(), line) {
			t.Errorf("%s: not found", line)
		}
	}
	if t.Failed() {
		t.Log(err)
	}
}

// TestCheckPlugins: what is wrong with plugins is told together with what is wrong elsewhere, and so is a plugin of a
// model that there is not.
func TestCheckPlugins(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	const text = `[server]
hostname = "256.1.1.1"
[model]
plugins = ["house", "dryy"]
[[plugin]]
name = "house"
source = "builtin:json-repair"
[plugin.config]
tries = 65
`
	read := func(text string) (config.Loaded, error) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		return config.Read(nil, func(name string) (string, bool) { return file, name == "TGI_CONFIG" })
	}
	l, err := read(text)
	if err != nil {
		t.Fatal(err)
	}
	err = Check(t.Context(), l.Config, "test", slog.New(slog.DiscardHandler), func(Checked) {})
	for _, want := range []string{":2:1: server.hostname: ", `:4:1: model.plugins: there is no plugin "dryy"`,
		":9:1: plugin.config.tries: "} {
		if err == nil || strings.Count(err.Error(), file+want) != 1 {
			t.Errorf("%s: %v", want, err)
		}
	}
	l, err = read(strings.ReplaceAll(text, `hostname = "256.1.1.1"`, "payload_limit = 0") +
		"[[plugin]]\nname = \"auto\"\nsource = \"builtin:none\"\n")
	err = WithPlugins(t.Context(), l.Config, err)
	for _, want := range []string{":2: server.payload_limit must be", ":9:1: plugin.config.tries: ",
		":11: plugin[1].name must not be auto"} {
		if err == nil || strings.Count(err.Error(), file+want) != 1 {
			t.Errorf("%s: %v", want, err)
		}
	}
	if strings.Contains(err.Error(), "none") { // its block is told of above
		t.Error(err)
	}
}
