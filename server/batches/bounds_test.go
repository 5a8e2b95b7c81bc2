package batches

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"runtime"
	"strings"
	"sync/atomic"
	"syscall"
	"testing"
	"testing/synctest"
	"time"
)

func ok(int) string { return "ok" }

// hangs answers nothing until the batch is over.
func hangs(ctx context.Context, _, _ string, _ []byte) (Reply, error) {
	<-ctx.Done()
	return Reply{}, ctx.Err()
}

// TestWaiting: while the server has no room, a batch of thousands of lines has a few goroutines and asks a few times
// for each period that replies name, however long that is, until the batch expires.
func TestWaiting(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		l, before := limits(), runtime.NumGoroutine()
		l.Keep = 100 * time.Hour
		s := open(t, t.TempDir(), l, func(context.Context, string, string, []byte) (Reply, error) {
			asked.Add(1)
			return Reply{Status: 429, RetryAfter: time.Hour, Body: []byte(`{}`)}, nil
		})
		defer s.Close()
		b := create(t, s, alice, put(t, s, alice, input(2000, ok)).ID)
		for hours := range 3 {
			time.Sleep(59 * time.Minute)
			synctest.Wait()
			if n, most := asked.Load(), int64((hours+1)*l.Lines); n < int64(hours+1) || n > most {
				t.Fatalf("%d questions in hour %d, at most %d are wanted", n, hours, most)
			}
			if n := runtime.NumGoroutine() - before; n > l.Lines+10 {
				t.Fatalf("%d goroutines for %d lines at once", n, l.Lines)
			}
			time.Sleep(time.Minute)
		}
		time.Sleep(24 * time.Hour)
		synctest.Wait()
		if b, _ := s.Batch(alice, b.ID); b.Status != Expired || b.Counts.Failed != 2000 {
			t.Errorf("after its window: %+v", b)
		}
	})
}

// TestWaitIsCutOff: a wait that is longer than the window ends with it, and one that is not ends by a cancellation.
func TestWaitIsCutOff(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var asked atomic.Int64
		l := limits()
		l.Keep = 100 * time.Hour
		s := open(t, t.TempDir(), l, func(context.Context, string, string, []byte) (Reply, error) {
			asked.Add(1)
			return Reply{Status: 429, RetryAfter: 1000 * time.Hour, Body: []byte(`{}`)}, nil
		})
		defer s.Close()
		f := put(t, s, alice, input(50, ok))
		for _, want := range []string{Expired, Cancelled} {
			b := create(t, s, alice, f.ID)
			time.Sleep(time.Hour)
			if want == Cancelled {
				if _, err := s.Cancel(alice, b.ID); err != nil {
					t.Error(err)
				}
			} else {
				time.Sleep(24 * time.Hour)
			}
			synctest.Wait()
			if b, _ := s.Batch(alice, b.ID); b.Status != want {
				t.Errorf("%s, want %s", b.Status, want)
			}
		}
		if asked.Load() > 8 {
			t.Errorf("%d questions", asked.Load())
		}
	})
}

// TestOwners: uploads that are refused, and those that are given up, leave no owner and no folder.
func TestOwners(t *testing.T) {
	l := limits()
	l.Storage, l.OwnerStorage = 3*entryBytes, 3*entryBytes
	s := open(t, t.TempDir(), l, echoes)
	defer s.Close()
	var held []*Upload
	for i := range 500 {
		u, err := s.Begin(fmt.Sprintf("%064x", i))
		if i < 3 != (err == nil) || err != nil && !errors.Is(err, ErrQuota) {
			t.Fatalf("upload %d: %v", i, err)
		}
		if err == nil {
			held = append(held, u)
		}
	}
	if n := len(s.owners); n != 3 {
		t.Errorf("%d owners, 3 have something", n)
	}
	s.expire(time.Now())
	if n := len(s.owners); n != 3 {
		t.Errorf("%d owners are left of 3 who write", n)
	}
	for _, u := range held {
		u.Close()
	}
	s.expire(time.Now())
	left, _ := os.ReadDir(s.folder)
	if len(s.owners) != 0 || s.used != 0 || len(left) != 1 { // the lock
		t.Errorf("%d owners, %d bytes, %v are left", len(s.owners), s.used, left)
	}
	u, err := s.Begin(alice)
	if err != nil {
		t.Fatal(err)
	}
	u.Close()
}

// missing fails unless there is no such file.
func missing(t *testing.T, path string) {
	t.Helper()
	if _, err := os.Stat(path); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("%s is still there: %v", path, err)
	}
}

// TestJournalsGo: no journal outlives its batch, whether that fails when it goes on, expires, or ended just before the
// process was killed.
func TestJournalsGo(t *testing.T) {
	var n atomic.Int64
	s := open(t, t.TempDir(), limits(), func(ctx context.Context, o, p string, body []byte) (Reply, error) {
		if n.Add(1) > 10 {
			return hangs(ctx, o, p, body)
		}
		return echoes(ctx, o, p, body)
	})
	f := put(t, s, alice, input(100, ok))
	b := create(t, s, alice, f.ID)
	until(t, s, alice, b.ID, func(b Batch) bool { return b.Counts.Completed == 10 })
	_ = s.Close()
	journal := s.path(alice, b.ID+journalExt)
	if info, err := os.Stat(journal); err != nil || info.Size() == 0 {
		t.Fatalf("%v %v", info, err)
	}
	if err := os.Remove(s.path(alice, f.ID+dataExt)); err != nil {
		t.Fatal(err)
	}
	s = open(t, s.folder, limits(), echoes)
	if b = until(t, s, alice, b.ID, over); b.Status != Failed {
		t.Errorf("without its input the batch is %s", b.Status)
	}
	_ = s.Close()
	missing(t, journal)

	leave := func() {
		if err := os.WriteFile(journal, []byte("x"), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	leave()
	s = open(t, s.folder, limits(), echoes)
	missing(t, journal)
	leave()
	s.expire(time.Now().Add(2 * time.Hour))
	missing(t, journal)
	if err := s.Close(); err != nil || s.used != 0 {
		t.Errorf("%d bytes, %v", s.used, err)
	}
}

// TestDamage: a batch whose input or journal is not whole at its end fails; one that can't be written yet is written
// later.
func TestDamage(t *testing.T) {
	finishRetry = time.Millisecond
	defer func() { finishRetry = 30 * time.Second }()
	for name, damage := range map[string]func(input, journal, output string) error{
		"input gone":    func(input, _, _ string) error { return os.Remove(input) },
		"input cut":     func(input, _, _ string) error { return os.Truncate(input, 200) },
		"input longer":  func(input, _, _ string) error { return lengthen(input) },
		"journal empty": func(_, journal, _ string) error { return os.Truncate(journal, 0) },
		"no folder yet": func(_, _, output string) error {
			time.AfterFunc(20*time.Millisecond, func() { _ = os.Remove(output) })
			return os.Mkdir(output, 0o700)
		},
	} {
		t.Run(name, func(t *testing.T) {
			var s *Store
			var b Batch
			var f *File
			ready := make(chan struct{})
			l := limits()
			l.Lines = 1
			s = open(t, t.TempDir(), l, func(ctx context.Context, o, p string, body []byte) (Reply, error) {
				<-ready
				if strings.Contains(string(body), `"i":29,`) {
					if err := damage(s.path(alice, f.ID+dataExt), s.path(alice, b.ID+journalExt),
						s.path(alice, b.outputID()+tempExt)); err != nil {
						t.Error(err)
					}
				}
				return echoes(ctx, o, p, body)
			})
			defer s.Close()
			f = put(t, s, alice, input(30, ok))
			b = create(t, s, alice, f.ID)
			close(ready)
			got := until(t, s, alice, b.ID, over)
			if name == "no folder yet" {
				if n := len(results(t, s, alice, got.OutputFile)); got.Status != Completed || n != 30 {
					t.Errorf("%d results, %+v", n, got)
				}
				return
			}
			if got.Status != Failed || got.Errors == nil || got.Errors.Data[0].Code != "server_error" {
				t.Errorf("%+v", got)
			}
			_ = s.Close()
			missing(t, s.path(alice, b.ID+journalExt))
		})
	}
}

// lengthen adds a request to an input.
func lengthen(path string) error {
	f, err := os.OpenFile(path, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = f.WriteString(strings.Replace(input(1, ok), `"0"`, `"more"`, 1))
	return errors.Join(err, f.Close())
}

// TestCancelUnread: the input of a batch that is cancelled before it ran is not read to its end. With results it is,
// since they are written in its order.
func TestCancelUnread(t *testing.T) {
	s := open(t, t.TempDir(), limits(), hangs)
	defer s.Close()
	first := create(t, s, alice, put(t, s, alice, input(5, ok)).ID)
	second := create(t, s, alice, put(t, s, alice, input(5, ok)+"{").ID)
	for _, id := range []string{second.ID, first.ID} {
		if _, err := s.Cancel(alice, id); err != nil {
			t.Fatal(err)
		}
	}
	if b := until(t, s, alice, second.ID, over); b.Status != Cancelled || b.Counts.Total != 0 || b.Errors != nil {
		t.Errorf("%+v", b)
	}
	until(t, s, alice, first.ID, over)
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(errCancelled)
	r := &run{store: s, owner: s.owners[alice], batch: &first}
	if _, err := r.count(ctx); !errors.Is(err, errCancelled) {
		t.Errorf("without results: %v", err)
	}
	if err := os.WriteFile(s.path(alice, first.ID+journalExt), []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := r.count(ctx); err != nil || r.total != 5 {
		t.Errorf("with results: %d requests, %v", r.total, err)
	}
}

// TestSlowDisk: while the disk takes an owner's description, others are served.
func TestSlowDisk(t *testing.T) {
	s := open(t, t.TempDir(), limits(), hangs)
	defer s.Close()
	b := create(t, s, alice, put(t, s, alice, input(5, ok)).ID)
	until(t, s, alice, b.ID, func(b Batch) bool { return b.Counts.Total == 5 })
	pipe := s.path(alice, b.ID+jsonExt+tempExt) // opening it waits for a reader
	if err := syscall.Mkfifo(pipe, 0o600); err != nil {
		t.Fatal(err)
	}
	cancelled, served := make(chan error, 1), make(chan error, 1)
	go func() {
		_, err := s.Cancel(alice, b.ID)
		cancelled <- err
	}()
	go func() {
		var err error
		for range 20 {
			time.Sleep(time.Millisecond)
			_, _, wrong := s.Files(bob, "", "", 1, false)
			u, failed := s.Begin(bob)
			if err = errors.Join(err, wrong, failed); failed == nil {
				u.Close()
			}
		}
		served <- err
	}()
	select {
	case err := <-served:
		if err != nil {
			t.Error(err)
		}
	case <-time.After(3 * time.Second):
		t.Error("another owner waits for the disk")
	}
	select {
	case err := <-cancelled:
		t.Errorf("cancelled before it was written: %v", err)
	default:
	}
	r, err := os.Open(pipe)
	if err != nil {
		t.Fatal(err)
	}
	defer r.Close()
	if err := <-cancelled; err != nil {
		t.Error(err)
	}
	until(t, s, alice, b.ID, over)
}

// TestInputTakesTurns: an input is looked at in pieces, each in its owner's turn, so that its length delays nobody.
func TestInputTakesTurns(t *testing.T) {
	l := limits()
	l.MaxLines = 1000
	s := open(t, t.TempDir(), l, func(context.Context, string, string, []byte) (Reply, error) {
		t.Error("a line was run")
		return Reply{}, ErrStopping
	})
	defer s.Close()
	turns := 0
	s.ShareProcessors(func(owner string, f func()) {
		if owner == alice {
			turns++
		}
		f()
	})
	text := strings.Repeat(`{"custom_id":"a","method":"POST","url":"/v1/chat/completions","body":{}}`+"\n", 900)
	until(t, s, alice, create(t, s, alice, put(t, s, alice, text).ID).ID, over)
	if want := len(text)/turnBytes + 1; turns != want {
		t.Errorf("%d bytes took %d turns, want %d", len(text), turns, want)
	}
}
