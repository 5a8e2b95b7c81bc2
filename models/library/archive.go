package library

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"slices"
	"strings"

	"tgi/models/gguf"
	"tgi/models/hf"
)

// Bounds of an archive beside Limits.
const (
	// maxEntries bounds what an archive lists, folders and files that are not read included.
	maxEntries = 10_000
	// maxDirectory bounds the central directory of a zip file, which is read whole.
	maxDirectory = 16 << 20
)

// unpacker writes the files of an archive that may belong to a checkpoint.
type unpacker struct {
	into    *os.Root
	limits  Limits
	entries int
	names   []string
	left    int64 // bytes that may still be written
	// report is called after each piece; nil for none.
	report func()
}

// unpack writes the files of an archive that may belong to a checkpoint and returns their
// names. The first bytes tell the kind: tar, gzipped tar or zip. An archive that holds a link,
// a device or an unsafe name is refused as a whole.
func (u *unpacker) unpack(ctx context.Context, f io.ReaderAt, size int64) ([]string, error) {
	head := make([]byte, 512)
	n, err := f.ReadAt(head, 0)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, err
	}
	head = head[:n]
	whole := io.NewSectionReader(f, 0, size)
	switch {
	case bytes.HasPrefix(head, []byte("PK\x03\x04")):
		err = u.unzip(ctx, f, size)
	case bytes.HasPrefix(head, []byte{0x1f, 0x8b}):
		var z *gzip.Reader
		if z, err = gzip.NewReader(bufio.NewReaderSize(whole, 1<<20)); err != nil {
			return nil, brokenError(err)
		}
		err = u.untar(ctx, z)
	case len(head) > 262 && bytes.Equal(head[257:262], []byte("ustar")):
		err = u.untar(ctx, bufio.NewReaderSize(whole, 1<<20))
	default:
		return nil, fmt.Errorf("%w: neither a tar file, nor a gzipped one, nor a zip file", ErrUnusable)
	}
	return u.names, err
}

func (u *unpacker) untar(ctx context.Context, r io.Reader) error {
	t := tar.NewReader(r)
	for {
		h, err := t.Next()
		if errors.Is(err, io.EOF) {
			return nil
		}
		if err != nil {
			return brokenError(err)
		}
		switch h.Typeflag {
		case tar.TypeXGlobalHeader:
			continue
		case tar.TypeReg, tar.TypeDir:
		default:
			return fmt.Errorf("%w %s: is a link or no ordinary file (type %q)", ErrPath, quote(h.Name), h.Typeflag)
		}
		name, err := u.entry(h.Name, h.Typeflag == tar.TypeDir)
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		if err := u.write(ctx, name, h.Size, t); err != nil {
			return err
		}
	}
}

func (u *unpacker) unzip(ctx context.Context, f io.ReaderAt, size int64) error {
	guarded := &directoryReader{r: f, left: maxDirectory}
	z, err := zip.NewReader(guarded, size)
	if err != nil {
		return brokenError(err)
	}
	guarded.open = true
	for _, e := range z.File {
		mode := e.Mode()
		if !mode.IsRegular() && !mode.IsDir() {
			return fmt.Errorf("%w %s: is a link or no ordinary file (%s)", ErrPath, quote(e.Name), mode)
		}
		name, err := u.entry(e.Name, mode.IsDir())
		if err != nil {
			return err
		}
		if name == "" {
			continue
		}
		r, err := e.Open()
		if err != nil {
			return brokenError(err)
		}
		err = u.write(ctx, name, int64(min(e.UncompressedSize64, 1<<62)), r)
		r.Close()
		if err != nil {
			return err
		}
	}
	return nil
}

// entry checks a name and returns it, or "" if the entry is not written.
func (u *unpacker) entry(name string, dir bool) (string, error) {
	if u.entries++; u.entries > maxEntries {
		return "", fmt.Errorf("%w: the archive has more than %d entries", ErrLimit, maxEntries)
	}
	for strings.HasPrefix(name, "./") {
		name = name[2:]
	}
	if dir {
		name = strings.TrimSuffix(name, "/")
		if name == "" || name == "." {
			return "", nil
		}
	}
	if err := CheckPath(name); err != nil {
		return "", err
	}
	if dir || !mayBelong(name) {
		return "", nil
	}
	if len(u.names) >= u.limits.MaxFiles {
		return "", fmt.Errorf("%w: the archive has more than %d files", ErrLimit, u.limits.MaxFiles)
	}
	u.names = append(u.names, name)
	return name, nil
}

// write copies one file and checks that it has the announced size.
func (u *unpacker) write(ctx context.Context, name string, size int64, r io.Reader) error {
	if size > u.left {
		return u.tooLarge(name)
	}
	if err := u.into.MkdirAll(path.Dir(name), 0o755); err != nil {
		return fmt.Errorf("%w %s: %v", ErrPath, quote(name), err)
	}
	f, err := u.into.OpenFile(name, os.O_CREATE|os.O_EXCL|os.O_WRONLY, 0o644)
	if errors.Is(err, os.ErrExist) {
		return fmt.Errorf("%w %s: is in the archive twice", ErrPath, quote(name))
	}
	if err != nil {
		return wrapNoSpace(err)
	}
	defer f.Close()
	n, err := copyUpTo(ctx, f, r, u.left, u.report)
	u.left -= n
	switch {
	case errors.Is(err, errTooLong):
		return u.tooLarge(name)
	case err != nil:
		return fmt.Errorf("%s: %w", quote(name), err)
	case n != size:
		return fmt.Errorf("%w: %s has %d bytes, the archive says %d", ErrUnusable, quote(name), n, size)
	}
	return wrapNoSpace(f.Close())
}

func (u *unpacker) tooLarge(name string) error {
	return fmt.Errorf("%w: with %s the archive holds more than %d bytes", ErrLimit, quote(name), u.limits.MaxBytes)
}

// errTooLong says that a reader had more bytes than allowed.
var errTooLong = errors.New("more bytes than allowed")

// copyUpTo copies at most limit bytes and fails with errTooLong if there are more. A reader's
// error is wrapped in ErrUnusable, unless ctx is done.
func copyUpTo(ctx context.Context, w io.Writer, r io.Reader, limit int64, report func()) (int64, error) {
	buf := make([]byte, 1<<20)
	var sum int64
	for {
		if err := ctx.Err(); err != nil {
			return sum, context.Cause(ctx)
		}
		n, err := r.Read(buf)
		if int64(n) > limit-sum {
			return sum, errTooLong
		}
		if _, err := w.Write(buf[:n]); err != nil {
			return sum, wrapNoSpace(err)
		}
		sum += int64(n)
		if report != nil {
			report()
		}
		if errors.Is(err, io.EOF) {
			return sum, nil
		}
		if err != nil {
			return sum, brokenError(err)
		}
	}
}

func brokenError(err error) error {
	return fmt.Errorf("%w: broken archive or file: %v", ErrUnusable, err)
}

// directoryReader fails when the central directory of a zip file is too large. Once open
// it has no limit.
type directoryReader struct {
	r    io.ReaderAt
	left int64
	open bool
}

func (d *directoryReader) ReadAt(p []byte, off int64) (int, error) {
	if !d.open {
		if d.left -= int64(len(p)); d.left < 0 {
			return 0, fmt.Errorf("the directory of the zip file takes more than %d bytes", maxDirectory)
		}
	}
	return d.r.ReadAt(p, off)
}

// rootOf finds the folder of an archive that holds the checkpoint: that of the topmost
// configuration. It ends with a slash, or is empty.
func rootOf(names []string) (string, error) {
	var best []string
	for _, n := range names {
		dir, file := path.Split(n)
		if file != hf.ConfigFile && !hf.IsGGUF(file) {
			continue
		}
		depth := strings.Count(dir, "/")
		if len(best) > 0 && depth > strings.Count(best[0], "/") {
			continue
		}
		if len(best) > 0 && depth < strings.Count(best[0], "/") {
			best = nil
		}
		if !slices.Contains(best, dir) {
			best = append(best, dir)
		}
	}
	switch len(best) {
	case 0:
		return "", fmt.Errorf("%w: %s is missing, and there is no file %s", ErrUnusable, hf.ConfigFile, "*"+gguf.Extension)
	case 1:
		return best[0], nil
	}
	return "", fmt.Errorf("%w: the archive holds several models: %s and %s", ErrUnusable, best[0], best[1])
}
