package index

import (
	"context"
	"encoding/json"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/opencontainers/go-digest"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"golang.org/x/sys/unix"

	"tgi/runtime/regular"
	"tgi/server/share"
)

func packed(t *testing.T, tail string) share.Artifact {
	t.Helper()
	a, err := share.Pack([]byte("\x00asm\x01\x00\x00\x00"+tail), share.Description{Name: "ban",
		Kinds: []string{"logits"}, ABI: 1})
	if err != nil {
		t.Fatal(err)
	}
	a.Signatures = []share.Signature{{Payload: []byte("{}" + tail), Signature: []byte("x")}}
	return a
}

// content counts the blobs.
func content(t *testing.T, dir string) int {
	t.Helper()
	list, err := os.ReadDir(filepath.Join(dir, "blobs", "sha256"))
	if err != nil {
		t.Fatal(err)
	}
	return len(list)
}

func TestIndex(t *testing.T) {
	dir := filepath.Join(t.TempDir(), "new")
	x := Open(dir, 1<<20)
	if list, err := x.List(); err != nil || len(list) > 0 {
		t.Errorf("%v, %v", list, err)
	}
	a, b := packed(t, ""), packed(t, "b")
	for name, one := range map[string]share.Artifact{"r/ban:1": a, "r/ban:2": b, "r/ban:same": a} {
		if err := x.Put(t.Context(), name, one); err != nil {
			t.Fatal(err)
		}
	}
	list, err := x.List()
	if err != nil || len(list) != 3 || list[0] != (Entry{"r/ban:1", a.Digest()}) || list[1].Reference != "r/ban:2" {
		t.Errorf("%+v, %v", list, err)
	}
	for _, name := range []string{"r/ban:2", b.Digest()} {
		if e, got, err := x.Get(name); err != nil || got.Digest() != b.Digest() || len(got.Signatures) != 1 ||
			e.Reference != "r/ban:2" {
			t.Errorf("%+v, %v", e, err)
		}
	}
	if _, _, err := x.Get("r/ban:3"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	both := "r:5000/ban:3@" + a.Digest()
	for _, name := range []string{both, "r:5000/ban:3", "r:5000/ban@" + a.Digest()} {
		if err := x.Put(t.Context(), both, a); err != nil {
			t.Fatal(err)
		}
		for _, other := range []string{"r:5000/ban", "ban:3", "r:5000/ban:", "r:5000/ban@",
			"r:5000/ban@" + b.Digest(), ""} {
			if err := x.Remove(t.Context(), other); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q removes %s: %v", other, both, err)
			}
			if e, _, err := x.Get(other); !errors.Is(err, fs.ErrNotExist) {
				t.Errorf("%q is %+v: %v", other, e, err)
			}
		}
		if e, got, err := x.Get(name); err != nil || e.Reference != both || got.Digest() != a.Digest() {
			t.Errorf("%q is %+v: %v", name, e, err)
		}
		if err := x.Remove(t.Context(), name); err != nil {
			t.Error(err)
		}
	}
	before := content(t, dir)
	if err := x.Put(t.Context(), "r/ban:1", b); err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir); got != before { // ban:same still has it
		t.Errorf("%d blobs, not %d", got, before)
	}
	if err := x.Remove(t.Context(), "r/ban:same"); err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir); got >= before {
		t.Errorf("%d blobs, as before", got)
	}
	if err := x.Remove(t.Context(), "r/ban:same"); !errors.Is(err, fs.ErrNotExist) {
		t.Error(err)
	}
	if err := x.Remove(t.Context(), b.Digest()); err != nil {
		t.Fatal(err)
	}
	if got := content(t, dir); got != 0 {
		t.Errorf("%d blobs are left", got)
	}
}

// TestMovedTag: a tag that was pulled with two digests names none of them, unless it is a reference of its own.
func TestMovedTag(t *testing.T) {
	x, a, b := Open(t.TempDir(), 1<<20), packed(t, ""), packed(t, "b")
	put := func(name string, one share.Artifact) {
		if err := x.Put(t.Context(), name, one); err != nil {
			t.Fatal(err)
		}
	}
	first, second := "r/ban:1@"+a.Digest(), "r/ban:1@"+b.Digest()
	put(first, a)
	put(second, b)
	if e, _, err := x.Get("r/ban:1"); err == nil || !strings.Contains(err.Error(), first) ||
		!strings.Contains(err.Error(), second) || errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%+v, %v", e, err)
	}
	for name, want := range map[string]string{first: first, "r/ban@" + b.Digest(): second, b.Digest(): second} {
		if e, _, err := x.Get(name); err != nil || e.Reference != want {
			t.Errorf("%s is %+v: %v", name, e, err)
		}
	}
	put("r/ban:1", b)
	if e, _, err := x.Get("r/ban:1"); err != nil || e.Reference != "r/ban:1" || e.Digest != b.Digest() {
		t.Errorf("%+v, %v", e, err)
	}
	if err := x.Remove(t.Context(), "r/ban:1"); err != nil {
		t.Fatal(err)
	}
	if list, err := x.List(); err != nil || len(list) != 0 {
		t.Errorf("left: %v, %v", list, err)
	}
}

// TestDamaged: damaged content is refused with its name, and a pull mends it.
func TestDamaged(t *testing.T) {
	dir := t.TempDir()
	x, a := Open(dir, 1<<20), packed(t, "")
	if err := x.Put(t.Context(), "r/ban:1", a); err != nil {
		t.Fatal(err)
	}
	file := filepath.Join(dir, "blobs", "sha256", a.SHA256())
	if err := os.WriteFile(file, []byte("\x00asm\x02\x00\x00\x00"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Get("r/ban:1"); err == nil || !strings.Contains(err.Error(), "damaged") {
		t.Error(err)
	}
	if err := x.Put(t.Context(), "r/ban:1", a); err != nil {
		t.Fatal(err)
	}
	if _, _, err := x.Get("r/ban:1"); err != nil {
		t.Error(err)
	}
	if _, _, err := Open(dir, 4).Get("r/ban:1"); err == nil || !strings.Contains(err.Error(), "0 to 4 bytes") {
		t.Error(err)
	}
	if err := os.WriteFile(filepath.Join(dir, "index.json"), []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := x.Put(t.Context(), "r/ban:2", a); err == nil || !strings.Contains(err.Error(), "index.json") {
		t.Error(err)
	}
}

// TestWaits: waiting for another process ends with the context.
func TestWaits(t *testing.T) {
	dir := t.TempDir()
	x, a := Open(dir, 1<<20), packed(t, "")
	if err := x.Put(t.Context(), "r/ban:1", a); err != nil {
		t.Fatal(err)
	}
	other, err := os.OpenFile(filepath.Join(dir, ".lock"), os.O_RDWR, 0)
	if err != nil {
		t.Fatal(err)
	}
	defer other.Close()
	if err := unix.Flock(int(other.Fd()), unix.LOCK_EX); err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer cancel()
	for name, err := range map[string]error{"put": x.Put(ctx, "r/ban:2", a), "remove": x.Remove(ctx, "r/ban:1")} {
		if !errors.Is(err, context.DeadlineExceeded) || !strings.Contains(err.Error(), ".lock") {
			t.Errorf("%s: %v", name, err)
		}
	}
}

// TestLinkedLock: the lock is made in the folder, not where a link leads to.
func TestLinkedLock(t *testing.T) {
	dir, outside := t.TempDir(), filepath.Join(t.TempDir(), "file")
	if err := os.Symlink(outside, filepath.Join(dir, ".lock")); err != nil {
		t.Fatal(err)
	}
	if err := Open(dir, 1<<20).Put(t.Context(), "r/ban:1", packed(t, "")); !errors.Is(err, regular.ErrOther) {
		t.Errorf("the link was followed: %v", err)
	}
	if _, err := os.Lstat(outside); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("a file was made elsewhere: %v", err)
	}
}

// TestOthers: what other tools keep in the folder, an index below the index, stays.
func TestOthers(t *testing.T) {
	dir := t.TempDir()
	x := Open(dir, 1<<20)
	if err := x.Put(t.Context(), "r/ban:1", packed(t, "")); err != nil {
		t.Fatal(err)
	}
	inner := []byte(`{"schemaVersion":2,"manifests":[]}`)
	sum := digest.FromBytes(inner)
	blobs := filepath.Join(dir, "blobs", "sha256")
	all, err := x.read()
	if err != nil {
		t.Fatal(err)
	}
	all.Manifests = append(all.Manifests, ocispec.Descriptor{MediaType: ocispec.MediaTypeImageIndex, Digest: sum,
		Size: int64(len(inner))})
	text, err := json.Marshal(all)
	if err != nil {
		t.Fatal(err)
	}
	below := digest.FromString("below").Encoded() // what a manifest of the inner index could name
	for name, text := range map[string][]byte{filepath.Join(dir, "index.json"): text,
		filepath.Join(blobs, sum.Encoded()): inner, filepath.Join(blobs, below): []byte("below")} {
		if err := os.WriteFile(name, text, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := x.Remove(t.Context(), "r/ban:1"); err != nil {
		t.Fatal(err)
	}
	if _, err := os.Stat(filepath.Join(blobs, below)); err != nil {
		t.Error(err)
	}
}

// FuzzIndex: no index names content by anything but a digest, which becomes a path.
func FuzzIndex(f *testing.F) {
	f.Add([]byte(`{"manifests":[{"digest":"sha256:` + strings.Repeat("a", 64) + `"}]}`))
	f.Add([]byte(`{"manifests":[{"digest":"sha256:../../../etc/passwd"}]}`))
	f.Add([]byte(`{"manifests":[{}]}`))
	f.Fuzz(func(t *testing.T, text []byte) {
		all, err := decode(text)
		for _, d := range all.Manifests {
			if err == nil && (len(d.Digest) != 71 || strings.ContainsAny(string(d.Digest), "/.")) {
				t.Errorf("%q", d.Digest)
			}
		}
	})
}
