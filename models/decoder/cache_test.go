package decoder

import (
	"testing"

	"tgi/models"
	"tgi/models/quant"
)

// TestCacheForms holds that a cache of smaller numbers changes the distributions little, for all architectures, and
// that such graphs are the same: one build serves all forms.
func TestCacheForms(t *testing.T) {
	limits := map[models.DType]float64{models.Float16: 1e-5, models.BFloat16: 1e-3, models.Codes8: 5e-3}
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			ck, g := readGolden(t, name)
			r, path := buildTo(t, calm(t, ck), Options{Weights: models.FP32})
			want := runModel(t, r, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
			for form, limit := range limits {
				small := r
				small.Layout = r.Layout.WithCache(form)
				got := runModel(t, small, path, 8).prefill(&sequence{}, g.Prompts[2], 0)
				var a quant.Agreement
				for i := range want {
					if err := a.Add(want[i], got[i]); err != nil {
						t.Fatal(err)
					}
				}
				t.Logf("%s: largest difference %.4f, %v", form, distance(got, want), &a)
				if ck.Config.Experts.N > 0 && form != models.Float16 {
					limit = 0.06 // another expert may be chosen
				}
				if a.KL() > limit {
					t.Errorf("%s changes the distributions: %v", form, &a)
				}
			}
		})
	}
}
