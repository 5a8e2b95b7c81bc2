package plugins

import (
	"errors"
	"strings"
	"testing"
)

// TestAlwaysAbsent: a plugin that applies to all requests and can't be used, such as an upload that was kept and is
// damaged, is not passed by: requests are refused, or told that they go on without it.
func TestAlwaysAbsent(t *testing.T) {
	for _, onError := range []OnError{OnErrorFail, OnErrorSkip} {
		s := open(t, Options{Specs: []Spec{spec(t, "other", bias(1).Wasm())}})
		cause := errors.New("rule.wasm has another sum")
		if err := s.Fail(t.Context(), "rule", Upload{Apply: ApplyAlways, OnError: onError}, cause); err != nil {
			t.Fatal(err)
		}
		st, ok := s.Get("rule")
		if !ok || st.State != StateFailed || !strings.Contains(st.Error, cause.Error()) {
			t.Errorf("%+v", st)
		}
		b, err := s.Bind(t.Context(), nil)
		if onError == OnErrorFail {
			if !errors.Is(err, ErrOff) || !strings.Contains(err.Error(), "could not be loaded: "+cause.Error()) {
				t.Errorf("%v", err)
			}
		} else {
			if err != nil {
				t.Fatal(err)
			}
			if got := b.Skipped(); len(got) != 1 || got[0].Plugin != "rule" || !strings.Contains(got[0].Reason, cause.Error()) {
				t.Errorf("%+v", got)
			}
			if err := b.Begin(t.Context(), []uint32{1}, 4, []uint64{1, 2}); err != nil {
				t.Fatal(err)
			}
			if seq := b.Sequence(0); len(seq.Processors) != 0 || seq.Sampler != nil {
				t.Errorf("%+v", seq)
			}
			b.Release(0)
			b.Close()
		}
		if _, err := s.Put(t.Context(), "rule", bias(2).Wasm(), Upload{Apply: ApplyAlways}); err != nil {
			t.Fatal(err)
		}
		if err := s.Fail(t.Context(), "rule", Upload{}, cause); err != nil {
			t.Fatal(err)
		}
		if st, _ := s.Get("rule"); st.State != StateActive {
			t.Errorf("what serves was taken away: %+v", st)
		}
		if err := s.Delete("rule"); err != nil {
			t.Error(err)
		}
		if err := s.Fail(t.Context(), "rule", Upload{}, cause); err != nil {
			t.Fatal(err)
		}
		if err := s.Delete("rule"); err != nil {
			t.Error(err)
		}
	}
}
