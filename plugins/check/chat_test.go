package check

import (
	"strings"
	"testing"

	"tgi/plugins/internal/testcache"
	"tgi/sdk/abi"
)

// chat returns a guest that renders every conversation as nothing and says nothing of any text, with one thing changed.
func chat(change func(a *assembly)) []byte {
	a := noop()
	for _, f := range abi.Logits {
		a.drop(f.Name)
	}
	a.describe(`{"name":"chat","version":"1.0.0","kinds":["template","tools"]}`)
	code := map[string][]byte{
		"tgi_template_render": join([]byte{0x41}, signed(noopHeap-64)), // a result of zeros
		"tgi_tools_begin":     {0x42, 0}, "tgi_tools_feed": {0x42, 0}, "tgi_tools_finish": {0x42, 0},
	}
	for _, list := range [][]abi.Func{abi.Template, abi.Tools} {
		for _, f := range list {
			a.funcs = append(a.funcs, exported{f, code[f.Name]})
		}
	}
	change(&a)
	return a.encode()
}

func TestChatSound(t *testing.T) {
	r, err := Run(t.Context(), "chat", chat(func(*assembly) {}), Options{CacheDir: testcache.Dir()})
	if err != nil || !r.Sound() || r.Summary.Memory != noopPages*pageBytes ||
		strings.Join(r.Summary.Kinds, " ") != "template tools" {
		t.Errorf("report %+v, %v", r, err)
	}
}

func TestChatBroken(t *testing.T) {
	spinning := func(name string) func(*assembly) {
		return func(a *assembly) { a.export(name).code = forever }
	}
	packed := func(name string, v uint64) func(*assembly) {
		return func(a *assembly) { a.export(name).code = join([]byte{0x42}, signed(int64(v))) }
	}
	for _, c := range []struct {
		change      func(*assembly)
		rule, found string
	}{
		{func(a *assembly) { a.drop("tgi_tools_feed") }, "export", "tgi_tools_feed(i32, i32, i32) -> i64 is missing"},
		{func(a *assembly) { a.drop("tgi_template_render") }, "registered",
			`kind "template" is described and not registered`},
		{func(a *assembly) { a.export("tgi_template_render").Params = i32 }, "export",
			"tgi_template_render(i32) -> i32, want tgi_template_render(i32, i32) -> i32"},
		{spinning("tgi_template_render"), "trap", "tgi_template_render: out of fuel: budget 4000000"},
		{spinning("tgi_tools_begin"), "trap", "tgi_tools_begin: out of fuel: budget 4000000"},
		{spinning("tgi_tools_feed"), "trap", "tgi_tools_feed: out of fuel: budget 2000000"},
		{spinning("tgi_tools_finish"), "trap", "tgi_tools_finish: out of fuel: budget 4000000"},
		{func(a *assembly) { a.export("tgi_template_render").code = []byte{0x41, 2} }, "rendered", "result at 0x2"},
		{func(a *assembly) {
			a.funcs = append(a.funcs, exported{abi.ToolsOptional[0], []byte{0x41, 2}})
		}, "constraint", "result at 0x2"},
		{func(a *assembly) { a.funcs = append(a.funcs, exported{abi.ToolsOptional[0], forever}) }, "trap",
			"tgi_tools_constraint: out of fuel: budget 4000000"},
		{packed("tgi_tools_feed", abi.Pack(0x7ffffff0, 3)), "events", "tgi_tools_feed: 3 at 0x7ffffff0"},
		{packed("tgi_tools_finish", abi.Pack(1, 1)), "events", "tgi_tools_finish: 1 at 0x1"},
	} {
		r, err := Run(t.Context(), "chat", chat(c.change), Options{CacheDir: testcache.Dir(),
			Limits: Limits{FuelPerStep: 1_000_000, FuelPerRequest: 4_000_000}})
		if err != nil {
			t.Fatal(err)
		}
		told := false
		for _, v := range r.Violations {
			told = told || v.Rule == c.rule && strings.HasPrefix(v.Found, c.found)
		}
		if !told {
			t.Errorf("want %s: %s, reported %+v", c.rule, c.found, r.Violations)
		}
	}
}

// TestChatLimits: what a module may have follows from its kinds, unless it is said.
func TestChatLimits(t *testing.T) {
	large := func(a *assembly) { a.pages = 100 << 20 / pageBytes; a.drop(abi.Marker) } // so that it is not run
	for _, c := range []struct {
		name, rule string
		wasm       []byte
		memory     int64
	}{
		{"conversations, by default", "marker", chat(large), 0}, {"conversations, as said", "module", chat(large),
			64 << 20},
		{"logits, by default", "module", with(large), 0}, {"logits, as said", "marker", with(large), 128 << 20},
	} {
		r, err := Run(t.Context(), "large", c.wasm, Options{CacheDir: testcache.Dir(),
			Limits: Limits{Memory: c.memory}})
		if err != nil || len(r.Violations) != 1 || r.Violations[0].Rule != c.rule {
			t.Errorf("%s: %+v, %v, want %s", c.name, r, err, c.rule)
		}
	}
	if _, err := Run(t.Context(), "chat", chat(func(*assembly) {}),
		Options{Limits: Limits{FuelLoad: -1}}); err == nil || !strings.Contains(err.Error(), "fuel at load: -1") {
		t.Errorf("negative fuel: %v", err)
	}
}

func TestBenchChat(t *testing.T) {
	r, err := Bench(t.Context(), "chat", chat(func(*assembly) {}), BenchOptions{Vocabulary: 600, Steps: 500,
		Params: []string{`{"a":1}`}})
	if err != nil || r.Runs[0].Fault != "" || r.Runs[0].Memory != noopPages*pageBytes || r.Runs[0].Grown != 0 {
		t.Fatalf("%+v, %v", r, err)
	}
	for name, want := range map[string]struct {
		count  int
		budget int64
	}{"render": {benchRenders, 5_000_000_000}, "begin of a text": {2, 5_000_000_000}, "finish": {2, 5_000_000_000},
		"feed": {500, 2_000_000}, "validate": {benchRenders, 5_000_000_000}} {
		if s := find(t, r.Runs[0].Calls, name); s.Count < want.count || s.Budget != want.budget {
			t.Errorf("%s: %+v, want %+v", name, s, want)
		}
	}
	for fault, wasm := range map[string][]byte{
		"chat: tgi_template_render: trap": chat(func(a *assembly) {
			a.export("tgi_template_render").code = trap
		}),
		"piece 0 of a text: chat: tgi_tools_feed: tr": chat(func(a *assembly) {
			a.export("tgi_tools_feed").code = trap
		}),
		"chat: tgi_tools_finish: trap": chat(func(a *assembly) {
			a.export("tgi_tools_finish").code = trap
		}),
	} {
		if r, err := Bench(t.Context(), "chat", wasm, BenchOptions{Vocabulary: 600, Steps: 5}); err != nil ||
			!strings.HasPrefix(r.Runs[0].Fault, fault) {
			t.Errorf("%+v, %v, want %q", r, err, fault)
		}
	}
}

// TestBenchText: the text is cut into pieces of which markers are whole, and comes back whole.
func TestBenchText(t *testing.T) {
	markers := 0
	all := ""
	for _, p := range benchText() {
		if p == "" || len(p) > 4 && p[0] != '<' || p[0] != '<' && strings.Contains(p, "<") {
			t.Errorf("piece %q", p)
		}
		if p[0] == '<' {
			markers++
		}
		all += p
	}
	if markers != 4 || !strings.HasPrefix(all, "<think>\nLet me") || !strings.HasSuffix(all, "}}\n</tool_call>") {
		t.Errorf("%d markers in %q", markers, all)
	}
}
