package library

import (
	"context"
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
	"path"
	"path/filepath"
	"slices"
	"strings"

	"tgi/models/hf"
)

// ImportOptions of Import.
type ImportOptions struct {
	// Progress, if set, receives the bytes written and the total; 0 if that is not known yet.
	Progress func(done, total int64)
}

// Import copies a checkpoint from a local folder, file in the GGUF format, or archive (tar, gzipped tar, zip) into the
// library. Only the files that serving reads are copied; the source is not changed. The
// model appears once it is complete and checked; after an error, or when ctx is done,
// nothing is left of it.
//
// Links in a folder are followed if they stay in it; links of a snapshot in the cache of
// huggingface_hub, if they stay in the repository's folder. Other links are errors, and so
// is any link in an archive.
func (l *Library) Import(ctx context.Context, id ID, from string, opt ImportOptions) (Model, error) {
	if err := l.checkAvailable(id); err != nil {
		return Model{}, err
	}
	abs, err := filepath.Abs(from)
	if err != nil {
		return Model{}, err
	}
	st, err := os.Stat(abs)
	if err != nil {
		return Model{}, fmt.Errorf("import: %w", err)
	}
	if !st.IsDir() && !st.Mode().IsRegular() { // opening a pipe would wait for a writer
		return Model{}, fmt.Errorf("import: %w %s: is no ordinary file (%s)", ErrPath, quote(abs), st.Mode())
	}
	if st.IsDir() && within(abs, l.dir) {
		return Model{}, fmt.Errorf("import: %w: %s holds the models folder %s", ErrUnusable, abs, l.dir)
	}
	root, err := l.open()
	if err != nil {
		return Model{}, err
	}
	defer root.Close()
	l.sweep(root)
	temp, remove, err := l.makeTemp(root, "import")
	if err != nil {
		return Model{}, err
	}
	defer remove()
	files := path.Join(temp, stageFiles)
	if err := root.Mkdir(files, 0o755); err != nil {
		return Model{}, err
	}
	if st.IsDir() || hf.IsGGUF(abs) {
		err = l.copyFolder(ctx, root, files, abs, opt.Progress)
	} else {
		err = l.unpackInto(ctx, root, temp, abs, opt.Progress)
	}
	if err != nil {
		return Model{}, fmt.Errorf("import %s: %w", abs, err)
	}
	return l.install(id, files, Origin{Source: abs})
}

// copyFolder copies a folder's checkpoint, or a file in the GGUF format, to files, a path below root.
func (l *Library) copyFolder(ctx context.Context, root *os.Root, files, from string,
	progress func(done, total int64)) error {
	one := ""
	if hf.IsGGUF(from) {
		from, one = filepath.Split(from)
	}
	source, done, err := openFolder(from)
	if err != nil {
		return err
	}
	defer done()
	names, err := listFolder(source)
	if err != nil {
		return err
	}
	if one != "" { // what lies beside it may belong to others
		names = slices.DeleteFunc(names, func(n string) bool { return !hf.IsGGUF(n) })
	}
	names, err = Choose(names, one, func(name string) ([]byte, error) { return readUpTo(source, name, MaxIndex) })
	if err != nil {
		return err
	}
	var total int64
	for _, n := range names {
		size, err := sizeOf(source, n)
		if err != nil {
			return err
		}
		if total += size; total > l.limits.MaxBytes {
			return fmt.Errorf("%w: the files have more than %d bytes", ErrLimit, l.limits.MaxBytes)
		}
	}
	if len(names) > l.limits.MaxFiles {
		return fmt.Errorf("%w: %d files, at most %d are allowed", ErrLimit, len(names), l.limits.MaxFiles)
	}
	if err := l.needSpace(total); err != nil {
		return err
	}
	var copied int64
	for _, n := range names {
		size, err := copyFile(ctx, root, path.Join(files, n), source, n, l.limits.MaxBytes-copied)
		if err != nil {
			return fmt.Errorf("%s: %w", n, err)
		}
		copied += size
		if progress != nil {
			progress(copied, total)
		}
	}
	return nil
}

// openFolder opens a folder so that links cannot lead out of it. The files of a snapshot in
// the cache of huggingface_hub (models--NAME/snapshots/COMMIT) are links to blobs/ beside
// the snapshots, so there the repository's folder is the bound.
func openFolder(at string) (source fs.FS, done func(), err error) {
	if at, err = filepath.EvalSymlinks(at); err != nil {
		return nil, nil, err
	}
	bounds, inside := at, "."
	if all, commit := filepath.Split(at); filepath.Base(all) == "snapshots" {
		if repo := filepath.Dir(filepath.Clean(all)); strings.HasPrefix(filepath.Base(repo), "models--") {
			bounds, inside = repo, "snapshots/"+commit
		}
	}
	root, err := os.OpenRoot(bounds)
	if err != nil {
		return nil, nil, err
	}
	if source, err = fs.Sub(root.FS(), inside); err != nil {
		root.Close()
		return nil, nil, err
	}
	return source, func() { root.Close() }, nil
}

// listFolder returns the files of a folder and of its direct subfolders.
func listFolder(source fs.FS) ([]string, error) {
	var names []string
	err := fs.WalkDir(source, ".", func(name string, d fs.DirEntry, err error) error {
		switch {
		case err != nil:
			return err
		case name == ".":
			return nil
		case d.IsDir() && (strings.Count(name, "/") > 0 || strings.HasPrefix(name, ".")):
			return fs.SkipDir
		case d.IsDir():
			return nil
		}
		if len(names) >= maxEntries {
			return fmt.Errorf("%w: the folder holds more than %d files", ErrLimit, maxEntries)
		}
		names = append(names, name)
		return nil
	})
	return names, err
}

// sizeOf returns a file's size, or an error if it cannot be copied.
func sizeOf(source fs.FS, name string) (int64, error) {
	if err := CheckPath(name); err != nil {
		return 0, err
	}
	st, err := fs.Stat(source, name)
	if err != nil {
		if entry, lerr := fs.Lstat(source, name); lerr == nil && entry.Mode()&fs.ModeSymlink != 0 {
			return 0, fmt.Errorf("%w %s: is a link out of the folder, or to nothing", ErrPath, quote(name))
		}
		return 0, err
	}
	if !st.Mode().IsRegular() {
		return 0, fmt.Errorf("%w %s: is no ordinary file (%s)", ErrPath, quote(name), st.Mode())
	}
	return st.Size(), nil
}

func copyFile(ctx context.Context, root *os.Root, to string, source fs.FS, name string, limit int64) (int64, error) {
	in, err := source.Open(name)
	if err != nil {
		return 0, err
	}
	defer in.Close()
	if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
		return 0, err
	}
	out, err := root.OpenFile(to, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if err != nil {
		return 0, wrapNoSpace(err)
	}
	defer out.Close()
	n, err := copyUpTo(ctx, out, in, limit, nil)
	if errors.Is(err, errTooLong) {
		err = fmt.Errorf("%w: it grew while it was read", ErrLimit)
	}
	if err != nil {
		return n, err
	}
	return n, wrapNoSpace(out.Close())
}

func readUpTo(source fs.FS, name string, limit int64) ([]byte, error) {
	if _, err := sizeOf(source, name); err != nil {
		return nil, err
	}
	f, err := source.Open(name)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	data, err := io.ReadAll(io.LimitReader(f, limit+1))
	if err == nil && int64(len(data)) > limit {
		err = fmt.Errorf("%w: %s has more than %d bytes", ErrLimit, name, limit)
	}
	return data, err
}

// unpackInto unpacks an archive's checkpoint into the folder stageFiles of at, a path below
// root. Other files of the archive are removed.
func (l *Library) unpackInto(ctx context.Context, root *os.Root, at, archive string,
	progress func(done, total int64)) error {
	f, err := os.Open(archive)
	if err != nil {
		return err
	}
	defer f.Close()
	st, err := f.Stat()
	if err != nil {
		return err
	}
	if !st.Mode().IsRegular() {
		return fmt.Errorf("%w %s: is no ordinary file (%s)", ErrPath, quote(archive), st.Mode())
	}
	if err := l.needSpace(st.Size()); err != nil {
		return err
	}
	raw := path.Join(at, "unpacked")
	if err := root.RemoveAll(raw); err != nil {
		return err
	}
	defer root.RemoveAll(raw)
	if err := root.Mkdir(raw, 0o755); err != nil {
		return err
	}
	into, err := root.OpenRoot(raw)
	if err != nil {
		return err
	}
	defer into.Close()
	u := &unpacker{into: into, limits: l.limits, left: l.limits.MaxBytes}
	if progress != nil {
		u.report = func() { progress(l.limits.MaxBytes-u.left, 0) }
	}
	names, err := u.unpack(ctx, f, st.Size())
	if err != nil {
		return err
	}
	return moveCheckpoint(root, raw, into.FS(), path.Join(at, stageFiles), names)
}

// moveCheckpoint moves the checkpoint's files from the unpacked ones to the folder files.
func moveCheckpoint(root *os.Root, raw string, unpacked fs.FS, files string, names []string) error {
	top, err := rootOf(names)
	if err != nil {
		return err
	}
	var inside []string
	for _, n := range names {
		if rest, ok := strings.CutPrefix(n, top); ok {
			inside = append(inside, rest)
		}
	}
	chosen, err := Choose(inside, "", func(name string) ([]byte, error) {
		return readUpTo(unpacked, top+name,
			MaxIndex)
	})
	if err != nil {
		return err
	}
	for _, n := range slices.Compact(chosen) {
		to := path.Join(files, n)
		if err := root.MkdirAll(path.Dir(to), 0o755); err != nil {
			return err
		}
		if err := root.Rename(path.Join(raw, top+n), to); err != nil {
			return err
		}
	}
	return nil
}

// Unpack unpacks the checkpoint of an archive, a path in Work, into Files. progress, which
// may be nil, receives the bytes written. Errors are those of Import.
func (s *Stage) Unpack(ctx context.Context, archive string, progress func(done int64)) error {
	root, err := s.lib.open()
	if err != nil {
		return err
	}
	defer root.Close()
	files := path.Join(s.at, stageFiles)
	if err := errors.Join(root.RemoveAll(files), root.Mkdir(files, 0o755)); err != nil {
		return err
	}
	var report func(done, total int64)
	if progress != nil {
		report = func(done, _ int64) { progress(done) }
	}
	return s.lib.unpackInto(ctx, root, s.at, archive, report)
}
