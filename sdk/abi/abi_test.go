package abi_test

import (
	"encoding/binary"
	"fmt"
	"go/parser"
	"go/token"
	"math"
	"strings"
	"testing"

	"tgi/sdk/abi"
)

func ExamplePack() {
	for _, v := range [][2]uint32{{0, 0}, {0x10450, 12}, {0x400, 5}, {0x80000000, 1}} {
		p := abi.Pack(v[0], v[1])
		fmt.Printf("%#x %d: 0x%016x (%d)\n", v[0], v[1], p, int64(p))
	}
	fmt.Println(abi.Unpack(0x000104500000000c))
	// Output:
	// 0x0 0: 0x0000000000000000 (0)
	// 0x10450 12: 0x000104500000000c (286216620605452)
	// 0x400 5: 0x0000040000000005 (4398046511109)
	// 0x80000000 1: 0x8000000000000001 (-9223372036854775807)
	// 66640 12
}

func ExampleFunc_String() {
	for _, f := range append(append(abi.Common[:2:2], abi.Logits...), abi.Sampler...) {
		fmt.Println(f)
	}
	// Output:
	// tgi_abi_v1() -> ()
	// tgi_alloc(i32) -> i32
	// tgi_logits_step() -> i32
	// tgi_logits_begin(i32, i32, i32, i32) -> i64
	// tgi_logits_process(i32) -> i32
	// tgi_sampler_begin(i32, i32, i32, i32) -> i64
	// tgi_sampler_sample(i32, i32) -> i32
}

// TestWorkedExamples holds the bytes that the comments show against the layouts.
func TestWorkedExamples(t *testing.T) {
	le := binary.LittleEndian
	f32 := func(f float64) uint32 { return math.Float32bits(float32(f)) }
	words := func(ws ...uint32) (b []byte) {
		for _, w := range ws {
			b = le.AppendUint32(b, w)
		}
		return b
	}
	for _, c := range []struct {
		name string
		got  []byte
		want string
	}{
		{"ModeAllow", words(5, 258), "05 00 00 00 02 01 00 00"},
		{"ModeSparse", words(5, f32(1.5), 258, f32(math.Inf(-1))), "05 00 00 00 00 00 c0 3f 02 01 00 00 00 00 80 ff"},
		{"ModeBitmask", words(1<<0|1<<5, 1<<(33%32)), "21 00 00 00 02 00 00 00"},
		{"ModeView", words(9, f32(2)), "09 00 00 00 00 00 00 40"},
		{"CandidateSize", words(258, f32(1.5), f32(math.Log(0.5))), "02 01 00 00 00 00 c0 3f 18 72 31 bf"},
		{"step", words(abi.StepSize, 0x1000, 7, 5, 1, 0x1800, 3, 0, 0, abi.ModeDeny, 0x2000, 2, 0, f32(0.5), 0, 0),
			"40 00 00 00 00 10 00 00 07 00 00 00 05 00 00 00 01 00 00 00 00 18 00 00 03 00 00 00 00 00 00 00 " +
				"00 00 00 00 02 00 00 00 00 20 00 00 02 00 00 00 00 00 00 00 00 00 00 3f 00 00 00 00 00 00 00 00"},
		{"guard", words(abi.GuardSize, 0x1000, 9, 5, 1, 6, 0x2000, uint32(len("ab cdé")), uint32(len("ab")), 0x3000,
			abi.ReasonNone, abi.VerdictRelease, 8, 0, 0, 0),
			"40 00 00 00 00 10 00 00 09 00 00 00 05 00 00 00 01 00 00 00 06 00 00 00 00 20 00 00 07 00 00 00 " +
				"02 00 00 00 00 30 00 00 00 00 00 00 00 00 00 00 08 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00"},
		{"RenderedSize", words(abi.StatusOK, 0x2000, uint32(len("<|user|>Hi</s>")), 0x3000, 1),
			"00 00 00 00 00 20 00 00 0e 00 00 00 00 30 00 00 01 00 00 00"},
		{"SpanSize", words(uint32(len("<|user|>")), uint32(len("<|user|>Hi"))), "08 00 00 00 0a 00 00 00"},
		{"EventSize", words(abi.EventBegin, 0, 0, 0, 0x2000, 8, 0x2008, 2, 0),
			"02 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 00 20 00 00 08 00 00 00 08 20 00 00 02 00 00 00 00 00 00 00"},
	} {
		if got := fmt.Sprintf("% x", c.got); got != c.want {
			t.Errorf("%s: comment says\n%s\nlayout gives\n%s", c.name, c.want, got)
		}
	}
}

// TestStepFields: the fields follow one another without a gap and fill the struct.
func TestStepFields(t *testing.T) {
	at := 0
	for i, off := range []int{abi.StepBytes, abi.StepTokens, abi.StepTokenCount, abi.StepPromptCount, abi.StepNewCount,
		abi.StepView, abi.StepViewCount, abi.StepRow, abi.StepRowCount, abi.StepMode, abi.StepOut, abi.StepOutCount,
		abi.StepFlags, abi.StepTemperature, abi.StepForce, abi.StepForceCount} {
		if off != at {
			t.Errorf("field %d is at %d, want %d", i, off, at)
		}
		at += 4
	}
	if at != abi.StepSize {
		t.Errorf("fields end at %d, StepSize is %d", at, abi.StepSize)
	}
}

// TestFieldsOfResults: the same for what templates and parsers return.
func TestFieldsOfResults(t *testing.T) {
	for name, c := range map[string]struct {
		size   int
		fields []int
	}{
		"Guard": {abi.GuardSize, []int{abi.GuardBytes, abi.GuardTokens, abi.GuardTokenCount, abi.GuardPromptCount,
			abi.GuardNewCount, abi.GuardReleased, abi.GuardText, abi.GuardTextBytes, abi.GuardContext, abi.GuardEnds,
			abi.GuardReason, abi.GuardVerdict, abi.GuardPosition, abi.GuardOut, abi.GuardOutCount, abi.GuardFlags}},
		"Rendered": {abi.RenderedSize, []int{abi.RenderedStatus, abi.RenderedText, abi.RenderedTextBytes,
			abi.RenderedSpans, abi.RenderedSpanCount}},
		"Event": {abi.EventSize, []int{abi.EventKind, abi.EventIndex, abi.EventText, abi.EventTextBytes, abi.EventName,
			abi.EventNameBytes,
			abi.EventID, abi.EventIDBytes, abi.EventReason}},
	} {
		for i, off := range c.fields {
			if off != 4*i {
				t.Errorf("%s: field %d is at %d", name, i, off)
			}
		}
		if c.size != 4*len(c.fields) {
			t.Errorf("%s: %d fields, size %d", name, len(c.fields), c.size)
		}
	}
	if abi.SpanSize != 8 || abi.EventFailed+1 != 6 || abi.FailedTooMany+1 != 5 {
		t.Error("the README says otherwise")
	}
}

func TestMaskWords(t *testing.T) {
	for vocab, want := range map[uint32]uint32{0: 0, 1: 1, 32: 1, 33: 2, 128256: 4008, math.MaxUint32: 1 << 27} {
		if got := abi.MaskWords(vocab); got != want {
			t.Errorf("MaskWords(%d) = %d, want %d", vocab, got, want)
		}
	}
}

func TestNames(t *testing.T) {
	seen := map[string]bool{}
	all := [][]abi.Func{abi.Common}
	for _, kind := range []string{abi.KindLogits, abi.KindSampler, abi.KindTemplate, abi.KindTools, abi.KindGrammar,
		abi.KindGuard, abi.KindDraft} {
		forms := abi.Forms(kind)
		if len(forms) == 0 || forms[0][0].Name != abi.Exports(kind)[0].Name {
			t.Errorf("%s has %d forms", kind, len(forms))
		}
		all = append(all, forms...)
	}
	for _, fs := range all {
		if len(fs) == 0 {
			t.Error("a kind without exports")
		}
		for _, f := range fs {
			if seen[f.Name] || !strings.HasPrefix(f.Name, abi.ReservedPrefix) {
				t.Errorf("export %q is there twice or lacks the prefix %q", f.Name, abi.ReservedPrefix)
			}
			seen[f.Name] = true
		}
	}
	if abi.Exports("other") != nil || abi.Forms("other") != nil {
		t.Error("kind other is not part of this version")
	}
	if len(abi.ModeNames) != abi.ModeRow+1 {
		t.Errorf("%d mode names for %d modes", len(abi.ModeNames), abi.ModeRow+1)
	}
	for typ, want := range map[abi.Type]string{abi.I32: "i32", abi.I64: "i64", abi.F32: "f32", abi.F64: "f64",
		0: "unknown type"} {
		if typ.String() != want {
			t.Errorf("Type(%#x) is %q, want %q", byte(typ), typ, want)
		}
	}
}

// TestImportsNothing: the contract is one file that a guest in any language can read.
func TestImportsNothing(t *testing.T) {
	f, err := parser.ParseFile(token.NewFileSet(), "abi.go", nil, parser.ImportsOnly)
	if err != nil {
		t.Fatal(err)
	}
	if len(f.Imports) != 0 {
		t.Errorf("abi.go imports %s", f.Imports[0].Path.Value)
	}
}
