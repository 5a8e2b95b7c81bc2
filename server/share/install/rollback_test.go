package install

import (
	"context"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/server/config"
	"tgi/server/share"
	"tgi/server/share/index"
)

// TestRollback: what an installation replaced is locked again, without a registry, and what that replaces too; settings
// of the block stay.
func TestRollback(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	x := index.Open(filepath.Join(dir, "index"), 1<<20)
	reference := func(a share.Artifact, n string) string { return "registry.example/ban:" + n + "@" + a.Digest() }
	versions := map[string]share.Artifact{}
	add := func(n string) {
		t.Helper()
		a := packed(t, "ban", n)
		versions[n] = a
		if err := x.Put(t.Context(), reference(a, n), a); err != nil {
			t.Fatal(err)
		}
		if _, err := Install(t.Context(), to, Request{Name: "ban", Reference: reference(a, n),
			Artifact: a}); err != nil {
			t.Fatal(err)
		}
	}
	back := func(sum string, policy share.Policy) (Back, error) {
		checked := 0
		b, err := Rollback(t.Context(), to, x, policy, settings(t, to)[0], sum, func(_ context.Context,
			was *config.Plugin, p config.Plugin, module []byte) error {
			if checked++; was == nil || p.Apply != config.ApplyAlways || len(module) == 0 {
				t.Errorf("checked %+v", p)
			}
			return nil
		})
		if (err == nil) != (checked > 0) {
			t.Errorf("%d checks, %v", checked, err)
		}
		return b, err
	}
	locked := func(n string) {
		t.Helper()
		if p := settings(t, to)[0]; p.Reference != reference(versions[n], n) || p.SHA256 != versions[n].SHA256() ||
			p.Apply != config.ApplyAlways {
			t.Fatalf("locked is %+v, want version %s", p, n)
		}
	}
	add("1")
	text, err := os.ReadFile(to.File)
	if err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(to.File, append(text, "apply = \"always\" # mine\n"...), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := back("", nil); err == nil || !strings.Contains(err.Error(), "no reference is kept that this replaced") {
		t.Error(err)
	}
	add("2")
	add("2") // the same again is no earlier version
	add("3")
	if b, err := back("", nil); err != nil || b.Result.Replaced == nil ||
		b.Result.Replaced.Reference != reference(versions["3"], "3") {
		t.Fatalf("%+v, %v", b, err)
	}
	locked("2")
	if _, err := back("", nil); err != nil {
		t.Fatal(err)
	}
	locked("3")
	if _, err := back(strings.ToUpper(versions["1"].SHA256()), nil); err != nil {
		t.Fatal(err)
	}
	locked("1")
	if _, err := back("zz", nil); err == nil || !strings.Contains(err.Error(), reference(versions["3"], "3")) {
		t.Error(err)
	}
	// The index lost it: the files of the installation are there.
	if err := x.Remove(t.Context(), versions["3"].Digest()); err != nil {
		t.Fatal(err)
	}
	if _, err := back("", nil); err != nil {
		t.Fatal(err)
	}
	locked("3")
	// Signers count as they do now.
	if err := share.Generate(filepath.Join(dir, "team"), share.ECDSA, nil); err != nil {
		t.Fatal(err)
	}
	policy, err := share.NewPolicy([]config.PluginSigner{{Name: "team", PublicKey: filepath.Join(dir, "team.pub")}})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := back("", policy); !errors.Is(err, share.ErrUnsigned) {
		t.Error(err)
	}
	locked("3")
	// Another module in the place of a file is none of it.
	if err := os.WriteFile(to.module("ban", versions["1"].SHA256()), []byte("\x00asm"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := x.Remove(t.Context(), versions["1"].Digest()); err != nil {
		t.Fatal(err)
	}
	if _, err := back("", nil); err == nil || !strings.Contains(err.Error(), "is no longer on this machine") {
		t.Error(err)
	}
	locked("3")
	// What can't be read keeps nothing from being installed, and rm leaves nothing.
	if err := os.WriteFile(to.pastFile("ban"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := back("", nil); err == nil || !strings.Contains(err.Error(), "ban.past.json") {
		t.Error(err)
	}
	add("4")
	if _, err := back("", nil); err != nil {
		t.Error(err)
	}
	locked("3")
	if _, _, err := Remove(t.Context(), to, "ban"); err != nil {
		t.Fatal(err)
	}
	if left, err := filepath.Glob(filepath.Join(to.Folder, "ban*")); err != nil || len(left) > 0 {
		t.Errorf("left %q, %v", left, err)
	}
}

// TestRollbackFails: what a rollback would lock is kept, whatever hinders it, and so is all that can come back.
func TestRollbackFails(t *testing.T) {
	dir := t.TempDir()
	to := Target{File: filepath.Join(dir, "tgi.toml"), Folder: filepath.Join(dir, "installed")}
	x := index.Open(filepath.Join(dir, "index"), 1<<20)
	for n := range maxPast + 2 {
		a := packed(t, "ban", fmt.Sprint(n))
		r := Request{Name: "ban", Reference: fmt.Sprintf("registry.example/ban:%d@%s", n, a.Digest()), Artifact: a}
		if _, err := Install(t.Context(), to, r); err != nil {
			t.Fatal(err)
		}
		if err := x.Put(t.Context(), r.Reference, a); err != nil {
			t.Fatal(err)
		}
	}
	last := settings(t, to)[0]
	listed := func() string { // what can come back, as an error lists it
		t.Helper()
		_, err := to.earlier(settings(t, to)[0], "zz")
		if err == nil {
			t.Fatal("a version begins with zz")
		}
		return err.Error()
	}
	before := listed()
	if n := strings.Count(before, "registry.example/ban:"); n != maxPast {
		t.Fatalf("%d versions: %s", n, before)
	}
	back := func(stop bool) error {
		ctx, interrupt := context.WithCancel(t.Context())
		defer interrupt()
		_, err := Rollback(ctx, to, x, nil, settings(t, to)[0], packedSum(t, "1"), func(context.Context, *config.Plugin,
			config.Plugin, []byte) error {
			if stop {
				interrupt() // as Ctrl-C does, before the settings are written
			}
			return nil
		})
		return err
	}
	for range 2 {
		if err := back(true); !errors.Is(err, context.Canceled) {
			t.Fatal(err)
		}
		if p := settings(t, to)[0]; p.Reference != last.Reference || listed() != before {
			t.Fatalf("locked is %s; of before\n%s\nthere is\n%s", p.Reference, before, listed())
		}
	}
	if err := back(false); err != nil {
		t.Fatal(err)
	}
	if p := settings(t, to)[0]; p.SHA256 != packedSum(t, "1") || !strings.Contains(listed(), last.Reference) {
		t.Errorf("locked is %s, there is %s", p.Reference, listed())
	}
}

// packedSum is the SHA-256 of the module of a version.
func packedSum(t *testing.T, n string) string { return packed(t, "ban", n).SHA256() }
