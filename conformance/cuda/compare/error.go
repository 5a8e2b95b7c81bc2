package compare

import (
	"fmt"
	"math"
	"slices"
)

// Difference is how far logits are from those they are held against.
type Difference struct {
	// Tokens were compared.
	Tokens int
	// Worst and Mean are relative errors of a token's logits, |got-want| / |want| in the Euclidean norm: of the worst
	// token, and of all on average. Logits that are no numbers are infinitely far.
	Worst, Mean float64
	// Median is that of a token such that half of them are no farther.
	Median float64
	// Sequence and Token are the place of the worst token.
	Sequence, Token int
	// Top1 is the share of tokens with the same likeliest next token.
	Top1 float64
}

// String is one line.
func (d Difference) String() string {
	return fmt.Sprintf("%d tokens: relative error %.2g on average, %.2g in the median, %.2g at worst (sequence %d, "+
		"token %d), likeliest token the same for %.1f%%", d.Tokens, d.Mean, d.Median, d.Worst, d.Sequence, d.Token, 100*d.Top1)
}

// Of returns how far got is from want.
func Of(got, want Logits) (Difference, error) {
	var d Difference
	if len(got) != len(want) {
		return d, fmt.Errorf("%d sequences, want %d", len(got), len(want))
	}
	same := 0
	var all []float64
	for i := range want {
		if len(got[i]) != len(want[i]) {
			return d, fmt.Errorf("sequence %d has the logits of %d tokens, want %d", i, len(got[i]), len(want[i]))
		}
		for j, w := range want[i] {
			relative := distance(got[i][j], w)
			d.Tokens++
			all = append(all, relative)
			d.Mean += relative
			if relative > d.Worst {
				d.Worst, d.Sequence, d.Token = relative, i, j
			}
			if likeliest(got[i][j]) == likeliest(w) {
				same++
			}
		}
	}
	if len(all) > 0 {
		slices.Sort(all)
		d.Median = all[(len(all)-1)/2]
	}
	n := float64(max(d.Tokens, 1))
	d.Mean, d.Top1 = d.Mean/n, float64(same)/n
	return d, nil
}

// distance is |got-want| / |want|.
func distance(got, want []float32) float64 {
	var apart, size float64
	for i, w := range want {
		diff := float64(got[i]) - float64(w)
		apart += diff * diff
		size += float64(w) * float64(w)
	}
	if d := math.Sqrt(apart / size); !math.IsNaN(d) {
		return d
	}
	if apart == 0 {
		return 0 // both are zero everywhere
	}
	return math.Inf(1)
}

// likeliest is the token with the largest logit.
func likeliest(logits []float32) int {
	best := 0
	for t, x := range logits {
		if x > logits[best] {
			best = t
		}
	}
	return best
}
