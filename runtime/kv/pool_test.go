package kv

import (
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

func newPool(t *testing.T, c Config) *Pool {
	t.Helper()
	p, err := New(c)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// count returns n tokens from on.
func count(from, n int) []llm.Token {
	out := make([]llm.Token, n)
	for i := range out {
		out[i] = llm.Token(from + i)
	}
	return out
}

// fill takes room for tokens in r and commits them.
func fill(t *testing.T, p *Pool, r *Row, tokens []llm.Token) (copies []llm.BlockCopy) {
	t.Helper()
	copies, ok := p.Take(r, len(tokens), nil)
	if !ok {
		t.Fatalf("no room for %d tokens", len(tokens))
	}
	p.Commit(r, tokens)
	return copies
}

func check(t *testing.T, p *Pool, rows ...*Row) {
	t.Helper()
	if err := p.Check(rows); err != nil {
		t.Fatal(err)
	}
}

func TestNew(t *testing.T) {
	for _, c := range []Config{{Blocks: 0, BlockSize: 4}, {Blocks: 4, BlockSize: 0}, {Blocks: -1, BlockSize: 1}} {
		if _, err := New(c); err == nil {
			t.Errorf("%+v was accepted", c)
		}
	}
}

func TestTakeGrowsAndRefuses(t *testing.T) {
	p := newPool(t, Config{Blocks: 4, BlockSize: 4, Share: true})
	a, b := NewRow(""), NewRow("")
	fill(t, p, a, count(0, 9))
	if got := len(a.Blocks()); got != 3 {
		t.Errorf("9 tokens sit in %d blocks", got)
	}
	fill(t, p, a, count(0, 12)) // fits what it has
	if p.Used() != 3 || p.Needs(a, 13) != 1 {
		t.Errorf("used %d, a 13th token needs %d blocks", p.Used(), p.Needs(a, 13))
	}
	if _, ok := p.Take(b, 5, nil); ok || p.Used() != 3 {
		t.Errorf("two blocks out of one: %v, used %d", ok, p.Used())
	}
	check(t, p, a, b)
	p.Give(a)
	if p.Used() != 0 || p.Cached() != 3 || p.Available() != 4 {
		t.Errorf("used %d, cached %d, available %d", p.Used(), p.Cached(), p.Available())
	}
	check(t, p, a, b)
}

func TestFind(t *testing.T) {
	prompt := count(100, 11) // two full blocks of four
	other := slices.Clone(prompt)
	other[1] = 7
	for _, c := range []struct {
		name   string
		share  bool
		salt   string
		tokens []llm.Token
		want   int
	}{
		{"same", true, "", prompt, 8},
		{"longer", true, "", count(100, 30), 8},
		{"a token is left to compute", true, "", prompt[:8], 4},
		{"one over a block", true, "", prompt[:9], 8},
		{"shorter than a block", true, "", prompt[:3], 0},
		{"block differs at its start", true, "", other, 0},
		{"second block without the first", true, "", prompt[4:], 0},
		{"other salt", true, "adapter", prompt, 0},
		{"sharing off", false, "", prompt, 0},
	} {
		t.Run(c.name, func(t *testing.T) {
			for _, given := range []bool{false, true} {
				p := newPool(t, Config{Blocks: 16, BlockSize: 4, Share: c.share})
				a, b := NewRow(""), NewRow(c.salt)
				fill(t, p, a, prompt)
				if given {
					p.Give(a)
				}
				if got := p.Find(b, c.tokens); got != c.want || b.Len() != c.want {
					t.Errorf("given %v: found %d tokens, row has %d, want %d", given, got, b.Len(), c.want)
				}
				check(t, p, a, b)
			}
		})
	}
}

// TestFindLooksAtEmbeddings: blocks are found where tokens and embeddings are equal.
func TestFindLooksAtEmbeddings(t *testing.T) {
	prompt := slices.Repeat([]llm.Token{9}, 12) // two blocks of four, and one whose last token is left to compute
	run := func(at, n int, sum byte) llm.Embedding {
		return llm.Embedding{At: at, N: n, Sum: [32]byte{sum}, Vectors: make([]float32, n)}
	}
	have := []llm.Embedding{run(2, 4, 1), run(6, 1, 2)}
	lines := run(2, 4, 1)
	lines.Columns = 2
	for _, c := range []struct {
		name string
		list []llm.Embedding
		want int
	}{
		{"the same", have, 8},
		{"none", nil, 0},
		{"in lines", []llm.Embedding{lines, run(6, 1, 2)}, 0},
		{"another first", []llm.Embedding{run(2, 4, 3), run(6, 1, 2)}, 0},
		{"another second", []llm.Embedding{run(2, 4, 1), run(6, 1, 3)}, 4},
		{"a longer first", []llm.Embedding{run(2, 5, 1)}, 4},
		{"moved", []llm.Embedding{run(1, 4, 1), run(6, 1, 2)}, 0},
		{"its end only", []llm.Embedding{run(4, 2, 1), run(6, 1, 2)}, 0},
		{"one more behind", append(slices.Clone(have), run(9, 1, 2)), 8},
	} {
		p := newPool(t, Config{Blocks: 16, BlockSize: 4, Share: true})
		a, b := NewRow("", have...), NewRow("", c.list...)
		fill(t, p, a, prompt)
		if got := p.Find(b, prompt); got != c.want {
			t.Errorf("%s: found %d tokens, want %d", c.name, got, c.want)
		}
		check(t, p, a, b)
	}
}

func TestUncommittedIsNotFound(t *testing.T) {
	p := newPool(t, Config{Blocks: 16, BlockSize: 4, Share: true})
	a, b := NewRow(""), NewRow("")
	prompt := count(0, 12)
	if _, ok := p.Take(a, 12, nil); !ok {
		t.Fatal("no room")
	}
	p.Commit(a, prompt[:7])
	if got := p.Find(b, prompt); got != 4 {
		t.Errorf("found %d tokens of 4 in computed full blocks", got)
	}
	check(t, p, a, b)
}

// A row that took its blocks ahead gives them back for what others computed since.
func TestFindReplacesWhatWasTaken(t *testing.T) {
	p := newPool(t, Config{Blocks: 16, BlockSize: 4, Share: true})
	a, b := NewRow(""), NewRow("")
	prompt := count(0, 10)
	if _, ok := p.Take(b, 10, nil); !ok {
		t.Fatal("no room")
	}
	fill(t, p, a, prompt)
	if got := p.Find(b, prompt); got != 8 || p.Used() != 4 {
		t.Errorf("found %d, %d blocks in use, want 8 and 4", got, p.Used())
	}
	check(t, p, a, b)
}

func TestEqualBlocksAreFoundOnce(t *testing.T) {
	p := newPool(t, Config{Blocks: 16, BlockSize: 4, Share: true})
	a, b := NewRow(""), NewRow("")
	fill(t, p, a, count(0, 8))
	fill(t, p, b, count(0, 8)) // computed beside, not found
	check(t, p, a, b)
	p.Give(b)
	if p.Cached() != 0 || p.Used() != 2 {
		t.Errorf("the copies stay: %d cached, %d used", p.Cached(), p.Used())
	}
	p.Give(a)
	if p.Cached() != 2 {
		t.Errorf("%d cached", p.Cached())
	}
	check(t, p)
}

func TestEviction(t *testing.T) {
	p := newPool(t, Config{Blocks: 6, BlockSize: 2, Share: true})
	old, young := count(0, 6), count(50, 6) // three blocks each
	for _, tokens := range [][]llm.Token{old, young} {
		r := NewRow("")
		fill(t, p, r, tokens)
		p.Give(r)
	}
	found := func(tokens []llm.Token) int {
		r := NewRow("")
		n := p.Find(r, append(slices.Clone(tokens), 99))
		p.Give(r)
		return n
	}
	if found(old) != 6 || found(young) != 6 { // looks at old first: it is the older again
		t.Fatal("not everything is found")
	}
	r := NewRow("")
	fill(t, p, r, count(80, 2))
	check(t, p, r)
	if a, b := found(old), found(young); a != 4 || b != 6 {
		t.Errorf("found %d and %d, want the end of the older one forgotten: 4 and 6", a, b)
	}
	fill(t, p, r, count(80, 12))
	if found(old) != 0 || found(young) != 0 || p.Cached() != 0 {
		t.Error("found what was overwritten")
	}
	check(t, p, r)
}

func TestForkCopiesOnWrite(t *testing.T) {
	p := newPool(t, Config{Blocks: 8, BlockSize: 4, Share: true})
	a := NewRow("")
	tokens := count(0, 6)
	fill(t, p, a, tokens)
	b := p.Fork(a)
	c := p.Fork(a)
	if p.Used() != 2 {
		t.Errorf("forks took blocks: %d used", p.Used())
	}
	shared := a.Blocks()[1]
	if n := p.Needs(a, 7); n != 1 {
		t.Errorf("the first write needs %d blocks", n)
	}
	for i, r := range []*Row{a, b} {
		copies := fill(t, p, r, append(slices.Clone(tokens), llm.Token(70+i)))
		if len(copies) != 1 || copies[0].Src != shared || copies[0].Dst != r.Blocks()[1] || copies[0].Dst == shared {
			t.Errorf("row %d: copies %v, shared block %d", i, copies, shared)
		}
		check(t, p, a, b, c)
	}
	if copies := fill(t, p, c, append(slices.Clone(tokens), 90)); len(copies) != 0 || c.Blocks()[1] != shared {
		t.Errorf("the last holder copied: %v", copies)
	}
	if a.Blocks()[0] != b.Blocks()[0] || b.Blocks()[0] != c.Blocks()[0] {
		t.Error("the full block is not shared")
	}
	p.Give(a)
	check(t, p, b, c)
	p.Give(b)
	p.Give(c)
	check(t, p)
}

func TestFreesCountsWhatNobodyElseHolds(t *testing.T) {
	p := newPool(t, Config{Blocks: 8, BlockSize: 4})
	a, other := NewRow(""), NewRow("")
	fill(t, p, a, count(0, 6))
	b := p.Fork(a)
	fill(t, p, b, count(0, 9)) // its own second block and a third
	fill(t, p, other, count(50, 3))
	for _, c := range []struct {
		rows []*Row
		want int
	}{
		{nil, 0}, {[]*Row{a}, 1}, {[]*Row{b}, 2}, {[]*Row{a, b}, 4}, {[]*Row{b, other}, 3}, {[]*Row{a, b, other}, 5},
	} {
		if got := p.Frees(c.rows); got != c.want {
			t.Errorf("%d rows free %d blocks, want %d", len(c.rows), got, c.want)
		}
	}
	before, frees := p.Available(), p.Frees([]*Row{a, b})
	p.Give(a)
	p.Give(b)
	if got := p.Available() - before; got != frees {
		t.Errorf("%d blocks are free again, Frees says %d", got, frees)
	}
}

func TestForkAtBlockEnd(t *testing.T) {
	p := newPool(t, Config{Blocks: 8, BlockSize: 4, Share: true})
	a := NewRow("")
	fill(t, p, a, count(0, 8))
	b := p.Fork(a)
	if copies := fill(t, p, b, count(0, 9)); len(copies) != 0 {
		t.Errorf("copies %v", copies)
	}
	check(t, p, a, b)
}

// TestRandom plays sequences against a plain memory of what each block holds:
// whatever a row finds must be what it would have computed.
func TestRandom(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 1))
		size, long, kinds := 1+r.IntN(5), 12, 2
		if seed%3 == 2 { // a GPU's blocks: longer sequences, which are equal more often than by chance
			size = []int{64, 128, 256}[r.IntN(3)]
			long, kinds = 4*size, 1+r.IntN(2)
		}
		p := newPool(t, Config{Blocks: 3 + r.IntN(20), BlockSize: size, Share: seed%5 != 0})
		type sequence struct {
			row    *Row
			tokens []llm.Token
		}
		memory := make([][]llm.Token, p.Total()) // the whole history each slot's block was written with
		var live []*sequence
		rows := func() (out []*Row) {
			for _, s := range live {
				out = append(out, s.row)
			}
			return out
		}
		for range 600 {
			switch {
			case len(live) == 0 || r.IntN(6) == 0:
				s := &sequence{row: NewRow("")}
				for range 1 + r.IntN(long) {
					s.tokens = append(s.tokens, llm.Token(r.IntN(kinds)))
				}
				p.Find(s.row, s.tokens)
				live = append(live, s)
			case r.IntN(8) == 0:
				i := r.IntN(len(live))
				p.Give(live[i].row)
				switch other := live[r.IntN(len(live))]; r.IntN(3) {
				case 0: // steps back and returns
					p.Find(live[i].row, live[i].tokens)
				case 1: // and shares what another has of the same tokens
					n := 0
					for n < min(other.row.Len(), len(live[i].tokens)-1) && other.tokens[n] == live[i].tokens[n] {
						n++
					}
					p.Adopt(live[i].row, other.row, n/p.BlockSize()*p.BlockSize())
					p.Find(live[i].row, live[i].tokens)
				default:
					live = slices.Delete(live, i, i+1)
				}
			case r.IntN(8) == 0:
				s := live[r.IntN(len(live))]
				n := s.row.Len()
				live = append(live, &sequence{p.Fork(s.row), append(slices.Clone(s.tokens[:n]), llm.Token(r.IntN(2)))})
			default:
				s := live[r.IntN(len(live))]
				n := s.row.Len() + r.IntN(len(s.tokens)-s.row.Len()+1)
				copies, ok := p.Take(s.row, n, nil)
				if !ok {
					break
				}
				for _, c := range copies {
					memory[c.Dst] = slices.Clone(memory[c.Src])
				}
				for at := s.row.Len(); at < n; at++ {
					b := s.row.Blocks()[at/p.BlockSize()]
					memory[b] = append(slices.Clone(s.tokens[:at/p.BlockSize()*p.BlockSize()]),
						s.tokens[at/p.BlockSize()*p.BlockSize():at+1]...)
				}
				p.Commit(s.row, s.tokens[:n])
				if n == len(s.tokens) {
					s.tokens = append(s.tokens, llm.Token(r.IntN(2)))
				}
			}
			check(t, p, rows()...)
			for _, s := range live {
				for i := 0; i*p.BlockSize() < s.row.Len(); i++ {
					end := min((i+1)*p.BlockSize(), s.row.Len())
					have := memory[s.row.Blocks()[i]]
					if len(have) < end || !slices.Equal(have[:end], s.tokens[:end]) {
						t.Fatalf("seed %d: block %d of %v holds %v", seed, i, s.tokens[:end], have)
					}
				}
			}
		}
		for _, s := range live {
			p.Give(s.row)
		}
		check(t, p)
		if p.Used() != 0 {
			t.Errorf("seed %d: %d blocks are left", seed, p.Used())
		}
	}
}

// Check must see each kind of broken invariant.
func TestCheckSees(t *testing.T) {
	for _, c := range []struct {
		name  string
		spoil func(p *Pool, r *Row)
		want  string
	}{
		{"lost holder", func(p *Pool, r *Row) { p.refs[r.blocks[0]]++ }, "reference count 2"},
		{"stolen block", func(p *Pool, r *Row) { p.refs[r.blocks[0]] = 0 }, "more rows hold"},
		{"free twice", func(p *Pool, r *Row) { p.free = append(p.free, p.free[0]); p.used-- }, "is not"},
		{"held and free", func(p *Pool, r *Row) { p.free[0] = r.blocks[0] }, "free"},
		{"more computed than room", func(p *Pool, r *Row) { r.n = 100 }, "100 tokens"},
		{"findable while written", func(p *Pool, r *Row) { p.findable[r.blocks[2]] = true }, "can be found"},
		{"shared while written", func(p *Pool, r *Row) {
			r.n = 4
			p.findable[r.blocks[1]] = false
			p.refs[r.blocks[1]] = 2
		}, "is writable"},
		{"stale key", func(p *Pool, r *Row) { p.table[Key{1}] = 0 }, "keys for"},
		{"wrong key", func(p *Pool, r *Row) { p.keys[r.blocks[0]] = Key{1} }, "under its key"},
		{"cached but held", func(p *Pool, r *Row) { p.lru.push(r.blocks[0]) }, "LRU list"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p := newPool(t, Config{Blocks: 8, BlockSize: 4, Share: true})
			r := NewRow("")
			fill(t, p, r, count(0, 10))
			check(t, p, r)
			c.spoil(p, r)
			if err := p.Check([]*Row{r}); err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want … %s …", err, c.want)
			}
		})
	}
}

func BenchmarkFind(b *testing.B) {
	p, err := New(Config{Blocks: 256, BlockSize: 16, Share: true})
	if err != nil {
		b.Fatal(err)
	}
	prompt := count(0, 1024)
	r := NewRow("")
	p.Take(r, len(prompt), nil)
	p.Commit(r, prompt)
	for b.Loop() {
		f := NewRow("")
		p.Find(f, prompt)
		p.Give(f)
	}
}
