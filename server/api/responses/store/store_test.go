package store

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"go.uber.org/goleak"
)

// TestMain fails if a test leaves a goroutine behind.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var small = Limits{TTL: time.Hour, MaxRecord: 1000, MaxOwnerRecords: 5, MaxOwnerBytes: 3000, MaxRecords: 8,
	MaxBytes: 6000}

// startRedis runs Debian's redis-server on a socket of its own. Without the program the test is skipped.
func startRedis(t *testing.T) (url string, stop func()) {
	t.Helper()
	program, err := exec.LookPath("redis-server")
	if err != nil {
		t.Skip("redis-server is not installed")
	}
	dir, err := os.MkdirTemp("", "r") // whose path fits into the address of a socket
	if err != nil {
		t.Fatal(err)
	}
	socket := filepath.Join(dir, "s")
	cmd := exec.Command(program, "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir",
		dir)
	out, err := cmd.StdoutPipe()
	if err == nil {
		err = cmd.Start()
	}
	if err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if !stopped {
			stopped = true
			_ = cmd.Process.Kill()
			_ = cmd.Wait()
		}
	}
	t.Cleanup(func() {
		stop()
		_ = os.RemoveAll(dir)
	})
	for lines := bufio.NewScanner(out); lines.Scan(); {
		if strings.Contains(strings.ToLower(lines.Text()), "ready to accept connections") {
			return "unix://" + socket, stop
		}
	}
	t.Fatal("redis-server ended")
	return "", nil
}

// each runs a test on both stores.
func each(t *testing.T, l Limits, test func(t *testing.T, s Store)) {
	t.Run("memory", func(t *testing.T) { test(t, NewMemory(l)) })
	t.Run("redis", func(t *testing.T) {
		url, _ := startRedis(t)
		s, err := OpenRedis(url, l)
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		test(t, s)
	})
}

// has reports whether a record is kept.
func has(t *testing.T, s Store, o Owner, id string) bool {
	t.Helper()
	_, err := s.Get(t.Context(), o, id)
	if err != nil && !errors.Is(err, ErrNotFound) {
		t.Fatal(err)
	}
	return err == nil
}

// TestOwners: each owner has its own records.
func TestOwners(t *testing.T) {
	each(t, small, func(t *testing.T, s Store) {
		a, b := OwnerOf("a"), OwnerOf("b")
		for _, text := range []string{"one", "two"} {
			if err := s.Put(t.Context(), a, "x", []byte(text)); err != nil {
				t.Fatal(err)
			}
		}
		if got, err := s.Get(t.Context(), a, "x"); err != nil || string(got) != "two" {
			t.Errorf("got %q, %v", got, err)
		}
		if has(t, s, b, "x") || !errors.Is(s.Delete(t.Context(), b, "x"), ErrNotFound) || !has(t, s, a, "x") {
			t.Error("one owner has another's record")
		}
		if err := s.Delete(t.Context(), a, "x"); err != nil || has(t, s, a, "x") {
			t.Errorf("it is still there: %v", err)
		}
	})
}

// TestDeleted: what was deleted cannot be put again; what was never there, what another owner deleted and what was
// pushed out can.
func TestDeleted(t *testing.T) {
	each(t, small, func(t *testing.T, s Store) {
		a, b := OwnerOf("a"), OwnerOf("b")
		put := func(o Owner, id string) error {
			t.Helper()
			time.Sleep(2 * time.Millisecond) // Redis orders by the time
			return s.Put(t.Context(), o, id, make([]byte, 500))
		}
		if err := s.Delete(t.Context(), a, "x"); !errors.Is(err, ErrNotFound) {
			t.Fatal(err)
		}
		if err := put(a, "x"); err != nil {
			t.Fatalf("one that was never there: %v", err)
		}
		if err := s.Delete(t.Context(), a, "x"); err != nil {
			t.Fatal(err)
		}
		for range 2 {
			if err := put(a, "x"); !errors.Is(err, ErrDeleted) || has(t, s, a, "x") {
				t.Fatalf("the deleted one is back: %v", err)
			}
			if err := s.Delete(t.Context(), a, "x"); !errors.Is(err, ErrNotFound) {
				t.Fatalf("it is deleted twice: %v", err)
			}
		}
		if err := put(b, "x"); err != nil || !has(t, s, b, "x") {
			t.Fatalf("another's: %v", err)
		}
		for i := range 6 {
			if err := put(a, fmt.Sprint(i)); err != nil {
				t.Fatal(err)
			}
		}
		if has(t, s, a, "0") {
			t.Fatal("none was pushed out")
		}
		if err := put(a, "0"); err != nil || !has(t, s, a, "0") {
			t.Fatalf("one that was pushed out: %v", err)
		}
	})
}

// TestDeletedRing: a Memory remembers the latest deleted ones alone.
func TestDeletedRing(t *testing.T) {
	m := NewMemory(small)
	for i := range deletedMost + 10 {
		id := fmt.Sprint(i)
		put := m.Put(t.Context(), Owner{}, id, []byte("x"))
		if err := errors.Join(put, m.Delete(t.Context(), Owner{}, id)); err != nil {
			t.Fatal(err)
		}
	}
	first, last := m.Put(t.Context(), Owner{}, "9", []byte("x")), m.Put(t.Context(), Owner{}, "10", []byte("x"))
	if len(m.deleted) != deletedMost || first != nil || !errors.Is(last, ErrDeleted) {
		t.Errorf("it remembers %d: %v, %v", len(m.deleted), first, last)
	}
}

// TestBounds: an owner's oldest records are forgotten beyond its number and its bytes, and large ones are refused.
func TestBounds(t *testing.T) {
	each(t, small, func(t *testing.T, s Store) {
		o := OwnerOf("a")
		put := func(id string, n int) {
			t.Helper()
			if err := s.Put(t.Context(), o, id, bytes.Repeat([]byte("x"), n)); err != nil {
				t.Fatal(err)
			}
			time.Sleep(2 * time.Millisecond) // Redis orders by the time
		}
		for i := range 7 {
			put(fmt.Sprint(i), 10)
		}
		for i := range 7 {
			if got := has(t, s, o, fmt.Sprint(i)); got != (i >= 2) {
				t.Errorf("of seven, record %d: %v", i, got)
			}
		}
		for i := range 5 {
			put(fmt.Sprint("large", i), 900)
		}
		kept := 0
		for i := range 5 {
			if has(t, s, o, fmt.Sprint("large", i)) {
				kept++
			}
		}
		if kept == 0 || kept > 3 || has(t, s, o, "6") || !has(t, s, o, "large4") {
			t.Errorf("%d records of 900 bytes in 3000", kept)
		}
		if err := s.Put(t.Context(), o, "huge", make([]byte, 1001)); !errors.Is(err, ErrTooLarge) || has(t, s, o,
			"huge") {
			t.Errorf("1001 bytes of 1000: %v", err)
		}
	})
}

// TestExpiry: a record is gone after its time, and takes no room then.
func TestExpiry(t *testing.T) {
	l := small
	l.TTL = 100 * time.Millisecond
	each(t, l, func(t *testing.T, s Store) {
		o := OwnerOf("a")
		for round := range 2 {
			for i := range 3 {
				if err := s.Put(t.Context(), o, fmt.Sprint(round, i), make([]byte, 700)); err != nil {
					t.Fatal(err)
				}
			}
			if !has(t, s, o, fmt.Sprint(round, 2)) {
				t.Error("the latest is gone")
			}
			time.Sleep(150 * time.Millisecond)
			if has(t, s, o, fmt.Sprint(round, 2)) {
				t.Error("it outlived its time")
			}
		}
	})
}

// TestShares: when memory is full, whoever has most loses the oldest.
func TestShares(t *testing.T) {
	m := NewMemory(small)
	polite, flood := OwnerOf("polite"), OwnerOf("flood")
	if err := m.Put(t.Context(), polite, "mine", []byte("x")); err != nil {
		t.Fatal(err)
	}
	for k := range 3 {
		other := OwnerOf(fmt.Sprint(k))
		if k == 2 {
			other = flood
		}
		for i := range 50 {
			if err := m.Put(t.Context(), other, fmt.Sprint(i), make([]byte, 400)); err != nil {
				t.Fatal(err)
			}
		}
	}
	if s := m.Stats(); !has(t, m, polite, "mine") || s.Records > 8 || s.Bytes > 6000 || s.Evicted == 0 {
		t.Errorf("the polite one's record is gone, or there is too much: %+v", s)
	}
}

// TestAway: a Redis that does not answer is said to be away.
func TestAway(t *testing.T) {
	url, stop := startRedis(t)
	s, err := OpenRedis(url, small)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	stop()
	if err := s.Put(t.Context(), Owner{}, "x", nil); !errors.Is(err, ErrUnavailable) {
		t.Errorf("put: %v", err)
	}
	if _, err := s.Get(t.Context(), Owner{}, "x"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("get: %v", err)
	}
	if err := s.Delete(t.Context(), Owner{}, "x"); !errors.Is(err, ErrUnavailable) {
		t.Errorf("delete: %v", err)
	}
	lost := make(chan error, 1)
	s.Probe(func(err error) { lost <- err })
	if err := <-lost; !errors.Is(err, ErrUnavailable) {
		t.Errorf("probe: %v", err)
	}
}

// TestReplace: a record is replaced where it is what the caller has read.
func TestReplace(t *testing.T) {
	each(t, small, func(t *testing.T, s Store) {
		ctx, o := t.Context(), OwnerOf("a")
		if err := s.Replace(ctx, o, "x", []byte("1"), []byte("2")); !errors.Is(err, ErrNotFound) {
			t.Errorf("nothing is there: %v", err)
		}
		if err := s.Put(ctx, o, "x", []byte("1")); err != nil {
			t.Fatal(err)
		}
		if err := s.Replace(ctx, OwnerOf("b"), "x", []byte("1"), []byte("2")); !errors.Is(err, ErrNotFound) {
			t.Errorf("another's: %v", err)
		}
		if err := s.Replace(ctx, o, "x", []byte("0"), []byte("2")); !errors.Is(err, ErrChanged) {
			t.Errorf("it is another: %v", err)
		}
		if err := s.Replace(ctx, o, "x", []byte("1"), make([]byte, 1001)); !errors.Is(err, ErrTooLarge) {
			t.Errorf("too large: %v", err)
		}
		if err := s.Replace(ctx, o, "x", []byte("1"), []byte("2")); err != nil {
			t.Error(err)
		}
		if got, err := s.Get(ctx, o, "x"); err != nil || string(got) != "2" {
			t.Errorf("kept is %q, %v", got, err)
		}
		// Of many who add to it none is lost.
		var all sync.WaitGroup
		for range 8 {
			all.Go(func() {
				for {
					old, err := s.Get(ctx, o, "x")
					if err != nil {
						t.Error(err)
						return
					}
					err = s.Replace(ctx, o, "x", old, append(slices.Clone(old), '+'))
					if err == nil {
						return
					}
					if !errors.Is(err, ErrChanged) {
						t.Error(err)
						return
					}
				}
			})
		}
		all.Wait()
		if got, err := s.Get(ctx, o, "x"); err != nil || string(got) != "2++++++++" {
			t.Errorf("kept is %q, %v", got, err)
		}
		if err := s.Delete(ctx, o, "x"); err != nil {
			t.Error(err)
		}
		if err := s.Replace(ctx, o, "x", []byte("2"), []byte("3")); !errors.Is(err, ErrNotFound) &&
			!errors.Is(err, ErrDeleted) {
			t.Errorf("deleted: %v", err)
		}
	})
}
