package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/host/catalog"
)

// newCheck does the real start without listening: it opens the configured models one after the
// other, has each generate one token and says what would be served. What was not fetched yet stays so.
func newCheck() *cobra.Command {
	flags := &config.Flags{}
	var out output
	cmd := &cobra.Command{
		Use: "check [flags]", Short: "Start without listening, and print the settings and what would be served",
		Args: takesNothing,
		Long: `Start as "tgi serve" would, but without listening: print every setting with its source, open each model
and generate one token with it. Models that were not fetched yet are not fetched: their sources are
asked whether they have them.`,
		Annotations: map[string]string{settingsShown: "config,model-id,models-folder,plugins-folder"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			settings, err := loadConfig(flags)
			if err != nil {
				return config.Wrong(catalog.WithPlugins(ctx, settings.Config, err))
			}
			log := server.NewLog(cmd.ErrOrStderr(), settings.Config.Log)
			if out.json {
				report, err := catalog.CheckAll(ctx, settings, version, log)
				return errors.Join(printIndented(cmd.OutOrStdout(), report), err)
			}
			return checkText(ctx, settings, log, cmd.OutOrStdout())
		},
	}
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}

// checkText prints what is found as it is found.
func checkText(ctx context.Context, settings config.Loaded, log *slog.Logger, stdout io.Writer) error {
	if err := printSettings(stdout, catalog.Settled(settings)); err != nil {
		return err
	}
	err := catalog.Check(ctx, settings.Config, version, log, func(m catalog.Checked) { m.WriteText(stdout) })
	if err != nil {
		return err
	}
	_, err = fmt.Fprintln(stdout, "ok")
	return err
}
