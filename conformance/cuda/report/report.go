// Package report measures and checks a CUDA device from end to end: logits against the CPU's in 32 bits, batches
// against rows alone, low-rank adapters, CUDA graphs against steps that are launched one by one, shared and forked
// cache blocks, a whole context in chunks, both kinds of kernels for quantised weights, what the sampling kernel
// makes of rows, memory over opens and closes, the whole server over HTTP, and then how fast steps and servers are,
// beside other engines. It writes Markdown.
//
// The report is made of parts, which have a share of its time each. Each is a process of its own, so that one that
// fails, hangs or leaves the device unusable does not take the others with it.
//
// Callers: the command of conformance/cuda/run, and a test that goes through all of it over a CUDA runtime that
// computes nothing. It starts goroutines for requests of the server's part only, and awaits them.
package report

import (
	"context"
	"errors"
	"fmt"
	"io"
	"path/filepath"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/store"
	"tgi/runtime/cuda"
	"tgi/runtime/ort"
)

// Options of Write.
type Options struct {
	// Device is the CUDA device. ONNX Runtime's GPU build and CUDA are loaded.
	Device cuda.Device
	// Checkpoints are folders of small models, whose logits are compared.
	Checkpoints []string
	// Note says where they come from.
	Note string
	// Formats of weights that are compared.
	Formats []models.Weights
	// Demo is the folder of the demo model. Its matrices have sizes that all kernels take.
	Demo string
	// Long is the model whose whole context is played, in chunks of Chunk tokens.
	Long  string
	Chunk int
	// Shapes are large models, whose steps are timed, in the formats of Timed. A model is a folder, or a shape of
	// random weights.
	Shapes []string
	Timed  []models.Weights
	// Rows are the batch sizes that are timed; Context is how many tokens each row has then.
	Rows    []int
	Context int
	// Prompts are the lengths of prompts that are timed.
	Prompts []int
	// For is how long a figure is measured, at least.
	For time.Duration
	// Opens is how often a model is opened and closed while its memory is watched.
	Opens int
	// Program is the path of tgi, and Served the models that it serves under load, in the formats of Timed; "" is the
	// demo model. Streams are the numbers of clients; their prompts have LoadPrompt tokens, the answers LoadOutput.
	Program                string
	Served                 []string
	Streams                []int
	LoadPrompt, LoadOutput int
	// Python is the program that other engines run in, and Beside the script that times them.
	Python, Beside string
	// NoNumbers says that the device computes nothing: numbers are reported and not judged.
	NoNumbers bool
}

// Result is what parts came to.
type Result struct {
	// Checks were judged, and those of Failed did not hold.
	Checks int
	Failed []string
	// Cut is what the time was too short for.
	Cut []string
}

// add takes another result in.
func (r *Result) add(o Result) {
	r.Checks += o.Checks
	r.Failed, r.Cut = append(r.Failed, o.Failed...), append(r.Cut, o.Cut...)
}

// part is a piece of the report.
type part struct {
	name string
	// share is its part of the time, in comparison with the others.
	share float64
	run   func(*report) error
}

// parts of the report, in their order: what is right comes before what is quick.
var parts = []part{
	{deviceName, 0.2, (*report).device},
	{"logits", 3, (*report).numbers},
	{"adapters", 0.4, (*report).adapters},
	{"sampling", 0.4, (*report).sampling},
	{"memory", 0.3, (*report).memory},
	{"server", 1.5, (*report).server},
	{"int4", 0.4, (*report).gemm},
	{"context", 1, (*report).chunks},
	{"speed", 4, (*report).speed},
	{"load", 1.5, (*report).load},
	{"beside", 2, (*report).beside},
}

// deviceName is the part without which there are no others.
const deviceName = "device"

// Parts lists the names of the parts.
func Parts() []string {
	names := make([]string, len(parts))
	for i, p := range parts {
		names[i] = p.name
	}
	return names
}

// Write writes one part of the report to w as it goes on. What failed and what was left out when ctx's time was over is
// in the result, and in the text.
func Write(ctx context.Context, w io.Writer, name string, o Options) Result {
	r := &report{ctx: ctx, w: w, o: o}
	for _, p := range parts {
		if p.name != name {
			continue
		}
		err := p.run(r)
		switch {
		case err == nil:
		case errors.Is(ctx.Err(), context.DeadlineExceeded):
			r.leaveOut(name, "the rest, at: %v", err)
		default:
			r.line("\n**Broken off: %v**", err)
			r.Checks++
			r.Failed = append(r.Failed, fmt.Sprintf("%s: broken off: %v", name, err))
		}
		if r.err != nil {
			r.Failed = append(r.Failed, fmt.Sprintf("writing the report: %v", r.err))
		}
		return r.Result
	}
	return Result{Checks: 1, Failed: []string{fmt.Sprintf("part %q: want one of %s", name,
		strings.Join(Parts(), ", "))}}
}

// report is a part in the making.
type report struct {
	ctx context.Context //nolint:containedctx // of the one call of Write
	w   io.Writer
	o   Options
	Result
	notes []string
	// references are those of checkpoints, by their folders.
	references map[string]*played
	err        error // of writing
}

func (r *report) line(format string, args ...any) {
	_, err := fmt.Fprintf(r.w, format+"\n", args...)
	r.err = errors.Join(r.err, err)
}

// over reports whether the part's time is over, and then notes what is left out.
func (r *report) over(part, format string, args ...any) bool {
	if r.ctx.Err() == nil {
		return false
	}
	r.leaveOut(part, format, args...)
	return true
}

func (r *report) leaveOut(part, format string, args ...any) {
	what := part + ": " + fmt.Sprintf(format, args...)
	r.line("\n**Out of time, left out: %s**\n", what)
	r.Cut = append(r.Cut, what)
}

// numbersHold notes whether a comparison of numbers held, and returns a mark for the report.
func (r *report) numbersHold(held bool, format string, args ...any) string {
	if r.o.NoNumbers {
		return "not judged"
	}
	return r.holds(held, format, args...)
}

// holds notes whether something held, whatever the device computes, and returns a mark for the report.
func (r *report) holds(held bool, format string, args ...any) string {
	r.Checks++
	if held {
		return "ok"
	}
	r.Failed = append(r.Failed, fmt.Sprintf(format, args...))
	return "**FAILED**"
}

// device says what is measured, and fails where it is not there.
func (r *report) device() error {
	free, total, err := cuda.MemInfo(r.o.Device.Index)
	if err != nil {
		return err
	}
	limit, from := bandwidth(r.o.Device)
	r.line("- %s, %d of %d MiB free\n- ONNX Runtime %s\n- limit of its memory: %.0f GB/s, %s", r.o.Device, free>>20,
		total>>20, ort.Version(), limit/1e9, from)
	return nil
}

// folder returns the folder of a model: one that is named, or one of random weights.
func folder(model string) (string, error) {
	if strings.ContainsRune(model, filepath.Separator) {
		return model, nil
	}
	return store.Random(model)
}

// called is what the report calls a model.
func (r *report) called(model string) string {
	if model == "" || model == r.o.Demo {
		return "tgi-demo"
	}
	return filepath.Base(model)
}

// build returns a checkpoint built for a device.
func (r *report) build(folder string, d models.Device, w models.Weights) (models.Built, error) {
	return store.Prepare(r.ctx, folder, store.Options{Device: d, Weights: w})
}

// options open a built model on the device with a cache of so many blocks.
func (r *report) options(b models.Built, blocks, stepTokens, rows int) ort.CUDAOptions {
	return ort.CUDAOptions{
		ModelPath: b.ModelFile, Layers: b.Layers, KVHeads: b.KVHeads, HeadDim: b.HeadDim, Latent: b.Latent,
		Places: b.Places, Vocab: b.Vocab, MaxLen: b.MaxPositions, BlockSize: b.BlockSize,
		Device: r.o.Device.Index, MaxBlocks: blocks,
		StepTokens: stepTokens, StepRows: rows, MixedGEMM: b.Weights.Quantised(),
	}
}

// onDevice opens a built model on the device. graphs are the sizes of batches that run as CUDA graphs.
func (r *report) onDevice(b models.Built, blocks, stepTokens, rows int, graphs []int) (*ort.CUDA, error) {
	o := r.options(b, blocks, stepTokens, rows)
	o.Graphs = graphs
	return ort.OpenCUDA(o)
}

// onCPU opens a built model on the CPU.
func onCPU(b models.Built, blocks int) (*ort.Paged, error) { return ort.Open(cpuOptions(b, blocks)) }

// cpuOptions open a built model on the CPU with a cache of so many blocks.
func cpuOptions(b models.Built, blocks int) ort.Options {
	return ort.Options{ModelPath: b.ModelFile, Layers: b.Layers, KVHeads: b.KVHeads, HeadDim: b.HeadDim,
		Latent: b.Latent,
		Cache:  ort.CacheForm(b.Cache), Vocab: b.Vocab, MaxLen: b.MaxPositions, OriginalLen: b.OriginalPositions,
		Width: b.Width, Places: b.Places, KeyEnds: b.KeyEnds, Blocks: blocks}
}
