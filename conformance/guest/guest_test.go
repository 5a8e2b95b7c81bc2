package guest_test

import (
	"errors"
	"math"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

func TestSoundGuest(t *testing.T) {
	for _, v := range guest.Run(sound(), guest.Case{}, guest.Case{Params: `{"bad":1}`, Refused: true}) {
		t.Error(v)
	}
}

// TestSoundAnswers: each mode in its proper form is accepted.
func TestSoundAnswers(t *testing.T) {
	for name, set := range map[string]func(*machine){
		"pass":    func(m *machine) {},
		"allow":   func(m *machine) { m.out(abi.ModeAllow, 2, 5, 258) },
		"sparse":  func(m *machine) { m.out(abi.ModeSparse, 2, 5, f32(1.5), 5, f32(math.Inf(-1))) },
		"only":    func(m *machine) { m.out(abi.ModeSparse, 1, 5, 0); m.set(abi.StepFlags, abi.FlagOnly) },
		"bitmask": func(m *machine) { m.out(abi.ModeBitmask, 9, 1<<5, 0, 0, 0, 0, 0, 0, 0, 4) },
		"view": func(m *machine) {
			m.set(abi.StepMode, abi.ModeView)
			m.set(abi.StepOut, m.field(abi.StepView))
			m.set(abi.StepOutCount, m.field(abi.StepViewCount))
		},
		"row": func(m *machine) {
			m.set(abi.StepMode, abi.ModeRow)
			m.set(abi.StepOut, m.field(abi.StepRow))
			m.set(abi.StepOutCount, m.field(abi.StepRowCount))
		},
		"temperature": func(m *machine) { m.set(abi.StepTemperature, f32(0.5)) },
		"stop":        func(m *machine) { m.out(abi.ModeAllow, 0); m.set(abi.StepFlags, abi.FlagStop) },
		"force": func(m *machine) {
			m.out(abi.ModePass, 0, 7, 8, 9)
			m.set(abi.StepForce, outAt)
			m.set(abi.StepForceCount, 3)
		},
	} {
		for _, v := range guest.Run(answering(set)) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

// broken lists guests with one fault each, by the rule that must name it.
func broken() map[string][]*fake {
	missing := func(name string) *fake {
		f := sound()
		f.exports = slices.DeleteFunc(f.exports, func(e abi.Func) bool { return e.Name == name })
		return f
	}
	exporting := func(e abi.Func) *fake { f := missing(e.Name); f.exports = append(f.exports, e); return f }
	importing := func(module string, i abi.Func) *fake {
		f := sound()
		f.imports = append(f.imports, guest.Import{Module: module, Func: i})
		return f
	}
	describing := func(s string) *fake { f := sound(); f.description = s; return f }
	changed := func(old, new string) *fake { return describing(strings.Replace(sound().description, old, new, 1)) }
	returning := func(name string, v uint64) *fake {
		return sound().with(name, func(*machine, []uint64) uint64 { return v })
	}
	trapping := func(name string) *fake {
		return sound().with(name, func(*machine, []uint64) uint64 { panic(errTrap) })
	}
	noLoad, noMemory := sound(), sound()
	noLoad.loadErr = errors.New("start traps")
	noMemory.noMemory = true
	return map[string][]*fake{
		"marker": {missing(abi.Marker)},
		"memory": {noMemory},
		"export": {missing("tgi_init"), missing("tgi_logits_step"), missing("tgi_sampler_sample"),
			exporting(abi.Func{Name: "tgi_init", Params: []abi.Type{abi.I32}, Results: []abi.Type{abi.I64}}),
			exporting(abi.Func{Name: "tgi_logits_process", Params: []abi.Type{abi.I64}, Results: []abi.Type{abi.I32}})},
		"export-unknown": {exporting(abi.Func{Name: "tgi_validat"}), changed(`"logits",`, ``)},
		"import": {importing("env", abi.Func{Name: "memcpy"}), importing("tgi", abi.Func{Name: "open"}),
			importing("tgi", abi.Func{Name: "vocab_size", Params: []abi.Type{abi.I32}})},
		"trap": {noLoad, trapping("tgi_describe"), trapping("tgi_alloc"), trapping("tgi_init"),
			trapping("tgi_validate"),
			trapping("tgi_logits_step"), trapping("tgi_logits_begin"), trapping("tgi_logits_process"),
			trapping("tgi_sampler_sample"),
			sound().with("tgi_validate", func(m *machine, args []uint64) uint64 {
				if m.params(args) == `{"a":` {
					panic(errTrap)
				}
				return m.refuses(args)
			})},
		"text": {returning("tgi_describe", abi.Pack(0xffffff00, 12)), describing("\xff"),
			describing(strings.Repeat(" ", abi.MaxDescription+1))},
		"describe":   {describing(""), describing("[]"), describing(`{"kinds":["logits"]}`)},
		"registered": {describing(`{"name":"x"}`), describing(`{"name":"x","kinds":["logits","template"]}`)},
		"describe-values": {changed(`"sampler"`, `"sampler","gramar"`), changed(`"stop"`, `"halt"`),
			changed(`topk:4`, `topk:0`), changed(`topk:4`, `topk:4097`),
			changed(`,"row"]`, `]`), changed(`"topk:4",`, ``), changed(`:8`, `:65537`), changed(`:8`, `:-1`)},
		"describe-same": {sound().with("tgi_describe", func(m *machine, _ []uint64) uint64 {
			m.reg[0]++
			return m.text(m.f.description[:len(m.f.description)-1] + `,"n":` + string(rune('0'+m.reg[0])) + "}")
		})},
		"alloc": {returning("tgi_alloc", 0), returning("tgi_alloc", 0x8000), returning("tgi_alloc", 0x7fffffff),
			returning("tgi_alloc", 0x8004),
			sound().with("tgi_alloc", func(m *machine, args []uint64) uint64 {
				m.top += uint32(args[0])
				return uint64(m.top)
			})},
		"alloc-none": {sound().with("tgi_alloc", func(m *machine, args []uint64) uint64 {
			if args[0] > 1<<20 {
				return 16
			}
			return sound().code["tgi_alloc"](m, args)
		})},
		"init": {sound().with("tgi_init", func(m *machine, _ []uint64) uint64 { return m.text("n: want a number") })},
		"validate": {sound().with("tgi_validate", func(m *machine, _ []uint64) uint64 { return m.text("no") }),
			returning("tgi_validate", 0)},
		"begin": {sound().with("tgi_logits_begin", func(m *machine, _ []uint64) uint64 { return m.text("no") }),
			returning("tgi_sampler_begin", 0)},
		"step-room": {returning("tgi_logits_step", 0), returning("tgi_logits_step", 0x1004),
			returning("tgi_logits_step", 0x7ffffff0), moving()},
		"status": {returning("tgi_logits_process", 2), sound().with("tgi_logits_process",
			func(m *machine, _ []uint64) uint64 {
				m.set(abi.StepOut, 0x7fffffff)
				m.set(abi.StepOutCount, 3)
				return 1
			}), returning("tgi_logits_process", 1)},
		"mode": {answering(func(m *machine) { m.out(7, 1, 3) }), changed(`"deny",`, ``)},
		"out": {answering(func(m *machine) { m.out(abi.ModeBitmask, 8) }), answering(func(m *machine) {
			m.out(abi.ModeRow, 1)
		}),
			answering(func(m *machine) { m.out(abi.ModeDeny, 0x40000000) }), answering(func(m *machine) {
				m.out(abi.ModeDeny, 1)
				m.set(abi.StepOut, outAt+2)
			}),
			answering(func(m *machine) { m.set(abi.StepForce, 0xfffffff0); m.set(abi.StepForceCount, 4) })},
		"id": {answering(func(m *machine) { m.out(abi.ModeDeny, 1, 259) }), answering(func(m *machine) {
			m.out(abi.ModeSparse, 1, 259, 0)
		})},
		"number": {answering(func(m *machine) { m.out(abi.ModeSparse, 1, 3, f32(math.NaN())) }),
			answering(func(m *machine) { m.out(abi.ModeView, 1, 3, f32(math.Inf(1))) })},
		"dead-end": {answering(func(m *machine) { m.out(abi.ModeAllow, 0) }), answering(func(m *machine) {
			m.out(abi.ModeBitmask, 9)
		}),
			answering(func(m *machine) { m.out(abi.ModeView, 0); m.set(abi.StepFlags, abi.FlagOnly) })},
		"flags": {answering(func(m *machine) { m.set(abi.StepFlags, 4) }), answering(func(m *machine) {
			m.out(abi.ModeDeny, 1, 3)
			m.set(abi.StepFlags, abi.FlagOnly)
		}),
			undeclared(`"stop",`, func(m *machine) { m.set(abi.StepFlags, abi.FlagStop) })},
		"temperature": {answering(func(m *machine) { m.set(abi.StepTemperature, f32(-1)) }),
			answering(func(m *machine) { m.set(abi.StepTemperature, f32(math.Inf(1))) }),
			undeclared(`,"temperature"`, func(m *machine) { m.set(abi.StepTemperature, f32(1)) })},
		"force": {answering(func(m *machine) { m.set(abi.StepForce, outAt); m.set(abi.StepForceCount, 257) }),
			answering(func(m *machine) {
				m.out(abi.ModePass, 0, 259)
				m.set(abi.StepForce, outAt)
				m.set(abi.StepForceCount, 1)
			}),
			undeclared(`"force",`, func(m *machine) { m.set(abi.StepForce, outAt); m.set(abi.StepForceCount, 1) })},
		"view-once": {answering(func(m *machine) { m.out(abi.ModeView, 2, 3, 0, 3, 0) })},
		"overrun": {answering(func(m *machine) { m.mem[m.field(abi.StepRow)+4*m.field(abi.StepRowCount)+63] = 0 }),
			sound().with("tgi_sampler_sample", func(m *machine, args []uint64) uint64 {
				m.mem[args[0]+8*12] = 0
				return 0
			})},
		"sampler-index": {returning("tgi_sampler_sample", 0xffffffff), sound().with("tgi_sampler_sample",
			func(_ *machine, args []uint64) uint64 { return args[1] })},
		"deterministic": {answering(func(m *machine) { *m.f.shared++; m.out(abi.ModeDeny, 1, *m.f.shared%200) })},
		"fresh":         {remembering()},
		"clone": {answering(func(m *machine) {
			*m.f.shared ^= 1 << (m.field(abi.StepTokenCount) % 32)
			m.out(abi.ModeDeny, 1, *m.f.shared>>17&1)
		})},
		"steady": {answering(func(m *machine) { m.mem = append(m.mem, make([]byte, pageSize)...) })},
	}
}

// moving is a guest whose step struct wanders.
func moving() *fake {
	return sound().with("tgi_logits_step", func(m *machine, _ []uint64) uint64 {
		m.reg[0] += 64
		return uint64(stepAt + m.reg[0])
	})
}

// undeclared answers with what its description leaves out.
func undeclared(name string, set func(*machine)) *fake {
	f := answering(set)
	f.description = strings.Replace(f.description, name, "", 1)
	return f
}

// remembering leaks a token of the kit's second prompt into later sequences.
func remembering() *fake {
	f := answering(func(m *machine) { m.out(abi.ModeDeny, 1, *m.f.shared) })
	return f.with("tgi_logits_begin", func(m *machine, args []uint64) uint64 {
		if m.mem[args[2]+4] == 'z' {
			*m.f.shared = 'z'
		}
		return 0
	})
}

func TestBrokenGuests(t *testing.T) {
	cases := []guest.Case{{}, {Params: `{"bad":1}`, Refused: true}}
	guests, chats, grammars, guards := broken(), brokenChats(), brokenGrammars(), brokenGuards()
	guests["guess"] = brokenDrafts()["guess"]
	for _, rule := range guest.Rules {
		if len(guests[rule.ID]) == 0 && len(chats[rule.ID])+len(grammars[rule.ID])+len(guards[rule.ID]) == 0 {
			t.Errorf("no guest breaks rule %s", rule.ID)
		}
		for i, f := range slices.Concat(guests[rule.ID], guards[rule.ID]) {
			found := guest.Run(f, cases...)
			if !slices.ContainsFunc(found, func(v guest.Violation) bool { return v.ID == rule.ID }) {
				t.Errorf("%s, guest %d: reported %v", rule.ID, i, found)
			}
		}
	}
	for id := range chats {
		guests[id] = nil
	}
	for id := range grammars {
		guests[id] = nil
	}
	for id := range guests {
		if !slices.ContainsFunc(guest.Rules, func(r guest.Rule) bool { return r.ID == id }) {
			t.Errorf("no rule %s", id)
		}
	}
}

// TestReportedRules: what the package reports are rules of its list, also where no guest of a test breaks them.
func TestReportedRules(t *testing.T) {
	files, err := filepath.Glob("*.go")
	if err != nil {
		t.Fatal(err)
	}
	reported, calls := regexp.MustCompile(`report\("([a-z-]+)"`), 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, m := range reported.FindAllSubmatch(text, -1) {
			calls++
			if !slices.ContainsFunc(guest.Rules, func(r guest.Rule) bool { return r.ID == string(m[1]) }) {
				t.Errorf("%s reports %s, which is no rule", file, m[1])
			}
		}
	}
	if calls < 50 {
		t.Errorf("%d calls were found", calls)
	}
}

func TestSoundGuard(t *testing.T) {
	for i, f := range statingTruly() {
		for _, v := range guest.Run(f, guest.Case{}, guest.Case{Params: `{"bad":1}`, Refused: true}) {
			t.Errorf("guest %d: %v", i, v)
		}
	}
}

func TestSoundChat(t *testing.T) {
	for _, v := range guest.Run(chatting(), guest.Case{Texts: []string{strings.Repeat("long ", 2000)}},
		guest.Case{Params: `{"bad":1}`, Refused: true}) {
		t.Error(v)
	}
	for name, f := range map[string]*fake{
		"refused": rendering(func(m *machine) uint64 {
			return m.result(abi.StatusFailed, "roles must alternate")
		}),
		"empty": rendering(func(m *machine) uint64 { return m.result(abi.StatusOK, "") }),
		"spans": rendering(func(m *machine) uint64 {
			return m.result(abi.StatusOK, "aéb", 0, 0, 1, 3, 3, 4, 4,
				4)
		}),
		"failed call": says(begins(0), arguments(0, "{"), guest.Event{Kind: abi.EventFailed,
			Reason: abi.FailedMalformed, Text: "x"}),
		"failed before": says(guest.Event{Kind: abi.EventFailed, Index: ^uint32(0), Reason: abi.FailedTooMany},
			content("x")),
		"two calls": says(begins(0), arguments(0, "{}"), ends(0), begins(1), arguments(1, "{}"), ends(1),
			content("x")),
		"holds":         holds(abi.StatusOK, heldTo, `[{"pointer":"#/tools/0","keyword":"strict","reason":"é"}]`),
		"holds nothing": holds(abi.StatusOK, "", ""),
		"holds not":     holds(abi.StatusFailed, "can't", ""),
		"silent":        chatting().with("tgi_tools_feed", func(*machine, []uint64) uint64 { return abi.Pack(5, 0) }),
	} {
		for _, v := range guest.Run(f) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestBrokenChats(t *testing.T) {
	for id, guests := range brokenChats() {
		for i, f := range guests {
			found := guest.Run(f)
			if !slices.ContainsFunc(found, func(v guest.Violation) bool { return v.ID == id }) {
				t.Errorf("%s, guest %d: reported %v", id, i, found)
			}
		}
	}
}

func TestSoundGrammar(t *testing.T) {
	extra := guest.Case{Sources: []guest.Source{{Language: "mine", Text: "x"}, {Language: "letters"},
		{Language: "other"}}}
	for name, f := range map[string]*fake{
		"compiles": compiling(nil), "refuses": compiling(func(m *machine) uint64 {
			return m.compiled(abi.StatusFailed, "no", "")
		}),
		"steps":   stepping(),
		"all":     stepping().with("tgi_grammar_mask", func(*machine, []uint64) uint64 { return abi.MaskAll }),
		"keyless": stepping().with("tgi_grammar_key", func(*machine, []uint64) uint64 { return 0 }),
		"no":      stepping().with("tgi_grammar_begin", func(m *machine, _ []uint64) uint64 { return m.text("no") }),
	} {
		if name == "all" { // it forces nothing and takes anything
			f = f.with("tgi_grammar_accept", func(*machine, []uint64) uint64 { return 0 }).with("tgi_grammar_forced",
				func(*machine, []uint64) uint64 { return 0 })
		}
		for _, v := range guest.Run(f, guest.Case{}, extra, guest.Case{Params: `{"bad":1}`, Refused: true}) {
			t.Errorf("%s: %v", name, v)
		}
	}
}

func TestBrokenGrammars(t *testing.T) {
	for id, guests := range brokenGrammars() {
		for i, f := range guests {
			found := guest.Run(f)
			if !slices.ContainsFunc(found, func(v guest.Violation) bool { return v.ID == id }) {
				t.Errorf("%s, guest %d: reported %v", id, i, found)
			}
		}
	}
}

// TestModelReachesTheGuest: guests for conversations, and only they, find the model in their configuration.
func TestModelReachesTheGuest(t *testing.T) {
	for _, f := range []*fake{chatting(), sound()} {
		var got []string
		f = f.with("tgi_init", func(m *machine, args []uint64) uint64 {
			got = append(got, m.params(args))
			return m.refuses(args)
		})
		for _, config := range []string{`{"a":1}`, `{"model":{}}`} {
			guest.Run(f, guest.Case{Config: config})
		}
		given := slices.ContainsFunc(got, func(c string) bool {
			return strings.HasPrefix(c, `{"a":1,"model":{"name":"kit",`)
		})
		if own := slices.Contains(got, `{"model":{}}`); given != strings.Contains(f.description, "tools") || !own {
			t.Errorf("%s: %q", f.description, got)
		}
	}
}

func TestPlayChat(t *testing.T) {
	answers, found := guest.Play(chatting(), guest.Case{})
	if len(found) > 0 || len(answers) < 30 {
		t.Fatalf("%d answers, %v", len(answers), found)
	}
	if got, want := answers[0].String(), `template "<s>{\"add_generation_prompt\":true`; !strings.HasPrefix(got,
		want) || !strings.HasSuffix(got, "data [[3 154]]") {
		t.Errorf("first answer %q, want %q", got, want)
	}
	last := answers[len(answers)-1].String()
	if want := `<tool_call>{\"name\": \"get_time\", \"arguments\": 7}</tool_call>" begin 0 "f" "c" arguments 0 " {}" end 0]`; !strings.HasPrefix(last, `tools [content "`) || !strings.HasSuffix(last, want) {
		t.Errorf("last answer %q, want %q", last, want)
	}
}

func TestPlay(t *testing.T) {
	answers, found := guest.Play(sound(), guest.Case{})
	if len(found) > 0 || len(answers) != 48 {
		t.Fatalf("%d answers, %v", len(answers), found)
	}
	if got, want := answers[0].String(), "logits deny flags 0 temperature NaN force [] out 03 00 00 00"; got != want {
		t.Errorf("first answer %q, want %q", got, want)
	}
	if a := answers[47]; a.Kind != abi.KindSampler || a.Index < 0 || a.Index > 7 {
		t.Errorf("last answer %v", a)
	}
	if answers, found = guest.Play(sound(), guest.Case{Params: `{"bad":1}`, Refused: true}); len(answers)+
		len(found) != 0 {
		t.Errorf("refused parameters: %v, %v", answers, found)
	}
	failing := sound().with("tgi_logits_process", func(m *machine, _ []uint64) uint64 {
		m.text("stuck")
		m.set(abi.StepOut, textAt)
		m.set(abi.StepOutCount, 5)
		return abi.StatusFailed
	})
	if answers, found = guest.Play(failing, guest.Case{}); len(found) != 0 ||
		answers[0].String() != "logits fault stuck" {
		t.Errorf("failing step: %v, %v", answers, found)
	}
}

func TestViolationText(t *testing.T) {
	f := sound()
	f.exports = f.exports[1:]
	found := guest.Run(f)
	want := "marker: export tgi_abi_v1() -> () is missing (the version of the contract is exported; abi.Marker)"
	if len(found) != 1 || found[0].String() != want {
		t.Errorf("got %v\nwant %s", found, want)
	}
}
