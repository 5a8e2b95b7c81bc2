package host

import (
	"context"
	"fmt"
	"io"

	"tgi/models"
	"tgi/models/quant"
	"tgi/models/store"
	"tgi/server/config"
)

// Conversion is what a conversion did, or what is in the cache already.
type Conversion struct {
	Model   string         `json:"model"`
	Weights models.Weights `json:"weights"`
	Folder  string         `json:"folder"`
	// Cached says that it was converted before; Seconds and Error are then not known.
	Cached  bool    `json:"cached"`
	Seconds float64 `json:"seconds,omitempty"`
	Bytes   int64   `json:"bytes"`
	// Error is the relative error of the quantised weights.
	Error float64 `json:"relative_error,omitempty"`
	// Reference is the form of the same weights with which quantised ones are compared on a fixed text: over Positions
	// tokens, the share of those with the same likeliest token and the mean divergence in nats. Why there was no
	// comparison is in NotCompared.
	Reference   models.Weights `json:"reference,omitempty"`
	Positions   int            `json:"positions,omitempty"`
	Top1        float64        `json:"top1,omitempty"`
	KL          float64        `json:"kl,omitempty"`
	NotCompared string         `json:"not_compared,omitempty"`
}

// Convert converts the model of cfg, a folder or a file, as its first start would, and compares the result with the
// precision of its files, also if it was converted before. progress is told of the parameters done and in total.
func Convert(ctx context.Context, cfg config.Config, progress func(done, total int64)) (Conversion, error) {
	return convertInto(ctx, cfg, "", progress)
}

// convertInto is Convert with a cache in a folder; "" is that of servers.
func convertInto(ctx context.Context, cfg config.Config, cache string, progress func(done, total int64)) (c Conversion,
	err error) {
	d, err := openDevice(cfg)
	if err != nil {
		return c, err
	}
	src, err := describe(cfg.Model.Path)
	if err != nil {
		return c, pathError(cfg, err)
	}
	in := &instance{}
	if err := in.loadTokenizer(src.desc); err != nil {
		return c, err
	}
	w, err := weightsFor(cfg, d.Processor, EstimateParams(src.desc.Config), src.desc.Coded)
	if err != nil {
		return c, err
	}
	c = Conversion{Model: src.desc.Name, Weights: w, Cached: true}
	b, err := src.prepare(ctx, store.Options{Device: d.Device, Weights: w, Dir: cache, Progress: progress,
		Converted: func(done store.Conversion) {
			c.Cached, c.Seconds, c.Error = false, done.Took.Seconds(), done.Error.Relative()
		}})
	if err != nil {
		return c, err
	}
	c.Folder, c.Bytes = b.Dir, b.WeightBytes
	if !w.Quantised() {
		return c, nil
	}
	if src.desc.Config.Encoder != nil {
		c.NotCompared = "the model does not generate, and predictions of tokens are what is compared"
		return c, nil
	}
	var a *quant.Agreement
	if a, c.NotCompared, err = quantCheck(ctx, d, b, in.tokenizer, src.prepare); err != nil {
		return c, fmt.Errorf("compare %s with %s: %w", w, referenceOn(d), err)
	}
	if c.NotCompared == "" {
		c.Reference, c.Positions, c.Top1, c.KL = referenceOn(d), a.Positions, a.Top1(), a.KL()
	}
	return c, nil
}

// WriteText writes it for people.
func (c Conversion) WriteText(w io.Writer) error {
	how := "was converted before"
	if !c.Cached {
		how = fmt.Sprintf("converted in %.1fs", c.Seconds)
		if c.Error > 0 {
			how += fmt.Sprintf(", relative error of the weights %.2f %%", 100*c.Error)
		}
	}
	_, err := fmt.Fprintf(w, "%s to %s: %s, %d MB in %s\n", c.Model, c.Weights, how, c.Bytes>>20, c.Folder)
	switch {
	case err != nil:
	case c.NotCompared != "":
		_, err = fmt.Fprintf(w, "not compared: %s\n", c.NotCompared)
	case c.Positions > 0:
		_, err = fmt.Fprintf(w, "compared with %s: top-1 agreement %.1f %%, KL %.4f over %d positions\n", c.Reference,
			100*c.Top1, c.KL, c.Positions)
	}
	return err
}
