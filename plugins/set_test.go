package plugins

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// TestOpenGuestsOfTheSDKs installs the example guests of all languages, from files and built in, and looks at what is
// told of them.
func TestOpenGuestsOfTheSDKs(t *testing.T) {
	builtin := fstest.MapFS{}
	var specs []Spec
	sums := map[string]string{}
	for _, guest := range []string{"banned-and-boost", "epsilon-greedy", "every-mode"} {
		for lang, wasm := range guesttest.SDK(t, guest) {
			name := guest + "-" + lang
			sum := sha256.Sum256(wasm)
			sums[name] = hex.EncodeToString(sum[:])
			sp := Spec{Name: name, Source: Builtin + name, SHA256: strings.ToUpper(sums[name])}
			if lang == "c" {
				sp.Source = file(t, name, wasm)
			} else {
				builtin[name+".wasm"] = &fstest.MapFile{Data: wasm}
			}
			specs = append(specs, sp)
		}
	}
	s := open(t, Options{Specs: specs, Builtin: builtin})
	list := s.List()
	if len(list) != len(specs) || len(list) < 11 {
		t.Fatalf("%d plugins of %d", len(list), len(specs))
	}
	for i, st := range list {
		if st.Name != specs[i].Name || st.State != StateActive || st.Error != "" || st.SHA256 != sums[st.Name] ||
			st.Source != specs[i].Source ||
			st.Version != "1.0.0" || st.Doc == "" || st.OnError != OnErrorFail || st.Apply != ApplyRequest ||
			st.Loaded.IsZero() || st.Stats.Loads != 1 || st.Stats.Calls != 0 {
			t.Errorf("plugin %d: %+v", i, st)
		}
		want := map[string][]string{"banned": {abi.KindLogits}, "epsilon": {abi.KindSampler}, "every": {abi.KindLogits,
			abi.KindSampler}}[strings.SplitN(st.Name, "-", 2)[0]]
		if !slices.Equal(st.Kinds, want) {
			t.Errorf("%s: kinds %q, want %q", st.Name, st.Kinds, want)
		}
	}
	if st, ok := s.Get("epsilon-greedy-c"); !ok || !strings.Contains(string(st.Params), `"epsilon"`) {
		t.Errorf("Get: %v %s", ok, st.Params)
	}
	if _, ok := s.Get("nobody"); ok {
		t.Error("Get found a plugin that there is not")
	}
}

func TestOpenNamesAllBadSettings(t *testing.T) {
	_, err := Open(t.Context(), options(t, Options{Specs: []Spec{
		{Name: "Upper", Source: "a.wasm"},
		{Name: "twice", Source: "a.wasm"},
		{Name: "twice", Source: "a.wasm"},
		{Name: "no-source"},
		{Name: "kind", Source: "a.wasm", Kind: "other"},
		{Name: "pin", Source: "a.wasm", SHA256: "abc"},
		{Name: "on-error", Source: "a.wasm", OnError: "ignore"},
		{Name: "apply", Source: "a.wasm", Apply: "never"},
		{Name: "config", Source: "a.wasm", Config: []byte("[]")},
		{Name: "inside", Source: Builtin + "x"},
	}}))
	if !errors.Is(err, ErrSpec) {
		t.Fatalf("error %v, want one that matches ErrSpec", err)
	}
	for _, want := range []string{`name "Upper"`, `plugin 2 has the name of plugin 1: "twice"`,
		`("no-source"): source is missing`, `kind "other"`,
		`sha256 "abc"`, `on_error "ignore"`, `apply "never"`, "config is not a JSON object",
		`source "builtin:x": nothing is built in`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
}

// TestOpenRefusesModules: each bad module is named with its export and cause, all in one error, and nothing stays open.
func TestOpenRefusesModules(t *testing.T) {
	good := bias(1).Wasm()
	sum := sha256.Sum256(good)
	steps := func(code guesttest.Code) guesttest.Fake {
		return guesttest.Fake{Description: guesttest.Ahead, Code: map[string]guesttest.Code{"tgi_logits_process": code}}
	}
	second := steps(guesttest.Join(guesttest.Load(guesttest.Free), guesttest.When(guesttest.Trap()),
		guesttest.Store(guesttest.Free, 1), guesttest.Const(0)))
	specs := []Spec{
		{Name: "missing", Source: filepath.Join(t.TempDir(), "none.wasm")},
		spec(t, "text", []byte("hello")),
		spec(t, "dropped", guesttest.Fake{Drop: []string{"tgi_validate"}}.Wasm()),
		{Name: "pinned", Source: file(t, "pinned", good), SHA256: strings.Repeat("0", 64)},
		{Name: "kind", Source: file(t, "kind", good), Kind: abi.KindSampler},
		spec(t, "traps", steps(guesttest.Trap()).Wasm()),
		spec(t, "traps-second", second.Wasm()),
		spec(t, "traps-begin",
			guesttest.Fake{Code: map[string]guesttest.Code{"tgi_logits_begin": guesttest.Trap()}}.Wasm()),
		spec(t, "traps-validate",
			guesttest.Fake{Code: map[string]guesttest.Code{"tgi_validate": guesttest.Trap()}}.Wasm()),
		spec(t, "spins", steps(guesttest.Spin()).Wasm()),
		spec(t, "index", guesttest.Fake{Description: guesttest.Both,
			Code: map[string]guesttest.Code{"tgi_sampler_sample": guesttest.Const(99)}}.Wasm()),
		{Name: "init", Source: file(t, "init", guesttest.Fake{Data: map[uint32]string{guesttest.Free: "n is missing"},
			Code: map[string]guesttest.Code{"tgi_init": guesttest.Long(abi.Pack(guesttest.Free, 12))}}.Wasm())},
		{Name: "always", Source: file(t, "always", obligatory()), Apply: ApplyAlways},
		spec(t, "fine", good),
	}
	_, err := Open(t.Context(), options(t, Options{Specs: specs}))
	if !errors.Is(err, ErrLoad) {
		t.Fatalf("error %v, want one that matches ErrLoad", err)
	}
	for _, want := range []string{
		"missing: open", "text: module", `dropped: export "tgi_validate" is missing`,
		fmt.Sprintf("has sha256 %x, the settings want %s", sum, strings.Repeat("0", 64)),
		`kind "sampler" is wanted, the module serves ["logits"]`, "traps: tgi_logits_process: trap",
		"traps-second: tgi_logits_process: trap",
		"traps-begin: tgi_logits_begin: trap", "traps-validate: tgi_validate: trap",
		"spins: tgi_logits_process: out of fuel",
		"index: tgi_sampler_sample", "init: n is missing",
		"always: apply is \"always\", but the plugin refuses a request without parameters: say what",
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("no %q in:\n%v", want, err)
		}
	}
	if strings.Contains(err.Error(), "fine") {
		t.Errorf("a good plugin is named in:\n%v", err)
	}
}

// obligatory is a guest that refuses {}.
func obligatory() []byte {
	return guesttest.Fake{Data: map[uint32]string{guesttest.Free: "say what"}, Code: map[string]guesttest.Code{
		"tgi_validate": guesttest.Join(guesttest.Arg(1), guesttest.Const(2), guesttest.Equal(),
			guesttest.When(guesttest.Join(guesttest.Long(abi.Pack(guesttest.Free, 8)), guesttest.Code{0x0f})),
			guesttest.Long(0)),
	}}.Wasm()
}

// TestOpenFolder: good files are plugins, bad ones are listed and logged, and neither stops the start.
func TestOpenFolder(t *testing.T) {
	dir := t.TempDir()
	write(t, filepath.Join(dir, "good.wasm"), bias(1).Wasm())
	write(t, filepath.Join(dir, "bad.wasm"), []byte("\x00asm"))
	write(t, filepath.Join(dir, "Bad Name.wasm"), bias(1).Wasm())
	write(t, filepath.Join(dir, ".half.wasm"), nil)
	write(t, filepath.Join(dir, "readme.txt"), nil)
	write(t, filepath.Join(dir, "taken.wasm"), []byte("never read"))
	if err := os.Mkdir(filepath.Join(dir, "folder.wasm"), 0o700); err != nil {
		t.Fatal(err)
	}
	s := open(t, Options{Folder: dir, Specs: []Spec{spec(t, "taken", bias(1).Wasm())}})
	var got []string
	for _, st := range s.List() {
		got = append(got, st.Name+" "+string(st.State))
		if (st.State == StateFailed) != (st.Error != "") {
			t.Errorf("%s: state %s, error %q", st.Name, st.State, st.Error)
		}
	}
	if want := []string{"taken active", "Bad Name failed", "bad failed", "good active"}; !slices.Equal(got, want) {
		t.Errorf("listed %q, want %q", got, want)
	}
	if _, err := once(s, Call{Name: "bad"}); !errors.Is(err, ErrOff) {
		t.Errorf("bound to a plugin that failed: %v", err)
	}
	if x, err := once(s, Call{Name: "good"}); err != nil || x[5] != 1 {
		t.Errorf("logit %v, %v", x, err)
	}
}

func TestOpenCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Open(ctx, options(t, Options{Specs: []Spec{spec(t, "a", bias(1).Wasm())}})); !errors.Is(err,
		context.Canceled) {
		t.Errorf("error %v", err)
	}
}

func TestClosed(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", bias(1).Wasm())}})
	s.Close()
	s.Close()
	if _, err := s.Bind(t.Context(), []Call{{Name: "a"}}); !errors.Is(err, ErrClosed) {
		t.Errorf("Bind: %v", err)
	}
	if _, err := s.Reload(t.Context(), nil); !errors.Is(err, ErrClosed) {
		t.Errorf("Reload: %v", err)
	}
	if _, err := s.Put(t.Context(), "b", nil, Upload{}); !errors.Is(err, ErrClosed) {
		t.Errorf("Put: %v", err)
	}
	if err := s.Delete("a"); !errors.Is(err, ErrClosed) {
		t.Errorf("Delete: %v", err)
	}
}
