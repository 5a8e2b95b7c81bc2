package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"tgi/models/hf"
	"tgi/models/library"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
)

// newModelConvert converts a model without serving it.
func newModelConvert() *cobra.Command {
	var flags *config.Flags
	var out output
	cmd := &cobra.Command{
		Use: "convert [ID|DIR]", Short: "Convert a model as its first start would, and compare the result",
		Args: atMost(1),
		Long: `Convert a model to the weights that the settings choose, into the cache of "tgi serve", and say how its predictions on
a fixed text agree with the precision of its files. A model that was converted before is compared again; one that
embeds or ranks is converted only. Without a model: the one of the settings.`,
		Example: "  tgi model convert org/name --weights int4",
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg, err := conversionAsked(flags, words)
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			last := time.Now()
			c, err := host.Convert(ctx, cfg, func(done, total int64) {
				if time.Since(last) > 2*time.Second {
					last = time.Now()
					fmt.Fprintf(cmd.ErrOrStderr(), "converting: %d%%\n", 100*done/max(total, 1))
				}
			})
			if err != nil {
				return err
			}
			if out.json {
				return printJSON(cmd.OutOrStdout(), c)
			}
			return c.WriteText(cmd.OutOrStdout())
		},
	}
	out.flag(cmd)
	flags = withSettings(cmd)
	cmd.Annotations[settingsShown] = modelSettings + ",weights"
	cmd.ValidArgsFunction = installedModels(flags)
	return cmd
}

// conversionAsked returns the settings with the model that the words of a command line mean, or the settings' own.
func conversionAsked(flags *config.Flags, words []string) (config.Config, error) {
	cfg, err := readSettings(flags)
	if err != nil {
		return cfg, err
	}
	own := cfg.All()[0]
	id := library.ID(own.Name)
	switch {
	case len(words) == 0 && own.Source == "":
		return host.SettingsFor(cfg, id), nil
	case len(words) > 0:
		if st, err := os.Stat(words[0]); err == nil && (st.IsDir() || hf.IsGGUF(words[0])) {
			cfg.Model.Path, cfg.ModelList = words[0], nil
			return cfg, nil
		}
		if id, err = library.ParseID(words[0]); err != nil {
			return cfg, fmt.Errorf("%s is no folder, and %w", words[0], err)
		}
	}
	cfg, d, err := catalog.Find(cfg, id)
	cfg.Model.Path = d.Dir
	return cfg, err
}
