package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// sourceUpload is the Source of a plugin that was put at run time.
const sourceUpload = "upload"

// Prepared is an upload that is loaded and not installed yet. It ends with Commit or Discard.
type Prepared struct {
	set    *Set
	job    *job
	shadow *shadow // that has what was loaded; nil where the set has it
}

// Kept is an upload that is kept outside of the set: how it is used, and its module.
type Kept struct {
	Upload
	Wasm []byte
	Err  error // why it can't be used; then it is listed, as by Fail
}

// kept returns what Options.Kept has of a name.
func (s *Set) kept(name string) *Kept {
	if s.o.Kept == nil {
		return nil
	}
	return s.o.Kept(name)
}

// job makes what is kept under a name the plugin of that name.
func (k *Kept) job(name string) *job {
	w := desired{name: name, origin: fromUpload, source: sourceUpload, settings: k.settings()}
	j := &job{desired: w, wasm: k.Wasm}
	if k.Err != nil {
		j.err = fmt.Errorf("%w: %s: %w", ErrLoad, name, k.Err)
	}
	return j
}

// Put installs a module under a name that neither the settings nor the folder has, or puts it in the place of the one
// that was put there before. It passes the same checks and self-test as any other; wasm is not kept, and the plugin
// lives until Delete, or until the set is closed. Others change the set meanwhile; the last of several uploads under
// one name stays. Errors match ErrSpec, ErrLoad, ErrConfigured or ErrClosed, or are ctx's, and leave everything as it
// was.
func (s *Set) Put(ctx context.Context, name string, wasm []byte, u Upload) (Status, error) {
	p, err := s.Prepare(ctx, name, wasm, u)
	if err != nil {
		return Status{}, err
	}
	return p.Commit(ctx)
}

// Prepare does the first part of Put, all but installing, with its errors.
func (s *Set) Prepare(ctx context.Context, name string, wasm []byte, u Upload) (*Prepared, error) {
	s.mu.RLock()
	serving := s.names[name]
	s.mu.RUnlock()
	if u.Canary && serving != nil {
		u.kind = serving.settings.kind
	}
	w := desired{name: name, origin: fromUpload, source: sourceUpload, settings: u.settings()}
	switch {
	case s.o.apart:
		w.trial = TrialShadow
	case u.Canary:
		w.trial = TrialCanary
	}
	if err := errors.Join(append(w.settings.check(), checkName(name))...); err != nil {
		return nil, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	if err := serving.checkUpload(); err != nil && !u.Canary {
		return nil, err
	}
	ctx, done, err := s.loadContext(ctx)
	if err != nil {
		return nil, err
	}
	defer done()
	j := &job{desired: w}
	if u.Shadow {
		beside, err := s.openShadow(ctx, name, wasm, u)
		if err != nil {
			return nil, cmp.Or(context.Cause(ctx), err)
		}
		j.loaded = beside.v
		return &Prepared{s, j, beside}, nil
	}
	if j.loaded, err = s.load(ctx, w, wasm, nil); err != nil {
		return nil, cmp.Or(context.Cause(ctx), err)
	}
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		j.discard(nil)
		return nil, err
	}
	s.tryGrammars(ctx, []*job{j})
	unlock()
	if j.err != nil {
		return nil, j.err
	}
	return &Prepared{s, j, nil}, nil
}

// Commit does the second part of Put, with its errors: it installs the upload, unless ctx has ended.
func (p *Prepared) Commit(ctx context.Context) (Status, error) {
	s, j := p.set, p.job
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		p.Discard()
		return Status{}, err
	}
	defer unlock()
	if err := cmp.Or(context.Cause(ctx), s.names[j.name].checkUpload()); err != nil {
		p.Discard()
		return Status{}, err
	}
	if err := s.checkConflicts(j); err != nil {
		return Status{}, err
	}
	before := s.names[j.name]
	e, replaced := s.installJob(j)
	if replaced != nil {
		replaced.unref()
	}
	if before != nil {
		before.canary.drop()
	}
	if !s.o.apart { // which says itself what it is
		s.o.Logs.add(j.name, "host", abi.LevelInfo, "loaded, sha256 "+e.current.sum())
		s.log.Info("plugin loaded", "plugin", j.name, "source", sourceUpload, "sha256", e.current.sum(), "version",
			e.current.guest.Description().Version)
	}
	return e.status(), nil
}

// Status is what Commit would return, or its error, with nothing changed.
func (p *Prepared) Status(ctx context.Context) (Status, error) {
	s, j := p.set, p.job
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		return Status{}, err
	}
	defer unlock()
	if err := s.names[j.name].checkUpload(); err != nil {
		return Status{}, err
	}
	if err := s.checkConflicts(j); err != nil { // which frees what was loaded
		return Status{}, err
	}
	e := entry{desired: j.desired, current: j.loaded, totals: &statsTotals{}}
	return e.status(), nil
}

// Refuses returns why the plugin refuses a request without parameters, "" if it does not.
func (p *Prepared) Refuses() string { return p.job.loaded.refusalText }

// Kinds are those of the module that are used.
func (p *Prepared) Kinds() []string { return slices.Clone(p.job.loaded.kinds) }

// Discard frees what Prepare loaded.
func (p *Prepared) Discard() {
	if p.shadow != nil {
		p.shadow.apart.Close()
		return
	}
	p.job.discard(nil)
}

// checkUpload returns an error if an upload can't replace the entry, which may be nil.
func (e *entry) checkUpload() error {
	if e != nil && e.origin != fromUpload {
		return fmt.Errorf("%w: %s is configured %s", ErrConfigured, e.name, e.location())
	}
	return nil
}

// checkConflicts rejects a job that conflicts with installed plugins.
func (s *Set) checkConflicts(j *job) error {
	jobs := []*job{j}
	for _, e := range s.order {
		if e.name != j.name {
			jobs = append(jobs, &job{desired: e.desired, unchanged: true})
		}
	}
	s.rejectConflicts(jobs)
	return j.err
}

// Fail lists an upload that was kept and can't be used, with the reason: requests that it applies to are refused, or go
// on without it, as its settings say. It lives until Delete or a Put under its name. Nothing is changed where something
// serves.
func (s *Set) Fail(ctx context.Context, name string, u Upload, cause error) error {
	unlock, err := s.lockChanges(ctx)
	if err != nil {
		return err
	}
	defer unlock()
	if e := s.names[name]; e != nil && (e.current != nil || e.origin != fromUpload) {
		return nil
	}
	w := desired{name: name, origin: fromUpload, source: sourceUpload, settings: u.settings()}
	s.installJob(&job{desired: w, err: cause})
	return nil
}

// Delete removes a plugin that was put at run time; requests that have it finish with it. Errors match ErrUnknown,
// ErrConfigured, which says where else it is to be removed, or ErrClosed.
func (s *Set) Delete(name string) error {
	unlock, err := s.lockChanges(context.Background())
	if err != nil {
		return err
	}
	defer unlock()
	e := s.names[name]
	if e == nil {
		return &Misnamed{name, slices.Sorted(maps.Keys(s.names)), fmt.Errorf("%w: %q", ErrUnknown, llm.Shorten(name))}
	}
	if err := e.checkUpload(); err != nil {
		return err
	}
	names := maps.Clone(s.names)
	delete(names, name)
	s.mu.Lock()
	s.names = names
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(x *entry) bool { return x == e })
	s.mu.Unlock()
	if e.current != nil {
		e.current.unref()
	}
	e.canary.drop()
	s.log.Info("plugin removed", "plugin", name)
	return nil
}
