package grammar_test

import (
	"context"
	"errors"
	"math/rand/v2"
	"testing"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
)

// FuzzFollow checks that compiling and running any grammar terminates, that the mask agrees with accepting each token,
// and that a text which can't end can continue.
func FuzzFollow(f *testing.F) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 2))
		f.Add(random(r).Append(nil), []byte{1, 2, 3, 4, 5, 6})
	}
	w := small(rand.New(rand.NewPCG(1, 2)))
	v := grammar.NewVocab(w, 100_000)
	limits := grammar.Limits{Memory: 100_000, CompileWork: 5_000_000, StepWork: 2_000_000, Threads: 300, Search: 1000}
	f.Fuzz(func(t *testing.T, b, walk []byte) {
		if len(b) > 4000 {
			return
		}
		g, err := ir.Read(b)
		if err != nil {
			return
		}
		c, err := v.Compile(context.Background(), g, limits)
		if err != nil {
			return
		}
		s, mask := c.Start(), make([]uint32, v.Words())
		for _, step := range walk[:min(len(walk), 12)] {
			err := s.Mask(mask)
			if errors.Is(err, grammar.ErrLimit) {
				return
			}
			text, ferr := s.ForcedBytes(8)
			if ferr == nil && len(text) > 0 {
				if err := s.Clone().AcceptBytes(text); err != nil && !errors.Is(err, grammar.ErrLimit) {
					t.Fatalf("%q is forced and refused: %v", text, err)
				}
			}
			var can []uint32
			for id := range uint32(w.Size()) {
				may := s.Clone().Accept(id)
				if errors.Is(may, grammar.ErrLimit) {
					return
				}
				if in := mask[id/32]>>(id%32)&1 != 0; in != (may == nil) {
					t.Fatalf("token %d is %v in the mask, accepting it gives %v", id, in, may)
				}
				if may == nil {
					can = append(can, id)
				}
			}
			if len(can) == 0 {
				if !errors.Is(err, grammar.ErrStuck) {
					t.Fatalf("no token is allowed and the mask says %v", err)
				}
				return
			}
			if err := s.Accept(can[int(step)%len(can)]); err != nil {
				t.Fatal(err)
			}
		}
	})
}
