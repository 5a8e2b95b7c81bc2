package logits

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"slices"

	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Processor runs a guest of kind "logits" for one sequence. It is used by one goroutine at a time.
//
// Its errors are a [*sandbox.Fault] that names plugin, export, what went wrong and what the guest printed last; after
// one of them every call fails. An answer that forbids all tokens of a row is one, unless the row had forbidden ones
// before: then the error wraps llm.ErrDeadEnd. (Only a call after the session's Close, and a row or history that does
// not belong to this sequence, give another error.)
type Processor struct {
	s       *guest.Session
	entry   *guest.Entry
	rooms   guest.Rooms
	vocab   int
	view    int  // entries wanted
	row     bool // wanted
	outputs outputs

	replayed []byte // the view of a Replay
	last     int    // tokens that the sequence had at the last call; -1 before the first
	prepared bool   // the answer for the position last is known and not used yet
	answer   answer // to the last call
	alive    int    // a token that was allowed at the last look

	queue  []uint32 // forced tokens that come next, if the one at position at is token
	at     int
	token  uint32
	forces []uint32 // room for the queue

	// Tape, if not nil, is called with the view that the guest is about to see; it is valid during the call.
	Tape func(view []byte)
}

// NewProcessor returns the processor of a session that was begun with abi.KindLogits. Closing the session ends it.
func NewProcessor(s *guest.Session) *Processor {
	d := s.Guest().Description()
	p := &Processor{
		s: s, entry: s.Entry(guest.Process), rooms: s.Rooms(), vocab: s.Guest().Vocabulary().Size(),
		view: d.View, row: d.Row, outputs: declared(d, s.Guest().Vocabulary().Size()), last: -1,
	}
	return p
}

// Clone returns a processor in the state of p, between two steps, over a session that was cloned from p's.
func (p *Processor) Clone(s *guest.Session) *Processor {
	twin := *p
	twin.s, twin.entry = s, p.entry.Clone(s)
	twin.prepared, twin.answer = false, answer{}
	twin.queue, twin.forces = slices.Clone(p.queue), nil
	return &twin
}

// Ahead reports whether the guest reads neither view nor row, so that Prepare can call it before the logits are known.
func (p *Processor) Ahead() bool { return p.view == 0 && !p.row }

// Prepare calls the guest for the next position, if that is possible before the logits are known. The next Process with
// the same history uses the answer.
func (p *Processor) Prepare(prompt, output []uint32) error {
	n := len(prompt) + len(output)
	if !p.Ahead() || p.prepared && p.last == n {
		return nil
	}
	if p.forced(n, output) {
		return nil
	}
	return p.call(prompt, output, nil)
}

// Process calls the guest for the next position and applies its answer to the logits, one for each id of the
// vocabulary. prompt is what the session began with, output what followed. After an error the logits are unchanged.
func (p *Processor) Process(prompt, output []uint32, logits []float32) (Effect, error) {
	if len(logits) != p.vocab {
		return None(), fmt.Errorf("BUG: %s: row of %d logits, the vocabulary has %d", p.s.Guest().Name(), len(logits),
			p.vocab)
	}
	n := len(prompt) + len(output)
	if p.forced(n, output) {
		return p.pop(n), nil
	}
	if !p.prepared || p.last != n {
		if err := p.call(prompt, output, logits); err != nil {
			return None(), err
		}
	}
	p.prepared = false
	if p.s.Closed() {
		_, err := p.entry.Call(0, 0)
		return None(), err
	}
	return p.finish(n, logits)
}

// forced reports whether the token at this position is forced. If the sequence did not take the last forced token, the
// rest of the queue is dropped.
func (p *Processor) forced(n int, output []uint32) bool {
	if len(p.queue) == 0 {
		return false
	}
	if n != p.at+1 || len(output) == 0 || output[len(output)-1] != p.token {
		p.queue = p.queue[:0]
	}
	return len(p.queue) > 0
}

// Queue returns the tokens that are forced next whatever the logits are, a view that ends with the next call.
func (p *Processor) Queue(prompt, output []uint32) []uint32 {
	if !p.forced(len(prompt)+len(output), output) {
		return nil
	}
	return p.queue
}

// pop forces the next token of the queue.
func (p *Processor) pop(n int) Effect {
	e := None()
	e.Force = int64(p.queue[0])
	p.at, p.token, p.queue = n, p.queue[0], p.queue[1:]
	return e
}

// call runs the guest and decodes its answer. logits is nil for a guest that reads none.
func (p *Processor) call(prompt, output []uint32, logits []float32) error {
	n := len(prompt) + len(output)
	fresh := 0
	if p.last >= 0 {
		fresh = n - p.last
	}
	for range max(1, min(fresh, guest.Burst)) {
		p.entry.Next()
	}
	tokens, err := p.entry.Tokens(prompt, output)
	if err != nil {
		return err
	}
	memory := p.s.Memory()
	p.fill(memory, logits)
	putStep(memory[p.rooms.Step:], [16]uint32{
		abi.StepSize, tokens, uint32(n), uint32(len(prompt)), uint32(fresh),
		p.rooms.View, uint32(p.view), p.rooms.Row, p.rowCount(),
		abi.ModePass, 0, 0, 0, noTemperature, 0, 0,
	})
	p.last, p.prepared = n, false
	status, err := p.entry.Call(uint64(p.rooms.Step), 0)
	if err != nil {
		return err
	}
	memory = p.s.Memory()
	if p.answer, err = decode(memory, memory[p.rooms.Step:], uint32(status), p.outputs); err != nil {
		return p.s.Break(guest.Process, err.Error())
	}
	p.prepared = true
	return nil
}

// noTemperature is NaN in bits.
var noTemperature = math.Float32bits(nan)

func (p *Processor) rowCount() uint32 {
	if p.row {
		return uint32(p.vocab)
	}
	return 0
}

// fill writes the view and the row that the guest needs.
func (p *Processor) fill(memory []byte, logits []float32) {
	if p.replayed != nil {
		copy(memory[p.rooms.View:], p.replayed)
		return
	}
	if p.row {
		copy(memory[p.rooms.Row:], rowBytes(logits))
	}
	if p.view > 0 {
		view := memory[p.rooms.View:][:p.view*abi.ViewEntrySize]
		writeView(view, logits, p.view)
		if p.Tape != nil {
			p.Tape(view)
		}
	}
}

// Replay shows the guest a position again that it was shown before, by another instance: the same history and view. Its
// answer counts for the tokens that it forces alone.
func (p *Processor) Replay(prompt, output []uint32, view []byte) error {
	n := len(prompt) + len(output)
	if p.forced(n, output) {
		p.pop(n)
		return nil
	}
	p.replayed = view
	err := p.call(prompt, output, nil)
	p.replayed, p.prepared = nil, false
	if err != nil {
		return err
	}
	if err := p.force(p.s.Memory()); err != nil {
		return p.s.Break(guest.Process, err.Error())
	}
	if len(p.queue) > 0 {
		p.pop(n)
	}
	return nil
}

// Forget says that only the first n tokens of the sequence, the prompt's included, are left, to a guest that keeps
// nothing of it.
func (p *Processor) Forget(n int) {
	p.entry.Rewind(n)
	p.last, p.prepared, p.queue = min(p.last, n), false, p.queue[:0]
}

// putStep writes the fields of the step struct.
func putStep(b []byte, fields [16]uint32) {
	b = b[:abi.StepSize]
	for i, v := range fields {
		binary.LittleEndian.PutUint32(b[4*i:], v)
	}
}

// finish applies the answer.
func (p *Processor) finish(n int, logits []float32) (Effect, error) {
	a := &p.answer
	e := Effect{Temperature: a.temperature, Force: -1, Stop: a.flags&abi.FlagStop != 0}
	if a.forceCount == 0 && a.mode == abi.ModePass {
		return e, nil
	}
	memory := p.s.Memory()
	err := p.force(memory)
	if err == nil {
		err = p.apply(memory, logits)
	}
	if errors.Is(err, llm.ErrDeadEnd) && narrowed(logits) {
		return None(), err // it did not choose what was left to it
	}
	if err != nil {
		return None(), p.s.Break(guest.Process, err.Error())
	}
	if len(p.queue) > 0 {
		e.Force = p.pop(n).Force
	}
	return e, nil
}

// apply applies the answer to the logits.
func (p *Processor) apply(memory []byte, logits []float32) error {
	a := &p.answer
	if a.mode == abi.ModePass {
		return nil
	}
	out := memory[a.out : uint64(a.out)+uint64(a.count)*entryBytes[a.mode]]
	if a.mode != abi.ModeBitmask && a.mode != abi.ModeRow {
		if err := p.entry.Charge(int64(a.count) * entryFuel); err != nil {
			return fmt.Errorf("mode %s: %w", abi.ModeNames[a.mode], err)
		}
	}
	r := row{x: logits, alive: p.alive, checkOnly: a.forceCount > 0 || a.flags&abi.FlagStop != 0}
	err := r.apply(a.mode, a.flags, out)
	r.putScratch()
	p.alive = r.alive
	return err
}

// force checks forced tokens and makes them the queue.
func (p *Processor) force(memory []byte) error {
	a := &p.answer
	if a.forceCount == 0 {
		return nil
	}
	if p.forces == nil {
		p.forces = make([]uint32, abi.MaxForced)
	}
	list := ids(memory[a.forceAt : uint64(a.forceAt)+4*uint64(a.forceCount)])
	p.queue = p.forces[:list.len()]
	for i := range p.queue {
		if p.queue[i] = list.id(i); p.queue[i] >= uint32(p.vocab) {
			return fmt.Errorf("forced token %d of %d: %d, the vocabulary has %d", i, len(p.queue), p.queue[i], p.vocab)
		}
	}
	if a.flags&abi.FlagStop != 0 {
		p.queue = p.queue[:0]
	}
	return nil
}
