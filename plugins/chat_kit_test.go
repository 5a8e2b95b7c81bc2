package plugins

import (
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// Where the fakes of these tests keep things.
const (
	saysAt  = guesttest.Free + 0x100
	countAt = guesttest.Free + 0x800
	listAt  = guesttest.Free + 0x810
	eventAt = guesttest.Free + 0x900
)

// requested runs code when the request, whose length is the second argument of an export, is longer than usual by n
// bytes: than with the parameters {}.
func requested(usual string, n int, code guesttest.Code) guesttest.Code {
	return guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(usual)+n)), guesttest.Equal(),
		guesttest.When(code))
}

// The requests of these tests, and as they reach a guest when there are no parameters.
const (
	renderRequest = `{"messages":[]}`
	renderUsual   = `{"messages":[],"params":{}}`
	parseRequest  = `{"tools":[]}`
	parseUsual    = `{"tools":[],"params":{}}`
)

// Parameters by which the fakes are told what to do are doTrap, doSpin, doRogue, and these.
const doRefuse = `{"aaaa":1}`

// result is the struct of a rendered text with one span.
func result(status uint32, text string) map[uint32]string {
	return map[uint32]string{
		guesttest.Free: guesttest.Bytes(status, saysAt, uint32(len(text)), guesttest.Free+0x40, 1), guesttest.Free +
			0x40: guesttest.Bytes(1, 2), saysAt: text,
	}
}

// renderer is a guest of kind template that renders any conversation as a text of its own, unless it is told otherwise.
func renderer(text string) guesttest.Fake {
	ends := guesttest.Code{0x0f} // return
	return guesttest.Fake{
		Description: guesttest.Template, Data: result(abi.StatusOK, text), Imports: []string{"log"},
		Code: map[string]guesttest.Code{"tgi_template_render": guesttest.Join(
			guesttest.Const(2), guesttest.Const(saysAt), guesttest.Const(2), guesttest.Call(0),
			requested(renderUsual, len(doTrap)-2, guesttest.Trap()),
			requested(renderUsual, len(doSpin)-2, guesttest.Spin()),
			requested(renderUsual, len(doRogue)-2, guesttest.Join(guesttest.Const(0xfffffff0), ends)),
			requested(renderUsual, len(doRefuse)-2, guesttest.Store(guesttest.Free, abi.StatusFailed)),
			guesttest.Const(guesttest.Free))},
	}
}

// parse is a guest of kind tools that gives any piece as content of a text of its own, unless it is told otherwise: it
// fails when it begins, or, with doRogue, at the first piece.
func parser(text string) guesttest.Fake {
	return guesttest.Fake{
		Description: guesttest.Tools, Data: map[uint32]string{
			eventAt: guesttest.Bytes(abi.EventContent, 0, saysAt, uint32(len(text)), 0, 0, 0, 0, 0), saysAt: text,
		},
		Code: map[string]guesttest.Code{
			"tgi_tools_begin": guesttest.Join(
				requested(parseUsual, len(doTrap)-2, guesttest.Trap()),
				requested(parseUsual, len(doSpin)-2, guesttest.Spin()),
				requested(parseUsual, len(doRogue)-2, guesttest.Store(countAt, 1)),
				requested(parseUsual, len(doRefuse)-2,
					guesttest.Join(guesttest.Long(abi.Pack(saysAt, uint32(len(text)))), guesttest.Code{0x0f})),
				guesttest.Long(0)),
			"tgi_tools_feed": guesttest.Join(guesttest.Load(countAt),
				guesttest.When(guesttest.Join(guesttest.Long(abi.Pack(0xfffffff0, 1)), guesttest.Code{0x0f})),
				guesttest.Long(abi.Pack(eventAt, 1))),
		},
	}
}

// chatSet opens a set with a template "t", a parser "p", and one of a logits plugin "l".
func chatSet(t testing.TB, o Options) *Set {
	t.Helper()
	o.Specs = append(o.Specs, spec(t, "t", renderer("hello").Wasm()), spec(t, "p", parser("hi").Wasm()),
		spec(t, "l", bias(1).Wasm()))
	return open(t, o)
}

var chatDefaults = ChatPlugins{Template: "t", Tools: "p"}

// bindChat binds a conversation.
func bindChat(t testing.TB, s *Set, d ChatPlugins, calls ...Call) *BoundChat {
	t.Helper()
	b, _, err := s.BindChat(ctx, calls, d)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// converse renders, parses a piece and finishes; it gives what came of it, or the first error.
func converse(s *Set, d ChatPlugins, calls ...Call) (text, said string, err error) {
	b, _, err := s.BindChat(ctx, calls, d)
	if err != nil {
		return "", "", err
	}
	defer b.Close()
	r, err := b.Render(ctx, []byte(renderRequest))
	if err != nil {
		return "", "", err
	}
	p, err := b.Parser(ctx, []byte(parseRequest), 1)
	if err != nil || p == nil {
		return r.Text, "", err
	}
	defer p.Close()
	events, err := p.Feed("x", false)
	if err != nil {
		return r.Text, "", err
	}
	for _, e := range events {
		said += e.Text
	}
	_, err = p.Finish(false)
	return r.Text, said, err
}
