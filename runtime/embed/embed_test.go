package embed

import (
	"context"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/runtime/llm"
)

// fake gives each token the vector (id, place, kind), and remembers the steps.
type fake struct {
	pooling []Pooling
	hold    chan struct{} // a step waits for it, if it is not nil
	fails   atomic.Bool
	mu      sync.Mutex
	steps   [][]int64 // ids of each step
}

func (f *fake) Shape() Shape {
	return Shape{Width: 3, Out: 3 * len(f.pooling), MaxTokens: 50, Pooling: f.pooling}
}

func (f *fake) Forward(_ context.Context, s *Step) ([]float32, error) {
	if f.hold != nil {
		<-f.hold
	}
	f.mu.Lock()
	f.steps = append(f.steps, slices.Clone(s.IDs))
	f.mu.Unlock()
	if f.fails.Load() {
		return nil, errors.New("broken")
	}
	var out []float32
	for _, row := range s.Rows {
		out = append(out, float32(s.IDs[row]), float32(s.Places[row]), float32(s.Types[row]))
	}
	return out, nil
}

func (f *fake) Stages(_ context.Context, pooled []float32, _ int) ([]float32, error) {
	return pooled, nil
}

// textOf has so many tokens with one id.
func textOf(id llm.Token, n int) Text { return Text{IDs: slices.Repeat([]llm.Token{id}, n)} }

// TestRunKeepsOrder: whatever the steps are, each text gets its own result.
func TestRunKeepsOrder(t *testing.T) {
	random := rand.New(rand.NewPCG(3, 4))
	for _, most := range []int{1, 7, 60, 100000} {
		f := &fake{pooling: []Pooling{First, Mean, Last}}
		b := New(f, Config{MaxBatchTokens: most})
		var clients sync.WaitGroup
		for c := range 5 {
			var texts []Text
			for range 40 {
				one := textOf(llm.Token(c*1000+random.IntN(1000)), 1+random.IntN(50))
				one.Second = random.IntN(2) * random.IntN(len(one.IDs))
				texts = append(texts, one)
			}
			clients.Go(func() {
				got, err := b.Run(t.Context(), llm.Client{Name: fmt.Sprint(c)}, texts, Vector)
				if err != nil {
					t.Error(err)
					return
				}
				for i, v := range got {
					n, id := len(texts[i].IDs), float32(texts[i].IDs[0])
					kinds := float32(0)
					if texts[i].Second > 0 {
						kinds = float32(n-texts[i].Second) / float32(n)
					}
					if v[0] != id || v[3] != id || v[6] != id || v[1] != 0 || v[7] != float32(n-1) ||
						v[4] != float32(n-1)/2 || math.Abs(float64(v[5]-kinds)) > 1e-6 {
						t.Errorf("steps of %d: text %d of %d tokens: %v", most, i, n, v)
					}
				}
			})
		}
		clients.Wait()
		b.Close()
		for _, s := range f.steps {
			if len(s) > max(most, 50) {
				t.Errorf("a step of %d tokens, at most %d", len(s), most)
			}
		}
	}
}

// TestPoolings: each against its definition.
func TestPoolings(t *testing.T) {
	rows := []float32{1, 5, 2, 3, 6, 4}
	for p, want := range map[Pooling][2][]float32{
		First: {{1, 5}, {2, 3}}, Last: {{6, 4}, {6, 4}}, Max: {{6, 5}, {6, 4}}, Mean: {{3, 4}, {4, 3.5}},
		MeanSqrt:     {{9 / float32(math.Sqrt(3)), 12 / float32(math.Sqrt(3))}, {8 / math.Sqrt2, 7 / math.Sqrt2}},
		WeightedMean: {{23.0 / 6, 23.0 / 6}, {22.0 / 5, 18.0 / 5}},
	} {
		for skip, v := range want {
			got := make([]float32, 2)
			p.pool(got, rows, 2, skip)
			for d := range got {
				if math.Abs(float64(got[d]-v[d])) > 1e-6 {
					t.Errorf("%s, %d skipped: %v, want %v", p, skip, got, v)
				}
			}
		}
	}
}

// TestClientsTakeTurns: beside one client's many texts another's get their half of the next step, and no more.
func TestClientsTakeTurns(t *testing.T) {
	f := &fake{pooling: []Pooling{Mean}, hold: make(chan struct{})}
	b := New(f, Config{MaxBatchTokens: 100})
	defer b.Close()
	var all sync.WaitGroup
	run := func(client string, id llm.Token, texts int) {
		all.Go(func() {
			of, all := llm.Client{Name: client}, slices.Repeat([]Text{textOf(id, 10)}, texts)
			if _, err := b.Run(t.Context(), of, all, Vector); err != nil {
				t.Error(err)
			}
		})
	}
	run("flood", 1, 500)
	for b.Stats().Waiting < 490 { // ten are in the first step
		time.Sleep(time.Millisecond)
	}
	run("polite", 2, 20)
	for b.Stats().Waiting < 510 {
		time.Sleep(time.Millisecond)
	}
	f.hold <- struct{}{}
	f.hold <- struct{}{}
	close(f.hold)
	all.Wait()
	second := f.steps[1]
	if n := len(slices.DeleteFunc(slices.Clone(second), func(id int64) bool { return id != 2 })); n < 40 || n > 60 {
		t.Errorf("the second step has %d tokens of the other client, want half of its 100", n)
	}
}

// TestRunEnds: what nobody waits for is dropped; a closed batcher and a broken model say so.
func TestRunEnds(t *testing.T) {
	f := &fake{pooling: []Pooling{Mean}, hold: make(chan struct{})}
	b := New(f, Config{MaxBatchTokens: 10})
	texts := slices.Repeat([]Text{textOf(1, 10)}, 100)
	ctx, leave := context.WithCancelCause(t.Context())
	gone := make(chan error)
	go func() {
		_, err := b.Run(ctx, llm.Client{Name: "a"}, texts, Vector)
		gone <- err
	}()
	for b.Stats().Waiting < 99 {
		time.Sleep(time.Millisecond)
	}
	why := errors.New("left")
	leave(why)
	if err := <-gone; !errors.Is(err, why) {
		t.Error(err)
	}
	if s := b.Stats(); s.Waiting != 0 {
		t.Errorf("%d texts wait for nobody", s.Waiting)
	}
	close(f.hold)
	f.fails.Store(true)
	_, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts[:2], Vector)
	if !errors.Is(err, llm.ErrBackend) || b.Healthy() == nil {
		t.Errorf("a broken model: %v, %v", err, b.Healthy())
	}
	f.fails.Store(false)
	if _, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts[:2], Vector); err != nil || b.Healthy() != nil {
		t.Error(err, b.Healthy())
	}
	for _, wrong := range []Text{{}, textOf(1, 51)} {
		if _, err := b.Run(t.Context(), llm.Client{Name: "a"}, []Text{wrong}, Vector); !errors.Is(err, llm.ErrInvalid) {
			t.Errorf("%d tokens: %v", len(wrong.IDs), err)
		}
	}
	b.Close()
	b.Close()
	if _, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts, Vector); !errors.Is(err, llm.ErrClosed) {
		t.Error(err)
	}
}

// TestOneFailureEndsOneRequest: a step that fails ends its request with all texts that wait, and nothing else.
func TestOneFailureEndsOneRequest(t *testing.T) {
	for _, want := range []Want{Vector, Tokens} {
		f := &fake{pooling: []Pooling{Mean}}
		b := New(f, Config{MaxBatchTokens: 4})
		f.fails.Store(true)
		texts := []Text{textOf(1, 4), textOf(2, 4), textOf(3, 4)}
		out, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts, want)
		if !errors.Is(err, llm.ErrBackend) || out != nil {
			t.Errorf("%v, %v, want an error of the backend", out, err)
		}
		f.fails.Store(false)
		if s := b.Stats(); s.Waiting != 0 || s.Steps != 1 {
			t.Errorf("after the failure %+v, want nothing that waits and one step", s)
		}
		if out, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts, want); err != nil || len(out) != 3 {
			t.Errorf("the next request: %v, %v", out, err)
		}
		b.Close()
	}
}

// TestCloseEndsRequests: those that wait fail.
func TestCloseEndsRequests(t *testing.T) {
	f := &fake{pooling: []Pooling{Mean}, hold: make(chan struct{})}
	b := New(f, Config{MaxBatchTokens: 10})
	ended := make(chan error)
	go func() {
		_, err := b.Run(t.Context(), llm.Client{Name: "a"}, slices.Repeat([]Text{textOf(1, 10)}, 100), Vector)
		ended <- err
	}()
	for b.Stats().Waiting < 99 {
		time.Sleep(time.Millisecond)
	}
	go b.Close()
	for { // the step that runs is awaited
		b.mu.Lock()
		closed := b.closed
		b.mu.Unlock()
		if closed {
			break
		}
		time.Sleep(time.Millisecond)
	}
	close(f.hold)
	if err := <-ended; !errors.Is(err, llm.ErrClosed) {
		t.Error(err)
	}
	b.Close()
}

// TestStepsAreShortWhileBusy: while models generate, steps have what the pace allows.
func TestStepsAreShortWhileBusy(t *testing.T) {
	f := &fake{pooling: []Pooling{Mean}}
	busy := atomic.Bool{}
	b := New(f, Config{MaxBatchTokens: 1000, Busy: busy.Load, BusyStep: time.Nanosecond})
	defer b.Close()
	texts := slices.Repeat([]Text{textOf(1, 10)}, 50)
	busy.Store(true)
	if _, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts, Vector); err != nil {
		t.Fatal(err)
	}
	if n := len(f.steps); n != 50 {
		t.Errorf("%d steps, want one for each text", n)
	}
	busy.Store(false)
	f.steps = nil
	if _, err := b.Run(t.Context(), llm.Client{Name: "a"}, texts, Vector); err != nil {
		t.Fatal(err)
	}
	if n := len(f.steps); n != 1 {
		t.Errorf("%d steps, want one", n)
	}
}
