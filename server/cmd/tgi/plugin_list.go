package main

import (
	"fmt"
	"io"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tgi/models/library/progress"
	"tgi/server/config"
	"tgi/server/host/catalog"
)

// newPluginList lists plugins without loading them.
func newPluginList() *cobra.Command {
	var out output
	flags := &config.Flags{}
	cmd := &cobra.Command{
		Use: "list [flags]", Aliases: []string{"ls"}, Args: takesNothing,
		Short:       "List the plugins of the settings, of the plugins folder and of the program",
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
			if out.json {
				return printIndented(cmd.OutOrStdout(), struct {
					Folder  string           `json:"folder"`
					Plugins []catalog.Plugin `json:"plugins"`
				}{cfg.Plugins.Folder, list})
			}
			return writePlugins(cmd.OutOrStdout(), list)
		},
	}
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}

// writePlugins writes the table. What is wrong with a plugin stands below it.
func writePlugins(w io.Writer, list []catalog.Plugin) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tKINDS\tSIZE\tDECLARED BY\tSOURCE")
	for _, l := range list {
		declared := l.Declared
		if declared == "" {
			declared = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, orNone(l.Kinds), progress.Bytes(int64(l.Bytes)), declared, l.Source)
	}
	if err := t.Flush(); err != nil {
		return err
	}
	for _, l := range list {
		if l.Error != "" {
			fmt.Fprintf(w, "plugin %s: %s\n", l.Name, l.Error)
		}
	}
	return nil
}
