package std_test

import (
	"context"
	"encoding/json"
	"io/fs"
	"math"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/conformance/long"
	"tgi/plugins/check"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/program"
	"tgi/plugins/std"
	"tgi/sdk/abi"
)

// cases are what each plugin is held to the contract with. Each is written down in the test file of its plugin.
var cases = map[string][]check.Case{}

// modules gives the committed modules by name.
func modules(t *testing.T) map[string][]byte {
	t.Helper()
	files, err := fs.Glob(std.FS(), "*")
	if err != nil {
		t.Fatal(err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		name := strings.TrimSuffix(f, ".wasm")
		if out[name], err = fs.ReadFile(std.FS(), f); err != nil || name == f {
			t.Fatalf("%s: %v, want only files NAME.wasm", f, err)
		}
	}
	return out
}

func TestSound(t *testing.T) {
	cache := t.TempDir()
	for name, wasm := range modules(t) {
		t.Run(name, func(t *testing.T) {
			if len(cases[name]) == 0 {
				t.Fatal("no cases")
			}
			if len(wasm) > 500_000 {
				long.Test(t) // the large modules take minutes
			}
			r, err := check.Run(context.Background(), name, wasm, check.Options{Cases: cases[name], CacheDir: cache})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Violations {
				t.Errorf("%s: %s (%s) with config %q and parameters %q", v.Rule, v.Found, v.Text, v.Config, v.Params)
			}
			if r.Sound() && r.Summary.Name != name {
				t.Errorf("calls itself %s", r.Summary.Name)
			}
		})
	}
}

// TestDescribed: every plugin has its crate, a page that names every parameter, a line in the index, and a schema that
// is strict and gives the defaults.
func TestDescribed(t *testing.T) {
	index, err := os.ReadFile("README.md")
	if err != nil {
		t.Fatal(err)
	}
	all := modules(t)
	crates, err := filepath.Glob("*/src/lib.rs")
	if err != nil {
		t.Fatal(err)
	}
	for _, lib := range crates {
		crate := path.Dir(path.Dir(filepath.ToSlash(lib)))
		b, err := os.ReadFile(lib)
		if err != nil {
			t.Fatal(err)
		}
		if strings.Contains(string(b), "\nplugin! {") && all[crate] == nil {
			t.Errorf("crate %s has no module", crate)
		}
	}
	for name, wasm := range all {
		t.Run(name, func(t *testing.T) {
			page, err := os.ReadFile(filepath.Join(name, "README.md"))
			if err != nil {
				t.Fatal(err)
			}
			if !strings.Contains(string(index), "]("+name+"/README.md)") {
				t.Error("README.md has no link to its page")
			}
			var schema struct {
				Type       string
				Additional *bool `json:"additionalProperties"`
				Properties map[string]map[string]any
			}
			if err := json.Unmarshal(load(t, wasm, `{}`).Description().Params, &schema); err != nil {
				t.Fatal(err)
			}
			if schema.Type != "object" || schema.Additional == nil || *schema.Additional ||
				len(schema.Properties) == 0 {
				t.Errorf("schema is not strict: %+v", schema)
			}
			for field, p := range schema.Properties {
				if p["description"] == nil {
					t.Errorf("%s has no description", field)
				}
				if !strings.Contains(string(page), "`"+field+"`") {
					t.Errorf("README.md does not name %s", field)
				}
			}
		})
	}
}

// words is the kit's vocabulary: all bytes, then " the", "<s>" and "</s>".
type words struct{ *kit.World }

func (w words) Size() int                    { return int(w.VocabSize()) }
func (w words) Bytes(id uint32) []byte       { b, _ := w.TokenBytes(id); return b }
func (w words) Flags(id uint32) uint32       { f, _ := w.TokenFlags(id); return f }
func (w words) Encode(s string) []uint32     { ids, _ := w.World.Encode(s); return ids }
func (w words) EncodeData(s string) []uint32 { return w.Encode(s) }

// tryLoad loads a module as the server does, with the default limits.
func tryLoad(t testing.TB, wasm []byte, config string) (*guest.Guest, error) {
	t.Helper()
	return tryLoadWith(t, wasm, config, words{kit.NewWorld()})
}

// tryLoadWith is tryLoad with a vocabulary.
func tryLoadWith(t testing.TB, wasm []byte, config string, vocab guest.Vocabulary) (*guest.Guest, error) {
	t.Helper()
	e, err := sandbox.New(sandbox.Config{CacheDir: testcache.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guest.Load(context.Background(), e, guest.Config{
		Name: "test", Wasm: wasm, Config: []byte(config), Vocabulary: vocab, MaxInstances: 4,
		Program: program.Functions(),
	})
	if err == nil {
		t.Cleanup(func() {
			g.Close()
			<-g.Drained()
		})
	}
	return g, err
}

func load(t *testing.T, wasm []byte, config string) *guest.Guest {
	t.Helper()
	g, err := tryLoad(t, wasm, config)
	if err != nil {
		t.Fatal(err)
	}
	return g
}

func begin(t *testing.T, g *guest.Guest, params string, prompt []uint32) *guest.Session {
	t.Helper()
	s, err := g.Begin(guest.Start{Kinds: g.Description().Kinds, Params: []byte(params), Prompt: prompt, Seed: 1})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// row is a row of logits in which each token given by the caller has its value and all others have -20.
func row(values map[uint32]float32) []float32 {
	logits := slices.Repeat([]float32{-20}, 259)
	for id, v := range values {
		logits[id] = v
	}
	return logits
}

// changed gives by how much a plugin changed logits: -Inf for what it denied.
func changed(before, after []float32) map[uint32]float32 {
	out := map[uint32]float32{}
	for id, v := range after {
		switch {
		case math.IsInf(float64(v), -1):
			out[uint32(id)] = v
		case v != before[id]:
			out[uint32(id)] = v - before[id]
		}
	}
	return out
}

// TestState: what keeps nothing of its sequence, or goes back by itself, says so, and guards take tokens back from it
// without a replay. That it is true is what check.Run tries.
func TestState(t *testing.T) {
	all := modules(t)
	for name, want := range map[string]string{"watermark": abi.StateNone, "xtc": abi.StateNone, "dry": abi.StateNone,
		"no-repeat-ngram": abi.StateNone, "banned-words": abi.StateTokens, "mirostat": abi.StateLogits} {
		if got := load(t, all[name], "").Description().State; got != want {
			t.Errorf("%s: %q, want %q", name, got, want)
		}
	}
}
