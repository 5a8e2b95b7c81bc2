package plugins

import (
	"context"
	"maps"
	"strings"
	"time"

	"tgi/runtime/filestamp"
)

// Watch scans the sources' files and the folder every interval and reloads what changed, as Reload does, until ctx
// ends; an interval of 0 disables it. The first scan reloads too. A change counts once a whole interval has passed
// without another, so that a file is not loaded while it is being written. A failure is logged, and not retried before
// the file changes.
func (s *Set) Watch(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	w := &watcher{set: s}
	for {
		select {
		case <-tick.C:
			w.scan(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// watcher remembers the state of the files at the last scan and at the last load.
type watcher struct {
	set          *Set
	last, loaded map[string]filestamp.Stamp
}

// scan reloads if the files differ from those last loaded and have not changed since the last scan.
func (w *watcher) scan(ctx context.Context) {
	now := w.set.files()
	steady := w.last != nil && maps.EqualFunc(now, w.last, filestamp.Stamp.Same)
	w.last = now
	if !steady || w.loaded != nil && maps.EqualFunc(now, w.loaded, filestamp.Stamp.Same) {
		return
	}
	if _, err := w.set.refresh(ctx); err != nil && ctx.Err() == nil {
		w.set.log.Error("reload of plugins", "error", err)
	}
	w.loaded = now
}

// files returns the state of all files that modules come from, without those that do not exist.
func (s *Set) files() map[string]filestamp.Stamp {
	s.mu.RLock()
	specs := s.specs
	s.mu.RUnlock()
	out := map[string]filestamp.Stamp{}
	add := func(path string) {
		if stamp := filestamp.Of(path); stamp.Exists() {
			out[path] = stamp
		}
	}
	both := func(file string) {
		add(file)
		if s.o.Beside != nil {
			add(s.o.Beside(file))
		}
	}
	for _, spec := range specs {
		if !strings.HasPrefix(spec.Source, Builtin) {
			both(spec.Source)
		}
	}
	files, _ := s.folder() // one that can't be read looks empty, and the reload says why
	for _, file := range files {
		both(file)
	}
	return out
}
