package sample

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// TestForbid holds masks of every density, over vocabularies that end inside a word and
// inside a block, against the definition.
func TestForbid(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	for range 2000 {
		vocab := 1 + rng.IntN(3000)
		mask := make([]uint32, (vocab+31)/32)
		density := rng.Float64()
		for w := range mask {
			switch rng.IntN(4) {
			case 0: // a word of one kind
				mask[w] = []uint32{0, ^uint32(0)}[rng.IntN(2)]
			case 1: // mostly runs
				if w > 0 {
					mask[w] = mask[w-1]
				}
			default:
				for i := range 32 {
					if rng.Float64() < density {
						mask[w] |= 1 << i
					}
				}
			}
		}
		got, want := make([]float32, vocab), make([]float32, vocab)
		for i := range got {
			got[i] = float32(rng.NormFloat64())
			want[i] = got[i]
			if mask[i/32]>>(i%32)&1 == 0 {
				want[i] = negInf
			}
		}
		if applyMask(mask, got); !slices.Equal(got, want) {
			t.Fatalf("a vocabulary of %d tokens, mask %x:\n got %v\nwant %v", vocab, mask, got, want)
		}
	}
}

func BenchmarkForbid(b *testing.B) {
	const vocab = 128256
	logits := make([]float32, vocab)
	for name, fill := range map[string]func(int) uint32{
		"nothing allowed": func(int) uint32 { return 0 },
		"few allowed":     func(w int) uint32 { return uint32(w%9) / 8 },
		"half allowed":    func(w int) uint32 { return 0x5a5a5a5a ^ uint32(w) },
		"most allowed":    func(w int) uint32 { return ^uint32(w%9) / 8 * 8 },
		"all allowed":     func(int) uint32 { return ^uint32(0) },
	} {
		mask := make([]uint32, (vocab+31)/32)
		for w := range mask {
			mask[w] = fill(w)
		}
		b.Run(name, func(b *testing.B) {
			for b.Loop() {
				applyMask(mask, logits)
			}
		})
	}
}
