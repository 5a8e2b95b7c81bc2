package sandbox

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"strings"
	"sync"

	"golang.org/x/sys/cpu"
)

// The cache of compiled modules has a folder for each module, named by its key, with the engine's file in it and a
// manifest that names that file with its length and SHA-256. What is in the file is run as it is, so nothing is used
// that does not agree with the manifest. A folder comes to its name whole, by renaming.

// stagingPrefix begins the name of a folder that is being filled. Its process holds a lock on it.
const stagingPrefix = "tgi-compile-"

// manifestFile is written last.
const manifestFile = "manifest.json"

// manifest describes the engine's file of one module.
type manifest struct {
	Path   string `json:"path"`
	Bytes  int64  `json:"bytes"`
	SHA256 string `json:"sha256"`
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

// keyOf names a compiled module: by all that the machine code, and where the engine looks for it, depend on.
func keyOf(rewritten []byte) string {
	h := sha256.New()
	version := engineVersion
	if found := foundVersion(); found != version {
		version += " as " + found
	}
	fmt.Fprintf(h, "%s %s %s %+v %+v\n", version, runtime.GOOS, runtime.GOARCH, cpu.X86, cpu.ARM64)
	h.Write(rewritten)
	return hex.EncodeToString(h.Sum(nil))
}

// staging is a folder that is being filled.
type staging struct {
	path string
	lock *os.File
}

func newStaging(dir string) (*staging, error) {
	for {
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
		} else if !errors.Is(err, fs.ErrNotExist) {
			return nil, errors.Join(err, os.RemoveAll(path))
		}
	}
}

// remove deletes the folder, wherever it is now.
func (s *staging) remove() {
	_ = os.RemoveAll(s.path)
	_ = s.lock.Close()
}

// publish gives the folder its name in the cache.
func (s *staging) publish(dir, key string) error {
	defer s.lock.Close()
	err := s.seal()
	if err == nil {
		err = os.Rename(s.path, filepath.Join(dir, key))
	}
	if err != nil {
		_ = os.RemoveAll(s.path)
		if intact(filepath.Join(dir, key)) { // another process was first
			return nil
		}
		return err
	}
	syncFolder(dir)
	return nil
}

// seal writes the manifest.
func (s *staging) seal() error {
	var files []string
	err := filepath.WalkDir(s.path, func(path string, d fs.DirEntry, err error) error {
		if err == nil && !d.IsDir() {
			files = append(files, path)
		}
		return err
	})
	if err == nil && len(files) != 1 {
		err = fmt.Errorf("%d files of the compiler, one wanted", len(files))
	}
	if err != nil {
		return err
	}
	var m manifest
	if m.SHA256, m.Bytes, err = digest(files[0]); err != nil {
		return err
	}
	if m.Path, err = filepath.Rel(s.path, files[0]); err != nil {
		return err
	}
	text, err := json.Marshal(m)
	if err != nil {
		return err
	}
	f, err := os.OpenFile(filepath.Join(s.path, manifestFile), os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(text)
	err = errors.Join(err, f.Sync(), f.Close())
	syncFolder(filepath.Dir(files[0]))
	syncFolder(s.path)
	return err
}

// intact reports whether a folder of the cache holds what its manifest says.
func intact(dir string) bool {
	text, err := os.ReadFile(filepath.Join(dir, manifestFile))
	if err != nil {
		return false
	}
	var m manifest
	if err := json.Unmarshal(text, &m); err != nil || !filepath.IsLocal(m.Path) {
		return false
	}
	sum, size, err := digest(filepath.Join(dir, m.Path))
	return err == nil && size == m.Bytes && sum == m.SHA256
}

func digest(path string) (sum string, size int64, err error) {
	f, err := os.Open(path)
	if err != nil {
		return "", 0, err
	}
	defer f.Close()
	h := sha256.New()
	if size, err = io.Copy(h, f); err != nil {
		return "", 0, err
	}
	return hex.EncodeToString(h.Sum(nil)), size, nil
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
