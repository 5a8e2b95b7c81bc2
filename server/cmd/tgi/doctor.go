package main

import (
	"github.com/spf13/cobra"

	"tgi/server/config"
	"tgi/server/host/hardware"
)

// newDoctor says what keeps models from a GPU, and fetches what it needs if it is asked to.
func newDoctor() *cobra.Command {
	flags := &config.Flags{}
	var fetch string
	cmd := &cobra.Command{
		Use: "doctor [flags]", Short: "Say what models compute on, what keeps them from a GPU, and the cure",
		Args: takesNothing, Annotations: map[string]string{settingsShown: "config,device"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if fetch != "" && fetch != "cuda" {
				return misused("--fetch must be cuda, given %q", fetch)
			}
			settings, err := loadConfig(flags)
			if err != nil {
				return err
			}
			return hardware.Doctor(cmd.Context(), fetch, settings.Config.Runtime, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	cmd.Flags().StringVar(&fetch, "fetch", "", "fetch first: cuda, ONNX Runtime and CUDA libraries for GPUs, 729 MB")
	addSettings(cmd, flags)
	return cmd
}
