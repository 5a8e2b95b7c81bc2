package bench

import (
	"context"
	"encoding/json"
	"errors"
	"flag"
	"fmt"
	"io"
	"os"
	"os/signal"
	"strconv"
	"strings"
	"syscall"

	"tgi/server/config"
)

// Exit codes of Main.
const (
	exitOK     = 0
	exitFailed = 1 // nothing could be measured, or it was broken off
	exitUsage  = 2
)

const usage = `tgi bench puts load on a server that speaks TGI's API and reports what clients see.

  tgi bench --url http://127.0.0.1:3000 --concurrency 1,4,16
  tgi bench --url http://127.0.0.1:3000 --rate 5 --duration 60s
  tgi bench --url http://127.0.0.1:3000 --repeat --prompt-tokens 1024

`

// Main runs the command with the arguments after its name and returns the exit
// code: 0, 1 when nothing could be measured, 2 for wrong arguments. The report
// goes to stdout, everything else to stderr. An interrupt ends the load and
// prints what was measured so far.
func Main(args []string, stdout, stderr io.Writer) int {
	o := Options{Progress: func(s string) { fmt.Fprintln(stderr, s) }}
	flags, asJSON := newFlags(&o)
	flags.SetOutput(stderr)
	flags.Usage = func() {
		fmt.Fprint(stderr, usage)
		flags.PrintDefaults()
	}
	if err := checkNames(flags, args); err != nil {
		fmt.Fprintln(stderr, "tgi bench:", err)
		return exitUsage
	}
	if err := flags.Parse(args); errors.Is(err, flag.ErrHelp) {
		return exitOK
	} else if err != nil {
		return exitUsage
	}
	if flags.NArg() > 0 {
		fmt.Fprintf(stderr, "tgi bench: unexpected argument %q\n", flags.Arg(0))
		return exitUsage
	}
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt, syscall.SIGTERM)
	defer stop()
	report, err := Run(ctx, o)
	if err != nil {
		fmt.Fprintln(stderr, "tgi bench:", err)
		if errors.Is(err, ErrOptions) {
			return exitUsage
		}
	}
	if len(report.Runs) == 0 && report.Repeat == nil {
		return exitFailed
	}
	if writeErr := write(stdout, &report, *asJSON); writeErr != nil {
		fmt.Fprintln(stderr, "tgi bench:", writeErr)
		return exitFailed
	}
	if err != nil || !report.Completed() {
		return exitFailed
	}
	return exitOK
}

func write(w io.Writer, r *Report, asJSON bool) error {
	if !asJSON {
		return r.WriteTable(w)
	}
	enc := json.NewEncoder(w)
	enc.SetIndent("", "  ")
	return enc.Encode(r)
}

func newFlags(o *Options) (flags *flag.FlagSet, asJSON *bool) {
	flags = flag.NewFlagSet("tgi bench", flag.ContinueOnError)
	flags.StringVar(&o.URL, "url", "http://127.0.0.1:3000", "`root` of the server")
	flags.StringVar(&o.Key, "key", "", "API `key`, sent as a bearer token")
	flags.Func("concurrency", "streams kept busy; a `list` runs one after the other (default 1)", func(s string) error {
		o.Concurrency = nil
		for _, part := range strings.Split(s, ",") {
			n, err := strconv.Atoi(strings.TrimSpace(part))
			if err != nil {
				return fmt.Errorf("%q is no number", part)
			}
			o.Concurrency = append(o.Concurrency, n)
		}
		return nil
	})
	flags.Float64Var(&o.Rate, "rate", 0, "requests per `second` at random moments, whatever the server does, instead of --concurrency")
	flags.BoolVar(&o.Repeat, "repeat", false, "send each prompt twice for one token: time to first token cold and cached")
	flags.IntVar(&o.Requests, "requests", 0, "requests per run (default 64, with --repeat 8 prompts)")
	flags.DurationVar(&o.Duration, "duration", 0, "stop sending after this `time`, such as 30s, though requests are left")
	flags.IntVar(&o.PromptTokens, "prompt-tokens", 128, "`tokens` of each prompt")
	flags.IntVar(&o.OutputTokens, "output-tokens", 64, "new `tokens` at most")
	flags.IntVar(&o.SharedPrefix, "shared-prefix", 0, "leading `tokens` that are the same in all prompts")
	flags.IntVar(&o.Warmup, "warmup", 1, "`requests` before the first run that are not counted")
	flags.DurationVar(&o.Timeout, "timeout", 0, "`time` after which a request is given up (default 2m0s)")
	flags.Uint64Var(&o.Seed, "seed", 0, "makes prompts and moments (default from the clock, so that no prompt is cached)")
	return flags, flags.Bool("json", false, "report as JSON")
}

// checkNames refuses flags that do not exist and names the nearest that does.
func checkNames(flags *flag.FlagSet, args []string) error {
	for i := 0; i < len(args); i++ {
		name, dashed := strings.CutPrefix(args[i], "-")
		name = strings.TrimPrefix(name, "-")
		if !dashed || name == "" { // an argument, or the "--" that ends flags
			return nil
		}
		name, _, valued := strings.Cut(name, "=")
		if name == "h" || name == "help" {
			continue
		}
		f := flags.Lookup(name)
		if f == nil {
			return fmt.Errorf("unknown flag --%s%s", name, config.Suggest("--"+name, names(flags)))
		}
		if b, ok := f.Value.(interface{ IsBoolFlag() bool }); !valued && !(ok && b.IsBoolFlag()) {
			i++ // its value
		}
	}
	return nil
}

// names lists the flags as they are written.
func names(flags *flag.FlagSet) (all []string) {
	flags.VisitAll(func(f *flag.Flag) { all = append(all, "--"+f.Name) })
	return all
}
