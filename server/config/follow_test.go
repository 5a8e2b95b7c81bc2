package config

import (
	"maps"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/runtime/filestamp"
)

// guarded is a file with a guard for one key and one for all.
const guarded = `[server]
admin_keys = ["a"]
[[key]]
name = "school"
key = "s"
scopes = ["generate"]
plugins = ["dry"]
[[plugin]]
name = "dry"
source = "builtin:dry"
[[plugin]]
name = "privacy"
source = "builtin:redact"
apply = "always"
keys = ["school"]
[[plugin]]
name = "words"
source = "builtin:banned-words"
apply = "always"
[plugin.config]
words = ["x"]
case_sensitive = true
`

// TestReloadOfPart: no part of a file takes plugins away. What nobody asked for must not look like a part, what
// somebody did may be anything but without a plugin on which a key rests that goes on.
func TestReloadOfPart(t *testing.T) {
	file := filepath.Join(t.TempDir(), "tgi.toml")
	write := func(text string) {
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	nothing := func(string) (string, bool) { return "", false }
	flags := parsed(t, "--config", file)
	write(guarded)
	running, err := load(flags, nothing)
	if err != nil {
		t.Fatal(err)
	}
	without := func(texts ...string) string {
		out := guarded
		for _, text := range texts {
			if !strings.Contains(out, text) {
				t.Fatalf("there is no %q", text)
			}
			out = strings.Replace(out, text, "", 1)
		}
		return out
	}
	const (
		school  = "[[key]]\nname = \"school\"\nkey = \"s\"\nscopes = [\"generate\"]\nplugins = [\"dry\"]\n"
		dry     = "[[plugin]]\nname = \"dry\"\nsource = \"builtin:dry\"\n"
		privacy = "[[plugin]]\nname = \"privacy\"\nsource = \"builtin:redact\"\napply = \"always\"\nkeys = [\"school\"]\n"
	)
	for _, c := range []struct{ name, text, seen, asked string }{
		{"the same", guarded, "", ""},
		{"empty", "", "it holds no setting", "it holds no setting"},
		{"white space", " \n\t\r\n", "it holds no setting", "it holds no setting"},
		{"comments", "# [server]\n  # port = 1\n", "it holds no setting", "it holds no setting"},
		{"cut within a plugin's settings", without("case_sensitive = true\n"), "cut after line 21", ""},
		{"cut, and the end of a line with it", without("\ncase_sensitive = true\n"), "cut after line 21", ""},
		{"cut at a table", guarded[:strings.Index(guarded, "[[plugin]]\nname = \"words")], "cut after line 15", ""},
		{"cut behind the keys", guarded[:strings.Index(guarded, "[[plugin]]")], "cut after line 7",
			`plugin "dry" is not in it any more, and key "school" names it (key.plugins)`},
		{"cut before the keys", guarded[:strings.Index(guarded, "[[key]]")], "cut after line 2",
			`plugin "dry" is not in it any more, and key "school" names it`},
		{"another file, cut", "# new\n" + guarded[:strings.Index(guarded, "[[plugin]]\nname = \"words")],
			`plugin "words" with apply = "always" is not in it any more`, ""},
		{"another file, cut within a plugin", "# new\n" + guarded[:strings.LastIndex(guarded, "apply =")],
			`plugin[2].apply is left out, and plugin "words" runs with apply = "always"`, ""},
		{"another file, cut within a plugin's settings", "# new\n" + without("case_sensitive = true\n"),
			`plugin[2].config.case_sensitive is left out, plugin "words" runs with it`, ""},
		{"another file, cut before a plugin's settings", "# new\n" + guarded[:strings.Index(guarded, "[plugin.config]")],
			`plugin[2].config is left out, plugin "words" runs with it`, ""},
		{"another file, cut at the last end of a line", "# new\n" + strings.TrimSuffix(guarded, "\n"),
			"line 23, its last, does not end", ""},
		{"a setting that another plugin follows", without("keys = [\"school\"]\n"), "", ""},
		{"the settings in another form", without("[plugin.config]\nwords = [\"x\"]\ncase_sensitive = true\n") +
			"config = {case_sensitive = false, words = [\"y\"]}\n", "", ""},
		{"a plugin more", guarded + "[[plugin]]\nname = \"more\"\nsource = \"builtin:dry\"\n", "", ""},
		{"a table behind the last plugin", without("case_sensitive = true\n") + "[plugins]\nwatch = \"2s\"\n", "", ""},
		{"no longer always, said so", strings.Replace(guarded, "apply = \"always\"\n[plugin.config]",
			"apply = \"request\"\n[plugin.config]", 1), "", ""},
		{"a key without its guard", without(privacy), `plugin "privacy" with apply = "always" is not in it`, ""},
		{"a key goes, and its guard", without(school, privacy), `plugin "privacy" with apply = "always"`,
			`plugin "privacy" applies always for key "school", which is not in it any more and lets clients in until`},
		{"a key goes, and its guard is no more always", strings.Replace(without(school),
			"apply = \"always\"\nkeys = [\"school\"]", "apply = \"request\"", 1),
			`plugin "privacy" applies always for key "school"`, `plugin "privacy" applies always for key "school"`},
		{"a key goes, its guard stays for all", without(school, "keys = [\"school\"]\n"), "", ""},
		{"a plugin that a key names", without(dry), `key "school" names it`, `key "school" names it`},
		{"a plugin, and its name in the key", without(dry, "plugins = [\"dry\"]\n"), "", ""},
	} {
		write(c.text)
		stamp := filestamp.Of(file)
		for by, seen := range map[string]*filestamp.Stamp{"seen": &stamp, "asked": nil} {
			want := c.seen
			if seen == nil {
				want = c.asked
			}
			next, _, err := Reload(running, flags, nothing, seen)
			switch {
			case want == "" && err != nil, want != "" && err == nil:
				t.Errorf("%s, %s: got %v, want %q", c.name, by, err, want)
			case err != nil && (!strings.Contains(err.Error(), want) || !strings.Contains(err.Error(), file)):
				t.Errorf("%s, %s: got %v, want %q", c.name, by, err, want)
			case err == nil && next.text != c.text:
				t.Errorf("%s, %s: what runs is not the file", c.name, by)
			}
		}
	}

	// What was seen to be steady is not what is read.
	write(guarded)
	stamp := filestamp.Of(file)
	write(guarded + "# more\n")
	if _, _, err := Reload(running, flags, nothing, &stamp); err == nil ||
		!strings.Contains(err.Error(), "it changed while it was read") {
		t.Errorf("a file that changed: %v", err)
	}

	// As `tgi plugin rm` leaves it: whole plugins at the end are gone that apply by request.
	const requested = "[[plugin]]\nname = \"a\"\nsource = \"builtin:dry\"\n# of b\n[[plugin]]\nname = \"b\"\n" +
		"source = \"builtin:dry\"\n"
	write(guarded + requested)
	if running, err = load(flags, nothing); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{
		guarded: "",
		guarded + requested[:strings.Index(requested, "[[plugin]]\nname = \"b")]: "",
		strings.TrimSpace(guarded):         "does not end",
		without("case_sensitive = true\n"): "cut after line 21",
	} {
		write(text)
		stamp := filestamp.Of(file)
		if _, _, err := Reload(running, flags, nothing, &stamp); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%d bytes of %d: got %v, want %q", len(text), len(guarded+requested), err, want)
		}
	}

	write(guarded + requested + "[plugins]\nwatch = \"2s\"\n")
	if running, err = load(flags, nothing); err != nil {
		t.Fatal(err)
	}
	write(guarded)
	stamp = filestamp.Of(file)
	if _, _, err := Reload(running, flags, nothing, &stamp); err == nil || !strings.Contains(err.Error(), "cut after") {
		t.Errorf("a setting behind them is gone: %v", err)
	}

	write("# mine\n" + requested)
	if running, err = load(flags, nothing); err != nil {
		t.Fatal(err)
	}
	for text, want := range map[string]string{"": "", "# mine\n": "", "# mine": "does not end"} {
		write(text)
		stamp = filestamp.Of(file)
		if _, _, err := Reload(running, flags, nothing, &stamp); want == "" && err != nil ||
			want != "" && (err == nil || !strings.Contains(err.Error(), want)) {
			t.Errorf("%q of plugins alone: got %v, want %q", text, err, want)
		}
	}

	// A server that began without settings may go on so.
	write("# nothing\n")
	if running, err = load(flags, nothing); err != nil {
		t.Fatal(err)
	}
	write("")
	if _, _, err := Reload(running, flags, nothing, nil); err != nil {
		t.Errorf("an empty file for one without settings: %v", err)
	}
}

// TestLinesOfNestedLists: keys of lists of tables within lists have the indexes of both.
func TestLinesOfNestedLists(t *testing.T) {
	got := lines([]byte("[[plugin]]\n[[plugin.config.rules]]\na = 1\n[[plugin]]\n[[plugin.config.rules]]\na = 1\n" +
		"[[plugin.config.rules]]\na = {b = 1}\n[plugin.config.rules.c]\nd = 1\n[plugin.limits]\nshare = 1\n"))
	want := map[string]int{"plugin[0].config.rules[0].a": 3, "plugin[1].config.rules[0].a": 6,
		"plugin[1].config.rules[1].a": 8, "plugin[1].config.rules[1].a.b": 8, "plugin[1].config.rules[1].c": 9,
		"plugin[1].config.rules[1].c.d": 10, "plugin[1].limits": 11, "plugin[1].limits.share": 12}
	if !maps.Equal(got, want) {
		t.Errorf("got %v, want %v", got, want)
	}
}
