package guest

import (
	"encoding/binary"
	"math"
	"slices"

	"tgi/sdk/abi"
)

// answer reads the outputs of a step, reports what is wrong with them and
// applies them to row.
func (s *sequence) answer(status int32, row []float32) Answer {
	b, _ := s.read(s.step, abi.StepSize)
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	a := Answer{Kind: abi.KindLogits}
	if status != abi.StatusOK {
		text, ok := s.read(field(abi.StepOut), min(field(abi.StepOutCount), abi.MaxText))
		if status != abi.StatusFailed || !ok || len(text) == 0 {
			s.run.report("status", "%d, text of %d bytes at %#x", status, field(abi.StepOutCount), field(abi.StepOut))
		}
		a.Fault = string(text)
		return a
	}
	a.Mode, a.Flags = field(abi.StepMode), field(abi.StepFlags)
	a.Temperature = math.Float32frombits(field(abi.StepTemperature))
	s.flags(a)
	s.temperature(a.Temperature)
	if n := field(abi.StepForceCount); n > 0 {
		a.Force = s.force(field(abi.StepForce), n)
	}
	if a.Mode > abi.ModeRow {
		s.run.report("mode", "%d", a.Mode)
		return Answer{Kind: a.Kind}
	}
	if name := abi.ModeNames[a.Mode]; a.Mode != abi.ModePass && !slices.Contains(s.d.Modes, name) {
		s.run.report("mode", "%s, declared are %q", name, s.d.Modes)
	}
	var ok bool
	if a.Out, ok = s.out(a.Mode, field(abi.StepOut), field(abi.StepOutCount)); ok && a.Mode != abi.ModePass {
		s.apply(a, row)
	}
	if a.Flags&abi.FlagStop == 0 && len(a.Force) == 0 && row[best(row)] == negativeInfinity {
		if s.long {
			a.Fault = "it denies every token of the kit's vocabulary"
			return a
		}
		s.run.report("dead-end", "mode %s denies every token", abi.ModeNames[a.Mode])
	}
	return a
}

func (s *sequence) declared(name string) bool { return slices.Contains(s.d.Modes, name) }

func (s *sequence) flags(a Answer) {
	if a.Flags&^(abi.FlagOnly|abi.FlagStop) != 0 {
		s.run.report("flags", "%#x", a.Flags)
	}
	if a.Flags&abi.FlagOnly != 0 && a.Mode != abi.ModeSparse && a.Mode != abi.ModeView {
		s.run.report("flags", "only, with mode %d", a.Mode)
	}
	if a.Flags&abi.FlagStop != 0 && !s.declared(abi.NameStop) {
		s.run.report("flags", "stop is not declared")
	}
}

func (s *sequence) temperature(t float32) {
	if t != t {
		return
	}
	if t < 0 || math.IsInf(float64(t), 1) {
		s.run.report("temperature", "%v", t)
	}
	if !s.declared(abi.NameTemperature) {
		s.run.report("temperature", "%v is not declared", t)
	}
}

func (s *sequence) force(at, n uint32) []uint32 {
	if n > abi.MaxForced {
		s.run.report("force", "%d tokens, more than %d", n, abi.MaxForced)
		return nil
	}
	if !s.declared(abi.NameForce) {
		s.run.report("force", "force is not declared")
	}
	b, ok := s.read(at, 4*n)
	if !ok || at%4 != 0 {
		s.run.report("out", "%d forced tokens at %#x, memory ends at %#x", n, at, len(s.Memory()))
		return nil
	}
	ids := make([]uint32, n)
	for i := range ids {
		ids[i] = binary.LittleEndian.Uint32(b[4*i:])
		if ids[i] >= s.world.VocabSize() {
			s.run.report("force", "token %d of %d", ids[i], s.world.VocabSize())
		}
	}
	return ids
}

// out reads the array of a mode.
func (s *sequence) out(mode, at, n uint32) ([]byte, bool) {
	vocab := s.world.VocabSize()
	size := [...]uint64{abi.ModePass: 0, abi.ModeAllow: 4, abi.ModeDeny: 4, abi.ModeSparse: abi.SparseEntrySize,
		abi.ModeBitmask: 4, abi.ModeView: abi.ViewEntrySize, abi.ModeRow: 4}[mode]
	want := map[uint32]uint32{abi.ModeBitmask: abi.MaskWords(vocab), abi.ModeRow: s.rowCount()}
	if size == 0 {
		return nil, true
	}
	if w, exact := want[mode]; exact && n != w {
		s.run.report("out", "mode %s: count %d, want %d", abi.ModeNames[mode], n, w)
		return nil, false
	}
	if m := uint64(len(s.Memory())); at%4 != 0 || uint64(at)+uint64(n)*size > m {
		s.run.report("out", "mode %s: %d entries at %#x, memory ends at %#x", abi.ModeNames[mode], n, at, m)
		return nil, false
	}
	return s.read(at, n*uint32(size))
}

// apply does to row what the answer asks for.
func (s *sequence) apply(a Answer, row []float32) {
	switch a.Mode {
	case abi.ModeAllow, abi.ModeDeny:
		s.applyIDs(a, row)
	case abi.ModeSparse, abi.ModeView:
		s.applyEntries(a, row)
	case abi.ModeBitmask:
		for id := range row {
			if a.Out[id/8]>>(id%8)&1 == 0 {
				row[id] = negativeInfinity
			}
		}
	case abi.ModeRow:
		for id := range row {
			row[id] = s.number(a, uint32(id), a.Out[4*id:])
		}
	}
}

func (s *sequence) id(a Answer, b []byte) (uint32, bool) {
	id := binary.LittleEndian.Uint32(b)
	if id >= s.world.VocabSize() {
		s.run.report("id", "mode %s: token %d of %d", abi.ModeNames[a.Mode], id, s.world.VocabSize())
		return 0, false
	}
	return id, true
}

func (s *sequence) number(a Answer, id uint32, b []byte) float32 {
	v := math.Float32frombits(binary.LittleEndian.Uint32(b))
	if v != v || math.IsInf(float64(v), 1) {
		s.run.report("number", "mode %s: %v for token %d", abi.ModeNames[a.Mode], v, id)
		return 0
	}
	return v
}

func (s *sequence) applyIDs(a Answer, row []float32) {
	listed := make([]bool, len(row))
	for b := a.Out; len(b) > 0; b = b[4:] {
		if id, ok := s.id(a, b); ok {
			listed[id] = true
		}
	}
	for id := range row {
		if listed[id] == (a.Mode == abi.ModeDeny) {
			row[id] = negativeInfinity
		}
	}
}

func (s *sequence) applyEntries(a Answer, row []float32) {
	listed := make([]bool, len(row))
	for b := a.Out; len(b) > 0; b = b[abi.SparseEntrySize:] {
		id, ok := s.id(a, b)
		if !ok {
			continue
		}
		v := s.number(a, id, b[4:])
		if a.Mode == abi.ModeSparse {
			row[id] += v
		} else if row[id] = v; listed[id] {
			s.run.report("view-once", "token %d", id)
		}
		listed[id] = true
	}
	for id := range row {
		if a.Flags&abi.FlagOnly != 0 && !listed[id] {
			row[id] = negativeInfinity
		}
	}
}
