package plugins

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// TestGuardFailsClosed: only on_error = "skip" lets a request go on without a guard that fails before its first token.
func TestGuardFailsClosed(t *testing.T) {
	wasm := guesttest.Fake{
		Description: `{"name":"fake","version":"1","kinds":["guard"],"guard":{"hold":4}}`,
		Code: map[string]guesttest.Code{
			"tgi_guard_begin": guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(doTrap))), guesttest.Equal(),
				guesttest.When(guesttest.Trap()), guesttest.Long(0)),
			"tgi_guard_check": guesttest.Join(guesttest.Const(guesttest.StepAt+abi.GuardPosition),
				guesttest.Load(guesttest.StepAt+abi.GuardTokenCount), guesttest.Put(), guesttest.Const(0)),
		},
	}.Wasm()
	for _, onError := range []OnError{OnErrorFail, OnErrorStop, OnErrorSkip} {
		guard := spec(t, "g", wasm)
		guard.OnError = onError
		s := open(t, Options{Specs: []Spec{guard}})
		b, err := s.Bind(t.Context(), []Call{{Name: "g", Params: []byte(doTrap)}})
		if err != nil {
			t.Fatal(err)
		}
		err = b.Begin(t.Context(), prompt, 16, []uint64{1})
		if goesOn := onError == OnErrorSkip; goesOn != (err == nil) || !goesOn && !errors.Is(err, ErrFault) {
			t.Errorf("%s: %v", onError, err)
		}
		b.Close()
	}
}

// Where a guard of [judging] and its cases keep things.
const (
	textPlace = guesttest.Free
	biasPlace = guesttest.Free + 512
	editPlace = guesttest.Free + 1024
	zeroPlace = guesttest.Free + 65536
)

// judging is a guard that lets all go; where there are nine tokens it does something else.
func judging(instead ...guesttest.Code) []byte {
	step := func(field uint32) uint32 { return guesttest.StepAt + field }
	code := []guesttest.Code{guesttest.Const(step(abi.GuardPosition)), guesttest.Load(step(abi.GuardTokenCount)),
		guesttest.Put()}
	for _, x := range instead {
		code = append(code, guesttest.Load(step(abi.GuardTokenCount)), guesttest.Const(9), guesttest.Equal(),
			guesttest.When(x))
	}
	return guesttest.Fake{
		Description: `{"name":"g","version":"1","kinds":["guard"],"guard":{"hold":16,"verdicts":` +
			`["rewind","insert","replace"]}}`,
		Pages: 300,
		Data: map[uint32]string{
			textPlace: "good \xff bad </s>",
			biasPlace: entries(5, float32(math.NaN()), 5, float32(math.Inf(1)), 259, 0,
				5, float32(math.Inf(-1)), 5, 2e30),
			editPlace: edits(
				[4]uint32{8, 15, textPlace, 4},   // to the end and a byte
				[4]uint32{7, 9, textPlace, 4},    // a byte that went out
				[4]uint32{10, 9, textPlace, 4},   // backwards
				[4]uint32{9, 10, textPlace, 4},   // right,
				[4]uint32{9, 11, textPlace, 4},   // and then again
				[4]uint32{9, 11, 0xfffffff0, 40}, // words that are not in memory
				[4]uint32{9, 11, textPlace, 8},   // and no UTF-8
				[4]uint32{9, 10, zeroPlace, abi.MaxGuardText},
				[4]uint32{9, 10, zeroPlace, math.MaxUint32},
				[4]uint32{9, 10, textPlace + 11, 4}), // words that spell a token which ends a sequence
		},
		Code: map[string]guesttest.Code{"tgi_guard_check": guesttest.Join(append(code, guesttest.Const(0))...)},
	}.Wasm()
}

// answers is what a guard answers: a verdict, its position, and where and how many its words are.
func answers(kind, position, out, count uint32) guesttest.Code {
	return guesttest.Join(guesttest.Store(guesttest.StepAt+abi.GuardVerdict, kind),
		guesttest.Store(guesttest.StepAt+abi.GuardPosition, position),
		guesttest.Store(guesttest.StepAt+abi.GuardOut, out), guesttest.Store(guesttest.StepAt+abi.GuardOutCount, count))
}

// edits are edits of a replacement as they are in memory.
func edits(list ...[4]uint32) (out string) {
	for _, e := range list {
		for _, v := range e {
			out += string(binary.LittleEndian.AppendUint32(nil, v))
		}
	}
	return out
}

// edited is what a guard answers that has the client get other words for some bytes.
func edited(at, count uint32) guesttest.Code {
	return guesttest.Join(answers(abi.VerdictReplace, 9, at, count),
		guesttest.Store(guesttest.StepAt+abi.GuardFlags, abi.FlagEdits))
}

// ends ends a check with a status.
func ends(v uint32) guesttest.Code { return guesttest.Join(guesttest.Const(v), guesttest.Code{0x0f}) }

// checking is the number of tgi_guard_check among the functions of a guard.
var checking = uint32(len(abi.Common) + 2)

// hostileGuards are what a guard may do at a check of nine tokens, of which three are the prompt and two went out, with
// what the error says.
var hostileGuards = map[string]guesttest.Code{
	"unreachable":    guesttest.Trap(),
	"out of fuel":    guesttest.Spin(),
	"stack overflow": guesttest.Join(guesttest.Const(0), guesttest.Call(checking), guesttest.Code{0x1a}),
	"out of memory: it asked for 72089600 bytes": guesttest.Join(guesttest.Grow(800), guesttest.Trap()),
	"status 77: there are 0 and 1":               ends(77),
	"the guest failed without a text":            guesttest.Join(answers(0, 9, 0xfffffff0, 200), ends(1)),
	"the guest failed: good":                     guesttest.Join(answers(0, 9, textPlace, 4), ends(1)),
	"verdict 5: the last is 4":                   answers(5, 9, 0, 0),
	"verdict 4294967295: the last":               answers(math.MaxUint32, 9, 0, 0),
	"verdict stop: the description does not":     answers(abi.VerdictStop, 9, 0, 0),
	"flags 0x4":                                  guesttest.Store(guesttest.StepAt+abi.GuardFlags, 4),
	"verdict release: flag 2 (edits) is for":     guesttest.Store(guesttest.StepAt+abi.GuardFlags, abi.FlagEdits),
	// positions
	"verdict release: position 10, want 5 to 9":         answers(abi.VerdictRelease, 10, 0, 0),
	"verdict release: position 4, want 5 to 9":          answers(abi.VerdictRelease, 4, 0, 0),
	"verdict release: position 4294967295, want 5 to 9": answers(abi.VerdictRelease, math.MaxUint32, 0, 0),
	"verdict rewind: position 9, want 5 to 8":           answers(abi.VerdictRewind, 9, 0, 0),
	"verdict insert: position 0, want 5 to 9":           answers(abi.VerdictInsert, 0, textPlace, 4),
	"verdict replace: position 5, want 6 to 9":          answers(abi.VerdictReplace, 5, textPlace, 4),
	// words
	"biases: 8 entries of 8 bytes at 0xfffffff0": answers(abi.VerdictRewind, 8, 0xfffffff0, 8),
	"biases: address 0x4201 is not aligned to 4": answers(abi.VerdictRewind, 8, biasPlace+1, 1),
	"4294967295 biases, the limit is 4096":       answers(abi.VerdictRewind, 8, biasPlace, math.MaxUint32),
	"536870913 biases, the limit is 4096":        answers(abi.VerdictRewind, 8, biasPlace, 1<<29+1), // 8 bytes in 32 bits
	"bias 0 of token 5 is NaN":                   answers(abi.VerdictRewind, 8, biasPlace, 1),
	"bias 0 of token 5 is +Inf":                  answers(abi.VerdictRewind, 8, biasPlace+8, 1),
	"bias 0 of token 259, the vocabulary":        answers(abi.VerdictRewind, 8, biasPlace+16, 1),
	"bias 1 of token 5 is 2e+30, the most":       answers(abi.VerdictRewind, 8, biasPlace+24, 2),
	"insert: a text of 4294967295 bytes, the":    answers(abi.VerdictInsert, 9, textPlace, math.MaxUint32),
	"replace: a text of 4097 bytes, the limit":   answers(abi.VerdictReplace, 9, textPlace, abi.MaxGuardText+1),
	"insert: 9 entries of 1 bytes at 0xfffffff8": answers(abi.VerdictInsert, 9, 0xfffffff8, 9),
	"verdict insert: the text is not UTF-8":      answers(abi.VerdictInsert, 9, textPlace, 8),
	"verdict replace: the text is not UTF-8":     answers(abi.VerdictReplace, 9, textPlace, 8),
	"verdict insert: there is nothing to insert": answers(abi.VerdictInsert, 9, textPlace, 0),
	"insert: the text holds token 258, which":    answers(abi.VerdictInsert, 9, textPlace+11, 4),
	// edits
	"edit 0 takes bytes 8 to 15, want them in order from 8 to 14": edited(editPlace, 1),
	"edit 0 takes bytes 7 to 9, want them in order from 8 to 14":  edited(editPlace+16, 1),
	"edit 0 takes bytes 10 to 9, want them in order from 8 to 14": edited(editPlace+32, 1),
	"edit 1 takes bytes 9 to 11, want them in order from 10":      edited(editPlace+48, 2),
	"verdict replace: 40 entries of 1 bytes at 0xfffffff0":        edited(editPlace+80, 1),
	"the words of edit 0 are not UTF-8":                           edited(editPlace+96, 1),
	"replace: a text of more than 4096 bytes":                     edited(editPlace+112, 1),
	"verdict replace: a text of 4294967295 bytes, the limit":      edited(editPlace+128, 1),
	"4097 edits, the limit is 4096":                               edited(editPlace, abi.MaxEdits+1),
	"edits: 8 entries of 16 bytes at 0xfffffff0":                  edited(0xfffffff0, 8),
	"edits: address 0x": edited(editPlace+1, 1),
}

// TestEdits: a client gets the words of edits, and around them what the model wrote, in whole characters. All of it is
// text, whatever tokens it spells.
func TestEdits(t *testing.T) {
	for _, c := range []struct {
		text          string
		at            uint32
		want, refusal string
		edit          llm.TextEdit
	}{
		{"released, held", editPlace + 48, ",goodheld", "", llm.TextEdit{From: 1, To: 2, Words: "good"}},
		{"released, </s>", editPlace + 48, ",good</s>", "", llm.TextEdit{From: 1, To: 2, Words: "good"}},
		{"released, held", editPlace + 144, ",</s>held", "", llm.TextEdit{From: 1, To: 2, Words: "</s>"}},
		{"released,\u00e9held", editPlace + 48, "", "edit 0 takes bytes 9 to 10, which are no whole characters", llm.TextEdit{}},
	} {
		set := open(t, Options{Specs: []Spec{spec(t, "g", judging(edited(c.at, 1)))}})
		b := bind(t, set, 1, Call{Name: "g"})
		seq := b.Sequence(0)
		v, err := seq.Guards[0].Check(&llm.GuardView{Prompt: prompt, Output: make([]uint32, 9-len(prompt)), Released: 5,
			Text: []byte(c.text), Context: 8, Ends: []uint32{uint32(len(c.text))}})
		seq.Release()
		b.Close()
		if c.refusal != "" {
			if err == nil || !strings.Contains(err.Error(), c.refusal) {
				t.Errorf("%q: %+v, %v", c.text, v, err)
			}
			continue
		}
		special := slices.ContainsFunc(v.Tokens, func(id uint32) bool { return id > 256 }) // <s> and </s>
		if err != nil || v.Text != c.want || special || !slices.Equal(v.Edits, []llm.TextEdit{c.edit}) {
			t.Errorf("%q: %+v, %v", c.text, v, err)
		}
	}
}

// TestHostileGuards: a guard that traps, spins, takes memory or lies ends its sequence with an error that names the
// export and the cause, or, as its on_error says, stops it before what it was asked about, or is left out and told of.
// It is asked no more; that of another sequence goes on.
func TestHostileGuards(t *testing.T) {
	for want, code := range hostileGuards {
		wasm := judging(code)
		for _, onError := range []OnError{OnErrorFail, OnErrorStop, OnErrorSkip} {
			t.Run(fmt.Sprintf("%s, %s", want, onError), func(t *testing.T) {
				guard := spec(t, "g", wasm)
				guard.OnError = onError
				set := open(t, Options{Specs: []Spec{guard}})
				b := bind(t, set, 2, Call{Name: "g"})
				defer b.Close()
				ask := func(seq Sequence, n int) (llm.Verdict, error) {
					v := &llm.GuardView{Prompt: prompt, Output: make([]uint32, n-len(prompt)), Released: 2,
						Text: []byte("released, held"), Context: 8}
					for range len(v.Output) - v.Released {
						v.Ends = append(v.Ends, uint32(len(v.Text)))
					}
					if len(seq.Guards) != 1 {
						t.Fatalf("%d guards", len(seq.Guards))
					}
					return seq.Guards[0].Check(v)
				}
				seq, other := b.Sequence(0), b.Sequence(1)
				defer seq.Release()
				defer other.Release()
				if v, err := ask(seq, 8); err != nil || v.Kind != llm.VerdictRelease || v.Position != 5 {
					t.Fatalf("before: %+v, %v", v, err)
				}
				v, err := ask(seq, 9)
				switch onError {
				case OnErrorFail:
					if _, ok := errors.AsType[*sandbox.Fault](err); !ok || !strings.Contains(err.Error(), want) ||
						!strings.HasPrefix(err.Error(), "g: tgi_guard_check: ") {
						t.Errorf("it says %v", err)
					}
				case OnErrorStop:
					if err != nil || v.Kind != llm.VerdictStop || v.Position != 2 {
						t.Errorf("%+v, %v", v, err)
					}
				case OnErrorSkip:
					skipped := b.Skipped()
					if err != nil || v.Kind != llm.VerdictRelease || v.Position != 6 || !v.Done || len(skipped) != 1 ||
						!strings.HasPrefix(skipped[0].Reason, "tgi_guard_check: ") ||
						!strings.Contains(skipped[0].Reason, want) {
						t.Errorf("%+v, %v, skipped %+v", v, err, skipped)
					}
				}
				if v, err := ask(seq, 10); (err == nil) != (onError == OnErrorSkip) || v.Kind != llm.VerdictRelease {
					t.Errorf("afterwards: %+v, %v", v, err)
				}
				if v, err := ask(other, 10); err != nil || v.Kind != llm.VerdictRelease || v.Position != 7 || v.Done {
					t.Errorf("the other sequence: %+v, %v", v, err)
				}
			})
		}
	}
}
