package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"os/signal"

	"github.com/spf13/cobra"

	"tgi/plugins/check"
	"tgi/server/client/operate"
	"tgi/server/client/terminal"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/share/install"
)

// asksInstead asks the server that flags name, of one plugin or of all, and says what it said; asked is false where
// they name none.
func asksInstead(ctx context.Context, cmd *cobra.Command, of *operate.Flags, name string, out output) (bool, error) {
	of.Notes = cmd.ErrOrStderr()
	asked, err := of.Ask(ctx, name, givenSetting(cmd), os.LookupEnv, func(v any, text string) error {
		return out.say(cmd.OutOrStdout(), v, "%s", text)
	})
	return asked, misuse(err)
}

// misuse is the error of a command of a server, in the terms of all commands.
func misuse(err error) error {
	if wrong := operate.Misuse(""); errors.As(err, &wrong) {
		return misused("%s", wrong)
	}
	return err
}

// defaultServer is the server that is asked where --url names none.
const defaultServer = "http://127.0.0.1:3000"

// served makes a command that asks servers about one of their plugins.
func served(verb operate.Verb) *cobra.Command {
	urls, key := []string{defaultServer}, ""
	var out output
	cmd := &cobra.Command{Use: verb.Use, Short: verb.Short, Long: verb.Long, Example: verb.Example,
		Args: cobra.MatchAll(atMost(verb.Words), atLeastOne)}
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		ctx, stop := signal.NotifyContext(cmd.Context(), os.Interrupt)
		defer stop()
		to, err := operate.NewFleet(urls, operate.AdminKey(key, os.LookupEnv))
		if err != nil {
			return misused("--url: %v", err)
		}
		return misuse(to.Note(cmd.ErrOrStderr()).Run(ctx, verb, words, func(v any, text string) error {
			if out.json && verb.Lines {
				return encode(cmd.OutOrStdout(), v, "")
			}
			return out.say(cmd.OutOrStdout(), v, "%s", text)
		}))
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
		} else if cmd.Name() == operate.RemoveVerb {
			removesHere(cmd)
		}
		list = append(list, cmd)
	}
	return list
}

// worksHere has a command change the settings here, unless --url or --key are of a server.
func (s *sharing) worksHere(cmd *cobra.Command, want string, here func(ctx context.Context, cfg config.Config,
	words []string, stdout io.Writer) error) {
	onServer := cmd.RunE
	settings := s.runs(cmd.Name(), 1, 1, want, func(ctx context.Context, words []string, stdout io.Writer) error {
		cfg, err := s.editable()
		if err != nil {
			return err
		}
		return here(ctx, cfg, words, stdout)
	})
	cmd.RunE = func(cmd *cobra.Command, words []string) error {
		if !cmd.Flags().Changed("url") && !cmd.Flags().Changed("key") {
			return settings(cmd, words)
		}
		if name := givenSetting(cmd); name != "" {
			return misused("--%s is of the settings here, --url and --key are of a server", name)
		}
		return onServer(cmd, words)
	}
	s.settingsFlags(cmd)
}

// removesHere has a command take an installed plugin out of the settings, or an artefact out of the index.
func removesHere(cmd *cobra.Command) {
	s := &sharing{}
	s.worksHere(cmd, "a plugin's name or a reference", func(ctx context.Context, cfg config.Config, words []string,
		stdout io.Writer) error {
		if cmd.Flag("json").Value.String() == "true" {
			return misused("--json is of a server's reply: --url names one")
		}
		return install.RemoveIn(ctx, cfg, words[0], stdout)
	})
}

// rollsBackHere has a command lock the earlier reference of a plugin that the settings have from a registry. It says
// which of the two it does.
func rollsBackHere(cmd *cobra.Command) {
	s, onServer, kinds := &sharing{}, cmd.RunE, false
	s.worksHere(cmd, "the name of one plugin", func(ctx context.Context, cfg config.Config, words []string,
		stdout io.Writer) error {
		name := terminal.Line(config.Shown(words[0]))
		now, file := install.Locked(cfg, words[0]), install.TargetOf(cfg).File
		if now == nil && (cmd.Flags().Changed("config") || cmd.Flags().Changed(operate.ChangeKinds)) {
			return fmt.Errorf("%s has no [[plugin]] %s from a registry; --url asks a server for an earlier upload", file, name)
		}
		if now == nil {
			fmt.Fprintf(cmd.ErrOrStderr(), "tgi: no [[plugin]] %s of %s is from a registry: the server at %s is asked for an "+
				"earlier upload\n", name, file, defaultServer)
			return onServer(cmd, words)
		}
		fmt.Fprintf(cmd.ErrOrStderr(), "tgi: %s locks %s to %s: what that replaced is locked again; no server is asked "+
			"(--url asks one)\n", file, name, terminal.Line(now.Reference))
		policy, err := policyOf(cfg.PluginSigner)
		if err != nil {
			return err
		}
		to := cmd.Flag(operate.RollbackTo).Value.String()
		got, text, err := install.RollbackIn(ctx, cfg, policy, *now, to, host.TryReplacement(kinds))
		if err != nil {
			return err
		}
		return output{cmd.Flag("json").Value.String() == "true"}.say(stdout, got, "%s", text)
	})
	operate.KindsFlag(cmd.Flags(), &kinds)
}
