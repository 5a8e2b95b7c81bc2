package host

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net/http"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/config"
)

// numbered is a module that is another one for each number.
func numbered(n int) []byte {
	m := when([]byte{unreached})
	m.description = strings.Replace(m.description, `"version":"1"`, fmt.Sprintf(`"version":"v%d"`, n), 1)
	return m.wasm()
}

// openTwo opens two servers with one folder of uploads.
func openTwo(t *testing.T) (dir uploadFolder, a, b *plugged) {
	t.Helper()
	dir = uploadFolder(filepath.Join(t.TempDir(), "uploads"))
	keep := func(c *config.Config) { c.Plugins.Uploads = string(dir) }
	return dir, openPlugged(t, keep), openPlugged(t, keep)
}

// versionsOf are the numbers of a plugin's versions, with a star behind the one that serves.
func (p *plugged) versionsOf(t *testing.T, name string) (list []string) {
	t.Helper()
	var got struct{ Versions []admin.Version }
	_, text := p.call(t, http.MethodGet, "/admin/plugins/"+name+"/versions", nil)
	if err := json.Unmarshal([]byte(text), &got); err != nil {
		t.Fatalf("%v: %s", err, text)
	}
	for _, v := range got.Versions {
		if v.Serving {
			v.Version += "*"
		}
		list = append(list, v.Version)
	}
	return list
}

// TestUploadsOfTwo: two servers with one folder take uploads of one name at the same time, again and again. What is in
// the folder then is whole, is the upload of one of the two, and has that of the other as the version before.
func TestUploadsOfTwo(t *testing.T) {
	dir, a, b := openTwo(t)
	const modules = 4
	for n := range modules { // all are compiled now: later uploads come close together
		a.upload(t, "other", numbered(n))
	}
	both := func(x, y int) {
		t.Helper()
		var ends sync.WaitGroup
		for p, n := range map[*plugged]int{a: x, b: y} {
			ends.Go(func() {
				status, text := p.call(t, http.MethodPut, "/admin/plugins/gg?apply=always", numbered(n))
				if status/100 != 2 {
					t.Errorf("%d %s", status, text)
				}
			})
		}
		ends.Wait()
		list, err := dir.load()
		u := list["gg"]
		if err != nil || u.damaged != nil || len(u.past) == 0 {
			t.Fatalf("%v, %v, %d versions before", err, u.damaged, len(u.past))
		}
		now := []string{moduleSum(u.wasm), u.past[0].kept.SHA256}
		for _, n := range []int{x, y} {
			if !slices.Contains(now, moduleSum(numbered(n))) {
				t.Fatalf("v%d is none of the latest two", n)
			}
		}
		for _, p := range u.past {
			if _, err := dir.readModule(p.kept); err != nil {
				t.Fatal(err)
			}
		}
	}
	for range 15 {
		both(0, 1)
		both(2, 3)
		both(1, 0)
	}
}

// TestVersionsOfTwo: a server lists and brings back what the folder keeps, also of another server, and what served here
// before comes first.
func TestVersionsOfTwo(t *testing.T) {
	dir, a, b := openTwo(t)
	want := func(p *plugged, versions ...string) {
		t.Helper()
		if got := p.versionsOf(t, "gg"); !slices.Equal(got, versions) {
			t.Errorf("%q, want %q", got, versions)
		}
	}
	back := func(p *plugged, query string, status int, says string) {
		t.Helper()
		got, text := p.call(t, http.MethodPost, "/admin/plugins/gg/rollback"+query, nil)
		if got != status || !strings.Contains(text, says) {
			t.Errorf("%q: %d %s, want %d %s", query, got, text, status, says)
		}
	}
	a.upload(t, "gg", numbered(0))
	a.upload(t, "gg", numbered(1))
	b.upload(t, "gg", numbered(2))
	want(a, "v1*", "v0", "v2")
	want(b, "v2*", "v1", "v0")
	back(a, "", http.StatusOK, `"version":"v0"`)
	want(a, "v0*", "v1", "v2")
	want(b, "v2*", "v0", "v1")
	back(a, "", http.StatusOK, `"version":"v1"`) // undoes it
	back(a, "?to="+moduleSum(numbered(2)), http.StatusOK, `"version":"v2"`)
	want(a, "v2*", "v1", "v0")
	back(b, "", http.StatusOK, `"version":"v1"`)
	want(a, "v2*", "v1", "v0")
	if u, err := dir.load(); err != nil || u["gg"].version != "v1" {
		t.Errorf("%v, %s would serve after a restart", err, u["gg"].version)
	}
	for n := 3; n < 3+maxVersions+2; n++ {
		[]*plugged{a, b}[n%2].upload(t, "gg", numbered(n))
	}
	want(a, "v12*", "v10", "v8", "v6", "v4", "v11", "v9", "v7", "v5")
	want(b, "v11*", "v9", "v7", "v5", "v12", "v10", "v8", "v6", "v4")
	if files := filesOf(t, string(dir)); len(files) != 1+1+maxVersions {
		t.Errorf("files %q", files)
	}
	if status, text := b.call(t, http.MethodDelete, "/admin/plugins/gg", nil); status != http.StatusNoContent {
		t.Fatal(status, text)
	}
	want(a, "v12*")
	back(a, "", http.StatusUnprocessableEntity, "no earlier version of gg is kept")
	back(a, "?to="+moduleSum(numbered(10)), http.StatusUnprocessableEntity, "no earlier version of gg is kept")
	a.upload(t, "gg", numbered(0))
	want(a, "v0*")
}

// TestUploadsLock: one change of a folder at a time. Who waits too long is told so and nothing has changed, and a lock
// ends with who has it, whose file is in nobody's way.
func TestUploadsLock(t *testing.T) {
	dir, a, _ := openTwo(t)
	a.upload(t, "gg", numbered(0))
	unlock, err := dir.lock(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	_, err = dir.lockWithin(t.Context(), 10*time.Millisecond)
	if !errors.Is(err, server.ErrUploadsBusy) || !strings.Contains(err.Error(), "has been changing it for 10ms") ||
		!strings.Contains(err.Error(), filepath.Join(string(dir), lockFile)) {
		t.Error(err)
	}
	files := filesOf(t, string(dir))
	for what, change := range map[string]func(context.Context) error{
		"upload":  func(ctx context.Context) error { return putNumbered(ctx, a, 1) },
		"removal": func(ctx context.Context) error { return a.models.Delete(ctx, "gg") },
	} {
		ctx, cancel := context.WithTimeoutCause(t.Context(), 2*time.Second, server.ErrUploadsBusy)
		if err := change(ctx); !errors.Is(err, server.ErrUploadsBusy) {
			t.Errorf("%s: %v", what, err)
		}
		cancel()
		if now, _ := a.models.Get("gg"); now.Version != "v0" || !slices.Equal(filesOf(t, string(dir)), files) {
			t.Errorf("%s: %q serves, files %q, %q before", what, now.Version, filesOf(t, string(dir)), files)
		}
	}
	unlock()
	if err := putNumbered(t.Context(), a, 1); err != nil {
		t.Error(err)
	}
	if err := a.models.Delete(t.Context(), "gg"); err != nil || len(filesOf(t, string(dir))) > 0 {
		t.Errorf("%v, files %q", err, filesOf(t, string(dir)))
	}
}

func putNumbered(ctx context.Context, p *plugged, n int) error {
	_, err := p.models.Put(ctx, "gg", numbered(n), admin.Settings{})
	return err
}

// TestNoLocks: a file system without locks is told from a lock that can't be had.
func TestNoLocks(t *testing.T) {
	for err, want := range map[error]bool{syscall.ENOLCK: true, syscall.EOPNOTSUPP: true, syscall.ENOSYS: true,
		syscall.EWOULDBLOCK: false, syscall.EIO: false} {
		if noLocks(fmt.Errorf("lock a: %w", err)) != want {
			t.Errorf("%v", err)
		}
	}
}
