package logits_test

import (
	"encoding/binary"
	"errors"
	"math"
	"slices"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/logits"
	"tgi/sdk/abi"
)

// kept is a process export that copies its struct to Free and then runs code.
func kept(code guesttest.Code) guesttest.Code {
	var copies guesttest.Code
	for at := uint32(0); at < abi.StepSize; at += 4 {
		copies = guesttest.Join(copies, guesttest.Const(free+0x1000+at), guesttest.Load(guesttest.StepAt+at),
			guesttest.Put())
	}
	return guesttest.Join(copies, code)
}

func seen(s *guest.Session, field uint32) uint32 {
	return binary.LittleEndian.Uint32(s.Memory()[free+0x1000+field:])
}

// TestStepStruct checks that every input is as sdk/abi specifies, and that every output is reset.
func TestStepStruct(t *testing.T) {
	p, s := processor(t, guesttest.Fake{Code: map[string]guesttest.Code{
		guest.Process: kept(fields(0, abi.StepMode, 0, abi.StepOut, 77, abi.StepOutCount, 77, abi.StepForce, 78)),
	}})
	row := rowAt(5, 259)
	row[9], row[10], row[200] = 100, 100, nan
	for i, output := range [][]uint32{nil, {1}, {1, 2}, {1, 2, 3, 4}} {
		if e, err := p.Process(prompt, output, row); err != nil || e.Force != -1 || e.Stop ||
			e.Temperature == e.Temperature {
			t.Fatal(e, err)
		}
		r := s.Rooms()
		n := uint32(5 + len(output))
		want := map[uint32]uint32{
			abi.StepBytes: abi.StepSize, abi.StepTokenCount: n, abi.StepPromptCount: 5, abi.StepNewCount: []uint32{0, 1,
				1, 2}[i],
			abi.StepView: r.View, abi.StepViewCount: 4, abi.StepRow: r.Row, abi.StepRowCount: 259,
			abi.StepMode: 0, abi.StepOut: 0, abi.StepOutCount: 0, abi.StepFlags: 0, abi.StepForce: 0,
			abi.StepForceCount: 0,
		}
		for field, v := range want {
			if got := seen(s, field); got != v {
				t.Errorf("output %v: field at %d: %d, want %d", output, field, got, v)
			}
		}
		if v := math.Float32frombits(seen(s, abi.StepTemperature)); v == v {
			t.Errorf("temperature %v", v)
		}
		tokens := s.Memory()[seen(s, abi.StepTokens):]
		for i, id := range slices.Concat(prompt, output) {
			if got := binary.LittleEndian.Uint32(tokens[4*i:]); got != id {
				t.Errorf("token %d: %d, want %d", i, got, id)
			}
		}
		for id, v := range row {
			if got := binary.LittleEndian.Uint32(s.Memory()[int(r.Row)+4*id:]); got != math.Float32bits(v) {
				t.Fatalf("row: token %d: %x", id, got)
			}
		}
		if got := binary.LittleEndian.Uint64(s.Memory()[r.View+8:]); got != uint64(0x42c80000)<<32|10 {
			t.Errorf("second of the view: %x", got)
		}
	}
}

// TestAhead checks that only a guest that reads no logits is called ahead, once for each position.
func TestAhead(t *testing.T) {
	deny := map[string]guesttest.Code{guest.Process: kept(out(abi.ModeDeny, 1, abi.StepTemperature, one))}
	p, s := processor(t, guesttest.Fake{Description: guesttest.Ahead, Code: deny, Data: words(42)})
	if !p.Ahead() {
		t.Fatal("it needs neither view nor row")
	}
	calls := func() uint64 { return s.Guest().Stats().Calls - 1 } // begin
	var output []uint32
	for i := range uint64(5) {
		for range 2 {
			if err := p.Prepare(prompt, output); err != nil || calls() != i+1 {
				t.Fatal(calls(), err)
			}
		}
		row := rowAt(len(output), 259)
		want := slices.Clone(row)
		want[42] = negInf
		e, err := p.Process(prompt, output, row)
		if err != nil || calls() != i+1 || e.Temperature != 1 || !slices.Equal(row, want) {
			t.Fatal(calls(), e, err)
		}
		output = append(output, uint32(i))
	}
	if err := p.Prepare(prompt, output); err != nil {
		t.Fatal(err)
	}
	s.Close()
	if _, err := p.Process(prompt, output, rowAt(0, 259)); !errors.Is(err, sandbox.ErrClosed) {
		t.Errorf("after Close: %v", err)
	}

	p, s = processor(t, guesttest.Fake{Code: deny, Data: words(42)})
	if err := p.Prepare(prompt, nil); err != nil || p.Ahead() || calls() != 0 {
		t.Errorf("a guest that needs the row was called ahead: %d calls, %v", calls(), err)
	}
}

// TestForce checks that each step returns one forced token, without a call of the guest and without a change of the
// row.
func TestForce(t *testing.T) {
	force := kept(fields(0, abi.StepForce, free, abi.StepForceCount, 3, abi.StepTemperature, one, abi.StepMode,
		abi.ModeDeny,
		abi.StepOut, free, abi.StepOutCount, 3))
	for _, description := range []string{"", guesttest.Ahead} {
		p, s := processor(t, guesttest.Fake{Description: description,
			Code: map[string]guesttest.Code{guest.Process: force}, Data: words(7, 8, 9)})
		calls := func() uint64 { return s.Guest().Stats().Calls - 1 }
		step := func(output []uint32) logits.Effect {
			t.Helper()
			row := rowAt(5, 259)
			if err := p.Prepare(prompt, output); err != nil {
				t.Fatal(err)
			}
			e, err := p.Process(prompt, output, row)
			if err != nil || !slices.Equal(row, rowAt(5, 259)) {
				t.Fatal("the row changed, or", err)
			}
			return e
		}
		e := step(nil)
		if e.Force != 7 || e.Temperature != 1 || calls() != 1 {
			t.Fatal(e, calls())
		}
		if e = step([]uint32{7}); e.Force != 8 || e.Temperature == e.Temperature || calls() != 1 {
			t.Fatal(e, calls())
		}
		if e = step([]uint32{7, 8}); e.Force != 9 || calls() != 1 {
			t.Fatal(e, calls())
		}
		if e = step([]uint32{7, 8, 9}); e.Force != 7 || calls() != 2 || seen(s, abi.StepNewCount) != 3 {
			t.Fatal(e, calls(), seen(s, abi.StepNewCount))
		}
		// Another token was picked: the rest is dropped and the guest is called.
		if e = step([]uint32{7, 8, 9, 1}); e.Force != 7 || calls() != 3 || seen(s, abi.StepNewCount) != 1 {
			t.Fatal(e, calls(), seen(s, abi.StepNewCount))
		}
	}
}

// TestStop checks that stop overrides all other outputs, row and queue.
func TestStop(t *testing.T) {
	p, _ := processor(t, guesttest.Fake{Code: map[string]guesttest.Code{guest.Process: fields(0, abi.StepFlags,
		abi.FlagStop,
		abi.StepForce, free, abi.StepForceCount, 1, abi.StepMode, abi.ModeAllow)}})
	row := rowAt(5, 259)
	if e, err := p.Process(prompt, nil, row); err != nil || !e.Stop || e.Force != -1 ||
		!slices.Equal(row, rowAt(5, 259)) {
		t.Errorf("%+v, %v", e, err)
	}
}

// TestMemoryThatGrew checks that an answer may be in memory that the call added, and that such an instance is not
// reused.
func TestMemoryThatGrew(t *testing.T) {
	p, s := processor(t, guesttest.Fake{Code: map[string]guesttest.Code{guest.Process: guesttest.Join(guesttest.Grow(1),
		fields(0, abi.StepMode, abi.ModeDeny, abi.StepOut, 0x100000, abi.StepOutCount, 2))}})
	for i := range 5 {
		row := rowAt(5, 259)
		want := slices.Clone(row)
		want[0] = negInf
		if _, err := p.Process(prompt, make([]uint32, i), row); err != nil || !slices.Equal(row, want) {
			t.Fatalf("step %d: %v, or the row is wrong", i, err)
		}
	}
	s.Close()
	if stats := s.Guest().Stats().Instances; stats.Discarded != 1 || stats.Reset != 0 {
		t.Errorf("%+v", stats)
	}
}

// TestTokensInOneGo checks that a guest's tokens do not depend on how many it gets per call.
func TestTokensInOneGo(t *testing.T) {
	f := guesttest.Fake{Description: guesttest.Ahead}
	g := load(t, f.Wasm(), guesttest.NewWords())
	output := make([]uint32, 9000)
	for i := range output {
		output[i] = uint32(i * 7919)
	}
	sequence := func(steps ...int) []byte {
		s := begin(t, g, guest.Start{Prompt: prompt})
		p := logits.NewProcessor(s)
		for _, n := range steps {
			if _, err := p.Process(prompt, output[:n], rowAt(0, 259)); err != nil {
				t.Fatal(err)
			}
		}
		m := s.Memory()
		at := binary.LittleEndian.Uint32(m[guesttest.StepAt+abi.StepTokens:])
		return slices.Clone(m[at:][:4*(len(prompt)+len(output))])
	}
	want := sequence(len(output))
	var all []int
	for n := range len(output) + 1 {
		all = append(all, n)
	}
	if !slices.Equal(sequence(all...), want) {
		t.Error("tokens passed one by one differ from those passed at once")
	}
	if !slices.Equal(sequence(0, 1, 5, 4091, 4092, 8188, 9000), want) {
		t.Error("tokens passed in pieces differ from those passed at once")
	}
}

// TestBugs covers a row or a history that does not belong to the sequence.
func TestBugs(t *testing.T) {
	p, _ := processor(t, guesttest.Fake{})
	for _, c := range []struct{ prompt, row int }{{5, 258}, {5, 260}, {4, 259}, {6, 259}} {
		if _, err := p.Process(make([]uint32, c.prompt), nil, make([]float32, c.row)); err == nil ||
			err.Error()[:5] != "BUG: " {
			t.Errorf("%+v: %v", c, err)
		}
	}
}

// allocations returns the allocations of f. They are counted for the whole process, in which a pool may build instances
// at the same time, so it takes the minimum of several counts.
func allocations(f func()) float64 {
	least := math.Inf(1)
	for range 20 {
		least = min(least, testing.AllocsPerRun(20, f))
	}
	return least
}

// TestNothingAllocates checks that steps allocate nothing: without an effect, in each mode, forced, sampled.
func TestNothingAllocates(t *testing.T) {
	if raceDetector {
		t.Skip("sync.Pool drops items at random under the race detector")
	}
	for name, code := range map[string]guesttest.Code{
		"pass":     fields(0),
		"allow":    out(abi.ModeAllow, 3),
		"deny":     out(abi.ModeDeny, 3),
		"sparse":   out(abi.ModeSparse, 2, abi.StepFlags, abi.FlagOnly),
		"view":     out(abi.ModeView, 1),
		"row":      out(abi.ModeRow, 259),
		"force":    fields(0, abi.StepForce, free, abi.StepForceCount, 2),
		"stopping": fields(0, abi.StepFlags, abi.FlagStop, abi.StepTemperature, one),
	} {
		p, _ := processor(t, guesttest.Fake{Code: map[string]guesttest.Code{guest.Process: code}})
		row, output := rowAt(5, 259), make([]uint32, 0, 1000)
		step := func() {
			if _, err := p.Process(prompt, output, row); err != nil {
				t.Fatal(name, err)
			}
			output = append(output, 0)
		}
		step()
		if n := allocations(step); n > 0 {
			t.Errorf("%s: %v allocations for each step", name, n)
		}
	}
	f := guesttest.Fake{Description: guesttest.Both}
	p := logits.NewSampler(begin(t, load(t, f.Wasm(), guesttest.NewWords()), guest.Start{}))
	if n := allocations(func() {
		if _, err := p.Sample([]uint32{1, 2}, []float32{2, 1}, []float32{-1, -2}); err != nil {
			t.Fatal(err)
		}
	}); n > 0 {
		t.Errorf("sample: %v allocations", n)
	}
}
