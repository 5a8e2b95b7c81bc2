package install

import (
	"bytes"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"tgi/server/config"
	"tgi/server/share"
)

func packed(t *testing.T, name, tail string) share.Artifact {
	t.Helper()
	a, err := share.Pack([]byte("\x00asm\x01\x00\x00\x00"+tail), share.Description{Name: name,
		Kinds: []string{"logits"}, ABI: 1})
	if err != nil {
		t.Fatal(err)
	}
	return a
}

// read is the plugins of the settings' file.
func read(t *testing.T, to Target) []config.Plugin {
	t.Helper()
	text, err := os.ReadFile(to.File)
	if err != nil {
		t.Fatal(err)
	}
	c := config.Default()
	if err := config.Decode(to.File, text, &c); err != nil {
		t.Fatal(err)
	}
	if err := c.Validate(); err != nil {
		t.Fatal(err)
	}
	return c.Plugin
}

// TestInstall: a new version replaces the lock and not the file of the old one, which a server may be reading; rm takes
// both away, and nothing of others.
func TestInstall(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "plugins", "installed")}
	if err := os.WriteFile(to.File, []byte("# mine\n[server]\nport = 1\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	var files []string
	for _, tail := range []string{"", "", "new"} {
		a := packed(t, "ban", tail)
		file, err := Install(to, "ban", "registry.example/ban:1@"+a.Digest(), a)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		list := read(t, to)
		if len(list) != 1 || list[0].SHA256 != a.SHA256() || filepath.Join(dir, list[0].Source) != file ||
			list[0].Reference != "registry.example/ban:1@"+a.Digest() {
			t.Errorf("%+v", list)
		}
		if module, err := os.ReadFile(file); err != nil || !bytes.Equal(module, a.Module) {
			t.Errorf("%v", err)
		}
		if b, err := share.ReadBeside(file, a.Module); err != nil || b.Digest() != a.Digest() {
			t.Errorf("%v", err)
		}
	}
	if files[0] != files[1] || files[1] == files[2] {
		t.Errorf("%q", files)
	}
	if info, err := os.Stat(to.File); err != nil || info.Mode().Perm() != 0o640 {
		t.Errorf("%v, %v", info.Mode(), err)
	}
	mended := packed(t, "ban", "new")
	if err := os.WriteFile(files[2], []byte("damaged"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Install(to, "ban", "r", mended); err != nil {
		t.Fatal(err)
	}
	if module, err := os.ReadFile(files[2]); err != nil || !bytes.Equal(module, mended.Module) {
		t.Error("a damaged file was not mended")
	}
	if _, err := Install(to, "ban-more", "r", packed(t, "ban", "")); err != nil {
		t.Fatal(err)
	}
	removed, err := Remove(to, "ban")
	if err != nil || len(removed) != 4 {
		t.Errorf("%q, %v", removed, err)
	}
	if list := read(t, to); len(list) != 1 || list[0].Name != "ban-more" {
		t.Errorf("%+v", list)
	}
	if _, err := os.Stat(filepath.Join(dir, read(t, to)[0].Source)); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(to.File)
	if err != nil || !strings.HasPrefix(string(text), "# mine\n[server]\nport = 1\n") {
		t.Errorf("%s", text)
	}
	if _, err := Remove(to, "ban"); err == nil || !strings.Contains(err.Error(), to.File) {
		t.Error(err)
	}
}

// TestInstallRefuses: nothing is written where the settings' file can't be edited, or the artefact is broken.
func TestInstallRefuses(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	const text = "plugin = [{name = \"a\", source = \"a.wasm\"}]\n"
	if err := os.WriteFile(to.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a := packed(t, "ban", "")
	if _, err := Install(to, "ban", "r", a); err == nil || !strings.Contains(err.Error(), "[[plugin]]") {
		t.Error(err)
	}
	if _, err := Install(to, "../ban", "r", a); err == nil {
		t.Error("a name left the folder")
	}
	a.Module = append(bytes.Clone(a.Module[:7]), 7)
	if _, err := Install(to, "ban", "r", a); err == nil {
		t.Error("another module was installed")
	}
	if now, err := os.ReadFile(to.File); err != nil || string(now) != text {
		t.Errorf("%s", now)
	}
	if list, err := filepath.Glob(filepath.Join(to.Folder, "*.wasm*")); err != nil || len(list) > 0 {
		t.Errorf("%q", list)
	}
	if _, err := os.Stat(filepath.Join(dir, "ban")); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
}

// TestInstallTogether: installations at the same time lose none of each other's entries.
func TestInstallTogether(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	var all sync.WaitGroup
	for _, name := range []string{"a", "b", "c", "d", "e"} {
		a := packed(t, name, name)
		all.Go(func() {
			if _, err := Install(to, name, "r", a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list := read(t, to); len(list) != 5 {
		t.Errorf("%+v", list)
	}
}
