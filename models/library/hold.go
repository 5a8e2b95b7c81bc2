package library

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"
)

// Hold keeps a model from being deleted, by this and by other processes, until
// release is called; that may be done twice. Several may hold a model. Where
// the folder cannot be written, other processes are not told.
func (l *Library) Hold(id ID) (release func(), err error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	m, err := l.Find(id)
	if err != nil {
		return nil, err
	}
	var lock *os.File
	if !m.Declared {
		lock, err = l.lock(id, "use", false)
		if errors.Is(err, ErrInUse) {
			return nil, err
		}
		if _, err := l.Find(id); err != nil { // it went while the lock was taken
			closeLock(lock)
			return nil, err
		}
	}
	l.held[id]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		closeLock(lock)
		if l.held[id]--; l.held[id] == 0 {
			delete(l.held, id)
		}
	}), nil
}

// Delete removes a model's folder, and what is left of a fetch of it that was
// broken off. It fails with ErrInUse while somebody holds the model or fetches it, with
// ErrDeclared for a model of the configuration and with ErrNotFound when there
// is nothing to remove. Readers of the folder see it whole or not at all.
func (l *Library) Delete(id ID) error {
	if _, ok := (*l.declared.Load())[id]; ok {
		return fmt.Errorf("model %s: %w: take it out there", id, ErrDeclared)
	}
	for other, d := range *l.declared.Load() {
		if d.Dir != "" && within(l.model(id).Dir, d.Dir) {
			return fmt.Errorf("model %s: %w as %s: take it out there", id, ErrDeclared, other)
		}
	}
	partial, err := l.discardPartial(id)
	if err != nil {
		return err
	}
	root, err := l.open()
	if err != nil {
		return err
	}
	defer root.Close()
	l.sweep(root)
	aside, remove, err := l.makeTemp(root, "delete")
	if err != nil {
		return err
	}
	defer remove() // without locks: it may take its time
	err = l.moveAside(root, id, path.Join(aside, "model"))
	if partial && errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// moveAside takes a model that nobody holds out of the folder.
func (l *Library) moveAside(root *os.Root, id ID, to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Has(id) {
		return fmt.Errorf("model %s: %w in %s", id, ErrNotFound, l.dir)
	}
	if n := l.held[id]; n > 0 {
		return fmt.Errorf("model %s: %w by %d of this process", id, ErrInUse, n)
	}
	lock, err := l.lock(id, "use", true)
	if err != nil {
		return err
	}
	defer closeLock(lock)
	if err := root.Rename(id.path(), to); err != nil {
		return fmt.Errorf("model %s: %w", id, err)
	}
	delete(l.infos, id)
	// Folders above that are empty now go too; the first that is not ends it.
	for up := path.Dir(string(id)); up != "."; up = path.Dir(up) {
		if root.Remove(up) != nil {
			break
		}
	}
	return nil
}

// lock takes one of an id's locks between processes: "use" by holders
// (shared) and by who deletes (exclusive), "fetch" by who fetches. The file
// stays behind: removing it would let two processes lock two files of one name.
func (l *Library) lock(id ID, kind string, exclusive bool) (*os.File, error) {
	root, err := l.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(locksDir, 0o755); err != nil {
		return nil, fmt.Errorf("models folder: %w", err)
	}
	f, err := root.OpenFile(path.Join(locksDir, id.flat()+"."+kind), os.O_CREATE|os.O_RDWR, 0o644)
	if err != nil {
		return nil, fmt.Errorf("models folder: %w", err)
	}
	ok, err := flock(f, exclusive)
	if err == nil && !ok {
		err = fmt.Errorf("model %s: %w by another process", id, ErrInUse)
		if kind == "fetch" {
			err = fmt.Errorf("model %s: %w: it is being fetched already", id, ErrInUse)
		}
	}
	if err != nil {
		f.Close()
		return nil, err
	}
	return f, nil
}

// closeLock gives a lock back; nil is one that could not be taken.
func closeLock(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// within tells whether a folder is dir or lies below it; both are absolute.
func within(dir, folder string) bool {
	rel, err := filepath.Rel(dir, folder)
	return err == nil && filepath.IsLocal(rel)
}

// missing tells whether err says that something is not there.
func missing(err error) bool { return errors.Is(err, fs.ErrNotExist) }
