package plugins

import (
	"context"
	"io/fs"
	"maps"
	"os"
	"strings"
	"time"
)

// Watch looks every interval whether a source's file or the folder changed, and reloads what did, as Reload does, until
// ctx ends; an interval of 0 never looks. The first look reloads too. A change counts once a whole interval has passed without another, so that a
// file is not loaded while it is being written. What can't be loaded is logged, and not tried again before it changes.
func (s *Set) Watch(ctx context.Context, interval time.Duration) {
	if interval <= 0 {
		<-ctx.Done()
		return
	}
	tick := time.NewTicker(interval)
	defer tick.Stop()
	w := &watch{set: s}
	for {
		select {
		case <-tick.C:
			w.look(ctx)
		case <-ctx.Done():
			return
		}
	}
}

// watch remembers files: as they were at the last look, and when they were last loaded.
type watch struct {
	set          *Set
	last, loaded map[string]fs.FileInfo
}

// look reloads if the files differ from those that were loaded and are as they were at the last look.
func (w *watch) look(ctx context.Context) {
	now := w.set.files()
	steady := w.last != nil && maps.EqualFunc(now, w.last, sameFile)
	w.last = now
	if !steady || w.loaded != nil && maps.EqualFunc(now, w.loaded, sameFile) {
		return
	}
	if _, err := w.set.refresh(ctx); err != nil && ctx.Err() == nil {
		w.set.log.Error("reload of plugins", "error", err)
	}
	w.loaded = now
}

// files gives the state of all files that modules come from; one that is not there is left out.
func (s *Set) files() map[string]fs.FileInfo {
	s.mu.RLock()
	specs := s.specs
	s.mu.RUnlock()
	out := map[string]fs.FileInfo{}
	add := func(path string) {
		if info, err := os.Stat(path); err == nil {
			out[path] = info
		}
	}
	for _, spec := range specs {
		if !strings.HasPrefix(spec.Source, Builtin) {
			add(spec.Source)
		}
	}
	files, _ := s.folder() // one that can't be read looks empty, and the reload says why
	for _, file := range files {
		add(file)
	}
	return out
}

// sameFile tells by size, time and inode, so that a link that points elsewhere is seen too.
func sameFile(a, b fs.FileInfo) bool {
	return a.Size() == b.Size() && a.ModTime().Equal(b.ModTime()) && os.SameFile(a, b)
}
