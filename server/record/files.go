package record

import (
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"time"
)

// Names of files: the one that is written, and those before it.
const (
	current = "requests.jsonl"
	before  = "requests-"
	ending  = ".jsonl"
)

// files are the files of a folder. They belong to one goroutine.
type files struct {
	folder   string
	maxFile  int64
	maxFiles int
	open     *os.File
	size     int64
}

func openFiles(folder string, maxFile int64, maxFiles int) (*files, error) {
	if err := os.MkdirAll(folder, 0o700); err != nil {
		return nil, fmt.Errorf("record.folder: %w", err)
	}
	f := &files{folder: folder, maxFile: maxFile, maxFiles: maxFiles}
	if err := f.begin(); err != nil {
		return nil, fmt.Errorf("record.folder: %w", err)
	}
	return f, nil
}

// begin opens the file that is written, and goes on in it where it is there.
func (f *files) begin() error {
	file, err := os.OpenFile(filepath.Join(f.folder, current), os.O_CREATE|os.O_WRONLY|os.O_APPEND, 0o600)
	if err != nil {
		return err
	}
	info, err := file.Stat()
	if err != nil {
		_ = file.Close()
		return err
	}
	f.open, f.size = file, info.Size()
	return nil
}

// append adds a line, in a new file where the old one has no room.
func (f *files) append(line []byte) error {
	if f.open != nil && f.size > 0 && f.size+int64(len(line)) > f.maxFile {
		if err := f.turn(); err != nil {
			return err
		}
	}
	if f.open == nil {
		if err := f.begin(); err != nil {
			return err
		}
	}
	n, err := f.open.Write(line)
	f.size += int64(n)
	if err != nil { // half a line must not spoil the next one
		_ = f.open.Truncate(f.size - int64(n))
		f.size -= int64(n)
	}
	return err
}

// turn sets the file aside, and removes the oldest of those that are too many.
func (f *files) turn() error {
	if err := f.close(); err != nil {
		return err
	}
	// Names sort by time, and no two are alike.
	name := before + time.Now().UTC().Format("20060102T150405.000000000") + ending
	if err := os.Rename(filepath.Join(f.folder, current), filepath.Join(f.folder, name)); err != nil {
		return err
	}
	list, err := os.ReadDir(f.folder)
	if err != nil {
		return err
	}
	var old []string
	for _, one := range list {
		if strings.HasPrefix(one.Name(), before) && strings.HasSuffix(one.Name(), ending) {
			old = append(old, one.Name())
		}
	}
	slices.Sort(old)
	for _, name := range old[:max(0, len(old)-(f.maxFiles-1))] {
		if err := os.Remove(filepath.Join(f.folder, name)); err != nil {
			return err
		}
	}
	return nil
}

func (f *files) close() error {
	if f.open == nil {
		return nil
	}
	err := f.open.Close()
	f.open = nil
	return err
}
