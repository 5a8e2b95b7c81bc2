package main

import (
	"errors"
	"net/url"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/library"
	"tgi/models/library/fetch"
	"tgi/models/library/fetch/hubtest"
	"tgi/server/config"
	"tgi/server/host"
)

// TestModelIDsAgree: what the settings take as an id is what the models folder takes.
func TestModelIDsAgree(t *testing.T) {
	long := strings.Repeat("a", 96)
	ids := []string{
		"", "a", "A/b_c/d-e.f/9", "a/b/c/d/e", "/a", "a/", "a//b", ".", "..", "a/..", "../a", ".a", "a.", "-a", "a-",
		"_a",
		"a b", "a\x00", "a\\b", "a+b", "é",
		long, long + "a", long + "/" + long, long + "/" + long + "/abcdef", long + "/" + long + "/abcdefg", "con",
		"a@b",
		"a:b", "~", "a/.tgi", ".tgi/a",
	}
	good := 0
	for _, id := range ids {
		_, err := library.ParseID(id)
		if other := config.CheckModelID(id); (err == nil) != (other == nil) {
			t.Errorf("%q: the folder says %v, the settings %v", id, err, other)
		}
		if err == nil {
			good++
		}
	}
	if good < 5 || good > len(ids)-5 {
		t.Errorf("%d of %d ids are good: the test shows little", good, len(ids))
	}
}

// TestSourcesAgree: what the settings take as a source is one that is fetched from.
func TestSourcesAgree(t *testing.T) {
	lib, _ := modelFolder(t, nil)
	refuse := errors.New("nothing is asked here")
	client := fetch.New(fetch.Options{Allow: func(*url.URL) error { return refuse }})
	for _, source := range []string{"a", "a/b", "a/b@v1", "a/b@refs/pr/1", "a@x y", "http://h/x.tar",
		"https://h:8080/x?y=z#f"} {
		m := config.Default().Models
		m.HubToken = "t"
		src, err := host.SourceOf(m, source)
		if err != nil {
			t.Errorf("%s: %v", source, err)
			continue
		}
		id := library.ID(config.DefaultID(source))
		if _, err := client.Fetch(t.Context(), lib, id, src, nil); !errors.Is(err, refuse) {
			t.Errorf("%s: %v", source, err)
		}
	}
}

// writeSettings writes tgi.toml into the working folder.
func writeSettings(t *testing.T, text string) {
	t.Helper()
	if err := os.WriteFile("tgi.toml", []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
}

// TestModelDeclared: models that the settings name are listed, here or not, described
// with their own settings, fetched by their name and not removed.
func TestModelDeclared(t *testing.T) {
	h := hubtest.New(t, hubtest.Checkpoint)
	lib, flags := modelFolder(t, h)
	if err := os.CopyFS("elsewhere", os.DirFS(hubtest.Checkpoint)); err != nil {
		t.Fatal(err)
	}
	if err := os.MkdirAll("broken", 0o755); err != nil {
		t.Fatal(err)
	}
	writeSettings(t, `[[model]]
name = "here"
path = "elsewhere"
template = "a-plugin"
[[model]]
name = "small"
source = "org/model@v1"
[[model]]
name = "private"
source = "https://hub.example/x.tar?key=secret"
[[model]]
name = "broken"
path = "broken"
`)
	out, _ := tgiModel(t, 0, flags, "list")
	contains(t, out, "downloaded, default  ", "elsewhere\n", "not_downloaded       org/model@v1\n",
		"https://hub.example/x.tar?***\n", "broken   -  ", "  error  ", "model broken: ")
	if strings.Contains(out, "secret") {
		t.Errorf("the URL's query is shown:\n%s", out)
	}
	out, _ = tgiModel(t, 0, flags, "info", "here")
	contains(t, out, "here: Qwen2ForCausalLM", "elsewhere\n", "chat       template plugin a-plugin, tool calls: ")

	tgiModel(t, 0, flags, "pull", "small")
	isWhole(t, lib, h, "small")
	for _, id := range []string{"here", "small"} {
		_, errs := tgiModel(t, 1, flags, "rm", id)
		contains(t, errs, "model "+id+": model is declared in the configuration tgi.toml: take it out there first")
	}
	_, errs := tgiModel(t, 1, flags, "pull", "org/model", "--id", "here")
	contains(t, errs, "model here: model is declared in the configuration: --id gives the new one another id")
	isWhole(t, lib, h, "small")

	writeSettings(t, "[[model]]\nnmae = \"a\"\n")
	_, errs = tgiModel(t, 2, flags, "list")
	contains(t, errs, "tgi.toml:2: unknown key model.nmae; did you mean model.name?")
	out, _ = runTgi(t, 0, "model", "info", "elsewhere") // a folder needs no settings
	contains(t, out, "elsewhere: Qwen2ForCausalLM, 3 layers of 64")
}

// TestModelInUse: a model that another process holds is not removed.
func TestModelInUse(t *testing.T) {
	h := hubtest.New(t, hubtest.Checkpoint)
	lib, flags := modelFolder(t, h)
	tgiModel(t, 0, flags, "pull", "org/model")
	release, err := lib.Hold(hubID) // by a library of its own, as in another process
	if err != nil {
		t.Fatal(err)
	}
	_, errs := tgiModel(t, 1, flags, "rm", "org/model")
	contains(t, errs, "model org/model: model is in use by another process: stop it there first")
	isWhole(t, lib, h, hubID)
	release()
	tgiModel(t, 0, flags, "rm", "org/model")
}

func TestModelInfoOfFolders(t *testing.T) {
	modelFolder(t, nil)
	out, _ := runTgi(t, 0, "model", "info")
	contains(t, out, "tgi-demo: LlamaForCausalLM", "5.2M parameters", "part of the program",
		"the model's template, tool calls: format hermes", "templates  default")
	_, errs := runTgi(t, 1, "model", "info", ".")
	contains(t, errs, "config.json")
	if err := os.CopyFS("half", os.DirFS(hubtest.Checkpoint)); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join("half", hubtest.Weights)); err != nil {
		t.Fatal(err)
	}
	out, errs = runTgi(t, 1, "model", "info", "half")
	contains(t, out, "half: Qwen2ForCausalLM, 3 layers of 64", "about ")
	contains(t, errs, "model half: unusable checkpoint: ", hubtest.Weights)
	_, errs = runTgi(t, 1, "model", "info", "no/such/thing/at/all")
	contains(t, errs, "no/such/thing/at/all is no folder, and bad model id")
	_, errs = runTgi(t, 1, "model", "convert", "no/such/thing/at/all")
	contains(t, errs, "no/such/thing/at/all is no folder, and bad model id")
	_, errs = runTgi(t, 1, "model", "convert", "--model-id", "org/absent")
	contains(t, errs, "org/absent")
	_, errs = runTgi(t, 1, "model", "rm", "tgi-demo")
	contains(t, errs, "model tgi-demo: it is part of the program")
}
