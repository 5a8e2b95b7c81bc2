package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// newEval measures how well a model predicts a text.
func newEval() *cobra.Command {
	flags := &config.Flags{}
	var out output
	var suite, forms string
	var window, stride int
	cmd := &cobra.Command{
		Use:   "eval --suite perplexity|accuracy [FILE]",
		Short: "Measure how well a model predicts a text, and what its forms lose",
		Args: func(cmd *cobra.Command, words []string) error {
			if suite == "accuracy" {
				return atMost(1)(cmd, words)
			}
			return takesOne("eval takes one file of text, got %d")(cmd, words)
		},
		Long: host.EvalHelp,
		Example: "  tgi eval --suite perplexity book.txt --model-id org/name --weights int4 --output json\n" +
			"  tgi eval --suite accuracy --forms fp32,int8,int4",
		Annotations: map[string]string{settingsShown: "config,model-id,models-folder,weights"},
		RunE: func(cmd *cobra.Command, words []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			if suite == "accuracy" {
				if set := cmd.Flags(); set.Changed("stride") || set.Changed("weights") {
					return misused("--suite accuracy takes no --stride, and --forms says which weights are compared")
				}
				cfg, err := conversionAsked(flags, nil)
				if err != nil {
					return err
				}
				r, err := host.EvalForms(ctx, cfg, words, forms, window, cmd.ErrOrStderr())
				if err != nil {
					return err
				}
				if out.json {
					return printJSON(cmd.OutOrStdout(), r)
				}
				return r.WriteText(cmd.OutOrStdout())
			}
			if suite != "perplexity" {
				return misused("eval needs --suite perplexity or accuracy")
			}
			if cmd.Flags().Changed("forms") {
				return misused("--forms is for --suite accuracy")
			}
			text, err := host.ReadText(words[0])
			if err != nil {
				return err
			}
			settings, err := loadConfig(flags)
			if err != nil {
				return err
			}
			cfg := catalog.Only(settings.Config, settings.Config.All()[0].Name)
			log := server.NewLog(cmd.ErrOrStderr(), cfg.Log)
			h, err := host.Open(ctx, host.Options{Config: cfg, Version: version, Log: log, Brief: true})
			if err != nil {
				return err
			}
			defer h.Close()
			p, err := h.Perplexity(ctx, text, window, stride, func(tokens, of int) {
				log.Debug("computed", "tokens", tokens, "of", of)
			})
			if err != nil {
				return err
			}
			if out.json {
				return printJSON(cmd.OutOrStdout(), p)
			}
			return p.WriteText(cmd.OutOrStdout())
		},
	}
	set := cmd.Flags()
	set.StringVar(&suite, "suite", "", "what to measure: `perplexity` or accuracy")
	set.StringVar(&forms, "forms", host.DefaultForms, "`forms` to compare, the reference first")
	set.IntVar(&window, "window", 0, "`tokens` of a window (default 1024, or what the model's limits allow)")
	set.IntVar(&stride, "stride", 0, "`tokens` from a window to the next (default half a window)")
	complete(cmd, "suite", "perplexity", "accuracy")
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}
