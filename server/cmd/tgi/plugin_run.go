package main

import (
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/plugins/tryout"
	"tgi/server/client/terminal"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// newPluginRun feeds a module one step or one text.
func newPluginRun() *cobra.Command {
	var out output
	var o tryout.Options
	var config, params, request objects
	var model, row string
	cmd := &cobra.Command{
		Use: "run [flags] FILE.wasm|builtin:NAME", Short: "Feed a module one step or one text, without a server, and show its answer",
		Example: `  tgi plugin run dry.wasm --prompt "a b a" --text " b" --params '{"multiplier": 2}'
  tgi plugin run mine.wasm --prompt "Once" --logits '{"17": 3.5, "99": 2}'`,
		Args: takesOne("plugin run takes one .wasm file or builtin:NAME, got %d"), ValidArgsFunction: modules,
		RunE: func(cmd *cobra.Command, words []string) (err error) {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			for _, one := range []struct {
				flag  string
				given objects
				to    *[]byte
			}{{"config", config, &o.Config}, {"params", params, &o.Params}, {"request", request, &o.Request}} {
				if len(one.given) > 1 {
					return misused("--%s is given %d times", one.flag, len(one.given))
				}
				if len(one.given) == 1 {
					*one.to = []byte(one.given[0])
				}
			}
			if o.Logits, err = tryout.Logits(row); err != nil {
				return misused("--logits: %v", err)
			}
			if o.Wasm, err = catalog.Module(words[0]); err != nil {
				return err
			}
			if o.Vocabulary, o.Model, err = host.Tokenizer(model); err != nil {
				return err
			}
			o.Name = catalog.NameOf(words[0])
			r, err := tryout.Run(ctx, o)
			if r == nil || r.Name == "" {
				return err
			}
			if out.json {
				return errors.Join(printIndented(cmd.OutOrStdout(), r), err)
			}
			return errors.Join(r.Write(cmd.OutOrStdout(), terminal.Line), err)
		},
	}
	set := cmd.Flags()
	set.StringVar(&o.Prompt, "prompt", "Once upon a time", "the `text` before the generated one")
	set.StringVar(&o.Text, "text", "", "the `text` generated so far: what a guard, a tool parser and a step see")
	set.StringVar(&row, "logits", "", "`object` of token ids and logits, others are -20; by default made up")
	set.StringVar(&o.Language, "language", "", "kind grammar: `language` of --source; by default the module's first")
	set.StringVar(&o.Source, "source", "", "kind grammar: a `source`")
	set.Var(&request, "request", "kinds template, tools, program: the request as the contract has it, a JSON `object`")
	set.Var(&params, "params", "parameters of the request, a JSON `object`")
	set.Var(&config, "config", "configuration, a JSON `object`")
	set.Uint64Var(&o.Seed, "seed", 0, "`seed` of the random numbers")
	set.StringVar(&model, "model", "", "`folder` of the model whose tokenizer is used; by default the demo model's")
	out.flag(cmd)
	return cmd
}
