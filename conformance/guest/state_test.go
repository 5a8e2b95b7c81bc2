package guest_test

import (
	"slices"
	"strings"
	"testing"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

// restored are the violations of the rule of what a guest keeps.
func restored(found []guest.Violation) []guest.Violation {
	return slices.DeleteFunc(found, func(v guest.Violation) bool { return v.ID != "restored" })
}

// withParams gives a guest a schema, and a register that holds whether the parameters have a word.
func withParams(f *fake, schema, word string) *fake {
	f.description = strings.Replace(f.description, `"kinds"`, `"params":`+schema+`,"kinds"`, 1)
	return f.with("tgi_logits_begin", func(m *machine, args []uint64) uint64 {
		if strings.Contains(m.params(args), word) {
			m.reg[2] = 1
		}
		return m.refuses(args)
	})
}

// deny is an answer that depends on a number.
func deny(m *machine, v uint32) { m.out(abi.ModeDeny, 1, v%200) }

// TestLateLies: what a guest says that it keeps of a sequence is found to be untrue late, behind what it forces, and
// where only parameters of its schema bring that about.
func TestLateLies(t *testing.T) {
	late := func(m *machine, after uint32) {
		if m.reg[1]++; m.reg[1] > after {
			deny(m, m.reg[1])
		}
	}
	const switches = `{"type":"object","properties":{"depth":{"type":"integer","default":3},"late":{"type":"boolean"}}}`
	const chooses = `{"type":"object","properties":{"how":{"type":"string","default":"now","enum":["now","late"]}}}`
	const example = `{"type":"object","examples":[{"how":{"at":"late"}}],"properties":{"how":{"type":"object"}}}`
	whenTold := func(m *machine) {
		if m.reg[2] == 1 {
			late(m, 0)
		}
	}
	for name, f := range map[string]*fake{
		"none, from 30 on":  stating(abi.StateNone, func(m *machine) { late(m, 30) }),
		"none, from 310 on": stating(abi.StateNone, func(m *machine) { late(m, 310) }),
		"tokens, view from 200 on": stating(abi.StateTokens, func(m *machine) {
			if m.field(abi.StepTokenCount) > 200 {
				m.reg[1] = m.reg[1]*31 + m.word(uint64(m.field(abi.StepView)))
			}
			deny(m, m.reg[1])
		}),
		"none, and forces": stating(abi.StateNone, func(m *machine) {
			late(m, 30)
			copy(m.mem[outAt+64:], []byte{97, 0, 0, 0, 98, 0, 0, 0})
			m.set(abi.StepForce, outAt+64)
			m.set(abi.StepForceCount, 1+m.field(abi.StepTokenCount)%2)
		}),
		"logits, kept elsewhere": stating(abi.StateLogits, func(m *machine) {
			if m.field(abi.StepTokenCount) > 100 {
				*m.f.shared++
			}
			deny(m, *m.f.shared)
		}),
		"none, with a boolean": withParams(stating(abi.StateNone, whenTold), switches, `"late":true`),
		"none, with a word":    withParams(stating(abi.StateNone, whenTold), chooses, `"how":"late"`),
		"none, in an example":  withParams(stating(abi.StateNone, whenTold), example, `"at":"late"`),
		"none, a sampler": stating(abi.StateNone, func(*machine) {}).with("tgi_sampler_sample",
			func(m *machine, args []uint64) uint64 {
				m.reg[1]++
				return uint64(m.reg[1]/30) % args[1]
			}),
		"tokens, a sampler": stating(abi.StateTokens, func(*machine) {}).with("tgi_sampler_sample",
			func(m *machine, args []uint64) uint64 {
				m.reg[1]++
				return uint64(m.reg[1]/30) % args[1]
			}),
	} {
		if found := restored(guest.Run(f)); len(found) == 0 {
			t.Errorf("%s: not found", name)
		}
	}
}

// TestStateTrials: the kit says over what a guest's word was tried, and what was not tried.
func TestStateTrials(t *testing.T) {
	const schema = `{"type":"object","required":["a"],"properties":{"a":{"type":"integer","minimum":3,"maximum":4},` +
		`"bad":{"enum":[1]},"c":{"type":"string","default":"x"},"d":{"type":"array","items":{"type":"boolean"}}}}`
	f := withParams(stating(abi.StateNone, func(m *machine) {
		if m.reg[2] == 1 && m.field(abi.StepTokenCount) == 5+40 {
			m.set(abi.StepFlags, abi.FlagStop)
		}
	}), schema, `"d"`)
	f.code["tgi_validate"] = func(m *machine, args []uint64) uint64 {
		if strings.Contains(m.params(args), "bad") {
			return m.text("bad parameters")
		}
		return m.refuses(args)
	}
	unique := stating(abi.StateNone, func(m *machine) { // no token again, of which there are 259
		var ids []uint32
		for i := range m.field(abi.StepTokenCount) {
			ids = append(ids, m.word(uint64(m.field(abi.StepTokens)+4*i)))
		}
		m.out(abi.ModeDeny, uint32(len(ids)), ids...)
	})
	found, trials := guest.Try(unique)
	if len(found) > 0 || len(trials[0].Short) != 1 || !strings.Contains(trials[0].Short[0], "denies every token") {
		t.Errorf("no token again: %v, %+v", found, trials)
	}
	found, trials = guest.Try(f)
	if found := restored(found); len(found) > 0 || len(trials) != 2 {
		t.Fatalf("%v, %d trials", found, len(trials))
	}
	l := trials[0]
	want := []string{"{}", `{"a":3,"c":"x"}`, `{"a":3}`, `{"a":3,"c":"a"}`, `{"a":3,"d":[true]}`, `{"a":4}`}
	if l.Kind != abi.KindLogits || l.State != abi.StateNone || !slices.Equal(l.Params, want) || l.Positions != 40 ||
		l.Untried != 0 || len(l.Short) != 1 || l.Short[0] != `{"a":3,"d":[true]}: at token 40 it ended the sequence` {
		t.Errorf("%+v", l)
	}
	if refused := []string{`{"a":3,"bad":1,"c":"a","d":[true]} (bad parameters)`,
		`{"a":3,"bad":1} (bad parameters)`}; !slices.Equal(l.Refused, refused) {
		t.Errorf("refused %q", l.Refused)
	}
	if s := trials[1]; s.Kind != abi.KindSampler || s.Positions != 320 || len(s.Short) > 0 ||
		len(s.Params) != len(want) {
		t.Errorf("%+v", s)
	}
}
