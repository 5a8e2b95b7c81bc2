package guest

import (
	"encoding/binary"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// Event is what a parser made of a text, see abi.EventSize.
type Event struct {
	Kind, Index, Reason uint32
	Text, Name, ID      string
}

// String tells all of the event.
func (e Event) String() string {
	switch e.Kind {
	case abi.EventContent:
		return fmt.Sprintf("content %q", e.Text)
	case abi.EventReasoning:
		return fmt.Sprintf("reasoning %q", e.Text)
	case abi.EventBegin:
		return fmt.Sprintf("begin %d %q %q", e.Index, e.Name, e.ID)
	case abi.EventArguments:
		return fmt.Sprintf("arguments %d %q", e.Index, e.Text)
	case abi.EventEnd:
		return fmt.Sprintf("end %d", e.Index)
	}
	return fmt.Sprintf("failed %d reason %d %q", int32(e.Index), e.Reason, e.Text)
}

// merge joins events that go on from one another, and leaves out those that say
// nothing.
func merge(events []Event) (out []Event) {
	for _, e := range events {
		joins := e.Kind == abi.EventContent || e.Kind == abi.EventReasoning || e.Kind == abi.EventArguments
		switch last := len(out) - 1; {
		case joins && e.Text == "":
		case joins && last >= 0 && out[last].Kind == e.Kind && out[last].Index == e.Index:
			out[last].Text += e.Text
		default:
			out = append(out, e)
		}
	}
	return out
}

// order is the state that the rules about calls go by.
type order struct {
	begun     uint32
	open      bool
	arguments string
}

// take reads the events of one call, reports what is wrong with them and adds
// them to those before.
func (s *parsing) take(export string, packed uint64, events []Event) ([]Event, bool) {
	at, count := abi.Unpack(packed)
	if count == 0 {
		return events, true
	}
	if count > abi.MaxEvents {
		s.run.report("events", "%s: %d, more than %d", export, count, abi.MaxEvents)
		return nil, false
	}
	b, ok := s.read(at, count*abi.EventSize)
	if !ok || at%4 != 0 {
		s.run.report("events", "%s: %d at %#x, memory ends at %#x", export, count, at, len(s.Memory()))
		return nil, false
	}
	sum := 0
	for ; len(b) > 0; b = b[abi.EventSize:] {
		e, fault := s.event(b[:abi.EventSize])
		if fault != "" {
			s.run.report("event", "%s: %s", export, fault)
			return nil, false
		}
		if rule, fault := s.order.next(e); fault != "" {
			s.run.report(rule, "%s: %v: %s", export, e, fault)
			return nil, false
		}
		if sum += len(e.Text) + len(e.Name) + len(e.ID); sum > abi.MaxEventText || sum > s.left {
			s.run.report("events", "%s: texts of more than %d bytes", export, min(abi.MaxEventText, s.left))
			return nil, false
		}
		events = append(events, e)
	}
	s.left -= sum
	return events, true
}

// unused lists the fields that are 0 in an event of a kind.
var unused = [...][]int{
	abi.EventContent: {abi.EventIndex, abi.EventName, abi.EventNameBytes, abi.EventID, abi.EventIDBytes,
		abi.EventReason},
	abi.EventReasoning: {abi.EventIndex, abi.EventName, abi.EventNameBytes, abi.EventID, abi.EventIDBytes,
		abi.EventReason},
	abi.EventBegin:     {abi.EventText, abi.EventTextBytes, abi.EventReason},
	abi.EventArguments: {abi.EventName, abi.EventNameBytes, abi.EventID, abi.EventIDBytes, abi.EventReason},
	abi.EventEnd: {abi.EventText, abi.EventTextBytes, abi.EventName, abi.EventNameBytes, abi.EventID,
		abi.EventIDBytes, abi.EventReason},
	abi.EventFailed: {abi.EventName, abi.EventNameBytes, abi.EventID, abi.EventIDBytes},
}

// event reads one. fault says what is wrong with it.
func (s *parsing) event(b []byte) (e Event, fault string) {
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	e = Event{Kind: field(abi.EventKind), Index: field(abi.EventIndex), Reason: field(abi.EventReason)}
	if int(e.Kind) >= len(unused) {
		return e, fmt.Sprintf("kind %d", e.Kind)
	}
	if i := slices.IndexFunc(unused[e.Kind], func(at int) bool { return field(at) != 0 }); i >= 0 {
		return e, fmt.Sprintf("kind %d has %d at offset %d", e.Kind, field(unused[e.Kind][i]), unused[e.Kind][i])
	}
	if e.Reason > abi.FailedTooMany {
		return e, fmt.Sprintf("reason %d", e.Reason)
	}
	for _, t := range []struct {
		to       *string
		at, most int
	}{{&e.Text, abi.EventText, abi.MaxEventText}, {&e.Name, abi.EventName, abi.MaxName},
		{&e.ID, abi.EventID, abi.MaxName}} {
		at, size := field(t.at), field(t.at+4)
		if size == 0 {
			continue
		}
		text, ok := s.read(at, size)
		if !ok || int64(size) > int64(t.most) || !utf8.Valid(text) {
			return e, fmt.Sprintf("kind %d: %d bytes at %#x: %q, memory ends at %#x", e.Kind, size, at,
				text[:min(len(text), 64)], len(s.Memory()))
		}
		*t.to = string(text)
	}
	if e.Kind == abi.EventBegin && (e.Name == "" || e.ID == "") {
		return e, fmt.Sprintf("kind %d: name %q, id %q", e.Kind, e.Name, e.ID)
	}
	return e, ""
}

// next takes the next event; the text says against which rule it is.
func (o *order) next(e Event) (rule, fault string) {
	current := o.open && e.Index == o.begun-1
	switch e.Kind {
	case abi.EventBegin:
		if o.open || e.Index != o.begun {
			return "event-order", fmt.Sprintf("%d begun, open: %v", o.begun, o.open)
		}
		o.begun, o.open, o.arguments = o.begun+1, true, ""
		return "", ""
	case abi.EventArguments:
		o.arguments += e.Text
	case abi.EventEnd:
		if o.open = false; current && (!json.Valid([]byte(o.arguments)) ||
			!strings.HasPrefix(strings.TrimLeft(o.arguments, " \t\r\n"), "{")) {
			return "arguments", fmt.Sprintf("the arguments are %.200q", o.arguments)
		}
	case abi.EventFailed:
		current = current || !o.open && e.Index == ^uint32(0)
		o.open = false
	default:
		current = !o.open
	}
	if !current {
		return "event-order", fmt.Sprintf("%d begun, open: %v", o.begun, o.open)
	}
	return "", ""
}
