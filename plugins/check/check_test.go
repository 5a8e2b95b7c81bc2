package check

import (
	"bytes"
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/testcache"
	"tgi/sdk/abi"
)

// TestGuestsOfTheSDKs holds the committed example guests of all four languages, as the sandbox runs them, to the
// contract of sdk/abi: rewritten, under the default fuel, from a snapshot, and cloned.
func TestGuestsOfTheSDKs(t *testing.T) {
	files, err := filepath.Glob(filepath.Join("..", "..", "sdk", "testdata", "guests", "*", "*.wasm"))
	if err != nil || len(files) < 8 {
		t.Fatalf("%d example guests, %v", len(files), err)
	}
	for _, file := range files {
		example := strings.TrimSuffix(filepath.Base(file), ".wasm")
		t.Run(filepath.Base(filepath.Dir(file))+"/"+example, func(t *testing.T) {
			cases, ok := kit.Examples[example]
			if !ok {
				cases, ok = kit.Programs[example]
			}
			if !ok {
				t.Fatal("the kit has no cases for it")
			}
			wasm, err := os.ReadFile(file)
			if err != nil {
				t.Fatal(err)
			}
			r, err := Run(t.Context(), example, wasm, Options{Cases: cases, CacheDir: testcache.Dir()})
			if err != nil {
				t.Fatal(err)
			}
			for _, v := range r.Violations {
				t.Errorf("%+v", v)
			}
			if s := r.Summary; s == nil || s.Name != example || len(s.Kinds) == 0 || s.Cases != len(cases) ||
				s.Memory == 0 ||
				!slices.Contains(s.Exports, "tgi_init(i32, i32) -> i64") {
				t.Errorf("summary %+v", s)
			}
		})
	}
}

// TestStages: of a module that takes seconds it is told what is done, of others nothing.
func TestStages(t *testing.T) {
	small := noop().encode()
	n := slowModule // of a section that says nothing: its size, a name without letters, and zeros
	section := binary.AppendUvarint([]byte{0}, uint64(n))
	large := append(slices.Concat(small, section), make([]byte, n)...)
	for _, wasm := range [][]byte{small, large} {
		var told []string
		r, err := Run(t.Context(), "noop", wasm, Options{CacheDir: testcache.Dir(),
			Stage: func(text string) { told = append(told, text) }})
		if err != nil || !r.Sound() {
			t.Fatal(r, err)
		}
		want := ""
		if len(wasm) > len(small) {
			want = fmt.Sprintf("compiling noop, 0.3 MB, trying noop with %d rules of the contract, loading noop with a "+
				"vocabulary of 128256 tokens, as a server does", len(Rules()))
		}
		if got := strings.Join(told, ", "); got != want {
			t.Errorf("told %s\nwant %s", got, want)
		}
	}
}

func TestNoop(t *testing.T) {
	r, err := Run(t.Context(), "noop", noop().encode(), Options{CacheDir: testcache.Dir()})
	if err != nil || !r.Sound() || r.Summary.Memory != noopPages*pageBytes {
		t.Errorf("report %+v, %v", r, err)
	}
}

// TestDefaultLimits: the defaults that are shown are those that hold.
func TestDefaultLimits(t *testing.T) {
	e, err := sandbox.New(sandbox.Config{CacheDir: testcache.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	g, err := guest.Load(t.Context(), e, guest.Config{Name: "noop", Wasm: noop().encode(),
		Vocabulary: newSynthetic(MinVocabulary)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	if g.Limits() != DefaultLimits() {
		t.Errorf("%+v, shown are %+v", g.Limits(), DefaultLimits())
	}
}

// with returns the guest that does nothing with one thing changed.
func with(change func(a *assembly)) []byte {
	a := noop()
	change(&a)
	return a.encode()
}

// export finds a function of a.
func (a *assembly) export(name string) *exported {
	i := slices.IndexFunc(a.funcs, func(f exported) bool { return f.Name == name })
	return &a.funcs[i]
}

func (a *assembly) drop(name string) {
	a.funcs = slices.DeleteFunc(a.funcs, func(f exported) bool { return f.Name == name })
}

func (a *assembly) describe(text string) {
	a.data = text
	a.export("tgi_describe").code = join([]byte{0x42}, signed(int64(abi.Pack(noopText, uint32(len(text))))))
}

var (
	trap    = []byte{0x00}
	forever = []byte{0x03, 0x40, 0x0c, 0, 0x0b, 0x00} // loop br 0 end unreachable
	i32     = []abi.Type{abi.I32}
)

// TestBrokenModules: each fault is named, with the export and the signature wanted where there is one, and faults that
// are there together are told together.
func TestBrokenModules(t *testing.T) {
	for name, c := range map[string]struct {
		wasm []byte
		want []string // "rule: found" or a part of it
	}{
		"not a module": {[]byte("#!/bin/sh\n"), []string{"module: offset 0x0: not a WebAssembly binary"}},
		"cut off":      {noop().encode()[:200], []string{"module: offset 0x"}},
		"invalid types": {with(func(a *assembly) { a.export("tgi_init").code = []byte{0x41, 0} }),
			[]string{"module: "}},
		"no marker": {with(func(a *assembly) { a.drop(abi.Marker) }),
			[]string{"marker: export tgi_abi_v1() -> () is missing"}},
		"no memory": {with(func(a *assembly) { a.memory = nil }), []string{"memory: there is none"}},
		"memory misspelt": {with(func(a *assembly) { a.memory = []string{"mem"}; a.drop("tgi_init") }),
			[]string{"memory: there is none", "export: tgi_init(i32, i32) -> i64 is missing"}},
		"missing export": {with(func(a *assembly) { a.drop("tgi_validate") }),
			[]string{"export: tgi_validate(i32, i32) -> i64 is missing"}},
		"two missing, one of the kind": {with(func(a *assembly) { a.drop("tgi_alloc"); a.drop("tgi_logits_step") }),
			[]string{"export: tgi_alloc(i32) -> i32 is missing", "export: tgi_logits_step() -> i32 is missing"}},
		"kind without exports": {with(func(a *assembly) { a.describe(`{"name":"x","kinds":["logits","sampler"]}`) }),
			[]string{`registered: kind "sampler" is described and not registered: none of its exports is there`}},
		"nothing of the kind logits, whose exports the kit calls first": {with(func(a *assembly) {
			for _, f := range abi.Logits {
				a.drop(f.Name)
			}
		}), []string{`registered: kind "logits" is described and not registered: none of its exports is there`}},
		"one export of the kind missing, the step room": {with(func(a *assembly) { a.drop("tgi_logits_step") }),
			[]string{"export: tgi_logits_step() -> i32 is missing"}},
		"wrong signature": {with(func(a *assembly) { a.export("tgi_init").Params = i32 }),
			[]string{"export: tgi_init(i32) -> i64, want tgi_init(i32, i32) -> i64"}},
		"wrong signature of the kind, and another": {with(func(a *assembly) {
			a.export("tgi_logits_process").Params = nil
			a.export("tgi_describe").Results, a.export("tgi_describe").code = i32, []byte{0x41, 0}
		}), []string{"export: tgi_logits_process() -> i32, want tgi_logits_process(i32) -> i32",
			"export: tgi_describe() -> i32, want tgi_describe() -> i64"}},
		"misspelt export": {with(func(a *assembly) { a.export("tgi_logits_process").Name = "tgi_logits_proces" }),
			[]string{"export-unknown: export tgi_logits_proces(i32) -> i32 is not part of version 1",
				"export: tgi_logits_process(i32) -> i32 is missing"}},
		"unknown imports, and a missing export": {with(func(a *assembly) {
			a.imports = []imported{{"env", abi.Func{Name: "abort", Params: i32}}, {"tgi", abi.Func{Name: "open"}}}
			a.drop("tgi_init")
			a.drop("tgi_logits_begin")
		}), []string{`import: import "env" "abort", a function (i32) -> (), is not offered`,
			`import: import "tgi" "open", a function () -> (), is not offered`,
			"export: tgi_init(i32, i32) -> i64 is missing",
			"export: tgi_logits_begin(i32, i32, i32, i32) -> i64 is missing"}},
		"import with another signature": {with(func(a *assembly) {
			a.imports = []imported{{"tgi", abi.Func{Name: "vocab_size", Params: i32, Results: i32}}}
		}),
			[]string{`import: import "tgi" "vocab_size" is a function (i32) -> (i32), () -> (i32) wanted`}},
		"socket of WASI's makers": {with(func(a *assembly) {
			a.imports = []imported{{abi.WASIModule, abi.Func{Name: "sock_open", Params: []abi.Type{abi.I32, abi.I32,
				abi.I32}, Results: i32}}}
		}), []string{`import: import "wasi_snapshot_preview1" "sock_open", a function (i32 i32 i32) -> (i32), is not offered`}},
		"_initialize takes an argument": {with(func(a *assembly) {
			a.funcs = append(a.funcs, exported{Func: abi.Func{Name: abi.Initialize, Params: i32}})
		}), []string{`export: export "_initialize" is a function (i32) -> (), () -> () wanted`}},
		"describe is no JSON": {with(func(a *assembly) { a.describe(`{"name":"x"`) }),
			[]string{`describe: unexpected end of JSON input in "{\"name\":\"x\""`}},
		"no kinds": {with(func(a *assembly) { a.describe(`{"name":"x"}`) }),
			[]string{"registered: no kind is registered"}},
		"unknown kind and mode": {with(func(a *assembly) {
			a.describe(`{"name":"x","kinds":["logits","logit"],"modes":["row"]}`)
		}),
			[]string{`describe-values: kind "logit"`, "describe-values: mode row without needs row"}},
		"trap in init": {with(func(a *assembly) { a.export("tgi_init").code = trap }),
			[]string{"trap: tgi_init: trap: unreachable"}},
		"endless validate": {with(func(a *assembly) { a.export("tgi_validate").code = forever }),
			[]string{"trap: tgi_validate: out of fuel: budget 50000000"}},
		"endless process": {with(func(a *assembly) { a.export("tgi_logits_process").code = forever }),
			[]string{"trap: tgi_logits_process: out of fuel: budget 4000000"}},
		"endless _initialize": {with(func(a *assembly) {
			a.funcs = append(a.funcs, exported{abi.Func{Name: abi.Initialize}, forever})
		}), []string{"trap: instantiation: ", "out of fuel"}},
		"what only the server sees": {with(func(a *assembly) { a.memory = append(a.memory, "tgi_memory") }),
			[]string{`load: plugin: export "tgi_memory" is not part of version 1`}},
		"hidden state": {tableWriter(), []string{"snapshot: "}},
	} {
		t.Run(name, func(t *testing.T) {
			r, err := Run(t.Context(), "plugin", c.wasm, Options{CacheDir: testcache.Dir(),
				Limits: Limits{FuelLoad: 50_000_000}})
			if err != nil {
				t.Fatal(err)
			}
			if r.Sound() || r.Summary != nil {
				t.Error("it is taken for sound")
			}
			var lines []string
			for _, v := range r.Violations {
				lines = append(lines, v.Rule+": "+v.Found)
				if v.Text == "" || v.Source == "" {
					t.Errorf("%+v does not say what must hold", v)
				}
			}
			got := strings.Join(lines, "\n")
			for _, want := range c.want {
				if !strings.Contains(got, want) {
					t.Errorf("not told: %s\ngot:\n%s", want, got)
				}
			}
			if len(c.want) > 0 && len(lines) > len(c.want)+2 {
				t.Errorf("%d lines for %d faults:\n%s", len(lines), len(c.want), got)
			}
		})
	}
}

// tableWriter keeps state in a table, where no snapshot reaches: table.set needs a table, which assembly has not.
func tableWriter() []byte {
	a := noop()
	a.export("tgi_logits_process").code = []byte{0x41, 0, 0xd0, 0x70, 0x26, 0, 0x41, 0}
	b := a.encode()
	i := strings.Index(string(b), string([]byte{5, 3, 1, 0, noopPages})) // the section of memory follows that of tables
	return join(b[:i], section(4, []byte{0x70, 0, 1}), b[i:])
}

func TestCases(t *testing.T) {
	refusing := with(func(a *assembly) {
		a.data = "n: want a number"
		a.describe(noopDescription + "n: want a number")
		a.export("tgi_describe").code = join([]byte{0x42},
			signed(int64(abi.Pack(noopText, uint32(len(noopDescription))))))
		text := join([]byte{0x42}, signed(int64(abi.Pack(noopText+uint32(len(noopDescription)), 16))))
		a.export("tgi_validate").code, a.export("tgi_logits_begin").code = text, text
	})
	r, err := Run(t.Context(), "plugin", refusing, Options{CacheDir: testcache.Dir(),
		Cases: []Case{{Params: `{"n":"x"}`}}})
	if err != nil || len(r.Violations) != 1 || r.Violations[0].Rule != "validate" ||
		r.Violations[0].Params != `{"n":"x"}` ||
		!strings.Contains(r.Violations[0].Found, "n: want a number") {
		t.Errorf("refused parameters: %+v, %v", r, err)
	}
	r, err = Run(t.Context(), "plugin", refusing, Options{CacheDir: testcache.Dir(),
		Cases: []Case{{Params: `{"n":"x"}`, Refused: true}}})
	if err != nil || !r.Sound() {
		t.Errorf("as expected: %+v, %v", r, err)
	}
}

func TestLimits(t *testing.T) {
	r, err := Run(t.Context(), "plugin", noop().encode(), Options{Limits: Limits{Memory: 1 << 19}})
	if err != nil || len(r.Violations) != 1 || r.Violations[0].Rule != "module" {
		t.Errorf("a memory of 1 MiB where half is allowed: %+v, %v", r, err)
	}
	// What steps leave unused is saved for one that needs more.
	hungry := func(loops byte) []byte {
		return with(func(a *assembly) {
			// Every eighth call runs the loop: global 0 counts calls here, for the heap is not used after begin.
			a.export("tgi_logits_process").code = join([]byte{0x23, 0, 0x41, 1, 0x6a, 0x24, 0},
				[]byte{0x23, 0, 0x41, 7, 0x71, 0x45, 0x04, 0x40}, // global & 7 == 0: if
				[]byte{0x41, loops, 0x24, 0, 0x03, 0x40, 0x23, 0, 0x41, 0x7f, 0x6a, 0x24, 0, 0x23, 0, 0x0d, 0, 0x0b},
				[]byte{0x0b, 0x41, 0})
		})
	}
	for _, c := range []struct {
		loops byte
		sound bool
	}{{32, true}, {63, false}} {
		r, err := Run(t.Context(), "plugin", hungry(c.loops), Options{CacheDir: testcache.Dir(),
			Limits: Limits{FuelPerStep: 60}})
		if err != nil || r.Sound() != c.sound {
			t.Errorf("%d loops every eighth step: %+v, %v", c.loops, r, err)
		}
	}
}

// TestLimitOfLoading: the fuel of loading is one budget for all calls until the snapshot.
func TestLimitOfLoading(t *testing.T) {
	// A loop of 60 rounds, counted in memory, about 600 fuel, then the function's own code.
	slow := func(code []byte) []byte {
		at := join([]byte{0x41}, signed(0x80))
		load := join(at, []byte{0x28, 2, 0})
		return join(at, []byte{0x41, 60, 0x36, 2, 0}, []byte{0x03, 0x40}, at, load, []byte{0x41, 0x7f, 0x6a, 0x36, 2,
			0}, load, []byte{0x0d, 0, 0x0b}, code)
	}
	wasm := with(func(a *assembly) {
		for _, name := range []string{"tgi_logits_step", "tgi_init"} { // the kit calls the first one twice
			a.export(name).code = slow(a.export(name).code)
		}
	})
	for _, c := range []struct {
		fuel  int64
		sound bool
	}{{1600, false}, {4000, true}} {
		r, err := Run(t.Context(), "plugin", wasm, Options{CacheDir: testcache.Dir(), Limits: Limits{FuelLoad: c.fuel}})
		if err != nil || r.Sound() != c.sound {
			t.Errorf("fuel %d: %+v, %v", c.fuel, r, err)
		}
		if !r.Sound() && !strings.Contains(r.Violations[0].Found, "tgi_init: out of fuel") {
			t.Errorf("fuel %d: %+v", c.fuel, r.Violations)
		}
	}
}

// TestLimitsOfKinds: calls of all kinds are held to the fuel that a request has for them, and not to that of loading.
func TestLimitsOfKinds(t *testing.T) {
	const counter = guesttest.Free
	slow := guesttest.Join(guesttest.Store(counter, 60), guesttest.Code{0x03, 0x40}, guesttest.Const(counter),
		guesttest.Load(counter), guesttest.Const(1), guesttest.Sub(), guesttest.Put(), guesttest.Load(counter),
		guesttest.Code{0x0d, 0, 0x0b}) // about 600 fuel
	alloc := guesttest.Join(guesttest.Arg(0), guesttest.Const(1<<18), guesttest.Code{0x4b}, // more than that: none
		guesttest.When(guesttest.Join(guesttest.Const(0), guesttest.Code{0x0f})),
		guesttest.Code{0x23, 0, 0x23, 0}, guesttest.Arg(0), guesttest.Const(15), guesttest.Add(),
		guesttest.Const(0xfffffff0), guesttest.Code{0x71}, guesttest.Add(), guesttest.Code{0x24, 0})
	releases := guesttest.Join(guesttest.Const(guesttest.StepAt+abi.GuardPosition),
		guesttest.Load(guesttest.StepAt+abi.GuardTokenCount), guesttest.Put(), guesttest.Const(0))
	const guard = `{"name":"fake","version":"1","kinds":["guard"],"guard":{"hold":4}}`
	const draft = `{"name":"fake","version":"1","kinds":["draft"]}`
	for _, c := range []struct {
		description, export string
		answer              guesttest.Code
	}{
		{guard, "tgi_guard_begin", guesttest.Long(0)}, {guard, "tgi_guard_check", releases},
		{draft, "tgi_draft_begin", guesttest.Long(0)}, {draft, "tgi_draft_propose", guesttest.Const(0)},
	} {
		f := guesttest.Fake{Description: c.description, Code: map[string]guesttest.Code{"tgi_alloc": alloc}}
		if c.description == guard {
			f.Code["tgi_guard_check"] = releases
		}
		f.Code[c.export] = guesttest.Join(slow, c.answer)
		for _, l := range []Limits{{}, {FuelPerStep: 60, FuelPerRequest: 400}} {
			r, err := Run(t.Context(), "fake", f.Wasm(), Options{CacheDir: testcache.Dir(), Limits: l})
			if err != nil {
				t.Fatal(err)
			}
			out := slices.ContainsFunc(r.Violations, func(v Violation) bool {
				return strings.Contains(v.Found, c.export+": out of fuel")
			})
			if out == (l == Limits{}) {
				t.Errorf("%s with %+v: %+v", c.export, l, r)
			}
		}
	}
}

// TestBudgets: each export that a server calls for a request is paid from the fuel of a step, or else of a request.
func TestBudgets(t *testing.T) {
	const steps, load = "process sample feed check propose accept mask forced key", "alloc describe init step"
	for _, kind := range append([]string{""}, kit.Kinds...) {
		list := slices.Concat(abi.Exports(kind), abi.Optional(kind))
		if kind == "" {
			list = abi.Common
		}
		if kind == abi.KindGrammar {
			list = append(list, abi.GrammarSteps...)
		}
		for _, f := range list {
			last := f.Name[strings.LastIndexByte(f.Name, '_')+1:]
			in := func(words string) bool { return slices.Contains(strings.Fields(words), last) }
			if guest.EachStep(f.Name) != in(steps) || guest.AtLoad(f.Name) != in(load) {
				t.Errorf("%s: each step %t, at load %t", f.Name, guest.EachStep(f.Name), guest.AtLoad(f.Name))
			}
		}
	}
}

// TestFullVocabulary: what is fine with the kit's 259 tokens is held to the limits with as many as models have.
func TestFullVocabulary(t *testing.T) {
	walks := with(func(a *assembly) {
		a.imports = []imported{{abi.ImportModule, abi.Func{Name: "vocab_size", Results: i32}}}
		// for n := vocab_size(); n > 0; n-- {}
		a.export("tgi_init").code = []byte{0x10, 0, 0x21, 0, 0x03, 0x40, 0x20, 0, 0x41, 0x7f, 0x6a, 0x22, 0, 0x0d, 0,
			0x0b, 0x42, 0}
	})
	r, err := Run(t.Context(), "plugin", walks, Options{CacheDir: testcache.Dir(), Limits: Limits{FuelLoad: 100_000}})
	if err != nil || len(r.Violations) != 1 || r.Violations[0].Rule != "load" ||
		!strings.Contains(r.Violations[0].Found, "tgi_init: out of fuel") {
		t.Errorf("%+v, %v", r, err)
	}
	if r, err = Run(t.Context(), "plugin", walks, Options{CacheDir: testcache.Dir()}); err != nil || !r.Sound() {
		t.Errorf("with the default: %+v, %v", r, err)
	}
}

func TestCancelled(t *testing.T) {
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	if _, err := Run(ctx, "plugin", noop().encode(), Options{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v", err)
	}
	file := filepath.Join(t.TempDir(), "file")
	if err := os.WriteFile(file, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := Run(t.Context(), "plugin", noop().encode(), Options{CacheDir: file}); err == nil {
		t.Error("a cache folder that is a file is accepted")
	}
}

// TestRules: every rule that a report names is in the list.
func TestRules(t *testing.T) {
	seen := map[string]bool{}
	for _, r := range Rules() {
		if seen[r.ID] || r.Text == "" || r.Source == "" {
			t.Errorf("rule %+v is there twice or empty", r)
		}
		seen[r.ID] = true
	}
	if !seen["module"] || !seen["snapshot"] || !seen["export"] {
		t.Error("a rule is missing")
	}
}

// TestLanguages: a source in a language that the plugin does not list is a mistake, not a source that nobody tries.
func TestLanguages(t *testing.T) {
	for _, c := range []struct {
		file, want string
		wasm       []byte
	}{
		{"grammar", `language "jsonschema": the plugin knows `, builtin(t, "grammar")},
		{"every-mode", `language "jsonschema": the plugin compiles no grammars`, committed(t, "c/every-mode")},
	} {
		cases := []Case{{Params: "{}", Sources: []Grammar{{Language: "jsonschema", Text: "{}"}}}}
		r, err := Run(t.Context(), c.file, c.wasm, Options{Cases: cases, CacheDir: testcache.Dir()})
		if _, ok := errors.AsType[*LanguageError](err); !ok || r != nil || !strings.HasPrefix(err.Error(), c.want) {
			t.Errorf("%s: got %+v, %v; want %s", c.file, r, err, c.want)
		}
	}
	_, err := Run(t.Context(), "grammar", builtin(t, "grammar"), Options{CacheDir: testcache.Dir(), Cases: []Case{
		{Params: "{}", Sources: []Grammar{{Language: "regex", Text: "a"}}},
	}})
	if err != nil {
		t.Errorf("a language that it has: %v", err)
	}
}

// TestBadSchema: a schema of parameters that the host could not check is found.
func TestBadSchema(t *testing.T) {
	wasm, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "guests", "c", "epsilon-greedy.wasm"))
	if err != nil {
		t.Fatal(err)
	}
	wasm = bytes.Replace(wasm, []byte(`"maximum"`), []byte(`"maximun"`), 1)
	r, err := Run(t.Context(), "fake", wasm, Options{CacheDir: testcache.Dir()})
	if err != nil || !slices.ContainsFunc(r.Violations, func(v Violation) bool {
		return strings.Contains(v.Found, `#/properties/epsilon: keyword "maximun" is none of those that parameters may use`)
	}) {
		t.Errorf("report %+v, %v", r, err)
	}
}
