package host

import (
	"net/http"
	"os"
	"runtime/debug"
	"testing"
	"time"

	"tgi/models/library"
)

func TestHeapLimit(t *testing.T) {
	const g = 1 << 30
	for _, c := range []struct {
		name                                 string
		available, models, plugins, grammars int64
		want                                 int64
	}{
		{"nothing but Go", 8 * g, 0, 0, 0, 8 * g},
		{"models and instances lie elsewhere, grammars do not", 8 * g, 3 * g, g, g / 4, 8*g - 3*g - g + g/4},
		{"a full machine leaves the least", 8 * g, 9 * g, g, g / 4, leastHeap},
	} {
		if got := heapLimit(c.available, c.models, c.plugins, c.grammars); got != c.want {
			t.Errorf("%s: %d MiB, want %d", c.name, got>>20, c.want>>20)
		}
	}
}

// TestHeapIsLimited checks that Go's heap limit excludes the loaded models' memory, unless the user sets it, and that a
// model that does not fit evicts compiled grammars.
func TestHeapIsLimited(t *testing.T) {
	if os.Getenv("GOMEMLIMIT") != "" {
		t.Fatal("the test wants to see the limit that the server sets: unset GOMEMLIMIT")
	}
	before := debug.SetMemoryLimit(-1)
	defer debug.SetMemoryLimit(before)
	p := openPlugged(t, nil)
	m := p.models
	reserved, _ := m.roster.Memory()
	plugins := m.memory.Stats().Limit
	want := heapLimit(m.atStart, reserved, plugins, grammarMemory(m.pluginSettings(), plugins))
	if got := debug.SetMemoryLimit(-1); got != want || reserved == 0 {
		t.Errorf("the heap may take %d MiB, want %d; models have %d", got>>20, want>>20, reserved>>20)
	}
	if r := p.held(t, http.StatusOK, 1, `{"type":"regex","value":"[a-c]{3,9}"}`, ``); r.Text == "" {
		t.Fatal("no text")
	}
	cached := m.memory.Stats().Cached
	m.shrinkGrammars(m.systemMemory() / 2)
	if now := m.memory.Stats().Cached; now < cached || cached == 0 {
		t.Errorf("%d bytes of grammars yielded %d to a model that fits", cached, cached-now)
	}
	m.systemMemory = func() int64 { return 1 << 20 }
	now := cached
	for end := time.Now().Add(time.Minute); now > cached/8 && time.Now().Before(end); time.Sleep(time.Millisecond) {
		m.shrinkGrammars(1 << 30) // masks that are still being made come in behind it
		now = m.memory.Stats().Cached
	}
	if now > cached/8 {
		t.Errorf("%d of %d bytes of grammars are left beside a model that does not fit", now, cached)
	}
	id := library.ID(m.cfg.DefaultModel())
	stopping, err := m.roster.Stop(id)
	if err != nil {
		t.Fatal(err)
	}
	if err := stopping.Wait(t.Context()); err != nil {
		t.Fatal(err)
	}
	if got := debug.SetMemoryLimit(-1); got != heapLimit(m.atStart, 0, plugins, 0) {
		t.Errorf("without models the heap may take %d MiB, want %d", got>>20,
			heapLimit(m.atStart, 0, plugins, 0)>>20)
	}
	t.Setenv("GOMEMLIMIT", "1GiB")
	debug.SetMemoryLimit(1 << 30)
	m.limitHeap()
	if got := debug.SetMemoryLimit(-1); got != 1<<30 {
		t.Errorf("the user's limit became %d", got)
	}
}
