package plugins

import (
	"fmt"
	"testing"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// Where the compilers of these tests keep a grammar, and a second answer.
const (
	encodedAt = guesttest.Free + 0x1000
	refusalAt = guesttest.Free + 0x20
)

// asked is the request that reaches a compiler for a source without parameters.
func asked(language, source string) string {
	return fmt.Sprintf(`{"language":%q,"source":%q,"params":{}}`, language, source)
}

// theSource is what the tests compile, in the language "mine".
const theSource = "x"

// compiler is a guest of kind grammar that compiles anything to one to three of some bytes, unless it is told otherwise
// by parameters.
func compiler(pairs string) guesttest.Fake {
	var b irtest.Builder
	rule := b.Declare("start")
	b.Define(rule, b.Term(b.Repeat(b.Bytes(pairs), 1, 3)))
	b.G.Start = rule
	return compiles(&b.G)
}

// compiles is a guest that compiles anything to one grammar.
func compiles(g *ir.Grammar) guesttest.Fake {
	encoded := string(g.Append(nil))
	const notes = `[{"pointer":"#","keyword":"format","reason":"unknown"}]`
	usual := asked("mine", theSource)
	ends := guesttest.Code{0x0f} // return
	return guesttest.Fake{
		Description: guesttest.Grammar, Imports: []string{"log"},
		Data: map[uint32]string{
			guesttest.Free: guesttest.Bytes(abi.StatusOK, encodedAt, uint32(len(encoded)), saysAt, uint32(len(notes))),
			saysAt:         notes, encodedAt: encoded,
			refusalAt: guesttest.Bytes(abi.StatusFailed, saysAt, uint32(len(notes))),
		},
		Code: map[string]guesttest.Code{"tgi_grammar_compile": guesttest.Join(
			guesttest.Const(2), guesttest.Const(saysAt), guesttest.Const(2), guesttest.Call(0),
			requested(usual, len(doTrap)-2, guesttest.Trap()),
			requested(usual, len(doSpin)-2, guesttest.Spin()),
			requested(usual, len(doRogue)-2, guesttest.Join(guesttest.Const(0xfffffff0), ends)),
			requested(usual, len(doRefuse)-2, guesttest.Join(guesttest.Const(refusalAt), ends)),
			guesttest.Const(guesttest.Free))},
	}
}

// stepper is a guest that allows the letters a and b and the end, traps at the token t and spins at s.
func stepper() guesttest.Fake {
	bits := make([]uint32, 9)
	for _, t := range []uint32{'a', 'b', 's', 't', 258} {
		bits[t/32] |= 1 << (t % 32)
	}
	token := guesttest.Join(guesttest.Arg(0), guesttest.Code{0x28, 2, 0}) // the first that is handed over
	return guesttest.Fake{
		Description: guesttest.Steps, Data: map[uint32]string{encodedAt: guesttest.Bytes(bits...)},
		Code: map[string]guesttest.Code{
			"tgi_grammar_accept": guesttest.Join(token, guesttest.Const('t'), guesttest.Equal(),
				guesttest.When(guesttest.Trap()),
				token, guesttest.Const('s'), guesttest.Equal(), guesttest.When(guesttest.Spin()),
				guesttest.Const(guesttest.Free), guesttest.Load(guesttest.Free), guesttest.Arg(1), guesttest.Add(),
				guesttest.Put(), guesttest.Const(0)),
			"tgi_grammar_mask": guesttest.Join(guesttest.Copy(guesttest.Arg(0), guesttest.Const(encodedAt),
				guesttest.Const(36)), guesttest.Const(0)),
			// The key is the number of tokens, from 1.
			"tgi_grammar_key": guesttest.Join(guesttest.Load(guesttest.Free), guesttest.Const(1), guesttest.Add(),
				guesttest.Code{0xad}),
		},
	}
}

// grammarSet opens a set with a compiler "c" and a stepper "s".
func grammarSet(t testing.TB, o Options) *Set {
	t.Helper()
	o.Specs = append(o.Specs, spec(t, "c", compiler("ab").Wasm()), spec(t, "s", stepper().Wasm()))
	return open(t, o)
}

// compiled compiles a source with a plugin.
func compiled(t testing.TB, s *Set, plugin, params string) *Grammar {
	t.Helper()
	g, err := s.Compile(ctx, GrammarCall{Plugin: plugin, Source: []byte(theSource), Params: []byte(params)})
	if err != nil {
		t.Fatal(err)
	}
	return g
}

// constraint begins a text.
func constraint(t testing.TB, g *Grammar) *Constraint {
	t.Helper()
	c, err := g.Sequence(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// allowed lists the tokens of a mask.
func allowed(t testing.TB, c *Constraint) (out []uint32) {
	t.Helper()
	bits := make([]uint32, 9)
	constrained, err := c.Mask(bits)
	if err != nil || !constrained {
		t.Fatalf("mask: %v, %v", constrained, err)
	}
	for i := range uint32(288) {
		if bits[i/32]&(1<<(i%32)) != 0 {
			out = append(out, i)
		}
	}
	return out
}

func accept(t testing.TB, c *Constraint, tokens ...uint32) {
	t.Helper()
	for _, x := range tokens {
		if err := c.Accept(x); err != nil {
			t.Fatal(err)
		}
	}
}
