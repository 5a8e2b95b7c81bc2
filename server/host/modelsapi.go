package host

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"net/url"
	"path/filepath"
	"slices"
	"time"

	"tgi/models/library"
	"tgi/models/library/fetch"
	"tgi/models/library/lifecycle"
	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// modelsAPI is a manager as the models API wants it. It implements modelsapi.Models.
type modelsAPI struct{ *manager }

// List implements modelsapi.Models.
func (s modelsAPI) List(ctx context.Context) ([]modelsapi.Model, error) {
	if err := s.scan(); err != nil {
		return nil, err
	}
	first := s.defaultID()
	var list []modelsapi.Model
	for _, status := range s.roster.All() {
		if server.MayUse(ctx, string(status.ID)) {
			list = append(list, s.describe(status))
		}
	}
	if i := slices.IndexFunc(list, func(m modelsapi.Model) bool { return m.ID == string(first) }); i > 0 {
		m := list[i]
		list = slices.Insert(slices.Delete(list, i, i+1), 0, m)
	}
	return append(list, s.adaptersOfAll(ctx)...), nil
}

// adaptersOfAll lists those of all models, as the key of ctx may know them.
func (s modelsAPI) adaptersOfAll(ctx context.Context) (list []modelsapi.Model) {
	names := map[string][]string{}
	s.mu.Lock()
	all := s.cfg.All()
	for _, m := range all {
		names[m.Name] = s.adapterNames(m)
	}
	s.mu.Unlock()
	for _, m := range all {
		for _, name := range names[m.Name] {
			if !server.MayUse(ctx, name) {
				continue
			}
			if one, err := s.adapter(library.ID(m.Name), name); err == nil {
				list = append(list, one)
			}
		}
	}
	return list
}

// adapter describes an adapter: what it shares with its model.
func (s modelsAPI) adapter(model library.ID, name string) (modelsapi.Model, error) {
	m, err := s.show(model)
	if err != nil {
		return modelsapi.Model{}, err
	}
	return modelsapi.Model{ID: name, Parent: m.ID, Created: m.Created, State: m.State, Local: m.Local, Format: m.Format,
		Context: m.Context, Parallel: m.Parallel, Threads: m.Threads, Sampling: m.Sampling,
		Modalities: m.Modalities, Templates: m.Templates}, nil
}

// Get implements modelsapi.Models.
func (s modelsAPI) Get(ctx context.Context, name string) (modelsapi.Model, error) {
	if model, ok := s.adapterOf(name); ok && server.MayUse(ctx, name) {
		return s.adapter(model, name)
	}
	id, err := s.find(ctx, name)
	if err != nil {
		return modelsapi.Model{}, err
	}
	return s.show(id)
}

// find returns the model of a name, as the key of ctx may know it. Names of no model
// mean nothing here, whatever they mean to requests.
func (s modelsAPI) find(ctx context.Context, name string) (library.ID, error) {
	id, ok := s.lookup(name)
	if !ok && dispatch.Placeholder(name) {
		id, ok = s.defaultID(), true
	}
	if !ok || !server.MayUse(ctx, string(id)) {
		return "", modelsapi.ErrUnknown
	}
	return id, nil
}

// show describes a model that was there a moment ago.
func (s modelsAPI) show(id library.ID) (modelsapi.Model, error) {
	status, ok := s.roster.Get(id)
	if !ok {
		return modelsapi.Model{}, modelsapi.ErrUnknown
	}
	return s.describe(status), nil
}

// Start implements modelsapi.Models.
func (s modelsAPI) Start(ctx context.Context, name string) (modelsapi.Model, error) {
	id, err := s.find(ctx, name)
	if err != nil {
		return modelsapi.Model{}, err
	}
	_, err = s.roster.Start(id)
	if status, _ := s.roster.Get(id); err != nil && status.State != lifecycle.Running &&
		status.State != lifecycle.Starting {
		return modelsapi.Model{}, s.apiError(id, err)
	}
	return s.show(id)
}

// Stop implements modelsapi.Models.
func (s modelsAPI) Stop(ctx context.Context, name string) (modelsapi.Model, error) {
	id, err := s.find(ctx, name)
	if err != nil {
		return modelsapi.Model{}, err
	}
	if _, err := s.roster.Stop(id); err != nil && !errors.Is(err, lifecycle.ErrState) {
		return modelsapi.Model{}, s.apiError(id, err)
	}
	return s.show(id)
}

// Pull implements modelsapi.Models.
func (s modelsAPI) Pull(ctx context.Context, p modelsapi.Pull) (modelsapi.Model, error) {
	id, source, err := s.pullTarget(p)
	if err != nil {
		return modelsapi.Model{}, err
	}
	if !server.MayUse(ctx, string(id)) {
		return modelsapi.Model{}, server.ErrModelKey
	}
	if _, err := s.pull(id, source); err != nil {
		status, _ := s.roster.Get(id)
		if status.State == lifecycle.Downloading || s.library.Has(id) {
			return s.show(id)
		}
		return modelsapi.Model{}, s.apiError(id, err)
	}
	s.setTitle(id, p.Name)
	return s.show(id)
}

// pullTarget returns what a client asks to be fetched: a model that is known, by its id,
// comes from where the settings say or where it came from before.
func (s modelsAPI) pullTarget(p modelsapi.Pull) (id library.ID, source string, err error) {
	source = p.Source
	name := p.ID
	if known, ok := s.lookup(p.Source); ok && (name == "" || name == string(known)) {
		name = string(known)
		if from := s.origin(known); from != "" {
			source = from
		}
	}
	if _, err := config.ParseSource(source); err != nil {
		return "", "", &generate.Invalid{Msg: fmt.Sprintf("`model` %s", err), Field: "model"}
	}
	if name == "" {
		name = config.DefaultID(source)
		if err := modelsapi.CheckID("id", name); err != nil {
			return "", "", err
		}
	}
	if id, err = library.ParseID(name); err != nil {
		return "", "", &generate.Invalid{Msg: err.Error(), Field: "id"}
	}
	return id, source, nil
}

// origin is where a model is fetched from; "" for nowhere.
func (s modelsAPI) origin(id library.ID) string {
	s.mu.Lock()
	m := declared(s.cfg, id)
	from := s.pullSources[id]
	s.mu.Unlock()
	if m.Source != "" {
		return m.Source
	}
	if from != "" {
		return from
	}
	if info, err := s.library.Describe(id); err == nil && info.Origin != nil {
		return info.Origin.Source
	}
	return ""
}

// pull begins to fetch a model.
func (f *manager) pull(id library.ID, source string) (*lifecycle.Pending, error) {
	f.mu.Lock()
	settings := f.cfg.Models
	f.mu.Unlock()
	from, err := SourceOf(settings, source)
	if err != nil {
		return nil, err
	}
	if err := f.fetcher.Check(from); err != nil {
		return nil, err
	}
	p, err := f.roster.Pull(id, func(ctx context.Context, report func(done, total int64)) error {
		last := time.Now()
		_, err := f.fetcher.Fetch(ctx, f.library, id, from, &fetch.Progress{On: func(done, total int64) {
			report(done, total)
			if time.Since(last) >= progressEvery {
				last = time.Now()
				f.log.Info(fmt.Sprintf("downloading %s: %d of %d MiB", id, done>>20, total>>20))
			}
		}})
		return err
	})
	if err == nil {
		f.mu.Lock()
		f.pullSources[id] = source
		f.mu.Unlock()
	}
	return p, err
}

// CancelPull implements modelsapi.Models.
func (s modelsAPI) CancelPull(ctx context.Context, name string) (modelsapi.Model, error) {
	id, err := s.find(ctx, name)
	if err != nil {
		return modelsapi.Model{}, err
	}
	if _, err := s.roster.CancelPull(id); err != nil {
		return modelsapi.Model{}, s.apiError(id, err)
	}
	return s.show(id)
}

// Import implements modelsapi.Models.
func (s modelsAPI) Import(ctx context.Context, i modelsapi.Import) (modelsapi.Model, error) {
	id, err := library.ParseID(i.ID)
	if err != nil {
		return modelsapi.Model{}, &generate.Invalid{Msg: err.Error(), Field: "model"}
	}
	if !server.MayUse(ctx, i.ID) {
		return modelsapi.Model{}, server.ErrModelKey
	}
	if !filepath.IsAbs(i.Path) {
		return modelsapi.Model{}, &generate.Invalid{Msg: fmt.Sprintf("`modelPath` must be absolute. Given: %.64q",
			i.Path), Field: "modelPath"}
	}
	if s.library.Has(id) {
		return modelsapi.Model{}, fmt.Errorf("%w: a model with the id %s is there", modelsapi.ErrConflict, id)
	}
	_, err = s.roster.Pull(id, func(ctx context.Context, report func(done, total int64)) error {
		_, err := s.library.Import(ctx, id, i.Path, library.ImportOptions{Progress: report})
		return err
	})
	if err != nil {
		return modelsapi.Model{}, s.apiError(id, err)
	}
	s.setTitle(id, i.Name)
	return s.show(id)
}

// setTitle keeps what people call a model.
func (f *manager) setTitle(id library.ID, title string) {
	f.mu.Lock()
	defer f.mu.Unlock()
	if title != "" {
		f.titles[id] = title
	}
}

// Delete implements modelsapi.Models.
func (s modelsAPI) Delete(ctx context.Context, name string) error {
	id, ok := s.lookup(name)
	if !ok || !server.MayUse(ctx, string(id)) {
		return modelsapi.ErrUnknown
	}
	err := s.roster.Delete(id)
	if _, there := s.roster.Get(id); err != nil && (there || !errors.Is(err, library.ErrNotFound)) {
		return s.apiError(id, err)
	} // a model that only a failed download made known is forgotten, though it had no files
	s.mu.Lock()
	defer s.mu.Unlock()
	delete(s.titles, id)
	delete(s.pullSources, id)
	delete(s.plans, id)
	return nil
}

// apiError says what an error of the roster or the library means to the models API.
func (s modelsAPI) apiError(id library.ID, err error) error {
	if errors.Is(err, lifecycle.ErrMemory) {
		need, free := s.shortfall(id)
		return &modelsapi.Insufficient{Of: "memory", Need: need, Free: free}
	}
	status, _ := s.roster.Get(id)
	text := s.publicText(err.Error())
	switch {
	case errors.Is(err, lifecycle.ErrUnknown), errors.Is(err, library.ErrNotFound):
		return modelsapi.ErrUnknown
	case errors.Is(err, lifecycle.ErrBusy), errors.Is(err, library.ErrInUse):
		return fmt.Errorf("%w: %s", modelsapi.ErrBusy, text)
	case errors.Is(err, lifecycle.ErrState) && (status.State == lifecycle.Downloading ||
		status.State == lifecycle.Stopping):
		return fmt.Errorf("%w: %s", modelsapi.ErrBusy, text)
	case errors.Is(err, lifecycle.ErrState), errors.Is(err, library.ErrExists), errors.Is(err, library.ErrDeclared),
		errors.Is(err, library.ErrUnusable):
		return fmt.Errorf("%w: %s", modelsapi.ErrConflict, text)
	case errors.Is(err, fetch.ErrSource):
		return &generate.Invalid{Msg: text, Field: "model"}
	case errors.Is(err, lifecycle.ErrClosed):
		return server.ErrUnhealthy
	case errors.Is(err, fs.ErrPermission):
		return fmt.Errorf("%w: the server may not write to its models folder", modelsapi.ErrConflict)
	}
	return err
}

// describe is a model as the API shows it.
func (s modelsAPI) describe(status lifecycle.Status) modelsapi.Model {
	s.mu.Lock()
	cfg := SettingsFor(s.cfg, status.ID)
	title, run := s.titles[status.ID], s.loaded[status.ID]
	s.mu.Unlock()
	m := modelsapi.Model{
		ID: string(status.ID), Name: title, Created: s.opened, State: modelsapi.State(status.State),
		Local:  s.library.Has(status.ID),
		Source: absolute(cfg.Models, s.origin(status.ID)), MemoryBytes: status.Memory,
	}
	if status.Err != nil {
		m.Failure = s.publicText(status.Err.Error())
	}
	if status.State == lifecycle.Downloading || status.Done > 0 {
		m.Progress = &modelsapi.Progress{Done: status.Done, Total: status.Total}
	}
	if info, err := s.library.Describe(status.ID); err == nil {
		m.Embedding = info.Task == library.Embed
		m.Format, m.Params, m.DiskBytes, m.Context = string(info.Format), info.Parameters, info.Bytes, info.Context
		if !info.Modified.IsZero() { // those embedded have no time
			m.Created = info.Modified
		}
		if info.Origin != nil && !info.Origin.Time.IsZero() {
			m.Created = info.Origin.Time
		}
		if n := cfg.Limits.MaxTotalTokens; n > 0 {
			m.Context = min(m.Context, n)
		}
		if p, err := s.planFor(cfg, status.ID, s.available()); err == nil {
			m.Quantization, m.MemoryBytes = string(p.form), cmp.Or(m.MemoryBytes, p.total())
		}
	}
	if run != nil {
		m.Context, m.Parallel, m.Threads = run.limits.MaxTotalTokens, run.limits.MaxBatchSize, run.backend.ThreadCount()
		m.Quantization = string(run.built.Weights)
		m.Sampling = &modelsapi.Sampling{Temperature: 1, TopP: 1}
		m.Modalities, m.Templates = []string{"text"}, run.control.chat.Load().templates
		if run.images != nil {
			m.Modalities = append(m.Modalities, "image")
		}
	}
	return m
}

// absolute is a source as a URL without credentials; "" for none.
func absolute(m config.Models, source string) string {
	from, err := SourceOf(m, source)
	if source == "" || err != nil {
		return ""
	}
	u, err := url.Parse(from.URL)
	if err != nil {
		return ""
	}
	u.User, u.RawQuery = nil, ""
	if from.Repo != "" {
		u = u.JoinPath(from.Repo)
	}
	return u.String()
}
