package kvdisk

import (
	"container/list"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"sync"
	"time"

	"tgi/runtime/kv"
	"tgi/runtime/regular"
)

// ErrInUse says that another process has the folder.
var ErrInUse = errors.New("another process uses it")

// ID names a space: a sum of all that the bits of its blocks depend on.
type ID [32]byte

// Options describe a folder.
type Options struct {
	// Path is the folder, which is made if it is not there.
	Path string
	// Limit bounds the bytes of all files; >= 1.
	Limit int64
	// Log is told what goes wrong, at most once a minute; nil for nobody.
	Log func(text string)
}

// Folder holds the blocks of all models of a process.
type Folder struct {
	o    Options
	lock *os.File
	jobs chan job
	done chan struct{} // closed by Close
	end  sync.WaitGroup

	mu      sync.Mutex
	entries map[ref]*list.Element
	lru     list.List // of *entry, least recently used first
	touched map[ref]bool
	writing map[ref]bool // what is in jobs
	stats   Stats
	told    time.Time // when Log was told
	resume  time.Time // nothing is written before
	// In these folders nothing is written before these times, since something odd is there.
	odd    map[string]time.Time
	fail   int // writes that failed in a row, each in another folder
	closed bool
	temp   uint64

	// names is held, before mu, while a file gets or loses its name: a block's folder must not be removed as empty
	// before its file is there, nor a file that was written again.
	names sync.Mutex

	fill func(f *os.File, id ID, b kv.Block, data []byte) error // write; tests have disks that are full
}

// Stats are what a folder holds and did.
type Stats struct {
	// Bytes and Blocks are there, Limit bytes may be.
	Bytes, Limit, Blocks int64
	// Read and Written count blocks, Evicted those that were removed to make room.
	Read, Written, Evicted int64
	// Damaged counts files that were not what was written, Errors what else went wrong, Dropped blocks that were not
	// written since the disk was behind.
	Damaged, Errors, Dropped int64
}

// job is a block to write.
type job struct {
	space *Space
	block kv.Block
	data  []byte
}

const (
	// waiting bounds the blocks that wait to be written, of all models; their memory is bounded by each space.
	waiting = 64
	// pause is how long nothing is written where it failed: anywhere after the disk was full or so many writes in a row
	// failed, otherwise in the folder where something is in the way.
	pause    = time.Minute
	failMost = 4
	// slack is what a disk that is full may take for a block beside its bytes: the ends of files, and folders.
	slack = 16 << 10
	// touchEvery is how often the times of files that were used are written down.
	touchEvery = time.Minute
)

// Open opens a folder. The error wraps ErrInUse if another process has it.
func Open(o Options) (*Folder, error) {
	if o.Limit < 1 {
		return nil, fmt.Errorf("kvdisk: the limit must be at least one byte, got %d", o.Limit)
	}
	path, err := filepath.Abs(o.Path)
	if err == nil {
		o.Path, err = path, os.MkdirAll(path, 0o700)
	}
	if err != nil {
		return nil, fmt.Errorf("kvdisk: %w", err)
	}
	if st, err := os.Stat(path); err != nil {
		return nil, fmt.Errorf("kvdisk: %w", err)
	} else if mode := st.Mode().Perm(); mode&0o022 != 0 {
		return nil, fmt.Errorf("kvdisk: others may write to %s (mode %#o); chmod it to 0700, or name a folder in it",
			path, mode)
	}
	lock, err := regular.Open(filepath.Join(path, lockName), os.O_CREATE|os.O_RDWR|regular.NoLink)
	if err != nil {
		return nil, fmt.Errorf("kvdisk: %w", err)
	}
	ok, err := flock(lock)
	if err == nil && !ok {
		err = fmt.Errorf("%s: %w", path, ErrInUse)
	}
	f := &Folder{o: o, lock: lock, jobs: make(chan job, waiting), done: make(chan struct{}),
		entries: map[ref]*list.Element{}, touched: map[ref]bool{}, writing: map[ref]bool{}, odd: map[string]time.Time{},
		fill: write}
	if err == nil {
		err = f.scan()
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("kvdisk: %w", err), lock.Close())
	}
	f.makeRoom(0)
	f.end.Go(f.write)
	return f, nil
}

// Stats returns what the folder holds and did since it was opened.
func (f *Folder) Stats() Stats {
	f.mu.Lock()
	defer f.mu.Unlock()
	s := f.stats
	s.Limit = f.o.Limit
	return s
}

// Path returns the folder's absolute path.
func (f *Folder) Path() string { return f.o.Path }

// Close writes what waits and gives the folder up. Nobody may use its spaces any more. It may be called twice, and on
// nil.
func (f *Folder) Close() error {
	if f == nil {
		return nil
	}
	f.mu.Lock()
	if f.closed {
		f.mu.Unlock()
		return nil
	}
	f.closed = true
	close(f.done)
	f.mu.Unlock()
	f.end.Wait()
	return f.lock.Close()
}

// write writes blocks until the folder is closed, and then those that wait.
func (f *Folder) write() {
	tick := time.NewTicker(touchEvery)
	defer tick.Stop()
	for {
		select {
		case j := <-f.jobs:
			f.writeOne(j)
		case <-tick.C:
			f.saveTouched()
		case <-f.done:
			for {
				select {
				case j := <-f.jobs:
					f.writeOne(j)
				default:
					f.saveTouched()
					return
				}
			}
		}
	}
}

// enqueue hands a job to the writer, unless its block is there or the writer is behind.
func (f *Folder) enqueue(j job) bool {
	k := ref{j.space.id, j.block.Key}
	f.mu.Lock()
	defer f.mu.Unlock()
	if f.entries[k] != nil || f.writing[k] || f.closed {
		return false
	}
	select {
	case f.jobs <- j:
		f.writing[k] = true
		return true
	default:
		f.stats.Dropped++
		return false
	}
}

// writeOne writes a block, after it made room.
func (f *Folder) writeOne(j job) {
	k := ref{j.space.id, j.block.Key}
	defer func() {
		f.mu.Lock()
		delete(f.writing, k)
		f.mu.Unlock()
		j.space.written(j.data)
	}()
	now := time.Now()
	e := &entry{id: j.space.id, key: j.block.Key, depth: j.block.Depth, used: now, saved: now,
		size: fileBytes(len(j.block.Source), len(j.data))}
	f.mu.Lock()
	f.temp++
	name, paused := tempPrefix+strconv.FormatUint(f.temp, 10), f.pausedAt(e, now)
	f.mu.Unlock()
	if paused || !f.makeRoom(e.size) {
		f.count(func(s *Stats) { s.Dropped++ })
		return
	}
	err := f.store(e, name, j)
	for freed := int64(0); full(err) && freed < e.size+slack; { // as others fill the disk, too, more would not help
		n, ok := f.evict()
		if !ok {
			break
		}
		if freed += n; freed >= e.size {
			err = f.store(e, name, j)
		}
	}
	if err != nil {
		f.failed("writing", err)
		f.pauseAfter(e, now, err)
		return
	}
	f.mu.Lock()
	f.fail = 0
	for _, dir := range f.foldersOf(e) {
		delete(f.odd, dir)
	}
	f.mu.Unlock()
}

// store writes a block's file and gives it its name, or leaves nothing.
func (f *Folder) store(e *entry, name string, j job) error {
	temp, err := f.create(e, name)
	if err != nil {
		return err
	}
	if err = f.fill(temp, e.id, j.block, j.data); err == nil {
		err = f.publish(e, temp.Name())
	}
	if err != nil {
		err = errors.Join(err, os.Remove(temp.Name()))
	}
	return err
}

// pausedAt reports whether nothing is written now where an entry's file belongs. f.mu is held.
func (f *Folder) pausedAt(e *entry, now time.Time) bool {
	return now.Before(f.resume) || slices.ContainsFunc(f.foldersOf(e), func(dir string) bool {
		return now.Before(f.odd[dir])
	})
}

// foldersOf lists the folders that an entry's file is in, of those that something may be in the way of.
func (f *Folder) foldersOf(e *entry) []string {
	return []string{f.spacePath(e.id), filepath.Dir(f.path(e))}
}

// pauseAfter decides by the error of a write where nothing is written for a while.
func (f *Folder) pauseAfter(e *entry, now time.Time, err error) {
	space := f.spacePath(e.id)
	at, stat := os.Lstat(space)
	f.mu.Lock()
	defer f.mu.Unlock()
	switch f.fail++; {
	case full(err) || f.fail == failMost:
		f.fail, f.resume = 0, now.Add(pause)
	case stat == nil && !at.IsDir():
		f.odd[space] = now.Add(pause)
	default:
		f.odd[filepath.Dir(f.path(e))] = now.Add(pause)
	}
}

// create makes a new file beside an entry's own, and the folders that it needs.
func (f *Folder) create(e *entry, name string) (*os.File, error) {
	f.names.Lock()
	defer f.names.Unlock()
	dir := filepath.Dir(f.path(e))
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return os.OpenFile(filepath.Join(dir, name), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
}

// publish gives a file that is written its name, and its block an entry.
func (f *Folder) publish(e *entry, temp string) error {
	f.names.Lock()
	defer f.names.Unlock()
	if err := os.Rename(temp, f.path(e)); err != nil {
		return err
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.put(e)
	f.stats.Written++
	return nil
}

// saveTouched writes down when files were used, for later processes.
func (f *Folder) saveTouched() {
	f.mu.Lock()
	var list []entry
	for k := range f.touched {
		if at := f.entries[k]; at != nil {
			e := at.Value.(*entry)
			e.saved = e.used
			list = append(list, *e)
		}
	}
	clear(f.touched)
	f.mu.Unlock()
	for i := range list { // an evicted one has none
		_ = os.Chtimes(f.path(&list[i]), list[i].used, list[i].used)
	}
}

// count changes the statistics.
func (f *Folder) count(change func(*Stats)) {
	f.mu.Lock()
	defer f.mu.Unlock()
	change(&f.stats)
}

// failed counts an error and tells of it, at most once a minute.
func (f *Folder) failed(doing string, err error) {
	f.mu.Lock()
	f.stats.Errors++
	tell := time.Since(f.told) > time.Minute
	if tell {
		f.told = time.Now()
	}
	f.mu.Unlock()
	if tell && f.o.Log != nil {
		f.o.Log(fmt.Sprintf("kv_disk: %s failed: %v", doing, err))
	}
}
