package main

import (
	"fmt"
	"os"
	"os/signal"
	"time"

	"github.com/spf13/cobra"

	"tgi/server/config"
	"tgi/server/host"
)

// newModelConvert converts a model without serving it.
func newModelConvert() *cobra.Command {
	var flags *config.Flags
	var out output
	cmd := &cobra.Command{
		Use: "convert [ID|DIR]", Short: "Convert a model as its first start would, and compare the result",
		Args: atMost(1),
		Long: `Convert a model to the weights that the settings choose, into the cache of "tgi serve", and say how its predictions on
a fixed text agree with the precision of its files. A model that was converted before is compared again. Without a model:
the one of the settings.`,
		Example: "  tgi model convert org/name --weights int4",
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg, err := readSettings(flags)
			if err != nil {
				return err
			}
			if len(words) > 0 {
				_, d, err := modelAsked(flags, words)
				if err != nil {
					return err
				}
				cfg.Model.Path = d.Dir
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
