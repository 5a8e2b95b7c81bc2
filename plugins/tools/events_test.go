package tools

import (
	"math"
	"reflect"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// memoryOf makes a memory of lists of events; each list is packed.
func memoryOf(lists ...[]Event) (memory []byte, packed []uint64) {
	var l layout
	for _, list := range lists {
		packed = append(packed, l.add(list))
	}
	memory = make([]byte, textsAt+len(l.texts))
	copy(memory[eventsAt:], l.events)
	copy(memory[textsAt:], l.texts)
	return memory, packed
}

// TestOrder: what calls may look like, over several feeds, and what comes of each.
func TestOrder(t *testing.T) {
	for name, c := range map[string]struct {
		lists [][]Event
		want  []Event // nil: all of lists
	}{
		"text": {lists: [][]Event{{reasoning("hm"), content("a")}, nil, {content("b é"), reasoning("c")}}},
		"call": {lists: [][]Event{{content("a"), call(0, "f")}, {args(0, `{"a"`), args(0, `:1}`)},
			{end(0), content("b")}}},
		"two calls": {lists: [][]Event{{call(0, "f"), args(0, " {}\n"), end(0), call(1, "g")},
			{args(1, "{}"), end(1)}}},
		"open": {lists: [][]Event{{call(0, "f"), args(0, `{"a`)}}},
		"failed": {lists: [][]Event{{call(0, "f"), args(0, `{"a`), failed(0, abi.FailedIncomplete)},
			{call(1, "g"), args(1, "{}"), end(1)}}},
		"failed unbegun": {lists: [][]Event{{failed(NoCall, abi.FailedTooMany), content("a"),
			failed(NoCall, abi.FailedUnknown)}}},
		"failed after": {lists: [][]Event{{call(0, "f"), args(0, "{}"), end(0),
			failed(NoCall, abi.FailedMalformed)}}},
		"says nothing": {lists: [][]Event{{content(""), call(0, "f"), args(0, ""), args(0, "{}"), end(0),
			reasoning("")}}, want: []Event{call(0, "f"), args(0, "{}"), end(0)}},
		"long name":       {lists: [][]Event{{call(0, strings.Repeat("n", abi.MaxName))}}},
		"name with é":     {lists: [][]Event{{call(0, "é")}}},
		"failed, no text": {lists: [][]Event{{{Kind: abi.EventFailed, Index: NoCall}}}},
	} {
		memory, packed := memoryOf(c.lists...)
		o := newOrder()
		var got []Event
		for i, p := range packed {
			var err error
			if got, err = o.read(memory, p, "", got); err != nil {
				t.Errorf("%s: list %d: %v", name, i, err)
			}
		}
		want := c.want
		for _, list := range c.lists {
			if c.want == nil {
				want = append(want, list...)
			}
		}
		clear(memory)
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %+v, want %+v", name, got, want)
		}
	}
}

// TestOrderBreaks: each thing that breaks a rule is named.
func TestOrderBreaks(t *testing.T) {
	begin := Event{Kind: abi.EventBegin, Name: "f", ID: "c"}
	for want, list := range map[string][]Event{
		"event 0: kind 6: the last is 5":        {{Kind: 6}},
		"event 0: call 1 begins, the next is 0": {call(1, "f")},
		"event 1: call 1 begins inside call 0":  {begin, call(1, "f")},
		"event 3: call 0 begins, the next is 1": {begin, args(0, "{}"), end(0), begin},
		`call 0 begins with name "" and id "c"`: {{Kind: abi.EventBegin, ID: "c"}},
		`call 0 begins with name "f" and id ""`: {{Kind: abi.EventBegin, Name: "f"}},
		"name of 257 bytes, the limit is 256": {call(0,
			strings.Repeat("n", abi.MaxName+1))},
		"id of 257 bytes, the limit is 256": {{Kind: abi.EventBegin, Name: "f",
			ID: strings.Repeat("n", abi.MaxName+1)}},
		"text of 1 bytes is not UTF-8": {content("\xc3")},
		"name of 1 bytes is not UTF-8": {call(0, "\xc3")},
		"id of 1 bytes is not UTF-8": {{Kind: abi.EventBegin, Name: "f",
			ID: "\xc3"}},
		"event 0: kind 3 of call 0, none is open": {args(0, "{}")},
		"event 1: kind 3 of call 1, open is 0":    {begin, args(1, "{}")},
		"event 0: kind 4 of call 0, none is open": {end(0)},
		"event 3: kind 4 of call 0, none is open": {begin, args(0, "{}"), end(0),
			end(0)},
		"event 1: call 0 ended, and its arguments of 0 bytes are no JSON object": {begin, end(0)},
		"event 2: call 0 ended, and its arguments of 2 bytes are no JSON object": {begin, args(0, "[]"), end(0)},
		"event 2: call 0 ended, and its arguments of 4 bytes are no JSON object": {begin, args(0, "{}{}"), end(0)},
		"event 1: kind 0 inside call 0":                                          {begin, content("a")},
		"event 1: kind 1 inside call 0":                                          {begin, reasoning("a")},
		"event 0: reason 5: the last is 4": {{Kind: abi.EventFailed,
			Index: NoCall, Failed: 5}},
		"event 0: kind 5 of call 0, none is open":       {failed(0, 0)},
		"event 1: kind 5 of call 4294967295, open is 0": {begin, failed(NoCall, 0)},
		"event 0: kind 0 has 3 at offset 4, which it does not use": {{Kind: abi.EventContent, Index: 3,
			Text: "a"}},
		"event 0: kind 1 has 1 at offset 32, which it does not use": {{Kind: abi.EventReasoning, Text: "a",
			Failed: 1}},
		"event 1: kind 3 has 24579 at offset 16, which it does not use": {begin, {Kind: abi.EventArguments,
			Text: "a", Name: "f"}},
		"event 0: kind 5 has 24578 at offset 16, which it does not use": {{Kind: abi.EventFailed,
			Index: NoCall, Text: "<x", Name: "f"}},
		"event 1: kind 4 has 24578 at offset 8, which it does not use": {begin,
			{Kind: abi.EventEnd, Text: "a"}},
		"event 4: kind 3 of call 0, open is 1": {begin, args(0, "{}"), end(0),
			call(1, "g"), args(0, "{}")},
		"event 2: kind 3 of call 0, none is open": {begin, failed(0, 0), args(0, "a")},
	} {
		memory, packed := memoryOf(list)
		o := newOrder()
		events, err := o.read(memory, packed[0], "", nil)
		if err == nil || !strings.Contains(err.Error(), want) || events != nil {
			t.Errorf("%+v: %v, want %q", list, err, want)
		}
	}
}

// TestReadOutside: arrays and texts that lie outside memory, are not aligned or too large are never read.
func TestReadOutside(t *testing.T) {
	memory := make([]byte, 65536)
	event := func(words ...uint32) uint64 {
		copy(memory[0x100:], guesttest.Bytes(append(words, make([]uint32, 9-len(words))...)...))
		return abi.Pack(0x100, 1)
	}
	for want, packed := range map[string]func() uint64{
		"4097 events, the limit is 4096":              func() uint64 { return abi.Pack(0, abi.MaxEvents+1) },
		"4294967295 events":                           func() uint64 { return math.MaxUint64 },
		"2 events at 0xffbc: want an address aligned": func() uint64 { return abi.Pack(65536-68, 2) },
		"1 events at 0x102: want an address aligned":  func() uint64 { return abi.Pack(0x102, 1) },
		"1 events at 0xfffffffc":                      func() uint64 { return abi.Pack(0xfffffffc, 1) },
		"text of 2 bytes at 0xffff":                   func() uint64 { return event(0, 0, 0xffff, 2) },
		"text of 16 bytes at 0xfffffff8":              func() uint64 { return event(0, 0, 0xfffffff8, 16) },
		"text of 8388609 bytes, the limit":            func() uint64 { return event(1, 0, 0, abi.MaxEventText+1) },
		"name of 2 bytes at 0xffff":                   func() uint64 { return event(2, 0, 0, 0, 0xffff, 2, 0x200, 1) },
		"id of 2 bytes at 0xffff":                     func() uint64 { return event(2, 0, 0, 0, 0x200, 2, 0xffff, 2) },
		"kind 4294967295: the last is 5":              func() uint64 { return event(0xffffffff) },
		"call 4294967295 begins, the next is 0": func() uint64 {
			return event(2, 0xffffffff, 0, 0, 0x200, 2, 0x200, 2)
		},
		"kind 2 has 1 at offset 12, which it": func() uint64 { return event(2, 0, 0, 1, 0x200, 2, 0x200, 2) },
		"kind 0 has 5 at offset 28, which it": func() uint64 { return event(0, 0, 0, 0, 0, 0, 0, 5) },
		"reason 4294967295: the last is 4": func() uint64 {
			return event(5, 0xffffffff, 0, 0, 0, 0, 0, 0, 0xffffffff)
		},
		"kind 5 of call 0, none is open": func() uint64 { return event(5, 0) },
	} {
		clear(memory)
		o := newOrder()
		if events, err := o.read(memory, packed(), "", nil); err == nil || !strings.Contains(err.Error(), want) ||
			events != nil {
			t.Errorf("%v, want %q", err, want)
		}
	}
}

// TestTextLimits: what a guest says in one call, in one call's arguments and over a sequence is bounded.
func TestTextLimits(t *testing.T) {
	big := strings.Repeat("x", abi.MaxEventText/2)
	read := func(o *order, list ...Event) error {
		memory, packed := memoryOf(list)
		_, err := o.read(memory, packed[0], "", nil)
		return err
	}
	wants := func(err error, want string) {
		t.Helper()
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	o := newOrder()
	if err := read(&o, content(big), reasoning(big)); err != nil {
		t.Error("as much as may be: ", err)
	}
	wants(read(&o, content("x")), "texts of 1 bytes more than 8388608 and 4 times what was fed")
	o = newOrder()
	o.earn(1)
	wants(read(&o, content(big), reasoning(big), content("x")), "event 2: texts of more than 8388608 bytes in one call")
	o = newOrder()
	if err := read(&o, content(big), content(big)); err != nil {
		t.Error(err)
	}
	o.earn(1)
	if err := read(&o, content("xxxx")); err != nil {
		t.Error("four times what was fed: ", err)
	}
	wants(read(&o, content("x")), "texts of 1 bytes more")
	o = newOrder()
	o.earn(abi.MaxEventText)
	if err := read(&o, call(0, "f"), args(0, big), args(0, big[4:])); err != nil {
		t.Error(err)
	}
	wants(read(&o, args(0, big)), "arguments of call 0 have more than 8388608 bytes")
}
