package host

import (
	"context"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/store"
)

// TestConvert: a conversion says what it did to the predictions, again if the cache has the model, and also for weights
// that are kept as the files have them.
func TestConvert(t *testing.T) {
	dir := t.TempDir()
	packed := filepath.Join(t.TempDir(), "awq")
	if err := os.CopyFS(packed, os.DirFS("../../models/testdata/packed/awq")); err != nil {
		t.Fatal(err)
	}
	words := `{"pre_tokenizer":{"type":"Whitespace"},"model":{"type":"WordLevel","unk_token":"?",` +
		`"vocab":{"?":0,"the":1,".":2,",":3,"a":4,"of":5,"and":6,"is":7}}}`
	if err := os.WriteFile(filepath.Join(packed, "tokenizer.json"), []byte(words), 0o644); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		path    string
		weights models.Weights
		top1    float64 // at least
	}{
		{"", models.Int4, 0.5},
		{"", models.Int8, 0.95},
		{packed, models.Stored, 0.8},
		{"", models.FP32, 0},
	} {
		cfg := testConfig()
		cfg.Model.Path, cfg.Model.Weights = c.path, string(c.weights)
		told := int64(0)
		first, err := convertInto(t.Context(), cfg, dir, func(done, _ int64) { told = done })
		if err != nil {
			t.Fatalf("%s: %v", c.path, err)
		}
		again, err := convertInto(t.Context(), cfg, dir, nil)
		if err != nil {
			t.Fatal(err)
		}
		if first.Cached || !again.Cached || told == 0 || first.Bytes == 0 || first.Folder != again.Folder {
			t.Errorf("%q %s: %+v, then %+v, told of %d", c.path, c.weights, first, again, told)
		}
		if first.Top1 != again.Top1 || first.KL != again.KL || first.Positions != again.Positions {
			t.Errorf("%q %s: compared as %+v, then %+v", c.path, c.weights, first, again)
		}
		var text strings.Builder
		if err := first.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if c.top1 == 0 {
			if first.Positions != 0 || strings.Contains(text.String(), "compared") {
				t.Errorf("%s: %s", c.weights, text.String())
			}
			continue
		}
		if first.Positions < 100 || first.Top1 < c.top1 || first.Reference != models.FP32 ||
			!strings.Contains(text.String(), "compared with fp32: top-1 agreement ") {
			t.Errorf("%q %s: %+v\n%s", c.path, c.weights, first, text.String())
		}
	}
}

// TestConvertOfTexts: a model that embeds or ranks is converted, and it is said that nothing is compared.
func TestConvertOfTexts(t *testing.T) {
	dir := t.TempDir()
	for _, name := range []string{"bert", "qwen3", "bert-rank"} {
		cfg := testConfig()
		cfg.Model.Path, cfg.Model.Weights = filepath.Join("../../models/testdata/embeddings", name), string(models.Int8)
		c, err := convertInto(t.Context(), cfg, dir, nil)
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		var text strings.Builder
		if err := c.WriteText(&text); err != nil {
			t.Fatal(err)
		}
		if c.Cached || c.Bytes == 0 || c.Weights != models.Int8 || c.Reference != "" ||
			!strings.Contains(text.String(), "\nnot compared: the model does not generate") {
			t.Errorf("%s: %+v\n%s", name, c, text.String())
		}
	}
}

// TestCheckTime: the comparison of a start ends with its time, which is that of the conversion.
func TestCheckTime(t *testing.T) {
	if checkTime(time.Hour) != time.Hour || checkTime(0) <= 0 {
		t.Errorf("%v, %v", checkTime(time.Hour), checkTime(0))
	}
	cfg := testConfig()
	d, err := openDevice(cfg)
	if err != nil {
		t.Fatal(err)
	}
	src, err := describe("")
	if err != nil {
		t.Fatal(err)
	}
	in := &instance{}
	if err := in.loadTokenizer(src.desc); err != nil {
		t.Fatal(err)
	}
	b, err := src.prepare(t.Context(), store.Options{Device: d.Device, Weights: models.Int4,
		Dir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	late, cancel := context.WithDeadline(t.Context(), time.Now())
	defer cancel()
	_, whyNot, err := quantCheck(late, d, b, in.tokenizer, src.prepare)
	if err != nil || !strings.Contains(whyNot, "longer than the conversion did") {
		t.Errorf("%q, %v", whyNot, err)
	}
}
