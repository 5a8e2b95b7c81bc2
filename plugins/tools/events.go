package tools

import (
	"bytes"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// order holds the events of a sequence to the rules, alone and one after the other.
type order struct {
	begun     uint32 // calls
	open      bool   // the last of them
	arguments []byte // of it
	left      int    // bytes that texts may still have
}

func newOrder() order { return order{left: abi.MaxEventText} }

// earn counts what the guest was given.
func (o *order) earn(n int) { o.left += abi.MaxEcho * n }

// index is the number of the last call.
func (o *order) index() int { return int(o.begun) - 1 }

// fields is an event as the guest wrote it.
type fields [abi.EventSize / 4]uint32

// at returns the field at an offset of the layout.
func (f *fields) at(offset int) uint32 { return f[offset/4] }

// uses are the fields that a kind uses beside the kind itself, a bit for each u32. A text's offset and length come
// together.
var uses = [...]uint16{
	abi.EventContent:   1<<(abi.EventText/4) | 1<<(abi.EventTextBytes/4),
	abi.EventReasoning: 1<<(abi.EventText/4) | 1<<(abi.EventTextBytes/4),
	abi.EventBegin: 1<<(abi.EventIndex/4) | 1<<(abi.EventName/4) | 1<<(abi.EventNameBytes/4) |
		1<<(abi.EventID/4) | 1<<(abi.EventIDBytes/4),
	abi.EventArguments: 1<<(abi.EventIndex/4) | 1<<(abi.EventText/4) | 1<<(abi.EventTextBytes/4),
	abi.EventEnd:       1 << (abi.EventIndex / 4),
	abi.EventFailed: 1<<(abi.EventIndex/4) | 1<<(abi.EventText/4) | 1<<(abi.EventTextBytes/4) |
		1<<(abi.EventReason/4),
}

// read copies the events of one call out of the guest's memory and adds them to out; those that say nothing are left
// out. piece is what the guest was given: a text that equals it is not copied again. The error says which rule is
// broken by what.
func (o *order) read(memory []byte, packed uint64, piece string, out []Event) ([]Event, error) {
	at, count := abi.Unpack(packed)
	switch {
	case count == 0:
		return out, nil
	case count > abi.MaxEvents:
		return nil, fmt.Errorf("%d events, the limit is %d", count, abi.MaxEvents)
	case at%4 != 0 || uint64(at)+uint64(count)*abi.EventSize > uint64(len(memory)):
		return nil, fmt.Errorf("%d events at 0x%x: want an address aligned to 4 inside the memory of %d bytes", count,
			at, len(memory))
	}
	if out == nil {
		out = make([]Event, 0, count)
	}
	sum := 0
	for i := range count {
		var f fields
		for j := range f {
			f[j] = binary.LittleEndian.Uint32(memory[at+i*abi.EventSize+uint32(4*j):])
		}
		e, said, err := o.event(memory, &f, piece)
		if err != nil {
			return nil, fmt.Errorf("event %d: %w", i, err)
		}
		if sum += len(e.Text) + len(e.Name) + len(e.ID); sum > abi.MaxEventText {
			return nil, fmt.Errorf("event %d: texts of more than %d bytes in one call", i, abi.MaxEventText)
		}
		if said {
			out = append(out, e)
		}
	}
	if o.left -= sum; o.left < 0 {
		return nil, fmt.Errorf("texts of %d bytes more than %d and %d times what was fed", -o.left, abi.MaxEventText,
			abi.MaxEcho)
	}
	return out, nil
}

// event reads one and says whether it tells anything.
func (o *order) event(memory []byte, f *fields, piece string) (e Event, said bool, err error) {
	kind := f.at(abi.EventKind)
	if kind >= uint32(len(uses)) {
		return e, false, fmt.Errorf("kind %d: the last is %d", kind, len(uses)-1)
	}
	for i := 1; i < len(f); i++ {
		if f[i] != 0 && uses[kind]>>i&1 == 0 {
			return e, false, fmt.Errorf("kind %d has %d at offset %d, which it does not use", kind, f[i], 4*i)
		}
	}
	text, err := view(memory, "text", f.at(abi.EventText), f.at(abi.EventTextBytes), abi.MaxEventText)
	if err != nil {
		return e, false, err
	}
	e = Event{Kind: llm.DeltaKind(kind), Index: int(f.at(abi.EventIndex))}
	switch kind {
	case abi.EventBegin:
		err = o.begin(memory, f, &e)
	case abi.EventFailed:
		err = o.failed(f, &e)
	case abi.EventArguments, abi.EventEnd:
		err = o.call(kind, f.at(abi.EventIndex), text)
	default:
		if o.open {
			err = fmt.Errorf("kind %d inside call %d", kind, o.index())
		}
	}
	if err != nil {
		return e, false, err
	}
	if string(text) == piece {
		e.Text = piece
	} else {
		e.Text = string(text)
	}
	return e, len(text) > 0 || kind == abi.EventBegin || kind == abi.EventEnd || kind == abi.EventFailed, nil
}

func (o *order) begin(memory []byte, f *fields, e *Event) error {
	if o.open {
		return fmt.Errorf("call %d begins inside call %d", e.Index, o.index())
	}
	if f.at(abi.EventIndex) != o.begun {
		return fmt.Errorf("call %d begins, the next is %d", e.Index, o.begun)
	}
	name, err := view(memory, "name", f.at(abi.EventName), f.at(abi.EventNameBytes), abi.MaxName)
	if err != nil {
		return err
	}
	id, err := view(memory, "id", f.at(abi.EventID), f.at(abi.EventIDBytes), abi.MaxName)
	if err != nil {
		return err
	}
	if len(name) == 0 || len(id) == 0 {
		return fmt.Errorf("call %d begins with name %q and id %q: neither may be empty", e.Index, name, id)
	}
	e.Name, e.ID = string(name), string(id)
	o.begun++
	o.open, o.arguments = true, o.arguments[:0]
	return nil
}

// call takes a part of the open call, or its end.
func (o *order) call(kind, index uint32, text []byte) error {
	if !o.open || index != o.begun-1 {
		return fmt.Errorf("kind %d of call %d, %s", kind, index, o.state())
	}
	if kind == abi.EventArguments {
		if len(o.arguments)+len(text) > abi.MaxEventText {
			return fmt.Errorf("arguments of call %d have more than %d bytes", index, abi.MaxEventText)
		}
		o.arguments = append(o.arguments, text...)
		return nil
	}
	o.open = false
	if !bytes.HasPrefix(bytes.TrimLeft(o.arguments, " \t\r\n"), []byte("{")) || !json.Valid(o.arguments) {
		return fmt.Errorf("call %d ended, and its arguments of %d bytes are no JSON object", index, len(o.arguments))
	}
	return nil
}

func (o *order) failed(f *fields, e *Event) error {
	index, reason := f.at(abi.EventIndex), f.at(abi.EventReason)
	if reason > abi.FailedTooMany {
		return fmt.Errorf("reason %d: the last is %d", reason, abi.FailedTooMany)
	}
	e.Failed = llm.CallFailure(reason)
	if !o.open && index == ^uint32(0) {
		e.Index = NoCall
		return nil
	}
	if !o.open || index != o.begun-1 {
		return fmt.Errorf("kind %d of call %d, %s", abi.EventFailed, index, o.state())
	}
	o.open = false
	return nil
}

// state says which call is open.
func (o *order) state() string {
	if o.open {
		return fmt.Sprintf("open is %d", o.index())
	}
	return "none is open"
}

// view returns a text in the guest's memory.
func view(memory []byte, what string, at, size uint32, most int) ([]byte, error) {
	switch {
	case size == 0:
		return nil, nil
	case int64(size) > int64(most):
		return nil, fmt.Errorf("%s of %d bytes, the limit is %d", what, size, most)
	case uint64(at)+uint64(size) > uint64(len(memory)):
		return nil, fmt.Errorf("%s of %d bytes at 0x%x, the memory has %d", what, size, at, len(memory))
	}
	b := memory[at:][:size]
	if !utf8.Valid(b) {
		return nil, fmt.Errorf("%s of %d bytes is not UTF-8", what, size)
	}
	return b, nil
}
