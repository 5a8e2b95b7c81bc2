package lifecycle

import (
	"context"
	"errors"
	"maps"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/models/library"
)

var ctx = context.Background()

func wantErr(t *testing.T, err, kind error) {
	t.Helper()
	if !errors.Is(err, kind) {
		t.Fatalf("error %v, want %v", err, kind)
	}
}

func second[T any](_ T, err error) error { return err }

func TestTable(t *testing.T) {
	states := slices.Collect(maps.Keys(transitions))
	for _, from := range states {
		for _, to := range states {
			if got, want := from.CanBecome(to), legal[string(from)+" "+string(to)]; got != want {
				t.Errorf("%s to %s: %v, want %v", from, to, got, want)
			}
		}
	}
}

func TestStartUseStop(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{}, map[library.ID]int64{"a": 5})
		r := w.roster
		r.Add("a", Options{})
		w.wantState("a", Downloaded)
		_, _, s, err := r.Use("a")
		wantErr(t, err, ErrNotRunning)
		if s.State != Downloaded {
			t.Errorf("status %+v", s)
		}
		p := w.begun(r.Start("a"))
		if again := w.begun(r.Start("a")); again != p {
			t.Error("a second start is not the first")
		}
		if s := w.wantState("a", Starting); s.Memory != 5 {
			t.Errorf("status %+v", s)
		}
		w.must(p, nil)
		if s := w.wantState("a", Running); s.LoadTook != time.Second {
			t.Errorf("load took %s", s.LoadTook)
		}
		wantErr(t, second(r.Start("a")), ErrState)
		wantErr(t, r.Delete("a"), ErrState)
		in, release, _, err := r.Use("a")
		if err != nil || in.(*instance).id != "a" {
			t.Fatal(in, err)
		}
		begin := time.Now()
		p = w.begun(r.Stop("a"))
		if again := w.begun(r.Stop("a")); again != p {
			t.Error("a second stop is not the first")
		}
		_, _, s, err = r.Use("a")
		wantErr(t, err, ErrNotRunning)
		if s.State != Stopping {
			t.Errorf("status %+v", s)
		}
		time.Sleep(5 * time.Second)
		if in.(*instance).stopping {
			t.Error("stopped while it was used")
		}
		release()
		release()
		w.must(p, nil)
		if took := time.Since(begin); took != 6*time.Second {
			t.Errorf("stop took %s", took)
		}
		if s := w.wantState("a", Stopped); s.Cause != Requested || s.Memory != 0 {
			t.Errorf("status %+v", s)
		}
		wantErr(t, second(r.Stop("a")), ErrState)
		wantErr(t, second(r.Start("b")), ErrUnknown)
		w.end()
		wantErr(t, second(r.Start("a")), ErrClosed)
	})
}

func TestDrainIsBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Drain: 10 * time.Second}, map[library.ID]int64{"a": 5})
		w.roster.Add("a", Options{})
		w.must(w.roster.Start("a"))
		in, release, _, err := w.roster.Use("a")
		if err != nil {
			t.Fatal(err)
		}
		begin := time.Now()
		err = w.begun(w.roster.Stop("a")).Wait(ctx)
		if err == nil || !strings.Contains(err.Error(), "1 uses were cut off after 10s") ||
			time.Since(begin) != 11*time.Second || !in.(*instance).cut {
			t.Errorf("%v after %s, cut %v", err, time.Since(begin), in.(*instance).cut)
		}
		w.wantState("a", Error)
		w.must(w.roster.Start("a")) // an error is no end
		release()                   // of the old load: the new one does not count it
		w.wantState("a", Running)
		w.end()
	})
}

func TestStopWhileStarting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Budget: 5}, map[library.ID]int64{"a": 5})
		w.roster.Add("a", Options{})
		start := w.begun(w.roster.Start("a"))
		time.Sleep(time.Second / 2)
		w.must(w.roster.Stop("a"))
		wantErr(t, start.Wait(ctx), ErrStopped)
		w.wantState("a", Stopped)
		w.must(w.roster.Start("a"))
		w.end()
	})
}

func TestFailures(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Budget: 10}, map[library.ID]int64{"a": 5})
		boom := errors.New("boom")
		w.loadErr = func(library.ID) error { return boom }
		w.roster.Add("a", Options{})
		wantErr(t, w.begun(w.roster.Start("a")).Wait(ctx), boom)
		if s := w.wantState("a", Error); !errors.Is(s.Err, boom) || s.Memory != 0 {
			t.Errorf("status %+v", s)
		}
		_, _, _, err := w.roster.UseOrStart(ctx, "a")
		wantErr(t, err, ErrNotRunning) // not tried again by itself
		w.loadErr = func(library.ID) error { return nil }
		w.must(w.roster.Start("a"))
		w.stopErr = boom
		wantErr(t, w.begun(w.roster.Stop("a")).Wait(ctx), boom)
		w.wantState("a", Error)
		w.stopErr = nil
		w.need = nil
		if err := second(w.roster.Start("a")); err == nil || !strings.Contains(err.Error(), "cannot be read") {
			t.Errorf("estimate: %v", err)
		}
		w.wantState("a", Error)
		w.end()
	})
}

func TestMemoryRefuse(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Budget: 10}, map[library.ID]int64{"a": 6, "b": 5, "c": 11, "d": 4})
		for id := range w.need {
			w.roster.Add(id, Options{})
		}
		w.must(w.roster.Start("a"))
		err := second(w.roster.Start("b"))
		wantErr(t, err, ErrMemory)
		if !strings.Contains(err.Error(), "it needs 5 bytes, 4 of 10 are free") {
			t.Error(err)
		}
		w.wantState("b", Downloaded)
		wantErr(t, second(w.roster.Start("c")), ErrMemory)
		w.must(w.roster.Start("d"))
		// What stops counts as free for the promise, and is waited for.
		begin := time.Now()
		stop := w.begun(w.roster.Stop("a"))
		w.must(w.roster.Start("b"))
		if took := time.Since(begin); took != 2*time.Second {
			t.Errorf("stop and start took %s", took)
		}
		w.must(stop, nil)
		w.end()
	})
}

func TestMemoryEvict(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Budget: 10, Policy: Evict}, map[library.ID]int64{"a": 4, "b": 3, "c": 3, "d": 5,
			"e": 9})
		for _, id := range []library.ID{"a", "b", "c"} {
			w.roster.Add(id, Options{})
			w.must(w.roster.Start(id))
		}
		w.roster.Add("d", Options{})
		w.roster.Add("e", Options{})
		// a was used last, b is in use: c and then a are what may go.
		_, release, _, err := w.roster.Use("b")
		if err != nil {
			t.Fatal(err)
		}
		_, done, _, err := w.roster.Use("a")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(time.Second)
		done()
		wantErr(t, second(w.roster.Start("e")), ErrMemory) // 3 of 10 cannot be freed
		w.wantState("a", Running)
		w.wantState("c", Running)
		w.must(w.roster.Start("d"))
		w.wantState("b", Running)
		for _, id := range []library.ID{"a", "c"} {
			if s := w.wantState(id, Stopped); s.Cause != Evicted {
				t.Errorf("%s: cause %s", id, s.Cause)
			}
		}
		release()
		// An evicted model comes back by itself, one that was stopped does not.
		_, release, _, err = w.roster.UseOrStart(ctx, "a")
		if err != nil {
			t.Fatal(err)
		}
		release()
		w.must(w.roster.Stop("a"))
		_, _, _, err = w.roster.UseOrStart(ctx, "a")
		wantErr(t, err, ErrNotRunning)
		w.end()
	})
}

func TestLeastRecentlyUsedGoesFirst(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Budget: 3, Policy: Evict}, map[library.ID]int64{"a": 1, "b": 1, "c": 1, "d": 1})
		for _, id := range []library.ID{"a", "b", "c", "d"} {
			w.roster.Add(id, Options{})
		}
		for _, id := range []library.ID{"a", "b", "c"} {
			w.must(w.roster.Start(id))
		}
		for _, id := range []library.ID{"b", "a", "c"} {
			time.Sleep(time.Second)
			_, release, _, err := w.roster.Use(id)
			if err != nil {
				t.Fatal(err)
			}
			release()
		}
		w.must(w.roster.Start("d"))
		w.wantState("a", Running)
		w.wantState("b", Stopped)
		w.wantState("c", Running)
		w.end()
	})
}

func TestKeepAlive(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{}, map[library.ID]int64{"a": 1, "b": 1, "c": 1})
		w.roster.Add("b", Options{KeepAlive: time.Minute})
		w.roster.Add("a", Options{})
		w.roster.Add("c", Options{})
		w.must(w.roster.Start("b"))
		w.must(w.roster.Start("a"))
		time.Sleep(50 * time.Second) // b is loaded since 51s
		_, release, _, err := w.roster.Use("b")
		if err != nil {
			t.Fatal(err)
		}
		time.Sleep(2 * time.Minute)
		w.wantState("b", Running) // used
		release()
		time.Sleep(59 * time.Second)
		w.wantState("b", Running)
		time.Sleep(2*time.Second + 1)
		if s := w.wantState("b", Stopped); s.Cause != Idle {
			t.Errorf("cause %s", s.Cause)
		}
		time.Sleep(time.Hour)
		w.wantState("a", Running)
		w.wantState("c", Downloaded)
		in, release, _, err := w.roster.UseOrStart(ctx, "b")
		if err != nil || in == nil {
			t.Fatal(err)
		}
		release()
		w.must(w.roster.Stop("b"))
		w.must(w.roster.Start("b"))
		if _, release, _, err = w.roster.Use("b"); err != nil { // from its first moment on
			t.Fatal(err)
		}
		time.Sleep(10 * time.Minute)
		w.wantState("b", Running)
		release()
		w.roster.Add("b", Options{KeepAlive: time.Second})
		time.Sleep(3 * time.Second)
		w.wantState("b", Stopped)
		w.end()
	})
}

// TestKeep: what a caller says about one load holds until the model is unloaded.
func TestKeep(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{}, map[library.ID]int64{"a": 1})
		w.roster.Add("a", Options{KeepAlive: time.Minute})
		w.roster.Keep("a", -1) // it does not run
		w.must(w.roster.Start("a"))
		time.Sleep(2 * time.Minute)
		w.wantState("a", Stopped)
		w.must(w.roster.Start("a"))
		w.roster.Keep("a", -1)
		if _, ends := w.roster.Expires("a"); ends {
			t.Error("what is kept for ever ends")
		}
		time.Sleep(time.Hour)
		w.wantState("a", Running)
		_, release, _, err := w.roster.Use("a")
		if err != nil {
			t.Fatal(err)
		}
		w.roster.Keep("a", 0)
		time.Sleep(time.Hour)
		w.wantState("a", Running) // used
		release()
		time.Sleep(2 * time.Second)
		if s := w.wantState("a", Stopped); s.Cause != Idle {
			t.Errorf("cause %s", s.Cause)
		}
		w.must(w.roster.Start("a")) // as the settings say again
		if at, ends := w.roster.Expires("a"); !ends || time.Until(at) != time.Minute {
			t.Errorf("it ends in %s, %v", time.Until(at), ends)
		}
		time.Sleep(50 * time.Second)
		w.wantState("a", Running)
		w.end()
	})
}

func TestPull(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{Pulls: 2}, nil)
		r := w.roster
		fetch := func(c context.Context, report func(int64, int64)) error {
			report(1, 10)
			select {
			case <-time.After(time.Second):
			case <-c.Done():
				return context.Cause(c)
			}
			report(10, 10)
			w.mu.Lock()
			defer w.mu.Unlock()
			w.present["a"] = true
			return nil
		}
		w.begun(r.Pull("a", fetch))
		synctest.Wait()
		if s := w.wantState("a", Downloading); s.Done != 1 || s.Total != 10 {
			t.Errorf("status %+v", s)
		}
		wantErr(t, second(r.Pull("a", fetch)), ErrState)
		wantErr(t, second(r.Start("a")), ErrState)
		wantErr(t, r.Delete("a"), ErrState)
		w.begun(r.Pull("b", fetch))
		wantErr(t, second(r.Pull("c", fetch)), ErrBusy)
		if _, ok := r.Get("c"); ok {
			t.Error("a refused fetch left a row")
		}
		p := w.begun(r.CancelPull("a"))
		wantErr(t, p.Wait(ctx), ErrStopped)
		w.wantState("a", NotDownloaded)
		wantErr(t, second(r.CancelPull("a")), ErrState)
		w.must(r.Pull("a", fetch))
		w.wantState("a", Downloaded)
		wantErr(t, second(r.Pull("a", fetch)), ErrState)
		boom := errors.New("boom")
		wantErr(t, w.begun(r.Pull("d", func(context.Context, func(int64, int64)) error { return boom })).Wait(ctx),
			boom)
		w.wantState("d", Error)
		wantErr(t, second(r.Start("d")), ErrState)
		if err := w.begun(r.Pull("d", func(context.Context, func(int64, int64)) error {
			return nil
		})).Wait(ctx); err == nil {
			t.Error("a fetch that brought nothing succeeded")
		}
		w.begun(r.Pull("e", fetch))
		w.end()
		w.wantState("e", NotDownloaded)
	})
}

func TestDeleteAndSync(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		w := newWorld(t, Config{}, map[library.ID]int64{"a": 1, "b": 1, "c": 1})
		r := w.roster
		r.Sync([]library.ID{"a", "b", "gone"})
		r.Add("b", Options{Declared: true})
		var known []library.ID
		for _, s := range r.All() {
			known = append(known, s.ID)
		}
		if !slices.Equal(known, []library.ID{"a", "b"}) {
			t.Errorf("known %v", known)
		}
		for _, id := range known {
			if err := r.Delete(id); err != nil {
				t.Fatal(err)
			}
		}
		if _, ok := r.Get("a"); ok {
			t.Error("a deleted model is still known")
		}
		w.wantState("b", NotDownloaded) // declared
		wantErr(t, r.Delete("b"), library.ErrNotFound)
		r.Add("c", Options{})
		w.must(r.Start("c"))
		w.mu.Lock()
		w.present["b"], w.present["c"] = true, false // by hand
		w.mu.Unlock()
		r.Sync([]library.ID{"b"})
		w.wantState("b", Downloaded)
		w.wantState("c", Running)
		w.must(r.Stop("c"))
		r.Sync([]library.ID{"b"})
		if _, ok := r.Get("c"); ok {
			t.Error("a model that went is still known")
		}
		w.end()
	})
}

func TestNewRefuses(t *testing.T) {
	w := newWorld(t, Config{}, nil)
	good := w.roster.cfg
	for name, change := range map[string]func(*Config){
		"runner": func(c *Config) { c.Runner = nil }, "policy": func(c *Config) { c.Policy = "hope" },
		"budget": func(c *Config) { c.Budget = -1 },
	} {
		bad := good
		change(&bad)
		if _, err := New(bad); err == nil {
			t.Errorf("%s: no error", name)
		}
	}
}
