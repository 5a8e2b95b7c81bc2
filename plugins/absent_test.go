package plugins

import (
	"errors"
	"path/filepath"
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
			if got := b.Skipped(); len(got) != 1 || got[0].Plugin != "rule" ||
				!strings.Contains(got[0].Reason, cause.Error()) {
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

// TestSkippedAtTheStart: where a plugin's on_error is skip, the start goes on without a module that can't be loaded,
// and the module comes in when it is right; elsewhere it is an error of the start.
func TestSkippedAtTheStart(t *testing.T) {
	source := file(t, "rule", []byte("no module"))
	sp := Spec{Name: "rule", Source: source, Apply: ApplyAlways}
	if _, err := Open(t.Context(), options(t, Options{Specs: []Spec{sp}})); !errors.Is(err, ErrLoad) {
		t.Errorf("on_error fail: %v", err)
	}
	sp.OnError = OnErrorSkip
	s := open(t, Options{Specs: []Spec{sp, spec(t, "other", bias(1).Wasm())}})
	if st, _ := s.Get("rule"); st.State != StateFailed || !strings.Contains(st.Error, "rule: ") {
		t.Errorf("%+v", st)
	}
	b, err := s.Bind(t.Context(), []Call{{Name: "other"}})
	if err != nil {
		t.Fatal(err)
	}
	if got := b.Skipped(); len(b.parts) != 1 || len(got) != 1 || got[0].Plugin != "rule" {
		t.Errorf("%d plugins, skipped %+v", len(b.parts), got)
	}
	b.Close()
	write(t, source, bias(2).Wasm())
	if _, err := s.refresh(t.Context()); err != nil {
		t.Fatal(err)
	}
	if st, _ := s.Get("rule"); st.State != StateActive {
		t.Errorf("%+v", st)
	}
}

// TestRejectedOnce: the log has a rejected file once, however often the folder is looked at, and again when it changed.
func TestRejectedOnce(t *testing.T) {
	folder, log := t.TempDir(), &logLines{}
	path := filepath.Join(folder, "torn.wasm")
	write(t, path, []byte("no module"))
	s := open(t, Options{Folder: folder, Log: logger(log)})
	rejected := func(want int) {
		t.Helper()
		if _, err := s.refresh(t.Context()); err != nil {
			t.Fatal(err)
		}
		if n := strings.Count(log.String(), "plugin rejected"); n != want {
			t.Errorf("logged %d times, want %d", n, want)
		}
	}
	rejected(1)
	rejected(1)
	write(t, path, []byte("nor this"))
	rejected(2)
	write(t, path, []byte("no module"))
	rejected(3)
	rejected(3)
}
