package plugins

import (
	"errors"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
)

func TestUpload(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "in-folder.wasm"), bias(1).Wasm())
	inSpec := spec(t, "in-spec", bias(1).Wasm())
	s := open(t, Options{Specs: []Spec{inSpec}, Folder: dir})
	for _, name := range []string{"up-b", "up-a"} {
		st, err := s.Put(t.Context(), name, bias(2).Wasm(), Upload{})
		if err != nil || st.Name != name || st.Source != "upload" || st.State != StateActive || st.Stats.Loads != 1 {
			t.Fatalf("%+v, %v", st, err)
		}
	}
	old := s.names["up-a"].current
	st, err := s.Put(t.Context(), "up-a", bias(3).Wasm(), Upload{OnError: OnErrorSkip, Apply: ApplyAlways,
		Config: []byte(`{"x":1}`)})
	if err != nil || st.OnError != OnErrorSkip || st.Apply != ApplyAlways || st.Stats.Loads != 2 {
		t.Fatalf("%+v, %v", st, err)
	}
	if n := old.refs.Load(); n != 0 {
		t.Errorf("%d references to the version that was replaced", n)
	}
	if x, err := once(s, Call{Name: "in-spec"}); err != nil || x[5] != 4 {
		t.Errorf("logit %v, %v", x[5], err)
	}
	var got []string
	for _, st := range s.List() {
		got = append(got, st.Name)
	}
	if want := []string{"in-spec", "in-folder", "up-a", "up-b"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	reload(t, s, []Spec{inSpec}, nil, []string{"in-spec", "in-folder"}, nil, nil)
	taken := spec(t, "up-b", bias(7).Wasm())
	reload(t, s, []Spec{inSpec, taken}, []string{"up-b"}, []string{"in-spec", "in-folder"}, nil, nil)
	if err := s.Delete("up-b"); !errors.Is(err, ErrConfigured) {
		t.Errorf("Delete of what a spec took over: %v", err)
	}
	if err := s.Delete("up-a"); err != nil {
		t.Error(err)
	}
	if _, ok := s.Get("up-a"); ok {
		t.Error("it is still there")
	}
	if err := s.Delete("up-a"); !errors.Is(err, ErrUnknown) {
		t.Errorf("second Delete: %v", err)
	}
}

func TestUploadRefusals(t *testing.T) {
	dir := t.TempDir()
	inFolder := filepath.Join(dir, "in-folder.wasm")
	write(t, inFolder, bias(1).Wasm())
	inSpec := spec(t, "in-spec", bias(1).Wasm())
	s := open(t, Options{Specs: []Spec{inSpec}, Folder: dir})
	good := bias(2).Wasm()
	if _, err := s.Put(t.Context(), "up", good, Upload{}); err != nil {
		t.Fatal(err)
	}
	trap := guesttest.Fake{Code: map[string]guesttest.Code{"tgi_logits_process": guesttest.Trap()}}.Wasm()
	for _, c := range []struct {
		name string
		wasm []byte
		u    Upload
		kind error
		text string
	}{
		{"Up", good, Upload{}, ErrSpec, `name "Up"`},
		{"auto", good, Upload{}, ErrSpec, `name "auto" is reserved`},
		{"none", good, Upload{}, ErrSpec, `name "none" is reserved`},
		{"up", good, Upload{Apply: "x", OnError: "y", Config: []byte("1")}, ErrSpec, `apply "x"`},
		{"up", good, Upload{Limits: Limits{Memory: 1}}, ErrLoad, "memory: 1 is not from"},
		{"up", trap, Upload{}, ErrLoad, "up: tgi_logits_process: trap"},
		{"up", nil, Upload{}, ErrLoad, "up: module"},
		{"in-spec", good, Upload{}, ErrConfigured, `in the server's settings, with source "` + inSpec.Source},
		{"in-folder", good, Upload{}, ErrConfigured, `as file "` + inFolder},
	} {
		if _, err := s.Put(t.Context(), c.name, c.wasm, c.u); !errors.Is(err, c.kind) ||
			!strings.Contains(err.Error(), c.text) {
			t.Errorf("%s: %v, want %v with %q", c.name, err, c.kind, c.text)
		}
	}
	for name, want := range map[string]string{"in-spec": inSpec.Source, "in-folder": inFolder} {
		if err := s.Delete(name); !errors.Is(err, ErrConfigured) || !strings.Contains(err.Error(), want) {
			t.Errorf("Delete of %s: %v", name, err)
		}
	}
	if logit(t, s, "up") != 2 || len(s.List()) != 3 {
		t.Error("a refused upload changed something")
	}
}
