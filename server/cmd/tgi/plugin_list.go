package main

import (
	"github.com/spf13/cobra"

	"tgi/server/client/operate"
	"tgi/server/config"
	"tgi/server/host/catalog"
	"tgi/server/share/index"
	"tgi/server/share/install"
)

// newPluginList lists plugins without loading them.
func newPluginList() *cobra.Command {
	var out output
	var of operate.Flags
	flags := &config.Flags{}
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Args: takesNothing,
		Short: "List the plugins of the settings, of the plugins folder and of the program, and pulled ones; or a server's",
		Example: `  tgi plugin list
  tgi plugin list --url http://127.0.0.1:3000 --key ADMIN`,
		Annotations: map[string]string{settingsShown: "config,plugins-folder"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if asked, err := asksInstead(cmd.Context(), cmd, &of, "", out); asked || err != nil {
				return err
			}
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
	of.AddTo(cmd.Flags(), "list what the server at this `URL` has, instead of what the settings here name")
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}
