package main

import (
	"cmp"
	"context"
	"errors"
	"io"
	"io/fs"
	"os"

	"github.com/spf13/cobra"

	"tgi/server/client/operate"
	"tgi/server/config"
	"tgi/server/host"
	"tgi/server/host/catalog"
	"tgi/server/share"
	"tgi/server/share/install"
)

// editable reads the settings of a command that changes their file.
func (s *sharing) editable() (config.Config, error) {
	file := config.FileOf(&s.flags, os.LookupEnv)
	if file == config.Stdin {
		return config.Config{}, misused("--config %s: the command changes the file of the settings: name one", file)
	}
	if err := install.CheckFile(file); err != nil { // before it is opened, which waits for the writer of a pipe
		return config.Config{}, err
	}
	return readSettings(&s.flags)
}

// newPluginInstall pulls a plugin and locks it in the settings.
func newPluginInstall() *cobra.Command {
	s, name, replace, kinds := &sharing{}, "", false, false
	cmd := &cobra.Command{Use: "install REGISTRY/NAME:TAG [--name NAME]",
		Short: "Fetch a plugin and lock it by digest in the settings' file; a running server takes it"}
	cmd.RunE = s.runs("install", 1, 1, "one reference", func(ctx context.Context, words []string,
		stdout io.Writer) error {
		cfg, err := s.editable()
		if err != nil {
			return err
		}
		a, got, err := s.fetch(ctx, cfg, words[0], install.FetchOnce)
		if err != nil {
			return err
		}
		got.Name = cmp.Or(name, got.Name)
		got, text, err := install.InstallIn(ctx, cfg, a, got, replace, host.TryReplacement(kinds))
		if err != nil {
			return err
		}
		return s.output.say(stdout, got, "%s", text)
	})
	cmd.Flags().StringVar(&name, "name", "", "`name` of the plugin in requests; default: the module's own")
	cmd.Flags().BoolVar(&replace, "replace", false,
		"replace the module of a [[plugin]] of this name that did not come from the same repository")
	operate.KindsFlag(cmd.Flags(), &kinds)
	s.settingsFlags(cmd)
	s.remoteFlags(cmd)
	s.output.flag(cmd)
	return cmd
}

// newPluginShow describes a plugin that list shows, a file, or an artefact of a registry.
func newPluginShow() *cobra.Command {
	s, of := &sharing{}, operate.Flags{}
	cmd := &cobra.Command{Use: "show NAME|FILE.wasm|REFERENCE", ValidArgsFunction: modules,
		Short: "Describe a plugin that list shows, a file, or an artefact of a registry; or a plugin of a server",
		Example: `  tgi plugin show dry
  tgi plugin show dry --url http://127.0.0.1:3000 --key ADMIN`}
	cmd.RunE = s.runs("show", 1, 1, "a plugin's name, a .wasm file or a reference", func(ctx context.Context,
		words []string, stdout io.Writer) error {
		if asked, err := asksInstead(ctx, cmd, &of, words[0], s.output); asked || err != nil {
			return err
		}
		cfg, err := readSettings(&s.flags)
		if err != nil {
			return err
		}
		policy, err := policyOf(cfg.PluginSigner)
		if err != nil {
			return err
		}
		shown, err := catalog.Show(ctx, cfg, policy, words[0])
		if errors.Is(err, fs.ErrNotExist) && isReference(words[0]) {
			r, at, openErr := s.open(words[0], int64(cfg.Plugins.UploadLimit))
			if openErr != nil {
				return openErr
			}
			var a share.Artifact
			if a, err = r.Pull(ctx, at); err == nil {
				shown, err = share.Describe(a, policy, at.String())
			}
		}
		if err != nil {
			return err
		}
		if s.output.json {
			return printIndented(stdout, shown)
		}
		return shown.WriteText(stdout)
	})
	of.AddTo(cmd.Flags(), "describe a plugin of the server at this `URL`")
	s.settingsFlags(cmd)
	s.remoteFlags(cmd)
	s.output.flag(cmd)
	return cmd
}
