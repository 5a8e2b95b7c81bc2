package host

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"maps"
	"os"
	"path/filepath"
	"reflect"
	"slices"
	"strings"
	"syscall"
	"time"

	"tgi/plugins"
	"tgi/runtime/regular"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/wire"
)

// upload is a module that came by the admin routes.
type upload struct {
	wasm     []byte
	settings plugins.Upload
	version  string        // the module's own word
	uploaded time.Time     // when it came
	signed   []byte        // what share.Beside has of it; nil for nothing
	past     []pastVersion // what it replaced here, the latest first
	damaged  error         // why what was kept cannot be used; there is no wasm then, and settings may be unread
}

// uploadFolder keeps uploads over restarts: NAME.json says how a plugin is used and which file beside it has the
// module. "" keeps nothing.
//
// What is damaged must let nothing through that it guarded. So a module without its NAME.json counts as damaged, and
// nothing beside it excuses that: whether a crash cut its upload short or NAME.json was lost cannot be told. A crash
// leaves what was there before, but for two moments: a first upload that has its module and not yet its NAME.json, and
// a removal, which deletes NAME.json last. Both are damaged then, and an upload or a removal mends them.
//
// Several servers may have one folder. Each change is made with the lock of the folder held, and by what the folder has
// then, not by what a server remembers. Nothing else needs the lock: a NAME.json is whole at any time.
type uploadFolder string

// keptUpload is the file NAME.json. Files that earlier versions of tgi wrote have to be read: what is added has
// omitempty or omitzero, and nothing is taken away (checkMembers).
type keptUpload struct {
	// Module is the file with the module, SHA256 what it must be.
	Module  string          `json:"module"`
	SHA256  string          `json:"sha256"`
	OnError string          `json:"on_error"`
	Apply   string          `json:"apply"`
	Limits  keptLimits      `json:"limits"`
	Config  json.RawMessage `json:"config,omitempty"`
	// Keys, OnFull and OnExhausted are left out where they are the defaults.
	Keys        []string `json:"keys,omitempty"`
	OnFull      string   `json:"on_full,omitempty"`
	OnExhausted string   `json:"on_exhausted,omitempty"`
	// Signed is what came with the module: its description and signatures.
	Signed json.RawMessage `json:"signed,omitempty"`
	// Version is the module's own word, Uploaded when it came, Bytes its size.
	Version  string    `json:"version,omitempty"`
	Uploaded time.Time `json:"uploaded,omitzero"`
	Bytes    int64     `json:"bytes,omitempty"`
	// Past are those that it replaced, the latest first.
	Past []keptUpload `json:"past,omitempty"`
}

// modules are the files that the upload names.
func (k keptUpload) modules() (files []string) {
	for _, v := range append([]keptUpload{k}, k.Past...) {
		if v.Module != "" && v.Module == filepath.Base(v.Module) {
			files = append(files, v.Module)
		}
	}
	return files
}

// keptLimits are plugins.Limits; 0 is the default.
type keptLimits struct {
	Memory         int64 `json:"memory,omitempty"`
	FuelPerStep    int64 `json:"fuel_per_step,omitempty"`
	FuelPerRequest int64 `json:"fuel_per_request,omitempty"`
	FuelLoad       int64 `json:"fuel_load,omitempty"`
	// Times are nanoseconds.
	TimePerStep    time.Duration `json:"time_per_step,omitempty"`
	TimePerRequest time.Duration `json:"time_per_request,omitempty"`
	TimeLoad       time.Duration `json:"time_load,omitempty"`
	Share          float64       `json:"share,omitempty"`
}

const (
	settingsExt = ".json"
	moduleExt   = ".wasm"
	tempExt     = ".tmp"
)

// load returns what is kept, by name, and what is wrong with the rest, which stays where it is. The list is nil where
// the folder can't be read. Files of a process that was killed while it wrote are removed once they are older than
// leftAge.
func (dir uploadFolder) load() (map[string]upload, error) {
	there, err := dir.look()
	if err != nil {
		return nil, err
	}
	var errs []error
	for _, name := range slices.Sorted(maps.Keys(there.wrong)) {
		errs = append(errs, fmt.Errorf("uploaded plugin %s: %w", name, there.wrong[name]))
	}
	if len(errs) == 0 && len(dir.left(there)) > 0 { // else a file may belong to what cannot be read
		errs = append(errs, dir.clean())
	}
	return there.list, errors.Join(errs...)
}

// leftAge is how old a file is that nobody writes any more: another replica, which has no lock where the file system
// has none, may be about to name a younger one.
const leftAge = time.Hour

// left are the files that a process which was killed left behind.
func (dir uploadFolder) left(there folderContent) (files []string) {
	for _, file := range there.files {
		_, ours := moduleOwner(file)
		if (strings.HasSuffix(file, tempExt) || ours && !there.used[file]) && dir.older(file, leftAge) {
			files = append(files, file)
		}
	}
	return files
}

// clean deletes what is left behind. Where another process changes the folder for long, the next start does.
func (dir uploadFolder) clean() error {
	unlock, err := dir.lock(context.Background())
	switch {
	case errors.Is(err, server.ErrUploadsBusy):
		return nil
	case err != nil && !errors.Is(err, errNoLocks):
		return err
	}
	defer unlock()
	there, err := dir.lookOnce() // a file may have been named since
	if err != nil || len(there.wrong) > 0 {
		return err
	}
	for _, file := range dir.left(there) {
		err = errors.Join(err, dir.delete(file))
	}
	return err
}

// older reports whether a file is there and was last written so long ago.
func (dir uploadFolder) older(file string, age time.Duration) bool {
	about, err := os.Lstat(filepath.Join(string(dir), file))
	return err == nil && time.Since(about.ModTime()) > age
}

// folderContent is what is in a folder of uploads.
type folderContent struct {
	list  map[string]upload
	wrong map[string]error // why uploads cannot be used, by name
	files []string         // all there are
	used  map[string]bool  // those that an upload names
	// torn are the uploads of wrong that look as they do while another replica writes or deletes them, with what tells
	// whether they changed since.
	torn map[string]string
}

// A listing is none of one moment, where another replica writes or deletes: what looks damaged for that is looked at
// again after settleTime, and so on while it changes, at most maxLooks times.
const (
	settleTime = 500 * time.Millisecond
	maxLooks   = 10
)

// look reads what is kept. It changes nothing.
func (dir uploadFolder) look() (folderContent, error) {
	c, err := dir.lookOnce()
	for n := 1; n < maxLooks && err == nil && len(c.torn) > 0; n++ {
		before := c.torn
		time.Sleep(settleTime)
		if c, err = dir.lookOnce(); maps.Equal(c.torn, before) {
			break
		}
	}
	return c, err
}

// lookOnce is look, which may take what another replica is about to write or delete for damaged.
func (dir uploadFolder) lookOnce() (folderContent, error) {
	c := folderContent{list: map[string]upload{}, wrong: map[string]error{}, used: map[string]bool{},
		torn: map[string]string{}}
	if dir == "" {
		return c, nil
	}
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return c, nil
	}
	if err != nil {
		return c, fmt.Errorf("uploaded plugins: %w", err)
	}
	lone := map[string]string{} // the modules by the name of their upload, with their times
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), settingsExt)
		if e.IsDir() && !ok {
			continue
		}
		c.files = append(c.files, e.Name())
		if of, ok := moduleOwner(e.Name()); ok {
			lone[of] += dir.stamp(e.Name())
		}
		if !ok {
			continue
		}
		u, modules, err := dir.read(name)
		for _, file := range modules {
			c.used[file] = true
		}
		if err != nil {
			if _, gone := os.Lstat(filepath.Join(string(dir), e.Name())); errors.Is(gone, fs.ErrNotExist) {
				continue // another replica removes it
			}
			if errors.Is(err, fs.ErrNotExist) { // of its module
				c.torn[name] = dir.stamp(e.Name())
			}
			c.wrong[name] = err
			if config.CheckName(name) != nil {
				continue
			}
			u.damaged = err // it is listed, and what it applies to is not let through
		}
		c.list[name] = u
	}
	for name, stamp := range lone {
		if _, known := c.list[name]; known || config.CheckName(name) != nil {
			continue
		}
		c.torn[name] = stamp
		c.wrong[name] = fmt.Errorf("%s, which says how it is used, is missing, and its module is there: put %[1]s back, "+
			"or upload or remove the plugin", name+settingsExt)
		c.list[name] = upload{settings: unread.settings(), damaged: c.wrong[name]}
	}
	return c, nil
}

// stamp tells whether a file of the folder is another one, or was written, since.
func (dir uploadFolder) stamp(file string) string {
	about, err := os.Lstat(filepath.Join(string(dir), file))
	if err != nil {
		return file + " is gone"
	}
	return file + " " + about.ModTime().String()
}

// unread stands for settings of an upload that cannot be read: it may have been a guard of all requests.
var unread = keptUpload{OnError: string(plugins.OnErrorFail), Apply: string(plugins.ApplyAlways)}

// readSettings returns what NAME.json says. On an error Module is "", and the rest is what could be read, or unread.
func (dir uploadFolder) readSettings(name string) (k keptUpload, err error) {
	if err := config.CheckName(name); err != nil {
		return k, fmt.Errorf("name %w", err)
	}
	text, err := regular.Read(filepath.Join(string(dir), name+settingsExt), regular.NoLink, maxKeptSettings)
	if err != nil {
		return unread, err
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return unread, fmt.Errorf("%s: %w", name+settingsExt, wire.Told(err))
	}
	if err := checkMembers(text, reflect.TypeFor[keptUpload](), ""); err != nil {
		return unread, fmt.Errorf("%s: %w", name+settingsExt, err)
	}
	for _, v := range append([]keptUpload{k}, k.Past...) {
		if a := plugins.Apply(v.Apply); a != plugins.ApplyRequest && a != plugins.ApplyAlways {
			return unread, fmt.Errorf("%s: apply %q is neither %q nor %q", name+settingsExt, a, plugins.ApplyRequest,
				plugins.ApplyAlways)
		}
	}
	if k.Module == "" {
		return unread, fmt.Errorf("%s: module is missing", name+settingsExt)
	}
	if k.Module != filepath.Base(k.Module) {
		err = fmt.Errorf("module %q is not a file of the folder", k.Module)
		k.Module = ""
	}
	return k, err
}

// read returns one upload and the files of its modules.
func (dir uploadFolder) read(name string) (u upload, modules []string, err error) {
	k, err := dir.readSettings(name)
	u.settings, u.version, u.uploaded, u.signed = k.settings(), k.Version, k.Uploaded, k.Signed
	modules, u.past = k.modules(), k.before()
	if err != nil {
		return u, modules, err
	}
	u.wasm, err = dir.readModule(k)
	return u, modules, err
}

// maxKeptModule bounds a module of the folder, in bytes: plugins.upload_limit is at most that.
const maxKeptModule = 1 << 30

// maxKeptSettings bounds NAME.json, in bytes: it has the configuration of each version that is kept.
const maxKeptSettings = 64 << 20

// readModule reads the module of an upload.
func (dir uploadFolder) readModule(k keptUpload) ([]byte, error) {
	wasm, err := regular.Read(filepath.Join(string(dir), k.Module), regular.NoLink, maxKeptModule)
	if err != nil {
		return nil, err
	}
	if got := moduleSum(wasm); got != k.SHA256 {
		return nil, fmt.Errorf("%s has sha256 %s, %s wanted", k.Module, got, k.SHA256)
	}
	return wasm, nil
}

func moduleSum(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// put keeps an upload in the place of what has its name, which stays as a version of before. The folder's lock is held.
func (dir uploadFolder) put(name string, u upload) error {
	if dir == "" {
		return nil
	}
	k := u.kept(name)
	for _, p := range latestVersions(dir.history(name), k) {
		k.Past = append(k.Past, p.kept)
	}
	text, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = os.MkdirAll(string(dir), 0o700)
	}
	before, _ := dir.readSettings(name)
	for _, file := range []string{name + settingsExt, k.Module} { // an empty folder in its place gives way
		if about, wrong := os.Lstat(filepath.Join(string(dir), file)); wrong == nil && about.IsDir() && err == nil {
			err = dir.delete(file)
		}
	}
	var next string
	if err == nil {
		next, err = dir.write(name+settingsExt, append(text, '\n'))
	}
	if err == nil {
		var module string
		if module, err = dir.write(k.Module, u.wasm); err == nil {
			err = dir.rename(module, k.Module)
		}
		if err == nil {
			err = dir.rename(next, name+settingsExt)
		} else {
			err = errors.Join(err, dir.delete(next))
		}
	}
	if err != nil {
		return dir.notKept(err)
	}
	now := k.modules()
	for _, file := range before.modules() {
		if !slices.Contains(now, file) && ownModule(name, file) {
			_ = dir.delete(file) // load removes what is left
		}
	}
	return nil
}

// notKept is the error of an upload that can't be kept.
func (dir uploadFolder) notKept(err error) error {
	return fmt.Errorf("the upload can't be kept (plugins.uploads = %q; \"\" keeps none): %w", string(dir), err)
}

// ownModule reports whether a file is one that put writes for the upload of a name. Another one, which a copied or
// edited NAME.json names, is not removed with it.
func ownModule(name, file string) bool {
	of, ok := moduleOwner(file)
	return ok && of == name
}

// moduleOwner returns the name of the upload for which put writes a module so.
func moduleOwner(file string) (name string, ok bool) {
	stem, is := strings.CutSuffix(file, moduleExt)
	at := strings.LastIndexByte(stem, '-')
	if !is || at < 0 {
		return "", false
	}
	digits := stem[at+1:]
	return stem[:at], len(digits) == 16 && strings.Trim(digits, "0123456789abcdef") == ""
}

// write writes a file that is to get a name, and that no other replica with this folder writes.
func (dir uploadFolder) write(name string, b []byte) (temp string, err error) {
	f, err := os.CreateTemp(string(dir), name+".*"+tempExt)
	if err != nil {
		return "", err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err != nil {
		_ = os.Remove(f.Name())
	}
	return filepath.Base(f.Name()), err
}

// rename gives a file its name, which it has after a crash of the machine too, or deletes it.
func (dir uploadFolder) rename(temp, name string) error {
	from := filepath.Join(string(dir), temp)
	if err := os.Rename(from, filepath.Join(string(dir), name)); err != nil {
		_ = os.Remove(from)
		return err
	}
	return dir.sync()
}

// sync has the names of the folder written to the disk.
func (dir uploadFolder) sync() error {
	d, err := os.Open(string(dir))
	if err != nil {
		return err
	}
	if err = d.Sync(); errors.Is(err, errors.ErrUnsupported) || errors.Is(err, syscall.EINVAL) {
		err = nil // some file systems have none
	}
	return errors.Join(err, d.Close())
}

// remove forgets an upload. The folder's lock is held.
func (dir uploadFolder) remove(name string) error {
	if dir == "" {
		return nil
	}
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	if err != nil {
		return err
	}
	// NAME.json goes last: what a crash leaves then applies as it did, and not to all.
	for _, e := range entries {
		if ownModule(name, e.Name()) && err == nil {
			err = dir.delete(e.Name())
		}
	}
	if err == nil {
		err = dir.delete(name + settingsExt)
	}
	if err == nil {
		err = dir.sync()
	}
	return err
}

func (dir uploadFolder) delete(name string) error {
	err := os.Remove(filepath.Join(string(dir), name))
	if errors.Is(err, fs.ErrNotExist) {
		return nil
	}
	return err
}
