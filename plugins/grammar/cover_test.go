package grammar_test

import (
	"errors"
	"math/rand/v2"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// drawText generates a random regular expression like those of patterns and string lengths: classes that accept much of
// a vocabulary, counts around the lengths of tokens, exclusions, intersections.
func drawText(r *rand.Rand, b *irtest.Builder) uint32 {
	plain := b.Chars(ir.Range{Lo: 0x20, Hi: 0x21}, ir.Range{Lo: 0x23, Hi: 0x5B}, ir.Range{Lo: 0x5D, Hi: 0x10FFFF})
	rs := []uint32{
		plain, plain, b.Union(plain, b.Concat(b.Lit(`\`), b.Bytes(`""\\nn`))), b.Bytes("azAZ09  "), b.Bytes("az"),
		b.Bytes("AZ"), b.Bytes("  ~~"),
		b.Lit(" "), b.Lit("an"), b.Lits("bar", "bart", "to", " foo", "Foo"), b.Chars(ir.Range{Lo: 'a', Hi: 'z'},
			ir.Range{Lo: 0x370, Hi: 0x9FFF}), b.Bytes("09"),
	}
	for range 3 + r.IntN(5) {
		var x uint32
		switch r.IntN(9) {
		case 0, 1:
			x = b.Concat(pick(r, rs), pick(r, rs))
		case 2:
			x = b.Union(pick(r, rs), pick(r, rs))
		case 3, 4, 5:
			lo, hi := uint32(r.IntN(3)), ir.Unbounded
			if r.IntN(2) == 0 {
				hi = lo + 1 + uint32(r.IntN(45))
			} else if r.IntN(3) == 0 { // around the bucket lengths
				lo, hi = uint32(r.IntN(2)*r.IntN(130)), uint32(130+r.IntN(20))
			}
			x = b.Repeat(pick(r, rs), lo, hi)
		case 6:
			x = b.And(b.Repeat(plain, 0, ir.Unbounded), b.Not(pick(r, rs)))
		case 7:
			x = b.And(pick(r, rs), b.Repeat(plain, uint32(r.IntN(6)), uint32(10+r.IntN(120))))
		case 8:
			x = b.Concat(b.Repeat(pick(r, rs), 0, 1), pick(r, rs), b.Repeat(pick(r, rs), 0, ir.Unbounded))
		}
		rs = append(rs, x)
	}
	return b.Concat(rs[len(rs)-1], b.Lit(`"`))
}

// TestMasksOfTerms compares masks of random terms, which use many shortcuts, with the result of accepting each token,
// which uses none.
func TestMasksOfTerms(t *testing.T) {
	v := grammar.NewVocab(large(), 0)
	compared, wide := 0, 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 9))
		var b irtest.Builder
		x := b.Term(drawText(r, &b))
		after := b.Choice(b.Text(`,"`), b.Text("}"),
			b.Term(b.Concat(b.Lit(" "), b.Repeat(b.Bytes("az"), 0, ir.Unbounded))))
		b.Define(b.Declare("start"), b.Seq(x, after))
		g, err := v.Compile(t.Context(), &b.G, grammar.Limits{})
		if errors.Is(err, grammar.ErrEmpty) {
			continue
		}
		if err != nil {
			t.Fatal(err)
		}
		s := g.Start()
		for range 3 {
			mask := make([]uint32, g.Words())
			if err := s.Mask(mask); errors.Is(err, grammar.ErrLimit) {
				t.Logf("grammar %d: %v", seed, err)
				break
			} else if err != nil {
				t.Fatal(err)
			}
			var can []uint32
			for id := range uint32(len(large())) {
				in := mask[id/32]>>(id%32)&1 != 0
				if in != s.Admits(id) {
					t.Fatalf("grammar %d after %d tokens: token %d, %q, is %v in the mask", seed, s.Len(), id,
						large()[id].text, in)
				}
				if in && large()[id].flags == 0 {
					can = append(can, id)
				}
			}
			if compared++; len(can) > 5000 {
				wide++
			}
			if len(can) == 0 {
				break
			}
			if err := s.Accept(can[r.IntN(len(can))]); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("%d masks, %d of them with more than 5,000 tokens", compared, wide)
	if wide < 20 {
		t.Error("the random terms are too narrow to be a useful test")
	}
}

// TestExclusionThatGoesOn covers an excluded word that is a prefix of an allowed one: after "ba" the word may be bart
// but not bar.
func TestExclusionThatGoesOn(t *testing.T) {
	w := words{{"ba", 0}, {"r", 0}, {"rt", 0}, {`rt"`, 0}, {`rt".`, 0}, {`r"`, 0}, {`rto"`, 0}, {`"`, 0}, {".", 0},
		{"rtos", 0}, {"rt", 0}, {`rtx"`, 0}}
	for i := range 26 * 26 { // so that walking only along the exclusions pays off
		w = append(w, struct {
			text  string
			flags uint32
		}{string([]byte{'a' + byte(i/26), 'a' + byte(i%26), 'q'}), 0})
	}
	var b irtest.Builder
	word := b.And(b.Repeat(b.Bytes("az"), 0, ir.Unbounded), b.Not(b.Lits("bar", "barto")))
	b.Define(b.Declare("start"), b.Seq(b.Term(word), b.Text(`".`)))
	g := compile(t, grammar.NewVocab(w, 0), &b.G, grammar.Limits{})
	s := g.Start()
	if err := s.Accept(0); err != nil {
		t.Fatal(err)
	}
	mask := make([]uint32, g.Words())
	if err := s.Mask(mask); err != nil {
		t.Fatal(err)
	}
	if got, want := mask[0]&0xFFF, uint32(0b1110_1001_1111); got != want {
		t.Errorf("got %012b, want %012b", got, want)
	}
}
