package guest

import (
	"encoding/binary"
	"fmt"
	"slices"

	"tgi/plugins/internal/sandbox"
)

// Start is what a sequence begins with.
type Start struct {
	Kinds  []string // of the token loop, served by the guest; empty: all such that it serves
	Params []byte   // JSON object of the request; nil means {}
	Prompt []uint32 // tokens; not kept
	Seed   uint64   // of the guest's random numbers
	// MaxTokens is the most tokens, prompt included, that the sequence can have, so that room is made once. 0: room is
	// made as needed.
	MaxTokens int
	Cancel    <-chan struct{} // closed to end a running call, and every later one, with sandbox.ErrCancelled
	Turn      sandbox.Turn    // by which the begin shares the processors with others; nil lets it run as it likes
}

// Session is one sequence's instance. It is used by one goroutine at a time. Close it.
type Session struct {
	g        *Guest
	in       *sandbox.Instance // nil after Close
	prompt   int
	written  int    // how many of the sequence's tokens the room holds
	room     uint32 // where they are
	capacity int    // how many fit
	used     int64  // fuel of calls by Call
}

// noParams is the default of parameters.
var noParams = []byte("{}")

// Validate asks the guest whether it accepts a request's parameters. A "no" is a *Refusal, a failure of the guest a
// *sandbox.Fault; sandbox.ErrBusy, sandbox.ErrMemory and sandbox.ErrClosed say that nobody could be asked. Closing
// cancel ends the call.
func (g *Guest) Validate(cancel <-chan struct{}, params []byte) error {
	return g.ValidateShared(cancel, params, nil)
}

// ValidateShared is Validate by a turn, whose processor is given up at the end.
func (g *Guest) ValidateShared(cancel <-chan struct{}, params []byte, turn sandbox.Turn) error {
	in, err := g.pool.Take(sandbox.Lease{Cancel: cancel, Patient: true, Brief: true, Turn: turn})
	if err != nil {
		return err
	}
	defer g.pool.Put(in)
	defer in.EndTurn()
	at, n, err := g.writeParams(in, params)
	if err != nil {
		return err
	}
	return g.callForError(in, "tgi_validate", at, n)
}

// Begin takes an instance and has it begin a sequence, for each kind asked for. Errors are those of Validate.
func (g *Guest) Begin(s Start) (*Session, error) {
	kinds := s.Kinds
	if len(kinds) == 0 {
		kinds = slices.DeleteFunc(slices.Clone(g.d.Kinds), func(k string) bool { return !Steps(k) })
	}
	for _, k := range kinds {
		if !g.d.Serves(k) || !Steps(k) {
			return nil, fmt.Errorf("%s: kind %q is not one of its kinds %q that begin with a prompt", g.name, k,
				g.d.Kinds)
		}
	}
	if len(kinds) == 0 {
		return nil, fmt.Errorf("%s: none of its kinds %q begins with a prompt", g.name, g.d.Kinds)
	}
	in, err := g.pool.Take(sandbox.Lease{Cancel: s.Cancel, Seed: s.Seed, Patient: true, Turn: s.Turn})
	if err != nil {
		return nil, err
	}
	out := &Session{g: g, in: in, prompt: len(s.Prompt), room: g.rooms.tokens, capacity: tokensRoom}
	err = out.begin(kinds, s)
	out.EndTurn()
	if err != nil {
		out.Close()
		return nil, err
	}
	return out, nil
}

func (s *Session) begin(kinds []string, start Start) error {
	at, n, err := s.g.writeParams(s.in, start.Params)
	if err != nil {
		return err
	}
	if most := max(len(start.Prompt), start.MaxTokens); most > s.capacity {
		budget := allotment{left: s.g.limits.FuelPerRequest}
		if err := s.grow(most, &budget); err != nil {
			return err
		}
	}
	s.writeTokens(start.Prompt, nil)
	for _, k := range slices.Sorted(slices.Values(kinds)) {
		if err := s.g.callForError(s.in, "tgi_"+k+"_begin", at, n, uint64(s.room), uint64(s.prompt)); err != nil {
			return err
		}
	}
	return nil
}

// writeParams writes parameters to the guest's memory.
func (g *Guest) writeParams(in *sandbox.Instance, params []byte) (at, n uint64, err error) {
	if len(params) == 0 {
		params = noParams
	}
	return g.writeText(in, params, g.rooms.params, paramsRoom)
}

// writeText writes a text to a room of size bytes, or to a new one if the text is longer.
func (g *Guest) writeText(in *sandbox.Instance, text []byte, room uint32, size int) (at, n uint64, err error) {
	if len(text) > size {
		budget := allotment{left: g.limits.FuelPerRequest}
		if room, err = g.alloc(in, uint64(len(text)), &budget); err != nil {
			return 0, 0, err
		}
	}
	copy(in.Memory()[room:], text)
	return uint64(room), uint64(len(text)), nil
}

// callForError calls an export that returns an error text.
func (g *Guest) callForError(in *sandbox.Instance, fn string, args ...uint64) error {
	stack := make([]uint64, 4)
	copy(stack, args)
	if _, err := g.callCounted(in, in.Func(fn), stack, g.limits.request(g.limits.FuelPerRequest)); err != nil {
		return err
	}
	err := accepted(in, fn, stack[0])
	switch err.(type) {
	case *Refusal:
		g.counts.refusals.Add(1)
	case *sandbox.Fault:
		g.counts.fault(err)
	}
	return err
}

// callCounted runs an export and counts the call.
func (g *Guest) callCounted(in *sandbox.Instance, f *sandbox.Func, stack []uint64, b sandbox.Budget) (used int64,
	err error) {
	use, err := in.Run(f, stack, b)
	g.counts.call(use)
	if err != nil {
		g.counts.fault(err)
	}
	return use.Fuel, err
}

// alloc has the guest make room, paid from budget.
func (g *Guest) alloc(in *sandbox.Instance, size uint64, budget *allotment) (uint32, error) {
	if size >= 1<<31 {
		return 0, fmt.Errorf("%s: room of %d bytes for a sequence: a guest can be asked for %d", g.name, size, 1<<31-1)
	}
	stack := []uint64{size}
	used, err := g.callCounted(in, in.Func("tgi_alloc"), stack, budget.of(g.limits.request(0)))
	budget.take(used)
	if err == nil {
		err = checkRoom(in, "tgi_alloc", uint32(stack[0]), size)
		g.counts.fault(err)
	}
	return uint32(stack[0]), err
}

// grow allocates an empty room for n tokens.
func (s *Session) grow(n int, budget *allotment) error {
	room, err := s.g.alloc(s.in, uint64(n)*4, budget)
	if err != nil {
		return err
	}
	s.room, s.capacity, s.written = room, n, 0
	return nil
}

// writeTokens writes the new tokens to the guest's memory.
func (s *Session) writeTokens(prompt, output []uint32) {
	m := s.in.Memory()[s.room:]
	for ; s.written < len(prompt); s.written++ {
		binary.LittleEndian.PutUint32(m[4*s.written:], prompt[s.written])
	}
	for ; s.written < len(prompt)+len(output); s.written++ {
		binary.LittleEndian.PutUint32(m[4*s.written:], output[s.written-len(prompt)])
	}
}

// EndTurn releases the session's turn: its later calls are those of the token loop. The session is not closed.
func (s *Session) EndTurn() { s.in.EndTurn() }

// Guest returns the session's guest.
func (s *Session) Guest() *Guest { return s.g }

// Prompt returns the number of tokens that the sequence began with.
func (s *Session) Prompt() int { return s.prompt }

// Rooms returns the addresses of the rooms.
func (s *Session) Rooms() Rooms { return s.g.rooms }

// Memory returns all of the guest's memory, until the next call. The session is not closed.
func (s *Session) Memory() []byte { return s.in.Memory() }

// Closed reports whether Close was called.
func (s *Session) Closed() bool { return s.in == nil }

// Reserve makes sure that there is memory for n clones, and waits a while for it. The error matches sandbox.ErrMemory,
// or sandbox.ErrCancelled.
func (s *Session) Reserve(n int, cancel <-chan struct{}) error {
	if s.in == nil {
		return s.closedError("clone")
	}
	return s.g.pool.Reserve(s.in, n, sandbox.Lease{Cancel: cancel, Patient: true})
}

// Clone returns another session in the state of this one, for best_of. Its guest draws its own random numbers, from
// seed. Errors are those of Validate; a guest that keeps state where the host can't copy it gives
// sandbox.ErrHiddenState.
func (s *Session) Clone(seed uint64, cancel <-chan struct{}) (*Session, error) {
	twin, err := s.Copy(cancel)
	if err == nil {
		twin.Reseed(seed)
	}
	return twin, err
}

// Copy is Clone with the random numbers that s has next.
func (s *Session) Copy(cancel <-chan struct{}) (*Session, error) {
	if s.in == nil {
		return nil, s.closedError("clone")
	}
	in, err := s.g.pool.Clone(s.in, sandbox.Lease{Cancel: cancel})
	if err != nil {
		return nil, err
	}
	twin := *s
	twin.in = in
	return &twin, nil
}

// Reseed starts the guest's random numbers anew.
func (s *Session) Reseed(seed uint64) { s.in.Reseed(seed) }

// Break records that fn, an export, returned an invalid result. The session takes no further calls.
func (s *Session) Break(fn, cause string) error {
	err := s.in.Break(fn, cause)
	s.g.counts.fault(err)
	return err
}

// Close returns the instance to its pool, whatever state it is in. Closing twice is fine.
func (s *Session) Close() {
	if s.in != nil {
		s.g.pool.Put(s.in)
		s.in = nil
	}
}

func (s *Session) closedError(fn string) error {
	return fmt.Errorf("%s: %s: session %w", s.g.name, fn, sandbox.ErrClosed)
}

// allotment is fuel that several calls have together. A call can use a little more than is left.
type allotment struct{ left, burnt int64 }

// of is b with the fuel of the allotment.
func (p *allotment) of(b sandbox.Budget) sandbox.Budget {
	b.Fuel, b.Burnt = p.left, p.burnt
	return b
}

// take takes what was used.
func (p *allotment) take(fuel int64) {
	p.left -= fuel
	p.burnt += fuel
}

// earn adds what a step gives, up to most. What was used before is over, unless it was more than there was.
func (p *allotment) earn(fuel, most int64) {
	if p.left >= 0 {
		p.burnt = 0
	}
	p.left = min(p.left+fuel, most)
}

// Entry is an export that is called at every step, with the fuel that the sequence has saved for it.
type Entry struct {
	s     *Session
	f     *sandbox.Func
	name  string
	saved allotment
	stack [5]uint64
}

// Entry finds an export of a kind that the session was begun with.
func (s *Session) Entry(export string) *Entry {
	return &Entry{s: s, f: s.in.Func(export), name: export, saved: allotment{left: s.g.limits.FuelPerStep}}
}

// Clone returns the same export of a session that was cloned from this one's, with as much fuel saved.
func (e *Entry) Clone(s *Session) *Entry {
	twin := s.Entry(e.name)
	twin.saved = e.saved
	return twin
}

// Next counts a step: the sequence has one more step's fuel, up to Burst of them.
func (e *Entry) Next() {
	per := e.s.g.limits.FuelPerStep
	e.saved.earn(per, Burst*per)
}

// Call runs the export with up to five arguments. The error is a *sandbox.Fault, or matches sandbox.ErrClosed.
func (e *Entry) Call(args ...uint64) (result uint64, err error) {
	if e.s.in == nil {
		return 0, e.s.closedError(e.name)
	}
	copy(e.stack[:], args)
	used, err := e.s.g.callCounted(e.s.in, e.f, e.stack[:], e.saved.of(e.s.g.limits.step(0)))
	e.saved.take(used)
	return e.stack[0], err
}

// Charge takes fuel for the host's work on what the export returned. Without enough it gives the cause for Break.
func (e *Entry) Charge(fuel int64) error {
	if e.saved.take(fuel); e.saved.left >= 0 {
		return nil
	}
	return fmt.Errorf("the host's work on it needs %d fuel: budget %d, used %d with it", fuel,
		e.saved.left+e.saved.burnt, e.saved.burnt)
}

// Rewind says that only the first n tokens of the sequence, the prompt's included, are still those that Tokens wrote.
func (e *Entry) Rewind(n int) { e.s.written = min(e.s.written, n) }

// Room has the guest make room for so many bytes, which stays the host's.
func (e *Entry) Room(bytes int) (at uint32, err error) {
	if e.s.in == nil {
		return 0, e.s.closedError(e.name)
	}
	return e.s.g.alloc(e.s.in, uint64(bytes), &e.saved)
}

// Tokens writes what is new of the sequence to the guest's memory and gives the address of all of it. prompt is what
// the sequence began with, output what followed; neither changes but by growing at the end, or by Rewind.
func (e *Entry) Tokens(prompt, output []uint32) (at uint32, err error) {
	s := e.s
	if s.in == nil {
		return 0, s.closedError(e.name)
	}
	n := len(prompt) + len(output)
	if len(prompt) != s.prompt || n < s.written {
		return 0, fmt.Errorf("BUG: %s: sequence of %d and %d tokens, it was of %d and %d", s.g.name, len(prompt),
			len(output), s.prompt, s.written-s.prompt)
	}
	if n > s.capacity {
		if err := s.grow(max(n, 2*s.capacity), &e.saved); err != nil {
			return 0, err
		}
	}
	s.writeTokens(prompt, output)
	return s.room, nil
}

// The exports that are called at every step, and with every piece of text.
const (
	Process = "tgi_logits_process"
	Sample  = "tgi_sampler_sample"
	Feed    = "tgi_tools_feed"
	// GuardCheck is asked behind a token.
	GuardCheck = "tgi_guard_check"
	// Propose asks for a guess.
	Propose = "tgi_draft_propose"
	// Accept, Mask, Forced and Key are those of a grammar by steps.
	Accept = "tgi_grammar_accept"
	Mask   = "tgi_grammar_mask"
	Forced = "tgi_grammar_forced"
	Key    = "tgi_grammar_key"
)
