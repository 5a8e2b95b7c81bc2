package guest_test

import (
	"errors"
	"fmt"
	"os"
	"strings"
	"testing"
	"testing/synctest"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// load loads a fake with the kit's vocabulary and closes it at the test's end.
func load(t *testing.T, f guesttest.Fake) (*guest.Guest, error) {
	t.Helper()
	return loadWith(t, guest.Config{Wasm: f.Wasm()})
}

func loadWith(t *testing.T, c guest.Config) (*guest.Guest, error) {
	t.Helper()
	if c.Name == "" {
		c.Name = "fake"
	}
	if c.Vocabulary == nil {
		c.Vocabulary = guesttest.NewWords()
	}
	g, err := guest.Load(t.Context(), guesttest.Engine(t), c)
	if err == nil {
		t.Cleanup(func() {
			g.Close()
			<-g.Drained()
		})
	}
	return g, err
}

func TestLoadNamesAllThatIsWrongAtOnce(t *testing.T) {
	_, err := load(t, guesttest.Fake{
		Drop: []string{abi.Marker, "tgi_validate", "tgi_logits_process"},
		Extra: []abi.Func{
			{Name: "tgi_init", Params: []abi.Type{abi.I32}, Results: []abi.Type{abi.I64}},
			{Name: "tgi_logit_begin"},
		},
		HideMemory: true,
	})
	if !errors.Is(err, sandbox.ErrExport) {
		t.Fatalf("%v does not match ErrExport", err)
	}
	for _, want := range []string{
		`"tgi_abi_v1" is missing, a function () -> () wanted`,
		`"tgi_validate" is missing, a function (i32 i32) -> (i64) wanted`,
		`"tgi_init" is a function (i32) -> (i64), (i32 i32) -> (i64) wanted`,
		`"tgi_logits_process" is missing, a function (i32) -> (i32) wanted`,
		`"tgi_logit_begin" is not part of version 1`,
		`"memory" is missing, a memory wanted`,
	} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestLoadDescription(t *testing.T) {
	for text, want := range map[string]string{
		`{"name":"a","version":"1\u001b[2J","kinds":["logits"]}`:                       `version "1\x1b[2J" is not up to 128 bytes`,
		`{"name":"a\u202e","kinds":["logits"]}`:                                        `name "a\u202e" is not up to 128 bytes`,
		`{"name":"a","version":"` + strings.Repeat("1", 129) + `","kinds":["logits"]}`: "is not up to 128 bytes",
		`{"name":"x","kinds":["logits"],"revision":99}`: "needs revision 99 of version 1 of the contract, and " +
			"this host has revision 2: it needs a newer host",
		`{"name":"x","kinds":["logits"],"revision":1}`:               "",
		`{"name":"x","kinds":["logits"]}`:                            "",
		`{"name":"x","kinds":["logits"],"unknown":[1]}`:              "",
		`{"name":"x","kinds":["logits"],"needs":["topk:4096"]}`:      "",
		`{"name":"a","name":"b","kinds":["logits"]}`:                 `member "name" is there twice`,
		`{"name":"a","kinds":["logits"],"Kinds":["logits"]}`:         `member "Kinds" is there twice`,
		`{"name":"a","kinds":["logits"],"kindſ":["logits"]}`:         `member "kindſ" is there twice`,
		`{"name":"a","kinds":["logits","logits"]}`:                   `kind "logits" is there twice`,
		`{"name":"a","kinds":["logits"],"modes":["ban","ban"]}`:      `mode "ban" is there twice`,
		`{"name":"a","kinds":["logits"],"needs":["row","row"]}`:      `need "row" is there twice`,
		`{"name":"a","kinds":["grammar"],"languages":["a","b","a"]}`: `language "a" is there twice`,
		`{"name":"a","kinds":["guard"],"guard":{"hold":1,"verdicts":["stop","stop"]}}`: `guard: verdict "stop" is ` +
			`there twice`,
		`not JSON`:                      "invalid character",
		`[]`:                            "cannot unmarshal array",
		`{"name":7,"kinds":["logits"]}`: "cannot unmarshal number",
		`{"kinds":["logits"]}`:          "name is missing",
		`{"name":"x"}`:                  "no kind is registered",
		`{"name":"x","kinds":["other","logits"]}`:                    `kind "other" is not one`,
		`{"name":"x","kinds":["grammar","logits"]}`:                  `0 languages are not from 1 to 64`,
		`{"name":"x","kinds":["grammar","logits"],"languages":[""]}`: `language "" has not from 1 to 64 bytes`,
		`{"name":"x","kinds":["logits"],"modes":["steps"]}`:          `mode "steps" is for kind "grammar"`,
		`{"name":"x","kinds":["logits"],"modes":["ban"]}`:            `mode "ban" is not one`,
		`{"name":"x","kinds":["logits"],"modes":["row"]}`:            `mode "row" wants "row"`,
		`{"name":"x","kinds":["logits"],"modes":["topk"]}`:           `mode "topk" wants "topk:N"`,
		`{"name":"x","kinds":["logits"],"needs":["topk:0"]}`:         `need "topk:0"`,
		`{"name":"x","kinds":["logits"],"needs":["topk:4097"]}`:      `need "topk:4097"`,
		`{"name":"x","kinds":["logits"],"needs":["topk:-1"]}`:        `need "topk:-1"`,
		`{"name":"x","kinds":["logits"],"needs":["topk"]}`:           `need "topk"`,
		`{"name":"x","kinds":["logits"],"candidates":65537}`:         "candidates 65537",
		`{"name":"x","kinds":["logits"],"candidates":-1}`:            "candidates -1",
		`{"name":"x","kinds":["logits"],"doc":"` + strings.Repeat("x",
			65536): "text of 65574 bytes, the limit is 65536",
		`{"name":"sampler","kinds":["sampler"]}`: `tgi_logits_step is exported, but kinds lacks "logits"`,
	} {
		f := guesttest.Fake{Description: text, Data: map[uint32]string{}}
		if len(text) > guesttest.Free-guesttest.TextAt {
			f.Code = map[string]guesttest.Code{"tgi_describe": guesttest.Long(abi.Pack(0x20000, uint32(len(text))))}
			f.Data[0x20000], f.Description = text, "{}"
		}
		_, err := load(t, f)
		switch {
		case want == "" && err != nil:
			t.Errorf("%.60s: %v", text, err)
		case want == "":
		case err == nil || !strings.Contains(err.Error(), want):
			t.Errorf("%.60s: %v, want %q", text, err, want)
		case !errors.Is(err, guest.ErrDescription) && !errors.Is(err, sandbox.ErrResult):
			t.Errorf("%.60s: %v matches no sentinel", text, err)
		}
	}
}

func TestDescriptionOfBothKinds(t *testing.T) {
	g, err := load(t, guesttest.Fake{Description: guesttest.Both})
	if err != nil {
		t.Fatal(err)
	}
	d := g.Description()
	if !d.Serves(abi.KindLogits) || !d.Serves(abi.KindSampler) || d.Candidates != 8 || d.View != 0 || d.Row ||
		!d.Declares("deny") {
		t.Errorf("%+v", d)
	}
	if g.Sum() == [32]byte{} || g.Name() != "fake" || g.Limits().FuelPerStep != 2_000_000 {
		t.Errorf("sum %x, name %q, limits %+v", g.Sum(), g.Name(), g.Limits())
	}
}

// TestLoadFaults checks that every failure before the snapshot names the export.
func TestLoadFaults(t *testing.T) {
	text := func(at, n uint32) guesttest.Code { return guesttest.Long(abi.Pack(at, n)) }
	for name, c := range map[string]struct {
		fake guesttest.Fake
		kind error
		want string
	}{
		"trap in _initialize": {fake("_initialize", guesttest.Trap()), sandbox.ErrTrap,
			"fake: _initialize: trap: unreachable"},
		"trap in describe": {fake("tgi_describe", guesttest.Trap()), sandbox.ErrTrap,
			"fake: tgi_describe: trap: unreachable"},
		"endless describe": {fake("tgi_describe", guesttest.Spin()), sandbox.ErrFuel,
			"fake: tgi_describe: out of fuel: budget 10000000000"},
		"describe outside": {fake("tgi_describe", text(0xfffffff0, 32)), sandbox.ErrResult,
			"text of 32 bytes at 0xfffffff0, the memory has 1048576"},
		"no description": {fake("tgi_describe", text(0, 0)), guest.ErrDescription, "unexpected end of JSON input"},
		"no room": {fake("tgi_alloc", guesttest.Const(0)), sandbox.ErrResult,
			"fake: tgi_alloc: unusable result: no room of 32 bytes"},
		"room not aligned": {fake("tgi_alloc", guesttest.Const(0x8008)), sandbox.ErrResult,
			"address 0x8008 is not aligned to 16"},
		"room outside": {fake("tgi_alloc", guesttest.Const(0xfffffff0)), sandbox.ErrResult,
			"32 bytes at 0xfffffff0, the memory has"},
		"the same room": {fake("tgi_alloc", guesttest.Const(0x8000)), sandbox.ErrResult,
			"1036 bytes at 0x8000 lie in the 32 at 0x8000"},
		"trap in alloc": {fake("tgi_alloc", guesttest.Trap()), sandbox.ErrTrap, "fake: tgi_alloc: trap"},
		"step not aligned": {fake("tgi_logits_step", guesttest.Const(0x404)), sandbox.ErrResult,
			"fake: tgi_logits_step: unusable result: address 0x404"},
		"step outside": {fake("tgi_logits_step", guesttest.Const(0xfffffff0)), sandbox.ErrResult,
			"64 bytes at 0xfffffff0"},
		"trap in step": {fake("tgi_logits_step", guesttest.Trap()), sandbox.ErrTrap,
			"fake: tgi_logits_step: trap"},
		"trap in init": {fake("tgi_init", guesttest.Trap()), sandbox.ErrTrap, "fake: tgi_init: trap"},
		"init outside": {fake("tgi_init", text(0x100000, 1)), sandbox.ErrResult,
			"fake: tgi_init: unusable result: text of 1 bytes at 0x100000"},
		"huge init text": {fake("tgi_init", text(0xffff0000, 0xffffffff)), sandbox.ErrResult,
			"text of 4294967295 bytes"},
	} {
		t.Run(name, func(t *testing.T) {
			_, err := load(t, c.fake)
			if err == nil || !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) {
				t.Errorf("%v; want %v and %q", err, c.kind, c.want)
			}
		})
	}
}

// fake is a guest with one export replaced.
func fake(export string, code guesttest.Code) guesttest.Fake {
	f := guesttest.Fake{Code: map[string]guesttest.Code{export: code}}
	if export == abi.Initialize {
		f.Extra = []abi.Func{{Name: export}}
	}
	return f
}

func TestRefusals(t *testing.T) {
	long := strings.Repeat("no", 5000)
	for _, c := range []struct{ text, want string }{
		{"n must be positive", "n must be positive"},
		{"caf\xe9", "caf\uFFFD"},
		{long, long[:abi.MaxText]},
	} {
		f := guesttest.Fake{Data: map[uint32]string{0x20000: c.text}, Code: map[string]guesttest.Code{}}
		no := guesttest.Long(abi.Pack(0x20000, uint32(len(c.text))))
		var refusal *guest.Refusal
		f.Code["tgi_init"] = no
		if _, err := load(t, f); !errors.As(err, &refusal) || refusal.Text != c.want ||
			err.Error() != "fake: "+c.want {
			t.Errorf("init: %.60v", err)
		}
		f.Code = map[string]guesttest.Code{"tgi_validate": no, "tgi_logits_begin": no}
		g, err := load(t, f)
		if err != nil {
			t.Fatal(err)
		}
		if err := g.Validate(nil, nil); !errors.As(err, &refusal) || refusal.Text != c.want {
			t.Errorf("validate: %.60v", err)
		}
		if _, err := g.Begin(guest.Start{}); !errors.As(err, &refusal) || refusal.Text != c.want {
			t.Errorf("begin: %.60v", err)
		}
		if s := g.Stats(); s.Refusals != 2 || s.Faults.All() != 0 || s.Instances.Out != 0 ||
			s.Instances.Discarded != 0 {
			t.Errorf("%+v", s)
		}
	}
}

func TestValidateAndBeginFaults(t *testing.T) {
	g, err := load(t, guesttest.Fake{Code: map[string]guesttest.Code{
		"tgi_validate": guesttest.Trap(), "tgi_logits_begin": guesttest.Long(abi.Pack(0xffff0000, 1)),
	}})
	if err != nil {
		t.Fatal(err)
	}
	var fault *sandbox.Fault
	if err := g.Validate(nil, nil); !errors.As(err, &fault) || fault.Func != "tgi_validate" ||
		fault.Kind != sandbox.ErrTrap {
		t.Error(err)
	}
	if _, err := g.Begin(guest.Start{}); !errors.As(err, &fault) || fault.Func != "tgi_logits_begin" ||
		fault.Kind != sandbox.ErrResult {
		t.Error(err)
	}
	s := g.Stats()
	if s.Faults != (guest.Faults{Trap: 1, Result: 1}) || s.Calls != 2 || s.Nanoseconds == 0 ||
		s.Instances.Discarded != 2 {
		t.Errorf("%+v", s)
	}
}

func TestBeginRefusesKindsThatTheGuestLacks(t *testing.T) {
	g, err := load(t, guesttest.Fake{})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := g.Begin(guest.Start{Kinds: []string{abi.KindSampler}}); err == nil ||
		!strings.Contains(err.Error(), `"sampler"`) {
		t.Error(err)
	}
}

func TestLimits(t *testing.T) {
	wasm := fake("tgi_describe", guesttest.Spin()).Wasm()
	for want, l := range map[string]guest.Limits{
		"memory: 65535 is not from 65536":                   {Memory: 65535},
		"fuel per step: -1 is not from 1":                   {FuelPerStep: -1},
		"16 pages of memory, the limit is 1 (limits.memory": {Memory: 65536},
		"tgi_describe: out of fuel: budget 1":               {FuelLoad: 1},
		"fuel per request: 1125899906842625 is ":            {FuelPerRequest: 1<<50 + 1},
	} {
		if _, err := loadWith(t, guest.Config{Wasm: wasm, Limits: l}); err == nil ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%+v: %v, want %q", l, err, want)
		}
	}
}

// TestFuelOfLoad: all calls at load share their fuel, and a call may end a little beyond it. The error of the next one
// tells how much all had, and what they used.
func TestFuelOfLoad(t *testing.T) {
	wasm, err := os.ReadFile("../../std/wasm/no-repeat-ngram.wasm")
	if err != nil {
		t.Fatal(err)
	}
	calls := map[string]bool{}
	for fuel := int64(500); len(calls) < 2; fuel += fuel / 20 {
		_, err := loadWith(t, guest.Config{Wasm: wasm, Limits: guest.Limits{FuelLoad: fuel}})
		var f *sandbox.Fault
		if !errors.As(err, &f) || f.Kind != sandbox.ErrFuel || f.Budget != fuel || f.Used <= fuel ||
			!strings.Contains(err.Error(), fmt.Sprintf("out of fuel: budget %d, used %d (fuel_load)", fuel, f.Used)) {
			t.Fatalf("fuel %d: %v", fuel, err)
		}
		calls[f.Func] = true
	}
}

// TestFuelOfSteps: the same of what a sequence has at a step, until it has paid back what it used too much.
func TestFuelOfSteps(t *testing.T) {
	s := beginWith(t, guest.Config{Wasm: fake("tgi_logits_process", guesttest.Spin()).Wasm(),
		Limits: guest.Limits{FuelPerStep: 1000}}, guest.Start{})
	e := s.Entry(guest.Process)
	if err := e.Charge(2500); err == nil {
		t.Error("it had 1000 units")
	}
	e.Next()
	var f *sandbox.Fault
	if _, err := e.Call(); !errors.As(err, &f) || f.Budget != 2000 || f.Used <= 2500 {
		t.Error(err)
	}
}

func TestClose(t *testing.T) {
	g, err := load(t, guesttest.Fake{})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Begin(guest.Start{})
	if err != nil {
		t.Fatal(err)
	}
	g.Close()
	g.Close()
	select {
	case <-g.Drained():
		t.Fatal("drained while a sequence is running")
	default:
	}
	if _, err := g.Begin(guest.Start{}); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
	if err := g.Validate(nil, nil); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Entry(guest.Process).Call(guesttest.StepAt, 0); err != nil {
		t.Errorf("the running sequence: %v", err)
	}
	entry := s.Entry(guest.Process)
	s.Close()
	s.Close()
	<-g.Drained()
	if _, err := entry.Call(guesttest.StepAt, 0); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
	if _, err := s.Clone(1, nil); !errors.Is(err, sandbox.ErrClosed) {
		t.Error(err)
	}
}

// TestCloseLeavesNoGoroutine checks that Close ends all goroutines: a leak would deadlock the synctest bubble.
func TestCloseLeavesNoGoroutine(t *testing.T) {
	e := guesttest.Engine(t)
	for name, f := range map[string]guesttest.Fake{"sound": {}, "refused": fake("tgi_init",
		guesttest.Long(abi.Pack(guesttest.TextAt, 4)))} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				g, err := guest.Load(t.Context(), e, guest.Config{Name: "fake", Wasm: f.Wasm(),
					Vocabulary: guesttest.NewWords()})
				if err != nil {
					return
				}
				for range 10 {
					s, err := g.Begin(guest.Start{})
					if err != nil {
						t.Fatal(err)
					}
					defer s.Close()
				}
				g.Close()
			})
		})
	}
}

func TestMaxInstances(t *testing.T) {
	g, err := loadWith(t, guest.Config{Wasm: guesttest.Fake{}.Wasm(), MaxInstances: 1})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Begin(guest.Start{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := g.Validate(nil, nil); !errors.Is(err, sandbox.ErrBusy) {
		t.Error(err)
	}
}

func TestCancel(t *testing.T) {
	g, err := load(t, guesttest.Fake{Code: map[string]guesttest.Code{"tgi_validate": guesttest.Spin()}})
	if err != nil {
		t.Fatal(err)
	}
	cancel := make(chan struct{})
	close(cancel)
	if err := g.Validate(cancel, nil); !errors.Is(err, sandbox.ErrCancelled) {
		t.Error(err)
	}
	if f := g.Stats().Faults; f.Cancelled != 1 || f.All() != 0 {
		t.Errorf("%+v", f)
	}
}

// remember returns the number of earlier calls of begin, as an error text of that many bytes.
var remember = guesttest.Join(
	guesttest.Const(guesttest.Free), guesttest.Load(guesttest.Free), guesttest.Const(1), guesttest.Add(),
	guesttest.Put(),
	guesttest.Long(0x4100<<32-1), guesttest.Load(guesttest.Free), guesttest.Code{0xad, 0x7c}, // + extended
)

func TestSequencesStartFresh(t *testing.T) {
	g, err := load(t, guesttest.Fake{Code: map[string]guesttest.Code{"tgi_validate": remember}})
	if err != nil {
		t.Fatal(err)
	}
	for i := range 20 {
		if err := g.Validate(nil, nil); err != nil {
			t.Fatalf("call %d: the guest remembers the one before: %v", i, err)
		}
	}
}

// TestCodeIsReused checks that guests of the same module and memory limit share compiled code, whichever ends first,
// but no pool and so no state.
func TestCodeIsReused(t *testing.T) {
	config := guest.Config{Wasm: guesttest.Fake{}.Wasm()}
	first, err := loadWith(t, config)
	if err != nil {
		t.Fatal(err)
	}
	config.Like = first
	second, err := loadWith(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if !guest.SharesCode(first, second) {
		t.Error("the same module was compiled twice")
	}
	s, err := first.Begin(guest.Start{})
	if err != nil {
		t.Fatal(err)
	}
	if n := second.Stats().Instances.Out; n != 0 {
		t.Errorf("%d instances of the second are in use", n)
	}
	s.Close()
	first.Close()
	<-first.Drained()
	s, err = second.Begin(guest.Start{})
	if err != nil {
		t.Fatal("after the first was closed:", err)
	}
	s.Close()

	config.Like, config.Limits.Memory = second, 1<<20
	smaller, err := loadWith(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if guest.SharesCode(second, smaller) {
		t.Error("guests with different memory limits share code")
	}
	config = guest.Config{Wasm: guesttest.Fake{Description: guesttest.Ahead}.Wasm(), Like: second}
	other, err := loadWith(t, config)
	if err != nil {
		t.Fatal(err)
	}
	if guest.SharesCode(second, other) {
		t.Error("different modules share code")
	}
}
