package main

import (
	"context"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/server/host/catalog"
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
		Use: "bench FILE.wasm|builtin:NAME", Short: "Measure time and fuel of a module, call by call",
		Args: takesOne("plugin bench takes one .wasm file or builtin:NAME, got %d"), ValidArgsFunction: modules,
		RunE: func(cmd *cobra.Command, words []string) error {
			if b.vocabulary < check.MinVocabulary || b.steps < 1 {
				return misused("--vocab %d, --steps %d: want at least %d and 1", b.vocabulary, b.steps,
					check.MinVocabulary)
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
	wasm, err := catalog.Module(file)
	if err != nil {
		return err
	}
	if err := b.settle(wasm); err != nil {
		return err
	}
	r, err := check.Bench(ctx, catalog.NameOf(file), wasm, check.BenchOptions{
		Vocabulary: b.vocabulary, Steps: b.steps, Seed: b.seed, Config: text, Params: b.params, Grammars: grammars,
		Limits: b.limits,
	})
	if err != nil {
		return err
	}
	if b.output.json {
		err = printJSON(stdout, r)
	} else {
		err = r.WriteTables(stdout)
	}
	for _, run := range r.Runs {
		if err == nil && run.Fault != "" {
			return errReported
		}
	}
	return err
}
