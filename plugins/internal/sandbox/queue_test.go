package sandbox

import (
	"context"
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// work is a fake compilation that runs until the test ends it.
type work struct {
	began  chan struct{}
	finish chan error
	starts atomic.Int64
	ends   atomic.Int64
}

func newWork() *work {
	return &work{began: make(chan struct{}, 10), finish: make(chan error)}
}

func (w *work) start() (<-chan error, func(), error) {
	done, ended := make(chan error, 1), make(chan struct{})
	w.starts.Add(1)
	w.began <- struct{}{}
	go func() {
		select {
		case err := <-w.finish:
			done <- err
		case <-ended:
			done <- errors.New("ended")
		}
	}()
	return done, func() { w.ends.Add(1); close(ended) }, nil
}

// TestLanes checks that short compilations overtake long ones, of which one runs at a time, and that all complete.
func TestLanes(t *testing.T) {
	l := newLanes()
	run := func(w *work) chan error {
		out := make(chan error, 1)
		go func() { out <- l.run(t.Context(), time.Millisecond, w.start) }()
		return out
	}
	long, longer, short := newWork(), newWork(), newWork()
	outLong := run(long)
	<-long.began
	outLonger := run(longer) // moves long to the slow lane
	<-longer.began
	outShort := run(short) // the slow lane is taken: longer is ended
	<-short.began
	if long.ends.Load() != 0 || longer.ends.Load() != 1 {
		t.Errorf("ended: long %d times, longer %d times", long.ends.Load(), longer.ends.Load())
	}
	short.finish <- nil
	if err := <-outShort; err != nil {
		t.Error(err)
	}
	failure := errors.New("no good")
	long.finish <- failure
	if err := <-outLong; err != failure {
		t.Errorf("got %v", err)
	}
	<-longer.began // anew
	longer.finish <- nil
	if err := <-outLonger; err != nil || longer.starts.Load() != 2 {
		t.Errorf("%v after %d starts", err, longer.starts.Load())
	}
	if len(l.quick)+len(l.slow) != 0 || l.waiting.Load() != 0 {
		t.Errorf("lanes taken: %d, %d; waiting %d", len(l.quick), len(l.slow), l.waiting.Load())
	}
}

// TestLanesLeft checks that cancelling ends the caller's running compilation, or removes it from the queue.
func TestLanesLeft(t *testing.T) {
	l := newLanes()
	gone := errors.New("gone")
	ctx, leave := context.WithCancelCause(t.Context())
	runs, waits := newWork(), newWork()
	out := make(chan error, 2)
	go func() { out <- l.run(ctx, time.Hour, runs.start) }()
	<-runs.began
	go func() { out <- l.run(ctx, time.Hour, waits.start) }()
	for l.waiting.Load() == 0 {
		time.Sleep(time.Millisecond)
	}
	leave(gone)
	for range 2 {
		if err := <-out; err != gone {
			t.Errorf("got %v", err)
		}
	}
	if runs.ends.Load() != 1 || waits.starts.Load() != 0 || len(l.quick) != 0 {
		t.Errorf("ended %d times, the other started %d times", runs.ends.Load(), waits.starts.Load())
	}
}

// TestByKey checks that one compilation runs at a time for each key.
func TestByKey(t *testing.T) {
	var b byKey
	first, err := b.lock(t.Context(), "a")
	if err != nil {
		t.Fatal(err)
	}
	other, err := b.lock(t.Context(), "b")
	if err != nil {
		t.Fatal(err)
	}
	ctx, leave := context.WithTimeout(t.Context(), 10*time.Millisecond)
	defer leave()
	if _, err := b.lock(ctx, "a"); !errors.Is(err, context.DeadlineExceeded) {
		t.Errorf("the key was taken: %v", err)
	}
	first()
	other()
	if second, err := b.lock(t.Context(), "a"); err != nil {
		t.Error(err)
	} else {
		second()
	}
	if len(b.users) != 0 {
		t.Errorf("%d keys are kept", len(b.users))
	}
}
