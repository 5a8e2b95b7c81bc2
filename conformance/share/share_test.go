package share

import (
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/live"
)

// signed makes keys, a project and a signed module, the way the documentation says.
func signed(w *world) {
	w.must("", "tgi plugin sign --generate team", "team.key, which is secret")
	w.must("", "tgi plugin new --lang go ban-some", "plugin build")
	w.must("ban-some", "tgi plugin build", "sound")
	w.must("ban-some", "tgi plugin sign ban-some.wasm --key ../team.key --license MIT", "signed ban-some 0.1.0")
}

// server writes the settings of one that names the signer.
func (w *world) server(name string) {
	w.write(name+"/tgi.toml", "# mine\n[server]\nport = 0\n\n[plugins]\nwatch = \"100ms\"\n\n"+
		"[[plugin_signer]] # who we trust\nname = \"team\"\npublic_key = \"../team.pub\"\n")
}

// info is what GET /info says of plugins.
type info struct {
	Plugins []struct{ Name, State, SHA256, Error string }
}

// loaded is the digest of the module that a server serves under a name, "" for none.
func (w *world) loaded(url, name string) string {
	w.t.Helper()
	var i info
	w.ask(url+"/info", "", &i)
	for _, p := range i.Plugins {
		if p.Name == name && p.State == "ready" {
			return p.SHA256
		}
	}
	return ""
}

// says is the reply to a chat with the plugin, which denies some tokens.
func (w *world) says(url string, ban []uint32) string {
	w.t.Helper()
	var reply struct {
		Choices []struct{ Message struct{ Content string } }
	}
	ids := strings.ReplaceAll(fmt.Sprint(ban), " ", ",")
	w.ask(url+"/v1/chat/completions", `{"temperature": 0, "plugins": [{"name": "ban-some", "params": {"ban": `+ids+`}}],
		"messages": [{"role": "user", "content": "What is three plus four?"}]}`, &reply)
	return reply.Choices[0].Message.Content
}

var lockOf = regexp.MustCompile(`sha256 = "([0-9a-f]{64})"`)

// TestShare: from a new project to a second server that uses the plugin, which it takes while it runs.
func TestShare(t *testing.T) {
	w := newWorld(t, false)
	signed(w)
	w.must("ban-some", "tgi plugin push ban-some.wasm $R/plugins/ban-some --plain-http",
		"pushed $R/plugins/ban-some:0.1.0", "1 signature\n")
	w.must("ban-some", "tgi plugin show $R/plugins/ban-some:0.1.0 --plain-http", "ban-some 0.1.0", "logits", "MIT")

	w.server("second")
	server := live.Serve(t, w.path("second/tgi.toml"))
	if w.loaded(server.URL, "ban-some") != "" {
		t.Fatal("it has the plugin already")
	}
	w.must("second", "tgi plugin install $R/plugins/ban-some:0.1.0 --plain-http", "signed by team", "tgi.toml")
	settings := w.read("second/tgi.toml")
	if !strings.HasPrefix(settings, "# mine\n") || !strings.Contains(settings, "# who we trust") {
		t.Errorf("comments are gone:\n%s", settings)
	}
	lock := lockOf.FindStringSubmatch(settings)[1]
	w.until("the server loads it", func() bool { return w.loaded(server.URL, "ban-some") == lock })
	var tokens []struct{ ID uint32 }
	w.ask(server.URL+"/tokenize", `{"inputs": "3 plus 4 is 7."}`, &tokens)
	var ids []uint32
	for _, token := range tokens {
		ids = append(ids, token.ID)
	}
	plain, banned := w.says(server.URL, []uint32{}), w.says(server.URL, ids)
	if !strings.Contains(plain, "7") || banned == plain || strings.Contains(banned, "7") {
		t.Errorf("without bans it says %q, with them %q", plain, banned)
	}
	w.must("second", "tgi plugin list", "plugins/installed/ban-some-"+lock[:16]+".wasm", "$R/plugins/ban-some:0.1.0@")
	w.must("second", "tgi plugin show ban-some", "signers of the settings: team")
	w.must("second", "tgi plugin verify ban-some", "is signed by team")

	// The tag moves to another artefact, signed as well: the server keeps what is locked.
	w.must("ban-some", "rm ban-some.wasm.artifact.json")
	w.must("ban-some", "tgi plugin sign ban-some.wasm --key ../team.key --license Apache-2.0")
	push := "tgi plugin push ban-some.wasm $R/plugins/ban-some:0.1.0 --plain-http"
	w.refused("ban-some", push, "names another artefact")
	w.must("ban-some", push+" --move-tag")
	if now := w.read("second/tgi.toml"); now != settings {
		t.Errorf("the lock changed:\n%s", now)
	}
	reference := regexp.MustCompile(`reference = "(.*)"`).FindStringSubmatch(settings)[1]
	w.must("second", "tgi plugin install "+reference+" --plain-http")
	if now := w.read("second/tgi.toml"); now != strings.Replace(settings, ":0.1.0@", "@", 1) {
		t.Errorf("the locked artefact is another one:\n%s", now)
	}

	// A new version, and back, without a registry; the server takes both.
	rollBack(w, server.URL, lock)

	w.must("second", "tgi plugin rm ban-some", "removed [[plugin]] ban-some")
	now := w.read("second/tgi.toml")
	if strings.Contains(now, "[[plugin]]") || !strings.Contains(now, "# who we trust") {
		t.Errorf("%s", now)
	}
	w.until("the server unloads it", func() bool { return w.loaded(server.URL, "ban-some") == "" })

	// What was pulled is installed without the registry, by its digest.
	w.must("second", "tgi plugin pull $R/plugins/ban-some:0.2.0 --plain-http", "signed by team")
	w.stop()
	install := "tgi plugin install $R/plugins/ban-some:0.2.0"
	w.refused("second", install+" --plain-http", "refused", "tgi plugin install $R/plugins/ban-some@sha256:")
	out, _ := w.run("second", install+" --plain-http")
	digest := regexp.MustCompile(`@sha256:[0-9a-f]{64}`).FindString(out)
	w.must("second", install+digest, "signed by team", "tgi.toml")
	w.until("the server loads it", func() bool { return w.loaded(server.URL, "ban-some") != "" })
}

// rollBack installs another build of the plugin on the second server, and has it use the one before again.
func rollBack(w *world, url, lock string) {
	w.t.Helper()
	w.must("", "cp -r ban-some newer")
	w.must("newer", "rm ban-some.wasm.artifact.json")
	main := w.read("newer/main.go")
	w.write("newer/main.go", strings.Replace(main, `"0.1.0"`, `"0.2.0"`, 1))
	w.must("newer", "tgi plugin build", "sound")
	w.must("newer", "tgi plugin sign ban-some.wasm --key ../team.key", "signed ban-some 0.2.0")
	w.must("newer", "tgi plugin push ban-some.wasm $R/plugins/ban-some --plain-http", "ban-some:0.2.0")
	w.must("second", "tgi plugin install $R/plugins/ban-some:0.2.0 --plain-http", "replaced reference = ")
	newer := lockOf.FindStringSubmatch(w.read("second/tgi.toml"))[1]
	if newer == lock {
		w.t.Fatal("both versions are the same module")
	}
	w.until("the server loads the new version", func() bool { return w.loaded(url, "ban-some") == newer })
	w.must("second", "tgi plugin rollback ban-some", "ban-some is $R/plugins/ban-some", "signed by team")
	w.until("the server loads the version before", func() bool { return w.loaded(url, "ban-some") == lock })
	w.must("second", "tgi plugin rollback ban-some", "ban-some:0.2.0@") // which undoes it
	w.must("second", "tgi plugin rollback ban-some --to "+lock[:12], "again")
	w.until("the server loads it again", func() bool { return w.loaded(url, "ban-some") == lock })
	w.refused("second", "tgi plugin rollback ban-some --to 0000", "no earlier version")
}

// TestShareRefuses: what must not be installed or loaded, with a registry that works.
func TestShareRefuses(t *testing.T) {
	w := newWorld(t, false)
	signed(w)
	w.server("second")
	install := "tgi plugin install $R/plugins/ban-some:%s --plain-http"
	nothing := func(what string) {
		t.Helper()
		if text := w.read("second/tgi.toml"); strings.Contains(text, "[[plugin]]") {
			t.Errorf("%s was installed:\n%s", what, text)
		}
		if list, err := filepath.Glob(w.path("second/plugins/installed/*.wasm*")); err != nil || len(list) > 0 {
			t.Errorf("%s left %q", what, list)
		}
	}
	w.must("ban-some", "cp ban-some.wasm unsigned.wasm")
	w.must("ban-some", "tgi plugin push unsigned.wasm $R/plugins/ban-some:unsigned --plain-http", "0 signatures")
	w.refused("second", fmt.Sprintf(install, "unsigned"), "has no signature, wanted is one of team")
	nothing("an unsigned plugin")

	w.must("", "tgi plugin sign --generate other --algorithm ed25519")
	w.must("ban-some", "cp ban-some.wasm other.wasm")
	w.must("ban-some", "tgi plugin sign other.wasm --key ../other.key --license other")
	w.must("ban-some", "tgi plugin push other.wasm $R/plugins/ban-some:other --plain-http")
	w.refused("second", fmt.Sprintf(install, "other"), "none is of this digest by one of team")
	w.refused("second", "tgi plugin pull $R/plugins/ban-some:other --plain-http", "none is of this digest")
	nothing("a plugin of another signer")
	w.must("second", "tgi plugin verify $R/plugins/ban-some:other --plain-http --key ../other.pub", "is signed by")
	// A second signature makes it good.
	w.must("", "tgi plugin sign $R/plugins/ban-some:other --key team.key --plain-http", "signed")
	w.must("second", fmt.Sprintf(install, "other"), "signed by team")
	lock := lockOf.FindStringSubmatch(w.read("second/tgi.toml"))[1]

	// A server refuses changed bytes, and says which file, what it expected and what it found.
	file := w.path("second/plugins/installed/ban-some-" + lock[:16] + ".wasm")
	module, err := os.ReadFile(file)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(file, append(slices.Clone(module), 0), 0o600); err != nil {
		t.Fatal(err)
	}
	w.refused("second", "tgi check", file[len(w.path("second"))+1:], "has sha256", lock)
	if err := os.WriteFile(file, module, 0o600); err != nil {
		t.Fatal(err)
	}
	w.must("second", "tgi check")
	// So it does where the signatures are gone, and where the signer is no longer trusted.
	w.must("second", "mv "+file+".artifact.json kept")
	w.refused("second", "tgi check", "not signed by a [[plugin_signer]]", ".artifact.json")
	w.must("second", "mv kept "+file+".artifact.json")
	w.write("second/tgi.toml", strings.Replace(w.read("second/tgi.toml"), "../team.pub", "../fresh.pub", 1))
	w.must("", "tgi plugin sign --generate fresh")
	w.refused("second", "tgi check", "not signed by a [[plugin_signer]]")
	w.must("second", "tgi plugin rm ban-some")
	w.write("second/tgi.toml", strings.Replace(w.read("second/tgi.toml"), "../fresh.pub", "../team.pub", 1))

	// Somebody changes the blob in the registry's storage.
	blobs, err := filepath.Glob(w.storage + "/docker/registry/v2/blobs/sha256/*/" + lock + "/data")
	if err != nil || len(blobs) != 1 {
		t.Fatalf("%q, %v", blobs, err)
	}
	changed := slices.Clone(module)
	changed[len(changed)-1] ^= 1
	if err := os.WriteFile(blobs[0], changed, 0o600); err != nil {
		t.Fatal(err)
	}
	w.refused("second", fmt.Sprintf(install, "other"), "module", lock)
	nothing("a changed blob")
	w.refused("second", fmt.Sprintf(install, "none"), "not found")
	w.refused("second", "tgi plugin install $R/plugins/ban-some:other", "HTTPS")
}

// TestShareCredentials: a registry that asks for a password, from docker's file and from the environment.
func TestShareCredentials(t *testing.T) {
	w := newWorld(t, true)
	signed(w)
	w.server("second")
	push := "tgi plugin push ban-some.wasm $R/plugins/ban-some --plain-http"
	w.refused("ban-some", push, "TGI_REGISTRY_USERNAME")
	w.write("docker/config.json", `{"auths": {"`+w.registry+`": {"auth": "bWU6d3Jvbmc="}}}`) // me:wrong
	w.refused("ban-some", push, "401")
	w.write("docker/config.json", `{"auths": {"`+w.registry+`": {"auth": "bWU6cGFzcw=="}}}`) // me:pass
	w.must("ban-some", push, "pushed")
	w.must("second", "tgi plugin install $R/plugins/ban-some:0.1.0 --plain-http", "signed by team")
	w.must("", "rm -r docker")
	w.refused("second", "tgi plugin pull $R/plugins/ban-some:0.1.0 --plain-http", "TGI_REGISTRY_USERNAME")
	t.Setenv("TGI_REGISTRY_USERNAME", "me")
	t.Setenv("TGI_REGISTRY_PASSWORD", "pass")
	w.must("second", "tgi plugin pull $R/plugins/ban-some:0.1.0 --plain-http", "signed by team")
	w.must("second", "tgi plugin show $R/plugins/ban-some:0.1.0 --plain-http", "ban-some")
}
