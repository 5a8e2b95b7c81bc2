// Package draft is the host's side of the plugin kind "draft": it asks a guest which tokens it expects, and checks that
// they are tokens. Whether they are right the engine finds out.
//
// A proposer is used by one goroutine at a time; the package starts none. Its caller is package plugins.
package draft

import (
	"encoding/binary"
	"fmt"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// idFuel is for the host's work on each token that a guest returns.
const idFuel = 10

// Proposer asks a guest of kind "draft" about one sequence.
//
// Its errors are a [*sandbox.Fault] that names plugin, export, what went wrong and what the guest printed last; after
// one of them every call fails.
type Proposer struct {
	s      *guest.Session
	entry  *guest.Entry
	room   uint32
	prompt int
	seen   []uint32 // tokens of the last call, behind the prompt
}

// NewProposer returns the proposer of a session that was begun with abi.KindDraft. Closing the session ends it.
func NewProposer(s *guest.Session) *Proposer {
	return &Proposer{s: s, entry: s.Entry(guest.Propose), room: s.Rooms().Draft, prompt: s.Prompt()}
}

// Propose fills room with the tokens that the guest expects behind a sequence, and returns their number.
func (p *Proposer) Propose(prompt, output, room []uint32) (int, error) {
	same := 0
	for n := min(len(p.seen), len(output)); same < n && p.seen[same] == output[same]; {
		same++
	}
	fresh := len(output) - same
	for range max(1, min(fresh, guest.Burst)) {
		p.entry.Next()
	}
	p.entry.Rewind(p.prompt + same)
	tokens, err := p.entry.Tokens(prompt, output)
	if err != nil {
		return 0, err
	}
	p.seen = append(p.seen[:same], output[same:]...)
	most := min(len(room), abi.MaxDraft)
	result, err := p.entry.Call(uint64(tokens), uint64(p.prompt+len(output)), uint64(fresh), uint64(p.room),
		uint64(most))
	if err != nil {
		return 0, err
	}
	n, err := p.read(int32(uint32(result)), room[:most])
	if err != nil {
		return 0, p.s.Break(guest.Propose, err.Error())
	}
	return n, nil
}

// read reads a guess of n tokens. The error names the rule and the value that breaks it.
func (p *Proposer) read(n int32, room []uint32) (int, error) {
	switch {
	case n < 0:
		return 0, fmt.Errorf("the guest failed with %d", n)
	case int(n) > len(room):
		return 0, fmt.Errorf("a guess of %d tokens, there is room for %d", n, len(room))
	}
	if err := p.entry.Charge(int64(n) * idFuel); err != nil {
		return 0, err
	}
	memory := p.s.Memory()[p.room:]
	vocab := uint32(p.s.Guest().Vocabulary().Size())
	for i := range int(n) {
		if room[i] = binary.LittleEndian.Uint32(memory[4*i:]); room[i] >= vocab {
			return 0, fmt.Errorf("token %d of the guess is %d, the vocabulary has %d", i, room[i], vocab)
		}
	}
	return int(n), nil
}
