// Command cmd writes a report about a CUDA device: what it computes, and how fast. conformance/cuda/run calls it.
package main

import (
	"cmp"
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"time"

	"tgi/conformance/cuda/report"
	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/runtime/ort"
	"tgi/server/host/hardware"
)

func main() {
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	err := run(ctx)
	stop()
	if err != nil {
		fmt.Fprintln(os.Stderr, "report:", err)
		os.Exit(1)
	}
}

// flags of the command. Those from part on are of a process that runs one part.
type flags struct {
	device, parts, out   string
	shapes, served, long string
	program, python      string
	golden, demo, beside string
	formats, making      string
	budget, each         time.Duration
	dry                  bool

	part, result, note string
	time               float64
}

func (f *flags) parse() {
	flag.StringVar(&f.device, "device", "cuda", "cuda or cuda:N")
	flag.StringVar(&f.parts, "parts", strings.Join(report.Parts(), ","), "parts of the report, separated by commas")
	flag.DurationVar(&f.budget, "budget", 7*time.Minute+40*time.Second,
		"how long all of it may take; what it is too short for is left out")
	flag.StringVar(&f.out, "out", "bin/cuda-report.md", "file that the report is written to, too")
	flag.StringVar(&f.shapes, "shapes", "llama3.1-8b,llama3.2-1b",
		"models that are timed, separated by commas: folders, or shapes of random weights; empty for none")
	flag.StringVar(&f.served, "served", "llama3.2-1b", "models that are served under load; demo is the embedded one")
	flag.StringVar(&f.long, "long", "smollm2-135m", "model whose whole context is played")
	flag.StringVar(&f.program, "program", "bin/tgi", "the server")
	flag.StringVar(&f.python, "python", "python3", "Python, where other engines may be installed")
	flag.StringVar(&f.golden, "golden", "",
		"folder of small checkpoints whose logits are compared; those of --making if none is named")
	flag.StringVar(&f.making, "making", "conformance/cuda/checkpoints.py",
		"script that makes such checkpoints where PyTorch and transformers are installed; else those of "+reference+
			" are taken that fit")
	flag.StringVar(&f.formats, "formats", "", "formats of weights that are compared, separated by commas; all if empty")
	flag.StringVar(&f.demo, "demo", "models/demo/checkpoint", "folder of the demo model")
	flag.StringVar(&f.beside, "beside", "conformance/cuda/beside.py", "script that times other engines")
	flag.DurationVar(&f.each, "for", 500*time.Millisecond, "how long each figure is measured")
	flag.BoolVar(&f.dry, "dry-run", false, "go through all of it in little time, with small models, and judge no numbers")
	flag.StringVar(&f.part, "part", "", "write this part alone")
	flag.Float64Var(&f.time, "time", 0, "with --part: its seconds")
	flag.StringVar(&f.result, "result", "", "with --part: file for what it came to, as JSON")
	flag.StringVar(&f.note, "note", "", "with --part: where the checkpoints come from")
	flag.Parse()
}

func run(ctx context.Context) error {
	var f flags
	f.parse()
	if f.part != "" {
		ctx, stop := context.WithTimeout(ctx, time.Duration(f.time*float64(time.Second)))
		defer stop()
		return one(ctx, f).Save(f.result)
	}
	program, err := os.Executable()
	if err != nil {
		return err
	}
	file, err := os.Create(f.out)
	if err != nil {
		return err
	}
	defer file.Close()
	began := time.Now()
	more, done := checkpoints(ctx, f)
	defer done()
	args := append(os.Args[1:len(os.Args):len(os.Args)], more...)
	result, err := report.Whole(ctx, io.MultiWriter(os.Stdout, file), strings.Split(f.parts, ","),
		f.budget-time.Since(began), report.Process(program, args...))
	if err == nil && len(result.Failed) > 0 {
		err = fmt.Errorf("%d of %d checks failed", len(result.Failed), result.Checks)
	}
	return errors.Join(err, file.Close())
}

// one writes one part.
func one(ctx context.Context, f flags) report.Result {
	o, err := options(f)
	if err != nil {
		fmt.Printf("**Broken off: %v**\n", err)
		return report.Result{Checks: 1, Failed: []string{fmt.Sprintf("%s: %v", f.part, err)}}
	}
	return report.Write(ctx, os.Stdout, f.part, o)
}

// options loads the device and says what is measured.
func options(f flags) (o report.Options, err error) {
	c, err := hardware.Choose(f.device, "")
	if err != nil {
		return o, err
	}
	if err := ort.Init(c.Library); err != nil {
		return o, err
	}
	o = report.Options{Device: c.CUDA, Demo: f.demo, Long: f.long, Chunk: 1024, Shapes: list(f.shapes),
		Timed: []models.Weights{models.BF16, models.Int4}, Rows: []int{1, 8, 32, 64, 128}, Context: 1024,
		Prompts: []int{1024, 8192}, For: f.each, Opens: 20, Program: f.program, Served: list(f.served),
		Streams: []int{1, 8, 64, 128}, LoadPrompt: 128, LoadOutput: 64, Python: f.python, Beside: f.beside,
		Note: f.note}
	for _, w := range models.CUDA.Formats() {
		if c.Check(w) == nil && (f.formats == "" || slices.Contains(strings.Split(f.formats, ","), string(w))) {
			o.Formats = append(o.Formats, w)
		}
	}
	o.Timed = slices.DeleteFunc(o.Timed, func(w models.Weights) bool { return !slices.Contains(o.Formats, w) })
	golden := cmp.Or(f.golden, reference)
	files, err := filepath.Glob(filepath.Join(golden, "*", hf.ConfigFile))
	for _, file := range files {
		ck, err := hf.Describe(filepath.Dir(file))
		if err != nil {
			return o, err
		}
		if decoder.Check(models.CUDA, models.BF16, ck.Config) == nil { // others run on the CPU only
			o.Checkpoints = append(o.Checkpoints, filepath.Dir(file))
		}
	}
	if len(o.Checkpoints) == 0 {
		return o, fmt.Errorf("no checkpoints in %s: run it in the root of the tree", golden)
	}
	if f.dry {
		little(&o, f)
	}
	o.Checkpoints = append(o.Checkpoints, o.Demo)
	return o, err
}

// little has every part do a little of what it does, with the smallest models.
func little(o *report.Options, f flags) {
	o.Shapes, o.Served, o.Long = []string{filepath.Join(reference, "llama3")}, []string{""}, f.demo
	o.NoNumbers, o.Checkpoints, o.Formats = true, o.Checkpoints[:2], []models.Weights{models.BF16, models.Int4}
	o.Rows, o.Context, o.Prompts, o.Chunk = []int{1, 4}, 20, []int{16}, 100
	o.For, o.Opens, o.Streams, o.LoadPrompt, o.LoadOutput = time.Millisecond, 3, []int{1, 4}, 20, 8
}

// list splits names by commas; demo is the name of none.
func list(text string) (names []string) {
	for name := range strings.SplitSeq(text, ",") {
		switch name {
		case "":
		case "demo":
			names = append(names, "")
		default:
			names = append(names, name)
		}
	}
	return names
}
