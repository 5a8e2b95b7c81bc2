package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net"
	"os"
	"os/signal"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/models"
	"tgi/models/store"
	"tgi/models/synth"
	"tgi/runtime/ort"
	"tgi/server/client/bench"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// benchFlags are the flags of `tgi bench`.
type benchFlags struct {
	load bench.Options
	plan bench.PlanOptions
	// replicas asks for a plan.
	replicas bool
	// start asks for the time that a start takes, noBeside for a shorter measurement of a model.
	start, noBeside bool
	// shape and model ask for a server in this process.
	shape, model, weights string
	device, graphs        string
	threads               int
	output                output
}

// ofModel are the flags that measure a model in this process; all others put load on a server.
var ofModel = []string{"shape", "model-id", "weights", "threads", "device", "cuda-graphs", "start", "no-beside"}

// newBench measures a server: the one that --url names, or, with --shape or --model-id, one that it
// starts for the purpose in this process on the loopback address.
func newBench() *cobra.Command {
	f := &benchFlags{}
	cmd := &cobra.Command{
		Use: "bench [flags]", Short: "Measure a server by --url, or a model on this machine", Args: takesNothing,
		Long: `Put load on a server that speaks TGI's API and report what clients see. With --shape or --model-id it starts a
server of its own on the loopback address and measures that model on this machine.`,
		Example: `  tgi bench --url http://127.0.0.1:3000 --concurrency 1,4,16
  tgi bench --url http://127.0.0.1:3000 --rate 5 --duration 60s
  tgi bench --url http://127.0.0.1:3000 --repeat --prompt-tokens 1024
  tgi bench --url http://127.0.0.1:3000 --replicas --rate 40 --p99 3s
  tgi bench --url http://127.0.0.1:3000 --beside 1900 --concurrency 1,8
  tgi bench --shape llama3.2-1b --weights int4
  tgi bench --start --shape qwen2.5-0.5b`,
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt, syscall.SIGTERM)
			defer stop()
			if err := f.check(cmd); err != nil {
				return err
			}
			switch {
			case f.start:
				return f.measureStart(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
			case f.model != "":
				return f.measureModel(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
			}
			f.load.Progress = func(s string) { fmt.Fprintln(cmd.ErrOrStderr(), s) }
			return f.measureServer(ctx, cmd.OutOrStdout())
		},
	}
	set := cmd.Flags()
	set.StringVar(&f.load.URL, "url", "http://127.0.0.1:3000", "`root` of the server")
	set.StringVar(&f.load.Key, "key", "", "API `key`, sent as a bearer token")
	set.Func("concurrency", "streams kept busy; a `list` runs one after the other (default 1)", func(s string) error {
		f.load.Concurrency = nil
		for part := range strings.SplitSeq(s, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil {
				return fmt.Errorf("%q is no number", part)
			}
			f.load.Concurrency = append(f.load.Concurrency, n)
		}
		return nil
	})
	set.Float64Var(&f.load.Rate, "rate", 0,
		"requests per `second` at random moments, whatever the server does, instead of --concurrency")
	set.BoolVar(&f.replicas, "replicas", false,
		"find the rate that the server holds --p99 or --first-token-p99 at, and how many replicas --rate needs")
	set.DurationVar(&f.plan.P99, "p99", 0, "with --replicas: `time` that 99 % of requests may take, such as 2s")
	set.DurationVar(&f.plan.FirstTokenP99, "first-token-p99", 0, "with --replicas: `time` until 99 % have a first token")
	set.BoolVar(&f.load.Repeat, "repeat", false,
		"send each prompt twice for one token: time to first token cold and cached")
	set.IntVar(&f.load.Beside, "beside", 0,
		"have prompts of so many `tokens` come while --concurrency streams generate: gaps with and without them")
	set.IntVar(&f.load.Requests, "requests", 0,
		"`number` of requests in a run (default 64; with --repeat 8 prompts, with --beside 3; with --replicas at least "+
			"200, and more at rates that need them)")
	set.DurationVar(&f.load.Duration, "duration", 0,
		"stop sending after this `time`, such as 30s, though requests are left")
	set.IntVar(&f.load.PromptTokens, "prompt-tokens", 128, "`tokens` of each prompt")
	set.IntVar(&f.load.OutputTokens, "output-tokens", 0, "new `tokens` at most (default 64; --beside: 1024 or less)")
	set.IntVar(&f.load.SharedPrefix, "shared-prefix", 0, "leading `tokens` that are the same in all prompts")
	set.IntVar(&f.load.Warmup, "warmup", 1, "`requests` before the first run that are not counted")
	set.DurationVar(&f.load.Timeout, "timeout", 2*time.Minute, "`time` after which a request is given up")
	set.Uint64Var(&f.load.Seed, "seed", 0, "makes prompts and moments "+
		"(default from the clock, so that no prompt is cached)")
	set.BoolVar(&f.start, "start", false,
		"start a server again and again, of --shape, of --model-id or the demo model: time to its first token, and memory")
	set.StringVar(&f.shape, "shape", "", "measure a random checkpoint of this `shape`: "+strings.Join(synth.Shapes(),
		", "))
	set.StringVar(&f.model, "model-id", "", "measure the model in this `folder` or GGUF file")
	set.StringVar(&f.weights, "weights", "int4", "with --shape or --model-id: fp32, int8, int4 or stored; on a GPU bf16, fp16, int8 or int4")
	set.StringVar(&f.device, "device", config.Auto, "with --shape or --model-id: auto, cpu, cuda or cuda:N")
	set.StringVar(&f.graphs, "cuda-graphs", config.Auto,
		"with --shape or --model-id on a GPU: `sizes` of batches that decode as CUDA graphs, with commas; 0 for none")
	set.IntVar(&f.threads, "threads", 0,
		"with --shape or --model-id: threads; 0 is one per core that the process may use")
	set.BoolVar(&f.noBeside, "no-beside", false,
		"with --shape or --model-id: do not measure long prompts beside streams, which takes longest")
	f.output.flag(cmd)
	complete(cmd, "shape", synth.Shapes()...)
	complete(cmd, "weights", "fp32", "bf16", "fp16", "int8", "int4", "stored")
	complete(cmd, "device", "auto", "cpu", "cuda")
	must(cmd.MarkFlagDirname("model-id"))
	return cmd
}

// check refuses flags that do not go together, and has the model be the random checkpoint of a shape that is asked for.
func (f *benchFlags) check(cmd *cobra.Command) (err error) {
	here := f.shape != "" || f.model != "" || f.start
	cmd.Flags().Visit(func(flag *pflag.Flag) {
		switch of := slices.Contains(ofModel, flag.Name); {
		case flag.Name == "output" || flag.Name == "json" || of == here:
		case here && flag.Name == "url":
			err = misused("--url measures a server that runs, --shape, --model-id and --start one of their own: give one")
		case here:
			err = misused("--%s is for a server at --url, not with --shape, --model-id or --start", flag.Name)
		default:
			err = misused("--%s needs --shape, --model-id or --start", flag.Name)
		}
	})
	switch bounds := f.plan != (bench.PlanOptions{}); {
	case err != nil:
	case bounds && !f.replicas:
		err = misused("--p99 and --first-token-p99 are bounds of a plan: give --replicas too")
	case f.shape != "" && !slices.Contains(synth.Shapes(), f.shape):
		err = misused("--shape %q: want one of %s", f.shape, strings.Join(synth.Shapes(), ", "))
	case f.start && f.shape+f.model == "" && cmd.Flags().Changed("weights"):
		err = misused("--weights needs --shape or --model-id: the demo model has its own")
	case f.shape != "":
		f.model, err = store.Random(f.shape)
	case f.replicas:
		f.load.Plan = &f.plan
	}
	return err
}

// measureServer puts load on a server. An interrupt ends the load and prints what was measured so far.
func (f *benchFlags) measureServer(ctx context.Context, stdout io.Writer) error {
	report, err := bench.Run(ctx, f.load)
	if errors.Is(err, bench.ErrOptions) {
		return usageError(err.Error())
	}
	if len(report.Runs) > 0 || report.Repeat != nil || len(report.Beside) > 0 {
		err = errors.Join(err, f.print(stdout, &report))
	}
	if err == nil && !report.Completed() {
		err = errReported
	}
	return err
}

// print writes a report in the form that is asked for.
func (f *benchFlags) print(w io.Writer, report interface{ WriteTable(io.Writer) error }) error {
	if f.output.json {
		return printIndented(w, report)
	}
	return report.WriteTable(w)
}

// measureModel starts a server of its own for the model and measures it.
func (f *benchFlags) measureModel(ctx context.Context, stdout, stderr io.Writer) error {
	cfg := config.Default()
	cfg.Model.Path, cfg.Model.Weights, cfg.Runtime.Threads = f.model, f.weights, f.threads
	cfg.Runtime.Device, cfg.Runtime.CUDAGraphs = f.device, f.graphs
	if err := cfg.Validate(); err != nil {
		return config.Wrong(err)
	}
	rep, err := measureModel(ctx, cfg, f.noBeside, stderr)
	if err != nil {
		return err
	}
	return f.print(stdout, rep)
}

// measureStart starts this program's server in processes of their own.
func (f *benchFlags) measureStart(ctx context.Context, stdout, stderr io.Writer) error {
	rep, err := bench.Start(ctx, bench.StartOptions{Model: f.model, Weights: f.weights, Device: f.device,
		Graphs: f.graphs, Threads: f.threads, Progress: func(s string) { fmt.Fprintln(stderr, s) }})
	if err != nil {
		return err
	}
	return f.print(stdout, rep)
}

// measureModel starts a server for cfg on a free loopback port and measures it.
func measureModel(ctx context.Context, cfg config.Config, noBeside bool,
	stderr io.Writer) (*bench.ModelReport, error) {
	cfg.Server.Hostname, cfg.Server.Port = "127.0.0.1", 0
	cfg.Model.Speculation.Tokens = 0 // random weights repeat themselves, which flatters the model
	share := &host.OutsideShare{}
	log := slog.New(slog.NewTextHandler(stderr, &slog.HandlerOptions{Level: slog.LevelWarn}))
	h, err := host.Open(ctx, host.Options{Config: catalog.Only(cfg, cfg.DefaultModel()), Version: version, Log: log,
		Brief: true, Observer: share})
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
	go func() { done <- h.Serve(serving, l) }()
	rep, err := bench.Model(ctx, urlOf(l.Addr(), false), bench.ModelOptions{NoBeside: noBeside, Outside: share.Take})
	if err == nil {
		m, _ := h.Default()
		rep.Model, rep.Weights, rep.Threads = m.Name, m.Weights, m.Threads
		rep.Attention, rep.Products = ort.Attention(), ort.Product()
		if m.Device != string(models.CPU) {
			rep.Device, rep.Attention, rep.Products = m.Backend, "", ""
		}
	}
	stop()
	return rep, errors.Join(err, <-done)
}
