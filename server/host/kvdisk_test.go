package host

import (
	"bytes"
	"context"
	"encoding/json"
	"io/fs"
	"log/slog"
	"maps"
	"math"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/kvdisk"
	"tgi/runtime/llm"
	"tgi/server/config"
)

// restarted opens a server, has do use it, and closes it.
func restarted(t *testing.T, c config.Config, do func(h *Server)) {
	t.Helper()
	h, err := Open(t.Context(), Options{Config: c, Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err != nil {
		t.Fatal(err)
	}
	do(h)
	if err := h.Close(); err != nil {
		t.Fatal(err)
	}
}

// computed is what a model made of a prompt: tokens with the bits of their log-probabilities.
type computed struct {
	tokens []llm.Token
	bits   []uint32
	cached int // tokens of the prompt
}

func (a computed) same(b computed) bool {
	return slices.Equal(a.tokens, b.tokens) && slices.Equal(a.bits, b.bits)
}

// recall has the server's model answer a long prompt, with an adapter if that is named.
func recall(t *testing.T, h *Server, adapter string) (out computed) {
	t.Helper()
	m := h.defaultModel()
	r := engine.Request{Prompt: m.tokenizer.Encode(strings.Repeat("Once upon a time there was a mill. ", 12), true),
		Params: llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 20,
			IgnoreEOS: true}}
	if adapter != "" {
		a, release, err := m.adapters.Use(t.Context(), adapter)
		if err != nil {
			t.Fatal(err)
		}
		defer release()
		r.Adapter, r.Salt = a.ID, a.Salt
	}
	s, err := m.engine.Submit(context.Background(), r)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	for {
		e, err := s.Next(context.Background())
		if err != nil {
			t.Fatal(err)
		}
		out.tokens, out.bits = append(out.tokens, e.Token), append(out.bits, math.Float32bits(e.Logprob))
		if e.Finish != nil {
			out.cached = e.Finish.Cached
			return out
		}
	}
}

// findAgain restarts a server until it finds the prompt on disk: it computes what it could not read in the same time,
// as on a machine that is busy.
func findAgain(t *testing.T, c config.Config, adapter string) (out computed) {
	t.Helper()
	for range 20 {
		restarted(t, c, func(h *Server) {
			out = recall(t, h, adapter)
			if st := h.models.kvDisk.Stats(); int(st.Read) < out.cached/16 || st.Damaged+st.Errors != 0 {
				t.Errorf("%d tokens were found, %+v", out.cached, st)
			}
		})
		if out.cached >= 80 {
			break
		}
	}
	return out
}

// keptIn reads the blocks in a folder.
func keptIn(t *testing.T, path string) map[string][]byte {
	t.Helper()
	out := map[string][]byte{}
	err := filepath.WalkDir(path, func(name string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "lock" {
			return err
		}
		rel, err := filepath.Rel(path, name)
		if err == nil {
			out[rel], err = os.ReadFile(name)
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return out
}

// TestRestartKeepsPrompts: a server that starts again finds the prompts of the one before, in each form of the cache
// and no other, and answers with the same bits. What it keeps are the same bits, too, that any other keeps.
func TestRestartKeepsPrompts(t *testing.T) {
	shared := t.TempDir()
	for _, form := range config.KVDTypes {
		c := testConfig()
		c.Model.Weights, c.Runtime.KVDType, c.Runtime.KVDisk = config.WeightsFP32, form, shared
		var first, other, again computed
		restarted(t, c, func(h *Server) { first = recall(t, h, "") })
		c.Runtime.KVDisk = t.TempDir()
		restarted(t, c, func(h *Server) { other = recall(t, h, "") })
		kept := keptIn(t, c.Runtime.KVDisk)
		if all := keptIn(t, shared); len(kept) < 5 {
			t.Errorf("%s: %d blocks are kept", form, len(kept))
		} else {
			maps.DeleteFunc(all, func(name string, _ []byte) bool { return kept[name] == nil })
			if !maps.EqualFunc(all, kept, bytes.Equal) {
				t.Errorf("%s: two servers keep other bits of one prompt", form)
			}
		}
		c.Runtime.KVDisk = shared
		again = findAgain(t, c, "")
		if first.cached != 0 || other.cached != 0 || again.cached < 80 || !first.same(other) || !first.same(again) {
			t.Errorf("%s: first %v, other %v, again %v", form, first, other, again)
		}
	}
}

// TestRestartKeepsAdapters: an adapter finds after a restart what it computed, and neither what the model computed
// without one nor, under the same name, what another did.
func TestRestartKeepsAdapters(t *testing.T) {
	c := testConfig()
	c.Runtime.KVDisk = t.TempDir()
	list := manyAdapters(t, 2)
	list[1].Name = list[0].Name
	var before, again, other computed
	c.Model.Adapters = list[:1]
	restarted(t, c, func(h *Server) {
		recall(t, h, "")
		before = recall(t, h, list[0].Name)
	})
	again = findAgain(t, c, list[0].Name)
	c.Model.Adapters = list[1:]
	restarted(t, c, func(h *Server) { other = recall(t, h, list[0].Name) })
	if before.cached != 0 || again.cached < 80 || !before.same(again) || other.cached != 0 || other.same(before) {
		t.Errorf("before %v, again %v, another %v", before, again, other)
	}
	c.Model.Adapters = nil
	restarted(t, c, func(h *Server) {
		if plain := recall(t, h, ""); plain.cached != 0 {
			t.Errorf("what a graph with adapters computed counts for one without: %+v", plain)
		}
	})
}

// TestKeptPicturesDependOnTheirSettings: pictures that are prepared otherwise are others for what is kept on disk,
// which knows them by their files.
func TestKeptPicturesDependOnTheirSettings(t *testing.T) {
	dir := t.TempDir()
	ids := map[kvdisk.ID]string{}
	add := func(name string, change func(*config.Config)) {
		p, _ := openSeeing(t, "smolvlm", func(c *config.Config) {
			c.Model.Path = dir
			if change != nil {
				change(c)
			}
		})
		id, err := p.defaultModel().bits(p.models.cfg, p.models.device)
		if err != nil {
			t.Fatal(err)
		}
		if was, ok := ids[id]; ok != (name == "again") {
			t.Errorf("%s is like %q", name, was)
		}
		ids[id] = name
	}
	if err := os.CopyFS(dir, os.DirFS("../../models/testdata/vision/smolvlm")); err != nil {
		t.Fatal(err)
	}
	add("first", nil)
	add("again", nil)
	add("fewer tokens", func(c *config.Config) { c.Images.Tokens-- })
	for _, name := range []string{"preprocessor_config.json", "processor_config.json"} {
		path := filepath.Join(dir, name)
		data, err := os.ReadFile(path)
		if err != nil {
			continue
		}
		if err := os.WriteFile(path, append(data, ' '), 0o600); err != nil {
			t.Fatal(err)
		}
		add(name, nil)
	}
	if len(ids) < 3 {
		t.Errorf("%d settings of pictures were tried", len(ids))
	}
}

// TestKVDiskState: what is kept of prompts on disk is told by /info, the live state and the check of a model, and of a
// server that keeps nothing by none of them.
func TestKVDiskState(t *testing.T) {
	for _, on := range []bool{true, false} {
		p := openPlugged(t, func(c *config.Config) {
			if on {
				c.Runtime.KVDisk, c.Runtime.KVDiskSize = t.TempDir(), 1<<30
			}
		})
		recall(t, p.Server, "")
		for on && p.models.kvDisk.Stats().Written < 5 {
			time.Sleep(time.Millisecond)
		}
		var info, live struct {
			Disk *struct {
				Bytes, Blocks int64
				Limit         int64 `json:"limit_bytes"`
				Written       int64 `json:"written_blocks"`
			} `json:"kv_disk"`
		}
		for path, to := range map[string]any{"/info": &info, "/admin/live": &live} {
			if status, text := p.call(t, http.MethodGet, path, nil); status != http.StatusOK ||
				json.Unmarshal([]byte(text), to) != nil {
				t.Fatalf("%s: %d %s", path, status, text)
			}
		}
		model, _ := p.Default()
		if !on {
			if info.Disk != nil || live.Disk != nil || model.KVDisk != nil {
				t.Errorf("nothing is kept: %+v %+v %+v", info.Disk, live.Disk, model.KVDisk)
			}
			continue
		}
		if d := info.Disk; d == nil || d.Blocks < 5 || d.Bytes < 1000 || d.Limit != 1<<30 {
			t.Errorf("/info: %+v", d)
		}
		if d := live.Disk; d == nil || d.Blocks < 5 || d.Written < 5 || d.Limit != 1<<30 {
			t.Errorf("/admin/live: %+v", d)
		}
		if d := model.KVDisk; d == nil || d.Blocks < 5 || d.Written < 5 {
			t.Errorf("the check: %+v", d)
		}
	}
}
