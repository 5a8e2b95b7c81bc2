package bench

import (
	"context"
	"fmt"
	"io"
	"strings"
	"text/tabwriter"
)

// ModelReport is what one model did on this machine.
type ModelReport struct {
	Model   string `json:"model"`
	Weights string `json:"weights"`
	Threads int    `json:"threads"`
	// Device is the GPU that computed; empty for the CPU.
	Device string `json:"device,omitempty"`
	// Attention and Products name the kernels that the CPU was found fit for.
	Attention string       `json:"attention"`
	Products  string       `json:"products"`
	Decode    []DecodeRate `json:"decode"`
	// PrefillPerSecond are the prompt tokens per second of one request alone.
	PrefillPerSecond float64 `json:"prefill_tokens_per_s"`
	// Repeat compares the time to first token of a prompt that is new with that of
	// one that was just seen.
	Repeat *Repeated `json:"repeat"`
	// Beside is what a long prompt does to one stream and to eight. BesideError is why some of it is missing, such as a
	// model without room for the prompt.
	Beside      []*Disturbed `json:"beside,omitempty"`
	BesideError string       `json:"beside_error,omitempty"`
}

// DecodeRate is what a number of parallel streams came to.
type DecodeRate struct {
	Streams int `json:"streams"`
	// PerSecond is streams / mean time between two tokens while all of them generate: the pace of decoding. It is no
	// median: tokens that arrive together have no time between them.
	PerSecond float64 `json:"tokens_per_s"`
	// WholePerSecond divides all output tokens by all time, prompts included.
	WholePerSecond float64 `json:"output_tokens_per_s"`
	FirstP50       float64 `json:"ttft_p50_ms"`
	// Outside is the share of the steps' time that was not spent in ONNX Runtime.
	Outside float64 `json:"outside_ort"`
}

// Lengths of the measured requests.
const (
	decodePrompt  = 128
	decodeOutput  = 64
	prefillPrompt = 512
	repeatPrompt  = 1024
	besidePrompt  = 1900
	besideOutput  = 1800
)

// ModelOptions say what Model measures.
type ModelOptions struct {
	// NoBeside leaves out the long prompts beside streams, which take longest.
	NoBeside bool
	// Outside returns the share of the steps' time since it was last called that was not spent in ONNX Runtime.
	Outside func() float64
}

// Model runs the loads of a ModelReport against a server one after the other: decoding with 1, 4 and 16 streams, a
// long prompt, a prompt that is repeated, and a long prompt beside streams. Who calls names the model.
func Model(ctx context.Context, url string, o ModelOptions) (*ModelReport, error) {
	rep := &ModelReport{}
	for _, streams := range []int{1, 4, 16} {
		// Warm up outside of what is counted.
		load := Options{URL: url, Concurrency: []int{streams}, Requests: streams, PromptTokens: decodePrompt,
			OutputTokens: 8}
		if _, err := Run(ctx, load); err != nil {
			return nil, err
		}
		o.Outside() // the warm-up's
		load.Requests, load.OutputTokens = max(4, 2*streams), decodeOutput
		r, err := Run(ctx, load)
		if err != nil {
			return nil, err
		}
		m := r.Runs[0]
		if m.Completed == 0 {
			return nil, fmt.Errorf("no request of %d streams was answered: %v %v", streams, m.Errors, m.Reasons)
		}
		gap := m.Together
		if gap.Count == 0 {
			gap = m.InterToken
		}
		pace := m.OutputPerSecond // where all tokens came at once
		if gap.Mean > 0 {
			pace = 1e3 * float64(streams) / gap.Mean
		}
		rep.Decode = append(rep.Decode, DecodeRate{
			Streams: streams, PerSecond: pace,
			WholePerSecond: m.OutputPerSecond, FirstP50: m.FirstToken.P50, Outside: o.Outside(),
		})
	}
	r, err := Run(ctx, Options{URL: url, Requests: 5, PromptTokens: prefillPrompt, OutputTokens: 1})
	if err != nil {
		return nil, err
	}
	rep.PrefillPerSecond = 1e3 * prefillPrompt / r.Runs[0].FirstToken.P50
	r, err = Run(ctx, Options{URL: url, Repeat: true, Requests: 5, PromptTokens: repeatPrompt})
	if err != nil {
		return nil, err
	}
	rep.Repeat = r.Repeat
	if o.NoBeside {
		return rep, nil
	}
	r, err = Run(ctx, Options{URL: url, Beside: besidePrompt, Concurrency: []int{1, 8}, PromptTokens: decodePrompt,
		OutputTokens: besideOutput})
	switch rep.Beside = r.Beside; {
	case ctx.Err() != nil:
		return nil, ctx.Err()
	case err != nil: // a model that ends its texts, or that has no room, is measured without
		rep.BesideError = err.Error()
	}
	return rep, nil
}

// WriteTable writes the report for people.
func (r *ModelReport) WriteTable(w io.Writer) error {
	on := fmt.Sprintf("%d threads, %s attention, %s products", r.Threads, r.Attention, r.Products)
	if r.Device != "" {
		on = r.Device
	}
	fmt.Fprintf(w, "%s, %s weights, %s; prompts of %d tokens, %d generated\n\n", r.Model, r.Weights, on, decodePrompt,
		decodeOutput)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "streams\tdecode tok/s\toutput tok/s\tTTFT p50 ms\toutside ORT\t")
	for _, d := range r.Decode {
		fmt.Fprintf(tw, "%d\t%.1f\t%.1f\t%.1f\t%.1f%%\t\n", d.Streams, d.PerSecond, d.WholePerSecond, d.FirstP50,
			100*d.Outside)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nprefill      %.0f tok/s (a prompt of %d tokens)\n"+
		"first token  %.1f ms for a new prompt of %d tokens, %.1f ms when its prefix is cached\n",
		r.PrefillPerSecond, prefillPrompt, r.Repeat.Cold.P50, repeatPrompt, r.Repeat.Cached.P50)
	if err != nil {
		return err
	}
	var b strings.Builder
	b.WriteByte('\n')
	if len(r.Beside) > 0 {
		writeBeside(&b, r.Beside)
	}
	if r.BesideError != "" {
		fmt.Fprintf(&b, "long prompts beside streams are not measured: %s\n", r.BesideError)
	}
	_, err = io.WriteString(w, b.String())
	return err
}
