package library

import (
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"sync"

	"tgi/models/gguf"
)

// Hold prevents this and other processes from deleting a model until release is called,
// which may be done twice. A model may have several holders. If the folder is not
// writable, other processes do not notice the hold.
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
		if _, err := l.Find(id); err != nil { // deleted while the lock was taken
			closeLock(lock)
			return nil, err
		}
	}
	l.holders[id]++
	return sync.OnceFunc(func() {
		l.mu.Lock()
		defer l.mu.Unlock()
		closeLock(lock)
		if l.holders[id]--; l.holders[id] == 0 {
			delete(l.holders, id)
		}
	}), nil
}

// Delete removes a model's folder and the remains of an interrupted fetch. It fails with
// ErrInUse while the model is held or fetched, with ErrDeclared for a model of the
// configuration, and with ErrNotFound if there is nothing to remove. Readers of the folder
// see all of the model or nothing.
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
	defer remove() // without locks: it may take long
	err = l.moveAside(root, id, path.Join(aside, "model"))
	if partial && errors.Is(err, ErrNotFound) {
		return nil
	}
	return err
}

// moveAside moves a model without holders out of the folder.
func (l *Library) moveAside(root *os.Root, id ID, to string) error {
	l.mu.Lock()
	defer l.mu.Unlock()
	if !l.Has(id) {
		return fmt.Errorf("model %s: %w in %s", id, ErrNotFound, l.dir)
	}
	if n := l.holders[id]; n > 0 {
		return fmt.Errorf("model %s: %w by %d of this process", id, ErrInUse, n)
	}
	lock, err := l.lock(id, "use", true)
	if err != nil {
		return err
	}
	defer closeLock(lock)
	names := []string{id.path()}
	if m := l.model(id); m.Dir != filepath.Join(l.dir, id.path()) { // a file, with its parts
		names, _ = gguf.Parts(filepath.Base(m.Dir))
		for i, n := range names {
			names[i] = path.Join(path.Dir(id.path()), n)
		}
	}
	for i, n := range names {
		if err := root.Rename(n, fmt.Sprintf("%s%d", to, i)); err != nil {
			return fmt.Errorf("model %s: %w", id, err)
		}
	}
	delete(l.infos, id)
	// Remove parent folders that are empty now.
	for up := path.Dir(string(id)); up != "."; up = path.Dir(up) {
		if root.Remove(up) != nil {
			break
		}
	}
	return nil
}

// lock takes one of an id's file locks: "use" is taken shared by holders and exclusive by
// Delete, "fetch" by a fetch. The file is never removed: otherwise two processes could
// lock two files of the same name.
func (l *Library) lock(id ID, kind string, exclusive bool) (*os.File, error) {
	root, err := l.open()
	if err != nil {
		return nil, err
	}
	defer root.Close()
	if err := root.MkdirAll(locksDir, 0o755); err != nil {
		return nil, fmt.Errorf("models folder: %w", err)
	}
	f, err := root.OpenFile(path.Join(locksDir, id.fileName()+"."+kind), os.O_CREATE|os.O_RDWR, 0o644)
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

// closeLock releases a lock; nil is a lock that could not be taken.
func closeLock(f *os.File) {
	if f != nil {
		f.Close()
	}
}

// within reports whether a folder is dir or below it; both are absolute.
func within(dir, folder string) bool {
	rel, err := filepath.Rel(dir, folder)
	return err == nil && filepath.IsLocal(rel)
}

// notExist reports whether err says that a file does not exist.
func notExist(err error) bool { return errors.Is(err, fs.ErrNotExist) }
