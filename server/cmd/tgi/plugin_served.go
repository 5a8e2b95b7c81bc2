package main

import (
	"context"
	"errors"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/server/api/admin"
	"tgi/server/client/operate"
)

// served makes a command that asks a server about one of its plugins. What ask returns is printed, for programs or as
// text.
func served(use, short string, most int, ask func(ctx context.Context, cmd *cobra.Command, at *operate.Server,
	words []string, out output) (any, string, error)) *cobra.Command {
	var url, key string
	var out output
	cmd := &cobra.Command{Use: use, Short: short, Args: cobra.MatchAll(atMost(most), atLeastOne)}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		to, err := operate.New(url, operate.AdminKey(key, os.LookupEnv))
		if err != nil {
			return misused("--url: %v", err)
		}
		v, text, err := ask(ctx, cmd, to, words, out)
		if wrong := operate.Misuse(""); errors.As(err, &wrong) {
			return misused("%s", wrong)
		}
		if err != nil || v == nil {
			return err
		}
		return out.say(cmd.OutOrStdout(), v, "%s", text)
	}
	cmd.Flags().StringVar(&url, "url", "http://127.0.0.1:3000", "the server's `URL`")
	cmd.Flags().StringVar(&key, "key", "", "an admin `key` of the server; by default the variable ADMIN_KEY has it")
	out.flag(cmd)
	return cmd
}

// atLeastOne refuses a command without a plugin.
func atLeastOne(cmd *cobra.Command, words []string) error {
	return takesOne("plugin "+cmd.Name()+" takes the name of one plugin, got %d")(cmd, words[:min(1, len(words))])
}

// newPluginServed are the commands that ask a server.
func newPluginServed() []*cobra.Command {
	to, follow, c := "", false, operate.Canary{Read: check.ReadModule}
	versions := served("versions [flags] NAME", "List the versions that a server keeps of an uploaded plugin", 1,
		func(ctx context.Context, _ *cobra.Command, at *operate.Server, words []string, _ output) (any, string, error) {
			return at.Versions(ctx, words[0])
		})
	rollback := served("rollback [flags] NAME", "Have a server use an earlier version of an uploaded plugin", 1,
		func(ctx context.Context, _ *cobra.Command, at *operate.Server, words []string, _ output) (any, string, error) {
			return at.Rollback(ctx, words[0], to)
		})
	rollback.Flags().StringVar(&to, "to", "", "`sha256` of the version, or its first digits; by default the latest serves")
	canary := served("canary [flags] NAME [FILE]", "Try a new version on a share of the requests; show, promote or end it", 2,
		func(ctx context.Context, _ *cobra.Command, at *operate.Server, words []string, _ output) (any, string, error) {
			return c.Run(ctx, at, words[0], append(words, "")[1])
		})
	canary.Example = `  tgi plugin canary dog dog.wasm --share 5% --shadow --promote-after 1000
  tgi plugin canary dog --promote`
	c.Flags(canary.Flags())
	logs := served("logs [flags] NAME", "Show what a plugin printed lately on a server, and what went wrong with it", 1,
		func(ctx context.Context, cmd *cobra.Command, at *operate.Server, words []string, o output) (any, string,
			error) {
			return nil, "", at.Log(ctx, words[0], 0, follow, func(l admin.LogLine) error {
				if o.json {
					return encode(cmd.OutOrStdout(), l, "")
				}
				return operate.WriteLine(cmd.OutOrStdout(), l)
			})
		})
	logs.Flags().BoolVarP(&follow, "follow", "f", false, "go on with new lines until Ctrl-C")
	return []*cobra.Command{versions, rollback, canary, logs}
}
