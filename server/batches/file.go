package batches

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"slices"
	"time"

	"tgi/runtime/regular"
	"tgi/server/wire"
)

// Purposes of files that are kept.
const (
	PurposeBatch  = "batch"
	PurposeOutput = "batch_output"
)

// File describes a file, as clients see it.
type File struct {
	ID        string `json:"id"`
	Object    string `json:"object"`
	Bytes     int64  `json:"bytes"`
	CreatedAt int64  `json:"created_at"`
	ExpiresAt *int64 `json:"expires_at"`
	Name      string `json:"filename"`
	Purpose   string `json:"purpose"`
	Status    string `json:"status"`
}

// Upload is a file that is being written. Close must be called; it removes what was not kept.
type Upload struct {
	store *Store
	owner *owner
	id    string
	file  *os.File
	bytes int64
	kept  bool
	err   error
}

// chunk is how much room an upload takes at a time.
const chunk = 64 << 10

// Begin begins a file of an owner.
func (s *Store) Begin(ownerName string) (*Upload, error) {
	o, err := s.begin(ownerName)
	if err != nil {
		return nil, err
	}
	u := &Upload{store: s, owner: o, id: newID("file-")}
	err = os.MkdirAll(s.path(ownerName, ""), 0o700)
	if err == nil {
		u.file, err = os.OpenFile(s.path(ownerName, u.id+tempExt), os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o600)
	}
	if err != nil {
		s.give(o, entryBytes)
		return nil, disk(err)
	}
	return u, nil
}

// begin takes room for a file and returns its owner: only one who has room is made.
func (s *Store) begin(ownerName string) (*owner, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if s.closed {
		return nil, ErrStopping
	}
	var used int64
	if o := s.owners[ownerName]; o != nil {
		used = o.used
	}
	if err := s.room(used, entryBytes); err != nil {
		return nil, err
	}
	o := s.owner(ownerName)
	s.charge(o, entryBytes)
	return o, nil
}

// Write implements io.Writer. Errors are ErrTooLarge, ErrQuota and those of the disk.
func (u *Upload) Write(p []byte) (int, error) {
	if u.err != nil {
		return 0, u.err
	}
	before, after := u.bytes, u.bytes+int64(len(p))
	if after > u.store.limits.MaxFile {
		u.err = fmt.Errorf("%w: it may have %d bytes (batches.max_file)", ErrTooLarge, u.store.limits.MaxFile)
		return 0, u.err
	}
	if more := chunks(after) - chunks(before); more > 0 {
		if u.err = u.store.take(u.owner, more); u.err != nil {
			return 0, u.err
		}
	}
	u.bytes = after
	n, err := u.file.Write(p)
	u.err = disk(err)
	return n, u.err
}

// chunks rounds up to what an upload takes.
func chunks(n int64) int64 { return (n + chunk - 1) / chunk * chunk }

// Keep keeps what was written as a file, for as long as keep, or as the store's limits say.
func (u *Upload) Keep(name, purpose string, keep time.Duration) (*File, error) {
	if u.err != nil {
		return nil, u.err
	}
	now := time.Now()
	end := now.Add(cmp.Or(keep, u.store.limits.Keep)).Unix()
	f := &File{ID: u.id, Object: "file", Bytes: u.bytes, CreatedAt: now.Unix(), ExpiresAt: &end, Name: name,
		Purpose: purpose, Status: "processed"}
	if err := u.store.publish(u.owner, u.file, f); err != nil {
		return nil, err
	}
	u.kept = true
	s := u.store
	s.mu.Lock()
	defer s.mu.Unlock()
	s.charge(u.owner, f.Bytes-chunks(f.Bytes))
	u.owner.files[f.ID] = f
	return f, nil
}

// publish gives a file that was written its name, and then its description.
func (s *Store) publish(o *owner, data *os.File, f *File) error {
	err := data.Sync()
	if err == nil {
		err = os.Rename(data.Name(), s.path(o.name, f.ID+dataExt))
	}
	if err == nil {
		err = s.write(o.name, f.ID, f)
	}
	return disk(err)
}

// Close removes what was not kept.
func (u *Upload) Close() {
	_ = u.file.Close()
	if u.kept {
		return
	}
	_ = os.Remove(u.store.path(u.owner.name, u.id+tempExt))
	_ = os.Remove(u.store.path(u.owner.name, u.id+dataExt))
	u.store.give(u.owner, entryBytes+chunks(u.bytes))
}

// write replaces a description.
func (s *Store) write(owner, id string, v any) error {
	text, err := json.Marshal(v)
	if err != nil {
		return err
	}
	path := s.path(owner, id+jsonExt)
	f, err := os.OpenFile(path+tempExt, os.O_CREATE|os.O_TRUNC|os.O_WRONLY, 0o600)
	if err != nil {
		return disk(err)
	}
	_, err = f.Write(append(text, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+tempExt, path)
	}
	if err == nil {
		err = syncFolder(s.path(owner, ""))
	}
	if err != nil {
		_ = os.Remove(path + tempExt)
	}
	return disk(err)
}

// syncFolder makes renames in a folder last.
func syncFolder(path string) error {
	d, err := os.Open(path)
	if err != nil {
		return err
	}
	return errors.Join(d.Sync(), d.Close())
}

// maxDescription bounds the description of a file or a batch, in bytes: the metadata of a batch and what is wrong with
// its lines are parts of it.
const maxDescription = 16 << 20

// read reads a description.
func (s *Store) read(owner, id string, v any) error {
	text, err := regular.Read(s.path(owner, id+jsonExt), regular.NoLink, maxDescription)
	if err != nil {
		return err
	}
	return wire.Told(json.Unmarshal(text, v))
}

// Files returns a page of an owner's files, of a purpose if that is not empty, the newest first unless ascending.
func (s *Store) Files(ownerName, purpose, after string, limit int, ascending bool) (list []File, more bool, err error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[ownerName]; o != nil {
		for _, f := range o.files {
			if purpose == "" || f.Purpose == purpose {
				list = append(list, *f)
			}
		}
	}
	slices.SortFunc(list, func(a, b File) int {
		n := cmp.Or(cmp.Compare(a.CreatedAt, b.CreatedAt), cmp.Compare(a.ID, b.ID))
		if !ascending {
			return -n
		}
		return n
	})
	return page(list, func(f File) string { return f.ID }, after, limit)
}

// File returns one of an owner's files.
func (s *Store) File(ownerName, id string) (File, error) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if o := s.owners[ownerName]; o != nil && o.files[id] != nil {
		return *o.files[id], nil
	}
	return File{}, fmt.Errorf("%w: no such file: %.64q", ErrNotFound, id)
}

// OpenFile opens one of an owner's files for reading.
func (s *Store) OpenFile(ownerName, id string) (*os.File, File, error) {
	f, err := s.File(ownerName, id)
	if err != nil {
		return nil, f, err
	}
	r, err := regular.Open(s.path(ownerName, f.ID+dataExt), os.O_RDONLY|regular.NoLink)
	return r, f, err
}

// DeleteFile removes one of an owner's files. It fails with ErrConflict while a batch needs it.
func (s *Store) DeleteFile(ownerName, id string) error {
	s.mu.Lock()
	defer s.mu.Unlock()
	o := s.owners[ownerName]
	if o == nil || o.files[id] == nil {
		return fmt.Errorf("%w: no such file: %.64q", ErrNotFound, id)
	}
	if b := o.user(id); b != nil {
		return fmt.Errorf("%w: batch %s, which is %s, needs the file: cancel it first", ErrConflict, b.ID, b.Status)
	}
	s.remove(o, o.files[id])
	return nil
}

// remove removes a file. mu is held.
func (s *Store) remove(o *owner, f *File) {
	_ = os.Remove(s.path(o.name, f.ID+jsonExt)) // without it the next start removes the rest
	_ = os.Remove(s.path(o.name, f.ID+dataExt))
	delete(o.files, f.ID)
	s.charge(o, -f.Bytes-entryBytes)
}

// user returns a batch that is not over and reads or writes a file, nil if there is none. mu is held.
func (o *owner) user(id string) *Batch {
	if o.making != nil && o.making.InputFile == id {
		return o.making
	}
	for _, b := range o.batches {
		if !b.over() && (b.InputFile == id || b.outputID() == id || b.errorID() == id) {
			return b
		}
	}
	return nil
}
