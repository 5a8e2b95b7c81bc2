package main

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"text/tabwriter"
	"time"

	"tgi/models/store"
	"tgi/models/synth"
	"tgi/runtime/engine"
	"tgi/runtime/ort"
	"tgi/server/client/bench"
	"tgi/server/config"
)

// runBench measures a server: the one that --url names, or, with --shape or
// --model-id, one that it starts for the purpose in this process on the loopback
// address.
func runBench(args []string, stdout, stderr io.Writer) int {
	if !slices.ContainsFunc(args, startsServer) {
		code := bench.Main(args, stdout, stderr)
		if slices.ContainsFunc(args, asksForHelp) {
			fmt.Fprint(stderr, selfUsage)
		}
		return code
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	return exit(stderr, selfBench(ctx, args, stdout, stderr))
}

const selfUsage = `
With --shape or --model-id it starts a server of its own, measures that and takes
  -shape name, -model-id folder, -weights fp32|int8|int4, -threads n, -json
`

func asksForHelp(arg string) bool { return arg == "-h" || arg == "-help" || arg == "--help" }

// startsServer reports whether a flag asks for a server of the benchmark's own.
func startsServer(arg string) bool {
	name, _, _ := strings.Cut(strings.TrimLeft(arg, "-"), "=")
	return strings.HasPrefix(arg, "-") && (name == "shape" || name == "model-id")
}

// selfReport is what one model did on this machine.
type selfReport struct {
	Model   string `json:"model"`
	Weights string `json:"weights"`
	Threads int    `json:"threads"`
	// Attention names the kernel that the CPU was found fit for.
	Attention string         `json:"attention"`
	Decode    []decodeFigure `json:"decode"`
	// PrefillPerSecond are the prompt tokens per second of one request alone.
	PrefillPerSecond float64 `json:"prefill_tokens_per_s"`
	// Repeat compares the time to first token of a prompt that is new with that of
	// one that was just seen.
	Repeat *bench.Repeated `json:"repeat"`
}

// decodeFigure is what a number of parallel streams came to.
type decodeFigure struct {
	Streams int `json:"streams"`
	// PerSecond is streams / median time between two tokens: the pace of decoding.
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
)

func selfBench(ctx context.Context, args []string, stdout, stderr io.Writer) error {
	fl := flag.NewFlagSet("tgi bench", flag.ContinueOnError)
	fl.SetOutput(stderr)
	shape := fl.String("shape", "", "measure a random checkpoint of this shape: "+strings.Join(synth.Shapes(), ", "))
	model := fl.String("model-id", "", "measure the checkpoint in this folder")
	weights := fl.String("weights", "int4", "fp32, int8 or int4")
	threads := fl.Int("threads", 0, "threads; 0 is one per core that the process may use")
	asJSON := fl.Bool("json", false, "print JSON instead of a table")
	if err := fl.Parse(args); err != nil {
		return err
	}
	if fl.NArg() > 0 {
		return fmt.Errorf("bench: unexpected argument %q", fl.Arg(0))
	}
	cfg := config.Default()
	cfg.Model.Path, cfg.Model.Weights, cfg.Runtime.Threads = *model, *weights, *threads
	if *shape != "" {
		dir, err := synthetic(*shape)
		if err != nil {
			return err
		}
		cfg.Model.Path = dir
	}
	if err := cfg.Validate(); err != nil {
		return err
	}
	rep, err := measureSelf(ctx, cfg, stderr)
	if err != nil {
		return err
	}
	if *asJSON {
		return json.NewEncoder(stdout).Encode(rep)
	}
	return rep.print(stdout)
}

// synthetic returns the folder of a random checkpoint in the cache, writing it
// the first time.
func synthetic(shape string) (string, error) {
	cache, err := store.Dir()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(filepath.Dir(cache), "synth", shape)
	if _, err := os.Stat(filepath.Join(dir, "config.json")); err == nil {
		return dir, nil
	}
	tmp := dir + fmt.Sprintf(".%d", os.Getpid())
	if err := synth.Write(tmp, shape, 1); err != nil {
		return "", errors.Join(err, os.RemoveAll(tmp))
	}
	return dir, os.Rename(tmp, dir)
}

// shareOutside observes how much of the steps' time is not the forward pass.
type shareOutside struct {
	mu              sync.Mutex
	total, outwards time.Duration
}

// Step implements engine.Observer.
func (s *shareOutside) Step(r engine.Report) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.total += r.Total
	s.outwards += r.Total - r.Forward
}

// take returns the share since the last call.
func (s *shareOutside) take() float64 {
	s.mu.Lock()
	defer s.mu.Unlock()
	share := float64(s.outwards) / max(float64(s.total), 1)
	s.total, s.outwards = 0, 0
	return share
}

// measureSelf starts a server for cfg on a free loopback port and measures it.
func measureSelf(ctx context.Context, cfg config.Config, stderr io.Writer) (*selfReport, error) {
	cfg.Server.Hostname, cfg.Server.Port = "127.0.0.1", 0
	share := &shareOutside{}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, err := newHouse(ctx, only(cfg, cfg.DefaultModel()), log, share)
	if err != nil {
		return nil, err
	}
	defer h.Close()
	l, err := net.Listen("tcp", net.JoinHostPort(cfg.Server.Hostname, "0"))
	if err != nil {
		return nil, err
	}
	serving, stop := context.WithCancel(ctx)
	done := make(chan error, 1)
	go func() { done <- h.server.Serve(serving, l) }()
	rep, err := h.measure(ctx, urlOf(l.Addr(), false), share)
	stop()
	return rep, errors.Join(err, <-done)
}

// measure runs the loads one after the other.
func (h *house) measure(ctx context.Context, url string, share *shareOutside) (*selfReport, error) {
	rep := &selfReport{
		Model: h.built.Name, Weights: string(h.built.Weights),
		Threads: h.backend.ThreadCount(), Attention: ort.Attention(),
	}
	for _, streams := range []int{1, 4, 16} {
		// Warm up outside of what is counted.
		if _, err := bench.Run(ctx, bench.Options{URL: url, Concurrency: []int{streams}, Requests: streams, PromptTokens: decodePrompt, OutputTokens: 8}); err != nil {
			return nil, err
		}
		share.take()
		r, err := bench.Run(ctx, bench.Options{URL: url, Concurrency: []int{streams}, Requests: max(4, 2*streams), PromptTokens: decodePrompt, OutputTokens: decodeOutput})
		if err != nil {
			return nil, err
		}
		m := r.Runs[0]
		if m.Completed == 0 {
			return nil, fmt.Errorf("no request of %d streams was answered: %v", streams, m.Errors)
		}
		rep.Decode = append(rep.Decode, decodeFigure{
			Streams: streams, PerSecond: 1e3 * float64(streams) / m.InterToken.P50,
			WholePerSecond: m.OutputPerSecond, FirstP50: m.FirstToken.P50, Outside: share.take(),
		})
	}
	r, err := bench.Run(ctx, bench.Options{URL: url, Concurrency: []int{1}, Requests: 5, PromptTokens: prefillPrompt, OutputTokens: 1})
	if err != nil {
		return nil, err
	}
	rep.PrefillPerSecond = 1e3 * prefillPrompt / r.Runs[0].FirstToken.P50
	r, err = bench.Run(ctx, bench.Options{URL: url, Repeat: true, Requests: 5, PromptTokens: repeatPrompt})
	if err != nil {
		return nil, err
	}
	rep.Repeat = r.Repeat
	return rep, nil
}

// print writes the report for people.
func (r *selfReport) print(w io.Writer) error {
	fmt.Fprintf(w, "%s, %s weights, %d threads, %s attention; prompts of %d tokens, %d generated\n\n",
		r.Model, r.Weights, r.Threads, r.Attention, decodePrompt, decodeOutput)
	tw := tabwriter.NewWriter(w, 0, 0, 3, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "streams\tdecode tok/s\toutput tok/s\tTTFT p50 ms\toutside ORT\t")
	for _, d := range r.Decode {
		fmt.Fprintf(tw, "%d\t%.1f\t%.1f\t%.1f\t%.1f%%\t\n", d.Streams, d.PerSecond, d.WholePerSecond, d.FirstP50, 100*d.Outside)
	}
	if err := tw.Flush(); err != nil {
		return err
	}
	_, err := fmt.Fprintf(w, "\nprefill      %.0f tok/s (a prompt of %d tokens)\nfirst token  %.1f ms for a new prompt of %d tokens, %.1f ms when its prefix is cached\n",
		r.PrefillPerSecond, prefillPrompt, r.Repeat.Cold.P50, repeatPrompt, r.Repeat.Cached.P50)
	return err
}
