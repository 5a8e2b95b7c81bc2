// Package install puts plugins from artefacts into a server's settings, and takes them out: the module and the rest of
// its artefact become files, and a block [[plugin]] names the file and locks its digest.
package install

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"regexp"

	"golang.org/x/sys/unix"

	"tgi/server/config"
	"tgi/server/share"
)

// Target is where plugins are installed: the settings' file, and the folder of modules.
type Target struct{ File, Folder string }

// sumLength is how many digits of the module's digest are in the name of its file.
const sumLength = 16

// Install writes the module and what belongs to it, and then locks it in the settings' file under a name. A running
// server takes the new file and its digest in one step: files are named after their digests and never change.
func Install(t Target, name, reference string, a share.Artifact) (file string, err error) {
	if err := config.CheckName(name); err != nil {
		return "", fmt.Errorf("name %w", err)
	}
	if _, err := a.Open(); err != nil {
		return "", err
	}
	file = filepath.Join(t.Folder, name+"-"+a.SHA256()[:sumLength]+".wasm")
	source, err := relative(filepath.Dir(t.File), file)
	if err != nil {
		return "", err
	}
	lock := config.Lock{Name: name, Source: source, SHA256: a.SHA256(), Reference: reference}
	err = t.change(func(text []byte) ([]byte, error) {
		text, err := config.SetLock(text, lock)
		if err != nil { // before anything is written
			return nil, err
		}
		if there, err := os.ReadFile(file); err != nil || !bytes.Equal(there, a.Module) {
			if err := share.Replace(file, a.Module, 0o644); err != nil {
				return nil, err
			}
		}
		return text, a.WriteBeside(file)
	})
	return file, err
}

// Remove takes a plugin out of the settings' file and removes the files that installations wrote for it. Other files
// stay. It returns the files.
func Remove(t Target, name string) (files []string, err error) {
	if err := config.CheckName(name); err != nil {
		return nil, fmt.Errorf("name %w", err)
	}
	if err := t.change(func(text []byte) ([]byte, error) { return config.Unlock(text, name) }); err != nil {
		return nil, err
	}
	own := regexp.MustCompile(`^` + name + `-[0-9a-f]{16}\.wasm(\.artifact\.json)?$`)
	list, err := os.ReadDir(t.Folder)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, f := range list {
		if own.MatchString(f.Name()) {
			file := filepath.Join(t.Folder, f.Name())
			if err := os.Remove(file); err != nil {
				return files, err
			}
			files = append(files, file)
		}
	}
	return files, nil
}

// change edits the settings' file, alone among all processes that install.
func (t Target) change(edit func(text []byte) ([]byte, error)) error {
	if err := os.MkdirAll(t.Folder, 0o755); err != nil {
		return err
	}
	lock, err := os.OpenFile(filepath.Join(t.Folder, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		return err
	}
	defer lock.Close() // which ends the lock
	if err := unix.Flock(int(lock.Fd()), unix.LOCK_EX); err != nil {
		return fmt.Errorf("lock %s: %w", lock.Name(), err)
	}
	text, err := os.ReadFile(t.File)
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	if text, err = edit(text); err != nil {
		return fmt.Errorf("%s: %w", t.File, err)
	}
	return share.Replace(t.File, text, 0o644)
}

// relative is the path of a file as settings in a folder name it.
func relative(folder, file string) (string, error) {
	folder, err := filepath.Abs(folder)
	if err != nil {
		return "", err
	}
	if file, err = filepath.Abs(file); err != nil {
		return "", err
	}
	path, err := filepath.Rel(folder, file)
	return filepath.ToSlash(path), err
}
