package main

import (
	"errors"
	"fmt"
	"os"

	"github.com/spf13/cobra"

	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/server/config"
	"tgi/server/host/catalog"
)

// newModelInfo describes a model of the folder or one that lies elsewhere.
func newModelInfo() *cobra.Command {
	var out output
	var flags *config.Flags
	cmd := &cobra.Command{
		Use: "info [ID|DIR]", Short: "Describe a model",
		Long: "Describe a model of the folder, or one in another folder. Without either: the embedded demo model.",
		Args: func(_ *cobra.Command, words []string) error {
			if len(words) > 1 {
				return misused("model info takes one id or folder, got %d", len(words))
			}
			return nil
		},
		RunE: func(cmd *cobra.Command, words []string) error {
			cfg, d, err := modelAsked(flags, words)
			if err != nil {
				return err
			}
			report, err := catalog.Describe(cfg, d)
			if report == nil {
				return err
			}
			if out.json {
				return errors.Join(printIndented(cmd.OutOrStdout(), report), err)
			}
			report.WriteText(cmd.OutOrStdout())
			return err
		},
	}
	out.flag(cmd)
	flags = withSettings(cmd)
	cmd.ValidArgsFunction = installedModels(flags)
	return cmd
}

// modelAsked returns the model that the words of a command line mean, with the settings that it has. Only a
// model of the models folder needs settings: another folder is described whatever they are.
func modelAsked(flags *config.Flags, words []string) (config.Config, library.Declared, error) {
	cfg := config.Default()
	if len(words) == 0 {
		return cfg, library.Declared{ID: config.DemoModel, FS: demo.Checkpoint()}, nil
	}
	if st, err := os.Stat(words[0]); err == nil && (st.IsDir() || hf.IsGGUF(words[0])) {
		cfg.Model.Path = words[0]
		return cfg, library.Declared{ID: library.ID(cfg.All()[0].Name), Dir: words[0]}, nil
	}
	cfg, err := readSettings(flags)
	if err != nil {
		return cfg, library.Declared{}, err
	}
	id, err := library.ParseID(words[0])
	if err != nil {
		return cfg, library.Declared{}, fmt.Errorf("%s is no folder, and %w", words[0], err)
	}
	return catalog.Find(cfg, id)
}
