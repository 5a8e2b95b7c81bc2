package logits_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/logits"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// fields is a process export that writes outputs of the step struct and returns a status.
func fields(status uint32, offsetsAndValues ...uint32) guesttest.Code {
	var code guesttest.Code
	for i := 0; i < len(offsetsAndValues); i += 2 {
		code = guesttest.Join(code, guesttest.Store(guesttest.StepAt+offsetsAndValues[i], offsetsAndValues[i+1]))
	}
	return guesttest.Join(code, guesttest.Const(status))
}

// words is data for a guest's memory.
func words(ws ...uint32) map[uint32]string {
	var b []byte
	for _, w := range ws {
		b = append(b, byte(w), byte(w>>8), byte(w>>16), byte(w>>24))
	}
	return map[uint32]string{guesttest.Free: string(b)}
}

const (
	free     = guesttest.Free
	minusInf = 0xff800000
	plusInf  = 0x7f800000
	notANum  = 0x7fc00000
	one      = 0x3f800000
	huge     = 0x7f7fffff // the greatest float32
)

// out returns the outputs of a mode with its array at Free.
func out(mode, count uint32, more ...uint32) guesttest.Code {
	return fields(0, append([]uint32{abi.StepMode, mode, abi.StepOut, free, abi.StepOutCount, count}, more...)...)
}

// processor begins a sequence of 5 tokens with a fake.
func processor(t *testing.T, f guesttest.Fake) (*logits.Processor, *guest.Session) {
	t.Helper()
	s := begin(t, load(t, f.Wasm(), guesttest.NewWords()), guest.Start{Prompt: prompt})
	return logits.NewProcessor(s), s
}

// TestFaults checks that each violation of a rule ends the sequence with a fault that names plugin, export and rule,
// and leaves the logits unchanged.
func TestFaults(t *testing.T) {
	limited := `{"name":"fake","kinds":["logits"],"modes":["deny"]}`
	for _, c := range []struct {
		name        string
		description string
		code        guesttest.Code
		data        map[uint32]string
		want        string
	}{
		{"trap", "", guesttest.Trap(), nil, "trap: unreachable"},
		{"endless", "", guesttest.Spin(), nil, "out of fuel: budget 4000000"},
		{"status 2", "", fields(2), nil, "status 2: there are 0 and 1"},
		{"status -1", "", fields(math.MaxUint32), nil, "status -1"},
		{"failed", "", fields(1, abi.StepOut, free, abi.StepOutCount, 4), map[uint32]string{free: "oh n"},
			"the guest failed: oh n"},
		{"failed, not UTF-8", "", fields(1, abi.StepOut, free, abi.StepOutCount, 4), map[uint32]string{free: "caf\xe9"},
			"the guest failed: caf\uFFFD"},
		{"failed, huge", "", fields(1, abi.StepOut, 0, abi.StepOutCount, 0x100000), nil, "the guest failed: \x00"},
		{"failed, outside", "", fields(1, abi.StepOut, 16, abi.StepOutCount, math.MaxUint32), nil,
			"text of 4294967295 bytes at 0x10 lies outside"},
		{"failed, silent", "", fields(1), nil, "the guest failed without a text"},
		{"mode 7", "", out(7, 0), nil, "mode 7: the last is 6"},
		{"mode huge", "", out(math.MaxUint32, 0), nil, "mode 4294967295: the last is 6"},
		{"mode undeclared", limited, out(abi.ModeAllow, 1), nil, "mode allow: the description does not declare it"},
		{"stop undeclared", limited, fields(0, abi.StepFlags, abi.FlagStop), nil,
			"flag stop: the description does not declare it"},
		{"force undeclared", limited, fields(0, abi.StepForce, free, abi.StepForceCount, 1), nil,
			"output force: the description does not declare it"},
		{"temperature undeclared", limited, fields(0, abi.StepTemperature, one), nil,
			"output temperature: the description does not declare it"},
		{"flag 4", "", fields(0, abi.StepFlags, 4), nil, "flags 0x4"},
		{"only with pass", "", fields(0, abi.StepFlags, abi.FlagOnly), nil, "flag only with mode pass"},
		{"only with deny", "", out(abi.ModeDeny, 1, abi.StepFlags, abi.FlagOnly), nil, "flag only with mode deny"},
		{"temperature negative", "", fields(0, abi.StepTemperature, 0xbf800000), nil, "temperature -1:"},
		{"temperature infinite", "", fields(0, abi.StepTemperature, plusInf), nil, "temperature +Inf:"},
		{"temperature -infinite", "", fields(0, abi.StepTemperature, minusInf), nil, "temperature -Inf:"},
		{"forces 257", "", fields(0, abi.StepForce, free, abi.StepForceCount, 257), nil,
			"257 forced tokens: the limit is 256"},
		{"forces 4 GiB", "", fields(0, abi.StepForce, free, abi.StepForceCount, math.MaxUint32), nil,
			"4294967295 forced tokens"},
		{"force outside", "", fields(0, abi.StepForce, 0xfffffffc, abi.StepForceCount, 256), nil,
			"forced tokens: 256 entries of 4 bytes at 0xfffffffc"},
		{"force misaligned", "", fields(0, abi.StepForce, free+2, abi.StepForceCount, 1), nil,
			"forced tokens: address 0x4002 is not aligned to 4"},
		{"force id", "", fields(0, abi.StepForce, free, abi.StepForceCount, 2), words(1, 259),
			"forced token 1 of 2: 259, the vocabulary has 259"},
		{"allow id", "", out(abi.ModeAllow, 2), words(1, 259),
			"mode allow: entry 1: token 259, the vocabulary has 259"},
		{"allow nothing", "", out(abi.ModeAllow, 0), nil, "mode allow: no token is left"},
		{"allow the forbidden", "", out(abi.ModeAllow, 2), words(3, 4), "mode allow: no token is left"},
		{"allow 4 GiB", "", out(abi.ModeAllow, math.MaxUint32), nil,
			"mode allow: out: 4294967295 entries of 4 bytes at 0x4000, the memory has 1048576"},
		// id 0 again and again
		{"allow many", "", fields(0, abi.StepMode, abi.ModeAllow, abi.StepOut, 0x40000, abi.StepOutCount, 150_000), nil,
			""},
		{"deny id", "", out(abi.ModeDeny, 2), words(1, math.MaxUint32), "mode deny: entry 1: token 4294967295"},
		{"deny misaligned", "", fields(0, abi.StepMode, abi.ModeDeny, abi.StepOut, free+1, abi.StepOutCount, 1), nil,
			"mode deny: out: address 0x4001"},
		{"deny outside", "", fields(0, abi.StepMode, abi.ModeDeny, abi.StepOut, 0x100000, abi.StepOutCount, 1), nil,
			"1 entries of 4 bytes at 0x100000"},
		{"sparse id", "", out(abi.ModeSparse, 1), words(259, one), "mode sparse: entry 0: token 259"},
		{"sparse NaN", "", out(abi.ModeSparse, 2), words(1, one, 2, notANum), "mode sparse: entry 1: NaN for token 2"},
		{"sparse +Inf", "", out(abi.ModeSparse, 1), words(1, plusInf), "mode sparse: entry 0: +Inf for token 1"},
		{"sparse overflow", "", out(abi.ModeSparse, 3), words(1, huge, 0, one, 1, huge), "make +Inf for token 1"},
		{"sparse only the forbidden", "", out(abi.ModeSparse, 1, abi.StepFlags, abi.FlagOnly), words(3, one),
			"mode sparse: no token is left"},
		{"sparse only denied", "", out(abi.ModeSparse, 2, abi.StepFlags, abi.FlagOnly), words(1, minusInf, 1, one),
			"mode sparse: no token is left"},
		{"sparse 4 GiB", "", out(abi.ModeSparse, 1<<29), nil, "536870912 entries of 8 bytes"},
		{"bitmask count", "", out(abi.ModeBitmask, 8), nil,
			"mode bitmask: out count 8, the vocabulary of 259 makes it 9"},
		{"bitmask empty", "", out(abi.ModeBitmask, 9), nil, "mode bitmask: no token is left"},
		{"bitmask the forbidden", "", out(abi.ModeBitmask, 9), words(0b11000, 0, 0, 0, 0, 0, 0, 0, 0xfffffff8),
			"mode bitmask: no token is left"},
		{"view id", "", out(abi.ModeView, 1), words(259, one), "mode topk: entry 0: token 259"},
		{"view NaN", "", out(abi.ModeView, 1), words(1, notANum), "mode topk: entry 0: NaN for token 1"},
		{"view twice", "", out(abi.ModeView, 3), words(1, one, 2, one, 1, one),
			"mode topk: entry 2: token 1 is listed twice"},
		{"view too many", "", out(abi.ModeView, 260), nil,
			"mode topk: out count 260, the vocabulary of 259 makes it 259"},
		{"view only denied", "", out(abi.ModeView, 1, abi.StepFlags, abi.FlagOnly), words(1, minusInf),
			"mode topk: no token is left"},
		{"view only nothing", "", out(abi.ModeView, 0, abi.StepFlags, abi.FlagOnly), nil,
			"mode topk: no token is left"},
		{"row count", "", out(abi.ModeRow, 258), nil, "mode row: out count 258, the vocabulary of 259 makes it 259"},
		{"row +Inf", "", out(abi.ModeRow, 259), map[uint32]string{free + 4*77: "\x00\x00\x80\x7f"},
			"mode row: +Inf for token 77"},
		{"row NaN", "", out(abi.ModeRow, 259), map[uint32]string{free + 4*258: "\x01\x00\x80\xff"},
			"mode row: NaN for token 258"},
		{"row dead", "", out(abi.ModeRow, 259), map[uint32]string{free: strings.Repeat("\x00\x00\x80\xff", 259)},
			"mode row: no token is left"},
	} {
		t.Run(c.name, func(t *testing.T) {
			p, s := processor(t, guesttest.Fake{Description: c.description, Data: c.data,
				Code: map[string]guesttest.Code{guest.Process: c.code}})
			row := rowAt(5, 259)
			row[3], row[4], row[5] = negInf, negInf, nan
			if strings.Contains(c.want, "no token is left") {
				deadEnd(t, p, s, row, c.want)
				if strings.Contains(c.name, "the forbidden") {
					return // it is allowed in another row
				}
				row = rowAt(5, 259)
			}
			before := bitsOf(row)
			_, err := p.Process(prompt, nil, row)
			if c.want == "" {
				if err != nil {
					t.Error(err)
				}
				return
			}
			var fault *sandbox.Fault
			if !errors.As(err, &fault) || fault.Module != "plugin" || fault.Func != guest.Process ||
				!strings.HasPrefix(err.Error(), "plugin: tgi_logits_process: ") ||
				!strings.Contains(err.Error(), c.want) {
				t.Errorf("%.300v; want %q", err, c.want)
			}
			if len(err.Error()) > 6000 {
				t.Errorf("error of %d bytes", len(err.Error()))
			}
			if !slices.Equal(bitsOf(row), before) {
				t.Error("the row changed")
			}
			if _, err := p.Process(prompt, nil, row); !errors.Is(err, sandbox.ErrBroken) {
				t.Errorf("a further call: %v", err)
			}
			if n := s.Guest().Stats().Faults.All(); n != 1 {
				t.Errorf("%d faults counted", n)
			}
		})
	}
}

// deadEnd checks that an answer which forbids all that a row allows is no fault where the row forbade some before.
func deadEnd(t *testing.T, p *logits.Processor, s *guest.Session, row []float32, want string) {
	t.Helper()
	before := bitsOf(row)
	_, err := p.Process(prompt, nil, row)
	if !errors.Is(err, llm.ErrDeadEnd) || errors.As(err, new(*sandbox.Fault)) || !strings.Contains(err.Error(), want) {
		t.Errorf("a dead end: %v", err)
	}
	if !slices.Equal(bitsOf(row), before) {
		t.Error("the row changed")
	}
	if n := s.Guest().Stats().Faults.All(); n != 0 {
		t.Errorf("a dead end counts as %d faults", n)
	}
}

func bitsOf(row []float32) []uint32 {
	out := make([]uint32, len(row))
	for i, v := range row {
		out[i] = math.Float32bits(v)
	}
	return out
}

// TestLastWords checks that a fault shows the guest's last output.
func TestLastWords(t *testing.T) {
	say := guesttest.Join(guesttest.Const(abi.LevelError), guesttest.Const(free), guesttest.Const(5), guesttest.Call(0))
	for _, end := range []guesttest.Code{guesttest.Trap(), fields(2)} {
		p, _ := processor(t, guesttest.Fake{Imports: []string{"log"}, Data: map[uint32]string{free: "hello"},
			Code: map[string]guesttest.Code{guest.Process: guesttest.Join(say, end)}})
		if _, err := p.Process(prompt, nil, rowAt(5, 259)); err == nil ||
			!strings.HasSuffix(err.Error(), `; last printed: "hello"`) {
			t.Error(err)
		}
	}
}

// TestLongListsCost checks that a guest is charged for the host's work on the lists that it returns.
func TestLongListsCost(t *testing.T) {
	p, _ := processor(t, guesttest.Fake{Description: guesttest.Ahead, Pages: 200, Code: map[string]guesttest.Code{
		guest.Process: fields(0, abi.StepMode, abi.ModeSparse, abi.StepOut, 0x100000, abi.StepOutCount, 400_000)}})
	row := rowAt(5, 259)
	var err error
	steps := 0
	for ; err == nil && steps < 100; steps++ {
		_, err = p.Process(prompt, make([]uint32, steps), row)
	}
	if steps < 2 || steps > 3 || !strings.Contains(err.Error(), "the host's work on it needs 3200000 fuel") {
		t.Errorf("after %d steps: %v", steps, err)
	}
}

func TestSamplerFaults(t *testing.T) {
	for want, code := range map[string]guesttest.Code{
		"index -1: the guest failed": guesttest.Const(math.MaxUint32),
		"index 3 of 3 candidates":    guesttest.Const(3),
		"index 2147483647 of 3":      guesttest.Const(math.MaxInt32),
		"trap: unreachable":          guesttest.Trap(),
		"out of fuel":                guesttest.Spin(),
	} {
		f := guesttest.Fake{Description: guesttest.Both, Code: map[string]guesttest.Code{guest.Sample: code}}
		p := logits.NewSampler(begin(t, load(t, f.Wasm(), guesttest.NewWords()), guest.Start{}))
		_, err := p.Sample([]uint32{1, 2, 3}, []float32{3, 2, 1}, []float32{-1, -2, -3})
		if err == nil || !strings.HasPrefix(err.Error(), "plugin: tgi_sampler_sample: ") ||
			!strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestSamplerSeesTheFirst checks that of more candidates than requested a sampler gets only the first.
func TestSamplerSeesTheFirst(t *testing.T) {
	f := guesttest.Fake{Description: guesttest.Both, Code: map[string]guesttest.Code{
		guest.Sample: guesttest.Join(guesttest.Arg(1), guesttest.Const(1), guesttest.Sub())}}
	s := begin(t, load(t, f.Wasm(), guesttest.NewWords()), guest.Start{})
	p := logits.NewSampler(s)
	if p.Candidates() != 8 {
		t.Fatalf("%d candidates", p.Candidates())
	}
	ids := []uint32{9, 8, 7, 6, 5, 4, 3, 2, 1, 0}
	values := []float32{9, 8, 7, 6, 5, 4, 3, 2, 1, negInf}
	if i, err := p.Sample(ids, values, values); err != nil || i != 7 {
		t.Errorf("%d, %v", i, err)
	}
	room := s.Memory()[s.Rooms().Candidates:]
	if got := string(room[7*12:][:12]); got != "\x02\x00\x00\x00\x00\x00\x00\x40\x00\x00\x00\x40" {
		t.Errorf("candidate 7: % x", got)
	}
	if _, err := p.Sample(nil, nil, nil); err == nil || !strings.HasPrefix(err.Error(), "BUG: ") {
		t.Error(err)
	}
}
