package plugins

import (
	"context"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"strings"
	"sync"
	"testing"

	"go.uber.org/goleak"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/testcache"
	"tgi/sdk/abi"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) {
	code := m.Run()
	if err := goleak.Find(); code == 0 && err != nil {
		println(err.Error())
		code = 1
	}
	os.Exit(code)
}

// logLines collects what a set logs.
type logLines struct {
	mu sync.Mutex
	b  strings.Builder
}

func (l *logLines) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

func (l *logLines) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// options fills in what every test needs.
func options(t testing.TB, o Options) Options {
	t.Helper()
	if o.Vocabulary == nil {
		o.Vocabulary = guesttest.NewWords()
	}
	o.CacheDir, o.CacheBytes = testcache.Dir(), testcache.Bytes
	if o.Log == nil {
		o.Log = slog.New(slog.NewTextHandler(t.Output(), &slog.HandlerOptions{Level: slog.LevelWarn}))
	}
	return o
}

// open opens a set that the test's end closes.
func open(t testing.TB, o Options) *Set {
	t.Helper()
	s, err := Open(context.Background(), options(t, o))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// file writes a module to a file of its own and gives its path.
func file(t testing.TB, name string, wasm []byte) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), name+".wasm")
	write(t, path, wasm)
	return path
}

func write(t testing.TB, path string, b []byte) {
	t.Helper()
	if err := os.WriteFile(path, b, 0o600); err != nil {
		t.Fatal(err)
	}
}

// spec makes a spec of a module.
func spec(t testing.TB, name string, wasm []byte) Spec {
	t.Helper()
	return Spec{Name: name, Source: file(t, name, wasm)}
}

// entries is an array of {id, bias} as guests write it.
func entries(pairs ...float32) string {
	var b []byte
	for i, x := range pairs {
		v := math.Float32bits(x)
		if i%2 == 0 {
			v = uint32(x)
		}
		b = append(b, byte(v), byte(v>>8), byte(v>>16), byte(v>>24))
	}
	return string(b)
}

// bias is a guest that adds to the logit of token 5. What comes before is run first at each step.
func bias(by float32, before ...guesttest.Code) guesttest.Fake {
	return guesttest.Fake{
		Description: guesttest.Ahead,
		Data:        map[uint32]string{guesttest.Free + 64: entries(5, by)},
		Code: map[string]guesttest.Code{
			"tgi_logits_begin": guesttest.Join(guesttest.Const(guesttest.Free), guesttest.Arg(1), guesttest.Put(),
				guesttest.Long(0)),
			"tgi_logits_process": guesttest.Join(append(before,
				guesttest.Store(guesttest.StepAt+abi.StepMode, abi.ModeSparse),
				guesttest.Store(guesttest.StepAt+abi.StepOut, guesttest.Free+64),
				guesttest.Store(guesttest.StepAt+abi.StepOutCount, 1),
				guesttest.Const(0))...),
		},
	}
}

// given runs code in a step of [bias] if the request's parameters have n bytes.
func given(n int, code guesttest.Code) guesttest.Code {
	return guesttest.Join(guesttest.Load(guesttest.Free), guesttest.Const(uint32(n)), guesttest.Equal(),
		guesttest.When(code))
}

// Parameters by which a guest of [faulty] is told what to do; {} is served well.
const (
	doTrap  = `{"a":1}`
	doSpin  = `{"aa":1}`
	doRogue = `{"aaa":1}` // answers with an array outside its memory
)

// faulty is a guest that serves {} and fails as its parameters say.
func faulty() []byte {
	return bias(1,
		given(len(doTrap), guesttest.Trap()),
		given(len(doSpin), guesttest.Spin()),
		given(len(doRogue), guesttest.Join(
			guesttest.Store(guesttest.StepAt+abi.StepMode, abi.ModeSparse),
			guesttest.Store(guesttest.StepAt+abi.StepOut, 0xfffffff0),
			guesttest.Store(guesttest.StepAt+abi.StepOutCount, 64),
			guesttest.Const(0), guesttest.Code{0x0f}))).Wasm()
}

// bind binds and begins a request.
func bind(t testing.TB, s *Set, seeds int, calls ...Call) *Bound {
	t.Helper()
	b, err := s.Bind(context.Background(), calls)
	if err != nil {
		t.Fatal(err)
	}
	if b == nil {
		t.Fatal("bound to nothing")
	}
	if err := b.Begin(context.Background(), prompt, 16, make([]uint64, seeds)); err != nil {
		b.Close()
		t.Fatal(err)
	}
	return b
}

var prompt = []uint32{65, 66, 67}

// row is a row of zeros for the vocabulary of the tests.
func row() []float32 { return make([]float32, guesttest.NewWords().Size()) }

// once runs a request of one sequence and one step and gives the row and the first error.
func once(s *Set, calls ...Call) ([]float32, error) {
	b, err := s.Bind(context.Background(), calls)
	if err != nil {
		return nil, err
	}
	defer b.Close()
	if err := b.Begin(context.Background(), prompt, 16, []uint64{1}); err != nil {
		return nil, err
	}
	seq := b.Sequence(0)
	defer b.Release(0)
	x := row()
	for _, p := range seq.Processors {
		if _, err := p.Run(prompt, nil, x); err != nil {
			return x, err
		}
	}
	return x, nil
}

func logger(l *logLines) *slog.Logger { return slog.New(slog.NewTextHandler(l, nil)) }

// ctx is that of requests which nothing cancels.
var ctx = context.Background()

// settle waits until every pool has made as many instances as it should: n, those that are out among them.
func settle(t *testing.T, s *Set, n int) {
	t.Helper()
	for {
		full := true
		for _, st := range s.List() {
			full = full && st.Stats.InstancesOut+st.Stats.InstancesWaiting >= n
		}
		if full {
			return
		}
		runtime.Gosched()
	}
}
