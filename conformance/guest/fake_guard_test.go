package guest_test

import (
	"math"
	"slices"
	"strings"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

// guarding is a guest of kind guard; without a fault where set is nil: it holds two tokens back, and takes some back,
// replaces and inserts some.
func guarding(set func(m *machine, n, released uint32)) *fake {
	f := sound()
	f.exports = slices.Concat(abi.Common, abi.Guard)
	f.description = `{"name":"guard","version":"1","kinds":["guard"],` +
		`"guard":{"hold":5,"verdicts":["rewind","insert","replace"]}}`
	if set == nil {
		set = func(m *machine, n, released uint32) {
			ends := m.word(stepAt+abi.GuardReason) != abi.ReasonNone
			switch m.reg[0]++; {
			case m.reg[0]%7 == 3 && !ends:
				m.words(outAt, 65, f32(-1))
				m.judge(abi.VerdictRewind, max(n-2, released), outAt, 1)
			case m.reg[0]%7 == 4 && !ends:
				m.mem[outAt] = 'x'
				m.judge(abi.VerdictInsert, n, outAt, 1)
			case m.reg[0]%7 == 5:
				m.judge(abi.VerdictReplace, released+1, outAt, 0)
			case ends:
				m.judge(abi.VerdictRelease, n, 0, 0)
			default:
				m.judge(abi.VerdictRelease, max(n-2, released), 0, 0)
			}
		}
	}
	f = f.with("tgi_guard_begin", func(m *machine, args []uint64) uint64 { return m.refuses(args) })
	f = f.with("tgi_guard_step", func(*machine, []uint64) uint64 { return stepAt })
	return f.with("tgi_guard_check", func(m *machine, _ []uint64) uint64 {
		set(m, m.word(stepAt+abi.GuardTokenCount), m.word(stepAt+abi.GuardReleased))
		return abi.StatusOK
	})
}

// judge writes a verdict.
func (m *machine) judge(verdict, position, out, count uint32) {
	m.words(stepAt+abi.GuardVerdict, verdict, position, out, count)
}

// stating is the sound guest, which looks at tokens, view and row, with another word for what it keeps.
func stating(state string, set func(*machine)) *fake {
	f := answering(set)
	f.description = strings.Replace(f.description, `"kinds"`, `"state":"`+state+`","kinds"`, 1)
	return f
}

// brokenGuards lists guests of kind guard with one fault each, and those that lie about their state, by the rule that
// must name it.
func brokenGuards() map[string][]*fake {
	says := func(verdict, out, count uint32, at func(n, released uint32) uint32) *fake {
		return guarding(func(m *machine, n, released uint32) { m.judge(verdict, at(n, released), out, count) })
	}
	all := func(n, _ uint32) uint32 { return n }
	last := func(n, _ uint32) uint32 { return n - 1 }
	flagged := guarding(func(m *machine, n, _ uint32) {
		m.judge(abi.VerdictRelease, n, 0, 0)
		m.words(stepAt+abi.GuardFlags, 2)
	})
	// edits has a guard replace all, with words of one byte, which is x, instead of bytes from the given ones behind
	// the text that is out.
	edits := func(x byte, list ...[2]uint32) *fake {
		return guarding(func(m *machine, n, _ uint32) {
			out := m.word(stepAt + abi.GuardContext)
			m.mem[outAt] = x
			for i, e := range list {
				m.words(outAt+4+abi.EditSize*i, out+e[0], out+e[1], outAt, 1)
			}
			m.judge(abi.VerdictReplace, n, outAt+4, uint32(len(list)))
			m.words(stepAt+abi.GuardFlags, abi.FlagEdits)
		})
	}
	describing := func(old, new string) *fake {
		f := guarding(nil)
		f.description = strings.Replace(f.description, old, new, 1)
		return f
	}
	return map[string][]*fake{
		"verdict": {says(9, 0, 0, all), says(abi.VerdictStop, 0, 0, all), flagged},
		"position": {says(abi.VerdictRelease, 0, 0, func(n, _ uint32) uint32 { return n + 1 }),
			says(abi.VerdictRelease, 0, 0, func(_, released uint32) uint32 { return released - 1 }),
			says(abi.VerdictRewind, 0, 0, all), says(abi.VerdictReplace, 0, 0, func(_, released uint32) uint32 {
				return released
			})},
		"edits": {edits('x', [2]uint32{0, 99999}), edits('x', [2]uint32{1, 0}), edits(0xff, [2]uint32{0, 0}),
			edits('x', [2]uint32{0, 1}, [2]uint32{0, 1}), edits('x', make([][2]uint32, abi.MaxEdits+1)...)},
		"hold": {says(abi.VerdictRelease, 0, 0, func(_, released uint32) uint32 { return released })},
		"out":  {says(abi.VerdictRewind, 0x7ffffff0, 9, last), says(abi.VerdictRewind, outAt+2, 1, last)},
		"id": {guarding(func(m *machine, n, _ uint32) {
			m.words(outAt, 259, 0)
			m.judge(abi.VerdictRewind, n-1, outAt, 1)
		})},
		"number": {guarding(func(m *machine, n, _ uint32) {
			m.words(outAt, 9, f32(math.NaN()))
			m.judge(abi.VerdictRewind, n-1, outAt, 1)
		})},
		"text": {says(abi.VerdictReplace, outAt, abi.MaxGuardText+1, all), guarding(func(m *machine, n, _ uint32) {
			m.mem[outAt] = 0xff
			m.judge(abi.VerdictInsert, n, outAt, 1)
		})},
		"describe-values": {describing(`"hold":5`, `"hold":257`), describing(`"hold":5`, `"hold":5,"every":6`),
			describing(`"rewind"`, `"unsay"`), describing(`{"hold":5,`, `{`)},
		"restored": {
			stating(abi.StateNone, func(m *machine) { m.reg[1]++; m.out(abi.ModeDeny, 1, m.reg[1]) }),
			stating(abi.StateNone, func(m *machine) { // it does not notice that tokens were taken back
				m.reg[1] = max(m.reg[1], m.field(abi.StepTokenCount))
				m.out(abi.ModeDeny, 1, m.reg[1])
			}),
			stating(abi.StateTokens, func(m *machine) {
				m.reg[1] = m.reg[1]*31 + m.word(uint64(m.field(abi.StepView)))
				m.out(abi.ModeDeny, 1, m.reg[1]%200)
			}),
		},
	}
}

// statingTruly are guests that keep what they say.
func statingTruly() []*fake {
	return []*fake{
		guarding(nil),
		stating(abi.StateNone, func(m *machine) { m.out(abi.ModeDeny, 1, m.field(abi.StepTokenCount)%200) }),
		stating(abi.StateTokens, func(m *machine) { m.reg[1]++; m.out(abi.ModeDeny, 1, m.reg[1]%200) }),
		stating(abi.StateLogits, func(m *machine) {
			m.reg[1] = m.reg[1]*31 + m.word(uint64(m.field(abi.StepView)))
			m.out(abi.ModeDeny, 1, m.reg[1]%200)
		}),
	}
}

var _ guest.Guest = guarding(nil)
