//go:build unix

package library

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
	"time"
)

// copyOf copies a golden checkpoint to a folder.
func copyOf(t *testing.T, dir string) {
	t.Helper()
	if err := os.CopyFS(dir, os.DirFS(filepath.Join(goldenDir, "qwen2"))); err != nil {
		t.Fatal(err)
	}
}

// link lays a link, in the place of what is there.
func link(t *testing.T, to, at string) {
	t.Helper()
	if err := errors.Join(os.MkdirAll(filepath.Dir(at), 0o755), os.RemoveAll(at), os.Symlink(to, at)); err != nil {
		t.Fatal(err)
	}
}

// TestImportLinks: links are followed inside of what is imported, and no link,
// however it is laid, brings a file in from elsewhere.
func TestImportLinks(t *testing.T) {
	secret := filepath.Join(t.TempDir(), "secret")
	if err := os.WriteFile(secret, []byte(`{"secret": true}`), 0o600); err != nil {
		t.Fatal(err)
	}
	const out = "is a link out of the folder, or to nothing"
	for name, c := range map[string]struct {
		lay  func(t *testing.T, dir string) string // returns what to import
		want string
	}{
		"plain": {func(t *testing.T, dir string) string { return dir }, ""},
		"inside": {func(t *testing.T, dir string) string {
			if err := os.Rename(filepath.Join(dir, "config.json"), filepath.Join(dir, "other")); err != nil {
				t.Fatal(err)
			}
			link(t, "other", filepath.Join(dir, "config.json"))
			return dir
		}, ""},
		"a folder by a link": {func(t *testing.T, dir string) string {
			at := filepath.Join(t.TempDir(), "x")
			link(t, dir, at)
			return at
		}, ""},
		"the hub's cache": {func(t *testing.T, dir string) string {
			repo := filepath.Join(t.TempDir(), "models--a--b")
			copyOf(t, filepath.Join(repo, "blobs"))
			for _, n := range qwen2Files {
				link(t, "../../blobs/"+n, filepath.Join(repo, "snapshots", "0123", n))
			}
			return filepath.Join(repo, "snapshots", "0123")
		}, ""},
		"out of the hub's cache": {func(t *testing.T, dir string) string {
			cache := t.TempDir()
			at := filepath.Join(cache, "models--a--b", "snapshots", "0123")
			copyOf(t, at)
			link(t, "../../../secret", filepath.Join(at, "config.json"))
			if err := os.WriteFile(filepath.Join(cache, "secret"), []byte("{}"), 0o600); err != nil {
				t.Fatal(err)
			}
			return at
		}, `"config.json": ` + out},
		"an absolute link": {func(t *testing.T, dir string) string {
			link(t, secret, filepath.Join(dir, "generation_config.json"))
			return dir
		}, `"generation_config.json": ` + out},
		"a link up": {func(t *testing.T, dir string) string {
			up, err := filepath.Rel(dir, secret)
			if err != nil {
				t.Fatal(err)
			}
			link(t, up, filepath.Join(dir, "config.json"))
			return dir
		}, `"config.json": ` + out},
		"a chain of links": {func(t *testing.T, dir string) string {
			link(t, secret, filepath.Join(dir, "step"))
			link(t, "step", filepath.Join(dir, "config.json"))
			return dir
		}, `"config.json": ` + out},
		"the list of weights": {func(t *testing.T, dir string) string {
			link(t, secret, filepath.Join(dir, "model.safetensors.index.json"))
			return dir
		}, `"model.safetensors.index.json": ` + out},
		"a folder of weights": {func(t *testing.T, dir string) string {
			away, weights := t.TempDir(), "model-00001-of-00004.safetensors"
			if err := os.Rename(filepath.Join(dir, weights), filepath.Join(away, weights)); err != nil {
				t.Fatal(err)
			}
			link(t, away, filepath.Join(dir, "sub"))
			index := `{"weight_map": {"a": "sub/` + weights + `"}}`
			if err := os.WriteFile(filepath.Join(dir, "model.safetensors.index.json"), []byte(index),
				0o600); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "sub/model"},
		"a pipe": {func(t *testing.T, dir string) string {
			at := filepath.Join(dir, "config.json")
			if err := errors.Join(os.Remove(at), syscall.Mkfifo(at, 0o600)); err != nil {
				t.Fatal(err)
			}
			return dir
		}, "is no ordinary file"},
		"a pipe for an archive": {func(t *testing.T, dir string) string {
			at := filepath.Join(t.TempDir(), "model.tar")
			if err := syscall.Mkfifo(at, 0o600); err != nil {
				t.Fatal(err)
			}
			return at
		}, "is no ordinary file"},
	} {
		t.Run(name, func(t *testing.T) {
			l := opened(t, Options{})
			dir := filepath.Join(t.TempDir(), "model")
			copyOf(t, dir)
			ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
			defer cancel()
			m, err := l.Import(ctx, "x", c.lay(t, dir), ImportOptions{})
			if c.want == "" {
				if err != nil {
					t.Fatal(err)
				}
				holds(t, m, "qwen2", qwen2Files...)
			} else if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %q", err, c.want)
			}
			clean(t, l)
		})
	}
}
