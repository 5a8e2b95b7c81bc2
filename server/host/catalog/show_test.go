package catalog

import (
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/check"
	"tgi/server/config"
	"tgi/server/share"
)

// house is an example whose module has settings.
const house = "../../../examples/always-on/no-long-numbers.wasm"

// TestShow: what Plugins lists is described, whether it was signed or not, and so is a file.
func TestShow(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	cfg := settings(t)
	module, err := os.ReadFile(house)
	if err != nil {
		t.Fatal(err)
	}
	put := func(name string) string {
		t.Helper()
		path := filepath.Join(cfg.Plugins.Folder, name)
		if err := os.WriteFile(path, module, 0o600); err != nil {
			t.Fatal(err)
		}
		return path
	}
	put("mine.wasm")
	signed, file := put("signed.wasm"), filepath.Join(t.TempDir(), "x.wasm")
	a, err := share.Pack(module, share.Description{Name: "no-long-numbers", Kinds: []string{"logits"}, ABI: 1,
		License: "MIT"})
	if err == nil {
		err = a.WriteBeside(signed)
	}
	if err == nil {
		err = os.WriteFile(file, module, 0o600)
	}
	if err != nil {
		t.Fatal(err)
	}
	cfg.Plugin = []config.Plugin{
		{Name: "house", Source: file, Config: config.Table{"digits": int64(3)}},
		{Name: "half", Source: "builtin:grammar", Kind: "grammar"},
		{Name: "lost", Source: filepath.Join(cfg.Plugins.Folder, "none.wasm")},
		{Name: "wrong", Source: house, Config: config.Table{"digits": int64(99)}},
		{Name: "narrow", Source: put("narrow.wasm"), Limits: config.PluginLimits{FuelLoad: 1000}},
	}
	list, err := Plugins(cfg)
	if err != nil {
		t.Fatal(err)
	}
	detour := filepath.Dir(house) + "/../always-on/" + filepath.Base(house) // a path of what the settings name
	words := []string{file, detour, "dry", "builtin:dry", "builtin:grammar"}
	for _, p := range list {
		words = append(words, p.Name)
	}
	refused := map[string]string{"lost": "no such file", "wrong": "digits: want a number from 1 to 20",
		detour: "digits: want a number from 1 to 20", "narrow": "fuel"}
	for _, word := range words {
		shown, err := Show(t.Context(), cfg, share.Policy{}, word)
		if want, ok := refused[word]; ok {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%s: %v", word, err)
			}
			continue
		}
		i := slices.IndexFunc(list, func(p Plugin) bool { return p.Name == word })
		if err != nil || shown.Name == "" || len(shown.Kinds) == 0 || shown.SHA256 == "" || shown.Bytes == 0 ||
			shown.Signatures != 0 || i >= 0 && !strings.HasPrefix(shown.From, list[i].Source) ||
			(shown.Digest != "") != (word == "signed") || (shown.License != "") != (word == "signed") {
			t.Errorf("%s: %+v, %v", word, shown, err)
		}
	}
	for _, word := range []string{"none-such", "builtin:none-such", "none.wasm"} {
		if shown, err := Show(t.Context(), cfg, share.Policy{}, word); !errors.Is(err, fs.ErrNotExist) {
			t.Errorf("%s: %+v, %v", word, shown, err)
		}
	}
}

// TestArtifact: signatures are of files and of what was pulled; of anything else the error says what is missing.
func TestArtifact(t *testing.T) {
	t.Setenv("XDG_DATA_HOME", t.TempDir())
	cfg := settings(t)
	cfg.Plugin = []config.Plugin{{Name: "house", Source: house}}
	for word, want := range map[string]string{
		"house": ".artifact.json is not there", house: ".artifact.json is not there",
		"dry":                     "it is built into this program",
		"registry.example/none:1": "is not in ",
	} {
		if _, err := Artifact(cfg, word); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v", word, err)
		}
	}
}

// TestCheckModule: a module is held to the contract with the given configuration and parameters.
func TestCheckModule(t *testing.T) {
	var out strings.Builder
	sound := check.Case{Config: `{"digits":3}`, Params: "{}"}
	if err := CheckModule(t.Context(), house, "", sound, &out); err != nil || out.Len() > 0 {
		t.Errorf("%v\n%s", err, &out)
	}
	for _, c := range []check.Case{{Config: `{"digits":99}`, Params: "{}"}, {Config: "{}", Params: `{"x":1}`}} {
		out.Reset()
		err := CheckModule(t.Context(), house, "", c, &out)
		if err == nil || !strings.Contains(err.Error(), "--config "+c.Config+" and --params "+c.Params) ||
			!strings.Contains(out.String(), "violation") {
			t.Errorf("%+v: %v\n%s", c, err, &out)
		}
	}
}
