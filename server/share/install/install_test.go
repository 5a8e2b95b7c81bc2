package install

import (
	"bytes"
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"

	"golang.org/x/sys/unix"

	"tgi/runtime/regular"
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

// put installs a version of a plugin of registry.example under a name.
func put(t *testing.T, to Target, name, repository string, a share.Artifact) (string, error) {
	done, err := Install(t.Context(), to, Request{Name: name, Artifact: a,
		Reference: "registry.example/" + repository + ":1@" + a.Digest()})
	return done.File, err
}

// settings is the plugins of the settings' file.
func settings(t *testing.T, to Target) []config.Plugin {
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
		file, err := put(t, to, "ban", "ban", a)
		if err != nil {
			t.Fatal(err)
		}
		files = append(files, file)
		list := settings(t, to)
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
	if _, err := put(t, to, "ban", "ban", mended); err != nil {
		t.Fatal(err)
	}
	if module, err := os.ReadFile(files[2]); err != nil || !bytes.Equal(module, mended.Module) {
		t.Error("a damaged file was not mended")
	}
	if _, err := put(t, to, "ban-more", "ban", packed(t, "ban", "")); err != nil {
		t.Fatal(err)
	}
	_, removed, err := Remove(t.Context(), to, "ban")
	if err != nil || len(removed) != 5 || removed[4] != to.pastFile("ban") {
		t.Errorf("%q, %v", removed, err)
	}
	if list := settings(t, to); len(list) != 1 || list[0].Name != "ban-more" {
		t.Errorf("%+v", list)
	}
	if _, err := os.Stat(filepath.Join(dir, settings(t, to)[0].Source)); err != nil {
		t.Error(err)
	}
	text, err := os.ReadFile(to.File)
	if err != nil || !strings.HasPrefix(string(text), "# mine\n[server]\nport = 1\n") {
		t.Errorf("%s", text)
	}
	if _, _, err := Remove(t.Context(), to, "ban"); err == nil || !strings.Contains(err.Error(), to.File) {
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
	if _, err := put(t, to, "ban", "ban", a); err == nil || !strings.Contains(err.Error(), "[[plugin]]") {
		t.Error(err)
	}
	if _, err := put(t, to, "../ban", "ban", a); err == nil {
		t.Error("a name left the folder")
	}
	a.Module = append(bytes.Clone(a.Module[:7]), 7)
	if _, err := put(t, to, "ban", "ban", a); err == nil {
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
			if _, err := put(t, to, name, "ban", a); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if list := settings(t, to); len(list) != 5 {
		t.Errorf("%+v", list)
	}
}

// TestInstallKeepsOthers: the artefact's author picks the name, and so must not reach a block of the operator's.
func TestInstallKeepsOthers(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	a := packed(t, "ban", "")
	for _, old := range []string{`source = "builtin:redact"`,
		"source = \"mine.wasm\"\nreference = \"other.example/ban:1\"",
		"source = \"mine.wasm\"\nreference = \"registry.example/ban-more:1\""} {
		text := "[[plugin]]\nname = \"ban\"\n" + old + "\napply = \"always\"\n"
		if err := os.WriteFile(to.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
		_, err := put(t, to, "ban", "ban", a)
		for _, want := range []string{`[[plugin]] "ban"`, old[strings.LastIndex(old, "\n")+1:], "--name", "--replace"} {
			if err == nil || !strings.Contains(err.Error(), want) {
				t.Errorf("%v, wanted is %s", err, want)
			}
		}
		if now, err := os.ReadFile(to.File); err != nil || string(now) != text {
			t.Errorf("%s, %v", now, err)
		}
		if _, err := os.Stat(to.Folder); !errors.Is(err, os.ErrNotExist) {
			t.Error(err)
		}
	}
	if _, err := put(t, to, "beside", "ban", a); err != nil {
		t.Error(err)
	}
	done, err := Install(t.Context(), to, Request{Name: "ban", Reference: "registry.example/ban:1", Artifact: a,
		Replace: true})
	if err != nil || done.Replaced == nil || done.Replaced.Reference != "registry.example/ban-more:1" {
		t.Errorf("%+v, %v", done, err)
	}
	if list := settings(t, to); len(list) != 2 || list[0].SHA256 != a.SHA256() || list[0].Apply != config.ApplyAlways {
		t.Errorf("%+v", list)
	}
}

// TestInstallChecks: a block that would not load is not written, and the check sees the block as it will be.
func TestInstallChecks(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	const text = "[[plugin]]\nname = \"ban\"\nsource = \"a.wasm\"\nkind = \"guard\"\n"
	if err := os.WriteFile(to.File, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	a, calls, refusal := packed(t, "ban", ""), 0, errors.New("it has no kind guard")
	r := Request{Name: "ban", Reference: "registry.example/ban:1", Artifact: a, Replace: true,
		Check: func(_ context.Context, was *config.Plugin, p config.Plugin) error {
			calls++
			if was == nil || was.Source != filepath.Join(dir, "a.wasm") || p.Kind != "guard" ||
				p.SHA256 != a.SHA256() || !strings.HasPrefix(p.Source, "installed/ban-") {
				t.Errorf("%+v", p)
			}
			return refusal
		}}
	if _, err := Install(t.Context(), to, r); !errors.Is(err, refusal) || !strings.Contains(err.Error(), to.File) {
		t.Error(err)
	}
	if now, err := os.ReadFile(to.File); err != nil || string(now) != text {
		t.Errorf("%s, %v", now, err)
	}
	if _, err := os.Stat(to.Folder); !errors.Is(err, os.ErrNotExist) {
		t.Error(err)
	}
	refusal, calls = nil, 0
	if _, err := Install(t.Context(), to, r); err != nil || calls != 1 {
		t.Errorf("%v, %d calls", err, calls)
	}
}

// TestInstallLinks: links in the folder lead to no other file, and pipes hold nothing up.
func TestInstallLinks(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	if err := os.Mkdir(to.Folder, 0o700); err != nil {
		t.Fatal(err)
	}
	a, victim := packed(t, "ban", ""), filepath.Join(dir, "victim")
	file := filepath.Join(to.Folder, "ban-"+a.SHA256()[:sumLength]+".wasm")
	for _, path := range []string{file, share.Beside(file)} {
		if err := os.WriteFile(victim, []byte("mine"), 0o600); err != nil {
			t.Fatal(err)
		}
		_ = os.Remove(path)
		if err := os.Symlink(victim, path); err != nil {
			t.Fatal(err)
		}
		if _, err := put(t, to, "ban", "ban", a); err != nil {
			t.Error(err)
		}
		if text, err := os.ReadFile(victim); err != nil || string(text) != "mine" {
			t.Errorf("%s: the victim has %d bytes, %v", path, len(text), err)
		}
		if info, err := os.Lstat(path); err != nil || !info.Mode().IsRegular() {
			t.Errorf("%s: %v", path, err)
		}
	}
	if err := errors.Join(os.Remove(file), unix.Mkfifo(file, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", a); err != nil {
		t.Error(err)
	}
	lock, made := filepath.Join(to.Folder, ".lock"), filepath.Join(dir, "made")
	if err := errors.Join(os.Remove(lock), os.Symlink(made, lock)); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", a); err == nil || !strings.Contains(err.Error(), "symbolic link") {
		t.Error(err)
	}
	if _, err := os.Lstat(made); !errors.Is(err, os.ErrNotExist) {
		t.Error("the target of the lock was made")
	}
	if err := errors.Join(os.Remove(lock), unix.Mkfifo(lock, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", a); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Error(err)
	}
	if err := errors.Join(os.Remove(lock), os.Remove(to.File), unix.Mkfifo(to.File, 0o600)); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", a); err == nil || !strings.Contains(err.Error(), "regular file") {
		t.Error(err)
	}
	err := errors.Join(os.Remove(to.File), os.WriteFile(to.File, nil, 0o600), os.Truncate(to.File, config.MaxFile+1))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", a); !errors.Is(err, regular.ErrTooLarge) {
		t.Error(err)
	}
}

// TestInstallWaits: waiting for another installation ends with the context.
func TestInstallWaits(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: dir}
	other, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR|os.O_CREATE, 0o600)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err = Install(ctx, to, Request{Name: "ban", Reference: "registry.example/ban:1", Artifact: packed(t, "ban", "")})
	if !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
}
