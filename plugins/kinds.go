package plugins

import (
	"fmt"
	"slices"
	"strings"
	"sync"
)

// Kinds remembers of which kinds the plugins of specs and of the folder were when they served, for the sets that have
// it: one that is opened later, when others are closed, holds files to them as those did. Its methods may be called
// from any goroutine, and on nil, which remembers nothing.
type Kinds struct {
	mu   sync.Mutex
	list [fromUpload]map[string][]string // by origin and name
}

// NewKinds makes one that remembers nothing yet.
func NewKinds() *Kinds {
	k := &Kinds{}
	for i := range k.list {
		k.list[i] = map[string][]string{}
	}
	return k
}

// of returns the kinds of a plugin, nil where none served.
func (k *Kinds) of(w desired) []string {
	if k == nil || w.origin == fromUpload {
		return nil
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	return k.list[w.origin][w.name]
}

// change remembers what serves now of what entries, before and after a change, are. With whole, after has all files of
// the folder.
func (k *Kinds) change(before []*entry, after map[string]*entry, whole bool) {
	if k == nil {
		return
	}
	k.mu.Lock()
	defer k.mu.Unlock()
	is := func(origin origin, name string) bool { return after[name] != nil && after[name].origin == origin }
	for _, e := range before {
		if e.origin != fromUpload && !is(e.origin, e.name) {
			delete(k.list[e.origin], e.name)
		}
	}
	for name := range k.list[fromFolder] {
		if whole && !is(fromFolder, name) {
			delete(k.list[fromFolder], name)
		}
	}
	for name, e := range after {
		if v := e.current; v != nil && e.origin != fromUpload && v.origin == e.origin {
			k.list[e.origin][name] = v.kinds
		}
	}
}

// keepsKinds returns why what was loaded must not take the place of what served: it lacks a kind of that. Settings that
// name the kind say what it is to be. What comes from elsewhere, as a spec that takes the name of a file, is another
// plugin.
func (j *job) keepsKinds(known *Kinds) error {
	before := known.of(j.desired)
	if v := j.serving; v != nil {
		before = nil
		if v.origin == j.origin {
			before = v.kinds
		}
	}
	if j.settings.kind != "" || !slices.ContainsFunc(before, func(kind string) bool { return !j.loaded.serves(kind) }) {
		return nil
	}
	meant := fmt.Sprintf("kind = %q in its settings says that it is meant", j.loaded.kinds[0])
	if j.origin == fromFolder {
		meant = "remove the file first if it is meant, and put it there again once the plugin is gone"
	}
	return fmt.Errorf("a name keeps its kinds: what served is of kind %s, source %q is of kind %s now, and requests would "+
		"go without what it does; %s", strings.Join(before, ", "), j.source, strings.Join(j.loaded.kinds, ", "), meant)
}
