package main

import (
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/plugins/project"
)

// folderOr is the folder that the arguments name, the working one by default.
func folderOr(words []string) string {
	if len(words) == 0 {
		return "."
	}
	return words[0]
}

// newPluginTest runs a project's native tests.
func newPluginTest() *cobra.Command {
	return &cobra.Command{
		Use: "test [DIR]", Short: "Run a project's native tests", Args: atMost(1),
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, words []string) error {
			p, err := project.Open(folderOr(words))
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			return p.Test(ctx, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
}

// newPluginBuild builds a project and checks the module.
func newPluginBuild() *cobra.Command {
	c := &checking{}
	cmd := &cobra.Command{
		Use: "build [DIR]", Short: "Build a project with its toolchain and check the module", Args: atMost(1),
		ValidArgsFunction: folders,
		RunE: func(cmd *cobra.Command, words []string) error {
			p, err := project.Open(folderOr(words))
			if err != nil {
				return err
			}
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			file, err := p.Build(ctx, cmd.ErrOrStderr()) // the report alone goes to stdout
			if err != nil {
				return err
			}
			c.project = p.Language
			return c.check(ctx, file, cmd.OutOrStdout(), cmd.ErrOrStderr())
		},
	}
	c.checkFlags(cmd)
	return cmd
}

// folders completes names of folders.
func folders(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return nil, cobra.ShellCompDirectiveFilterDirs
}

// modules completes names of modules.
func modules(*cobra.Command, []string, string) ([]cobra.Completion, cobra.ShellCompDirective) {
	return []cobra.Completion{"wasm"}, cobra.ShellCompDirectiveFilterFileExt
}
