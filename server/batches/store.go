// Package batches keeps files of clients and runs batches of requests that are in them.
//
// A Store has a folder: OWNER/ID.json describes a file or a batch, OWNER/ID.data is a file, OWNER/ID.journal the
// results of a batch that runs. Descriptions are replaced whole. A journal is appended to, one record for each line of
// the input that was answered; a record that was torn is cut off when the folder is opened again. So a line whose
// answer was kept is not run again, and one whose answer was not is: each has one result.
//
// Each owner with batches to run has a goroutine, which runs them in their order, and each line that is being answered
// has one. Close ends them.
//
// Locks: an owner's writing, then a run's mu, then Store.mu, beneath which nothing waits for the disk to have what was
// written.
package batches

import (
	"context"
	"crypto/rand"
	"encoding/base32"
	"encoding/binary"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"time"

	"tgi/runtime/regular"
)

// Errors of a Store.
var (
	// ErrNotFound: the owner has no such file or batch.
	ErrNotFound = errors.New("not found")
	// ErrInvalid: the request is wrong, and its text says how.
	ErrInvalid = errors.New("invalid request")
	// ErrConflict: the state forbids it.
	ErrConflict = errors.New("conflict")
	// ErrTooLarge: the file is.
	ErrTooLarge = errors.New("the file is too large")
	// ErrQuota: there is no room, of the owner's, of all, or on the disk.
	ErrQuota = errors.New("no room")
	// ErrStopping: the server shuts down.
	ErrStopping = errors.New("the server is shutting down")
	// ErrInUse: another process has the folder open.
	ErrInUse = errors.New("another process uses it")
	// ErrKeyGone: no key of the settings is the one that the batch is of.
	ErrKeyGone = errors.New("the key of the batch is no longer among the settings")
)

// Limits bound a Store.
type Limits struct {
	// Storage bounds the bytes of all files, OwnerStorage those of one owner.
	Storage, OwnerStorage int64
	// MaxFile bounds one file, MaxLine one line of it, MaxResult one answer, in bytes.
	MaxFile            int64
	MaxLine, MaxResult int
	// MaxLines bounds the lines of a batch, MaxBatches the batches of one owner that are not over.
	MaxLines, MaxBatches int
	// Lines is how many are answered at the same time.
	Lines int
	// Keep is how long files, and batches that are over, are kept.
	Keep time.Duration
}

// entryBytes is what a file or a batch counts for beside its bytes: it takes memory and room in the folder, however
// small it is.
const entryBytes = 16 << 10

// Reply is the answer to a line.
type Reply struct {
	Status    int
	RequestID string
	Body      []byte
	// RetryAfter is when to ask again, if the header says so.
	RetryAfter time.Duration
}

// Do answers a line of an owner's batch. Errors are ErrStopping, ErrKeyGone and the context's.
type Do func(ctx context.Context, owner, path string, body []byte) (Reply, error)

// Store keeps files and batches. It is safe for concurrent use.
type Store struct {
	folder string
	limits Limits
	do     Do
	log    *slog.Logger
	lock   *os.File
	done   chan struct{} // closed by Close
	slots  chan struct{}
	work   sync.WaitGroup

	mu     sync.Mutex
	owners map[string]*owner
	used   int64
	closed bool
	turns  func(owner string, f func()) // nil where the processors are not shared
}

// owner is one owner's.
type owner struct {
	name    string
	used    int64
	files   map[string]*File
	batches map[string]*Batch
	running *run // the batch that runs
	works   bool // a goroutine runs its batches

	// writing is held while descriptions of batches change: so they are written in the order of the changes, and only
	// their owner waits for the disk.
	writing sync.Mutex
	making  *Batch // whose description is being written for the first time
}

// empty reports whether the owner has nothing. The store's mu is held.
func (o *owner) empty() bool {
	return len(o.files)+len(o.batches) == 0 && o.used == 0 && !o.works && o.making == nil
}

// Open opens a folder, which it makes, and goes on with its batches. No other process may have it open.
func Open(folder string, l Limits, do Do, log *slog.Logger) (*Store, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("batches: %w", err)
	}
	lock, err := regular.Open(filepath.Join(folder, "lock"), os.O_CREATE|os.O_RDWR|regular.NoLink)
	if err != nil {
		return nil, fmt.Errorf("batches: %w", err)
	}
	if err := syscall.Flock(int(lock.Fd()), syscall.LOCK_EX|syscall.LOCK_NB); err != nil {
		if errors.Is(err, syscall.EWOULDBLOCK) {
			err = ErrInUse
		}
		return nil, errors.Join(fmt.Errorf("batches: %s: %w", folder, err), lock.Close())
	}
	s := &Store{folder: folder, limits: l, do: do, log: log, lock: lock, slots: make(chan struct{}, l.Lines),
		owners: map[string]*owner{}, done: make(chan struct{})}
	if err := s.load(); err != nil {
		return nil, errors.Join(err, lock.Close())
	}
	s.mu.Lock()
	defer s.mu.Unlock()
	for _, o := range s.owners {
		s.startWork(o)
	}
	s.work.Go(s.sweep)
	return s, nil
}

// Close ends what runs, which goes on when the folder is opened again. It may be called more than once.
func (s *Store) Close() error {
	s.mu.Lock()
	if !s.closed {
		s.closed = true
		close(s.done)
	}
	for _, o := range s.owners {
		if o.running != nil {
			o.running.cancel(ErrStopping)
		}
	}
	s.mu.Unlock()
	s.work.Wait()
	if err := s.lock.Close(); !errors.Is(err, os.ErrClosed) {
		return err
	}
	return nil
}

var (
	ownerName = regexp.MustCompile(`^[0-9a-f]{64}$`)
	fileID    = regexp.MustCompile(`^file-[0-9A-Z]{26}$`)
	batchID   = regexp.MustCompile(`^batch_[0-9A-Z]{26}$`)
)

// Endings of files in an owner's folder.
const (
	jsonExt    = ".json"
	dataExt    = ".data"
	journalExt = ".journal"
	tempExt    = ".tmp"
)

// load reads the folder. Files without a description, of a process that was killed before it wrote one, are removed,
// and journals of batches that are over.
func (s *Store) load() error {
	entries, err := os.ReadDir(s.folder)
	if err != nil {
		return fmt.Errorf("batches: %w", err)
	}
	for _, e := range entries {
		if e.IsDir() && ownerName.MatchString(e.Name()) {
			if err := s.loadOwner(e.Name()); err != nil {
				return fmt.Errorf("batches: %w", err)
			}
		}
	}
	return nil
}

// loadOwner reads an owner's folder.
func (s *Store) loadOwner(name string) error {
	o := s.owner(name)
	entries, err := os.ReadDir(s.path(name, ""))
	if err != nil {
		return err
	}
	for _, e := range entries {
		id, ok := strings.CutSuffix(e.Name(), jsonExt)
		var wrong error
		switch {
		case ok && fileID.MatchString(id):
			f := &File{}
			if wrong = s.read(name, id, f); wrong == nil && f.ID == id {
				o.files[id] = f
			}
		case ok && batchID.MatchString(id):
			b := &Batch{}
			if wrong = s.read(name, id, b); wrong == nil && b.ID == id {
				o.batches[id] = b
			}
		}
		if wrong != nil { // it stays where it is
			s.log.Error("batches: a description can't be read", "owner", name, "id", id, "error", wrong)
		}
	}
	for _, e := range entries {
		id, ext := strings.TrimSuffix(e.Name(), filepath.Ext(e.Name())), filepath.Ext(e.Name())
		_, described := os.Stat(s.path(name, id+jsonExt))
		b := o.batches[id]
		if ext == tempExt || (ext == dataExt || ext == journalExt) && errors.Is(described, fs.ErrNotExist) ||
			ext == journalExt && b != nil && b.over() {
			_ = os.Remove(s.path(name, e.Name()))
		}
	}
	for id, f := range o.files {
		info, err := os.Stat(s.path(name, id+dataExt))
		if err != nil || info.Size() != f.Bytes {
			s.log.Error("batches: a file is not what its description says", "owner", name, "id", id, "error", err)
		}
		s.charge(o, f.Bytes+entryBytes)
	}
	s.charge(o, int64(len(o.batches))*entryBytes)
	return nil
}

// owner returns an owner's part. mu is held, or nobody else has the store.
func (s *Store) owner(name string) *owner {
	o := s.owners[name]
	if o == nil {
		o = &owner{name: name, files: map[string]*File{}, batches: map[string]*Batch{}}
		s.owners[name] = o
	}
	return o
}

// charge counts bytes. mu is held, or nobody else has the store.
func (s *Store) charge(o *owner, n int64) {
	o.used += n
	s.used += n
}

// take takes room for n bytes, or fails with ErrQuota.
func (s *Store) take(o *owner, n int64) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	if err := s.room(o.used, n); err != nil {
		return err
	}
	s.charge(o, n)
	return nil
}

// room fails with ErrQuota if an owner who has used so many bytes can't have n more. mu is held.
func (s *Store) room(used, n int64) error {
	switch {
	case used+n > s.limits.OwnerStorage:
		return fmt.Errorf("%w: files and batches of this key may have %d bytes together (batches.key_storage), they have %d",
			ErrQuota, s.limits.OwnerStorage, used)
	case s.used+n > s.limits.Storage:
		return fmt.Errorf("%w: files and batches of all keys may have %d bytes together (batches.storage)", ErrQuota,
			s.limits.Storage)
	}
	return nil
}

// give gives room back.
func (s *Store) give(o *owner, n int64) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge(o, -n)
}

// stopping reports whether the store is being closed.
func (s *Store) stopping() bool {
	select {
	case <-s.done:
		return true
	default:
		return false
	}
}

// path returns where a file of an owner is. Both names are of this package's own making, or were matched.
func (s *Store) path(owner, name string) string { return filepath.Join(s.folder, owner, name) }

// lastID is when the newest id was made, in microseconds since 1970.
var lastID atomic.Int64

// newID returns an id that nobody can guess. Ids of this process sort as they were made: lists, and which batch comes
// next, have the order of a second's files by it.
func newID(prefix string) string {
	var made [16]byte // 9 of them by chance
	for {
		last := lastID.Load()
		next := max(time.Now().UnixMicro(), last+1)
		if lastID.CompareAndSwap(last, next) {
			binary.BigEndian.PutUint64(made[:], uint64(next)<<8)
			break
		}
	}
	_, _ = rand.Read(made[7:]) // it never fails
	return prefix + base32.HexEncoding.WithPadding(base32.NoPadding).EncodeToString(made[:])
}

// disk says what is wrong with the disk: one that is full is ErrQuota.
func disk(err error) error {
	if errors.Is(err, syscall.ENOSPC) || errors.Is(err, syscall.EDQUOT) {
		return fmt.Errorf("%w: the disk of batches.folder is full", ErrQuota)
	}
	return err
}

// sweepEvery is how often files that have expired are looked for.
const sweepEvery = time.Hour

// sweep removes what has expired, until the store is closed.
func (s *Store) sweep() {
	tick := time.NewTicker(sweepEvery)
	defer tick.Stop()
	for {
		s.expire(time.Now())
		select {
		case <-s.done:
			return
		case <-tick.C:
		}
	}
}

// expire removes files and batches whose time is over, and owners who have none.
func (s *Store) expire(now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for name, o := range s.owners {
		for id, f := range o.files {
			if f.ExpiresAt != nil && *f.ExpiresAt <= now.Unix() && o.user(id) == nil {
				s.remove(o, f)
			}
		}
		for id, b := range o.batches {
			if b.over() && b.endedAt()+int64(s.limits.Keep.Seconds()) <= now.Unix() {
				_ = os.Remove(s.path(o.name, id+jsonExt))
				s.forget(o, b)
				delete(o.batches, id)
				s.charge(o, -entryBytes)
			}
		}
		if o.empty() {
			delete(s.owners, name)
			_ = os.Remove(s.path(name, "")) // it stays while something is in it that can't be read
		}
	}
}

// page returns what follows the entry after in a list of at most limit, and whether there is more.
func page[T any](list []T, id func(T) string, after string, limit int) (out []T, more bool, err error) {
	if after != "" {
		i := slices.IndexFunc(list, func(t T) bool { return id(t) == after })
		if i < 0 {
			return nil, false, fmt.Errorf("%w: `after` is none of the list: %.64q", ErrInvalid, after)
		}
		list = list[i+1:]
	}
	return list[:min(limit, len(list))], len(list) > limit, nil
}
