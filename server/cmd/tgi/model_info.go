package main

import (
	"errors"
	"fmt"
	"io"
	"maps"
	"os"
	"slices"
	"strings"
	"time"

	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/server/config"
)

// modelInfo describes a model of the folder or one that lies elsewhere. Only the
// former needs settings: a folder is described whatever they are.
func modelInfo(args []string, stdout io.Writer) error {
	if len(args) == 0 {
		return describeModel(stdout, config.Default(), library.Declared{ID: config.DemoModel, FS: demo.Checkpoint()})
	}
	if st, err := os.Stat(args[0]); len(args) == 1 && err == nil && st.IsDir() {
		cfg := config.Default()
		cfg.Model.Path = args[0]
		return describeModel(stdout, cfg, library.Declared{ID: library.ID(cfg.All()[0].Name), Dir: args[0]})
	}
	cfg, words, err := modelSettings(args, nil, nil)
	if err != nil {
		return err
	}
	if len(words) != 1 {
		return misused("model info takes one id or folder, got %d", len(words))
	}
	id, err := library.ParseID(words[0])
	if err != nil {
		return fmt.Errorf("%s is no folder, and %w", words[0], err)
	}
	lib, err := openLibrary(cfg)
	if err != nil {
		return err
	}
	m, err := lib.Find(id)
	if n := lib.Partial(id); err != nil && n > 0 {
		return fmt.Errorf("model %s: %w: %s of it are here, the pull that was broken off goes on from there", id, library.ErrNotFound, bytesText(n))
	}
	if err != nil {
		return err
	}
	d := library.Declared{ID: id, Dir: m.Dir}
	if m.Dir == "" {
		d.FS = m.FS
	}
	return describeModel(stdout, settingsOfModel(cfg, declared(cfg, id)), d)
}

// describeModel writes what a model is, and what conversations with it go through
// by cfg. What its JSON files say is written even where its weights are none that
// can be served, which is the error.
func describeModel(w io.Writer, cfg config.Config, d library.Declared) error {
	lib, err := library.Open(library.Options{Dir: ".", Declared: []library.Declared{d}}) // no other model is asked for
	if err != nil {
		return err
	}
	m, err := lib.Find(d.ID)
	if err != nil {
		return err
	}
	where := m.Dir
	if where == "" {
		where = "part of the program"
	}
	c, err := hf.DescribeFS(m.FS, where)
	if err != nil {
		return err
	}
	info, unusable := lib.Describe(d.ID)
	parameters := "about " + countText(int64(paramsOf(c.Config)))
	if info.Parameters > 0 {
		parameters = countText(info.Parameters)
	}
	a := c.Config
	fmt.Fprintf(w, "%s: %s, %d layers of %d, %d heads over %d of %d, %d tokens, %d positions\n",
		d.ID, a.Architecture, a.Layers, a.Hidden, a.Heads, a.KVHeads, a.HeadDim, a.Vocab, a.MaxPositions)
	fmt.Fprintf(w, "%s parameters, end-of-sequence ids %v, %d chat templates\n", parameters, c.EOS(), len(c.Tokenizer.ChatTemplates))
	say := func(key, format string, args ...any) {
		fmt.Fprintf(w, "%-10s %s\n", key, fmt.Sprintf(format, args...))
	}
	say("folder", "%s", where)
	if unusable == nil {
		sayWeights(say, info)
	}
	chat, chatErr := chatSetupOf(cfg, string(d.ID), d.Dir, c.Tokenizer)
	if chatErr == nil {
		say("chat", "%s", &chat)
	}
	if len(c.Tokenizer.ChatTemplates) > 0 {
		say("templates", "%s", strings.Join(slices.Sorted(maps.Keys(c.Tokenizer.ChatTemplates)), ", "))
	}
	if c.TokenizerJSON == nil {
		say("tokenizer", "no %s: the model cannot be served without", hf.TokenizerFile)
	}
	if unusable == nil && info.Origin != nil {
		sayOrigin(say, info.Origin)
	}
	return errors.Join(unusable, chatErr)
}

// sayWeights tells what the weights are and what they take.
func sayWeights(say func(key, format string, args ...any), info library.Info) {
	say("files", "%d, %s together, %s", info.Files, bytesText(info.Bytes), strings.Join(append([]string{string(info.Format)}, info.DTypes...), " "))
	var forms []string
	for _, c := range info.Choices {
		forms = append(forms, fmt.Sprintf("%s %s", c.Weights, bytesText(c.Bytes)))
	}
	if len(forms) == 0 {
		forms = []string{"as the graph holds the weights"}
	}
	say("memory", "%s", strings.Join(forms, ", "))
	say("cache", "%s for each token, %s for the whole context of %d", bytesText(info.CacheBytes), bytesText(info.CacheBytes*int64(info.Context)), info.Context)
}

// sayOrigin tells where a model came from, and what its files were.
func sayOrigin(say func(key, format string, args ...any), o *library.Origin) {
	source := o.Source
	if o.Revision != "" {
		source += " at revision " + o.Revision
	}
	say("origin", "%s, %s", source, o.Time.Local().Format(time.DateTime))
	for _, name := range slices.Sorted(maps.Keys(o.SHA256)) {
		say("sha256", "%s  %s", o.SHA256[name], name)
	}
}
