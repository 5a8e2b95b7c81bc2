package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/server/config"
	"tgi/server/host/doctor"
)

// newDoctor looks at all that a server needs, and fetches what a GPU needs if it is asked to.
func newDoctor() *cobra.Command {
	flags := &config.Flags{}
	fetch, out := "", output{}
	cmd := &cobra.Command{
		Use: "doctor [flags]", Short: "Look at all that a server needs, and say what is wrong with its cure",
		Args: takesNothing, Annotations: map[string]string{settingsShown: "config,device,model-id"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fetch != "" && fetch != "cuda" {
				return misused("--fetch must be cuda, given %q", fetch)
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			settings, wrong := loadConfig(flags)
			sound, err := doctor.Run(ctx, doctor.Options{Config: settings.Config, Wrong: wrong, Fetch: fetch != "",
				JSON: out.json, Out: cmd.OutOrStdout(), Log: cmd.ErrOrStderr()})
			if err == nil && !sound {
				return errReported
			}
			return err
		},
	}
	cmd.Flags().StringVar(&fetch, "fetch", "", "fetch first: cuda, ONNX Runtime and CUDA libraries for GPUs, 729 MB")
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}
