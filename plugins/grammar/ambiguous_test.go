package grammar_test

import (
	"context"
	"math/rand/v2"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// ambiguous are regular expressions whose texts can be read in many ways: counts that can be divided among their
// repetitions, and optional parts one in the other; with the millions of units that 300 tokens may take.
var ambiguous = []struct {
	source   string
	millions int64
}{
	{`(aaaa|aa|a){300}`, 6},
	{`(a|aa|aaa){1,500}`, 4},
	{`(aa|aaaaaaa){400}`, 7},
	{`(a{2}|a{100}){300}`, 25},
	{`([ab]{1,30}){1,40}`, 1},
	{`([ab]{2,30}c?){2,40}`, 6},
	{`(.{0,50},){0,50}`, 7},
	{`(.{1,50},){10,50}`, 20},
	{`([a-z]{1,8}[ ,]?){1,300}`, 20},
	{`(([a-z]+ ?){1,20}[.,]? ?){1,100}`, 15},
	{`((((a?b?){1,30}c?){1,20}d?){1,20}e?){1,20}`, 60},
	{`(a?){200}(a){200}`, 1},
	{`((a|ab)(c|bcd)?(d*)){1,200}`, 1},
	{`([0-9]{1,3}\.?){1,200}`, 6},
	{`([a-zA-Z0-9]{1,20}[ \n]{0,3}){1,100}`, 40},
	{`((x|xx){1,20}|(xxx|x){1,30}){1,100}`, 400},
	{`(..|...){150}`, 30},
	{`((ab?){1,9}(ba?){1,9}){1,90}`, 7},
	{`(a{2,3}|a{7,8}b?|a{11}){500}`, 20},
}

// regexGrammar is a grammar of one terminal, a regular expression of alternatives, groups, classes and counts: *, +, ?,
// {n} and {m,n}.
func regexGrammar(source string) *ir.Grammar {
	var b irtest.Builder
	p := regexParser{b: &b, left: source}
	b.Define(b.Declare("start"), b.Term(p.union()))
	return &b.G
}

type regexParser struct {
	b    *irtest.Builder
	left string
}

func (p *regexParser) next() byte {
	c := p.left[0]
	p.left = p.left[1:]
	return c
}

func (p *regexParser) union() uint32 {
	ways := []uint32{p.concat()}
	for p.left != "" && p.left[0] == '|' {
		p.next()
		ways = append(ways, p.concat())
	}
	return p.b.Union(ways...)
}

func (p *regexParser) concat() uint32 {
	var parts []uint32
	for p.left != "" && p.left[0] != '|' && p.left[0] != ')' {
		parts = append(parts, p.counted(p.atom()))
	}
	return p.b.Concat(parts...)
}

func (p *regexParser) counted(x uint32) uint32 {
	for p.left != "" && strings.IndexByte("*+?{", p.left[0]) >= 0 {
		switch p.next() {
		case '*':
			x = p.b.Repeat(x, 0, ir.Unbounded)
		case '+':
			x = p.b.Repeat(x, 1, ir.Unbounded)
		case '?':
			x = p.b.Repeat(x, 0, 1)
		case '{':
			counts, rest, _ := strings.Cut(p.left, "}")
			lo, hi, ranged := strings.Cut(counts, ",")
			p.left = rest
			least, _ := strconv.Atoi(lo)
			most := uint32(least)
			if n, err := strconv.Atoi(hi); err == nil {
				most = uint32(n)
			} else if ranged {
				most = ir.Unbounded
			}
			x = p.b.Repeat(x, uint32(least), most)
		}
	}
	return x
}

func (p *regexParser) atom() uint32 {
	switch c := p.next(); c {
	case '(':
		x := p.union()
		p.next()
		return x
	case '.':
		return p.b.Chars(ir.Range{Lo: 0, Hi: '\n' - 1}, ir.Range{Lo: '\n' + 1, Hi: 0x10FFFF})
	case '[':
		set, rest, _ := strings.Cut(p.left, "]")
		p.left = rest
		pairs := ""
		for i := 0; i < len(set); i++ {
			if i+2 < len(set) && set[i+1] == '-' {
				pairs += set[i:i+1] + set[i+2:i+3]
				i += 2
			} else {
				pairs += set[i:i+1] + set[i:i+1]
			}
		}
		return p.b.Bytes(pairs)
	case '\\':
		return p.b.Lit(string(p.next()))
	default:
		return p.b.Lit(string(c))
	}
}

// TestAmbiguousCountsTakeLittleWork follows a text of random tokens, and one that is all a where that is allowed. Each
// number of repetitions that are left used to be a parse of its own: the first pattern took 3,700 million units.
func TestAmbiguousCountsTakeLittleWork(t *testing.T) {
	v := largeVocab()
	for _, x := range ambiguous {
		for _, seed := range []uint64{0, 1} {
			r := rand.New(rand.NewPCG(seed, 1))
			s := compile(t, v, regexGrammar(x.source), grammar.Limits{}).Start()
			total := int64(0)
			count := func(units int64, err error) {
				if err != nil {
					t.Fatalf("%s: %v", x.source, err)
				}
				total += units
			}
			for range 300 {
				count(s.MaskUnits())
				can := allowed(maskOf(t, s))
				if len(can) == 0 {
					break
				}
				id := can[r.IntN(len(can))]
				if a := uint32('a'); seed == 0 && slices.Contains(can, a) {
					id = a
				}
				count(s.AcceptUnits(id))
			}
			t.Logf("%9d units: %s", total, x.source)
			if total > x.millions*1_000_000 {
				t.Errorf("%s took %d units, want at most %d million", x.source, total, x.millions)
			}
		}
	}
}

// BenchmarkAmbiguous follows 300 random tokens of each pattern.
func BenchmarkAmbiguous(b *testing.B) {
	for _, x := range ambiguous {
		b.Run(x.source, func(b *testing.B) {
			var masks, accepts timings
			for range b.N {
				g, err := largeVocab().Compile(context.Background(), regexGrammar(x.source), grammar.Limits{})
				if err != nil {
					b.Fatal(err)
				}
				s, mask, r := g.Start(), make([]uint32, g.Words()), rand.New(rand.NewPCG(0, 1))
				for range 300 {
					start := time.Now()
					if err := s.Mask(mask); err != nil {
						b.Fatal(err)
					}
					masks = append(masks, time.Since(start))
					can := allowed(mask)
					if len(can) == 0 {
						break
					}
					start = time.Now()
					if err := s.Accept(can[r.IntN(len(can))]); err != nil {
						b.Fatal(err)
					}
					accepts = append(accepts, time.Since(start))
				}
			}
			masks.report(b, "mask")
			accepts.report(b, "accept")
		})
	}
}

// allowed returns the ordinary tokens of a mask.
func allowed(mask []uint32) (out []uint32) {
	for id := range uint32(len(large())) {
		if mask[id/32]>>(id%32)&1 != 0 && large()[id].flags == 0 {
			out = append(out, id)
		}
	}
	return out
}
