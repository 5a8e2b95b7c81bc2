package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/host/catalog"
	"tgi/server/share/index"
	"tgi/server/share/install"
)

// newPluginList lists plugins without loading them.
func newPluginList() *cobra.Command {
	var out output
	var of adminFlags
	flags := &config.Flags{}
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Args: takesNothing,
		Short: "List the plugins of the settings, of the plugins folder and of the program, and pulled ones; or a server's",
		Example: `  tgi plugin list
  tgi plugin list --url http://127.0.0.1:3000 --key ADMIN`,
		Annotations: map[string]string{settingsShown: "config,plugins-folder"},
		RunE: func(cmd *cobra.Command, _ []string) error {
			if of.url != "" {
				return listServed(cmd, &of, out)
			}
			cfg, err := of.readHere(flags)
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
	of.add(cmd, "list what the server at this `URL` has, instead of what the settings here name")
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}

// listServed lists the plugins of a server.
func listServed(cmd *cobra.Command, of *adminFlags, out output) error {
	at, err := of.server(cmd)
	if err != nil {
		return err
	}
	ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
	defer stop()
	list, text, err := at.List(ctx)
	if err != nil {
		return err
	}
	return out.say(cmd.OutOrStdout(), map[string][]server.Plugin{"plugins": list}, "%s", text)
}
