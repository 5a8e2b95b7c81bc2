package host

import (
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/library"
	"tgi/server/config"
)

// TestEstimateUnlocked: while a model is planned the roster is asked, which calls observe with its
// own lock: the manager's must be free then, or the two wait for each other.
func TestEstimateUnlocked(t *testing.T) {
	c := testConfig()
	c.Model.Preload = false
	m := openServer(t, c).models
	asked := false
	m.bounds = func() []bound {
		if asked = m.mu.TryLock(); asked {
			m.mu.Unlock()
		}
		return nil
	}
	if _, err := m.estimate(library.ID(c.DefaultModel())); err != nil {
		t.Fatal(err)
	}
	if !asked {
		t.Error("the manager's lock is held, or the bounds were not asked for")
	}
}

// TestWeightsFor: what the settings name beats what TGI's flags ask for, which beats what suits the device.
func TestWeightsFor(t *testing.T) {
	cpu, gpu := models.Processor{Device: models.CPU}, models.Processor{Device: models.CUDA, Major: 9}
	old := models.Processor{Device: models.CUDA, Major: 7, Minor: 5}
	cases := []struct {
		weights, launcher string
		p                 models.Processor
		want              models.Weights
		err               string
	}{
		{config.Auto, "", cpu, models.Int8, ""},
		{config.Auto, config.WeightsFP16, cpu, models.Int8, ""},
		{config.Auto, "", gpu, models.BF16, ""},
		{config.Auto, config.WeightsInt4, gpu, models.Int4, ""},
		{config.WeightsInt8, config.WeightsInt4, gpu, models.Int8, ""},
		{config.Auto, "", old, models.FP16, ""},
		{config.Auto, config.WeightsBF16, old, "", `dtype or quantize: model.weights must be fp16, int8 or int4`},
		{config.WeightsBF16, "", cpu, "", `model.weights must be fp32, int8 or int4 on cpu, given "bf16"`},
		{config.WeightsFP32, "", gpu, "", `model.weights must be bf16, fp16, int8 or int4 on cuda, given "fp32"`},
	}
	for _, c := range cases {
		cfg := config.Default()
		cfg.Model.Weights, cfg.CUDAWeights = c.weights, c.launcher
		w, err := weightsFor(cfg, c.p, 8e9, []string{"BF16"})
		text := ""
		if err != nil {
			text = err.Error()
		}
		if w != c.want || !strings.HasPrefix(text, c.err) || c.err == "" && text != "" {
			t.Errorf("%q, TGI's %q on %+v: %s, %v, want %s, %s", c.weights, c.launcher, c.p, w, text, c.want, c.err)
		}
	}
}
