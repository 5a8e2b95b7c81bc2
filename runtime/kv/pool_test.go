package kv

import (
	"fmt"
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

// TestRandom plays sequences against a plain memory of what each block holds.
func TestRandom(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 1))
		g := newGame(t, r.IntN)
		g.long = 12
		size, share := 1+r.IntN(5), seed%5 != 0
		if seed%3 == 2 { // a GPU's blocks: longer sequences, which are equal more often than by chance
			size = []int{64, 128, 256}[r.IntN(3)]
			g.long, g.kinds = 4*size, 1+r.IntN(2)
		}
		g.start(Config{Blocks: 3 + r.IntN(20), BlockSize: size, Share: share})
		for range 600 {
			g.move()
		}
		g.end()
	}
}

// FuzzPool is TestRandom with the fuzzer's choices.
func FuzzPool(f *testing.F) {
	for seed := range byte(8) {
		choices := make([]byte, 200)
		r := rand.New(rand.NewPCG(uint64(seed), 7))
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		f.Add(append([]byte{seed}, choices...))
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		at := 0
		g := newGame(t, func(n int) int {
			if at == len(choices) {
				return 0
			}
			at++
			return int(choices[at-1]) % n
		})
		g.start(Config{Blocks: 3 + g.choose(12), BlockSize: 1 + g.choose(5), Share: g.choose(5) > 0})
		for at < len(choices) {
			g.move()
		}
		g.end()
	})
}

// game plays sequences on a pool: they are computed in pieces, with drafts of which a part stays, forked, preempted,
// adopted, truncated and given up. After each move every row must read back its own tokens, whoever wrote them.
type game struct {
	t      *testing.T
	choose func(n int) int
	long   int // tokens of a new sequence at most
	kinds  int // of tokens
	p      *Pool
	memory [][]llm.Token   // of each block: the whole history that it was written with
	open   map[string]bool // histories that some row did not withhold
	live   []*played
}

type played struct {
	row    *Row
	tokens []llm.Token // more than the row has computed
}

func newGame(t *testing.T, choose func(int) int) *game {
	return &game{t: t, choose: choose, long: 12, kinds: 2}
}

func (g *game) start(c Config) {
	g.p = newPool(g.t, c)
	g.memory = make([][]llm.Token, g.p.Total())
	g.open = map[string]bool{}
}

func (g *game) token() llm.Token { return llm.Token(g.choose(g.kinds)) }

func (g *game) move() {
	switch {
	case len(g.live) == 0 || g.choose(6) == 0:
		s := &played{row: NewRow("")}
		for range 1 + g.choose(g.long) {
			s.tokens = append(s.tokens, g.token())
		}
		if g.choose(3) == 0 {
			s.row.Withhold(g.choose(len(s.tokens) + 1))
		}
		g.p.Find(s.row, s.tokens)
		g.live = append(g.live, s)
	case g.choose(8) == 0:
		g.stepBack(g.choose(len(g.live)))
	case g.choose(8) == 0:
		s := g.live[g.choose(len(g.live))]
		g.p.Show(s.row, s.tokens, g.choose(len(s.tokens)+1))
	case g.choose(8) == 0:
		s := g.live[g.choose(len(g.live))]
		g.live = append(g.live, &played{g.p.Fork(s.row), append(slices.Clone(s.tokens[:s.row.Len()]), g.token())})
	case g.choose(5) == 0:
		s := g.live[g.choose(len(g.live))]
		n := g.choose(s.row.Len() + 1)
		s.tokens = append(s.tokens[:n:n], g.token())
		g.p.Truncate(s.row, n, n)
		if g.choose(2) == 0 {
			g.p.Find(s.row, s.tokens)
		}
	case g.choose(9) == 0: // tokens that were not computed
		s := g.live[g.choose(len(g.live))]
		n := s.row.Len() + g.choose(len(s.tokens)-s.row.Len())
		s.tokens = append(s.tokens[:n:n], g.token())
		g.p.Truncate(s.row, s.row.Len(), n)
	case g.choose(3) == 0:
		g.speculate(g.live[g.choose(len(g.live))])
	default:
		s := g.live[g.choose(len(g.live))]
		n := s.row.Len() + g.choose(len(s.tokens)-s.row.Len()+1)
		if !g.compute(s.row, s.tokens[:n]) {
			break
		}
		g.p.Commit(s.row, s.tokens[:n])
		if n == len(s.tokens) {
			s.tokens = append(s.tokens, g.token())
		}
	}
	g.verify()
}

// stepBack has a sequence give its blocks, and return or not.
func (g *game) stepBack(i int) {
	s := g.live[i]
	g.p.Give(s.row)
	switch other := g.live[g.choose(len(g.live))]; g.choose(3) {
	case 0:
		g.p.Find(s.row, s.tokens)
	case 1: // it shares what another has of the same tokens
		n := 0
		for n < min(other.row.Len(), len(s.tokens)-1) && other.tokens[n] == s.tokens[n] {
			n++
		}
		g.p.Adopt(s.row, other.row, n/g.p.BlockSize()*g.p.BlockSize())
		g.p.Find(s.row, s.tokens)
	default:
		g.live = slices.Delete(g.live, i, i+1)
	}
}

// speculate computes all of a sequence's tokens with drafts behind them, of which some stay.
func (g *game) speculate(s *played) {
	known := len(s.tokens)
	drafted := slices.Clone(s.tokens)
	for range g.choose(8) {
		drafted = append(drafted, g.token())
	}
	if !g.compute(s.row, drafted) {
		return
	}
	stay := known + g.choose(len(drafted)-known+1)
	s.tokens = append(s.tokens, drafted[known:stay]...)
	g.p.Commit(s.row, s.tokens)
	s.tokens = append(s.tokens, g.token())
	if g.choose(4) > 0 {
		g.p.Trim(s.row, len(s.tokens))
	}
}

// compute writes the tokens behind the computed ones.
func (g *game) compute(r *Row, tokens []llm.Token) (ok bool) {
	copies, ok := g.p.Take(r, len(tokens), nil)
	if !ok {
		return false
	}
	for _, c := range copies {
		g.memory[c.Dst] = slices.Clone(g.memory[c.Src])
	}
	size := g.p.BlockSize()
	for at := r.Len(); at < len(tokens); at++ {
		b := r.Blocks()[at/size]
		if g.p.refs[b] != 1 || g.p.findable[b] {
			g.t.Fatalf("writes position %d into block %d, which has %d references and can be found: %v", at, b, g.p.refs[b],
				g.p.findable[b])
		}
		g.memory[b] = slices.Clone(tokens[:at+1])
	}
	return true
}

// verify checks the invariants, what each row reads, and what each block that can be found holds.
func (g *game) verify() {
	g.t.Helper()
	var rows []*Row
	size := g.p.BlockSize()
	for _, s := range g.live {
		rows = append(rows, s.row)
		for i := 0; i*size < s.row.Len(); i++ {
			end := min((i+1)*size, s.row.Len())
			have := g.memory[s.row.Blocks()[i]]
			if len(have) < end || !slices.Equal(have[:end], s.tokens[:end]) {
				g.t.Fatalf("block %d of %v holds %v", i, s.tokens[:end], have)
			}
			if (i+1)*size <= min(s.row.Len(), s.row.open) {
				g.open[fmt.Sprint(have[:end])] = true
			}
		}
	}
	check(g.t, g.p, rows...)
	for k, b := range g.p.table {
		r, have := NewRow(""), g.memory[b]
		if full := len(have) / size; full == 0 || g.p.key(r, have, full-1) != k {
			g.t.Fatalf("block %d is found under another key than that of %v", b, have)
		}
		if whole := have[:len(have)/size*size]; !g.open[fmt.Sprint(whole)] {
			g.t.Fatalf("block %d of %v is found, though all that had it withheld it", b, whole)
		}
	}
}

func (g *game) end() {
	for _, s := range g.live {
		g.p.Give(s.row)
	}
	g.live = nil
	g.verify()
	if g.p.Used() != 0 {
		g.t.Errorf("%d blocks are left", g.p.Used())
	}
}

// A row that is cut within a block that can be found writes into a copy while others hold that, and takes it back from
// the cache when nobody does.
func TestTruncate(t *testing.T) {
	p := newPool(t, Config{Blocks: 8, BlockSize: 4, Share: true})
	a, b := NewRow(""), NewRow("")
	tokens := count(0, 12)
	fill(t, p, a, tokens)
	p.Find(b, append(slices.Clone(tokens), 99))
	p.Truncate(a, 6, 7)
	check(t, p, a, b)
	if a.Len() != 6 || len(a.Blocks()) != 2 || p.Used() != 3 {
		t.Fatalf("%d tokens in %d blocks, %d in use", a.Len(), len(a.Blocks()), p.Used())
	}
	shared := a.Blocks()[1]
	if copies := fill(t, p, a, append(slices.Clone(tokens[:6]), 50, 51)); len(copies) != 1 || copies[0].Src != shared {
		t.Errorf("copies %v of block %d", copies, shared)
	}
	check(t, p, a, b)
	p.Give(a)
	p.Truncate(b, 9, 10) // nobody else has its third block
	if copies := fill(t, p, b, append(slices.Clone(tokens[:9]), 60)); len(copies) != 0 {
		t.Errorf("the only holder copied: %v", copies)
	}
	check(t, p, b)
	c := NewRow("")
	if n := p.Find(c, tokens); n != 8 {
		t.Errorf("found %d tokens, the third block was overwritten", n)
	}
	p.Give(b)
	check(t, p, c)
	defer func() {
		if recover() == nil {
			t.Error("a row was cut to more than it has")
		}
	}()
	p.Truncate(c, 9, 9)
}

// TestWithheld: what a row withholds is found by nobody until it is shown, and what it shows is.
func TestWithheld(t *testing.T) {
	p := newPool(t, Config{Blocks: 20, BlockSize: 2, Share: true})
	tokens := []llm.Token{1, 2, 3, 4, 5, 6, 7, 8, 9}
	r := NewRow("")
	r.Withhold(3)
	compute := func(n int) {
		if _, ok := p.Take(r, n, nil); !ok {
			t.Fatal("no blocks")
		}
		p.Commit(r, tokens[:n])
	}
	compute(7)
	for _, c := range []struct{ shown, want int }{{3, 2}, {4, 4}, {2, 4}, {5, 4}, {8, 6}} {
		p.Show(r, tokens, c.shown)
		other := NewRow("")
		if got := p.Find(other, tokens); got != c.want {
			t.Errorf("of 7 tokens, %d shown, others find %d, want %d", c.shown, got, c.want)
		}
		p.Give(other)
	}
	compute(8) // what is shown before it is computed
	f := p.Fork(r)
	if got := p.Find(NewRow(""), append(tokens, 0)); got != 8 {
		t.Errorf("others find %d of 8 tokens", got)
	}
	if f.open != 8 {
		t.Errorf("a fork shows %d tokens, want 8", f.open)
	}
	p.Truncate(f, 5, 5)
	if f.open != 5 {
		t.Errorf("cut to 5 tokens it shows %d", f.open)
	}
}

// What a draft computed and did not stay can't be found, and its blocks go back.
func TestTrim(t *testing.T) {
	p := newPool(t, Config{Blocks: 8, BlockSize: 4, Share: true})
	r := NewRow("")
	p.Take(r, 14, nil)
	p.Commit(r, count(0, 5))
	p.Trim(r, 6)
	check(t, p, r)
	if len(r.Blocks()) != 2 || p.Used() != 2 || len(p.table) != 1 {
		t.Errorf("%d blocks, %d in use, %d can be found", len(r.Blocks()), p.Used(), len(p.table))
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
		{"cut at the end of a block", func(p *Pool, r *Row) { r.n, r.cut = 8, true }, "marked as cut"},
		{"cut where nothing is found", func(p *Pool, r *Row) { r.cut = true }, "marked as cut"},
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
