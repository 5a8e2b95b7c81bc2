package plugins

import (
	"context"
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"tgi/conformance/long"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
)

// bomb is a plugin that the compiler does not get through.
func bomb() []byte {
	return guesttest.Fake{Code: map[string]guesttest.Code{"tgi_init": guesttest.Join(guesttest.Bomb(),
		guesttest.Long(0))}}.Wasm()
}

// forever are limits that the compiler of a bomb does not reach in a test.
var forever = CompileLimits{Time: time.Hour, Timeout: time.Hour}

// state returns a plugin's state and error.
func state(s *Set, name string) (State, string) {
	st, _ := s.Get(name)
	return st.State, st.Error
}

// TestBombInFolder: a file that does not get through the compiler holds up neither the start nor anything after it.
func TestBombInFolder(t *testing.T) {
	long.Test(t)
	dir := t.TempDir()
	write(t, filepath.Join(dir, "bomb.wasm"), bomb())
	write(t, filepath.Join(dir, "good.wasm"), bias(1).Wasm()) // behind the bomb
	before := time.Now()
	s := open(t, Options{Specs: []Spec{spec(t, "declared", bias(2).Wasm())}, Folder: dir, Compile: forever})
	if took := time.Since(before); took > time.Minute {
		t.Errorf("opened after %v", took)
	}
	for deadline := time.Now().Add(time.Minute); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		if got, _ := state(s, "good"); got == StateActive { // on a busy machine it comes in behind Open
			break
		}
	}
	for name, want := range map[string]State{"bomb": StateLoading, "good": StateActive, "declared": StateActive} {
		if got, why := state(s, name); got != want {
			t.Errorf("%s is %s: %s", name, got, why)
		}
	}
	if _, err := s.Bind(t.Context(), []Call{{Name: "bomb"}}); err == nil ||
		!strings.Contains(err.Error(), "still being loaded") {
		t.Errorf("a request that names it: %v", err)
	}
	// Another bomb is uploaded by a client that leaves.
	ctx, leave := context.WithCancel(t.Context())
	gone := make(chan error, 1)
	go func() {
		_, err := s.Put(ctx, "mine", bomb(), Upload{})
		gone <- err
	}()
	if _, err := s.Put(t.Context(), "other", bias(3).Wasm(), Upload{}); err != nil {
		t.Error(err)
	}
	if r, err := s.Reload(t.Context(), nil); err != nil || !slices.Equal(r.Late, []string{"bomb"}) ||
		!slices.Equal(r.Unchanged, []string{"good"}) {
		t.Errorf("%+v, %v", r, err)
	}
	if err := s.Delete("other"); err != nil {
		t.Error(err)
	}
	leave()
	if err := <-gone; !errors.Is(err, context.Canceled) {
		t.Errorf("an upload whose client left: %v", err)
	}
	if _, ok := s.Get("mine"); ok {
		t.Error("it was installed")
	}
	before = time.Now()
	s.Close()
	if took := time.Since(before); took > 20*time.Second {
		t.Errorf("closed after %v", took)
	}
}

// TestBombIsRefused: what passes the limit is listed with the reason, also where the settings name it, and the set
// serves.
func TestBombIsRefused(t *testing.T) {
	log := &logLines{}
	dir := t.TempDir()
	s := open(t, Options{Specs: []Spec{spec(t, "declared", bomb()), spec(t, "good", bias(1).Wasm())}, Folder: dir,
		Compile: CompileLimits{Time: time.Second}, Log: logger(log)})
	const says = "compile_time = 1s"
	if got, why := state(s, "declared"); got != StateFailed || !strings.Contains(why, says) ||
		!strings.Contains(log.String(), says) {
		t.Errorf("declared is %s: %s", got, why)
	}
	if logit(t, s, "good") != 1 {
		t.Error("the other does not serve")
	}
	if _, err := s.Put(t.Context(), "up", bomb(), Upload{}); !errors.Is(err, ErrLoad) ||
		!errors.Is(err, sandbox.ErrCompile) || !strings.Contains(err.Error(), "up: ") {
		t.Errorf("upload: %v", err)
	}
}

// TestLateFiles: a file that is through after the reload that found it comes in, with the set's rules, unless another
// reload has looked since.
func TestLateFiles(t *testing.T) {
	dir := t.TempDir()
	path := filepath.Join(dir, "late.wasm")
	write(t, path, bias(4).Wasm())
	s := open(t, Options{Folder: dir})
	late := func(wasm []byte) *job {
		write(t, path, wasm)
		end, err := s.lockChanges(t.Context())
		if err != nil {
			t.Fatal(err)
		}
		defer end()
		jobs, err := s.jobs(nil)
		if err != nil || len(jobs) != 1 {
			t.Fatal(len(jobs), err)
		}
		j := jobs[0]
		j.done = make(chan struct{})
		go func() {
			defer close(j.done)
			j.run(t.Context(), s)
		}()
		return j
	}
	s.installLate(late(bias(5).Wasm()), s.round)
	if got := logit(t, s, "late"); got != 5 {
		t.Errorf("logit %v", got)
	}
	s.installLate(late(bias(6).Wasm()), s.round-1)
	if got := logit(t, s, "late"); got != 5 {
		t.Errorf("a reload that is over brought %v in", got)
	}
	s.installLate(late([]byte("nothing")), s.round)
	if got, why := state(s, "late"); got != StateActive || !strings.Contains(why, "a newer version was rejected") ||
		logit(t, s, "late") != 5 {
		t.Errorf("after a bad file it is %s: %s", got, why)
	}
	if n := s.names["late"].current.refs.Load(); n != 1 {
		t.Errorf("%d references", n)
	}
}

// TestLateJobsAreDiscarded: what a reload that failed left running is closed when it is loaded.
func TestLateJobsAreDiscarded(t *testing.T) {
	dir := t.TempDir()
	s := open(t, Options{Folder: dir})
	write(t, filepath.Join(dir, "late.wasm"), bias(4).Wasm())
	jobs, err := s.jobs(nil)
	if err != nil || len(jobs) != 1 {
		t.Fatal(len(jobs), err)
	}
	j := jobs[0]
	j.done = make(chan struct{})
	s.discardAll(jobs, jobs)
	j.run(t.Context(), s)
	if j.loaded == nil {
		t.Fatal(j.err)
	}
	close(j.done)
	s.loading.Wait()
	if j.loaded != nil {
		t.Error("the module is still open")
		j.discard(nil)
	}
}
