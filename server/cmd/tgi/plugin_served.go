package main

import (
	"context"
	"errors"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/server/client/operate"
	"tgi/server/host"
	"tgi/server/share/install"
)

// served makes a command that asks servers about one of their plugins.
func served(verb operate.Verb) *cobra.Command {
	urls, key := []string{"http://127.0.0.1:3000"}, ""
	var out output
	cmd := &cobra.Command{Use: verb.Use, Short: verb.Short, Example: verb.Example,
		Args: cobra.MatchAll(atMost(verb.Words), atLeastOne)}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		to, err := operate.NewFleet(urls, operate.AdminKey(key, os.LookupEnv))
		if err != nil {
			return misused("--url: %v", err)
		}
		err = to.Run(ctx, verb, words, func(v any, text string) error {
			if out.json && verb.Lines {
				return encode(cmd.OutOrStdout(), v, "")
			}
			return out.say(cmd.OutOrStdout(), v, "%s", text)
		})
		if wrong := operate.Misuse(""); errors.As(err, &wrong) {
			return misused("%s", wrong)
		}
		return err
	}
	cmd.Flags().StringArrayVar(&urls, "url", urls, "the server's `URL`; again for each of several servers")
	cmd.Flags().StringVar(&key, "key", "", "an admin `key` of the servers; by default the variable ADMIN_KEY has it")
	if verb.Flags != nil {
		verb.Flags(cmd.Flags())
	}
	out.flag(cmd)
	return cmd
}

// atLeastOne refuses a command without a plugin.
func atLeastOne(cmd *cobra.Command, words []string) error {
	return takesOne("plugin "+cmd.Name()+" takes the name of one plugin, got %d")(cmd, words[:min(1, len(words))])
}

// newPluginServed are the commands that ask a server.
func newPluginServed() (list []*cobra.Command) {
	for _, verb := range operate.Verbs(check.ReadModule) {
		cmd := served(verb)
		if cmd.Name() == operate.RollbackVerb {
			rollsBackHere(cmd)
		}
		list = append(list, cmd)
	}
	return list
}

// rollsBackHere has a command lock the earlier reference of a plugin that the settings have from a registry, unless
// --url names a server.
func rollsBackHere(cmd *cobra.Command) {
	s, onServer := &sharing{}, cmd.RunE
	here := s.runs("rollback", 1, 1, "the name of one plugin", func(ctx context.Context, words []string,
		stdout io.Writer) error {
		cfg, err := s.editable()
		if err != nil {
			return err
		}
		now := install.Locked(cfg, words[0])
		if now == nil {
			return onServer(cmd, words)
		}
		to := cmd.Flag(operate.RollbackTo).Value.String()
		got, text, err := install.RollbackIn(ctx, cfg, *now, to, host.TryModule)
		if err != nil {
			return err
		}
		return output{cmd.Flag("json").Value.String() == "true"}.say(stdout, got, "%s", text)
	})
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if cmd.Flags().Changed("url") {
			return onServer(cmd, words)
		}
		return here(cmd, words)
	}
	s.settingsFlags(cmd)
}
