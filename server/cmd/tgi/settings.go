package main

import (
	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/server/config"
)

// settingChoices are the values of settings that shells complete.
var settingChoices = map[string][]string{
	"weights":   {"auto", "fp32", "bf16", "fp16", "int8", "int4"},
	"dialect":   {"tgi-3", "tgi-2.2", "tgi-0.6"},
	"log-level": {"debug", "info", "warn", "error"},
}

// addSettings gives a command the flags of the settings. Help lists those that are shown, all without any.
func addSettings(cmd *cobra.Command, flags *config.Flags) {
	flags.AddTo(cmd.Flags())
	for name, values := range settingChoices {
		complete(cmd, name, values...)
	}
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		if f.Name == "models-folder" || f.Name == "plugins-folder" || f.Name == "model-id" {
			must(cmd.MarkFlagDirname(f.Name))
		}
	})
	must(cmd.MarkFlagFilename("config", "toml"))
}

// complete names the values of a flag to shells.
func complete(cmd *cobra.Command, flag string, values ...string) {
	must(cmd.RegisterFlagCompletionFunc(flag, cobra.FixedCompletions(values, cobra.ShellCompDirectiveNoFileComp)))
}

// must is for errors that only a mistake in this package makes.
func must(err error) {
	if err != nil {
		panic("BUG: " + err.Error())
	}
}
