package sandbox

import (
	"context"
	"errors"
	"os"
	"os/exec"
	"path/filepath"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tgi/plugins/internal/testcache"
)

const plenty = 1 << 50

// guestFile reads a committed guest.
func guestFile(tb testing.TB, name string) []byte {
	tb.Helper()
	b, err := os.ReadFile(filepath.Join("testdata", "guests", name))
	if err != nil {
		tb.Fatal(err)
	}
	return b
}

// goGuest builds the Go guest, once for all tests; without the toolchain or its standard library the test is skipped.
var goGuestOnce = sync.OnceValues(func() ([]byte, error) {
	dir, err := os.MkdirTemp("", "tgi-guest")
	if err != nil {
		return nil, err
	}
	defer os.RemoveAll(dir)
	out := filepath.Join(dir, "go.wasm")
	cmd := exec.Command("go", "build", "-buildmode=c-shared", "-o", out, "main.go")
	cmd.Dir = filepath.Join("testdata", "guests", "go")
	cmd.Env = append(os.Environ(), "GOOS=wasip1", "GOARCH=wasm", "GOFLAGS=")
	if text, err := cmd.CombinedOutput(); err != nil {
		return nil, errors.New(string(text))
	}
	return os.ReadFile(out)
})

func goGuest(tb testing.TB) []byte {
	tb.Helper()
	b, err := goGuestOnce()
	if err != nil {
		tb.Skip("the Go toolchain can't build the guest: ", err)
	}
	return b
}

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

func engine(tb testing.TB, c Config) *Engine {
	tb.Helper()
	if c.CacheDir == "" {
		c.CacheDir, c.CacheBytes = testcache.Dir(), testcache.Bytes
	}
	e, err := New(c)
	if err != nil {
		tb.Fatal(err)
	}
	return e
}

func compile(tb testing.TB, e *Engine, wasm []byte, c ModuleConfig) *Module {
	tb.Helper()
	if c.Name == "" {
		c.Name = "guest"
	}
	m, err := e.Compile(context.Background(), wasm, c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(m.Close)
	return m
}

func instance(tb testing.TB, m *Module) *Instance {
	tb.Helper()
	in, err := m.New(Lease{})
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(in.Close)
	return in
}

// start runs a Go guest's _initialize, which other languages don't have.
func start(in *Instance) error {
	if f := in.Func("_initialize"); f != nil {
		_, err := in.Call(f, nil, plenty)
		return err
	}
	return nil
}

func newPool(tb testing.TB, m *Module, c PoolConfig) *Pool {
	tb.Helper()
	if c.Init == nil {
		c.Init = start
	}
	p, err := m.NewPool(c)
	if err != nil {
		tb.Fatal(err)
	}
	tb.Cleanup(func() {
		p.Close()
		if !tb.Failed() { // a failed test may have ended with an instance out
			<-p.Drained()
		}
	})
	return p
}

func take(tb testing.TB, p *Pool) *Instance {
	tb.Helper()
	in, err := p.Take(Lease{})
	if err != nil {
		tb.Fatal(err)
	}
	return in
}

// call1 runs an export with one argument or none and one result or none.
func call1(tb testing.TB, in *Instance, export string, arg uint64) uint64 {
	tb.Helper()
	stack := []uint64{arg}
	if _, err := in.Call(in.Func(export), stack, plenty); err != nil {
		tb.Fatal(err)
	}
	return stack[0]
}
