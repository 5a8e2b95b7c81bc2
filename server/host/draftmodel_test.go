package host

import (
	"encoding/json"
	"errors"
	"io"
	"log/slog"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/server/config"
)

// TestDraftModelChangesNothing: with every plugin, example and language of grammars a reply has the same bytes with the
// guesses of a second model, here a copy of the first, whose likeliest tokens are often picked.
func TestDraftModelChangesNothing(t *testing.T) {
	list := treePlugins(t)
	plain := openEvery(t, list, config.Speculation{}, nil)
	speculation := config.Speculation{Model: "org/second", Tokens: 3, Always: true}
	guesses := openEvery(t, list, speculation, func(c *config.Config) {
		c.Models.Folder = chatFolderOf(t, "org/second")
	})
	seeds := long.Count(2, 12)
	sameReplies(t, plain, guesses, slices.Concat(everyPlugin(list, seeds), everyGrammar(seeds), everyChat(),
		everyCall()))
	few, many := guesses.defaultModel().engine.Stats().Steps, plain.defaultModel().engine.Stats().Steps
	t.Logf("%d steps, %d without guesses\n%s", few, many,
		strings.Join(guesses.lines(t, "tgi_draft_tokens_total"), "\n"))
	if few*10 > many*7 {
		t.Errorf("%d steps, %d without guesses", few, many)
	}
}

// TestDraftModelIsRefused: what cannot guess for a model is named, with the setting.
func TestDraftModelIsRefused(t *testing.T) {
	folder := chatFolderOf(t, "org/other", "org/larger")
	edit := func(id string, change func(string) string) {
		path := filepath.Join(folder, id, "tokenizer.json")
		text, err := os.ReadFile(path)
		if err != nil {
			t.Fatal(err)
		}
		after := change(string(text))
		if after == string(text) {
			t.Fatalf("%s is as before", path)
		}
		write(t, path, after)
	}
	edit("org/other", func(s string) string { return strings.ReplaceAll(s, "<|im_end|>", "<|other|>") })
	edit("org/larger", func(s string) string {
		var all map[string]any
		if err := json.Unmarshal([]byte(s), &all); err != nil {
			t.Fatal(err)
		}
		list := all["added_tokens"].([]any)
		last := maps.Clone(list[len(list)-1].(map[string]any))
		last["id"], last["content"] = last["id"].(float64)+1, "<|one more|>"
		all["added_tokens"] = append(list, last)
		text, err := json.Marshal(all)
		if err != nil {
			t.Fatal(err)
		}
		return string(text)
	})
	const key = "the flag: model.speculation.model: "
	for id, want := range map[string]string{
		"org/other":  key + "the tokenizer of org/other is another: token ",
		"org/larger": key + "the tokenizer of org/larger is another: it has ",
		"org/none":   key + "model org/none: ",
	} {
		c := chatConfig()
		c.Given = map[string]string{"model.speculation.model": "the flag"}
		c.Models.Folder, c.Model.Speculation.Model = folder, id
		log := slog.New(slog.NewTextHandler(io.Discard, nil))
		h, err := Open(t.Context(), Options{Config: c, Version: "dev", Log: log})
		if err == nil {
			h.Close()
		}
		if err == nil || !strings.Contains(err.Error(), want) ||
			errors.Is(err, config.ErrWrong) == (id == "org/none") { // which the library refuses
			t.Errorf("%s: %v, want %s", id, err, want)
		}
	}
}
