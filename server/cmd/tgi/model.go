package main

import (
	"fmt"
	"os"
	"strings"

	"github.com/spf13/cobra"

	"tgi/models/synth"
	"tgi/server/config"
	"tgi/server/host"
)

// newModel works on checkpoints without serving them.
func newModel() *cobra.Command {
	cmd := verbGroup("model", "List, fetch, describe, convert and remove models, or write a random one",
		newModelList(), newModelPull(), newModelInfo(), newModelRemove(), newModelConvert(), newModelSynth())
	cmd.Long = "Look after the models folder. This is safe while a server runs on the same folder."
	return cmd
}

// modelSettings are the settings that matter to the models folder.
const modelSettings = "config,models-folder,hub-url,hub-token,models-allow-hosts"

// withSettings gives a command of `tgi model` the flags of the settings.
func withSettings(cmd *cobra.Command) *config.Flags {
	flags := &config.Flags{}
	addSettings(cmd, flags)
	if cmd.Annotations == nil {
		cmd.Annotations = map[string]string{}
	}
	cmd.Annotations[settingsShown] = modelSettings
	return flags
}

// readSettings reads the settings of a command of `tgi model`.
func readSettings(flags *config.Flags) (config.Config, error) {
	l, err := config.Read(flags, os.LookupEnv)
	if err != nil {
		return l.Config, config.Wrong(err)
	}
	return l.Config, nil
}

// installedModels completes the ids of the models folder.
func installedModels(flags *config.Flags) cobra.CompletionFunc {
	return func(_ *cobra.Command, args []string, _ string) (ids []cobra.Completion, _ cobra.ShellCompDirective) {
		cfg, err := readSettings(flags)
		if err != nil || len(args) > 0 {
			return nil, cobra.ShellCompDirectiveDefault
		}
		lib, err := host.OpenLibrary(cfg)
		if err != nil {
			return nil, cobra.ShellCompDirectiveDefault
		}
		list, _ := lib.List() // what cannot be listed is not completed
		for _, m := range list {
			ids = append(ids, string(m.ID))
		}
		return ids, cobra.ShellCompDirectiveDefault
	}
}

// newModelSynth writes a checkpoint for measurements.
func newModelSynth() *cobra.Command {
	var shape, out string
	var seed uint64
	var layers int
	shapes := strings.Join(synth.Shapes(), ", ")
	cmd := &cobra.Command{
		Use: "synth --shape SHAPE --out DIR", Short: "Write a checkpoint of a public model's shape with random weights",
		Args: takesNothing,
		RunE: func(cmd *cobra.Command, _ []string) error {
			if shape == "" || out == "" {
				return misused("model synth needs --shape (%s) and --out", shapes)
			}
			if err := synth.WriteLayers(out, shape, seed, layers); err != nil {
				return err
			}
			_, err := fmt.Fprintf(cmd.OutOrStdout(), "wrote a random checkpoint of the shape of %s to %s\n", shape, out)
			return err
		},
	}
	cmd.Flags().StringVar(&shape, "shape", "", "`shape`: "+shapes)
	cmd.Flags().StringVar(&out, "out", "", "`folder` to write, empty or absent")
	cmd.Flags().IntVar(&layers, "layers", 0, "`number` of layers, if not that of the shape")
	cmd.Flags().Uint64Var(&seed, "seed", 1, "seed of the random weights")
	complete(cmd, "shape", synth.Shapes()...)
	must(cmd.MarkFlagDirname("out"))
	return cmd
}
