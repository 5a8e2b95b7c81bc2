package plugins

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// sourceUpload is the Source of a plugin that was put at run time.
const sourceUpload = "upload"

// Put installs a module under a name that neither the settings nor the folder has, or puts it in the place of the one
// that was put there before. It passes the same checks and canary as any other; wasm is not kept, and the plugin lives
// until Delete, or until the set is closed. Errors match ErrSpec, ErrLoad, ErrConfigured or ErrClosed, or are ctx's, and
// leave everything as it was.
func (s *Set) Put(ctx context.Context, name string, wasm []byte, u Upload) (Status, error) {
	w := wanted{name: name, origin: fromUpload, source: sourceUpload}
	w.set = settings{onError: u.OnError, apply: u.Apply, limits: u.Limits, config: string(u.Config)}.withDefaults()
	if err := errors.Join(append(w.set.check(), checkName(name))...); err != nil {
		return Status{}, fmt.Errorf("%w: %w", ErrSpec, err)
	}
	end, err := s.begin(ctx)
	if err != nil {
		return Status{}, err
	}
	defer end()
	if e := s.names[name]; e != nil && e.origin != fromUpload {
		return Status{}, fmt.Errorf("%w: %s is configured %s", ErrConfigured, name, e.where())
	}
	j := &job{wanted: w}
	if j.fresh, err = s.load(ctx, w, wasm, nil); err != nil {
		return Status{}, cmp.Or(context.Cause(ctx), err)
	}
	if err := s.fit(j); err != nil {
		return Status{}, err
	}
	e, was := s.put(j)
	if was != nil {
		was.drop()
	}
	s.log.Info("plugin loaded", "plugin", name, "source", sourceUpload, "sha256", e.current.sum(), "version", e.current.guest.Description().Version)
	return e.status(), nil
}

// fit rejects a job that can't serve beside what is there.
func (s *Set) fit(j *job) error {
	jobs := []*job{j}
	for _, e := range s.order {
		if e.name != j.name {
			jobs = append(jobs, &job{wanted: e.wanted, same: true})
		}
	}
	s.resolve(jobs)
	return j.err
}

// Delete removes a plugin that was put at run time; requests that have it finish with it. Errors match ErrUnknown,
// ErrConfigured, which says where else it is to be removed, or ErrClosed.
func (s *Set) Delete(name string) error {
	end, err := s.begin(context.Background())
	if err != nil {
		return err
	}
	defer end()
	e := s.names[name]
	if e == nil {
		return &Misnamed{name, slices.Sorted(maps.Keys(s.names)), fmt.Errorf("%w: %q", ErrUnknown, name)}
	}
	if e.origin != fromUpload {
		return fmt.Errorf("%w: %s is configured %s", ErrConfigured, name, e.where())
	}
	names := maps.Clone(s.names)
	delete(names, name)
	s.mu.Lock()
	s.names = names
	s.order = slices.DeleteFunc(slices.Clone(s.order), func(x *entry) bool { return x == e })
	s.mu.Unlock()
	e.current.drop()
	s.log.Info("plugin removed", "plugin", name)
	return nil
}
