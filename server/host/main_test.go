package host

import (
	"context"
	"net/http"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tgi/models/store"
	"tgi/plugins"
	"tgi/plugins/std"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	closeShared()
	if kept.set != nil {
		kept.set.Close()
	}
	http.DefaultClient.CloseIdleConnections()
	// The clock of regular expressions ends by itself, some seconds after it was needed.
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/dlclark/regexp2.runClock")); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

// kept uses the modules that every server loads until all tests have run: a process frees compiled code with its last
// user, and each of a hundred servers would load it anew.
var kept struct {
	sync.Once
	set *plugins.Set
	err error
}

// oneToken is the least of vocabularies.
type oneToken struct{}

func (oneToken) Size() int                  { return 1 }
func (oneToken) Bytes(uint32) []byte        { return []byte("x") }
func (oneToken) Flags(uint32) uint32        { return 0 }
func (oneToken) Encode(string) []uint32     { return nil }
func (oneToken) EncodeData(string) []uint32 { return nil }

// keepModules has kept load them, at the first call.
func keepModules(t testing.TB) {
	t.Helper()
	kept.Do(func() {
		var cache string
		if cache, kept.err = store.Dir(); kept.err != nil {
			return
		}
		var specs []plugins.Spec
		for _, name := range []string{"jinja", "toolcalls", grammarPlugin} {
			specs = append(specs, plugins.Spec{Name: name, Source: plugins.Builtin + name})
		}
		kept.set, kept.err = plugins.Open(context.Background(), plugins.Options{
			Specs: specs, Builtin: std.FS(), Model: []byte(`{"templates":{"default":"x"}}`), Vocabulary: oneToken{},
			CacheDir: filepath.Join(cache, "plugins"),
		})
	})
	if kept.err != nil {
		t.Fatal(kept.err)
	}
}
