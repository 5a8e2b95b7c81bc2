package library

import (
	"crypto/rand"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"time"

	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/scratch"
)

// Origin is where a model came from. It is stored with the model's files.
type Origin struct {
	// Source is a URL without secrets, or a path.
	Source string `json:"source"`
	// Revision is the commit of a hub's repository; empty elsewhere.
	Revision string `json:"revision,omitempty"`
	// Time is when the model was complete.
	Time time.Time `json:"time"`
	// SHA256 are the checksums of the received files, in hex, by path, as far as they were
	// computed.
	SHA256 map[string]string `json:"sha256,omitempty"`
}

// Stage is a model that is being assembled. Only one stage of an id is open at a time, across all
// processes. Its files outlive the process until Commit or Discard. A stage is not safe for
// concurrent use.
type Stage struct {
	lib  *Library
	id   ID
	at   string // slash-separated, from the models folder
	lock *os.File
	done bool
}

const (
	stageFiles = "files"
	stageWork  = "work"
)

// Stage opens the stage of a model, with the files that an earlier stage of the id has left. It
// fails with ErrExists if the id is taken and with ErrInUse while another stage of it is open. The
// caller must Close it.
func (l *Library) Stage(id ID) (*Stage, error) {
	if err := l.checkAvailable(id); err != nil {
		return nil, err
	}
	return l.openStage(id)
}

func (l *Library) openStage(id ID) (*Stage, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	if l.staged[id] {
		return nil, fmt.Errorf("model %s: %w: it is being fetched already", id, ErrInUse)
	}
	lock, err := l.lock(id, "fetch", true)
	if err != nil {
		return nil, err
	}
	s := &Stage{lib: l, id: id, at: path.Join(partialDir, id.fileName()), lock: lock}
	root, err := l.open()
	if err != nil {
		closeLock(lock)
		return nil, err
	}
	defer root.Close()
	l.sweep(root)
	for _, dir := range []string{stageFiles, stageWork} {
		if err := root.MkdirAll(path.Join(s.at, dir), 0o755); err != nil {
			closeLock(lock)
			return nil, fmt.Errorf("models folder: %w", err)
		}
	}
	l.staged[id] = true
	return s, nil
}

// ID is the id that the model will have.
func (s *Stage) ID() ID { return s.id }

// Limits are the library's.
func (s *Stage) Limits() Limits { return s.lib.limits }

// Files is the absolute path of the folder that becomes the model's.
func (s *Stage) Files() string { return filepath.Join(s.lib.dir, filepath.FromSlash(s.at), stageFiles) }

// Work is the absolute path of a folder for files that do not become part of the model.
func (s *Stage) Work() string { return filepath.Join(s.lib.dir, filepath.FromSlash(s.at), stageWork) }

// NeedSpace fails with ErrSpace if the disk has less than n bytes plus 1 % free. It never
// fails on systems that do not report free space.
func (s *Stage) NeedSpace(n int64) error { return s.lib.needSpace(n) }

func (l *Library) needSpace(n int64) error {
	free, ok := l.space(l.dir)
	if ok && n+n/100 > free {
		return fmt.Errorf("%w: %d bytes are needed in %s, %d are free", ErrSpace, n, l.dir, free)
	}
	return nil
}

// Commit checks that Files holds a checkpoint that can be served, makes it the model and
// closes the stage. After an error the stage is still open and its files are unchanged.
func (s *Stage) Commit(o Origin) (Model, error) {
	m, err := s.lib.install(s.id, path.Join(s.at, stageFiles), o)
	if err != nil {
		return Model{}, err
	}
	return m, s.Discard()
}

// Close closes the stage and keeps its files for a later one. It does nothing after an
// earlier Close, Commit or Discard.
func (s *Stage) Close() error {
	s.lib.mu.Lock()
	defer s.lib.mu.Unlock()
	if s.done { // another stage of the id may be open by now
		return nil
	}
	s.done = true
	delete(s.lib.staged, s.id)
	closeLock(s.lock)
	return nil
}

// Discard removes the stage's files and closes it.
func (s *Stage) Discard() error {
	root, err := s.lib.open()
	if err == nil {
		err = root.RemoveAll(s.at)
		root.Close()
	}
	return errors.Join(err, s.Close())
}

// Partial returns how many bytes an interrupted fetch of a model has left; 0 if there was none.
func (l *Library) Partial(id ID) int64 {
	var sum int64
	// Unreadable files are not counted; the next fetch reports the error.
	_ = filepath.WalkDir(filepath.Join(l.dir, filepath.FromSlash(partialDir), id.fileName()),
		func(_ string, d fs.DirEntry, err error) error {
			if err == nil && d.Type().IsRegular() {
				if st, err := d.Info(); err == nil {
					sum += st.Size()
				}
			}
			return nil
		})
	return sum
}

// discardPartial removes what an interrupted fetch has left.
func (l *Library) discardPartial(id ID) (had bool, err error) {
	if _, err := os.Stat(filepath.Join(l.dir, filepath.FromSlash(partialDir), id.fileName())); notExist(err) {
		return false, nil
	}
	s, err := l.openStage(id)
	if err != nil {
		return false, err
	}
	return true, s.Discard()
}

// install checks the files at a slash-separated path of the models folder and moves them to
// the model's folder.
func (l *Library) install(id ID, files string, o Origin) (Model, error) {
	if err := Check(filepath.Join(l.dir, filepath.FromSlash(files))); err != nil {
		return Model{}, err
	}
	root, err := l.open()
	if err != nil {
		return Model{}, err
	}
	defer root.Close()
	o.Time = time.Now().UTC().Truncate(time.Second)
	data, err := json.Marshal(o)
	if err != nil {
		return Model{}, err
	}
	if err := writeFile(root, path.Join(files, originFile), append(data, '\n')); err != nil {
		return Model{}, err
	}
	if err := syncAll(root, files); err != nil {
		return Model{}, err
	}
	l.mu.Lock()
	defer l.mu.Unlock()
	if err := l.checkAvailable(id); err != nil {
		return Model{}, err
	}
	if up := path.Dir(string(id)); up != "." {
		if err := root.MkdirAll(up, 0o755); err != nil {
			return Model{}, fmt.Errorf("model %s: %w", id, err)
		}
	}
	if st, err := root.Lstat(id.path()); err == nil && st.IsDir() {
		if err := root.Remove(id.path()); err != nil { // empty, or checkAvailable would have failed
			return Model{}, fmt.Errorf("model %s: %w: %v", id, ErrExists, err)
		}
	}
	if err := root.Rename(files, id.path()); err != nil {
		return Model{}, fmt.Errorf("model %s: %w", id, err)
	}
	syncDir(root, path.Dir(string(id)))
	delete(l.infos, id)
	return l.model(id), nil
}

// Check reads a folder as serving does: its JSON files and the headers of its weights. Its
// errors wrap ErrUnusable and name file and reason.
func Check(dir string) error {
	if IsAdapter(dir) {
		return checkAdapter(dir)
	}
	ck, err := hf.Describe(dir)
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	if ck.Ready != nil { // which were described by reading them
		return nil
	}
	if err := ck.OpenWeights(hf.FS(dir)); err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return ck.Close()
}

// IsAdapter reports whether a folder holds an adapter, and no model.
func IsAdapter(dir string) bool {
	_, config := os.Stat(filepath.Join(dir, hf.ConfigFile))
	_, adapter := os.Stat(filepath.Join(dir, hf.AdapterConfigFile))
	return config != nil && adapter == nil
}

// checkAdapter is Check for an adapter. Whether it fits its model shows when that loads it.
func checkAdapter(dir string) error {
	data, err := os.ReadFile(filepath.Join(dir, hf.AdapterConfigFile))
	if err == nil {
		_, err = hf.ParseAdapterConfig(data)
	}
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	set, err := safetensors.OpenFile(filepath.Join(dir, hf.AdapterFile))
	if err != nil {
		return fmt.Errorf("%w: %w", ErrUnusable, err)
	}
	return set.Close()
}

// Sweep removes the remains of interrupted imports and deletions. It leaves those in
// progress, in any process, and fetches, which can be resumed.
func (l *Library) Sweep() {
	if root, err := os.OpenRoot(l.dir); err == nil {
		l.sweep(root)
		root.Close()
	}
}

func (l *Library) sweep(root *os.Root) {
	entries, err := fs.ReadDir(root.FS(), tempDir)
	if err != nil {
		return
	}
	for _, e := range entries {
		at := path.Join(tempDir, e.Name())
		if scratch.Abandoned(filepath.Join(l.dir, filepath.FromSlash(at))) {
			// The next sweep tries again.
			_ = root.RemoveAll(at)
		}
	}
}

// makeTemp creates a folder under tempDir and returns its path and a function that removes it.
func (l *Library) makeTemp(root *os.Root, what string) (at string, remove func(), err error) {
	at = path.Join(tempDir, what+"-"+rand.Text())
	if err := root.MkdirAll(at, 0o755); err != nil {
		return "", nil, fmt.Errorf("models folder: %w", err)
	}
	release := scratch.Claim(filepath.Join(l.dir, filepath.FromSlash(at)))
	return at, func() {
		_ = root.RemoveAll(at) // or the next sweep does
		release()
	}, nil
}

func writeFile(root *os.Root, name string, data []byte) error {
	f, err := root.Create(name)
	if err != nil {
		return fmt.Errorf("models folder: %w", err)
	}
	_, err = f.Write(data)
	return wrapNoSpace(errors.Join(err, f.Close()))
}

// syncAll flushes a folder's files and names to the disk.
func syncAll(root *os.Root, dir string) error {
	return fs.WalkDir(root.FS(), dir, func(name string, d fs.DirEntry, err error) error {
		if err != nil {
			return err
		}
		if d.IsDir() {
			syncDir(root, name)
			return nil
		}
		f, err := root.OpenFile(name, os.O_RDWR, 0)
		if err != nil {
			return err
		}
		return wrapNoSpace(errors.Join(f.Sync(), f.Close()))
	})
}

// syncDir flushes a folder's names to the disk, if the system can.
func syncDir(root *os.Root, dir string) {
	if f, err := root.Open(dir); err == nil {
		f.Sync()
		f.Close()
	}
}
