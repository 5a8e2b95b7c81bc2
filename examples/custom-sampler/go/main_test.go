package main

import (
	"math"
	"testing"

	"tgi/sdk/go/plugintest"
	"tgi/sdk/go/sampler"
)

func TestParameters(t *testing.T) {
	for params, want := range map[string]string{
		`{"n":0}`:     "n: want a number above 0, at most 100",
		`{"n":1e400}`: "n: want a number above 0, at most 100",
		`{"n":"1"}`:   "want a JSON number for n",
		`{"sigma":1}`: "unknown parameter: sigma",
		`{`:           "JSON ends too early",
	} {
		if _, err := (sigma{n: 1}).Begin([]byte(params), nil); err == nil || err.Error() != want {
			t.Errorf("%s: %v, want %s", params, err, want)
		}
	}
}

// TestShares: the logits lie one standard deviation above and below their
// mean, so the lower two are two deviations away from the best.
func TestShares(t *testing.T) {
	plugintest.New(t)
	c := plugintest.Candidates(0.4, 0.4, 0.1, 0.1)
	for params, want := range map[string][4]float64{
		`{}`:        {0.5, 0.5, 0, 0},
		`{"n":1.9}`: {0.5, 0.5, 0, 0},
		`{"n":2.1}`: {0.4, 0.4, 0.1, 0.1},
	} {
		s, err := sigma{n: 1}.Begin([]byte(params), nil)
		if err != nil {
			t.Fatal(err)
		}
		var share [4]float64
		for range 10000 {
			i, err := s.Sample(c)
			if err != nil {
				t.Fatal(err)
			}
			share[i] += 1e-4
		}
		for i := range want {
			if math.Abs(share[i]-want[i]) > 0.02 || want[i] == 0 && share[i] > 0 {
				t.Errorf("%s: shares %.3f, want %v", params, share, want)
				break
			}
		}
	}
}

// TestAlone: whatever cannot be told apart from the best is kept.
func TestAlone(t *testing.T) {
	plugintest.New(t)
	for _, c := range [][]sampler.Candidate{plugintest.Candidates(1), plugintest.Candidates(0.5, 0.5)} {
		seen := map[int]bool{}
		for range 100 {
			i, err := sigma{n: 1}.Sample(c)
			if err != nil {
				t.Fatal(err)
			}
			seen[i] = true
		}
		if len(seen) != len(c) {
			t.Errorf("of %d equal candidates %d were drawn", len(c), len(seen))
		}
	}
}
