package main

import (
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"strings"
	"testing"
)

// TestPluginOfServer: list, show and rollback say of a server what it has, and refuse what is of the settings here.
func TestPluginOfServer(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	t.Setenv("ADMIN_KEY", "k, other")
	web := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		const dog = `{"name":"dog","version":"2","kinds":["logits"],"state":"ready","apply":"request","sha256":"ab",
			"source":"upload","on_error":"fail","faults":{}}`
		switch {
		case r.Header.Get("Authorization") != "Bearer k":
			w.WriteHeader(http.StatusUnauthorized)
		case r.URL.Path == "/admin/plugins":
			_, _ = w.Write([]byte(`{"plugins":[` + dog + `]}`))
		case strings.HasSuffix(r.URL.Path, "/versions"):
			_, _ = w.Write([]byte(`{"versions":[{"sha256":"ab"}]}`))
		case strings.HasSuffix(r.URL.Path, "/canary"):
			w.WriteHeader(http.StatusNotFound)
		case r.Method == http.MethodDelete:
			w.WriteHeader(http.StatusNoContent)
		default:
			_, _ = w.Write([]byte(dog))
		}
	}))
	defer web.Close()
	plugin := func(code int, args ...string) (out, said string) {
		t.Helper()
		return runTgi(t, code, append([]string{"plugin"}, args...)...)
	}
	out, _ := plugin(0, "list", "--url", web.URL)
	contains(t, out, "NAME", "dog   2        logits  ready  request  0      upload\n")
	out, _ = plugin(0, "list", "--url", web.URL, "--json")
	contains(t, out, `"plugins": [`, `"name": "dog"`)
	out, _ = plugin(0, "show", "dog", "--url", web.URL)
	contains(t, out, "plugin     dog 2\n", "from       upload\n")
	out, _ = plugin(0, "show", "dog", "--url", web.URL, "--output", "json")
	contains(t, out, `"sha256": "ab"`)
	_, said := plugin(1, "list", "--url", web.URL, "--key", "wrong")
	contains(t, said, "401 Unauthorized; --key wants one of server.admin_keys")
	for _, command := range [][]string{{"list"}, {"show", "dog"}} {
		_, said = plugin(2, append(command, "--key", "k")...)
		contains(t, said, "--key belongs to the server at --url")
		_, said = plugin(2, append(command, "--url", web.URL, "--plugins-folder", "x")...)
		contains(t, said, "--plugins-folder is of the settings here")
		_, said = plugin(2, append(command, "--url", "x")...)
		contains(t, said, "is no URL of a server")
	}

	out, said = plugin(0, "rollback", "dog", "--url", web.URL)
	contains(t, out, `dog: version "2", sha256 ab, serves again at `+web.URL)
	if said != "" {
		t.Error(said)
	}
	out, _ = plugin(0, "rm", "dog", "--url", web.URL)
	contains(t, out, "dog: removed from "+web.URL)
	out, _ = plugin(0, "rm", "dog", "--url", web.URL, "--json")
	contains(t, out, `"removed": "dog"`)
	for _, command := range []string{"rollback", "rm"} {
		_, said = plugin(2, command, "dog", "--url", web.URL, "--config", "tgi.toml")
		contains(t, said, "--config is of the settings here, --url and --key are of a server")
	}
}

// TestPluginHere: commands that change the settings say so, and name the files that they change and remove.
func TestPluginHere(t *testing.T) {
	t.Chdir(t.TempDir())
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	sum := strings.Repeat("ab", 32)
	module, past := filepath.Join("plugins", "installed", "dog-"+sum[:16]+".wasm"),
		filepath.Join("plugins", "installed", "dog.past.json")
	if err := os.MkdirAll(filepath.Dir(module), 0o700); err != nil {
		t.Fatal(err)
	}
	for name, text := range map[string]string{module: "", past: "[]", "none.toml": "", "tgi.toml": "[[plugin]]\n" +
		"name = \"dog\"\nsource = \"" + module + "\"\nsha256 = \"" + sum + "\"\nreference = \"registry.example/dog:1\"\n"} {
		if err := os.WriteFile(name, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	_, said := runTgi(t, 1, "plugin", "rollback", "dog")
	contains(t, said, "tgi.toml locks dog to registry.example/dog:1", "no server is asked",
		"no reference is kept that this replaced")
	_, said = runTgi(t, 1, "plugin", "rollback", "dog", "--config", "none.toml")
	contains(t, said, "none.toml has no [[plugin]] dog from a registry; --url asks a server")
	for _, command := range [][]string{{"rollback", "dog"}, {"rm", "dog"}, {"install", "registry.example/dog:1"}} {
		_, said = runTgi(t, 2, append(append([]string{"plugin"}, command...), "--config", "-")...)
		contains(t, said, "--config -: the command changes the file of the settings: name one")
	}
	out, _ := runTgi(t, 0, "plugin", "rm", "dog")
	contains(t, out, "removed [[plugin]] dog from tgi.toml\n", "removed "+module+"\n", "removed "+past+"\n")
	for _, file := range []string{module, past} {
		if _, err := os.Lstat(file); err == nil {
			t.Errorf("%s is there", file)
		}
	}
	_, said = runTgi(t, 1, "plugin", "rm", "dog")
	contains(t, said, "no [[plugin]] has this name", "--url removes an upload from a server")
	_, said = runTgi(t, 2, "plugin", "rm", "dog", "--json")
	contains(t, said, "--json is of a server's reply")
	for to, want := range map[string]string{".": ". is a path of this machine", "./out": "is a path of this machine",
		"/srv/plugins": "is a path of this machine", "plugins": "plugins is a path",
		"no-registry": "want REGISTRY/NAME:TAG"} {
		_, said = runTgi(t, 2, "plugin", "push", "dog.wasm", to)
		contains(t, said, want)
	}
	_, said = runTgi(t, 2, "plugin", "push", "plugins", "registry.example/dog")
	contains(t, said, "plugins is a folder: tgi plugin build")
}
