package guest_test

import (
	"slices"

	"tgi/plugins/grammar/ir/irtest"
	"tgi/sdk/abi"
)

// grammarAt is where the fake keeps a grammar.
const grammarAt = 0x5000

// encoded is a grammar whose only text is the empty one.
func encoded() string {
	var b irtest.Builder
	b.G.Start = b.Declare("start")
	b.Define(b.G.Start, b.Seq())
	return string(b.G.Append(nil))
}

// compiled makes the result of a compilation.
func (m *machine) compiled(status uint32, text, notes string) uint64 {
	copy(m.mem[grammarAt:], text)
	copy(m.mem[saysAt:], notes)
	m.words(resultAt, status, grammarAt, uint32(len(text)), saysAt, uint32(len(notes)))
	return resultAt
}

// compiling is a guest without a fault that compiles everything to the same.
func compiling(set func(*machine) uint64) *fake {
	f := sound()
	f.exports = slices.Concat(abi.Common, abi.Grammar)
	f.description = `{"name":"compiler","version":"1","kinds":["grammar"],"languages":["regex","mine"]}`
	if set == nil {
		set = func(m *machine) uint64 {
			return m.compiled(abi.StatusOK, encoded(), `[{"pointer":"#","keyword":"not","reason":"x"}]`)
		}
	}
	return f.with("tgi_grammar_compile", func(m *machine, _ []uint64) uint64 { return set(m) })
}

// stepping is a guest without a fault that allows one letter after the other from a on, then the end; b is forced.
func stepping() *fake {
	f := sound()
	f.exports = slices.Concat(abi.Common, abi.GrammarSteps)
	f.description = `{"name":"stepper","version":"1","kinds":["grammar"],"modes":["steps"],"languages":["letters"]}`
	next := func(m *machine) uint32 {
		if m.reg[0] == 3 {
			return 258
		}
		return 'a' + m.reg[0]
	}
	f = f.with("tgi_grammar_begin", func(*machine, []uint64) uint64 { return 0 })
	f = f.with("tgi_grammar_accept", func(m *machine, args []uint64) uint64 {
		if m.word(args[0]) != next(m) || args[1] != 1 {
			return abi.StatusFailed
		}
		m.reg[0]++
		return abi.StatusOK
	})
	f = f.with("tgi_grammar_mask", func(m *machine, args []uint64) uint64 {
		m.words(int(args[0]), make([]uint32, 9)...)
		m.words(int(args[0])+4*int(next(m)/32), 1<<(next(m)%32))
		return abi.StatusOK
	})
	f = f.with("tgi_grammar_forced", func(m *machine, _ []uint64) uint64 {
		if next(m) != 'b' {
			return 0
		}
		m.words(saysAt, 'b')
		return abi.Pack(saysAt, 1)
	})
	return f.with("tgi_grammar_key", func(m *machine, _ []uint64) uint64 { return uint64(m.reg[0]) + 1 })
}

func (m *machine) word(at uint64) uint32 {
	return uint32(m.mem[at]) | uint32(m.mem[at+1])<<8 | uint32(m.mem[at+2])<<16 | uint32(m.mem[at+3])<<24
}

// brokenGrammars lists guests of kind grammar with one fault each, by the rule that must name it.
func brokenGrammars() map[string][]*fake {
	answers := func(name string, v uint64) *fake {
		return stepping().with(name, func(*machine, []uint64) uint64 { return v })
	}
	both := compiling(nil)
	both.exports = slices.Concat(abi.Common, abi.Grammar, abi.GrammarSteps)
	undeclared, silent, nameless, alone := stepping(), compiling(nil), compiling(nil), sound()
	undeclared.description = `{"name":"stepper","kinds":["grammar"],"languages":["letters"]}`
	silent.description = `{"name":"compiler","kinds":["grammar"]}`
	nameless.description = `{"name":"compiler","kinds":["grammar"],"languages":[""]}`
	alone.description = `{"name":"x","kinds":["logits","sampler"],"modes":["steps"]}`
	return map[string][]*fake{
		"export":          {undeclared},
		"export-unknown":  {both},
		"describe-values": {silent, nameless, alone},
		"trap":            {compiling(func(*machine) uint64 { panic(errTrap) })},
		"compiled": {
			compiling(func(m *machine) uint64 { return uint64(len(m.mem) - 16) }),
			compiling(func(*machine) uint64 { return resultAt + 2 }),
			compiling(func(m *machine) uint64 { return m.compiled(2, encoded(), "") }),
			compiling(func(m *machine) uint64 { return m.compiled(abi.StatusFailed, "", "") }),
			compiling(func(m *machine) uint64 { return m.compiled(abi.StatusFailed, "\xff", "") }),
			compiling(func(m *machine) uint64 { return m.compiled(abi.StatusOK, "", "") }),
			compiling(func(m *machine) uint64 { return m.compiled(abi.StatusOK, encoded()[:8], "") }),
			compiling(func(m *machine) uint64 { m.words(resultAt, 0, 0x7fffffff, 9, 0, 0); return resultAt }),
		},
		"notes": {
			compiling(func(m *machine) uint64 { return m.compiled(abi.StatusOK, encoded(), "{}") }),
			compiling(func(m *machine) uint64 {
				return m.compiled(abi.StatusOK, encoded(), "[{\"reason\":\"\xff\"}]")
			}),
			compiling(func(m *machine) uint64 {
				at := m.compiled(abi.StatusOK, encoded(), "")
				m.words(resultAt+abi.CompiledNotes, 0x7fffffff, 9)
				return at
			}),
		},
		"accept": {answers("tgi_grammar_accept", abi.StatusFailed)},
		"mask": {
			answers("tgi_grammar_mask", 7),
			stepping().with("tgi_grammar_mask", func(m *machine, args []uint64) uint64 {
				m.words(int(args[0]), make([]uint32, 9)...)
				return 0
			}),
			stepping().with("tgi_grammar_mask", func(m *machine, args []uint64) uint64 {
				m.reg[1]++
				m.words(int(args[0]), m.reg[1], 0, 0, 1, 0, 0, 0, 0, 0)
				return 0
			}),
		},
		"key": {answers("tgi_grammar_key", 5)},
		"force": {answers("tgi_grammar_forced", abi.Pack(0x7ffffff0, 1)), answers("tgi_grammar_forced",
			abi.Pack(saysAt, abi.MaxForced+1))},
		"text": {answers("tgi_grammar_begin", abi.Pack(0xffffff00, 5))},
		"overrun": {stepping().with("tgi_grammar_mask", func(m *machine, args []uint64) uint64 {
			m.words(int(args[0]), make([]uint32, 10)...)
			return abi.MaskAll
		})},
		"deterministic": {compiling(func(m *machine) uint64 {
			*m.f.shared++
			return m.compiled(abi.StatusFailed, string(rune('a'+*m.f.shared%20)), "")
		})},
	}
}
