package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"
	"syscall"

	"golang.org/x/sys/cpu"

	"tgi/plugins/internal/sandbox/rewrite"
)

// The cache of compiled modules has a folder for each module, named by its key. In it are the engine's file, what the
// engine and the host have to know of the module beside its machine code, and a manifest that names these files with
// their lengths and SHA-256. What is in the engine's file is run as it is, so nothing is used that does not agree with
// the manifest. A folder comes to its name whole, by renaming.
//
// So a module that was compiled before is neither rewritten nor checked again: that takes ten times as long as reading
// its machine code.

// stagingPrefix begins the name of a folder that is being filled. Its process holds a lock on it.
const stagingPrefix = "tgi-compile-"

// The files of a folder beside the engine's. The manifest is written last.
const (
	hollowFile   = "hollow.wasm" // the module without code and data, as the engine reads it
	dataFile     = "data.bin"    // the data segments that it lacks
	infoFile     = "info.json"   // what the rewriter said of the module
	manifestFile = "manifest.json"
)

// manifest describes the files of one module, by their paths in its folder.
type manifest map[string]sealed

// sealed is how a file was when it was written.
type sealed struct {
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
}

// entry is what the cache has of a module beside its machine code.
type entry struct {
	path         string
	hollow, data []byte
	info         *rewrite.Info
}

// foundVersion is the engine's version as it finds it in this program's build information. It looks for compiled
// modules under it, so what a program with another, such as a test, has left is of no use.
var foundVersion = sync.OnceValue(func() string {
	info, _ := debug.ReadBuildInfo()
	return versionIn(info)
})

// versionIn looks for the engine's version as the engine does.
func versionIn(info *debug.BuildInfo) string {
	const unknown = "dev"
	if info == nil {
		return unknown
	}
	version := info.Main.Version
	for _, dep := range info.Deps {
		if strings.Contains(dep.Path, "github.com/tetratelabs/wazero") && dep.Version != "" &&
			dep.Version != "(devel)" {
			version = dep.Version
		}
	}
	if version == "" || version == "(devel)" {
		return unknown
	}
	return version
}

// keyOf names a compiled module: by all that the machine code, and where the engine looks for it, depend on. The
// rewriter's fingerprint is in the name of the cache's folder.
func keyOf(key compiledKey) string {
	h := sha256.New()
	version := engineVersion
	if found := foundVersion(); found != version {
		version += " as " + found
	}
	fmt.Fprintf(h, "hollow, data apart %s %s %s %+v %+v\n", version, runtime.GOOS, runtime.GOARCH, cpu.X86, cpu.ARM64)
	fmt.Fprintf(h, "%x %+v\n", key.sum, key.limits)
	return hex.EncodeToString(h.Sum(nil))
}

// damage is an error about what is in an entry of the cache: it is of no use to anybody and is removed. That the system
// does not let the entry be read (no descriptor or memory left, no permission, a disk that fails) is none.
type damage struct{ why error }

func (d *damage) Error() string { return d.why.Error() }

func (d *damage) Unwrap() error { return d.why }

func damaged(format string, args ...any) error { return &damage{fmt.Errorf(format, args...)} }

// readError is the error of reading a file that an entry must have: damage where there is no such file, or it is cut.
func readError(err error) error {
	for _, missing := range []error{fs.ErrNotExist, syscall.ENOTDIR, syscall.EISDIR, io.EOF, io.ErrUnexpectedEOF} {
		if errors.Is(err, missing) {
			return &damage{err}
		}
	}
	return err
}

// staging is a folder that is being filled.
type staging struct {
	path string
	lock *os.File
}

// stagingTries bounds how often a new folder is lost to another process before it is locked. Some file systems lock
// nothing.
const stagingTries = 10

func newStaging(dir string) (*staging, error) {
	for range stagingTries {
		path, err := os.MkdirTemp(dir, stagingPrefix)
		if err != nil {
			return nil, err
		}
		f, err := os.Open(path)
		if err == nil && holdFolder(f) {
			return &staging{path, f}, nil
		}
		if err == nil { // another process sweeps the folder before it was held
			_ = f.Close()
			_ = os.Remove(path)
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
	return nil, fmt.Errorf("%s: no new folder can be locked", dir)
}

// remove deletes the folder, wherever it is now.
func (s *staging) remove() {
	_ = os.RemoveAll(s.path)
	_ = s.lock.Close()
}

// publish completes the folder and gives it its name in the cache.
func (s *staging) publish(dir, key string, x entry) error {
	err := s.seal(x)
	if err == nil {
		err = s.place(filepath.Join(dir, key))
	}
	if err == nil {
		syncFolder(dir)
	}
	return err
}

// place gives the folder a name. Where another process was first, what it wrote stays; what is not the same, or can't
// be read, is replaced.
func (s *staging) place(path string) error {
	err := os.Rename(s.path, path)
	if err == nil || alike(s.path, path) {
		return nil
	}
	return errors.Join(os.RemoveAll(path), os.Rename(s.path, path))
}

// alike reports whether a folder has what is in another one, by its manifest.
func alike(made, there string) bool {
	want, err := readManifest(made)
	if err != nil {
		return false
	}
	got, err := readManifest(there)
	if err != nil || !maps.Equal(got, want) {
		return false
	}
	for name, want := range want {
		if got, err := digest(filepath.Join(there, filepath.FromSlash(name))); err != nil || got != want {
			return false
		}
	}
	return true
}

// compiledFile returns the path of the engine's file, which is the only one in a folder that was compiled into.
func compiledFile(dir string) (file string, err error) {
	var files []string
	err = filepath.WalkDir(dir, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d files of the compiler, one wanted", len(files))
	}
	if err != nil {
		return "", err
	}
	return files[0], nil
}

// emptyFolder removes what is in a folder.
func emptyFolder(dir string) error {
	entries, err := os.ReadDir(dir)
	for _, e := range entries {
		err = errors.Join(err, os.RemoveAll(filepath.Join(dir, e.Name())))
	}
	return err
}

// hasMachineCode reports whether the engine left a file in a folder that was compiled into.
func hasMachineCode(dir string) bool {
	_, err := compiledFile(dir)
	return err == nil
}

// seal writes the other files.
func (s *staging) seal(x entry) error {
	code, err := compiledFile(s.path)
	if err != nil {
		return err
	}
	text, err := json.Marshal(x.info)
	if err != nil {
		return err
	}
	for name, content := range map[string][]byte{hollowFile: x.hollow, dataFile: x.data, infoFile: text} {
		if err := writeFile(filepath.Join(s.path, name), content); err != nil {
			return err
		}
	}
	if code, err = filepath.Rel(s.path, code); err != nil {
		return err
	}
	err = s.writeManifest(filepath.ToSlash(code), hollowFile, dataFile, infoFile)
	syncFolder(filepath.Dir(filepath.Join(s.path, code)))
	syncFolder(s.path)
	return err
}

// writeManifest writes the manifest of files.
func (s *staging) writeManifest(files ...string) (err error) {
	m := manifest{}
	for _, name := range files {
		if m[name], err = digest(filepath.Join(s.path, filepath.FromSlash(name))); err != nil {
			return err
		}
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	return writeFile(filepath.Join(s.path, manifestFile), text)
}

// readManifest reads a manifest that names these files, and maybe others.
func readManifest(dir string, files ...string) (m manifest, err error) {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return nil, readError(err)
	}
	if err := json.Unmarshal(text, &m); err != nil {
		return nil, damaged("%s: %w", manifestFile, err)
	}
	for _, name := range files {
		if _, ok := m[name]; !ok {
			return nil, damaged("%s does not name %s", manifestFile, name)
		}
	}
	for name := range m {
		if !filepath.IsLocal(filepath.FromSlash(name)) {
			return nil, damaged("%s names a file outside: %q", manifestFile, name)
		}
	}
	return m, nil
}

// readSealed reads a file that agrees with its manifest.
func readSealed(path string, want sealed) ([]byte, error) {
	if at, err := os.Stat(path); err != nil {
		return nil, readError(err)
	} else if at.Size() != want.Bytes {
		return nil, damaged("%s does not agree with %s", filepath.Base(path), manifestFile)
	}
	b, err := os.ReadFile(path)
	if err != nil {
		return nil, readError(err)
	}
	if sum := sha256.Sum256(b); int64(len(b)) != want.Bytes || hex.EncodeToString(sum[:]) != want.SHA256 {
		return nil, damaged("%s does not agree with %s", filepath.Base(path), manifestFile)
	}
	return b, nil
}

// writeFile writes a new file, which lasts.
func writeFile(path string, content []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(content)
	return errors.Join(err, f.Sync(), f.Close())
}

// readEntry reads a folder of the cache. The error says what does not agree with the manifest, as *damage, or what
// could not be read.
func readEntry(dir string) (*entry, error) {
	m, err := readManifest(dir, hollowFile, dataFile, infoFile)
	if err != nil {
		return nil, err
	}
	if len(m) != 4 {
		return nil, damaged("%s names %d files, four wanted", manifestFile, len(m))
	}
	x := &entry{path: dir, info: &rewrite.Info{}}
	for name, want := range m {
		path := filepath.Join(dir, filepath.FromSlash(name))
		switch name {
		case hollowFile:
			x.hollow, err = readSealed(path, want)
		case dataFile:
			if x.data, err = readSealed(path, want); len(x.data) == 0 {
				x.data = nil // an empty section would hold its count
			}
		case infoFile:
			var text []byte
			if text, err = readSealed(path, want); err != nil {
				break
			}
			if wrong := json.Unmarshal(text, x.info); wrong != nil {
				err = damaged("%s: %w", infoFile, wrong)
			}
		default:
			var got sealed
			if got, err = digest(path); err != nil {
				err = readError(err)
			} else if got != want {
				err = damaged("%s does not agree with %s", name, manifestFile)
			}
		}
		if err != nil {
			return nil, err
		}
	}
	return x, nil
}

func digest(path string) (s sealed, err error) {
	f, err := os.Open(path)
	if err != nil {
		return s, err
	}
	defer f.Close()
	h := sha256.New()
	s.Bytes, err = io.Copy(h, f)
	s.SHA256 = hex.EncodeToString(h.Sum(nil))
	return s, err
}

// syncFolder makes renames in a folder last, where the system can: without, a crash may cost a compilation.
func syncFolder(dir string) {
	if f, err := os.Open(dir); err == nil {
		_ = f.Sync()
		_ = f.Close()
	}
}

// sweep removes what processes that were killed left in dir.
func sweep(dir string) {
	entries, err := os.ReadDir(dir)
	if err != nil {
		return
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil || !e.IsDir() || !strings.HasPrefix(e.Name(), stagingPrefix) {
			continue
		}
		path := filepath.Join(dir, e.Name())
		f, err := os.Open(path)
		if err != nil {
			continue
		}
		if abandoned(f, info.ModTime()) {
			_ = os.RemoveAll(path)
		}
		_ = f.Close()
	}
}
