package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
)

// object is a grammar of an object with the given number of members in any order; every third is required.
func object(members int) *ir.Grammar {
	var b irtest.Builder
	value := b.Term(b.Repeat(b.Bytes("az"), 1, ir.Unbounded))
	var all []uint32
	var marks []ir.Mark
	for i := range members {
		all = append(all, b.Seq(b.Text(fmt.Sprintf("m%d:", i)), value))
		marks = append(marks, map[bool]ir.Mark{true: ir.Required}[i%3 == 0])
	}
	b.Define(b.Declare("start"), b.Seq(b.Text("{"), b.Unordered(b.Text(","), all, marks, 0, ir.Unbounded), b.Text("}")))
	return &b.G
}

// TestOrdersMeet checks that the state after some members does not depend on their order, that required ones come
// before the end, that none comes twice, and that sixty members take little memory despite their 60! orders.
func TestOrdersMeet(t *testing.T) {
	const members = 60
	v := largeVocab()
	g, err := v.Compile(context.Background(), object(members), grammar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	follow := func(text string) *grammar.State {
		t.Helper()
		s := g.Start()
		if err := s.AcceptBytes([]byte(text)); err != nil {
			t.Fatalf("%q: %v", text, err)
		}
		return s
	}
	r := rand.New(rand.NewPCG(1, 9))
	mask := make([]uint32, g.Words())
	for round := range 20 {
		some := r.Perm(members)[:1+r.IntN(members-1)]
		if round == 0 { // all but one optional member
			some = slices.DeleteFunc(r.Perm(members), func(m int) bool { return m == 1 })
		}
		var keys []grammar.Key
		for range 3 {
			r.Shuffle(len(some), func(i, j int) { some[i], some[j] = some[j], some[i] })
			var b strings.Builder
			missing := members / 3
			for i, m := range some {
				fmt.Fprintf(&b, "%cm%d:x", ",{"[max(0, 1-i)], m)
				if m%3 == 0 {
					missing--
				}
			}
			s := follow(b.String() + ",")
			keys = append(keys, s.Key())
			if err := s.Mask(mask); err != nil {
				t.Fatal(err)
			}
			again := fmt.Sprintf("m%d:y", some[0])
			if err := s.AcceptBytes([]byte(again)); !errors.Is(err, grammar.ErrRejected) {
				t.Fatalf("%s%s: got %v, want ErrRejected", b.String(), again, err)
			}
			end := follow(b.String())
			if err := end.AcceptBytes([]byte("}")); (err == nil) != (missing == 0) {
				t.Fatalf("%s}: %d required members are missing, got %v", b.String(), missing, err)
			}
			// Roll back the last member: it is allowed again.
			back := follow(b.String()[:strings.LastIndexAny(b.String(), "{,")+1])
			before := back.Key()
			if err := back.AcceptBytes([]byte(fmt.Sprintf("m%d:", some[len(some)-1]))); err != nil {
				t.Fatal(err)
			}
			if err := back.Rollback(1); err != nil || back.Key() != before {
				t.Fatalf("after the rollback the state differs, %v", err)
			}
		}
		if keys[0] != keys[1] || keys[1] != keys[2] {
			t.Fatalf("%d members in three orders lead to different states", len(some))
		}
	}
	if most := int64(16 << 20); g.Bytes() > most {
		t.Errorf("the states take %d bytes, want at most %d", g.Bytes(), most)
	}
}

// TestUnorderedRefusals checks the errors for invalid lists.
func TestUnorderedRefusals(t *testing.T) {
	v := largeVocab()
	for want, list := range map[string]func(b *irtest.Builder) uint32{
		"member 1 of an unordered list may be the empty text": func(b *irtest.Builder) uint32 {
			return b.Unordered(b.Text(","), []uint32{b.Text("a"), b.Times(b.Text("b"), 0, 1)}, []ir.Mark{0, 0}, 0,
				ir.Unbounded)
		},
		"the separator of an unordered list has no text": func(b *irtest.Builder) uint32 {
			return b.Unordered(b.Choice(), []uint32{b.Text("a"), b.Text("b")}, []ir.Mark{0, 0}, 0, ir.Unbounded)
		},
		"needs 2 members, and 1 have a text": func(b *irtest.Builder) uint32 {
			return b.Unordered(b.Text(","), []uint32{b.Text("a"), b.Choice()}, []ir.Mark{0, 0}, 2, ir.Unbounded)
		},
		"the grammar admits no text": func(b *irtest.Builder) uint32 {
			return b.Unordered(b.Text(","), []uint32{b.Text("a"), b.Choice()}, []ir.Mark{0, ir.Required}, 0,
				ir.Unbounded)
		},
	} {
		var b irtest.Builder
		b.Define(b.Declare("start"), list(&b))
		if err := b.G.Check(); err != nil {
			t.Fatal(err)
		}
		if _, err := v.Compile(context.Background(), &b.G, grammar.Limits{}); !errors.Is(err, grammar.ErrEmpty) ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want ErrEmpty with %q", err, want)
		}
	}
}
