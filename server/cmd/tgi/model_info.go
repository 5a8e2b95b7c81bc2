package main

import (
	"cmp"
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"github.com/spf13/cobra"

	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/models/library/progress"
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
			writeDescription(cmd.OutOrStdout(), report)
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
	if st, err := os.Stat(words[0]); err == nil && st.IsDir() {
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

// writeDescription prints what a model is for people.
func writeDescription(w io.Writer, r *catalog.Description) {
	line := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	about := ""
	if r.Estimated {
		about = "about "
	}
	fmt.Fprintf(w, "%s: %s, %d layers of %d, %d heads over %d of %d, %d tokens, %d positions\n",
		r.ID, r.Architecture, r.Layers, r.Hidden, r.Heads, r.KVHeads, r.HeadDim, r.Vocabulary, r.Positions)
	fmt.Fprintf(w, "%s%s parameters, end-of-sequence ids %v, %d chat templates\n",
		about, countText(r.Parameters), r.EOS, len(r.Templates))
	line("folder", "%s", cmp.Or(r.Folder, catalog.PartOfProgram))
	if i := r.Weights; i != nil {
		line("files", "%d, %s together, %s", i.Files, progress.Bytes(i.Bytes),
			strings.Join(append([]string{string(i.Format)}, i.DTypes...), " "))
		var choices []string
		for _, c := range i.Choices {
			choices = append(choices, fmt.Sprintf("%s %s", c.Weights, progress.Bytes(c.Bytes)))
		}
		line("memory", "%s", cmp.Or(strings.Join(choices, ", "), "as the graph holds the weights"))
		line("cache", "%s for each token, %s for the whole context of %d",
			progress.Bytes(i.CachePerToken), progress.Bytes(i.CachePerToken*int64(i.Context)), i.Context)
	}
	if r.Chat != "" {
		line("chat", "%s", r.Chat)
	}
	if len(r.Templates) > 0 {
		line("templates", "%s", strings.Join(r.Templates, ", "))
	}
	if !r.Tokenizer {
		line("tokenizer", "no %s: the model cannot be served without", hf.TokenizerFile)
	}
	if o := r.Origin; o != nil {
		source := o.Source
		if o.Revision != "" {
			source += " at revision " + o.Revision
		}
		line("origin", "%s, %s", source, o.Time.Local().Format(time.DateTime))
		for _, name := range slices.Sorted(maps.Keys(o.SHA256)) {
			line("sha256", "%s  %s", o.SHA256[name], name)
		}
	}
}
