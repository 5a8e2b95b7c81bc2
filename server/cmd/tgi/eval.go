package main

import (
	"fmt"
	"io"
	"os"
	"os/signal"
	"unicode/utf8"

	"github.com/spf13/cobra"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// maxEvalText bounds the text that is evaluated, in bytes.
const maxEvalText = 64 << 20

// newEval measures how well a model predicts a text.
func newEval() *cobra.Command {
	flags := &config.Flags{}
	var out output
	var suite string
	var window, stride int
	cmd := &cobra.Command{
		Use: "eval --suite perplexity FILE", Short: "Measure how well a model predicts a text",
		Args: takesOne("eval takes one file of text, got %d"),
		Long: `Compute the perplexity of a text with the model that the settings name, by the engine that serves it. Windows of
--window tokens start every --stride tokens; each scores the tokens that no window before had, given what precedes them
in it. The text begins with what the tokenizer puts there.`,
		Example:     "  tgi eval --suite perplexity book.txt --model-id org/name --weights int4 --output json",
		Annotations: map[string]string{settingsShown: "config,model-id,models-folder,weights"},
		RunE: func(cmd *cobra.Command, words []string) error {
			if suite != "perplexity" {
				return misused("eval needs --suite perplexity, the only one")
			}
			text, err := readText(words[0])
			if err != nil {
				return err
			}
			settings, err := loadConfig(flags)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
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
	set.StringVar(&suite, "suite", "", "what to measure: `perplexity`")
	set.IntVar(&window, "window", 0, "`tokens` of a window (default 1024, or what the model's limits allow)")
	set.IntVar(&stride, "stride", 0, "`tokens` from a window to the next (default half a window)")
	complete(cmd, "suite", "perplexity")
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}

// readText reads a file that is UTF-8.
func readText(name string) (string, error) {
	f, err := os.Open(name)
	if err != nil {
		return "", err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, maxEvalText+1))
	switch {
	case err != nil:
		return "", err
	case len(data) > maxEvalText:
		return "", fmt.Errorf("%s: has more than %d bytes", name, maxEvalText)
	case !utf8.Valid(data):
		return "", fmt.Errorf("%s: is not UTF-8", name)
	}
	return string(data), nil
}
