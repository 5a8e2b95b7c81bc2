package host

import (
	"context"
	"strings"
	"time"

	"tgi/models"
	"tgi/models/library"
	"tgi/server/api/modelsapi"
	"tgi/server/api/ollama"
)

// ollamaAPI is a manager as Ollama's API wants it. It implements ollama.Library.
type ollamaAPI struct{ modelsAPI }

// List implements ollama.Library.
func (s ollamaAPI) List(ctx context.Context) ([]ollama.Info, error) {
	all, err := s.modelsAPI.List(ctx)
	if err != nil {
		return nil, err
	}
	var list []ollama.Info
	for i := range all {
		if all[i].Local || all[i].State == modelsapi.Running {
			list = append(list, s.about(all[i]))
		}
	}
	return list, nil
}

// Get implements ollama.Library.
func (s ollamaAPI) Get(ctx context.Context, name string) (ollama.Info, error) {
	m, err := s.modelsAPI.Get(ctx, name)
	if err != nil {
		return ollama.Info{}, err
	}
	return s.about(m), nil
}

// Keep implements ollama.Library.
func (s ollamaAPI) Keep(ctx context.Context, name string, d time.Duration) bool {
	id, ok := s.adapterOf(name)
	if !ok {
		var err error
		if id, err = s.find(ctx, name); err != nil {
			return false
		}
	}
	s.mu.Lock()
	autoload := s.cfg.Models.Autoload
	s.mu.Unlock()
	if !autoload && d >= 0 {
		return false
	}
	s.roster.Keep(id, d)
	return true
}

// about adds to a model what the models API does not show.
func (s ollamaAPI) about(m modelsapi.Model) ollama.Info {
	out := ollama.Info{Model: m}
	id := library.ID(m.ID)
	if m.Parent != "" {
		id = library.ID(m.Parent)
	}
	out.Task = s.task(id)
	if at, ends := s.roster.Expires(id); ends {
		out.Expires = at
	}
	s.mu.Lock()
	run := s.loaded[id]
	s.mu.Unlock()
	out.OnDevice = run != nil && run.built.Device != models.CPU
	info, err := s.library.Describe(id)
	if err != nil {
		return out
	}
	if out.Changed = info.Modified; info.Origin != nil && !info.Origin.Time.IsZero() {
		out.Changed = info.Origin.Time
	}
	out.Architecture, out.Layers, out.KVHeads, out.HeadDim = info.Architecture, info.Layers, info.KVHeads, info.HeadDim
	out.Hidden, out.Vocab, out.Vision = info.Hidden, info.Vocab, info.Images
	out.Template = info.Template
	// What a template says of tools and reasoning, it says by these names: those of transformers, and of models.
	out.Tools = strings.Contains(info.Template, "tools")
	for _, word := range []string{"enable_thinking", "reasoning_content", "reasoning_effort", "<think>"} {
		out.Thinking = out.Thinking || strings.Contains(info.Template, word)
	}
	return out
}
