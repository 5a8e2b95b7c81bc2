package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// hostile grammars must cost bounded time and memory: they work, or an error names the limit. text is what the
// grammar's author wants the model to write.
var hostile = []struct {
	name  string
	g     func(b *irtest.Builder) uint32 // the start's body
	text  func(r *rand.Rand) string
	fails bool // some step reaches a limit
	wrong string
}{
	{name: "two to the 14th states", g: func(b *irtest.Builder) uint32 {
		ab := b.Bytes("ab")
		return b.Term(b.Concat(b.Repeat(ab, 0, ir.Unbounded), b.Lit("a"), b.Repeat(ab, 13, 13)))
	}, text: func(r *rand.Rand) string { return letters(r, "ab", 400) + "a" + letters(r, "ab", 13) }, wrong: "c"},
	{name: "enumeration of 10,000", g: func(b *irtest.Builder) uint32 {
		var ts []string
		for i := range 10_000 {
			ts = append(ts, fmt.Sprintf("%q", fmt.Sprintf("member number %d of it %d", i*7919%10_000, i)))
		}
		return b.Term(b.Lits(ts...))
	}, text: func(r *rand.Rand) string {
		i := r.IntN(10_000)
		return fmt.Sprintf("%q", fmt.Sprintf("member number %d of it %d", i*7919%10_000, i))
	}, wrong: `"member number 0 of it 1`},
	{name: "choice of 10,000 literals", g: func(b *irtest.Builder) uint32 {
		var es []uint32
		for i := range 10_000 {
			es = append(es, b.Text(fmt.Sprintf("m%05d", i)))
		}
		return b.Choice(es...)
	}, text: func(r *rand.Rand) string { return fmt.Sprintf("m%05d", r.IntN(10_000)) }, wrong: "x"},
	{name: "choice of 2,000 rules", g: func(b *irtest.Builder) uint32 {
		var es []uint32
		d := b.Text("!")
		for i := range 2_000 {
			r := b.Declare("")
			b.Define(r, b.Seq(b.Text(fmt.Sprintf("m%05d", i)), b.Times(d, 0, 2)))
			es = append(es, b.Rule(r))
		}
		return b.Choice(es...)
	}, text: func(r *rand.Rand) string { return fmt.Sprintf("m%05d!", r.IntN(2_000)) }, wrong: "x"},
	{name: "huge counts of a class", g: func(b *irtest.Builder) uint32 {
		return b.Term(b.Concat(b.Lit(`"`), b.Repeat(b.Chars(ir.Range{Lo: 'a', Hi: 'z'},
			ir.Range{Lo: 0x400, Hi: 0x10000}), 300, 100_000), b.Lit(`"`)))
	}, text: func(r *rand.Rand) string { return `"` + letters(r, "abcdefg", 2000) + "жж" + `"` }, wrong: `""`},
	{name: "huge counts of overlapping literals", g: func(b *irtest.Builder) uint32 {
		return b.Term(b.Repeat(b.Lits("a", "aa"), 100, 10_000))
	}, text: func(r *rand.Rand) string { return strings.Repeat("a", 1000) }, wrong: "b"},
	{name: "huge counts of symbols", g: func(b *irtest.Builder) uint32 {
		r := b.Declare("item")
		b.Define(r, b.Choice(b.Text("x,"), b.Seq(b.Text("("), b.Rule(r), b.Text(")"))))
		return b.Times(b.Rule(r), 100, 1_000_000)
	}, text: func(r *rand.Rand) string { return strings.Repeat("x,((x,))", 300) }, wrong: "y"},
	{name: "counts of counts", g: func(b *irtest.Builder) uint32 {
		x := b.Repeat(b.Bytes("ab"), 0, 1000)
		return b.Term(b.Repeat(b.Repeat(b.Concat(x, b.Lit("c")), 1, 1000), 0, 1000))
	}, text: func(r *rand.Rand) string { return strings.Repeat(letters(r, "ab", 30)+"c", 60) }, wrong: "d"},
	{name: "counts of one thing at five levels", g: func(b *irtest.Builder) uint32 {
		x := b.Bytes("aa")
		for range 5 {
			x = b.Repeat(x, 1, 100)
		}
		return b.Term(x)
	}, text: func(r *rand.Rand) string { return strings.Repeat("a", 500) }, wrong: "ab"},
	{name: "counts of rules at five levels", g: func(b *irtest.Builder) uint32 {
		r := b.Declare("item")
		b.Define(r, b.Choice(b.Text("x"), b.Seq(b.Text("("), b.Rule(r), b.Text(")"))))
		x := b.Rule(r)
		for range 5 {
			x = b.Times(x, 1, 100)
		}
		return x
	}, text: func(r *rand.Rand) string { return strings.Repeat("x(x)", 100) }, wrong: "y"},
	{name: "counts of one thing in a row", g: func(b *irtest.Builder) uint32 {
		var xs []uint32
		for range 6 {
			xs = append(xs, b.Repeat(b.Bytes("aa"), 1, 100))
		}
		return b.Term(b.Concat(xs...))
	}, text: func(r *rand.Rand) string { return strings.Repeat("a", 500) }, wrong: "ab"},
	{name: "odd counts", g: func(b *irtest.Builder) uint32 { return b.Term(b.Repeat(b.Lits("a", "aaa"), 300, 300)) },
		text: func(r *rand.Rand) string { return strings.Repeat("a", 500) }, wrong: "b"},
	{name: "left, right and hidden recursion", g: func(b *irtest.Builder) uint32 {
		l, r, h, n := b.Declare("left"), b.Declare("right"), b.Declare("hidden"), b.Declare("nothing")
		b.Define(n, b.Choice(b.Seq(), b.Rule(n)))
		b.Define(l, b.Choice(b.Seq(b.Rule(l), b.Text("a")), b.Text("a")))
		b.Define(r, b.Choice(b.Seq(b.Text("b"), b.Rule(r)), b.Text("b")))
		b.Define(h, b.Choice(b.Seq(b.Rule(n), b.Rule(h), b.Text("c"), b.Rule(n)), b.Text("c")))
		return b.Seq(b.Rule(l), b.Rule(r), b.Rule(h))
	}, text: func(r *rand.Rand) string {
		return strings.Repeat("a", 3000) + strings.Repeat("b", 3000) + strings.Repeat("c", 3000)
	}, wrong: "d"},
	{name: "ambiguous sums", g: func(b *irtest.Builder) uint32 {
		s := b.Declare("s")
		b.Define(s, b.Choice(b.Seq(b.Rule(s), b.Rule(s)), b.Text("a"), b.Seq(b.Rule(s), b.Text("+"), b.Rule(s))))
		return b.Rule(s)
	}, text: func(r *rand.Rand) string { return strings.Repeat("a+aa", 30) }, wrong: "b"},
	{name: "palindromes", g: func(b *irtest.Builder) uint32 {
		s := b.Declare("s")
		b.Define(s, b.Choice(b.Seq(b.Text("a"), b.Rule(s), b.Text("a")), b.Seq(b.Text("b"), b.Rule(s), b.Text("b")),
			b.Seq()))
		return b.Rule(s)
	}, text: func(r *rand.Rand) string {
		t := letters(r, "ab", 60)
		for i := 59; i >= 0; i-- {
			t += t[i : i+1]
		}
		return t
	}, wrong: "c"},
	{name: "2,000 optional members", g: func(b *irtest.Builder) uint32 {
		const n = 2000
		for range 2*n + 2 { // rule 2i: from member i on, none so far; 2i+1: behind some
			b.Declare("")
		}
		value, comma := b.Term(b.Repeat(b.Bytes("az"), 1, ir.Unbounded)), b.Text(",")
		for i := range uint32(n) {
			member := b.Seq(b.Text(fmt.Sprintf("m%d:", i)), value, b.Rule(2*i+3))
			b.Define(2*i, b.Choice(member, b.Rule(2*i+2)))
			b.Define(2*i+1, b.Choice(b.Seq(comma, member), b.Rule(2*i+3)))
		}
		b.Define(2*n, b.Seq())
		b.Define(2*n+1, b.Seq())
		return b.Seq(b.Text("{"), b.Rule(0), b.Text("}"))
	}, text: func(r *rand.Rand) string {
		t := "{m3:word"
		for i := 4; i < 2000; i += 1 + r.IntN(300) {
			t += fmt.Sprintf(",m%d:%s", i, letters(r, "abcdef", 8))
		}
		return t + "}"
	}, wrong: "{m3:a,m2:"},
	{name: "60,000 rules one in the other", g: func(b *irtest.Builder) uint32 {
		for range 60_000 {
			b.Declare("")
		}
		open, closed := b.Text("("), b.Text(")")
		for i := range uint32(59_999) {
			b.Define(i, b.Seq(open, b.Rule(i+1), closed))
		}
		b.Define(59_999, b.Text("x"))
		return b.Rule(59_000)
	}, text: func(r *rand.Rand) string {
		return strings.Repeat("(", 999) + "x" + strings.Repeat(")", 999)
	}, wrong: ")"},
	{name: "60,000 rules one for the other", g: func(b *irtest.Builder) uint32 {
		for range 60_000 {
			b.Declare("")
		}
		for i := range uint32(59_999) {
			b.Define(i, b.Seq(b.Rule(i+1), b.Text("x")))
		}
		b.Define(59_999, b.Text("x"))
		return b.Rule(0)
	}, fails: true},
	{name: "nesting", g: func(b *irtest.Builder) uint32 {
		r := b.Declare("v")
		b.Define(r, b.Choice(b.Text("x"),
			b.Seq(b.Text("["), b.Times(b.Seq(b.Rule(r), b.Times(b.Seq(b.Text(","), b.Rule(r)), 0, ir.Unbounded)), 0, 1),
				b.Text("]"))))
		return b.Rule(r)
	}, text: func(r *rand.Rand) string { return strings.Repeat("[", 20_000) + strings.Repeat("]", 20_000) },
		wrong: "]"},
	{name: "100,000 optional parts", g: func(b *irtest.Builder) uint32 {
		var rs []uint32
		for i := range 100_000 {
			rs = append(rs, b.Repeat(b.Lit(fmt.Sprint(i)), 0, 1))
		}
		return b.Term(b.Concat(rs...))
	}, fails: true},
	{name: "intersection without a text, found late", g: func(b *irtest.Builder) uint32 {
		ab := b.Bytes("ab")
		all := b.Repeat(ab, 0, ir.Unbounded)
		x := b.Concat(all, b.Lit("a"), b.Repeat(ab, 20, 20))
		y := b.Concat(all, b.Lit("b"), b.Repeat(ab, 20, 20))
		return b.Choice(b.Text("x"), b.Term(b.And(x, y)))
	}, fails: true},
	{name: "contains everything", g: func(b *irtest.Builder) uint32 {
		all := b.Repeat(b.Bytes("\x00\xff"), 0, ir.Unbounded)
		var parts []uint32
		for i := range 12 {
			parts = append(parts, b.Concat(all, b.Lit(fmt.Sprintf("<%c>", 'a'+i)), all))
		}
		return b.Term(b.And(parts...))
	}, text: func(r *rand.Rand) string {
		t := ""
		for i := range 12 {
			t += fmt.Sprintf("some text <%c> and ", 'a'+i)
		}
		return t
	}},
}

func letters(r *rand.Rand, from string, n int) string {
	var b strings.Builder
	for range n {
		b.WriteByte(from[r.IntN(len(from))])
	}
	return b.String()
}

func TestHostileGrammars(t *testing.T) {
	v := largeVocab()
	for _, h := range hostile {
		t.Run(h.name, func(t *testing.T) {
			var b irtest.Builder
			body := h.g(&b)
			b.G.Start = b.Declare("start")
			b.Define(b.G.Start, body)
			if err := b.G.Check(); err != nil {
				t.Fatal(err)
			}
			runtime.GC()
			var before, after runtime.MemStats
			runtime.ReadMemStats(&before)
			start := time.Now()
			g, err := v.Compile(context.Background(), &b.G, grammar.Limits{})
			compiled := time.Since(start)
			masks, worst := 0, time.Duration(0)
			if err == nil {
				masks, worst, err = write(t, g, h.text)
			}
			runtime.GC()
			runtime.ReadMemStats(&after)
			t.Logf("compiled in %v, %d masks, the slowest %v, %.1f MiB kept, %v", compiled, masks, worst,
				(float64(after.HeapAlloc)-float64(before.HeapAlloc))/(1<<20), err)
			if h.fails {
				if !errors.Is(err, grammar.ErrLimit) {
					t.Errorf("got %v, want ErrLimit", err)
				}
				return
			}
			if err != nil {
				t.Fatal(err)
			}
			if ok, err := g.Admits([]byte(h.text(rand.New(rand.NewPCG(1, 1))))); !ok {
				t.Errorf("its text is not admitted, %v", err)
			}
			if h.wrong != "" {
				if err := g.Start().AcceptBytes([]byte(h.wrong)); !errors.Is(err, grammar.ErrRejected) {
					t.Errorf("%q: got %v, want ErrRejected", h.wrong, err)
				}
			}
			runtime.KeepAlive(g)
		})
	}
}

// write accepts a text of the grammar, computing a mask before each token.
func write(t *testing.T, g *grammar.Grammar, text func(*rand.Rand) string) (masks int, worst time.Duration, err error) {
	s, mask := g.Start(), make([]uint32, g.Words())
	if err := s.Mask(mask); err != nil || text == nil {
		return 1, 0, err
	}
	for _, id := range longest()(text(rand.New(rand.NewPCG(1, 1)))) {
		start := time.Now()
		if err := s.Mask(mask); err != nil {
			return masks, worst, err
		}
		masks++
		worst = max(worst, time.Since(start))
		if mask[id/32]>>(id%32)&1 == 0 {
			t.Fatalf("after %d tokens %q is not in the mask", masks-1, large()[id].text)
		}
		if err := s.Accept(id); err != nil {
			return masks, worst, err
		}
	}
	if !s.CanEnd() {
		t.Error("the text is not complete")
	}
	return masks, worst, nil
}
