package config

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestCheckPaths: what settings name and is not there, or is something else, is found with its line, all of it at once;
// a folder that is made when it is needed may be missing.
func TestCheckPaths(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"file", "there.wasm", "there.pem"} {
		if err := os.WriteFile(filepath.Join(dir, name), nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	t.Setenv("XDG_DATA_HOME", dir)
	t.Setenv("PATH", dir)
	program := filepath.Join(dir, "program")
	if err := os.WriteFile(program, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	check := func(text string, flags ...string) string {
		t.Helper()
		file := filepath.Join(dir, "tgi.toml")
		if err := os.WriteFile(file, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		l, err := Read(parsed(t, append(flags, "--config="+file)...), func(string) (string, bool) { return "", false })
		if err == nil {
			err = l.Config.CheckPaths()
		}
		if err == nil {
			return ""
		}
		return strings.ReplaceAll(err.Error(), dir+"/", "")
	}
	sound := `[models]
folder = "new"
[record]
folder = "new/deep"
[runtime]
kv_disk = "new"
[server]
tls_cert = "there.pem"
tls_key = "there.pem"
[[plugin]]
name = "a"
source = "there.wasm"
[[plugin]]
name = "b"
source = "gone.wasm"
on_error = "skip"
[[plugin]]
name = "c"
source = "builtin:gone"
[[mcp]]
name = "m"
command = ["program"]
[[mcp]]
name = "n"
command = ["./program"]
folder = "."
`
	if got := check(sound); got != "" {
		t.Errorf("sound: %s", got)
	}
	for text, want := range map[string]string{
		"[models]\nfolder = \"file\"":                      `:2:1: models.folder: "file" is a file, a folder is wanted`,
		"[plugins]\nfolder = \"file\"":                     `:2:1: plugins.folder: "file" is a file, a folder is wanted`,
		"[plugins]\nuploads = \"file\"":                    `:2:1: plugins.uploads: "file" is a file, a folder is wanted`,
		"[plugins]\ninstalled = \"file\"":                  `:2:1: plugins.installed: "file" is a file, a folder is wanted`,
		"[runtime]\nkv_disk = \"file\"":                    `:2:1: runtime.kv_disk: "file" is a file, a folder is wanted`,
		"[record]\nfolder = \"file/deep\"":                 `:2:1: record.folder: "file/deep": not a directory`,
		"[batches]\nfolder = \"file\"":                     `:2:1: batches.folder: "file" is a file, a folder is wanted`,
		"[runtime]\nort_lib = \"gone.so\"":                 `:2:1: runtime.ort_lib: there is no file "gone.so"`,
		"[model]\npath = \"gone\"":                         `:2:1: model.path: there is no folder or file "gone"`,
		"[model]\ntemplate = \"gone.jinja\"":               `:2:1: model.template: there is no file "gone.jinja"`,
		"[model]\ntools = \"gone.json\"":                   `:2:1: model.tools: there is no file "gone.json"`,
		"[[model]]\nname = \"a\"\n":                        `:2:1: model[0].name: there is no model "a" in the models folder "tgi/models": `,
		"[[model.adapter]]\nname = \"a\"":                  `:2:1: model.adapter[0].name: "a": there is no folder "tgi/models/a"`,
		"[[model.adapter]]\nname = \"a\"\npath = \"gone\"": `:3:1: model.adapter[0].path: "a": there is no folder "gone"`,
		"[[plugin]]\nname = \"a\"\nsource = \"gone\"":      `:3:1: plugin[0].source: there is no file "gone"`,
		"[[plugin_signer]]\nname = \"a\"\npublic_key = \"gone\"": `:3:1: plugin_signer[0].public_key: there is no file ` +
			`"gone"`,
		"[[mcp]]\nname = \"a\"\ncommand = [\"gone\"]":                       `:3:1: mcp[0].command: exec: "gone": executable file not found`,
		"[[mcp]]\nname = \"a\"\nfolder = \"gone\"\ncommand = [\"program\"]": `:3:1: mcp[0].folder: there is no folder "gone"`,
	} {
		if got := check(text); !strings.HasPrefix(got, "tgi.toml"+want) || strings.Contains(got, "\n") {
			t.Errorf("%s:\n got %s\nwant tgi.toml%s", text, got, want)
		}
	}
	got := check("[server]\ntls_cert = \"gone\"\ntls_key = \"file\"\n[record]\nfolder = \"new\"", "--record-folder",
		filepath.Join(dir, "file"))
	if want := "--record-folder: record.folder: \"file\" is a file, a folder is wanted\ntgi.toml:2:1: server.tls_cert: there " +
		"is no file \"gone\""; got != want {
		t.Errorf("got\n%s\nwant\n%s", got, want)
	}
}
