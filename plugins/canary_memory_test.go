package plugins

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
)

// hog takes 40 MiB and keeps running.
func hog() guesttest.Code {
	return guesttest.Join(guesttest.Grow(600), guesttest.Const(1<<20), guesttest.Const(1), guesttest.Const(40<<20),
		guesttest.Code{0xfc, 11, 0}, guesttest.Spin())
}

// hogsAtBegin is a guest that does so when a sequence with parameters begins.
func hogsAtBegin() []byte {
	f := bias(2)
	f.Pages = 200
	f.Code["tgi_logits_begin"] = guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(doTrap))),
		guesttest.Equal(), guesttest.When(hog()), f.Code["tgi_logits_begin"])
	return f.Wasm()
}

// withHog is a set whose plugins may have 32 MiB, with the plugin "a", which adds 1, and a canary of it for all
// requests.
func withHog(t *testing.T, wasm []byte, u Upload) (*Set, *Canary) {
	t.Helper()
	s := open(t, Options{Memory: NewMemory(MemoryConfig{Bytes: 32 << 20, Name: "plugins.memory"}),
		Request: func(ctx context.Context) string {
			id, _ := ctx.Value(requestKey{}).(string)
			return id
		}})
	if _, err := s.Put(t.Context(), "a", bias(1).Wasm(), u); err != nil {
		t.Fatal(err)
	}
	return s, canaryOf(t, s, wasm, 100, 2, u)
}

// TestCanaryMemory: a canary that is ended because it used up the memory of all plugins has failed: before the sequence
// the request goes on with the version that serves, at a step it is as always, and both count. No breaker does.
func TestCanaryMemory(t *testing.T) {
	for _, onError := range []OnError{OnErrorFail, OnErrorSkip} {
		s, c := withHog(t, hogsAtBegin(), Upload{OnError: onError})
		for range 2 {
			if x, err := request(t, s, "a", doTrap); x != 1 || err != nil {
				t.Fatalf("%s: at the begin: %v %v", onError, x, err)
			}
		}
		if st := c.Stats(); st.Faulty != 2 || st.Fallbacks != 2 ||
			!strings.Contains(st.Aborted, "out of plugin memory") {
			t.Errorf("%s: %+v", onError, st)
		}
		if x, err := request(t, s, "a", ""); x != 1 || err != nil {
			t.Errorf("%s: after the abort: %v %v", onError, x, err)
		}
	}
	step := bias(2, given(len(doTrap), hog()))
	step.Pages = 200
	s, c := withHog(t, step.Wasm(), Upload{Limits: Limits{FuelPerStep: 1e9}})
	for range 2 {
		if _, err := request(t, s, "a", doTrap); err == nil || !strings.Contains(err.Error(), "out of plugin memory") {
			t.Fatalf("at a step: %v", err)
		}
	}
	if st := c.Stats(); st.Faulty != 2 || st.Fallbacks != 0 || !strings.Contains(st.Aborted, "out of plugin memory") {
		t.Errorf("%+v", st)
	}
	if x, err := request(t, s, "a", ""); x != 1 || err != nil {
		t.Errorf("after the abort: %v %v", x, err)
	}
}

// TestMemoryIsNoFault: a plugin that runs out of the memory of all is not switched off, and skipped where it may be.
func TestMemoryIsNoFault(t *testing.T) {
	for _, onError := range []OnError{OnErrorFail, OnErrorSkip} {
		s := open(t, Options{Memory: NewMemory(MemoryConfig{Bytes: 32 << 20, Name: "plugins.memory"})})
		if _, err := s.Put(t.Context(), "a", hogsAtBegin(), Upload{OnError: onError}); err != nil {
			t.Fatal(err)
		}
		for range 12 {
			x, err := request(t, s, "", doTrap)
			if onError == OnErrorSkip && err != nil || onError == OnErrorFail && !errors.Is(err, ErrBusy) {
				t.Fatalf("%s: %v %v", onError, x, err)
			}
		}
		if x, err := request(t, s, "", ""); x != 2 || err != nil {
			t.Errorf("%s: afterwards: %v %v", onError, x, err)
		}
	}
}
