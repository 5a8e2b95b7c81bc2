package plugins

import (
	"hash/crc32"
	"math/rand/v2"
	"slices"
	"testing"

	"tgi/plugins/grammar/ir/irtest"
)

// TestJumpAfterRewinds: what comes without a choice depends on the text alone: the same after tokens were taken back,
// whatever was accepted in between, in clones, and whether somebody asked for guesses.
func TestJumpAfterRewinds(t *testing.T) {
	var b irtest.Builder
	rule := b.Declare("start")
	b.Define(rule, b.Seq(b.Text("kind: "), b.Choice(b.Text("invoice of"), b.Text("inquiry by")), b.Text(" hand, ab"),
		b.Term(b.Repeat(b.Bytes("ab"), 1, 3)), b.Text("abba.")))
	b.G.Start = rule
	s := open(t, Options{Specs: []Spec{spec(t, "c", compiles(&b.G).Wasm())}})
	g := compiled(t, s, "c", "")
	defer g.Close()
	// Single bytes, or nothing where the text does not please: so it matters where in a text somebody asks.
	encode := func(text string) (out []uint32) {
		if crc32.ChecksumIEEE([]byte(text))%16 < 13 {
			return nil
		}
		for _, c := range []byte(text) {
			out = append(out, uint32(c))
		}
		return out
	}
	begin := func() *Constraint {
		c := constraint(t, g)
		c.Jump([]uint32{'x', 'y'}, encode)
		return c
	}
	// walk returns what is forced at each place of a text.
	walk := func(text []uint32) (out []int) {
		c := begin()
		defer c.Close()
		for i := 0; ; i++ {
			if allowed(t, c); i > 0 && slices.Contains(allowed(t, c), end) {
				return out
			}
			at := -1
			if token, ok := c.Forces(); ok {
				if at = int(token); !slices.Contains(allowed(t, c), token) {
					t.Fatalf("behind %v: %d is forced and not allowed", text[:i], token)
				}
			}
			out = append(out, at)
			if i == len(text) {
				return out
			}
			if err := c.AcceptLater(text[i]); err != nil {
				t.Fatal(err)
			}
		}
	}
	forced, rewound := 0, 0
	for seed := range uint64(60) {
		rnd := rand.New(rand.NewPCG(seed, 1))
		c := begin()
		var text []uint32
		for range 60 {
			if rnd.IntN(6) == 0 {
				c.Forced(nil, encode, make([]uint32, 5))
			}
			if rnd.IntN(8) == 0 {
				twin, err := c.Clone()
				if err != nil {
					t.Fatal(err)
				}
				c.Close()
				c = twin
			}
			if rnd.IntN(5) == 0 && len(text) > 0 {
				text = text[:rnd.IntN(len(text)+1)]
				if err := c.Rewind(len(text)); err != nil {
					t.Fatal(err)
				}
				rewound++
			}
			list := allowed(t, c)
			if slices.Contains(list, end) {
				break
			}
			want := walk(text)
			got := -1
			if token, ok := c.Forces(); ok {
				got = int(token)
				forced++
			}
			if got != want[len(text)] {
				t.Fatalf("seed %d, behind %v: %d is forced, %d without what was taken back", seed, text, got, want[len(text)])
			}
			next := list[rnd.IntN(len(list))]
			if got >= 0 && rnd.IntN(4) > 0 {
				next = uint32(got)
			}
			if err := c.AcceptLater(next); err != nil {
				t.Fatal(err)
			}
			text = append(text, next)
		}
		c.Close()
	}
	if forced < 300 || rewound < 100 {
		t.Errorf("%d forced, %d times taken back", forced, rewound)
	}
}
