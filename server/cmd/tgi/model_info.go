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
	"tgi/server/config"
	"tgi/server/host"
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
			report, err := describeModel(cfg, d)
			if report == nil {
				return err
			}
			if out.json {
				return errors.Join(printIndented(cmd.OutOrStdout(), report), err)
			}
			report.write(cmd.OutOrStdout())
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
	var d library.Declared
	cfg, err := readSettings(flags)
	if err != nil {
		return cfg, d, err
	}
	id, err := library.ParseID(words[0])
	if err != nil {
		return cfg, d, fmt.Errorf("%s is no folder, and %w", words[0], err)
	}
	lib, err := host.OpenLibrary(cfg)
	if err != nil {
		return cfg, d, err
	}
	m, err := lib.Find(id)
	if n := lib.Partial(id); err != nil && n > 0 {
		return cfg, d, fmt.Errorf("model %s: %w: %s of it are here, the pull that was broken off goes on from there",
			id, library.ErrNotFound, bytesText(n))
	}
	if err != nil {
		return cfg, d, err
	}
	d = library.Declared{ID: id, Dir: m.Dir}
	if m.Dir == "" {
		d.FS = m.FS
	}
	return host.SettingsFor(cfg, id), d, nil
}

// modelReport is what `tgi model info` prints.
type modelReport struct {
	ID           library.ID `json:"id"`
	Folder       string     `json:"folder,omitempty"` // none for a model that is part of the program
	Architecture string     `json:"architecture"`
	Layers       int        `json:"layers"`
	Hidden       int        `json:"hidden_size"`
	Heads        int        `json:"heads"`
	KVHeads      int        `json:"kv_heads"`
	HeadDim      int        `json:"head_dim"`
	Vocabulary   int        `json:"vocabulary"`
	Positions    int        `json:"positions"`
	// Parameters are counted where the weights can be read, and else estimated.
	Parameters int64           `json:"parameters"`
	Estimated  bool            `json:"parameters_estimated,omitempty"`
	EOS        []uint32        `json:"eos_token_ids"`
	Weights    *weightInfo     `json:"weights,omitempty"` // nil where they cannot be served
	Chat       string          `json:"chat,omitempty"`
	Templates  []string        `json:"chat_templates"`
	Tokenizer  bool            `json:"tokenizer"`
	Origin     *library.Origin `json:"origin,omitempty"`
}

// weightInfo is about the files of weights, and the memory that they take.
type weightInfo struct {
	Files         int              `json:"files"`
	Bytes         int64            `json:"bytes"`
	Format        library.Format   `json:"format"`
	DTypes        []string         `json:"dtypes"`
	Memory        map[string]int64 `json:"memory_bytes"` // by --weights; empty where the graph decides
	CachePerToken int64            `json:"cache_bytes_per_token"`
	Context       int              `json:"context"`

	choices []string // the memory for people, in order
}

// describeModel returns what a model is, and what conversations with it go through by cfg. A report beside an
// error says what the JSON files hold of a model whose weights cannot be served.
func describeModel(cfg config.Config, d library.Declared) (*modelReport, error) {
	lib, err := library.Open(library.Options{Dir: ".", Declared: []library.Declared{d}}) // no other model is asked for
	if err != nil {
		return nil, err
	}
	m, err := lib.Find(d.ID)
	if err != nil {
		return nil, err
	}
	c, err := hf.DescribeFS(m.FS, cmp.Or(m.Dir, partOfProgram))
	if err != nil {
		return nil, err
	}
	info, unusable := lib.Describe(d.ID)
	a := c.Config
	r := &modelReport{
		ID: d.ID, Folder: m.Dir, Architecture: a.Architecture, Layers: a.Layers, Hidden: a.Hidden, Heads: a.Heads,
		KVHeads: a.KVHeads, HeadDim: a.HeadDim, Vocabulary: a.Vocab, Positions: a.MaxPositions, Parameters: info.Parameters, EOS: c.EOS(),
		Templates: slices.Sorted(maps.Keys(c.Tokenizer.ChatTemplates)), Tokenizer: c.TokenizerJSON != nil,
	}
	if r.Parameters == 0 {
		r.Parameters, r.Estimated = int64(host.EstimateParams(c.Config)), true
	}
	if unusable == nil {
		r.Weights = weightsOf(info)
		r.Origin = info.Origin
	}
	chat, chatErr := host.DescribeChat(cfg, string(d.ID), d.Dir, c.Tokenizer)
	if chatErr == nil {
		r.Chat = chat
	}
	return r, errors.Join(unusable, chatErr)
}

func weightsOf(info library.Info) *weightInfo {
	w := &weightInfo{
		Files: info.Files, Bytes: info.Bytes, Format: info.Format, DTypes: info.DTypes, Memory: map[string]int64{},
		CachePerToken: info.CacheBytes, Context: info.Context,
	}
	for _, c := range info.Choices {
		w.Memory[string(c.Weights)] = c.Bytes
		w.choices = append(w.choices, fmt.Sprintf("%s %s", c.Weights, bytesText(c.Bytes)))
	}
	return w
}

// partOfProgram stands where a model has no folder.
const partOfProgram = "part of the program"

// write prints the report for people.
func (r *modelReport) write(w io.Writer) {
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
	line("folder", "%s", cmp.Or(r.Folder, partOfProgram))
	if i := r.Weights; i != nil {
		line("files", "%d, %s together, %s", i.Files, bytesText(i.Bytes),
			strings.Join(append([]string{string(i.Format)}, i.DTypes...), " "))
		line("memory", "%s", cmp.Or(strings.Join(i.choices, ", "), "as the graph holds the weights"))
		line("cache", "%s for each token, %s for the whole context of %d",
			bytesText(i.CachePerToken), bytesText(i.CachePerToken*int64(i.Context)), i.Context)
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
