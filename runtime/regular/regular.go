// Package regular opens and reads regular files. Folders of state, of keys and of plugins may have anything else in a
// file's place: to open a pipe waits for a writer who may never come, and a device or a sparse file has no end that
// memory could hold. Nothing here waits, and every reading has a bound.
package regular

import (
	"errors"
	"fmt"
	"io"
	"io/fs"
	"os"
)

// ErrOther: something that is no regular file is in its place, or a link where none is followed.
var ErrOther = errors.New("a regular file is wanted")

// ErrTooLarge: the file has more bytes than may be read.
var ErrTooLarge = errors.New("the file is too large")

// Open opens a regular file, with the flags of os.OpenFile and NoLink. It refuses all else at once. A file that it
// makes is its owner's alone.
func Open(path string, flags int) (*os.File, error) {
	f, _, err := OpenSized(path, flags)
	return f, err
}

// OpenSized is Open, and says how many bytes the file has.
func OpenSized(path string, flags int) (f *os.File, size int64, err error) {
	if f, err = os.OpenFile(path, flags|noWait, 0o600); err != nil {
		// Why it failed says little of a pipe that has no reader, or of a folder.
		if info, no := os.Lstat(path); no == nil && !info.Mode().IsRegular() &&
			(flags&NoLink != 0 || info.Mode()&fs.ModeSymlink == 0) {
			err = other(path, info)
		}
		return nil, 0, err
	}
	info, err := f.Stat()
	if err == nil && !info.Mode().IsRegular() {
		err = other(path, info)
	}
	if err != nil {
		return nil, 0, errors.Join(err, f.Close())
	}
	return f, info.Size(), nil
}

func other(path string, info fs.FileInfo) error {
	if info.Mode()&fs.ModeSymlink != 0 {
		return fmt.Errorf("%s is a symbolic link, %w: remove it", path, ErrOther)
	}
	return fmt.Errorf("%s: %w, this is something else (%v)", path, ErrOther, info.Mode().Type())
}

// Check returns the error that Open has, of what is in a place, without opening it: for files that others open. It
// follows links.
func Check(path string) error {
	info, err := os.Stat(path)
	if err == nil && !info.Mode().IsRegular() {
		err = other(path, info)
	}
	return err
}

// Read reads a regular file of at most so many bytes, with flags as Open has them.
func Read(path string, flags int, most int64) ([]byte, error) {
	f, size, err := OpenSized(path, os.O_RDONLY|flags)
	if err != nil {
		return nil, err
	}
	defer f.Close()
	var text []byte
	if size <= most {
		text, err = io.ReadAll(io.LimitReader(f, most+1))
		size = int64(len(text)) // it may have grown
	}
	if err == nil && size > most {
		return nil, fmt.Errorf("%s: %w: it must have at most %d bytes, it has %d", path, ErrTooLarge, most, size)
	}
	return text, err
}
