package main

import (
	"cmp"
	"context"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/server/api/admin"
	"tgi/server/client/operate"
)

// served is a command that asks a server about one of its plugins.
type served struct {
	url, key string
	out      output
}

// command returns a command of that kind.
func (s *served) command(name, short string, run func(context.Context, *operate.Server, string, io.Writer) error,
) *cobra.Command {
	cmd := &cobra.Command{
		Use: name + " [flags] NAME", Short: short,
		Args: takesOne("plugin " + name + " takes the name of one plugin, got %d"),
		RunE: func(cmd *cobra.Command, words []string) error {
			ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
			defer stop()
			to, err := operate.New(s.url, cmp.Or(s.key, os.Getenv("ADMIN_KEY")))
			if err != nil {
				return misused("--url: %v", err)
			}
			return run(ctx, to, words[0], cmd.OutOrStdout())
		},
	}
	cmd.Flags().StringVar(&s.url, "url", "http://127.0.0.1:3000", "the server's `URL`")
	cmd.Flags().StringVar(&s.key, "key", "", "an admin `key` of the server; by default the variable ADMIN_KEY has it")
	s.out.flag(cmd)
	return cmd
}

// newPluginVersions lists the versions that a server keeps.
func newPluginVersions() *cobra.Command {
	s := &served{}
	return s.command("versions", "List the versions that a server keeps of an uploaded plugin",
		func(ctx context.Context, at *operate.Server, name string, w io.Writer) error {
			list, err := at.Versions(ctx, name)
			if err != nil {
				return err
			}
			if s.out.json {
				return printIndented(w, list)
			}
			return operate.WriteVersions(w, list)
		})
}

// newPluginRollback has an earlier version serve.
func newPluginRollback() *cobra.Command {
	s, to := &served{}, ""
	cmd := s.command("rollback", "Have a server use an earlier version of an uploaded plugin",
		func(ctx context.Context, at *operate.Server, name string, w io.Writer) error {
			got, err := at.Rollback(ctx, name, to)
			if err != nil {
				return err
			}
			return s.out.say(w, got, "%s: version %q, sha256 %s, serves\n", name, got.Version, got.SHA256)
		})
	cmd.Flags().StringVar(&to, "to", "", "`sha256` of the version, or its first digits; by default the latest serves")
	return cmd
}

// newPluginLogs shows what a plugin printed.
func newPluginLogs() *cobra.Command {
	s, follow := &served{}, false
	cmd := s.command("logs", "Show what a plugin printed lately on a server, and what went wrong with it",
		func(ctx context.Context, at *operate.Server, name string, w io.Writer) error {
			return at.Log(ctx, name, follow, func(l admin.LogLine) error {
				if s.out.json {
					return encode(w, l, "")
				}
				return operate.WriteLine(w, l)
			})
		})
	cmd.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines until Ctrl-C")
	return cmd
}
