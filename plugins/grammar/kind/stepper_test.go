package kind

import (
	"encoding/binary"
	"errors"
	"maps"
	"reflect"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// words is a mask of the test's vocabulary, 259 tokens in 9 words.
const words = 9

// maskCache is a Masks for tests.
type maskCache map[uint64][]uint32

func (m maskCache) Get(key uint64) []uint32        { return m[key] }
func (m maskCache) Put(key uint64, words []uint32) { m[key] = words }

func maskOf(tokens ...uint32) []uint32 {
	bits := make([]uint32, words)
	for _, t := range tokens {
		bits[t/32] |= 1 << (t % 32)
	}
	return bits
}

// steps is a guest that allows the letters a, b and the end token, and takes its states' keys and its forced tokens
// from lists. code replaces exports.
func steps(keys, force []uint64, code map[string]guesttest.Code) guesttest.Fake {
	list := func(values []uint64) string {
		var b []byte
		for _, v := range values {
			b = binary.LittleEndian.AppendUint64(b, v)
		}
		return string(b)
	}
	// Bits beyond the vocabulary are ignored.
	f := guesttest.Fake{
		Description: guesttest.Steps,
		Data: map[uint32]string{
			maskAt: guesttest.Bytes(append(maskOf('a', 'b', 258)[:8], 1<<2|1<<31)...), listAt: list(keys),
			listAt + 0x80: list(force), textAt: guesttest.Bytes('x', 'y'),
		},
		Code: map[string]guesttest.Code{
			mask: guesttest.Join(guesttest.Copy(guesttest.Arg(0), guesttest.Const(maskAt), guesttest.Const(4*words)),
				guesttest.Const(0)),
			key:    guesttest.Next(resultAt, listAt),
			forced: guesttest.Next(resultAt+8, listAt+0x80),
		},
	}
	maps.Copy(f.Code, code)
	return f
}

func begun(t testing.TB, f guesttest.Fake, m Masks) *Stepper {
	t.Helper()
	p, err := Begin(open(t, f), Call{Language: "count", Source: []byte("x")}, m)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// TestSteps checks that a mask is requested once per state key, and never while tokens are forced.
func TestSteps(t *testing.T) {
	m := maskCache{}
	p := begun(t, steps([]uint64{5, 0, 5, 6}, []uint64{0, 0, abi.Pack(textAt, 2), 0, 0}, nil), m)
	bits := make([]uint32, words)
	for i, want := range [][]uint32{maskOf('a', 'b', 258), maskOf('a', 'b', 258), maskOf('x'), maskOf('y'), maskOf(7),
		maskOf('a', 'b', 258)} {
		if i == 4 {
			m[5] = maskOf(7) // to show that the mask comes from the cache
		}
		for range 2 { // a second call changes only the forced tokens
			if i != 2 && i != 3 {
				break
			}
			if _, err := p.Mask(bits); err != nil {
				t.Fatal(err)
			}
		}
		if constrained, err := p.Mask(bits); err != nil || !constrained || !reflect.DeepEqual(bits, want) {
			t.Errorf("step %d: %v %v %x, want %x", i, constrained, err, bits, want)
		}
		token := []uint32{'a', 'b', 'x', 'y', 'a', 258}[i]
		if err := p.Accept(token); err != nil {
			t.Fatal(err)
		}
	}
	if len(m) != 2 || !reflect.DeepEqual(m[6], maskOf('a', 'b', 258)) {
		t.Errorf("cached %x", m)
	}
}

func TestMaskAll(t *testing.T) {
	m := maskCache{}
	p := begun(t, steps([]uint64{3}, make([]uint64, 8), map[string]guesttest.Code{mask: guesttest.Const(abi.MaskAll),
		key: guesttest.Long(3)}), m)
	for range 2 {
		if constrained, err := p.Mask(make([]uint32, words)); constrained || err != nil {
			t.Errorf("got %v, %v", constrained, err)
		}
		if err := p.Accept(1); err != nil {
			t.Fatal(err)
		}
	}
	if got, ok := m[3]; !ok || len(got) != 0 {
		t.Errorf("cached %v", m)
	}
}

// TestAcceptMany checks that more tokens than fit the buffer are passed in parts.
func TestAcceptMany(t *testing.T) {
	// The guest adds up the numbers of tokens.
	count := guesttest.Join(guesttest.Const(resultAt+16), guesttest.Load(resultAt+16), guesttest.Arg(1),
		guesttest.Add(), guesttest.Put(), guesttest.Const(0))
	p := begun(t, steps(nil, nil, map[string]guesttest.Code{accept: count}), maskCache{})
	if err := p.Accept(make([]uint32, 2*guest.AcceptRoom+5)...); err != nil {
		t.Fatal(err)
	}
	if got := binary.LittleEndian.Uint32(p.s.Memory()[resultAt+16:]); got != 2*guest.AcceptRoom+5 {
		t.Errorf("the guest received %d tokens", got)
	}
}

func TestStepsRefuse(t *testing.T) {
	no := steps(nil, nil, map[string]guesttest.Code{begin: guesttest.Long(abi.Pack(textAt, 1))})
	var refusal *guest.Refusal
	if _, err := Begin(open(t, no), Call{}, maskCache{}); !errors.As(err, &refusal) || refusal.Text != "x" {
		t.Errorf("got %v", err)
	}
	p := begun(t, steps(nil, nil, map[string]guesttest.Code{accept: guesttest.Const(abi.StatusFailed)}), maskCache{})
	if err := p.Accept('z'); !errors.Is(err, ErrRejected) {
		t.Errorf("got %v", err)
	}
}

// TestStepRules checks that a result which breaks a rule is a fault of its export.
func TestStepRules(t *testing.T) {
	longs := func(v uint64) map[string]guesttest.Code { return map[string]guesttest.Code{forced: guesttest.Long(v)} }
	for name, c := range map[string]struct {
		code   map[string]guesttest.Code
		export string
		want   string
	}{
		"no token": {map[string]guesttest.Code{mask: guesttest.Const(0)}, mask, "no token is allowed"},
		"failed":   {map[string]guesttest.Code{mask: guesttest.Const(abi.StatusFailed)}, mask, "status 1"},
		"mask":     {map[string]guesttest.Code{mask: guesttest.Const(9)}, mask, "status 9"},
		"accept": {map[string]guesttest.Code{accept: guesttest.Const(0xffffffff)}, accept,
			"status -1 is neither 0 nor 1"},
		"many":       {longs(abi.Pack(textAt, abi.MaxForced+1)), forced, "257 tokens, the limit is 256"},
		"unaligned":  {longs(abi.Pack(textAt+2, 1)), forced, "1 tokens at 0x4402: they are to be aligned to 4"},
		"outside":    {longs(abi.Pack(0xfffffffc, 2)), forced, "2 tokens at 0xfffffffc"},
		"vocabulary": {longs(abi.Pack(maskAt, 9)), forced, "the vocabulary has 259"},
		"trap":       {map[string]guesttest.Code{key: guesttest.Trap()}, key, "unreachable"},
	} {
		p := begun(t, steps(make([]uint64, 8), make([]uint64, 8), c.code), maskCache{})
		_, err := p.Mask(make([]uint32, words))
		if c.export == accept {
			err = p.Accept('a')
		}
		var fault *sandbox.Fault
		if !errors.As(err, &fault) || fault.Func != c.export || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a fault of %s: %s", name, err, c.export, c.want)
		}
		if _, err := p.Mask(make([]uint32, words)); !errors.Is(err, sandbox.ErrBroken) && !p.asked {
			t.Errorf("%s: called again: %v", name, err)
		}
	}
}
