package grammar_test

import (
	"context"
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// pattern is a regular expression with counts, as its definition reads: a text, or kids in sequence, or one of them, or
// one lo to hi times.
type pattern struct {
	op     byte // 't', 's', 'o' or 'c'
	text   string
	kids   []*pattern
	lo, hi int
}

func drawPattern(r *rand.Rand, depth int) *pattern {
	kids := func(n int) (out []*pattern) {
		for range n {
			out = append(out, drawPattern(r, depth-1))
		}
		return out
	}
	if depth == 0 {
		return &pattern{op: 't', text: letters(r, "aab", 1+r.IntN(4))}
	}
	switch r.IntN(5) {
	case 0:
		return &pattern{op: 's', kids: kids(2)}
	case 1, 2:
		return &pattern{op: 'o', kids: kids(2 + r.IntN(2))}
	}
	p := &pattern{op: 'c', kids: kids(1), lo: r.IntN(4)}
	switch p.hi = p.lo + r.IntN(8); r.IntN(4) {
	case 0:
		p.lo, p.hi = 2+r.IntN(15), 17
	case 1:
		p.lo = max(p.lo, 2)
		p.hi = p.lo
	}
	p.hi = max(p.hi, p.lo, 1)
	return p
}

func (p *pattern) String() string {
	var parts []string
	for _, k := range p.kids {
		parts = append(parts, k.String())
	}
	switch p.op {
	case 't':
		return p.text
	case 's':
		return strings.Join(parts, "")
	case 'o':
		return "(" + strings.Join(parts, "|") + ")"
	}
	return fmt.Sprintf("(%s){%d,%d}", parts[0], p.lo, p.hi)
}

// match returns where p may end in text if it begins at any of the positions from, and whether all of text may be the
// beginning of what it matches there. Both are sets of bits.
func (p *pattern) match(text string, from uint64) (ends uint64, begins bool) {
	switch p.op {
	case 't':
		for i := range len(text) + 1 {
			if from>>i&1 == 0 {
				continue
			}
			if strings.HasPrefix(text[i:], p.text) {
				ends |= 1 << (i + len(p.text))
			}
			begins = begins || strings.HasPrefix(p.text, text[i:])
		}
		return ends, begins
	case 's':
		for _, k := range p.kids {
			var b bool
			from, b = k.match(text, from)
			begins = begins || b
		}
		return from, begins
	case 'o':
		for _, k := range p.kids {
			e, b := k.match(text, from)
			ends, begins = ends|e, begins || b
		}
		return ends, begins
	}
	for n := 0; ; n++ {
		if n >= p.lo {
			ends |= from
		}
		begins = begins || from>>len(text)&1 != 0
		if n == p.hi || from == 0 {
			return ends, begins
		}
		var b bool
		from, b = p.kids[0].match(text, from)
		begins = begins || b
	}
}

// The forms of a pattern in a grammar: a terminal, expressions of terminals, and rules.
var forms = map[string]func(b *irtest.Builder, p *pattern) uint32{
	"terminal": func(b *irtest.Builder, p *pattern) uint32 { return b.Term(p.regex(b)) },
	"expressions": func(b *irtest.Builder, p *pattern) uint32 {
		return p.expr(b, func(x uint32) uint32 { return x })
	},
	"rules": func(b *irtest.Builder, p *pattern) uint32 {
		return p.expr(b, func(x uint32) uint32 {
			rule := b.Declare("")
			b.Define(rule, x)
			return b.Rule(rule)
		})
	},
}

func (p *pattern) regex(b *irtest.Builder) uint32 {
	var kids []uint32
	for _, k := range p.kids {
		kids = append(kids, k.regex(b))
	}
	switch p.op {
	case 't':
		return b.Lit(p.text)
	case 's':
		return b.Concat(kids...)
	case 'o':
		return b.Union(kids...)
	}
	return b.Repeat(kids[0], uint32(p.lo), uint32(p.hi))
}

func (p *pattern) expr(b *irtest.Builder, wrap func(uint32) uint32) uint32 {
	var kids []uint32
	for _, k := range p.kids {
		kids = append(kids, k.expr(b, wrap))
	}
	switch p.op {
	case 't':
		return wrap(b.Text(p.text))
	case 's':
		return wrap(b.Seq(kids...))
	case 'o':
		return wrap(b.Choice(kids...))
	}
	return wrap(b.Times(kids[0], uint32(p.lo), uint32(p.hi)))
}

// TestCountedMasksEqualTheDefinition compares the masks along random texts of random patterns, most of them ambiguous,
// with what the definition of a pattern says of each token; in each form, and with states dropped all the time.
func TestCountedMasksEqualTheDefinition(t *testing.T) {
	var w words
	for i := 1; i <= 4; i++ {
		for n := range 1 << i {
			text := make([]byte, i)
			for j := range text {
				text[j] = 'a' + byte(n>>j&1)
			}
			w = append(w, struct {
				text  string
				flags uint32
			}{string(text), 0})
		}
	}
	w = append(w, runs(18, "b")...)
	v := grammar.NewVocab(w, 1<<20)
	states, may := 0, 0
	for seed := range uint64(700) {
		r := rand.New(rand.NewPCG(seed, 3))
		p := drawPattern(r, 2+r.IntN(3))
		limits := grammar.Limits{}
		if seed%3 == 0 {
			limits.Memory = 3000
		}
		for name, form := range forms {
			var b irtest.Builder
			body := form(&b, p)
			b.G.Start = b.Declare("start")
			b.Define(b.G.Start, body)
			g, err := v.Compile(context.Background(), &b.G, limits)
			if err != nil {
				t.Fatalf("%s: %v", p, err)
			}
			s, text := g.Start(), ""
			for len(text) < 40 {
				mask := make([]uint32, v.Words())
				if err := s.Mask(mask); err != nil && text == "" {
					t.Fatalf("%s: %v", p, err)
				}
				if ends, _ := p.match(text, 1); s.CanEnd() != (ends>>len(text)&1 != 0) {
					t.Fatalf("%s as %s after %q: CanEnd is %v", p, name, text, s.CanEnd())
				}
				var can []uint32
				for id, token := range w {
					_, want := p.match(text+token.text, 1)
					if in := mask[id/32]>>(id%32)&1 != 0; in != want {
						t.Fatalf("%s as %s after %q: %q is %v in the mask, want %v", p, name, text, token.text, in, want)
					}
					if want {
						can = append(can, uint32(id))
					}
				}
				states, may = states+1, may+len(can)
				if len(can) == 0 {
					break
				}
				id := can[r.IntN(len(can))]
				if err := s.Accept(id); err != nil {
					t.Fatalf("%s as %s after %q: %v", p, name, text, err)
				}
				text += w[id].text
			}
		}
	}
	t.Logf("%d states, %d tokens allowed of %d", states, may, states*len(w))
	if states < 10_000 || may < 5*states {
		t.Error("the patterns are too small to be a useful test")
	}
}

// TestCountsWithGaps covers counts that are left with gaps between them, beyond the lengths of tokens and within a
// maximum length.
func TestCountsWithGaps(t *testing.T) {
	w := runs(130, "!")
	v := grammar.NewVocab(w, 0)
	for _, x := range []struct{ one, other, lo, hi int }{
		{2, 7, 40, 40}, {1, 3, 30, 30}, {1, 3, 90, 300}, {2, 100, 20, 20}, {3, 50, 5, 7}, {30, 40, 15, 15},
	} {
		for _, most := range []int{-1, 100, 130, 333} {
			lengths := map[int]bool{}
			for n := x.lo; n <= x.hi; n++ {
				for i := range n + 1 {
					if l := i*x.one + (n-i)*x.other; most < 0 || l <= most {
						lengths[l] = true
					}
				}
			}
			if len(lengths) == 0 {
				continue
			}
			var b irtest.Builder
			a := strings.Repeat("a", max(x.one, x.other))
			run := b.Repeat(b.Lits(a[:x.one], a[:x.other]), uint32(x.lo), uint32(x.hi))
			if most >= 0 {
				run = b.And(run, b.Repeat(b.Bytes("az"), 0, uint32(most)))
			}
			b.Define(b.Declare("start"), b.Seq(b.Term(b.Concat(run, b.Repeat(b.Lit("!"), 0, 1))), b.Text("!")))
			s := compile(t, v, &b.G, grammar.Limits{}).Start()
			for at := 0; at < 200; {
				checkMask(t, w, s, func(text string) bool {
					n := at + strings.Count(text, "a")
					if strings.HasSuffix(text, "!") {
						return lengths[n]
					}
					for l := range lengths {
						if l >= n {
							return true
						}
					}
					return false
				})
				if t.Failed() {
					t.Fatalf("%+v at most %d, after %d", x, most, at)
				}
				step := 1 + at%23
				if s.AcceptBytes([]byte(strings.Repeat("a", step))) != nil {
					break
				}
				at += step
			}
		}
	}
}

// TestCountedExpressionsTakeLittleWork is TestAmbiguousCountsTakeLittleWork for counts of expressions and rules.
func TestCountedExpressionsTakeLittleWork(t *testing.T) {
	v := grammar.NewVocab(runs(8, "b"), 0)
	for _, x := range []struct {
		name  string
		units int64
		body  func(b *irtest.Builder) uint32
	}{
		{"expressions", 2_000_000, func(b *irtest.Builder) uint32 {
			a := b.Text("a")
			return b.Times(b.Choice(b.Seq(a, a, a, a), b.Seq(a, a), a), 300, 300)
		}},
		{"a rule", 40_000_000, func(b *irtest.Builder) uint32 {
			a, r := b.Text("a"), b.Declare("x")
			b.Define(r, b.Choice(b.Seq(a, a, a, a), b.Seq(a, a), a))
			return b.Times(b.Rule(r), 300, 300)
		}},
		{"counts of counts", 2_000_000, func(b *irtest.Builder) uint32 {
			word := b.Term(b.Repeat(b.Bytes("az"), 1, ir.Unbounded))
			x := b.Times(b.Seq(word, b.Times(b.Text(" "), 0, 1)), 1, 20)
			return b.Times(b.Seq(x, b.Times(b.Text("."), 0, 1)), 1, 100)
		}},
	} {
		var b irtest.Builder
		body := x.body(&b)
		b.G.Start = b.Declare("start")
		b.Define(b.G.Start, body)
		s, total := compile(t, v, &b.G, grammar.Limits{}).Start(), int64(0)
		for range 250 {
			mask, err := s.MaskUnits()
			if err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			accept, err := s.AcceptUnits(0)
			if err != nil {
				t.Fatalf("%s: %v", x.name, err)
			}
			total += mask + accept
		}
		t.Logf("%s: %d units", x.name, total)
		if total > x.units {
			t.Errorf("%s took %d units, want at most %d", x.name, total, x.units)
		}
	}
}
