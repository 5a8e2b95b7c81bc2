package ort

import (
	"fmt"
	"math/rand/v2"
	"os"
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
		t.Skipf("resident memory is not known here: %v", err)
	}
	var size, pages int
	if _, err := fmt.Sscan(string(b), &size, &pages); err != nil {
		t.Fatal(err)
	}
	return pages * os.Getpagesize()
}

// grows runs work once to warm up and then again and fails when the resident memory
// grew by more than limit bytes in between.
func grows(t *testing.T, limit int, work func()) {
	t.Helper()
	work()
	before := resident(t)
	work()
	if after := resident(t); after-before > limit {
		t.Errorf("resident memory grew by %d bytes, from %d", after-before, before)
	}
}

func TestForwardKeepsItsMemory(t *testing.T) {
	if runtime.GOOS != "linux" {
		t.Skip("resident memory is read from Linux's /proc")
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
	if runtime.GOOS != "linux" {
		t.Skip("resident memory is read from Linux's /proc")
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
				clear(p.part(layer, 0))
				clear(p.part(layer, 1))
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
