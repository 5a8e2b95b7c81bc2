package ort

import (
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"runtime"
	"runtime/debug"
	"testing"

	"tgi/runtime/llm"
)

// resident returns the process's resident memory in bytes, after Go returned
// what it can.
func resident(t *testing.T) int {
	t.Helper()
	debug.FreeOSMemory()
	b, err := os.ReadFile("/proc/self/statm")
	if err != nil {
		t.Fatal(err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// alone reports whether the test runs in a process of its own; if not, it runs
// it in one and reports that one's result. What other tests freed would
// otherwise be room for a leak to hide in.
func alone(t *testing.T) bool {
	t.Helper()
	if runtime.GOOS != "linux" {
		t.Skip("resident memory is read from Linux's /proc")
	}
	if os.Getenv("TGI_TEST_ALONE") != "" {
		return true
	}
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$")
	cmd.Env = append(os.Environ(), "TGI_TEST_ALONE=1")
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	return false
}

// grows fails when a round of work leaves more than limit bytes of resident memory behind, on average: one may, for
// threads and allocators keep some and give it back in another.
func grows(t *testing.T, limit int, work func()) {
	t.Helper()
	const rounds = 8
	work()
	before := resident(t)
	for range rounds {
		work()
	}
	if each := (resident(t) - before) / rounds; each > limit {
		t.Errorf("resident memory grows by %d bytes each time", each)
	}
}

func TestForwardKeepsItsMemory(t *testing.T) {
	if !alone(t) {
		return
	}
	p := openTiny(t)
	r := rand.New(rand.NewPCG(1, 1))
	blocks := make([][]int32, 2)
	for i := range tiny.Blocks {
		blocks[i%2] = append(blocks[i%2], int32(i))
	}
	tokens := prompt(r, tiny.MaxLen)
	// A leak of one bound value of a step is 100 bytes or more, 300 KB here.
	grows(t, 250_000, func() {
		for range 3000 {
			seqs, n := []*seq{}, []int{}
			for i := range 1 + r.IntN(2) {
				seqs = append(seqs, &seq{tokens: tokens, blocks: blocks[i], done: r.IntN(200)})
				n = append(n, 1+r.IntN(1+r.IntN(300)))
			}
			s := step(seqs, n)
			if _, err := p.Forward(s); err != nil {
				t.Fatal(err)
			}
			s.Tokens[0] = llm.Token(tiny.Vocab)
			if _, err := p.Forward(s); err == nil {
				t.Fatal("a bad step runs")
			}
		}
	})
}

func TestCloseGivesMemoryBack(t *testing.T) {
	if !alone(t) {
		return
	}
	start(t)
	o := tiny
	o.ModelPath = tinyModel(t)
	o.Blocks = 4096
	grows(t, 4<<20, func() {
		for range 20 {
			p, err := Open(o)
			if err != nil {
				t.Fatal(err)
			}
			// Touch the whole cache, 16 MB.
			for layer := range o.Layers {
				clear(p.layerCache(layer, 0))
				clear(p.layerCache(layer, 1))
			}
			p.Close()
			bad := o
			bad.Vocab++
			if p, err := Open(bad); err == nil {
				p.Close()
				t.Fatal("a model with another vocabulary opens")
			}
		}
	})
}
