package guesttest

import (
	"os"
	"path/filepath"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/testcache"
)

// Words is the kit's vocabulary as this host wants one: all bytes, then " the", "<s>" and "</s>". Size is 259 unless
// More is set.
type Words struct {
	*kit.World
	More int // further tokens, which stand for nothing
}

// NewWords makes a vocabulary of 259 tokens.
func NewWords() Words { return Words{World: kit.NewWorld()} }

// Size implements plugins' Vocabulary.
func (w Words) Size() int { return len(w.Words) + w.More }

// Bytes implements plugins' Vocabulary.
func (w Words) Bytes(id uint32) []byte {
	b, _ := w.TokenBytes(id)
	return b
}

// Flags implements plugins' Vocabulary.
func (w Words) Flags(id uint32) uint32 {
	f, _ := w.TokenFlags(id)
	return f
}

// Encode implements plugins' Vocabulary.
func (w Words) Encode(text string) []uint32 {
	ids, _ := w.World.Encode(text)
	return ids
}

// EncodeData implements plugins' Vocabulary.
func (w Words) EncodeData(text string) []uint32 {
	ids, _ := w.World.EncodeData(text)
	return ids
}

// Engine gives an engine whose compiled modules are kept between test runs.
func Engine(t testing.TB) *sandbox.Engine {
	t.Helper()
	e, err := sandbox.New(sandbox.Config{CacheDir: testcache.Dir(), CacheBytes: testcache.Bytes})
	if err != nil {
		t.Fatal(err)
	}
	return e
}

// Open loads a fake and takes an instance with seed 1 until the test ends. A closed cancel ends its calls.
func Open(t testing.TB, f Fake, limits guest.Limits, cancel <-chan struct{}) *guest.Session {
	t.Helper()
	g, err := guest.Load(t.Context(), Engine(t), guest.Config{Name: "fake", Wasm: f.Wasm(), Vocabulary: NewWords(),
		Limits: limits})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Open(1, cancel)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		s.Close()
		g.Close()
		<-g.Drained()
	})
	return s
}

// root finds the tree's root above the folder of the test, which is the working one: the paths of source files that the
// compiler notes are not those of the disk in every build.
func root(t testing.TB) string {
	t.Helper()
	dir, err := os.Getwd()
	if err != nil {
		t.Fatal(err)
	}
	for ; ; dir = filepath.Dir(dir) {
		if _, err := os.Stat(filepath.Join(dir, "go.mod")); err == nil {
			return dir
		}
		if dir == filepath.Dir(dir) {
			t.Fatal("no go.mod above the folder of the test")
		}
	}
}

// SDK gives the committed example guests of the SDKs that have a name, by language.
func SDK(t testing.TB, name string) map[string][]byte {
	t.Helper()
	files, err := filepath.Glob(filepath.Join(root(t), "sdk", "testdata", "guests", "*", name+".wasm"))
	if err != nil || len(files) == 0 {
		t.Fatalf("no example guests %q, %v", name, err)
	}
	out := map[string][]byte{}
	for _, f := range files {
		b, err := os.ReadFile(f)
		if err != nil {
			t.Fatal(err)
		}
		out[filepath.Base(filepath.Dir(f))] = b
	}
	return out
}
