package config

import (
	"reflect"
	"strings"
	"testing"

	"github.com/pelletier/go-toml/v2"
)

var aLock = Lock{Name: "ban", Source: "plugins/installed/ban-1.wasm", SHA256: strings.Repeat("ab", 32),
	Reference: "127.0.0.1:5000/ban:1@sha256:" + strings.Repeat("cd", 32)}

const lockedKeys = `source = "plugins/installed/ban-1.wasm"
sha256 = "abababababababababababababababababababababababababababababababab"
reference = "127.0.0.1:5000/ban:1@sha256:cdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcdcd"
`

// TestSetLock: what the lock does not say stays, byte by byte.
func TestSetLock(t *testing.T) {
	rest := strings.TrimPrefix(lockedKeys, "source = \"plugins/installed/ban-1.wasm\"\n")
	for _, c := range []struct{ name, text, want string }{
		{"empty", "", "[[plugin]]\nname = \"ban\"\n" + lockedKeys},
		{"no line end", "[server]\nport = 1 # one", "[server]\nport = 1 # one\n\n[[plugin]]\nname = \"ban\"\n" + lockedKeys},
		{"another plugin", "# top\n[[plugin]]\nname = \"x\"\nsource = \"x.wasm\"\n[plugin.config]\nban = 1\n",
			"# top\n[[plugin]]\nname = \"x\"\nsource = \"x.wasm\"\n[plugin.config]\nban = 1\n\n[[plugin]]\nname = \"ban\"\n" +
				lockedKeys},
		{"update", "[[plugin]] # p\n  source = 'old.wasm' # from a file\n  name = \"ban\" # the name\n" +
			"  apply = \"always\"\n# below\n[plugin.limits]\nmemory = \"1MiB\"\n[server]\nport = 1\n",
			"[[plugin]] # p\n  source = \"plugins/installed/ban-1.wasm\" # from a file\n  name = \"ban\" # the name\n" +
				"  " + strings.ReplaceAll(strings.TrimSuffix(rest, "\n"), "\n", "\n  ") +
				"\n  apply = \"always\"\n# below\n[plugin.limits]\nmemory = \"1MiB\"\n[server]\nport = 1\n"},
		{"no line end in block", "[[plugin]]\nsource = \"\"\"\nold\"\"\"\nname = \"ban\"",
			"[[plugin]]\nsource = \"plugins/installed/ban-1.wasm\"\nname = \"ban\"\n" + strings.TrimSuffix(rest, "\n")},
		{"keys in upper case", "[[Plugin]]\nNAME = \"ban\"\nSOURCE = \"a\"\nSHA256 = \"\"\nReference = \"\"\n",
			"[[Plugin]]\nNAME = \"ban\"\nSOURCE = \"plugins/installed/ban-1.wasm\"\nSHA256 = \"" + aLock.SHA256 +
				"\"\nReference = \"" + aLock.Reference + "\"\n"},
		{"lines of Windows", "[[plugin]]\r\nname = \"x\"\r\n", "[[plugin]]\r\nname = \"x\"\r\n\r\n[[plugin]]\r\n" +
			"name = \"ban\"\r\n" + strings.ReplaceAll(lockedKeys, "\n", "\r\n")},
	} {
		t.Run(c.name, func(t *testing.T) {
			got, err := SetLock([]byte(c.text), aLock)
			if err != nil || string(got) != c.want {
				t.Errorf("%v:\n%s\nwanted:\n%s", err, got, c.want)
			}
			again, err := SetLock(got, aLock)
			if err != nil || string(again) != string(got) {
				t.Errorf("a second time: %v:\n%s", err, again)
			}
		})
	}
	for _, text := range []string{"plugin = [{name = \"ban\", source = \"a\"}]\n", "plugin = []\n", "[[plugin]\n",
		"[plugin]\nname = \"ban\"\n"} {
		if got, err := SetLock([]byte(text), aLock); err == nil {
			t.Errorf("%q became %q", text, got)
		}
	}
}

// TestUnlock: the block goes, with the tables below it; comments of its neighbours stay.
func TestUnlock(t *testing.T) {
	const text = "# top\n[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n\n# about ban\n[[plugin]]\nname = \"ban\"\n" +
		"# inside\nsource = \"b.wasm\"\n[plugin.config]\nn = [\n  1, # one\n]\n\n# about the server\n[server]\nport = 1\n"
	got, err := Unlock([]byte(text), "ban")
	const want = "# top\n[[plugin]]\nname = \"a\"\nsource = \"a.wasm\"\n\n# about ban\n\n# about the server\n[server]\nport = 1\n"
	if err != nil || string(got) != want {
		t.Errorf("%v:\n%s\nwanted:\n%s", err, got, want)
	}
	if _, err := Unlock(got, "ban"); err == nil || !strings.Contains(err.Error(), `name = "ban"`) {
		t.Error(err)
	}
	locked, err := SetLock([]byte(want), aLock)
	if err != nil {
		t.Fatal(err)
	}
	if got, err := Unlock(locked, "ban"); err != nil || strings.TrimRight(string(got), "\n") !=
		strings.TrimRight(want, "\n") {
		t.Errorf("%v: %q", err, got)
	}
}

// FuzzLock: an edit either is refused, or says what was wanted and nothing else, and can be taken back.
func FuzzLock(f *testing.F) {
	for _, text := range []string{"", "a = 1", "[[plugin]]\nname = \"ban\"", "[[plugin]]\nname='x'\n[plugin.config]\nn=1\n",
		"plugin = [{name=\"ban\"}]", "[[plugin]]\r\nname=\"ban\"\r\nsource=\"a\"\r\n#c", "[[\"plugin\"]]\n\"name\" = 'ban'\n",
		"[[plugin]]\nname = \"ban\"\nconfig = {a = [1, {b = 2}]}\n[[plugin.x]]\n", "[a.plugin]\n[[plugin]]\nconfig.n=1\n"} {
		f.Add(text, "ban", "a.wasm")
	}
	f.Fuzz(func(t *testing.T, text, name, source string) {
		l := Lock{Name: name, Source: source, SHA256: "00", Reference: "r"}
		out, err := SetLock([]byte(text), l)
		if err != nil {
			return
		}
		var before, after map[string]any
		if toml.Unmarshal([]byte(text), &before) != nil || toml.Unmarshal(out, &after) != nil {
			t.Fatalf("%q became %q", text, out)
		}
		delete(before, "plugin")
		delete(after, "plugin")
		if len(before)+len(after) > 0 && !reflect.DeepEqual(before, after) {
			t.Errorf("%q became %q", text, out)
		}
		if _, err := Unlock(out, name); err != nil {
			t.Errorf("%q: %v", out, err)
		}
	})
}
