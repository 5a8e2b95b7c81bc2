package host

import (
	"context"
	"errors"
	"fmt"
	"path/filepath"

	"tgi/models/library"
	"tgi/models/lora"
	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/generate"
)

// LoadAdapter implements modelsapi.Models.
func (s modelsAPI) LoadAdapter(ctx context.Context, a modelsapi.Adapter) error {
	id := s.defaultID()
	if a.Model != "" {
		var err error
		if id, err = s.find(ctx, a.Model); err != nil {
			return err
		}
	}
	switch {
	case !server.MayUse(ctx, string(id)):
		return modelsapi.ErrUnknown
	case !server.MayUse(ctx, a.Name):
		return fmt.Errorf("%w: `%s`", server.ErrModelKey, a.Name)
	case !filepath.IsAbs(a.Path) && !filepath.IsLocal(a.Path):
		return &generate.Invalid{Msg: fmt.Sprintf("`lora_path` must be absolute, or a folder in the models folder. Given: "+
			"%.64q", a.Path), Field: "lora_path"}
	case !filepath.IsAbs(a.Path):
		a.Path = filepath.Join(s.library.Dir(), a.Path)
	}
	m, release, err := s.acquire(ctx, id)
	if err != nil {
		return err
	}
	defer release()
	return s.addAdapter(ctx, m, a)
}

// addAdapter adds an adapter to a model that runs.
func (s modelsAPI) addAdapter(ctx context.Context, m *managedModel, a modelsapi.Adapter) error {
	if m.adapters == nil {
		return fmt.Errorf("%w: model %s was loaded without memory for adapters: set model.adapter_memory",
			modelsapi.ErrConflict, m.id)
	}
	s.adapting.Lock()
	defer s.adapting.Unlock()
	if _, taken := s.lookup(a.Name); taken {
		return fmt.Errorf("%w: a model is called %s", modelsapi.ErrConflict, a.Name)
	}
	if owner, taken := s.adapterOf(a.Name); taken && owner != m.id {
		return fmt.Errorf("%w: an adapter of model %s is called %s", modelsapi.ErrConflict, owner, a.Name)
	}
	one, err := m.adapters.Add(ctx, a.Name, a.Path, a.Replace)
	switch {
	case errors.Is(err, lora.ErrTaken):
		return fmt.Errorf("%w: adapter %s is loaded already; `load_inplace` replaces it", modelsapi.ErrConflict, a.Name)
	case errors.Is(err, lora.ErrTooLarge):
		return fmt.Errorf("%w: %w: see model.adapter_memory", modelsapi.ErrConflict, err)
	case errors.Is(err, lora.ErrAdapter):
		return &generate.Invalid{Msg: "`lora_path`: " + s.publicText(err.Error()), Field: "lora_path"}
	case deviceFull(a.Name, err) != nil:
		return deviceFull(a.Name, err)
	case err != nil:
		return err
	}
	s.changeAdapter(m.id, a.Name, a.Path)
	s.log.Info("adapter added", "model", m.id, "adapter", a.Name, "rank", one.Rank, "bytes", one.Bytes)
	return nil
}

// UnloadAdapter implements modelsapi.Models.
func (s modelsAPI) UnloadAdapter(ctx context.Context, name string) error {
	s.adapting.Lock()
	defer s.adapting.Unlock()
	id, ok := s.adapterOf(name)
	if !ok || !server.MayUse(ctx, name) {
		return modelsapi.ErrUnknown
	}
	s.mu.Lock()
	m := s.loaded[id]
	s.mu.Unlock()
	if m != nil {
		if err := m.adapters.Remove(name); err != nil && !errors.Is(err, lora.ErrUnknown) {
			return err
		}
	}
	s.changeAdapter(id, name, "")
	s.log.Info("adapter removed", "model", id, "adapter", name)
	return nil
}

// changeAdapter keeps what a request changed for the next time that the model is loaded; dir is empty for an adapter
// that was removed. f.adapting is held.
func (f *manager) changeAdapter(id library.ID, name, dir string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.adapters[id] == nil {
		f.adapters[id] = map[string]string{}
	}
	f.adapters[id][name] = dir
}
