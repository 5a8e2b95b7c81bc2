package main

import (
	"io"

	"github.com/spf13/cobra"

	"tgi/server/config"
	"tgi/server/host/catalog"
)

// newModelList shows the models folder and what the settings declare.
func newModelList() *cobra.Command {
	var out output
	var flags *config.Flags
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Short: "List the models of the folder and of the settings",
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) > 0 {
				return misused("model list takes no %q; `tgi model info %s` describes one model", words[0], words[0])
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := readSettings(flags)
			if err != nil {
				return err
			}
			return modelList(cfg, cmd.OutOrStdout(), out)
		},
	}
	out.flag(cmd)
	flags = withSettings(cmd)
	return cmd
}

func modelList(cfg config.Config, stdout io.Writer, out output) error {
	folder, list, err := catalog.Models(cfg)
	if err != nil {
		return err
	}
	if !out.json {
		return catalog.WriteModels(stdout, folder, list)
	}
	return printIndented(stdout, struct {
		Folder string          `json:"folder"`
		Models []catalog.Model `json:"models"`
	}{folder, list})
}
