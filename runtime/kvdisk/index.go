package kvdisk

import (
	"cmp"
	"container/list"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tgi/runtime/kv"
)

// entry is a block's file.
type entry struct {
	id    ID
	key   kv.Key
	depth int
	size  int64
	used  time.Time
	saved time.Time // the file's time: the use that a later process knows of
}

// ref names an entry.
type ref struct {
	id  ID
	key kv.Key
}

const (
	lockName   = "lock"
	tempPrefix = "new-"
	// together is how far apart the times of files may be that count as equally old: then the end of a text goes first.
	together = time.Minute
)

// path is where an entry's file is.
func (f *Folder) path(e *entry) string {
	space, dir, name := e.names()
	return filepath.Join(f.o.Path, space, dir, name)
}

// names are those of an entry's folders and of its file.
func (e *entry) names() (space, dir, name string) {
	key := hex.EncodeToString(e.key[:])
	return hex.EncodeToString(e.id[:]), key[:2], key[2:] + "-" + strconv.Itoa(e.depth)
}

func (f *Folder) spacePath(id ID) string { return filepath.Join(f.o.Path, hex.EncodeToString(id[:])) }

// parseName reverses names.
func parseName(space, dir, name string) (e entry, ok bool) {
	digits, depth, found := strings.Cut(name, "-")
	id, err1 := hex.DecodeString(space)
	key, err2 := hex.DecodeString(dir + digits)
	n, err3 := strconv.Atoi(depth)
	if !found || errors.Join(err1, err2, err3) != nil || len(id) != len(e.id) || len(key) != len(e.key) || n < 0 {
		return e, false
	}
	copy(e.id[:], id)
	copy(e.key[:], key)
	e.depth = n
	again, sub, file := e.names() // numbers can be written in several ways
	return e, again == space && sub == dir && file == name
}

// scan reads which blocks there are, and removes what a process that was killed left behind.
func (f *Folder) scan() error {
	var all []*entry
	err := folders(f.o.Path, len(ID{}), func(space, path string) error {
		return folders(path, 1, func(dir, path string) error {
			files, err := os.ReadDir(path)
			if err != nil {
				return err
			}
			for _, d := range files {
				if e, err := find(space, dir, path, d); err != nil {
					return err
				} else if e != nil {
					all = append(all, e)
				}
			}
			return nil
		})
	})
	if err != nil {
		return fmt.Errorf("reading %s: %w", f.o.Path, err)
	}
	slices.SortFunc(all, func(a, b *entry) int {
		return cmp.Or(a.used.Truncate(together).Compare(b.used.Truncate(together)), cmp.Compare(b.depth, a.depth))
	})
	for _, e := range all {
		f.put(e)
	}
	return nil
}

// folders calls do with each folder in path whose name is so many bytes in hexadecimal. Nothing else is looked into,
// such as lost+found at the root of a disk, which its owner alone may read.
func folders(path string, bytes int, do func(name, path string) error) error {
	list, err := os.ReadDir(path)
	if err != nil {
		return err
	}
	for _, d := range list {
		if b, err := hex.DecodeString(d.Name()); err != nil || len(b) != bytes || !d.IsDir() {
			continue
		}
		if err := do(d.Name(), filepath.Join(path, d.Name())); err != nil {
			return err
		}
	}
	return nil
}

// find returns the entry of a file; nil if it is none. It removes one that was being written.
func find(space, dir, path string, d fs.DirEntry) (*entry, error) {
	if !d.Type().IsRegular() {
		return nil, nil
	}
	if strings.HasPrefix(d.Name(), tempPrefix) {
		return nil, os.Remove(filepath.Join(path, d.Name()))
	}
	e, ok := parseName(space, dir, d.Name())
	if !ok {
		return nil, nil
	}
	st, err := d.Info()
	if err != nil {
		return nil, err
	}
	e.size, e.used, e.saved = st.Size(), st.ModTime(), st.ModTime()
	return &e, nil
}

// put adds an entry as the newest. f.mu is held, or nobody else knows f.
func (f *Folder) put(e *entry) {
	k := ref{e.id, e.key}
	if old := f.entries[k]; old != nil {
		f.drop(old)
	}
	f.entries[k] = f.lru.PushBack(e)
	f.stats.Bytes += e.size
	f.stats.Blocks++
}

// drop takes an entry out. f.mu is held.
func (f *Folder) drop(at *list.Element) {
	e := f.lru.Remove(at).(*entry)
	delete(f.entries, ref{e.id, e.key})
	f.stats.Bytes -= e.size
	f.stats.Blocks--
}

// forget takes the entries of blocks out and removes their files.
func (f *Folder) forget(id ID, blocks []kv.Block) {
	var gone []*entry
	f.mu.Lock()
	for _, b := range blocks {
		if at := f.entries[ref{id, b.Key}]; at != nil {
			gone = append(gone, at.Value.(*entry))
			f.drop(at)
		}
	}
	f.mu.Unlock()
	for _, e := range gone {
		f.remove(e)
	}
}

// remove removes an entry's file, and its folders if they are empty now. It leaves a file that was written again since
// the entry was taken out.
func (f *Folder) remove(e *entry) {
	f.names.Lock()
	defer f.names.Unlock()
	f.mu.Lock()
	again := f.entries[ref{e.id, e.key}] != nil
	f.mu.Unlock()
	if again {
		return
	}
	path := f.path(e)
	if err := os.Remove(path); err != nil && !errors.Is(err, fs.ErrNotExist) {
		f.failed("removing", err)
		return
	}
	if os.Remove(filepath.Dir(path)) == nil { // it fails where there are others
		_ = os.Remove(f.spacePath(e.id))
	}
}

// makeRoom evicts until a file of so many bytes fits, and reports whether it can.
func (f *Folder) makeRoom(size int64) bool {
	if size > f.o.Limit {
		return false
	}
	for {
		f.mu.Lock()
		if f.stats.Bytes+size <= f.o.Limit {
			f.mu.Unlock()
			return true
		}
		f.mu.Unlock()
		if _, ok := f.evict(); !ok {
			return false
		}
	}
}

// evict removes the least recently used block, if there is one, and returns how long its file was.
func (f *Folder) evict() (size int64, ok bool) {
	f.mu.Lock()
	at := f.lru.Front()
	if at == nil {
		f.mu.Unlock()
		return 0, false
	}
	e := at.Value.(*entry)
	f.drop(at)
	f.stats.Evicted++
	f.mu.Unlock()
	f.remove(e)
	return e.size, true
}
