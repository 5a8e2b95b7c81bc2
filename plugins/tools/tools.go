// Package tools is the host side of the plugin kind "tools", which turns the model's text into content, reasoning and
// tool calls.
//
// It writes pieces of text into the guest's memory, reads the events and validates each of them and their order.
// sdk/abi defines what a request contains; the caller builds it.
package tools

import (
	"errors"
	"fmt"

	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// NoCall is the Index of an abi.EventFailed where no call had begun.
const NoCall = -1

// Event is one step of the parsed text. Its kinds and reasons have the numbers of sdk/abi; Index is
// NoCall where a call failed before it had begun.
type Event = llm.Delta

// The exports of the kind that are called once.
const (
	begin  = "tgi_tools_begin"
	finish = "tgi_tools_finish"
)

// errFinished is the caller's mistake.
var errFinished = errors.New("BUG: a parser was used after it had finished")

// Parser runs a guest of kind "tools" for one sequence. It is used by one goroutine at a time. An error of Feed or
// Finish is a *sandbox.Fault, which names plugin, export and the broken rule, and comes again at every later call as
// one that matches sandbox.ErrBroken. Closing the session ends the parser.
type Parser struct {
	s     *guest.Session
	entry *guest.Entry
	large uint32 // address of a buffer for special tokens that are longer than the usual one
	size  int    // of that buffer
	order order
	done  bool
}

// Begin begins a sequence in a session of guest.Open. request is the JSON object of abi.Tools without "params", which
// are added; nil params mean {}. Neither is kept. If the guest refuses the request the error is a *guest.Refusal with
// the guest's text; other errors are a *sandbox.Fault or the pool's.
func Begin(s *guest.Session, request, params []byte) (*Parser, error) {
	if err := s.Begin(begin, guest.WithMember(request, "params", params)); err != nil {
		return nil, err
	}
	return &Parser{s: s, entry: s.Entry(guest.Feed), order: newOrder()}, nil
}

// Feed passes the next piece of the model's text, UTF-8, to the guest and returns the events. special says that it is
// the text of one special token. A long piece of text is passed in parts.
func (p *Parser) Feed(piece string, special bool) ([]Event, error) {
	if p.done {
		return nil, errFinished
	}
	if special {
		return p.feed(piece, abi.PieceSpecial, nil)
	}
	var events []Event
	for len(piece) > guest.PieceRoom {
		cut := guest.PieceRoom
		for cut > guest.PieceRoom-4 && piece[cut]&0xc0 == 0x80 { // inside a character
			cut--
		}
		var err error
		if events, err = p.feed(piece[:cut], 0, events); err != nil {
			return nil, err
		}
		piece = piece[cut:]
	}
	return p.feed(piece, 0, events)
}

// feed passes one part and appends its events.
func (p *Parser) feed(piece string, flags uint64, events []Event) ([]Event, error) {
	if piece == "" {
		return events, nil
	}
	at := p.s.Rooms().Piece
	if len(piece) > guest.PieceRoom {
		if p.size < len(piece) {
			room, err := p.s.Room(len(piece))
			if err != nil {
				return nil, err
			}
			p.large, p.size = room, len(piece)
		}
		at = p.large
	}
	if !p.s.Closed() {
		copy(p.s.Memory()[at:], piece)
	}
	p.order.earn(len(piece))
	p.entry.Next()
	packed, err := p.entry.Call(uint64(at), uint64(len(piece)), flags)
	if err != nil {
		return nil, err
	}
	if packed == 0 {
		return events, nil
	}
	before := p.order.left
	events, err = p.order.read(p.s.Memory(), packed, piece, events)
	if err == nil {
		_, count := abi.Unpack(packed)
		err = p.entry.Charge(int64(before-p.order.left)*textFuel + int64(count)*eventFuel)
	}
	if err != nil {
		return nil, p.s.Break(guest.Feed, err.Error())
	}
	return events, nil
}

// What the host's work on events costs the guest: a byte of text is looked at and copied, an event is checked.
const (
	textFuel  = 2
	eventFuel = 100
)

// Finish ends the text and returns the last events. cut says that the length limit ended it. It is called once, last.
func (p *Parser) Finish(cut bool) ([]Event, error) {
	if p.done {
		return nil, errFinished
	}
	p.done = true
	reason := uint64(abi.FinishEnd)
	if cut {
		reason = abi.FinishCut
	}
	packed, err := p.s.Call(finish, reason)
	if err != nil {
		return nil, err
	}
	events, err := p.order.read(p.s.Memory(), packed, "", nil)
	if err == nil && p.order.open {
		err = fmt.Errorf("call %d is neither ended nor failed", p.order.index())
	}
	if err != nil {
		return nil, p.s.Break(finish, err.Error())
	}
	return events, nil
}
