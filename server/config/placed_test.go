package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// readText reads a file of settings, and what flags say.
func readText(t *testing.T, text string, flags ...string) (Loaded, error) {
	t.Helper()
	file := filepath.Join(t.TempDir(), "tgi.toml")
	if err := os.WriteFile(file, []byte(text), 0o644); err != nil {
		t.Fatal(err)
	}
	l, err := Read(parsed(t, append(flags, "--config="+file)...), func(string) (string, bool) { return "", false })
	return l, shorter(err, filepath.Dir(file)+"/")
}

// shorter is an error without the folder of its file.
func shorter(err error, dir string) error {
	if err == nil {
		return nil
	}
	return textError(strings.ReplaceAll(err.Error(), dir, ""))
}

type textError string

func (e textError) Error() string { return string(e) }

// TestRangeErrorsHaveLines: an error about a key of the file names its line, be the key of a block or missing in it,
// and one about a flag does not.
func TestRangeErrorsHaveLines(t *testing.T) {
	const text = `[server]
port = 3000

payload_limit = 0
admin_port = 4000
api_keys = ["a", "b c"]
[plugins]
upload_limit = 0
[[plugin]]

name = "auto"
`
	const want = `tgi.toml:6: server.api_keys[1] must be neither empty nor hold white space
tgi.toml:5: server.admin_port wants a key that is let in there: server.admin_keys, or [[key]] with the scope admin; given 4000
tgi.toml:4: server.payload_limit must be >= 1 and <= 1099511627776, given 0
limits.max_best_of must be >= 1 and <= 1048576, given 0
tgi.toml:8: plugins.upload_limit must be >= 1B and <= 1GiB, given 0B or auto
tgi.toml:11: plugin[0].name must not be auto: that is what [model] stands for
tgi.toml:11: plugin[0].source must name a file or builtin:NAME, given ""`
	if _, err := readText(t, text, "--max-best-of=0"); err == nil || err.Error() != want {
		t.Errorf("got\n%v\nwant\n%s", err, want)
	}
}

// TestAdminPortWantsKey: a port that lets nobody in is refused, and one for a key with the scope is not.
func TestAdminPortWantsKey(t *testing.T) {
	for text, ok := range map[string]bool{
		"":                   false,
		`api_keys = ["a"]`:   false,
		`admin_keys = ["a"]`: true,
		"[[key]]\nname = \"a\"\nkey = \"b\"\nscopes = [\"models\"]": false,
		"[[key]]\nname = \"a\"\nkey = \"b\"\nscopes = [\"admin\"]":  true,
	} {
		if _, err := readText(t, "[server]\nadmin_port = 4000\n"+text); (err == nil) != ok {
			t.Errorf("%s: %v", text, err)
		}
	}
}

// TestDoubts: what is probably a slip is noticed, with its line or flag, and what is there is not.
func TestDoubts(t *testing.T) {
	folder := t.TempDir()
	if err := os.MkdirAll(filepath.Join(folder, "a", "b"), 0o755); err != nil {
		t.Fatal(err)
	}
	key := func(models string) string {
		return "[[key]]\nname = \"k\"\nkey = \"x\"\nscopes = [\"generate\"]\nmodels = [" + models + "]\n"
	}
	at := "[models]\nfolder = \"" + folder + "\"\n"
	for _, c := range []struct {
		text  string
		flags []string
		want  string
	}{
		{at + key(`"tgi-demo", "a/b"`), nil, ""},
		{at + key(`"tgi-demo", "a/c"`), nil, `tgi.toml:7: key[0].models[1] has no effect: there is no model and no adapter "a/c" yet`},
		{"[[model]]\nname = \"one\"\n" + at + key(`"one", "tgi-demo"`), nil,
			`tgi.toml:9: key[0].models[1] has no effect: there is no model and no adapter "tgi-demo" yet`},
		{"", nil, ""},
		{"[models]\ndefault = \"none\"\n", nil, `tgi.toml:2: models.default: there is no model and no adapter "none" yet: ` +
			`requests that name no model are refused`},
		{"[models]\ndefault = \"tgi-demo\"\n", nil, ""},
		{"[server]\ncors_allow_origin = [\"null\", \"http://localhost:80\", \"a.example\"]\n", nil,
			`tgi.toml:2: server.cors_allow_origin[2] has no effect: no page has the origin "a.example": they are like ` +
				`https://example.com and http://localhost:8080, and the empty list is all`},
		{"[model]\nplugins = [\"grammar\", \"a\", \"b\"]\n[[plugin]]\nname = \"a\"\nsource = \"builtin:dry\"\n", nil,
			`tgi.toml:2: model.plugins[2] has no effect: there is no plugin "b" yet; one that is built ` +
				`in becomes one by a block [[plugin]] with source = "builtin:NAME"`},
		{key(`"tgi-demo"`) + "plugins = [\"a-*\", \"a\"]\n", nil,
			`tgi.toml:6: key[0].plugins[1] has no effect: there is no plugin "a" yet; one that is built ` +
				`in becomes one by a block [[plugin]] with source = "builtin:NAME"`},
		{"", []string{"--plugins-folder=" + folder}, ""},
		{"", []string{"--plugins-folder=" + folder + "/none"},
			`--plugins-folder: there is no folder "` + folder + `/none" yet: plugins of it are loaded when it is there`},
		{"[plugins]\nfolder = \"" + folder + "/none\"\nwatch = \"0s\"", nil,
			`tgi.toml:2: plugins.folder: there is no folder "` + folder + `/none" yet: plugins of it are loaded at the ` +
				`first reload when it is there`},
		{"[plugins]\nfolder = \"plugins\"", nil, // as it is without, so that nothing is lost
			`tgi.toml:2: plugins.folder: there is no folder "plugins" yet: plugins of it are loaded when it is there`},
	} {
		l, err := readText(t, c.text, c.flags...)
		got := ""
		for _, n := range l.Notices {
			got += n.String()
		}
		got = strings.ReplaceAll(got, filepath.Dir(l.Config.File)+"/", "")
		if err != nil || got != c.want {
			t.Errorf("%s %v: %v\n got %s\nwant %s", c.text, c.flags, err, got, c.want)
		}
	}
	t.Chdir(t.TempDir())
	if err := os.Mkdir("plugins", 0o755); err != nil {
		t.Fatal(err)
	}
	got := ""
	l, err := Read(parsed(t, "--plugins-folder=none"), func(string) (string, bool) { return "", false })
	for _, n := range l.Notices {
		got += n.String()
	}
	if err != nil || !strings.HasSuffix(got, `; plugins of "plugins" are not, as they would be without this setting`) {
		t.Errorf("%s, %v", got, err)
	}
}
