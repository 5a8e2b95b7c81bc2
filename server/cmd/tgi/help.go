package main

import (
	"cmp"
	"fmt"
	"io"
	"slices"
	"strings"

	"github.com/spf13/cobra"
	"github.com/spf13/pflag"

	"tgi/server/config"
)

const (
	// settingsShown annotates a command that takes the flags of the settings, with those that its
	// help lists, separated by commas; all without any.
	settingsShown = "settings"
	// exitNote annotates a command with what to add to the line of exit codes.
	exitNote = "exit"
	// helpWidth is the number of columns that help takes.
	helpWidth = 110
)

// newHelp is `tgi help VERB`.
func newHelp() *cobra.Command {
	return &cobra.Command{
		Use: "help [COMMAND]", Short: "Show the help of a command",
		ValidArgsFunction: func(cmd *cobra.Command, args []string, _ string) (names []cobra.Completion,
			_ cobra.ShellCompDirective) {
			if of, _, err := cmd.Root().Find(args); err == nil {
				for _, sub := range of.Commands() {
					names = append(names, cobra.CompletionWithDesc(sub.Name(), sub.Short))
				}
			}
			return names, cobra.ShellCompDirectiveNoFileComp
		},
		RunE: func(cmd *cobra.Command, args []string) error {
			of := cmd.Root()
			for _, name := range args {
				at := slices.IndexFunc(of.Commands(), func(sub *cobra.Command) bool {
					return sub.Name() == name || sub.HasAlias(name)
				})
				if at < 0 {
					return unknownVerb(of, name)
				}
				of = of.Commands()[at]
			}
			writeHelp(cmd.OutOrStdout(), of)
			return nil
		},
	}
}

// describeCompletion replaces cobra's texts, and its shell that nobody asked for.
func describeCompletion(root *cobra.Command) {
	cmd, _, err := root.Find([]string{"completion"})
	if err != nil {
		panic("BUG: there is no command completion: " + err.Error())
	}
	cmd.Use, cmd.Short = "completion SHELL", "Print a script that completes commands in bash, zsh or fish"
	cmd.Long = "Print a script that completes tgi's commands, flags and values in a shell."
	cmd.Example = `  source <(tgi completion bash)                             # this session
  tgi completion bash > /etc/bash_completion.d/tgi          # every session
  tgi completion zsh > "${fpath[1]}/_tgi"
  tgi completion fish > ~/.config/fish/completions/tgi.fish`
	for _, shell := range cmd.Commands() {
		shell.Short = "Print the script for " + shell.Name()
		shell.Long = ""
		if shell.Name() == "powershell" {
			cmd.RemoveCommand(shell)
		}
	}
}

// writeHelp writes the help of a command, which is the same however it was asked for.
func writeHelp(w io.Writer, cmd *cobra.Command) {
	cmd.InitDefaultHelpFlag()
	cmd.Flags().Lookup("help").Usage = "show this help"
	cmd.InitDefaultVersionFlag()
	if f := cmd.Flags().Lookup("version"); f != nil {
		f.Usage = "print the version"
	}
	fmt.Fprintln(w, cmp.Or(cmd.Long, cmd.Short+"."))
	fmt.Fprintf(w, "\nUsage:\n  %s\n", usageLine(cmd))
	if len(cmd.Aliases) > 0 {
		fmt.Fprintf(w, "\nAliases:\n  %s\n", strings.Join(cmd.Aliases, ", "))
	}
	if cmd.Example != "" {
		fmt.Fprintf(w, "\nExamples:\n%s\n", cmd.Example)
	}
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintln(w, "\nCommands:")
		for _, sub := range cmd.Commands() {
			if sub.IsAvailableCommand() || sub.Name() == "help" {
				fmt.Fprintf(w, "  %-12s %s\n", sub.Name(), sub.Short)
			}
		}
	}
	own, settings, ignored := flagsOf(cmd)
	fmt.Fprintf(w, "\nFlags:\n%s", own.FlagUsagesWrapped(helpWidth))
	writeSettingsHelp(w, cmd, settings, ignored)
	fmt.Fprintf(w, "\nExit codes: %s\n", exitCodes+cmd.Annotations[exitNote])
	if cmd.HasAvailableSubCommands() {
		fmt.Fprintf(w, "\n`%s COMMAND --help` shows a command's flags.\n", cmd.CommandPath())
	}
}

func usageLine(cmd *cobra.Command) string {
	if cmd.HasAvailableSubCommands() {
		return cmd.CommandPath() + " COMMAND"
	}
	line := cmd.UseLine()
	if !strings.Contains(line, "[flags]") {
		line += " [flags]"
	}
	return line
}

// flagsOf sorts the flags of a command: its own, settings, and those of TGI's launcher without effect.
func flagsOf(cmd *cobra.Command) (own, settings, ignored *pflag.FlagSet) {
	set := func() *pflag.FlagSet {
		s := pflag.NewFlagSet("", pflag.ContinueOnError)
		s.SortFlags = false
		return s
	}
	own, settings, ignored = set(), set(), set()
	only := strings.FieldsFunc(cmd.Annotations[settingsShown], func(r rune) bool { return r == ',' })
	cmd.Flags().SortFlags = false
	cmd.Flags().VisitAll(func(f *pflag.Flag) {
		variables := f.Annotations[config.FlagVariables]
		switch {
		case f.Annotations[config.FlagNoEffect] != nil:
			ignored.AddFlag(f)
		case variables == nil:
			shown := *f
			if f.Value.Type() == "bool" {
				shown.Value = switchValue{f.Value}
			}
			own.AddFlag(&shown)
		case len(only) == 0 || slices.Contains(only, f.Name):
			shown := *f
			shown.Usage += " [$" + strings.Join(variables, ", $")
			for _, key := range f.Annotations[config.FlagKey] {
				shown.Usage += "; " + key
			}
			shown.Usage += "]"
			settings.AddFlag(&shown)
		}
	})
	return own, settings, ignored
}

// switchValue is a bool that help shows without "[=true|false]".
type switchValue struct{ pflag.Value }

// writeSettingsHelp lists the flags that set what tgi.toml can set too.
func writeSettingsHelp(w io.Writer, cmd *cobra.Command, settings, ignored *pflag.FlagSet) {
	if !settings.HasFlags() {
		return
	}
	fmt.Fprintf(w, "\nSettings, each with its environment variable and its key in tgi.toml:\n%s",
		settings.FlagUsagesWrapped(helpWidth))
	if cmd.Annotations[settingsShown] != "" || cmd.Name() != "serve" {
		fmt.Fprintln(w, "\nIt takes all flags that `tgi serve --help` lists.")
		return
	}
	fmt.Fprintln(w, "\nFlags of TGI's launcher that are accepted and have no effect:")
	ignored.VisitAll(func(f *pflag.Flag) { fmt.Fprintf(w, "      --%-25s %s\n", f.Name, f.Usage) })
}
