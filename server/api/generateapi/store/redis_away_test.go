//go:build unix

package store

import (
	"errors"
	"runtime"
	"sync"
	"syscall"
	"testing"
	"time"
)

// TestContinuationRedisAway: Redis hangs, dies and comes back while many use it. Each
// of them is told within a bounded time, nothing of the waits stays behind, and then
// the store works as before, without a restart.
func TestContinuationRedisAway(t *testing.T) {
	dir := short(t)
	url, stop, process := runRedis(t, dir)
	s, err := OpenRedis(url, Limits{TTL: time.Minute, MaxState: 1 << 10})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	held, err := s.Claim(t.Context(), Key{1})
	if err != nil {
		t.Fatal(err)
	}
	before := runtime.NumGoroutine()
	// many claims, while Redis is away, fail in time and leave nothing behind.
	many := func(how string) {
		t.Helper()
		began := time.Now()
		var all sync.WaitGroup
		for i := range 300 {
			all.Go(func() {
				if _, err := s.Claim(t.Context(), Key{2, byte(i), byte(i >> 8)}); !errors.Is(err, ErrUnavailable) {
					t.Errorf("%s: a claim got %v", how, err)
				}
			})
		}
		all.Wait()
		if took := time.Since(began); took > 4*timeout {
			t.Errorf("%s: claims took %s, each may take %s", how, took, timeout)
		}
		for deadline := time.Now().Add(20 * timeout); runtime.NumGoroutine() > before+
			20; time.Sleep(50 * time.Millisecond) {
			if time.Now().After(deadline) {
				t.Fatalf("%s: %d goroutines, %d before", how, runtime.NumGoroutine(), before)
			}
		}
	}
	if err := process.Signal(syscall.SIGSTOP); err != nil {
		t.Fatal(err)
	}
	many("hanging")
	if err := process.Signal(syscall.SIGCONT); err != nil {
		t.Fatal(err)
	}
	// Who held a claim through it still has it, and what hung on the way is over
	// when its claims have ended.
	if err := held.Save(t.Context(), []byte("one")); err != nil {
		t.Errorf("a claim from before the hang: %v", err)
	}
	stop()
	many("dead")
	startRedis(t, dir)
	// The library looks every second whether a server that was away for many is back.
	again, err := s.Claim(t.Context(), Key{1})
	for deadline := time.Now().Add(20 * timeout); errors.Is(err, ErrUnavailable) &&
		time.Now().Before(deadline); time.Sleep(50 * time.Millisecond) {
		again, err = s.Claim(t.Context(), Key{1})
	}
	if err != nil {
		t.Fatal("after the restart:", err)
	}
	if again.State() != nil { // this Redis keeps nothing on disk
		t.Errorf("state %q from nowhere", again.State())
	}
	if err := again.Save(t.Context(), []byte("two")); err != nil {
		t.Error("after the restart:", err)
	}
	last, err := s.Claim(t.Context(), Key{1})
	if err != nil || string(last.State()) != "two" {
		t.Fatalf("got %q, %v", last.State(), err)
	}
	last.Release()
}
