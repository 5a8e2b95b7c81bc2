package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/plugins/check"
	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host/catalog"
)

// checking is what the flags of check say.
type checking struct {
	config, params, refuse objects
	language, source       string // of kind grammar
	limits                 check.Limits
	memory                 config.Size
	output                 output
	project                string // language of the source, "" where only the module is known
}

// checkFlags adds the flags of a check.
func (c *checking) checkFlags(cmd *cobra.Command) {
	set := cmd.Flags()
	set.Var(&c.config, "config", "the operator's configuration, a JSON `object`; default: {}")
	set.Var(&c.params, "params", "parameters that it must accept, a JSON `object`; may be given several times; default: {}")
	set.Var(&c.refuse, "refuse", "parameters that it must refuse, a JSON `object`; may be given several times")
	c.grammarFlags(set)
	c.limitFlags(set)
	c.output.flag(cmd)
}

// limitFlags adds those of the limits, whose names are those of [plugin.limits].
func (c *checking) limitFlags(set *pflag.FlagSet) {
	set.Func("memory",
		fmt.Sprintf("`size` that an instance's memory may have (default %s; this and the defaults below "+
			"are higher for kinds template, tools and grammar)", config.Size(check.DefaultLimits().Memory)),
		func(s string) error { return c.memory.UnmarshalText([]byte(s)) })
	set.Int64Var(&c.limits.FuelPerStep, "fuel-per-step", 0,
		"`fuel` of each call at a step, on average: the rest is saved, for eight calls at most; 1 is about 0.2 ns")
	set.Int64Var(&c.limits.FuelPerRequest, "fuel-per-request", 0, "`fuel` of each other call of a request")
	set.Int64Var(&c.limits.FuelLoad, "fuel-load", 0, "`fuel` of all calls at load together")
	set.DurationVar(&c.limits.TimePerStep, "time-per-step", 0,
		"`time` that a call at a step may run (default 1s)")
	set.DurationVar(&c.limits.TimePerRequest, "time-per-request", 0,
		"`time` that another call of a request may run (default 10s)")
	set.DurationVar(&c.limits.TimeLoad, "time-load", 0, "`time` that loading may take (default 1m0s)")
}

// grammarFlags adds those of what a plugin of kind grammar is tried with beside the built-in samples.
func (c *checking) grammarFlags(set *pflag.FlagSet) {
	set.StringVar(&c.language, "language", "", "kind grammar: `language` of --source, one that the plugin lists")
	set.StringVar(&c.source, "source", "", "kind grammar: a `source` in that language; "+
		"default: samples of common languages")
}

// grammars is the one grammar that the flags give, if any.
func (c *checking) grammars() ([]check.Grammar, error) {
	switch {
	case c.language != "":
		return []check.Grammar{{Language: c.language, Text: c.source}}, nil
	case c.source != "":
		return nil, misused("--source needs its --language")
	}
	return nil, nil
}

// settle gives the limits that no flag set the defaults of a module.
func (c *checking) settle(wasm []byte) (err error) {
	c.limits.Memory = int64(c.memory)
	c.limits, err = check.LimitsOf(wasm, c.limits)
	return err
}

// configText is the one configuration.
func (c *checking) configText() (string, error) {
	switch len(c.config) {
	case 0:
		return "{}", nil
	case 1:
		return c.config[0], nil
	}
	return "", misused("--config is given %d times: a module has one configuration", len(c.config))
}

// cases pairs the configuration with all parameters.
func (c *checking) cases() ([]check.Case, error) {
	text, err := c.configText()
	if err != nil {
		return nil, err
	}
	grammars, err := c.grammars()
	if err != nil {
		return nil, err
	}
	accepted := check.Case{Config: text, Params: "{}", Sources: grammars}
	var cases []check.Case
	for _, p := range c.params {
		accepted.Params = p
		cases = append(cases, accepted)
	}
	if len(cases) == 0 {
		cases = append(cases, accepted)
	}
	for _, p := range c.refuse {
		cases = append(cases, check.Case{Config: text, Params: p, Refused: true})
	}
	return cases, nil
}

// newPluginCheck holds a module to the contract.
func newPluginCheck() *cobra.Command {
	c := &checking{}
	cmd := &cobra.Command{
		Use: "check FILE.wasm|builtin:NAME", ValidArgsFunction: modules,
		Short: "Check a module against every rule of the contract, as the server would run it",
		Args:  takesOne("plugin check takes one .wasm file or builtin:NAME, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return c.check(ctx, words[0], cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.checkFlags(cmd)
	return cmd
}

// check reads and checks a file and prints the report; errReported says that it has violations.
func (c *checking) check(ctx context.Context, file string, stdout, stderr io.Writer) error {
	cases, err := c.cases()
	if err != nil {
		return err
	}
	wasm, err := catalog.Module(file)
	if err != nil {
		return err
	}
	if err := c.settle(wasm); err != nil {
		return err
	}
	r, err := check.Run(ctx, catalog.NameOf(file), wasm, check.Options{Cases: cases, Limits: c.limits,
		Stage: terminal.Notes(stderr)})
	if unknown, ok := errors.AsType[*check.LanguageError](err); ok {
		return misused("--%v%s", unknown, config.Suggest(unknown.Language, unknown.Known))
	}
	if err != nil {
		return err
	}
	if c.output.json {
		err = printJSON(stdout, struct {
			File string `json:"file"`
			*check.Report
		}{file, r})
	} else {
		r.WriteText(stdout, check.TextOptions{
			File: file, Limits: c.limits, Language: c.project, ParamsGiven: len(c.params) > 0,
		})
	}
	if err == nil && !r.Sound() {
		return errReported
	}
	return err
}
