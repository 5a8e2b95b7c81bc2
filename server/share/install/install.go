// Package install puts plugins from artefacts into a server's settings, and takes them out: the module and the rest of
// its artefact become files, and a block [[plugin]] names the file and locks its digest.
package install

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"tgi/runtime/regular"
	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/registry"
)

// Target is where plugins are installed: the settings' file, and the folder of modules.
type Target struct{ File, Folder string }

// Request is what is installed.
type Request struct {
	Name      string // of the block
	Reference string // of the artefact
	Artifact  share.Artifact
	// Replace lets the block replace one of its name that did not come from the repository of Reference.
	Replace bool
	// Check returns why a server could not load the module with a block's settings, or why it must not take the place
	// of what the block was, nil for none, with the path of its source. It runs before anything is written.
	Check func(ctx context.Context, was *config.Plugin, block config.Plugin) error
}

// Result is what an installation wrote, and what it replaced.
type Result struct {
	File string // with the module
	// Replaced is the block that the settings had under the name, nil for none.
	Replaced *config.Plugin
}

// module is the file of a module that is installed under a name.
func (t Target) module(name, sum string) string {
	return filepath.Join(t.Folder, name+"-"+sum[:sumLength]+".wasm")
}

// sumLength is how many digits of the module's digest are in the name of its file.
const sumLength = 16

// maxModule bounds a module, in bytes.
const maxModule = 1 << 30

// Install writes the module and what belongs to it, and then locks it in the settings' file under a name. A running
// server takes the new file and its digest in one step: files are named after their digests and never change. ctx
// bounds the waiting for other installations, and the check.
func Install(ctx context.Context, t Target, r Request) (done Result, err error) {
	if err := config.CheckName(r.Name); err != nil {
		return done, fmt.Errorf("name %w", err)
	}
	a := r.Artifact
	if _, err := a.Open(); err != nil {
		return done, err
	}
	done.File = t.module(r.Name, a.SHA256())
	source, err := relative(filepath.Dir(t.File), done.File)
	if err != nil {
		return done, err
	}
	lock := config.Lock{Name: r.Name, Source: source, SHA256: a.SHA256(), Reference: r.Reference}
	var checked [2]*config.Plugin
	edit := func(text []byte) ([]byte, error) {
		if done.Replaced, err = block(t.File, text, r.Name); err != nil {
			return nil, err
		}
		if err := r.mayReplace(done.Replaced); err != nil {
			return nil, err
		}
		text, err := config.SetLock(text, lock)
		if err != nil {
			return nil, err
		}
		made, err := block(t.File, text, r.Name)
		now := [2]*config.Plugin{done.Replaced, made}
		if err != nil || r.Check == nil || reflect.DeepEqual(now, checked) {
			return text, err
		}
		if err := r.Check(ctx, t.located(done.Replaced), *made); err != nil {
			return nil, fmt.Errorf("nothing was changed, a server could not take [[plugin]] %q: %w", r.Name, err)
		}
		checked = now
		return text, nil
	}
	// The first run needs no lock: what is refused leaves no folder, and the check, which takes its time, holds up no
	// other installation. The second one checks only a block that changed meanwhile.
	text, err := t.read()
	if err != nil {
		return done, err
	}
	if _, err = edit(text); err != nil {
		return done, fmt.Errorf("%s: %w", t.File, err)
	}
	err = t.locked(ctx, func() error {
		var made []string // the files that were not there
		for _, file := range []string{done.File, share.Beside(done.File)} {
			if _, err := os.Lstat(file); errors.Is(err, fs.ErrNotExist) {
				made = append(made, file)
			}
		}
		err := t.change(ctx, func(text []byte) ([]byte, error) {
			text, err := edit(text)
			if err != nil {
				return nil, err
			}
			if !holds(done.File, a.Module) {
				if err := share.Write(done.File, a.Module, 0o644); err != nil {
					return nil, err
				}
			}
			return text, errors.Join(a.WriteBeside(done.File), t.keepPast(done.Replaced, lock))
		})
		if err != nil {
			for _, file := range made {
				_ = os.Remove(file) // nothing names it
			}
		}
		return err
	})
	return done, err
}

// block is the [[plugin]] of a name in a text, nil for none.
func block(file string, text []byte, name string) (*config.Plugin, error) {
	c := config.Default()
	if err := config.Decode(file, text, &c); err != nil {
		return nil, err
	}
	i := slices.IndexFunc(c.Plugin, func(p config.Plugin) bool { return p.Name == name })
	if i < 0 {
		return nil, nil
	}
	return &c.Plugin[i], nil
}

// located is a block with the path of its source, nil for none.
func (t Target) located(p *config.Plugin) *config.Plugin {
	if p == nil {
		return nil
	}
	out := *p
	out.Source = t.path(p.Source)
	return &out
}

// path is that of a source of the settings' file.
func (t Target) path(source string) string {
	if file := filepath.FromSlash(source); !filepath.IsAbs(file) && !strings.HasPrefix(source, config.Builtin) {
		return filepath.Join(filepath.Dir(t.File), file)
	}
	return source
}

// mayReplace refuses to replace a block that is not an older version of the same plugin: the name is the choice of the
// artefact's author, who must not choose what of the operator's goes.
func (r Request) mayReplace(old *config.Plugin) error {
	if old == nil || r.Replace {
		return nil
	}
	now, err := registry.Parse(r.Reference)
	if err != nil {
		return err
	}
	if old.Reference != "" {
		if then, err := registry.Parse(old.Reference); err == nil && then.Repository == now.Repository {
			return nil
		}
	}
	return fmt.Errorf("[[plugin]] %q is there already, with %s, and is not from %s: --name OTHER installs under another "+
		"name, --replace replaces it", r.Name, Origin(*old), now.Repository)
}

// Origin says where a block has its module from, as the settings do.
func Origin(p config.Plugin) string {
	if p.Reference != "" {
		return fmt.Sprintf("reference = %.300q", p.Reference)
	}
	return fmt.Sprintf("source = %.300q", p.Source)
}

// Remove takes a plugin out of the settings' file and removes the files that installations wrote for it, unless another
// block names them. Other files stay. It returns the files that are gone, and whether the block is out, also where a
// file could not be removed.
func Remove(ctx context.Context, t Target, name string) (out bool, files []string, err error) {
	if err := config.CheckName(name); err != nil {
		return false, nil, fmt.Errorf("name %w", err)
	}
	err = t.locked(ctx, func() error {
		var left []byte
		err := t.change(ctx, func(text []byte) (_ []byte, err error) {
			left, err = config.Unlock(text, name)
			return left, err
		})
		if err != nil {
			return err
		}
		out = true
		files, err = t.removeFiles(name, left)
		return err
	})
	return out, files, err
}

// removeLeft removes the files of a plugin that the settings' file does not have any more: those that a removal before
// could not remove.
func (t Target) removeLeft(ctx context.Context, name string) (files []string, err error) {
	if config.CheckName(name) != nil {
		return nil, nil // a reference
	}
	if _, err := os.Stat(t.Folder); errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	err = t.locked(ctx, func() error {
		text, err := t.read()
		if err != nil {
			return err
		}
		if now, err := block(t.File, text, name); err != nil || now != nil {
			return err // somebody installed it meanwhile
		}
		files, err = t.removeFiles(name, text)
		return err
	})
	return files, err
}

// removeFiles removes the files of a plugin that no block of the text names, and goes on where it can't remove one.
func (t Target) removeFiles(name string, text []byte) (files []string, err error) {
	c := config.Default()
	if err := config.Decode(t.File, text, &c); err != nil {
		return nil, err
	}
	named := func(file string) bool {
		return slices.ContainsFunc(c.Plugin, func(p config.Plugin) bool {
			source := t.path(p.Source)
			return same(source, file) || same(share.Beside(source), file)
		})
	}
	own := regexp.MustCompile(`^` + name + `-[0-9a-f]{16}\.wasm(\.artifact\.json)?$`)
	list, err := os.ReadDir(t.Folder)
	if errors.Is(err, fs.ErrNotExist) {
		err = nil
	}
	remove := func(file string) {
		switch failed := os.Remove(file); {
		case failed == nil:
			files = append(files, file)
		case !errors.Is(failed, fs.ErrNotExist):
			err = errors.Join(err, failed)
		}
	}
	for _, f := range list {
		if file := filepath.Join(t.Folder, f.Name()); own.MatchString(f.Name()) && !named(file) {
			remove(file)
		}
	}
	remove(t.pastFile(name))
	return files, err
}

// same reports whether two paths lead to one file.
func same(a, b string) bool {
	x, err := os.Stat(a)
	y, other := os.Stat(b)
	return err == nil && other == nil && os.SameFile(x, y)
}

// locked runs f alone among all processes that install into the folder.
func (t Target) locked(ctx context.Context, f func() error) error {
	if err := os.MkdirAll(t.Folder, 0o755); err != nil {
		return err
	}
	lock, err := regular.Open(filepath.Join(t.Folder, ".lock"), os.O_RDWR|os.O_CREATE|regular.NoLink)
	if err != nil {
		return err
	}
	defer lock.Close() // which ends the lock
	if err := share.Lock(ctx, lock); err != nil {
		return err
	}
	return f()
}

// change edits the settings' file. Where somebody saves it meanwhile, who knows nothing of the lock, it begins again
// with what that wrote.
func (t Target) change(ctx context.Context, edit func(text []byte) ([]byte, error)) error {
	for {
		text, err := t.read()
		if err != nil {
			return err
		}
		made, err := edit(text)
		if err == nil {
			err = context.Cause(ctx)
		}
		if err != nil {
			return fmt.Errorf("%s: %w", t.File, err)
		}
		if now, err := t.read(); err == nil && bytes.Equal(now, text) {
			return share.Replace(t.File, made, 0o644)
		}
	}
}

// read is the text of the settings' file, nothing where there is none. Its errors name the file.
func (t Target) read() ([]byte, error) {
	text, err := regular.Read(t.File, 0, config.MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	return text, err
}

// CheckFile refuses a settings' file that can't be replaced, such as a pipe, without opening it: that would wait for a
// writer. None is none yet. Its errors name the file.
func CheckFile(file string) error {
	if err := regular.Check(file); !errors.Is(err, fs.ErrNotExist) {
		return err
	}
	return nil
}

// holds reports whether a file of the folder has this content. It follows no link and waits for no writer of a pipe.
func holds(file string, content []byte) bool {
	text, err := regular.Read(file, regular.NoLink, int64(len(content)))
	return err == nil && bytes.Equal(text, content)
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
