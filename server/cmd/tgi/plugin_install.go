package main

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"slices"

	"github.com/spf13/cobra"

	"tgi/server/client/terminal"
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
	s, name, replace := &sharing{}, "", false
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
		to := install.TargetOf(cfg)
		done, err := install.Install(ctx, to, install.Request{
			Name: got.Name, Reference: got.Reference, Artifact: a, Replace: replace,
			Check: func(ctx context.Context, block config.Plugin) error {
				return host.TryModule(ctx, cfg, block, a.Module)
			},
		})
		if err != nil {
			return err
		}
		got.File = done.File
		replaced := ""
		if done.Replaced != nil {
			got.Replaced = install.Origin(*done.Replaced)
			replaced = "replaced " + got.Replaced + "; the other keys of the block stay\n"
		}
		return s.output.say(stdout, got, "installed %s as %q\n%s%swrote %s and its [[plugin]] in %s\n", got.Reference,
			got.Name, got.Signed(), replaced, got.File, to.File)
	})
	cmd.Flags().StringVar(&name, "name", "", "`name` of the plugin in requests; default: the module's own")
	cmd.Flags().BoolVar(&replace, "replace", false,
		"replace the module of a [[plugin]] of this name that did not come from the same repository")
	s.settingsFlags(cmd)
	s.remoteFlags(cmd)
	s.output.flag(cmd)
	return cmd
}

// newPluginRemove takes an installed plugin out of the settings, or an artefact out of the index.
func newPluginRemove() *cobra.Command {
	s := &sharing{}
	cmd := &cobra.Command{Use: "rm NAME|REFERENCE",
		Short: "Remove an installed plugin with its entry in the settings, or a pulled one from the local index",
		Long: `Remove an installed plugin, or a pulled one from the local index.
Of an installed plugin go its [[plugin]] in the settings' file; of the folder plugins.installed the modules
NAME-DIGITS.wasm of all its versions, what stands beside them (.wasm.artifact.json) and NAME.past.json, the versions
that could come back; and its artefact in the local index. Files that another [[plugin]] names stay, and so does a
source that is not of that folder. The command names each file that it removed.`}
	cmd.RunE = s.runs("rm", 1, 1, "a plugin's name or a reference", func(ctx context.Context, words []string,
		stdout io.Writer) error {
		cfg, err := s.editable()
		if err != nil {
			return err
		}
		x, err := install.IndexOf(cfg)
		if err != nil {
			return err
		}
		i := slices.IndexFunc(cfg.Plugin, func(p config.Plugin) bool { return p.Name == words[0] })
		if i < 0 {
			if err := x.Remove(ctx, words[0]); err != nil {
				return fmt.Errorf("no [[plugin]] has this name, and %w", err)
			}
			_, err := fmt.Fprintf(stdout, "removed %s from the local index\n", terminal.Line(words[0]))
			return err
		}
		files, err := install.Remove(ctx, install.TargetOf(cfg), words[0])
		if err == nil {
			_, err = fmt.Fprintf(stdout, "removed [[plugin]] %s from %s\n", words[0], cfg.File)
		}
		for _, file := range files { // those that are gone also where one could not be removed
			_, sayErr := fmt.Fprintf(stdout, "removed %s\n", file)
			err = errors.Join(err, sayErr)
		}
		if err != nil {
			return err
		}
		if reference := cfg.Plugin[i].Reference; reference != "" {
			err := x.Remove(ctx, reference)
			if errors.Is(err, fs.ErrNotExist) {
				return nil
			}
			if err == nil {
				_, err = fmt.Fprintf(stdout, "removed %s from the local index\n", terminal.Line(reference))
			}
			return err
		}
		return nil
	})
	s.settingsFlags(cmd)
	return cmd
}

// newPluginShow describes a plugin that list shows, a file, or an artefact of a registry.
func newPluginShow() *cobra.Command {
	s, of := &sharing{}, adminFlags{}
	cmd := &cobra.Command{Use: "show NAME|FILE.wasm|REFERENCE", ValidArgsFunction: modules,
		Short: "Describe a plugin that list shows, a file, or an artefact of a registry; or a plugin of a server",
		Example: `  tgi plugin show dry
  tgi plugin show dry --url http://127.0.0.1:3000 --key ADMIN`}
	cmd.RunE = s.runs("show", 1, 1, "a plugin's name, a .wasm file or a reference", func(ctx context.Context,
		words []string, stdout io.Writer) error {
		if of.url != "" {
			at, err := of.server(cmd)
			if err != nil {
				return err
			}
			p, text, err := at.Show(ctx, words[0])
			if err != nil {
				return err
			}
			return s.output.say(stdout, p, "%s", text)
		}
		cfg, err := of.readHere(&s.flags)
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
	of.add(cmd, "describe a plugin of the server at this `URL`")
	s.settingsFlags(cmd)
	s.remoteFlags(cmd)
	s.output.flag(cmd)
	return cmd
}
