package kv

import (
	"maps"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// told is what a Watcher knows.
type told map[Key][]llm.Token

func (m told) Stored(key, parent Key, first bool, tokens []llm.Token) {
	if m[key] != nil || first != (parent == plainSalt) {
		panic("a block is stored twice, or the first is not")
	}
	r := Row{salt: parent}
	if Key(r.Chain(append(slices.Clone(tokens), 0), len(tokens))[0].Key) != key {
		panic("the key is not that of the parent and the tokens")
	}
	m[key] = slices.Clone(tokens)
}

func (m told) Removed(key Key) {
	if m[key] == nil {
		panic("a block is removed that was not stored")
	}
	delete(m, key)
}

// TestWatcherKnowsTheTable: a watcher knows the findable blocks that nothing but tokens decides, after whatever rows
// did.
func TestWatcherKnowsTheTable(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		p := newPool(t, Config{Blocks: 4 + r.IntN(12), BlockSize: 2, Share: true})
		seen := told{}
		p.Watch(seen)
		salted := map[Key]bool{} // and those with embeddings
		stored := false
		for range 300 {
			tokens := make([]llm.Token, 3+r.IntN(5))
			for i := range tokens {
				tokens[i] = llm.Token(r.IntN(2))
			}
			row := NewRow("")
			kind := r.IntN(4)
			switch kind {
			case 1:
				row = NewRow("adapter")
			case 2:
				row = NewRow("", llm.Embedding{At: 0, N: 1, Sum: [32]byte{1}, Vectors: []float32{1}})
			}
			chain := row.Chain(append(slices.Clone(tokens), 0), 2)
			for _, b := range chain {
				salted[b.Key] = kind == 1 || kind == 2
			}
			if kind == 3 {
				if _, err := p.Import(chain[0], func(int32) error { return nil }); err != nil {
					t.Fatal(err)
				}
			} else {
				p.Find(row, tokens)
				fill(t, p, row, tokens)
				if r.IntN(2) == 0 { // and something else in the place of its end
					p.Truncate(row, len(tokens)-2, len(tokens)-2)
					p.Take(row, len(tokens)-1, nil)
				}
			}
			p.Give(row)
			want := map[Key]bool{}
			for k := range p.table {
				if !salted[k] {
					want[k] = true
				}
			}
			have := map[Key]bool{}
			for k := range seen {
				have[k] = true
			}
			if stored = stored || len(have) > 0; !maps.Equal(have, want) {
				t.Fatalf("seed %d: the watcher knows %d blocks of %d", seed, len(have), len(want))
			}
		}
		if !stored {
			t.Error("nothing was stored")
		}
	}
}

// TestImportedEndGoesFirst: of a chain that was imported, the end is evicted before the beginning.
func TestImportedEndGoesFirst(t *testing.T) {
	p := newPool(t, Config{Blocks: 6, BlockSize: 4, Share: true})
	chain := NewRow("").Chain(count(0, 17), 4)
	row := NewRow("")
	fill(t, p, row, count(0, 9)) // two of its blocks are there, and a third that is not full
	for i, b := range chain {
		if i == 3 {
			p.Give(row)
			p.Refresh(append(chain, NewRow("x").Chain(count(0, 9), 4)...)) // also of what is not there
		}
		if done, err := p.Import(b, func(int32) error { return nil }); !done || err != nil {
			t.Fatal(done, err)
		}
	}
	check(t, p)
	other := NewRow("")
	for n, want := range []int{4, 3, 2, 1} { // blocks of the chain that are left; two others are free at first
		fill(t, p, other, count(100, 4*(n+2)))
		found := 0
		for _, b := range chain {
			if _, ok := p.Lookup(b.Key); !ok {
				break
			}
			found++
		}
		if found != want {
			t.Errorf("%d blocks are left behind %d others, want %d", found, n+2, want)
		}
	}
}
