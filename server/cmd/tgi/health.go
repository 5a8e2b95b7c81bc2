package main

import (
	"context"
	"fmt"
	"time"

	"github.com/spf13/cobra"

	"tgi/server/client/health"
	"tgi/server/config"
)

// newHealth asks the server of the same settings, as a container's health check does.
func newHealth() *cobra.Command {
	flags := &config.Flags{}
	timeout := 5 * time.Second
	cmd := &cobra.Command{
		Use: "health [flags]", Short: "Ask the server on this machine whether it accepts requests", Args: takesNothing,
		Long: `Ask /readyz of the server that runs on this machine with the same settings: for health checks that run a
program. It ends with 1 where the server does not answer, loads or drains.`,
		Annotations: map[string]string{settingsShown: "config,hostname,port,tls-cert"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			settings, err := loadConfig(flags)
			if err != nil {
				return err
			}
			ctx, stop := context.WithTimeout(cmd.Context(), timeout)
			defer stop()
			if err := health.Ask(ctx, settings.Config.Server); err != nil {
				return err
			}
			_, err = fmt.Fprintln(cmd.OutOrStdout(), "ready")
			return err
		},
	}
	cmd.Flags().DurationVar(&timeout, "timeout", timeout, "how long to wait for the answer")
	addSettings(cmd, flags)
	return cmd
}
