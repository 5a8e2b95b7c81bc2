package host

import (
	"encoding/json"
	"maps"
	"math"
	"net/http"
	"slices"
	"strings"
	"testing"
)

// whenGuard wraps a body of tgi_guard_check so that it runs only where the request gave parameters.
func whenGuard(body []byte) *module {
	m := newGuard()
	m.bodies["tgi_guard_begin"] = slices.Concat(push32(900), []byte{0x20, 1, 0x36, 2, 0}, push64(0))
	m.bodies["tgi_guard_check"] = slices.Concat(letGo(), []byte{0x1a}, push32(900), []byte{0x28, 2, 0}, push32(2),
		[]byte{0x4b, 0x04, 0x40}, body, []byte{0x0b}, push32(0))
	return m
}

// judge is a verdict with a position and words.
func judge(verdict int64, position []byte, out, count int64) []byte {
	return slices.Concat(store32(guardVerdict, verdict), push32(guardPosition), position, []byte{0x36, 2, 0},
		store32(guardOut, out), store32(guardOutCount, count))
}

// guardOffences are what a guard does when it is asked, with what its log must say; without that its text ends as
// one does of which a guard holds or takes back more than it may.
func guardOffences() map[string]struct {
	m    *module
	says string
} {
	type offence = struct {
		m    *module
		says string
	}
	load := func(at int64) []byte { return slices.Concat(push32(at), []byte{0x28, 2, 0}) }
	all, held := load(guardCount), load(guardReleased)
	last := slices.Concat(all, push32(-1), []byte{0x6a})
	list := map[string]offence{
		"endless loop": {whenGuard(forever()), "out of fuel"},
		"memory bomb":  {whenGuard(forever(slices.Concat(push32(1), []byte{0x40, 0, 0x1a})...)), "out of fuel"},
		"more than its memory": {whenGuard(slices.Concat(push32(2000), []byte{0x40, 0, 0x1a, unreached})),
			"trap: out of memory: it asked for 133169152 bytes, its limit is 67108864 (limits.memory): unreachable"},
		"trap":             {whenGuard([]byte{unreached}), "unreachable"},
		"biases outside":   {whenGuard(judge(1, last, -16, 8)), "8 entries of 8 bytes at 0xfffffff0"},
		"4 GiB of biases":  {whenGuard(judge(1, last, outAt, -1)), "4294967295 biases, the limit is 4096"},
		"text outside":     {whenGuard(judge(2, all, -16, 32)), "32 entries of 1 bytes at 0xfffffff0"},
		"4 GiB of text":    {whenGuard(judge(3, all, outAt, -1)), "4294967295 bytes, the limit is 4096"},
		"no UTF-8":         {whenGuard(slices.Concat(store32(outAt, -1), judge(2, all, outAt, 1))), "not UTF-8"},
		"position outside": {whenGuard(judge(0, push32(1<<30), 0, 0)), "position 1073741824, want"},
		"unknown verdict":  {whenGuard(judge(9, all, 0, 0)), "verdict 9: the last is 4"},
		"NaN bias": {whenGuard(slices.Concat(store32(outAt, 5),
			store32(outAt+4, int64(int32(math.Float32bits(float32(math.NaN()))))), judge(1, last, outAt, 1))), "NaN"},
		// These are verdicts as the contract has them, again and again.
		"rewinds":     {whenGuard(judge(1, held, 0, 0)), ""},
		"inserts":     {whenGuard(slices.Concat(store32(outAt, 'a'), judge(2, held, outAt, 1))), ""},
		"holds all":   {whenGuard(slices.Concat(push32(guardPosition), held, []byte{0x36, 2, 0})), ""},
		"many biases": {whenGuard(judge(1, held, heapAt-1<<15, 4096)), ""},
	}
	deep := whenGuard([]byte{opCall, byte(newGuard().function(0))})
	deep.extra = []extraFunc{{body: []byte{opCall, byte(deep.function(0)), opCall, byte(deep.function(0))}}}
	list["stack overflow"] = offence{deep, "stack overflow"}
	return list
}

// TestHostileGuards has guards do harm while others stream: each request ends with an error that names plugin and
// export, and the log has the cause, or, where all that a guard does is allowed but too much, with what went out, and
// nobody else notices.
func TestHostileGuards(t *testing.T) {
	p := openPlugged(t, nil)
	offences := guardOffences()
	for name, o := range offences {
		p.upload(t, slug(name), o.m.wasm())
	}
	nb := p.watchNeighbours(t, 3)
	for _, name := range slices.Sorted(maps.Keys(offences)) {
		says := offences[name].says
		for range 3 {
			status, text := p.generate(t, 40, slug(name), `{"harm":1}`)
			if says == "" {
				if status != http.StatusOK || !strings.Contains(text, `"finish_reason":"stop_sequence"`) {
					t.Errorf("%s: %d %s", name, status, text)
				}
				continue
			}
			var e struct{ Error, Error_type string }
			if err := json.Unmarshal([]byte(text), &e); err != nil || status != http.StatusFailedDependency ||
				e.Error_type != "plugin" || !strings.Contains(e.Error, slug(name)) ||
				!strings.Contains(e.Error, "tgi_guard_check") {
				t.Errorf("%s: %d %s, it has to name plugin and export", name, status, text)
			}
			_, log := p.call(t, http.MethodGet, "/admin/plugins/"+slug(name)+"/log", nil)
			if !strings.Contains(log, says) {
				t.Errorf("%s: %q is not in the log: %s", name, says, log)
			}
		}
		if status, text := p.generate(t, 5, slug(name), `{}`); status != http.StatusOK {
			t.Errorf("%s does no harm without parameters: %d %s", name, status, text)
		}
	}
	if _, _, ends := nb.end(); ends == 0 {
		t.Error("no neighbour came to its end")
	}
	p.quiet(t)
}

// TestFailedGuardEndsText: with on_error = "stop" a guard that fails ends the text with what went out, also where it
// declares no verdict that ends one.
func TestFailedGuardEndsText(t *testing.T) {
	p := openPlugged(t, nil)
	for _, verdicts := range []string{`"rewind","insert","replace","stop"`, `"rewind","insert","replace"`,
		`"replace"`} {
		m := whenGuard(slices.Concat(push32(guardCount), []byte{0x28, 2, 0}, push32(20),
			[]byte{0x4b, 0x04, 0x40, 0x00, 0x0b})) // a trap behind 20 tokens
		m.description = strings.Replace(m.description, `"rewind","insert","replace","stop"`, verdicts, 1)
		if status, text := p.call(t, http.MethodPut, "/admin/plugins/stops?on_error=stop", m.wasm()); status/100 != 2 {
			t.Fatalf("%d %s", status, text)
		}
		_, whole := p.generate(t, 40, "stops", `{}`)
		status, text := p.generate(t, 40, "stops", `{"harm":1}`)
		var all, got struct {
			Text    string `json:"generated_text"`
			Details struct {
				Reason string `json:"finish_reason"`
			}
		}
		if json.Unmarshal([]byte(whole), &all) != nil || json.Unmarshal([]byte(text), &got) != nil ||
			status != http.StatusOK || got.Details.Reason != "stop_sequence" || got.Text == "" ||
			len(got.Text) == len(all.Text) || !strings.HasPrefix(all.Text, got.Text) {
			t.Errorf("verdicts %s: %d %s\nwithout harm: %s", verdicts, status, text, whole)
		}
	}
}
