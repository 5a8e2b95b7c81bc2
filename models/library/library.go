package library

import (
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"tgi/models/gguf"
	"tgi/models/hf"
	"tgi/models/ready"
	"tgi/models/safetensors"
)

// Names in the models folder.
const (
	privateDir = ".tgi"
	partialDir = privateDir + "/partial"
	tempDir    = privateDir + "/temp"
	locksDir   = privateDir + "/locks"
	originFile = ".origin.json"
)

// Limits limit the size of one model. They apply to imports and fetches, not to folders
// made by hand.
type Limits struct {
	// MaxBytes is the size of all files together, unpacked.
	MaxBytes int64
	// MaxFiles is their number.
	MaxFiles int
}

// DefaultLimits are 1 TiB and 2000 files, about the size of the largest public checkpoints.
func DefaultLimits() Limits { return Limits{MaxBytes: 1 << 40, MaxFiles: 2000} }

// Declared is a model that the configuration names. It is listed with the others and
// cannot be deleted.
type Declared struct {
	ID ID
	// Dir is the checkpoint's folder, or its file in the GGUF format; empty if FS holds the checkpoint.
	Dir string
	// FS is an embedded checkpoint; nil if Dir is set.
	FS fs.FS
}

// Options of Open.
type Options struct {
	// Dir is the models folder. It is created when the first model is added.
	Dir string
	// Limits of imports and downloads; the zero value is DefaultLimits.
	Limits Limits
	// Declared are the models of the configuration. They hide folders with the same id.
	Declared []Declared
}

// Library is an open models folder. Its methods are safe for concurrent use.
type Library struct {
	dir    string
	limits Limits
	// declared is replaced as a whole.
	declared atomic.Pointer[map[ID]Declared]
	// space returns the free bytes of the disk; tests replace it.
	space func(dir string) (int64, bool)

	mu      sync.Mutex
	holders map[ID]int  // holders in this process
	staged  map[ID]bool // stages that are open in this process
	infos   map[ID]cachedInfo
}

// Model is one model of a library.
type Model struct {
	ID ID
	// Dir is the checkpoint's folder, absolute; empty for an embedded one.
	Dir string
	// FS holds the checkpoint's files; a view of Dir if that is set.
	FS fs.FS
	// Declared says that the configuration names the model.
	Declared bool
}

// Open opens a models folder. It does not access the disk.
func Open(opt Options) (*Library, error) {
	if opt.Dir == "" {
		return nil, errors.New("library: no models folder")
	}
	dir, err := filepath.Abs(opt.Dir)
	if err != nil {
		return nil, err
	}
	l := &Library{dir: dir, limits: opt.Limits, space: freeSpace,
		holders: map[ID]int{}, staged: map[ID]bool{}, infos: map[ID]cachedInfo{}}
	if l.limits == (Limits{}) {
		l.limits = DefaultLimits()
	}
	if l.limits.MaxBytes < 1 || l.limits.MaxFiles < 1 {
		return nil, fmt.Errorf("library: limits of %d bytes and %d files: want at least 1 of each", l.limits.MaxBytes,
			l.limits.MaxFiles)
	}
	if err := l.Declare(opt.Declared); err != nil {
		return nil, err
	}
	return l, nil
}

// Declare replaces the models of the configuration, for example after a reload. After an
// error they are unchanged.
func (l *Library) Declare(models []Declared) (err error) {
	declared := make(map[ID]Declared, len(models))
	for _, d := range models {
		if (d.Dir == "") == (d.FS == nil) {
			return fmt.Errorf("library: model %s: want either a folder or an embedded checkpoint", d.ID)
		}
		if _, twice := declared[d.ID]; twice {
			return fmt.Errorf("model %s: %w twice", d.ID, ErrDeclared)
		}
		if d.Dir != "" {
			if d.Dir, err = filepath.Abs(d.Dir); err != nil {
				return err
			}
			d.FS = hf.FS(d.Dir)
		}
		declared[d.ID] = d
	}
	l.declared.Store(&declared)
	return nil
}

// Dir is the models folder, absolute.
func (l *Library) Dir() string { return l.dir }

// Limits are those that the library was opened with.
func (l *Library) Limits() Limits { return l.limits }

// List returns all models in order of their ids: declared ones, folders that hold a configuration and weights or one
// file in the GGUF format, and other such files, whose ids are their paths without extension. Those whose path is not
// a valid id are left out. It reads folders but no files.
func (l *Library) List() ([]Model, error) {
	found := map[ID]Model{}
	for id, d := range *l.declared.Load() {
		found[id] = d.model()
	}
	if err := l.walk("", 1, found); err != nil {
		return nil, err
	}
	ids := slices.Sorted(maps.Keys(found))
	out := make([]Model, len(ids))
	for i, id := range ids {
		out[i] = found[id]
	}
	return out, nil
}

// walk looks for models below a slash-separated path of the folder. It does not search
// inside a model and follows links to models only, so it terminates.
func (l *Library) walk(at string, depth int, found map[ID]Model) error {
	entries, err := os.ReadDir(filepath.Join(l.dir, filepath.FromSlash(at)))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("models folder: %w", err)
	}
	for _, e := range entries {
		link := e.Type()&fs.ModeSymlink != 0
		name := e.Name()
		if _, first := gguf.Parts(name); first && !e.IsDir() && hf.IsGGUF(name) {
			name = ggufStem(name)
		} else if !e.IsDir() && !link {
			continue
		}
		name = path.Join(at, name)
		id, err := ParseID(name)
		if err != nil {
			continue
		}
		m := l.model(id)
		if isCheckpoint(m.FS) {
			if _, hidden := found[id]; !hidden {
				found[id] = m
			}
			continue
		}
		if e.IsDir() && depth < maxIDParts {
			if err := l.walk(name, depth+1, found); err != nil {
				return err
			}
		}
	}
	return nil
}

// model returns the folder, or the file in the GGUF format, that has an id, whether it is a model or not.
func (l *Library) model(id ID) Model {
	dir := filepath.Join(l.dir, id.path())
	if file := ggufAt(dir); file != "" {
		return Model{ID: id, Dir: file, FS: hf.FS(file)}
	}
	return Model{ID: id, Dir: dir, FS: os.DirFS(dir)}
}

// ggufAt returns the file in the GGUF format, or the first of its parts, that has a path without its extension, if
// there is one and no folder of that path.
func ggufAt(at string) string {
	if st, err := os.Stat(at); err == nil && st.IsDir() {
		return ""
	}
	if st, err := os.Stat(at + gguf.Extension); err == nil && st.Mode().IsRegular() {
		return at + gguf.Extension
	}
	entries, err := os.ReadDir(filepath.Dir(at))
	if err != nil {
		return ""
	}
	for _, e := range entries {
		if names, first := gguf.Parts(e.Name()); first && len(names) > 1 && ggufStem(e.Name()) == filepath.Base(at) {
			return filepath.Join(filepath.Dir(at), e.Name())
		}
	}
	return ""
}

func (d Declared) model() Model { return Model{ID: d.ID, Dir: d.Dir, FS: d.FS, Declared: true} }

// Find returns one model. Its error wraps ErrNotFound.
func (l *Library) Find(id ID) (Model, error) {
	if d, ok := (*l.declared.Load())[id]; ok {
		return d.model(), nil
	}
	if m := l.model(id); isCheckpoint(m.FS) {
		return m, nil
	}
	return Model{}, fmt.Errorf("model %s: %w in %s", id, ErrNotFound, l.dir)
}

// Has reports whether Find would return the model.
func (l *Library) Has(id ID) bool { _, err := l.Find(id); return err == nil }

// isCheckpoint reports whether a folder looks like a model: it has a configuration and weights of a known format, or a
// file in the GGUF format. Check tells whether they can be served.
func isCheckpoint(fsys fs.FS) bool {
	is := func(name string) bool {
		st, err := fs.Stat(fsys, name)
		return err == nil && st.Mode().IsRegular()
	}
	if file, _ := hf.GGUF(fsys); file != "" { // of several, each is a model of its own
		return true
	}
	return is(hf.ConfigFile) && (is(safetensors.SingleFile) || is(safetensors.IndexFile)) || ready.Has(fsys)
}

// checkAvailable returns an error if a new model cannot get the id: the id is taken, or a
// model's folder would contain the other.
func (l *Library) checkAvailable(id ID) error {
	if _, ok := (*l.declared.Load())[id]; ok {
		return fmt.Errorf("model %s: %w", id, ErrDeclared)
	}
	parts := strings.Split(string(id), "/")
	for i := range parts {
		above := ID(strings.Join(parts[:i+1], "/"))
		if isCheckpoint(l.model(above).FS) {
			if above == id {
				return fmt.Errorf("model %s: %w", id, ErrExists)
			}
			return fmt.Errorf("model %s: %w: %s is a model, and no other lies inside it", id, ErrExists, above)
		}
	}
	entries, err := os.ReadDir(l.model(id).Dir)
	if err == nil && len(entries) > 0 {
		return fmt.Errorf("model %s: %w: the folder %s holds %d entries that are no model", id, ErrExists, id,
			len(entries))
	}
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return fmt.Errorf("model %s: %w: %v", id, ErrExists, err)
	}
	return nil
}

// open returns the folder as an os.Root, through which nothing outside it, links included,
// can be reached. The caller closes it.
func (l *Library) open() (*os.Root, error) {
	if err := os.MkdirAll(l.dir, 0o755); err != nil {
		return nil, fmt.Errorf("models folder: %w", err)
	}
	root, err := os.OpenRoot(l.dir)
	if err != nil {
		return nil, fmt.Errorf("models folder: %w", err)
	}
	return root, nil
}
