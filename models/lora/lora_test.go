package lora

import (
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tgi/models/hf"
	"tgi/models/safetensors"
)

// adapterCopy returns a copy of an adapter for the tiny Llama 2.
func adapterCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.CopyFS(dir, os.DirFS(folders(t)[0])); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFileCutShort: a file that is cut short while it is read is an error, and not the end of the process.
func TestFileCutShort(t *testing.T) {
	dir := adapterCopy(t)
	file := filepath.Join(dir, hf.AdapterFile)
	base, err := hf.Open("../testdata/golden/llama2")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	config, err := os.ReadFile(filepath.Join(dir, hf.AdapterConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := hf.ParseAdapterConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	r := reader{settings: settings, set: set, base: base, used: map[string]bool{}, modules: map[string]bool{}}
	if _, err := r.read(); err == nil || !strings.Contains(err.Error(), "changes while it is read") {
		t.Errorf("got %v", err)
	}
}

// TestFoldersThatAreNone: what is no adapter is refused, and a pipe is not waited for.
func TestFoldersThatAreNone(t *testing.T) {
	base, err := hf.Open("../testdata/golden/llama2")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	pipe := func(name string) func(dir string) error {
		return func(dir string) error {
			file := filepath.Join(dir, name)
			if err := os.Remove(file); err != nil {
				return err
			}
			return syscall.Mkfifo(file, 0o600)
		}
	}
	for want, change := range map[string]func(dir string) error{
		"there is no adapter_config.json": func(dir string) error {
			return os.Remove(filepath.Join(dir, hf.AdapterConfigFile))
		},
		"adapter_config.json is not a file":       pipe(hf.AdapterConfigFile),
		"adapter_model.safetensors is not a file": pipe(hf.AdapterFile),
		"adapter_model.bin can run code": func(dir string) error {
			return os.Rename(filepath.Join(dir, hf.AdapterFile), filepath.Join(dir, hf.AdapterPickle))
		},
		"adapter_config.json has 1048577 bytes, at most 1048576 are read": func(dir string) error {
			return os.Truncate(filepath.Join(dir, hf.AdapterConfigFile), MaxConfig+1)
		},
		"it is truncated": func(dir string) error {
			return os.Truncate(filepath.Join(dir, hf.AdapterFile), 9000)
		},
	} {
		dir := adapterCopy(t)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, base); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		_, _ = EstimateBytes(dir) // which waits for nobody either
	}
}
