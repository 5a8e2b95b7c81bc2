package tools

import (
	"encoding/binary"
	"maps"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Where the fakes of these tests keep things. Texts stand one behind the other from textsAt, events from eventsAt.
const (
	counterAt = guesttest.Free
	listAt    = guesttest.Free + 0x10
	finishAt  = guesttest.Free + 0x600
	eventsAt  = guesttest.Free + 0x800
	textsAt   = guesttest.Free + 0x2000
)

// script says what a guest answers with: the events of each feed, then those of finish.
type script struct {
	feeds  [][]Event
	finish []Event
}

// layout puts texts and events into a memory that begins at textsAt and eventsAt.
type layout struct{ texts, events []byte }

func (l *layout) text(s string) (at, n uint32) {
	if s == "" {
		return 0, 0
	}
	l.texts = append(l.texts, s...)
	return uint32(textsAt + len(l.texts) - len(s)), uint32(len(s))
}

// add puts a list of events into the memory and gives it packed.
func (l *layout) add(list []Event) uint64 {
	if len(list) == 0 {
		return 0
	}
	at := eventsAt + len(l.events)
	for _, e := range list {
		var f [abi.EventSize / 4]uint32
		f[abi.EventKind/4], f[abi.EventIndex/4], f[abi.EventReason/4] = uint32(e.Kind), uint32(e.Index),
			uint32(e.Failed)
		f[abi.EventText/4], f[abi.EventTextBytes/4] = l.text(e.Text)
		f[abi.EventName/4], f[abi.EventNameBytes/4] = l.text(e.Name)
		f[abi.EventID/4], f[abi.EventIDBytes/4] = l.text(e.ID)
		l.events = append(l.events, guesttest.Bytes(f[:]...)...)
	}
	return abi.Pack(uint32(at), uint32(len(list)))
}

// fake is a guest of kind tools that follows a script. What is given in code replaces its exports.
func (s script) fake(code map[string]guesttest.Code) guesttest.Fake {
	var l layout
	var list []byte
	for _, events := range s.feeds {
		list = binary.LittleEndian.AppendUint64(list, l.add(events))
	}
	last := l.add(s.finish)
	f := guesttest.Fake{
		Description: guesttest.Tools,
		Data:        map[uint32]string{listAt: string(list), eventsAt: string(l.events), textsAt: string(l.texts)},
		Code: map[string]guesttest.Code{
			"tgi_tools_feed":   guesttest.Next(counterAt, listAt),
			"tgi_tools_finish": guesttest.Long(last),
		},
	}
	maps.Copy(f.Code, code)
	return f
}

// parser begins a sequence with a guest.
func parser(t testing.TB, f guesttest.Fake, limits guest.Limits) *Parser {
	t.Helper()
	p, err := Begin(guesttest.Open(t, f, limits, nil), []byte(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	return p
}

func content(text string) Event   { return Event{Kind: abi.EventContent, Text: text} }
func reasoning(text string) Event { return Event{Kind: abi.EventReasoning, Text: text} }
func call(i int, name string) Event {
	return Event{Kind: abi.EventBegin, Index: i, Name: name, ID: "c1"}
}
func args(i int, text string) Event { return Event{Kind: abi.EventArguments, Index: i, Text: text} }
func end(i int) Event               { return Event{Kind: abi.EventEnd, Index: i} }
func failed(i int, reason llm.CallFailure) Event {
	return Event{Kind: abi.EventFailed, Index: i, Failed: reason, Text: "<x"}
}
