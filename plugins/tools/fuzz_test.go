package tools

import (
	"encoding/binary"
	"encoding/json"
	"testing"
	"unicode/utf8"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// FuzzRead: whatever a guest leaves in its memory, events are those of the contract or there are none.
func FuzzRead(f *testing.F) {
	for _, list := range [][]Event{
		{content("a"), reasoning("é")}, {call(0, "f"), args(0, "{}"), end(0), content("x")},
		{failed(NoCall, 1), call(0, "g"), failed(0, 4)},
	} {
		memory, packed := memoryOf(list)
		const shift = textsAt - eventsAt - 0x400 // texts come closer to the events, and both to the start
		memory = append(memory[eventsAt:eventsAt+0x400], memory[textsAt:]...)
		for i := range list {
			for _, field := range []int{abi.EventText, abi.EventName, abi.EventID} {
				if b := memory[i*abi.EventSize+field:]; binary.LittleEndian.Uint32(b) != 0 {
					binary.LittleEndian.PutUint32(b, binary.LittleEndian.Uint32(b)-eventsAt-shift)
				}
			}
		}
		if o := newOrder(); len(list) > 2 {
			if events, err := o.read(memory, abi.Pack(0, uint32(packed[0])), "x", nil); err != nil ||
				len(events) != len(list) {
				f.Fatalf("a seed is no good: %v, %v", events, err)
			}
		}
		f.Add(memory, uint32(0), uint32(packed[0]))
	}
	f.Fuzz(func(t *testing.T, memory []byte, at, count uint32) {
		o := newOrder()
		before := o.left
		var all []Event
		for range 2 {
			events, err := o.read(memory, abi.Pack(at, count), "x", nil)
			if err != nil {
				if events != nil {
					t.Errorf("%v beside %v", events, err)
				}
				break
			}
			all = append(all, events...)
		}
		open, next, sum := -1, 0, 0
		for _, e := range all {
			sum += len(e.Text) + len(e.Name) + len(e.ID)
			if !utf8.ValidString(e.Text + e.Name + e.ID) {
				t.Errorf("%+v is not UTF-8", e)
			}
			switch {
			case e.Kind == abi.EventBegin && open < 0 && e.Index == next && e.Name != "" && e.ID != "":
				open, next = e.Index, next+1
			case (e.Kind == abi.EventEnd || e.Kind == abi.EventFailed) && open >= 0 && e.Index == open:
				open = -1
			case e.Kind == abi.EventFailed && open < 0 && e.Index == NoCall:
			case e.Kind == abi.EventArguments && open >= 0 && e.Index == open:
			case e.Kind <= abi.EventReasoning && open < 0 && e.Text != "":
			default:
				t.Errorf("%+v while call %d is open", e, open)
			}
		}
		if sum > before {
			t.Errorf("texts of %d bytes", sum)
		}
	})
}

// FuzzConstraint: whatever a guest's memory holds, what is read of it keeps to the rules.
func FuzzConstraint(f *testing.F) {
	put := func(status uint32, text, notes string) []byte {
		return []byte(guesttest.Bytes(status, abi.CompiledSize, uint32(len(text)), abi.CompiledSize+uint32(len(text)),
			uint32(len(notes))) + text + notes)
	}
	f.Add(put(abi.StatusOK, heldTo, `[{"pointer":"#/tools","keyword":"k","reason":"r"}]`), uint32(0))
	f.Add(put(abi.StatusOK, "", ""), uint32(4))
	f.Add(put(abi.StatusFailed, "no", ""), uint32(0))
	f.Add(put(7, "{", "["), uint32(0xffffffff))
	f.Fuzz(func(t *testing.T, memory []byte, at uint32) {
		var c Constraint
		_, refused, err := guest.ReadCompiled(memory, at, abi.MaxConstraint, func(text []byte) (err error) {
			c, err = readConstraint(text)
			return err
		})
		switch {
		case err != nil || refused != nil:
			return
		case c.Source == "" && (c.Language != "" || c.Places != nil):
			t.Errorf("nothing to hold to, and %+v", c)
		case len(c.Source) > abi.MaxSource || len(c.Language) > abi.MaxLanguage || len(c.Places) > abi.MaxPlaces:
			t.Errorf("a source of %d bytes in %q, %d places", len(c.Source), c.Language, len(c.Places))
		case c.Source != "" && c.Params != nil && !json.Valid(c.Params):
			t.Errorf("params %q", c.Params)
		}
	})
}
