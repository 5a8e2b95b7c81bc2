package main

import (
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"text/tabwriter"

	"github.com/spf13/cobra"

	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/std"
	"tgi/server/config"
)

// listedPlugin is one plugin as `tgi plugin list` knows it.
type listedPlugin struct {
	Name string `json:"name"`
	// Kinds are those that the module has exports of, or the one that the settings take of it.
	Kinds  []string `json:"kinds"`
	Source string   `json:"source"`
	// Declared says where the plugin is declared: in the settings, by the folder, or nowhere for one that is
	// built in and not used by name.
	Declared string `json:"declared,omitempty"`
	Bytes    int    `json:"bytes"`
	Error    string `json:"error,omitempty"`
}

// Values of Declared.
const (
	bySettings = "settings"
	byFolder   = "folder"
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
			list, err := listPlugins(cfg)
			if err != nil {
				return err
			}
			if out.json {
				return printIndented(cmd.OutOrStdout(), struct {
					Folder  string         `json:"folder"`
					Plugins []listedPlugin `json:"plugins"`
				}{cfg.Plugins.Folder, list})
			}
			return writePlugins(cmd.OutOrStdout(), list)
		},
	}
	out.flag(cmd)
	addSettings(cmd, flags)
	return cmd
}

// listPlugins returns the plugins that cfg declares, those of the folder, and the built-in ones that no setting names.
func listPlugins(cfg config.Config) (list []listedPlugin, err error) {
	known := func(name, source string) bool {
		return slices.ContainsFunc(list, func(l listedPlugin) bool { return l.Name == name || l.Source == source })
	}
	for _, p := range cfg.Plugin {
		l := inspect(p.Name, p.Source, bySettings)
		if p.Kind != "" {
			l.Kinds = []string{p.Kind}
		}
		list = append(list, l)
	}
	var files []string
	if folder := cfg.Plugins.Folder; folder != "" {
		if files, err = filepath.Glob(filepath.Join(folder, "*.wasm")); err != nil {
			return nil, err
		}
	}
	for _, file := range files {
		name := strings.TrimSuffix(filepath.Base(file), ".wasm")
		if !strings.HasPrefix(name, ".") && !known(name, file) {
			list = append(list, inspect(name, file, byFolder))
		}
	}
	builtin, err := fs.Glob(std.FS(), "*.wasm")
	if err != nil {
		return nil, err
	}
	for _, file := range builtin {
		name := strings.TrimSuffix(file, ".wasm")
		if source := plugins.Builtin + name; !known(name, source) {
			list = append(list, inspect(name, source, ""))
		}
	}
	return list, nil
}

// inspect reads a module.
func inspect(name, source, declared string) listedPlugin {
	l := listedPlugin{Name: name, Source: source, Declared: declared, Kinds: []string{}}
	var wasm []byte
	var err error
	if own, ok := strings.CutPrefix(source, plugins.Builtin); ok {
		wasm, err = fs.ReadFile(std.FS(), own+".wasm")
	} else {
		wasm, err = os.ReadFile(source)
	}
	if err != nil {
		l.Error = err.Error()
		return l
	}
	l.Bytes = len(wasm)
	l.Kinds = append(l.Kinds, check.Kinds(wasm)...)
	return l
}

// writePlugins writes the table. What is wrong with a plugin stands below it.
func writePlugins(w io.Writer, list []listedPlugin) error {
	t := tabwriter.NewWriter(w, 0, 0, 2, ' ', 0)
	fmt.Fprintln(t, "NAME\tKINDS\tSIZE\tDECLARED BY\tSOURCE")
	for _, l := range list {
		declared := l.Declared
		if declared == "" {
			declared = "-"
		}
		fmt.Fprintf(t, "%s\t%s\t%s\t%s\t%s\n", l.Name, orNone(l.Kinds), bytesText(int64(l.Bytes)), declared, l.Source)
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
