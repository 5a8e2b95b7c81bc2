package hf

import (
	"fmt"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tgi/models/gguf"
	"tgi/models/safetensors"
)

// FS returns the files of the model at a path: of a folder, or a file in the GGUF format with its other parts, as if
// they were alone in a folder.
func FS(path string) fs.FS {
	if st, err := os.Stat(path); err != nil && !IsGGUF(filepath.Base(path)) || err == nil && st.IsDir() {
		return os.DirFS(path)
	}
	names, _ := gguf.Parts(filepath.Base(path))
	return someFiles{os.DirFS(filepath.Dir(path)), names}
}

// someFiles are some files of a folder.
type someFiles struct {
	fs.FS
	names []string
}

// Open implements fs.FS.
func (f someFiles) Open(name string) (fs.File, error) {
	if name != "." && !slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "open", Path: name, Err: fs.ErrNotExist}
	}
	return f.FS.Open(name)
}

// Stat implements fs.StatFS: without it a file is opened for that, which waits if it is a pipe.
func (f someFiles) Stat(name string) (fs.FileInfo, error) {
	if name != "." && !slices.Contains(f.names, name) {
		return nil, &fs.PathError{Op: "stat", Path: name, Err: fs.ErrNotExist}
	}
	return fs.Stat(f.FS, name)
}

// ReadDir implements fs.ReadDirFS.
func (f someFiles) ReadDir(name string) (list []fs.DirEntry, err error) {
	if name != "." {
		return nil, &fs.PathError{Op: "readdir", Path: name, Err: fs.ErrNotExist}
	}
	for _, n := range f.names {
		st, err := fs.Stat(f.FS, n)
		if err != nil {
			return list, err
		}
		list = append(list, fs.FileInfoToDirEntry(st))
	}
	return list, nil
}

// GGUF returns the name of the file in the GGUF format that a folder's model is, "" if it has its weights elsewhere: of
// several parts the first. A folder with several such models is refused.
func GGUF(fsys fs.FS) (string, error) {
	for _, name := range []string{safetensors.SingleFile, safetensors.IndexFile, "model.onnx", "onnx"} {
		if _, err := fs.Stat(fsys, name); err == nil {
			return "", nil
		}
	}
	entries, err := fs.ReadDir(fsys, ".")
	if _, one := fsys.(someFiles); one && err != nil {
		return "", err
	}
	if err != nil {
		return "", nil // which reading another file says
	}
	var found []string
	for _, e := range entries {
		if _, first := gguf.Parts(e.Name()); !e.IsDir() && first && IsGGUF(e.Name()) {
			found = append(found, e.Name())
		}
	}
	if len(found) > 1 {
		return "", fmt.Errorf("%w: the folder has %d models in the GGUF format, name the file of one: %s", ErrConfig,
			len(found), strings.Join(found, ", "))
	}
	return strings.Join(found, ""), nil
}

// IsGGUF reports whether a name is that of a model in the GGUF format, and not of a projector of images beside one.
func IsGGUF(name string) bool {
	base := path.Base(name)
	return strings.EqualFold(path.Ext(base), gguf.Extension) && base[0] != '.' &&
		!strings.HasPrefix(strings.ToLower(base), "mmproj")
}
