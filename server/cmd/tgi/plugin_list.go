package main

import (
	"github.com/spf13/cobra"

	"tgi/server/config"
	"tgi/server/host/catalog"
	"tgi/server/share/index"
	"tgi/server/share/install"
)

// newPluginList lists plugins without loading them.
func newPluginList() *cobra.Command {
	var out output
	flags := &config.Flags{}
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Args: takesNothing,
		Short:       "List the plugins of the settings, of the plugins folder and of the program, and pulled ones",
		Annotations: map[string]string{settingsShown: "config,plugins-folder"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			cfg, err := readSettings(flags)
			if err != nil {
				return err
			}
			list, err := catalog.Plugins(cfg)
			if err != nil {
				return err
			}
			var pulled []index.Entry
			if x, err := install.IndexOf(cfg); err == nil { // without a home nothing was pulled
				if pulled, err = x.List(); err != nil {
					return err
				}
			}
			if out.json {
				return printIndented(cmd.OutOrStdout(), struct {
					Folder  string           `json:"folder"`
					Plugins []catalog.Plugin `json:"plugins"`
					Pulled  []index.Entry    `json:"pulled,omitempty"`
				}{cfg.Plugins.Folder, list, pulled})
			}
			return catalog.WritePlugins(cmd.OutOrStdout(), list, pulled)
		},
	}
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}
