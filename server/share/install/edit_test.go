package install

import (
	"context"
	"errors"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/registry"
)

// TestInstallBesideAnEditor: what somebody saves while an installation runs, who knows nothing of its lock, stays.
func TestInstallBesideAnEditor(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	save := func(text string) {
		t.Helper()
		if err := os.WriteFile(to.File, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	const block = "[[plugin]]\nname = \"ban\"\nsource = \"a.wasm\"\n"
	save(block)
	a, checks := packed(t, "ban", ""), 0
	_, err := Install(t.Context(), to, Request{Name: "ban", Reference: "registry.example/ban:1", Artifact: a,
		Replace: true, Check: func(context.Context, *config.Plugin, config.Plugin) error {
			switch checks++; checks {
			case 1: // before the lock is held: the block changes, and is checked again
				save(block + "on_error = \"skip\"\n")
			case 2: // the text was read, and is about to be replaced
				save(block + "on_error = \"skip\"\n[server]\nport = 7 # mine\n")
			}
			return nil
		}})
	text, _ := os.ReadFile(to.File)
	if err != nil || checks != 2 || !strings.Contains(string(text), "port = 7 # mine") ||
		!strings.Contains(string(text), a.SHA256()) {
		t.Errorf("%v, %d checks:\n%s", err, checks, text)
	}
}

// TestInstallLeavesNothing: where the settings' file can't be replaced, nothing else was written either, and the error
// names it.
func TestInstallLeavesNothing(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	if err := os.Symlink(filepath.Join(dir, "gone.toml"), to.File); err != nil {
		t.Fatal(err)
	}
	_, err := put(t, to, "ban", "ban", packed(t, "ban", ""))
	if err == nil || !strings.Contains(err.Error(), to.File+" is a link to a file that is not there") {
		t.Error(err)
	}
	if info, err := os.Lstat(to.File); err != nil || info.Mode()&os.ModeSymlink == 0 {
		t.Errorf("the link: %v, %v", info, err)
	}
	list, err := filepath.Glob(filepath.Join(to.Folder, "*.wasm*"))
	if err != nil || len(list) > 0 {
		t.Errorf("left behind: %q, %v", list, err)
	}
}

// TestInstallKeepsOwner: the settings' file stays whose it was, so that the server that reads it still can.
func TestInstallKeepsOwner(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	if err := os.WriteFile(to.File, []byte("[server]\nport = 1\n"), 0o640); err != nil {
		t.Fatal(err)
	}
	owner, group := os.Getuid(), os.Getgid()
	if owner == 0 {
		owner, group = 4711, 4712
	} else if groups, err := os.Getgroups(); err == nil { // one of its own groups is what others may choose
		for _, g := range groups {
			if g != group {
				group = g
				break
			}
		}
	}
	if err := os.Chown(to.File, owner, group); err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", packed(t, "ban", "")); err != nil {
		t.Fatal(err)
	}
	if _, _, err := Remove(t.Context(), to, "ban"); err != nil {
		t.Fatal(err)
	}
	info, err := os.Stat(to.File)
	if err != nil {
		t.Fatal(err)
	}
	if is := info.Sys().(*syscall.Stat_t); int(is.Uid) != owner || int(is.Gid) != group || info.Mode().Perm() != 0o640 {
		t.Errorf("owner %d, group %d, mode %v; want %d, %d, 0640", is.Uid, is.Gid, info.Mode(), owner, group)
	}
}

// TestRemoveKeepsNamed: a file that another block names stays, with what stands beside it.
func TestRemoveKeepsNamed(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	a := packed(t, "ban", "")
	file, err := put(t, to, "ban", "ban", a)
	if err != nil {
		t.Fatal(err)
	}
	newer, err := put(t, to, "ban", "ban", packed(t, "ban", "new"))
	if err != nil {
		t.Fatal(err)
	}
	text, err := os.ReadFile(to.File)
	if err != nil {
		t.Fatal(err)
	}
	text = append(text, "[[plugin]]\nname = \"strict\"\nsource = \"installed/"+filepath.Base(file)+"\"\n"...)
	if err := os.WriteFile(to.File, text, 0o600); err != nil {
		t.Fatal(err)
	}
	_, removed, err := Remove(t.Context(), to, "ban")
	if err != nil || strings.Join(removed, " ") != newer+" "+share.Beside(newer)+" "+to.pastFile("ban") {
		t.Errorf("%q, %v", removed, err)
	}
	if b, err := share.ReadBeside(file, a.Module); err != nil || b.Digest() != a.Digest() {
		t.Error(err)
	}
	if _, err := os.Stat(file); err != nil {
		t.Error(err)
	}
	if _, err := os.Stat(newer); !errors.Is(err, os.ErrNotExist) {
		t.Errorf("%s: %v", newer, err)
	}
}

// TestRemoveNamesRest: artefacts of the same repository that were pulled too stay, and are named.
func TestRemoveNamesRest(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.File, cfg.Plugins.Installed = filepath.Join(dir, "tgi.toml"), filepath.Join(dir, "installed")
	t.Setenv("XDG_DATA_HOME", dir)
	to, out, a := TargetOf(cfg), &strings.Builder{}, packed(t, "ban", "")
	x, err := IndexOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := put(t, to, "ban", "ban", a); err != nil {
		t.Fatal(err)
	}
	cfg.Plugin = settings(t, to)
	at, err := registry.Parse(cfg.Plugin[0].Reference)
	if err != nil {
		t.Fatal(err)
	}
	earlier := at.Repository + ":0.9.0@" + a.Digest()
	for _, reference := range []string{cfg.Plugin[0].Reference, earlier, at.Repository + "-other:0.9.0"} {
		if err := x.Put(t.Context(), reference, a); err != nil {
			t.Fatal(err)
		}
	}
	err = RemoveIn(t.Context(), cfg, "ban", out)
	want := "removed " + cfg.Plugin[0].Reference + " from the local index\nkept " + earlier +
		" in the local index; tgi plugin rm " + earlier + " removes it\n"
	if err != nil || !strings.HasSuffix(out.String(), want) {
		t.Errorf("%v, said\n%swant\n%s", err, out, want)
	}
	out.Reset()
	if err := RemoveIn(t.Context(), cfg, earlier, out); err != nil {
		t.Error(err)
	}
	if list, err := x.List(); err != nil || len(list) != 1 {
		t.Errorf("%+v, %v", list, err)
	}
}

// TestRemoveGoesOn: what can't be removed, and an output that is gone, keep nothing else; another try removes the rest.
func TestRemoveGoesOn(t *testing.T) {
	dir := t.TempDir()
	cfg := config.Default()
	cfg.File, cfg.Plugins.Installed = filepath.Join(dir, "tgi.toml"), filepath.Join(dir, "installed")
	t.Setenv("XDG_DATA_HOME", dir)
	to, out := TargetOf(cfg), &strings.Builder{}
	x, err := IndexOf(cfg)
	if err != nil {
		t.Fatal(err)
	}
	a := packed(t, "ban", "")
	install := func() (file string) {
		t.Helper()
		file, err := put(t, to, "ban", "ban", a)
		if err != nil {
			t.Fatal(err)
		}
		cfg.Plugin = settings(t, to)
		if err := x.Put(t.Context(), cfg.Plugin[0].Reference, a); err != nil {
			t.Fatal(err)
		}
		return file
	}
	file := install()
	inside := filepath.Join(file, "inside")
	err = errors.Join(os.Remove(file), os.Mkdir(file, 0o700), os.WriteFile(inside, nil, 0o600))
	if err != nil {
		t.Fatal(err)
	}
	reference := cfg.Plugin[0].Reference
	err = RemoveIn(t.Context(), cfg, "ban", out)
	want := "removed [[plugin]] ban from " + to.File + "\nremoved " + share.Beside(file) + "\nremoved " + reference +
		" from the local index\n"
	if err == nil || !strings.Contains(err.Error(), file) || out.String() != want {
		t.Errorf("%v, said\n%swant\n%s", err, out, want)
	}
	cfg.Plugin = settings(t, to)
	out.Reset()
	if err := RemoveIn(t.Context(), cfg, "ban", out); err == nil || !strings.Contains(err.Error(), file) ||
		out.Len() > 0 {
		t.Errorf("%v, said %s", err, out)
	}
	if err := os.Remove(inside); err != nil {
		t.Fatal(err)
	}
	if err := RemoveIn(t.Context(), cfg, "ban", out); err != nil || out.String() != "removed "+file+"\n" {
		t.Errorf("%v, said %s", err, out)
	}
	if err := RemoveIn(t.Context(), cfg, "ban", out); err == nil ||
		!strings.Contains(err.Error(), "no [[plugin]] has this name") {
		t.Error(err)
	}

	install()
	out.Reset()
	cfg.Plugin[0].Apply = config.ApplyAlways
	err = RemoveIn(t.Context(), cfg, "ban", out)
	if err != nil || !strings.Contains(out.String(), "it applied always") {
		t.Errorf("%v, said %s", err, out)
	}

	install()
	if err := RemoveIn(t.Context(), cfg, "ban", gone{}); !errors.Is(err, os.ErrClosed) {
		t.Error(err)
	}
	if list, err := x.List(); err != nil || len(list) > 0 {
		t.Errorf("%+v, %v", list, err)
	}
}

// gone is an output that nobody reads.
type gone struct{}

func (gone) Write([]byte) (int, error) { return 0, os.ErrClosed }
