package plugins

import (
	"errors"
	"log/slog"
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

// TestUploadWaits: an upload whose name a spec takes waits, and serves again with its settings when the spec is gone,
// in the same step; where it can't, the spec's version does not answer for it. It goes before a file of its name.
func TestUploadWaits(t *testing.T) {
	dir := t.TempDir()
	kept := map[string]*Kept{}
	log := &logLines{}
	s := open(t, Options{Folder: dir, Kept: func(name string) *Kept { return kept[name] },
		Log: slog.New(slog.NewTextHandler(log, nil))})
	put := func(name string, by float32) {
		t.Helper()
		k := &Kept{Upload: Upload{Apply: ApplyAlways, Config: []byte(`{"x":1}`)}, Wasm: bias(by).Wasm()}
		if _, err := s.Put(t.Context(), name, k.Wasm, k.Upload); err != nil {
			t.Fatal(err)
		}
		kept[name] = k
	}
	put("up", 2)
	put("other", 8)
	of := spec(t, "up", bias(3).Wasm())
	all := func(want float32) {
		t.Helper()
		if x, err := once(s); err != nil || x[5] != want {
			t.Errorf("logit %v, %v, want %v", x[5], err, want)
		}
	}
	all(10)
	reload(t, s, []Spec{of}, []string{"up"}, nil, nil, nil)
	all(8)
	if _, err := s.Put(t.Context(), "up", bias(7).Wasm(), Upload{}); !errors.Is(err, ErrConfigured) {
		t.Errorf("Put of what a spec took over: %v", err)
	}
	write(t, filepath.Join(dir, "up.wasm"), bias(9).Wasm())
	reload(t, s, nil, []string{"up"}, nil, nil, nil)
	all(10)
	if !strings.Contains(log.String(), "plugin file ignored: its name is taken") {
		t.Errorf("log %s", log)
	}
	if st, _ := s.Get("up"); st.Source != sourceUpload || st.Apply != ApplyAlways || st.Stats.Loads != 3 {
		t.Errorf("%+v", st)
	}
	if list := s.List(); len(list) != 2 || list[0].Name != "other" {
		t.Errorf("listed %+v", list)
	}

	// A spec that does not load leaves the upload serving, which goes on when it is gone.
	broken := of
	broken.Source += ".no"
	reload(t, s, []Spec{broken}, nil, nil, nil, []string{"up"})
	all(10)
	reload(t, s, nil, nil, []string{"up"}, nil, nil)
	all(10)

	// An upload that can't be used any more is listed and lets nothing through.
	reload(t, s, []Spec{of}, []string{"up"}, nil, nil, nil)
	kept["up"].Err = errors.New("its signer is gone")
	old := s.names["up"].current
	reload(t, s, nil, nil, nil, nil, []string{"up"})
	if _, err := once(s); err == nil || !strings.Contains(err.Error(), "up: could not be loaded: its signer is gone") {
		t.Errorf("without the upload: %v", err)
	}
	if n := old.refs.Load(); n != 0 {
		t.Errorf("%d references to what the spec had", n)
	}
	if err := s.Delete("up"); err != nil {
		t.Error(err)
	}
	all(8)

	// At the start there is a file of the name of an upload that comes later.
	s = open(t, Options{Folder: dir, Kept: func(name string) *Kept { return kept[name] }})
	if st, ok := s.Get("up"); ok {
		t.Errorf("the file has the name: %+v", st)
	}
}
