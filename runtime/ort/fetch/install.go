package fetch

import (
	"archive/tar"
	"archive/zip"
	"bufio"
	"bytes"
	"compress/gzip"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"os"
	"path"
	"path/filepath"
	"slices"
)

// errDamaged is wrapped where a package is not what is pinned.
var errDamaged = errors.New("not the pinned package")

// intact reports whether the library is installed and its checksum matches.
func (f *fetcher) intact() bool {
	if len(f.licences) > 0 {
		return matches(f.dest, f.wheel) && !slices.ContainsFunc(f.licences, func(p pin) bool {
			return !matches(f.licence(p), p)
		})
	}
	return matches(f.dest, f.wheel) || matches(f.dest, f.npm)
}

// licence returns where a file of licences is put.
func (f *fetcher) licence(p pin) string {
	return filepath.Join(filepath.Dir(f.dest), "onnxruntime-"+path.Base(p.path))
}

// install extracts the library from a package and installs it.
func (f *fetcher) install(archive string) error {
	file, err := os.Open(archive)
	if err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	defer file.Close()
	info, err := file.Stat()
	if err != nil {
		return fmt.Errorf("reading the package: %w", err)
	}
	r := bufio.NewReader(file)
	magic, _ := r.Peek(4)
	switch {
	case bytes.HasPrefix(magic, []byte("PK\x03\x04")):
		err = f.fromZip(file, info.Size())
	case bytes.HasPrefix(magic, []byte{0x1f, 0x8b}):
		err = f.fromTar(r)
	default:
		err = errors.New("it is neither a wheel nor an npm package")
	}
	if err != nil {
		return fmt.Errorf("%s: %w", archive, err)
	}
	f.log.line("ONNX Runtime %s is in %s", Version, f.dest)
	return nil
}

func (f *fetcher) fromZip(r io.ReaderAt, size int64) error {
	z, err := zip.NewReader(r, size)
	if err != nil {
		return err
	}
	for _, entry := range z.File {
		if entry.Name != f.wheel.path {
			continue
		}
		body, err := entry.Open()
		if err != nil {
			return err
		}
		defer body.Close()
		if err := installFile(body, f.wheel, f.dest, 0o755); err != nil {
			return err
		}
		return f.copyLicences(z)
	}
	return fmt.Errorf("it does not hold %s", f.wheel.path)
}

// copyLicences puts the licences of a wheel beside the library.
func (f *fetcher) copyLicences(z *zip.Reader) error {
	for _, p := range f.licences {
		body, err := z.Open(p.path)
		if err != nil {
			return err
		}
		err = installFile(body, p, f.licence(p), 0o644)
		if err := errors.Join(err, body.Close()); err != nil {
			return err
		}
	}
	return nil
}

func (f *fetcher) fromTar(r io.Reader) error {
	z, err := gzip.NewReader(r)
	if err != nil {
		return err
	}
	for t := tar.NewReader(z); ; {
		entry, err := t.Next()
		if err == io.EOF {
			return fmt.Errorf("it does not hold %s", f.npm.path)
		}
		if err != nil {
			return err
		}
		if entry.Name == f.npm.path && entry.Typeflag == tar.TypeReg {
			return installFile(t, f.npm, f.dest, 0o755)
		}
	}
}

// installFile writes a file to a temporary one beside dest, verifies it and renames it to dest.
func installFile(body io.Reader, want pin, dest string, mode os.FileMode) (err error) {
	temp, err := os.CreateTemp(filepath.Dir(dest), "library-")
	if err != nil {
		return err
	}
	defer func() {
		if err != nil {
			os.Remove(temp.Name())
		}
	}()
	h := sha256.New()
	n, err := io.Copy(io.MultiWriter(temp, h), io.LimitReader(body, want.bytes+1))
	err = errors.Join(err, temp.Sync(), temp.Chmod(mode), temp.Close())
	if err != nil {
		return err
	}
	if n != want.bytes {
		return fmt.Errorf("%s has another length than the pinned %d bytes (%w)", want.path, want.bytes, errDamaged)
	}
	if sum := hex.EncodeToString(h.Sum(nil)); sum != want.sha256 {
		return fmt.Errorf("%s has SHA-256 %s, pinned is %s (%w)", want.path, sum, want.sha256, errDamaged)
	}
	return os.Rename(temp.Name(), dest)
}
