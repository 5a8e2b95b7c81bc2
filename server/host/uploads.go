package host

import (
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"time"

	"tgi/plugins"
	"tgi/server/config"
)

// upload is a module that came by the admin routes.
type upload struct {
	wasm     []byte
	settings plugins.Upload
	damaged  error // why what was kept cannot be used
}

// uploadFolder keeps uploads over restarts: NAME.json says how a plugin is used
// and which file beside it has the module. It is written last, so that a crash
// leaves what was there before. "" keeps nothing.
type uploadFolder string

// keptUpload is the file NAME.json.
type keptUpload struct {
	// Module is the file with the module, SHA256 what it must be.
	Module  string          `json:"module"`
	SHA256  string          `json:"sha256"`
	OnError string          `json:"on_error"`
	Apply   string          `json:"apply"`
	Limits  keptLimits      `json:"limits"`
	Config  json.RawMessage `json:"config,omitempty"`
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

// load returns what is kept, by name, and what is wrong with the rest, which
// stays where it is. Files of a process that was killed while it wrote are
// removed.
func (dir uploadFolder) load() (map[string]upload, error) {
	list := map[string]upload{}
	if dir == "" {
		return list, nil
	}
	entries, err := os.ReadDir(string(dir))
	if errors.Is(err, fs.ErrNotExist) {
		return list, nil
	}
	if err != nil {
		return list, fmt.Errorf("uploaded plugins: %w", err)
	}
	var errs []error
	used := map[string]bool{}
	for _, e := range entries {
		name, ok := strings.CutSuffix(e.Name(), settingsExt)
		if !ok || e.IsDir() {
			continue
		}
		u, module, err := dir.read(name)
		used[module] = true
		if err != nil {
			errs = append(errs, fmt.Errorf("uploaded plugin %s: %w", name, err))
			if config.CheckName(name) != nil {
				continue
			}
			u.damaged = err // it is listed, and what it applies to is not let through
		}
		list[name] = u
	}
	whole := len(errs) == 0 // else a module may belong to what cannot be read
	for _, e := range entries {
		left := strings.HasSuffix(e.Name(), tempExt) || strings.HasSuffix(e.Name(), moduleExt) && whole &&
			!used[e.Name()]
		if left && !e.IsDir() {
			errs = append(errs, os.Remove(filepath.Join(string(dir), e.Name())))
		}
	}
	return list, errors.Join(errs...)
}

// readSettings returns what NAME.json says. On an error Module is "", and the rest is what could be read.
func (dir uploadFolder) readSettings(name string) (k keptUpload, err error) {
	if err := config.CheckName(name); err != nil {
		return k, fmt.Errorf("name %w", err)
	}
	text, err := os.ReadFile(filepath.Join(string(dir), name+settingsExt))
	if err != nil {
		return k, err
	}
	if err := json.Unmarshal(text, &k); err != nil {
		return keptUpload{}, err
	}
	if k.Module != filepath.Base(k.Module) {
		err = fmt.Errorf("module %q is not a file of the folder", k.Module)
		k.Module = ""
	}
	return k, err
}

// read returns one upload and the file of its module.
func (dir uploadFolder) read(name string) (u upload, module string, err error) {
	k, err := dir.readSettings(name)
	u.settings = plugins.Upload{
		OnError: plugins.OnError(k.OnError), Apply: plugins.Apply(k.Apply), Limits: plugins.Limits(k.Limits),
		Config: k.Config,
	}
	if err != nil {
		return u, "", err
	}
	if u.wasm, err = os.ReadFile(filepath.Join(string(dir), k.Module)); err != nil {
		return u, k.Module, err
	}
	if got := moduleSum(u.wasm); got != k.SHA256 {
		return u, k.Module, fmt.Errorf("%s has sha256 %s, %s wanted", k.Module, got, k.SHA256)
	}
	return u, k.Module, nil
}

func moduleSum(wasm []byte) string {
	sum := sha256.Sum256(wasm)
	return hex.EncodeToString(sum[:])
}

// put keeps an upload in the place of what has its name.
func (dir uploadFolder) put(name string, u upload) error {
	if dir == "" {
		return nil
	}
	sum := moduleSum(u.wasm)
	k := keptUpload{
		Module: name + "-" + sum[:16] + moduleExt, SHA256: sum, OnError: string(u.settings.OnError),
		Apply:  string(u.settings.Apply),
		Limits: keptLimits(u.settings.Limits), Config: u.settings.Config,
	}
	text, err := json.MarshalIndent(k, "", "  ")
	if err == nil {
		err = os.MkdirAll(string(dir), 0o700)
	}
	before, _ := dir.readSettings(name)
	if err == nil {
		err = dir.write(k.Module, u.wasm)
	}
	if err == nil {
		err = dir.write(name+settingsExt, append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("the upload can't be kept (plugins.uploads = %q; \"\" keeps none): %w", string(dir), err)
	}
	if before.Module != "" && before.Module != k.Module {
		return dir.delete(before.Module)
	}
	return nil
}

// write writes a file whole or not at all.
func (dir uploadFolder) write(name string, b []byte) error {
	path := filepath.Join(string(dir), name)
	f, err := os.OpenFile(path+tempExt, os.O_WRONLY|os.O_CREATE|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = f.Write(b)
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(path+tempExt, path)
	}
	if err != nil {
		_ = os.Remove(path + tempExt)
	}
	return err
}

// remove forgets an upload.
func (dir uploadFolder) remove(name string) error {
	if dir == "" {
		return nil
	}
	k, _ := dir.readSettings(name)
	err := dir.delete(name + settingsExt)
	if k.Module != "" {
		err = errors.Join(err, dir.delete(k.Module))
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
