package main

import (
	"context"
	"fmt"
	"io"
	"os"
	"os/signal"
	"path/filepath"
	"strings"
	"text/tabwriter"
	"time"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/server/config"
)

// benching is what the flags of `tgi plugin bench` say.
type benching struct {
	checking
	vocabulary, steps int
	seed              uint64
}

// newPluginBench measures a module call by call.
func newPluginBench() *cobra.Command {
	b := &benching{}
	cmd := &cobra.Command{
		Use: "bench FILE.wasm", Short: "Measure time and fuel of a module, call by call", Args: atMost(1),
		ValidArgsFunction: modules,
		RunE: func(cmd *cobra.Command, words []string) error {
			if len(words) == 0 {
				return misused("plugin bench needs a .wasm file")
			}
			if b.vocabulary < check.MinVocabulary || b.steps < 1 {
				return misused("--vocab %d, --steps %d: want at least %d and 1", b.vocabulary, b.steps, check.MinVocabulary)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return b.measure(ctx, words[0], cmd.OutOrStdout())
		},
	}
	set := cmd.Flags()
	set.Var(&b.config, "config", "the operator's configuration, a JSON `object`; default: {}")
	set.Var(&b.params, "params", "a request's parameters, a JSON `object`; "+
		"given several times, each is measured alone; default: {}")
	set.IntVar(&b.vocabulary, "vocab", check.DefaultVocabulary, "`tokens` in the made-up vocabulary")
	set.IntVar(&b.steps, "steps", check.DefaultSteps, "`steps` for each set of parameters")
	set.Uint64Var(&b.seed, "seed", 1, "seed of logits and tokens")
	b.grammarFlags(set)
	b.limitFlags(set)
	b.output.flag(cmd)
	return cmd
}

// measure measures a file and prints the report; errReported says that a run was stopped.
func (b *benching) measure(ctx context.Context, file string, stdout io.Writer) error {
	grammars, err := b.grammars()
	if err != nil {
		return err
	}
	text, err := b.configText()
	if err != nil {
		return err
	}
	wasm, err := os.ReadFile(file)
	if err != nil {
		return err
	}
	if err := b.settle(wasm); err != nil {
		return err
	}
	r, err := check.Bench(ctx, strings.TrimSuffix(filepath.Base(file), ".wasm"), wasm, check.BenchOptions{
		Vocabulary: b.vocabulary, Steps: b.steps, Seed: b.seed, Config: text, Params: b.params, Grammars: grammars,
		Limits: b.limits,
	})
	if err != nil {
		return err
	}
	if b.output.json {
		err = printJSON(stdout, r)
	} else {
		err = printBench(stdout, r)
	}
	for _, run := range r.Runs {
		if err == nil && run.Fault != "" {
			return errReported
		}
	}
	return err
}

// printBench writes the tables.
func printBench(w io.Writer, r *check.BenchReport) error {
	fmt.Fprintf(w, "%s, a vocabulary of %d tokens; fuel 1 is about 0.2 ns\n\n", r.Name, r.Vocabulary)
	if err := printSeries(w, append(r.Load, r.Baseline...)); err != nil {
		return err
	}
	for _, run := range r.Runs {
		fmt.Fprintf(w, "\nparameters %s\n", run.Params)
		if len(run.Calls) > 0 {
			if err := printSeries(w, run.Calls); err != nil {
				return err
			}
		}
		for _, m := range run.Masks {
			fmt.Fprintf(w, "%s: %.4g steps a second, a mask and an accepted token each\n", m.Language, m.PerSecond)
		}
		if run.Forced > 0 {
			fmt.Fprintf(w, "%d steps took a forced token without a call\n", run.Forced)
		}
		switch {
		case run.Grown > 0:
			fmt.Fprintf(w, "memory %s, and %s more at the end of a sequence: such an instance is not used again\n",
				config.Size(run.Memory), config.Size(run.Grown))
		case run.Memory > 0:
			fmt.Fprintf(w, "memory %s, does not grow\n", config.Size(run.Memory))
		}
		if run.Fault != "" {
			fmt.Fprintf(w, "stopped: %s\n", run.Fault)
		}
	}
	return nil
}

func printSeries(w io.Writer, list []check.Series) error {
	tw := tabwriter.NewWriter(w, 0, 0, 2, ' ', tabwriter.AlignRight)
	fmt.Fprintln(tw, "call\tcount\tp50\tp99\tin the guest p50\tp99\tfuel p50\tp99\tof limit\t")
	for _, s := range list {
		share := ""
		if s.Budget > 0 {
			share = fmt.Sprintf("%.2g%%", 100*float64(s.FuelP50)/float64(s.Budget))
		}
		fmt.Fprintf(tw, "%s\t%d\t%s\t%s\t%s\t%s\t%s\t%s\t%s\t\n", s.Name, s.Count, short(s.P50), short(s.P99),
			short(s.GuestP50), short(s.GuestP99), fuel(s, s.FuelP50), fuel(s, s.FuelP99), share)
	}
	return tw.Flush()
}

// fuel is nothing where it was not measured.
func fuel(s check.Series, n int64) string {
	if s.Budget == 0 && n == 0 {
		return ""
	}
	return fmt.Sprint(n)
}

// short gives three digits: 181ns, 12.3us, 1.05ms; nothing for 0.
func short(d time.Duration) string {
	switch {
	case d == 0:
		return ""
	case d < time.Microsecond:
		return fmt.Sprintf("%dns", d)
	case d < time.Millisecond:
		return fmt.Sprintf("%.3gus", float64(d)/1e3)
	case d < time.Second:
		return fmt.Sprintf("%.3gms", float64(d)/1e6)
	}
	return fmt.Sprintf("%.3gs", d.Seconds())
}
