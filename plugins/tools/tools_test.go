package tools

import (
	"encoding/binary"
	"errors"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// TestParser plays a sequence: text, a call over several pieces, and what finish has to say.
func TestParser(t *testing.T) {
	s := script{
		feeds:  [][]Event{{content("Hé")}, nil, {call(0, "get_time"), args(0, `{"a":`)}, {args(0, "1}"), end(0)}},
		finish: []Event{failed(NoCall, abi.FailedIncomplete)},
	}
	p := parser(t, s.fake(nil), guest.Limits{})
	for i, want := range s.feeds {
		got, err := p.Feed([]string{"Hé", "<tool>", "x", "y"}[i], i == 1)
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("feed %d: %+v, %v, want %+v", i, got, err, want)
		}
	}
	if got, err := p.Feed("", false); got != nil || err != nil {
		t.Errorf("nothing fed: %v, %v", got, err)
	}
	if got, err := p.Finish(true); err != nil || !slices.Equal(got, s.finish) {
		t.Errorf("finish: %+v, %v", got, err)
	}
	if _, err := p.Feed("x", false); !errors.Is(err, errFinished) {
		t.Errorf("feed after finish: %v", err)
	}
	if _, err := p.Finish(true); !errors.Is(err, errFinished) {
		t.Errorf("finish after finish: %v", err)
	}
}

// TestEventsAreCopies: what a feed gave stays as it is, whatever the guest does with its memory.
func TestEventsAreCopies(t *testing.T) {
	s := script{feeds: [][]Event{{content("abc"), call(0, "f"), args(0, "{}")}}}
	p := parser(t, s.fake(nil), guest.Limits{})
	got, err := p.Feed("abc", false)
	if err != nil {
		t.Fatal(err)
	}
	clear(p.s.Memory())
	if !reflect.DeepEqual(got, s.feeds[0]) {
		t.Errorf("%+v", got)
	}
}

// TestPieces: each piece reaches the guest whole with its flags, a long text in parts on the borders of characters, a
// long special token in one.
func TestPieces(t *testing.T) {
	// feed keeps its arguments, and gives one event whose text is the piece.
	event := guesttest.Bytes(abi.EventContent, 0, 0, 0, 0, 0, 0, 0, 0)
	code := guesttest.Long(abi.Pack(eventsAt, 1))
	for i, at := range []uint32{eventsAt + abi.EventText, eventsAt + abi.EventTextBytes, guesttest.Free} {
		code = guesttest.Join(guesttest.Const(at), guesttest.Arg(uint32(i)), guesttest.Put(), code)
	}
	f := guesttest.Fake{Description: guesttest.Tools, Data: map[uint32]string{eventsAt: event},
		Code: map[string]guesttest.Code{"tgi_tools_feed": code}}
	p := parser(t, f, guest.Limits{})
	for _, c := range []struct {
		piece   string
		special bool
		parts   []int
	}{
		{"a", false, []int{1}},
		{"<s>", true, []int{3}},
		{strings.Repeat("x", guest.PieceRoom), false, []int{guest.PieceRoom}},
		{strings.Repeat("x", guest.PieceRoom+1), false, []int{guest.PieceRoom, 1}},
		{strings.Repeat("é", guest.PieceRoom), false, []int{guest.PieceRoom, guest.PieceRoom}},
		{"x" + strings.Repeat("é", guest.PieceRoom), false, []int{guest.PieceRoom - 1, guest.PieceRoom, 2}},
		{"xx" + strings.Repeat("😀", 2048), false, []int{guest.PieceRoom - 2, guest.PieceRoom, 4}},
		{strings.Repeat("s", 3*guest.PieceRoom), true, []int{3 * guest.PieceRoom}},
		{strings.Repeat("t", 2*guest.PieceRoom), true, []int{2 * guest.PieceRoom}},
		{strings.Repeat("u", 4*guest.PieceRoom), true, []int{4 * guest.PieceRoom}},
	} {
		events, err := p.Feed(c.piece, c.special)
		if err != nil {
			t.Fatalf("%d bytes: %v", len(c.piece), err)
		}
		var parts []int
		all := ""
		for _, e := range events {
			parts = append(parts, len(e.Text))
			all += e.Text
		}
		flags := binary.LittleEndian.Uint32(p.s.Memory()[guesttest.Free:])
		if (flags == abi.PieceSpecial) != c.special || flags > 1 {
			t.Errorf("%d bytes: flags %d", len(c.piece), flags)
		}
		if all != c.piece || !slices.Equal(parts, c.parts) {
			t.Errorf("%d bytes: parts of %d, want %d", len(c.piece), parts, c.parts)
		}
		if c.special && len(c.piece) > guest.PieceRoom && p.size < len(c.piece) {
			t.Errorf("%d bytes in room of %d", len(c.piece), p.size)
		}
	}
	for range abi.MaxEventText/guest.PieceRoom + 10 { // what was fed may come back, however much it is
		if _, err := p.Feed(strings.Repeat("x", guest.PieceRoom), false); err != nil {
			t.Fatal(err)
		}
	}
}

// TestRequest: the parameters are a member of the request, and a "no" is the guest's own.
func TestRequest(t *testing.T) {
	begins := func(code guesttest.Code) map[string]guesttest.Code {
		return map[string]guesttest.Code{"tgi_tools_begin": code}
	}
	keep := guesttest.Join(guesttest.Const(counterAt), guesttest.Arg(0), guesttest.Put(), guesttest.Const(counterAt+4),
		guesttest.Arg(1), guesttest.Put(), guesttest.Long(0))
	s := guesttest.Open(t, script{}.fake(begins(keep)), guest.Limits{}, nil)
	if _, err := Begin(s, []byte(`{"tools":[]}`), []byte(`{"a":1}`)); err != nil {
		t.Fatal(err)
	}
	m := s.Memory()
	at, n := binary.LittleEndian.Uint32(m[counterAt:]), binary.LittleEndian.Uint32(m[counterAt+4:])
	if got := string(m[at:][:n]); got != `{"tools":[],"params":{"a":1}}` {
		t.Errorf("request %q", got)
	}
	no := script{feeds: [][]Event{{content("no such format")}}}
	s = guesttest.Open(t, no.fake(begins(guesttest.Long(abi.Pack(textsAt, 14)))), guest.Limits{}, nil)
	var refusal *guest.Refusal
	if _, err := Begin(s, []byte(`{}`), nil); !errors.As(err, &refusal) || refusal.Text != "no such format" {
		t.Errorf("refusal: %v", err)
	}
}

// TestFaults: whatever the guest does wrong ends the sequence, names plugin, export and cause, and is counted once.
func TestFaults(t *testing.T) {
	feed := func(code guesttest.Code) guesttest.Fake {
		return script{}.fake(map[string]guesttest.Code{"tgi_tools_feed": guesttest.Join(code, guesttest.Long(0))})
	}
	for _, c := range []struct {
		name string
		f    guesttest.Fake
		kind error
		want string
	}{
		{"trap", feed(guesttest.Trap()), sandbox.ErrTrap, "fake: tgi_tools_feed: trap"},
		{"loop", feed(guesttest.Spin()), sandbox.ErrFuel, "fake: tgi_tools_feed: out of fuel"},
		{"events outside", script{}.fake(map[string]guesttest.Code{"tgi_tools_feed": guesttest.Long(abi.Pack(0xfffffff0,
			2))}), sandbox.ErrResult, "fake: tgi_tools_feed: unusable result: 2 events at 0xfffffff0"},
		{"order", script{feeds: [][]Event{{end(0)}}}.fake(nil), sandbox.ErrResult,
			"fake: tgi_tools_feed: unusable result: event 0: kind 4 of call 0, none is open"},
		{"costly", script{feeds: [][]Event{make([]Event, 100)}}.fake(nil), sandbox.ErrResult,
			"the host's work on it needs 10000 fuel"},
	} {
		p := parser(t, c.f, guest.Limits{FuelPerStep: 4000})
		events, err := p.Feed("x", false)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), c.want) || events != nil {
			t.Errorf("%s: %v, %v, want %q", c.name, events, err, c.want)
		}
		if _, err := p.Feed("x", false); !errors.Is(err, sandbox.ErrBroken) {
			t.Errorf("%s, fed again: %v", c.name, err)
		}
		if _, err := p.Finish(false); !errors.Is(err, sandbox.ErrBroken) {
			t.Errorf("%s, finished: %v", c.name, err)
		}
		if n := p.s.Guest().Stats().Faults.All(); n != 1 {
			t.Errorf("%s: %d faults counted", c.name, n)
		}
	}
}

// TestFinishBreaks: finish is held to the same rules, and leaves no call open.
func TestFinishBreaks(t *testing.T) {
	for want, s := range map[string]script{
		"call 0 is neither ended nor failed": {feeds: [][]Event{{call(0, "f")}}},
		"call 1 is neither ended nor failed": {feeds: [][]Event{{call(0, "f"), args(0, "{}"), end(0)}},
			finish: []Event{call(1, "g")}},
		"event 0: kind 4 of call 0, none": {feeds: [][]Event{nil}, finish: []Event{end(0)}},
	} {
		p := parser(t, s.fake(nil), guest.Limits{})
		if _, err := p.Feed("x", false); err != nil {
			t.Fatal(err)
		}
		if _, err := p.Finish(false); !errors.Is(err, sandbox.ErrResult) ||
			!strings.Contains(err.Error(), "fake: tgi_tools_finish: unusable result: "+want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	p := parser(t, script{}.fake(map[string]guesttest.Code{"tgi_tools_finish": guesttest.Trap()}), guest.Limits{})
	if _, err := p.Finish(true); !errors.Is(err, sandbox.ErrTrap) {
		t.Errorf("a trap in finish: %v", err)
	}
}

// TestFinishReason: the guest is told why the text ended.
func TestFinishReason(t *testing.T) {
	keep := guesttest.Join(guesttest.Const(counterAt), guesttest.Arg(0), guesttest.Put(), guesttest.Long(0))
	for cut, want := range map[bool]uint32{false: abi.FinishEnd, true: abi.FinishCut} {
		p := parser(t, script{}.fake(map[string]guesttest.Code{"tgi_tools_finish": keep}), guest.Limits{})
		if _, err := p.Finish(cut); err != nil || binary.LittleEndian.Uint32(p.s.Memory()[counterAt:]) != want {
			t.Errorf("cut %v: %v, want %d", cut, err, want)
		}
	}
}

// TestCancel: a sequence's end ends a feed that runs.
func TestCancel(t *testing.T) {
	cancel := make(chan struct{})
	f := script{}.fake(map[string]guesttest.Code{"tgi_tools_feed": guesttest.Spin()})
	p, err := Begin(guesttest.Open(t, f, guest.Limits{FuelPerStep: 1 << 40}, cancel), []byte(`{}`), nil)
	if err != nil {
		t.Fatal(err)
	}
	close(cancel)
	if _, err := p.Feed("x", false); !errors.Is(err, sandbox.ErrCancelled) {
		t.Errorf("%v", err)
	}
}

// TestBurst: a sequence saves the fuel of steps that it did not need, for one that needs more.
func TestBurst(t *testing.T) {
	const rounds = 1000 // a loop of some 5 instructions each, at the fifth piece
	work := guesttest.Join(
		guesttest.Const(counterAt), guesttest.Load(counterAt), guesttest.Const(1), guesttest.Add(), guesttest.Put(),
		guesttest.Load(counterAt), guesttest.Const(5), guesttest.Equal(), guesttest.When(guesttest.Join(
			guesttest.Code{0x03, 0x40}, // loop
			guesttest.Const(counterAt+4), guesttest.Load(counterAt+4), guesttest.Const(1), guesttest.Add(),
			guesttest.Put(),
			// br_if, end
			guesttest.Const(rounds), guesttest.Load(counterAt+4), guesttest.Sub(), guesttest.Code{0x0d, 0, 0x0b})),
		guesttest.Long(0))
	f := script{}.fake(map[string]guesttest.Code{"tgi_tools_feed": work})
	for _, c := range []struct {
		perStep int64
		ok      bool
	}{{3500, true}, {1000, false}} {
		p := parser(t, f, guest.Limits{FuelPerStep: c.perStep})
		var err error
		for range 5 {
			if err == nil {
				_, err = p.Feed("x", false)
			}
		}
		if (err == nil) != c.ok || err != nil && !errors.Is(err, sandbox.ErrFuel) {
			t.Errorf("%d per step: %v; %+v", c.perStep, err, p.s.Guest().Stats())
		}
	}
}

// BenchmarkFeed is the host's part of feeding a piece: a guest that says nothing, one that gives the piece back, and
// one that gives another text.
func BenchmarkFeed(b *testing.B) {
	static := func(events ...Event) guesttest.Fake {
		feed := guesttest.Long(abi.Pack(eventsAt, uint32(len(events))))
		return script{feeds: [][]Event{events}}.fake(map[string]guesttest.Code{"tgi_tools_feed": feed})
	}
	for name, f := range map[string]guesttest.Fake{
		"nothing": script{}.fake(map[string]guesttest.Code{"tgi_tools_feed": guesttest.Long(0)}),
		"same":    static(content(" hello")),
		"other":   static(content("held back")),
		"two":     static(content("a"), reasoning("b")),
	} {
		b.Run(name, func(b *testing.B) {
			p := parser(b, f, guest.Limits{})
			b.ReportAllocs()
			for b.Loop() {
				if _, err := p.Feed(" hello", false); err != nil {
					b.Fatal(err)
				}
				p.order.left = abi.MaxEventText
			}
		})
	}
}
