package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/sdk/abi"
)

// words is a test vocabulary.
type words []struct {
	text  string
	flags uint32
}

func (w words) Size() int { return len(w) + 3 } // some ids without a token
func (w words) Bytes(id uint32) []byte {
	if int(id) >= len(w) {
		return nil
	}
	return []byte(w[id].text)
}
func (w words) Flags(id uint32) uint32 { return w[id].flags }

func (w words) ordinary(id int) bool { return id < len(w) && w[id].flags == 0 }

// small is a vocabulary over symbols: each symbol, duplicates, and random tokens.
func small(r *rand.Rand) words {
	w := words{{"<s>", abi.TokenSpecial}, {"a", 0}, {"<end>", abi.TokenSpecial | abi.TokenEnd}, {"a", 0}}
	for _, b := range symbols {
		w = append(w, struct {
			text  string
			flags uint32
		}{string([]byte{b}), 0})
	}
	for range 14 {
		n := 2 + r.IntN(3)
		t := make([]byte, n)
		for i := range t {
			t[i] = symbols[r.IntN(len(symbols))]
			if r.IntN(2) == 0 {
				t[i] = symbols[r.IntN(2)]
			}
		}
		w = append(w, struct {
			text  string
			flags uint32
		}{string(t), 0})
	}
	return append(w, struct {
		text  string
		flags uint32
	}{"<tool>", abi.TokenSpecial})
}

// drawRegex adds a random node whose operands are existing nodes.
func drawRegex(r *rand.Rand, b *irtest.Builder, rs []uint32) uint32 {
	switch r.IntN(8) {
	case 0, 1:
		return b.Concat(pick(r, rs), pick(r, rs))
	case 2:
		return b.Union(pick(r, rs), pick(r, rs))
	case 3, 4:
		lo, hi := bounds(r)
		return b.Repeat(pick(r, rs), lo, hi)
	case 5:
		return b.And(pick(r, rs), b.Not(pick(r, rs)))
	case 6:
		return b.And(pick(r, rs), pick(r, rs))
	}
	return b.Concat(pick(r, rs), pick(r, rs), pick(r, rs))
}

func pick(r *rand.Rand, from []uint32) uint32 { return from[r.IntN(len(from))] }

func bounds(r *rand.Rand) (lo, hi uint32) {
	lo = uint32(r.IntN(3))
	if r.IntN(3) == 0 {
		return lo, ir.Unbounded
	}
	return lo, lo + uint32(r.IntN(3))
}

// random generates a random grammar.
func random(r *rand.Rand) *ir.Grammar {
	var b irtest.Builder
	rs := []uint32{b.Lit("a"), b.Bytes("bc"), b.Chars(ir.Range{Lo: 'z', Hi: 'z'}, ir.Range{Lo: 0xE9, Hi: 0xE9}),
		b.Lits("ab", "abc", "b", "ca"), b.Bytes("az")}
	for range 2 + r.IntN(5) {
		rs = append(rs, drawRegex(r, &b, rs))
	}
	var es []uint32
	for range 4 {
		es = append(es, b.Term(pick(r, rs)))
	}
	rules := 1 + r.IntN(4)
	for i := range rules {
		es = append(es, b.Rule(uint32(i)))
		b.Declare("r")
	}
	if r.IntN(3) == 0 {
		es = append(es, b.TokenText("<tool>"), b.Token(r.IntN(2) == 0, ir.Range{Lo: 4, Hi: 12}))
	}
	for range 5 + r.IntN(8) {
		var x uint32
		switch r.IntN(7) {
		case 6:
			x = unordered(r, &b, es)
		case 0, 1:
			x = b.Seq(pick(r, es), pick(r, es))
		case 2, 3:
			x = b.Choice(pick(r, es), pick(r, es))
		case 4:
			lo, hi := bounds(r)
			x = b.Times(pick(r, es), lo, hi)
		case 5:
			x = b.Seq(pick(r, es), pick(r, es), pick(r, es))
		}
		es = append(es, x)
	}
	for i := range rules {
		b.Define(uint32(i), es[len(es)-1-r.IntN(min(6, len(es)))])
	}
	return &b.G
}

// unordered generates a random unordered list: no member matches the empty text, and at least two match some text.
func unordered(r *rand.Rand, b *irtest.Builder, es []uint32) uint32 {
	members := []uint32{b.Text("a"), b.Seq(b.Text("b"), pick(r, es)), b.Seq(b.Text("ab"), pick(r, es)), b.Text("z"),
		b.Text("bc")}
	r.Shuffle(len(members), func(i, j int) { members[i], members[j] = members[j], members[i] })
	members = append(members[:r.IntN(4)], b.Text("c"), b.Text("a"))
	marks := make([]ir.Mark, len(members))
	required := uint32(0)
	for i := range marks {
		if marks[i] = ir.Mark(r.IntN(8) & r.IntN(8) & 3); marks[i]&ir.Required != 0 {
			required++
		}
	}
	least, most := uint32(r.IntN(3)), uint32(ir.Unbounded)
	if r.IntN(2) == 0 {
		most = max(least, required) + uint32(r.IntN(3))
	}
	separator := b.Text("b")
	switch r.IntN(4) {
	case 0:
		separator = b.Seq()
	case 1:
		separator = b.Times(separator, 0, 1)
	}
	return b.Unordered(separator, members, marks, least, most)
}

func (w words) toks(x ir.Expr) func(id int) bool {
	return func(id int) bool {
		if x.Kind == ir.TokenText {
			return id < len(w) && w[id].text == x.Name
		}
		in := slices.ContainsFunc(x.Ranges, func(r ir.Range) bool { return int(r.Lo) <= id && id <= int(r.Hi) })
		if x.Except {
			return !in && w.ordinary(id)
		}
		return in && id < len(w)
	}
}

// TestMaskEqualsTryingEveryToken checks masks against the definition, for random grammars and random texts.
func TestMaskEqualsTryingEveryToken(t *testing.T) {
	const grammars = 2200
	var states, allowed, checked, ends, none, skipped int
	for seed := range uint64(grammars) {
		r := rand.New(rand.NewPCG(seed, 1))
		w := small(r)
		g := random(r)
		if err := g.Check(); err != nil {
			t.Fatal(err)
		}
		v, limits := grammar.NewVocab(w, 0), grammar.Limits{}
		if seed%3 == 0 { // almost nothing is cached
			v, limits.Memory = grammar.NewVocab(w, 1), 2000
		}
		ref := newNaive(g, w.toks)
		if ref == nil {
			skipped++
			continue
		}
		c, err := v.Compile(context.Background(), g, limits)
		if !ref.live[g.Rules[g.Start].Body] {
			none++
			if !errors.Is(err, grammar.ErrEmpty) {
				t.Fatalf("grammar %d matches no text, got %v", seed, err)
			}
			continue
		}
		if err != nil {
			t.Fatalf("grammar %d: %v", seed, err)
		}
		s, at := c.Start(), text{}
		for range 6 {
			can := compareMask(t, seed, s, ref, w, at)
			states, checked, allowed = states+1, checked+w.Size(), allowed+len(can)
			if len(can) == 0 {
				ends++
				break
			}
			id := can[r.IntN(len(can))]
			if err := s.Accept(uint32(id)); err != nil {
				t.Fatalf("grammar %d: %v", seed, err)
			}
			at = at.plus(w[id].text, !w.ordinary(id), id)
		}
	}
	t.Logf("%d grammars (%d without a text, %d too big for the comparison), %d states (%d at an end), %d tokens allowed of %d", grammars, none, skipped, states, ends, allowed, checked)
	if grammars-none-skipped < 1000 || states < 3000 || allowed < 3000 {
		t.Error("the random grammars are too small to be a useful test")
	}
}

// compareMask compares the mask of a state, Admits and CanEnd with the definition. It returns the allowed tokens that
// do not end the text.
func compareMask(t *testing.T, seed uint64, s *grammar.State, ref *naive, w words, at text) (can []int) {
	t.Helper()
	got := make([]uint32, (w.Size()+31)/32)
	err := s.Mask(got)
	if err != nil && !errors.Is(err, grammar.ErrStuck) {
		t.Fatalf("grammar %d: %v", seed, err)
	}
	_, whole := ref.judge(at)
	if s.CanEnd() != whole {
		t.Fatalf("grammar %d after %v: CanEnd is %v", seed, at.atoms, s.CanEnd())
	}
	for id := range w.Size() {
		want, end := false, id < len(w) && w[id].flags&abi.TokenEnd != 0
		if id < len(w) {
			want, _ = ref.judge(at.plus(w[id].text, !w.ordinary(id), id))
			want = want || whole && end
		}
		if has := got[id/32]>>(id%32)&1 != 0; err == nil && has != want || err != nil && want {
			t.Fatalf("grammar %d after %v: token %d is %v in the mask, want %v (%v)", seed, at.atoms, id, has, want,
				err)
		}
		if a := s.Admits(uint32(id)); a != want {
			t.Fatalf("grammar %d after %v: Admits(%d) = %v, want %v", seed, at.atoms, id, a, want)
		}
		if want && !end {
			can = append(can, id)
		}
	}
	return can
}

func ExampleGrammar() {
	var b irtest.Builder
	b.Define(b.Declare("start"), b.Seq(b.Text("a"), b.Times(b.Text("bc"), 1, ir.Unbounded)))
	v := grammar.NewVocab(words{{"a", 0}, {"ab", 0}, {"b", 0}, {"bcb", 0}, {"c", 0}, {"<end>", abi.TokenEnd}}, 0)
	g, err := v.Compile(context.Background(), &b.G, grammar.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	s := g.Start()
	mask := make([]uint32, g.Words())
	for _, token := range []uint32{1, 4, 3, 4, 5} {
		if err := s.Mask(mask); err != nil {
			fmt.Println(err)
		}
		fmt.Printf("%06b, then %d\n", mask[0], token)
		if err := s.Accept(token); err != nil {
			fmt.Println(err)
		}
	}
	fmt.Println(s.Ended())
	// Output:
	// 000011, then 1
	// 010000, then 4
	// 101100, then 3
	// 010000, then 4
	// 101100, then 5
	// true
}
