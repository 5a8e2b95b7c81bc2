package lora

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"sync"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/hf"
)

// fakeBackend counts adapters; each takes 100 bytes.
type fakeBackend struct {
	t      *testing.T
	mu     sync.Mutex
	loaded map[int]string // their sums, by number
	most   int
	fail   error
}

func (b *fakeBackend) AdapterBytes(*Adapter) int64 { return 100 }

func (b *fakeBackend) AddAdapter(a *Adapter) (int, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.fail != nil {
		return 0, b.fail
	}
	number := 1
	for b.loaded[number] != "" {
		number++
	}
	b.loaded[number] = a.Sum
	b.most = max(b.most, len(b.loaded))
	return number, nil
}

func (b *fakeBackend) RemoveAdapter(number int) {
	b.mu.Lock()
	defer b.mu.Unlock()
	if b.loaded[number] == "" {
		b.t.Errorf("adapter %d is freed twice", number)
	}
	delete(b.loaded, number)
}

func (b *fakeBackend) sum(number int) string {
	b.mu.Lock()
	defer b.mu.Unlock()
	return b.loaded[number]
}

const testAdapters = "../testdata/adapters"

// newPool returns a pool over the tiny Llama 2 with room for some adapters.
func newPool(t *testing.T, room int) (*Pool, *fakeBackend) {
	b := &fakeBackend{t: t, loaded: map[int]string{}}
	base := func() (*hf.Checkpoint, error) { return hf.Open("../testdata/golden/llama2") }
	p := NewPool(b, models.CPU, base, int64(100*room))
	t.Cleanup(func() {
		for _, s := range p.List() {
			if s.Users != 0 {
				t.Errorf("%+v is still used", s)
			}
			if err := p.Remove(s.Name); err != nil {
				t.Error(err)
			}
		}
		if used, _ := p.Bytes(); used != 0 || len(b.loaded) != 0 {
			t.Errorf("left over: %d bytes, %v", used, b.loaded)
		}
	})
	return p, b
}

// folders are adapters for the tiny Llama 2.
func folders(t *testing.T) []string {
	list, err := filepath.Glob(testAdapters + "/llama2-*")
	if err != nil || len(list) < 4 {
		t.Fatal(list, err)
	}
	return list
}

// TestPoolEvicts: the adapter that was not used for the longest time makes room, never one that is in use; one that
// was evicted comes back with its first use.
func TestPoolEvicts(t *testing.T) {
	p, b := newPool(t, 2)
	for i, dir := range folders(t)[:4] {
		if _, err := p.Add(t.Context(), fmt.Sprint(i), dir, false); err != nil {
			t.Fatal(err)
		}
	}
	use := func(name string) (Loaded, func()) {
		t.Helper()
		a, release, err := p.Use(t.Context(), name)
		if err != nil {
			t.Fatal(err)
		}
		if b.sum(a.Number) != a.Sum {
			t.Errorf("%s is another adapter", name)
		}
		return a, release
	}
	loaded := func(want ...string) {
		t.Helper()
		var got []string
		for _, s := range p.List() {
			if s.Loaded {
				got = append(got, s.Name)
			}
		}
		if !slices.Equal(got, want) {
			t.Errorf("in memory: %v, want %v", got, want)
		}
	}
	loaded("2", "3")
	zero, releaseZero := use("0")
	loaded("0", "3")
	_, release := use("1")
	loaded("0", "1")
	ended, cancel := context.WithTimeoutCause(t.Context(), 10*time.Millisecond, errors.New("the client has gone"))
	defer cancel()
	if _, _, err := p.Use(ended, "2"); err == nil || err != context.Cause(ended) {
		t.Errorf("beside two in use: %v", err)
	}
	release()
	_, release = use("2")
	loaded("0", "2")
	if again, releaseAgain := use("0"); again != zero {
		t.Errorf("a second use gives %+v, the first %+v", again, zero)
	} else {
		releaseAgain()
	}
	release()
	releaseZero()
	if b.most > 2 {
		t.Errorf("%d at once, two fit", b.most)
	}
	if _, err := p.Add(t.Context(), "0", folders(t)[1], false); !errors.Is(err, ErrTaken) {
		t.Errorf("a name twice: %v", err)
	}
	if _, _, err := p.Use(t.Context(), "9"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown name: %v", err)
	}
	if err := p.Remove("9"); !errors.Is(err, ErrUnknown) {
		t.Errorf("an unknown name is removed: %v", err)
	}
}

// TestPoolWaits: users of adapters for which there is no room get it in the order in which they came, whatever users
// of the adapters in memory do, and learn at once that theirs was removed.
func TestPoolWaits(t *testing.T) {
	p, b := newPool(t, 1)
	for i, dir := range folders(t)[:4] {
		if _, err := p.Add(t.Context(), fmt.Sprint(i), dir, false); err != nil {
			t.Fatal(err)
		}
	}
	ctx, stop := context.WithCancel(t.Context())
	var wg sync.WaitGroup
	for range 3 { // one of them has adapter 0 at all times
		wg.Go(func() {
			for ctx.Err() == nil {
				if _, release, err := p.Use(ctx, "0"); err == nil {
					time.Sleep(3 * time.Millisecond)
					release()
				}
			}
		})
	}
	waiting := func(n int) {
		t.Helper()
		for end := time.Now().Add(10 * time.Second); ; time.Sleep(time.Millisecond) {
			p.mu.Lock()
			have := len(p.line)
			p.mu.Unlock()
			if have >= n {
				return
			}
			if time.Now().After(end) {
				t.Fatalf("%d wait, want %d", have, n)
			}
		}
	}
	time.Sleep(20 * time.Millisecond)
	order := make(chan string, 2)
	for i, name := range []string{"1", "2"} {
		wg.Go(func() {
			a, release, err := p.Use(t.Context(), name)
			if err != nil {
				t.Error(err)
				return
			}
			if b.sum(a.Number) != a.Sum {
				t.Error("another adapter")
			}
			order <- name
			release()
		})
		waiting(i + 1)
	}
	gone := make(chan error)
	go func() {
		_, _, err := p.Use(t.Context(), "3")
		gone <- err
	}()
	waiting(3)
	for _, s := range p.List() {
		if want := map[bool]int{true: 1}[s.Name != "0"]; s.Waiters != want {
			t.Errorf("%+v, want %d waiters", s, want)
		}
	}
	if err := p.Remove("3"); err != nil {
		t.Error(err)
	}
	if err := <-gone; !errors.Is(err, ErrUnknown) {
		t.Errorf("an adapter that was removed meanwhile: %v", err)
	}
	if first, second := <-order, <-order; first != "1" || second != "2" {
		t.Errorf("%s came before %s", first, second)
	}
	stop()
	wg.Wait()
}

// TestPoolReplaces: requests keep the adapter that they began with, whose memory is free with the last of them.
func TestPoolReplaces(t *testing.T) {
	p, b := newPool(t, 2)
	dirs := folders(t)
	first, err := p.Add(t.Context(), "a", dirs[0], false)
	if err != nil {
		t.Fatal(err)
	}
	old, release, err := p.Use(t.Context(), "a")
	if err != nil || old != first {
		t.Fatal(err)
	}
	if second, err := p.Add(t.Context(), "a", dirs[1], true); err != nil || second.Sum == first.Sum {
		t.Errorf("%v, the same adapter: %v", err, second.Sum == first.Sum)
	}
	if b.sum(old.Number) != first.Sum {
		t.Error("an adapter in use was freed")
	}
	release()
	if got := b.sum(old.Number); got != "" {
		t.Error("an adapter that nobody can use stays in memory")
	}
	if _, err := p.Add(t.Context(), "a", t.TempDir(), true); !errors.Is(err, ErrAdapter) || !p.Has("a") {
		t.Errorf("a folder without an adapter: %v; the old one must stay", err)
	}
	small, _ := newPool(t, 0)
	if _, err := small.Add(t.Context(), "a", dirs[0], false); !errors.Is(err, ErrTooLarge) || small.Has("a") {
		t.Errorf("without memory: %v", err)
	}
	b.fail = errors.New("no pages")
	if _, err := p.Add(t.Context(), "b", dirs[0], false); !errors.Is(err, b.fail) || p.Has("b") {
		t.Errorf("a backend that fails: %v", err)
	}
}

// TestPoolUnderLoad: many users, and adapters that are added, replaced and removed meanwhile.
func TestPoolUnderLoad(t *testing.T) {
	p, b := newPool(t, 3)
	dirs := folders(t)
	var wg sync.WaitGroup
	ctx, cancel := context.WithTimeout(t.Context(), 200*time.Millisecond)
	defer cancel()
	for w := range 8 {
		r := rand.New(rand.NewPCG(uint64(w), 1))
		wg.Go(func() {
			for ctx.Err() == nil {
				name := fmt.Sprint(r.IntN(5))
				switch r.IntN(8) {
				case 0:
					if err := p.Remove(name); err != nil && !errors.Is(err, ErrUnknown) {
						t.Error(err)
					}
				case 1, 2:
					_, err := p.Add(t.Context(), name, dirs[r.IntN(4)], r.IntN(2) == 0)
					if err != nil && !errors.Is(err, ErrTaken) {
						t.Error(err)
					}
				default:
					a, release, err := p.Use(t.Context(), name)
					if err != nil {
						if !errors.Is(err, ErrUnknown) {
							t.Error(err)
						}
						continue
					}
					if b.sum(a.Number) != a.Sum {
						t.Error("an adapter in use is another one")
					}
					release()
				}
			}
		})
	}
	wg.Wait()
	if b.most > 3 {
		t.Errorf("%d at once, three fit", b.most)
	}
}

// TestPoolForgetsWhatIsGone: an adapter whose folder has gone is told when it is needed, and the pool goes on.
func TestPoolForgetsWhatIsGone(t *testing.T) {
	p, _ := newPool(t, 1)
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.CopyFS(dir, os.DirFS(folders(t)[0])); err != nil {
		t.Fatal(err)
	}
	for name, from := range map[string]string{"gone": dir, "there": folders(t)[1]} {
		if _, err := p.Add(t.Context(), name, from, false); err != nil {
			t.Fatal(err)
		}
	}
	if _, release, err := p.Use(t.Context(), "there"); err != nil {
		t.Fatal(err)
	} else {
		release()
	}
	if err := os.RemoveAll(dir); err != nil {
		t.Fatal(err)
	}
	if _, _, err := p.Use(t.Context(), "gone"); !errors.Is(err, ErrAdapter) {
		t.Error(err)
	}
	if _, release, err := p.Use(t.Context(), "there"); err != nil {
		t.Error(err)
	} else {
		release()
	}
}
