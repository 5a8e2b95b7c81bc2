package template_test

import (
	"errors"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/template"
	"tgi/sdk/abi"
)

// Where the fakes of these tests keep things.
const (
	resultAt = guesttest.Free
	textAt   = guesttest.Free + 0x100
	spansAt  = guesttest.Free + 0x800
)

// open loads a guest and takes an instance.
func open(t testing.TB, f guesttest.Fake, limits guest.Limits, cancel <-chan struct{}) *guest.Session {
	t.Helper()
	if f.Description == "" {
		f.Description = guesttest.Template
	}
	return guesttest.Open(t, f, limits, cancel)
}

// answering is a guest whose render gives the five words of a result.
func answering(text string, spans []uint32, words ...uint32) guesttest.Fake {
	return guesttest.Fake{
		Data: map[uint32]string{resultAt: guesttest.Bytes(words...), textAt: text, spansAt: guesttest.Bytes(spans...)},
		Code: map[string]guesttest.Code{"tgi_template_render": guesttest.Const(resultAt)},
	}
}

// saying is a guest that renders a text with spans.
func saying(text string, spans ...uint32) guesttest.Fake {
	return answering(text, spans, abi.StatusOK, textAt, uint32(len(text)), spansAt, uint32(len(spans)/2))
}

func TestRender(t *testing.T) {
	const text = "<|user|>Hé</s>"
	for _, c := range []struct {
		name string
		f    guesttest.Fake
		want template.Rendered
	}{
		{"the contract's example", saying("<|user|>Hi</s>", 8, 10), template.Rendered{Text: "<|user|>Hi</s>",
			Data: []template.Span{{Start: 8, End: 10}}}},
		{"no spans", saying(text), template.Rendered{Text: text}},
		{"all of it", saying(text, 0, 15), template.Rendered{Text: text, Data: []template.Span{{Start: 0, End: 15}}}},
		{"neighbours, a character of two bytes", saying(text, 8, 9, 9, 11, 11, 15), template.Rendered{Text: text,
			Data: []template.Span{{Start: 8, End: 9}, {Start: 9, End: 11}, {Start: 11, End: 15}}}},
		{"empty spans say nothing", saying(text, 0, 0, 9, 9, 9, 11, 15, 15), template.Rendered{Text: text,
			Data: []template.Span{{Start: 9, End: 11}}}},
		{"empty text", answering("", nil, 0, 0xffffffff, 0, 0xffffffff, 0), template.Rendered{}},
	} {
		s := open(t, c.f, guest.Limits{}, nil)
		got, err := template.Render(s, []byte(`{}`), nil)
		if err != nil || got.Text != c.want.Text || !slices.Equal(got.Data, c.want.Data) {
			t.Errorf("%s: %+v, %v, want %+v", c.name, got, err, c.want)
		}
		clear(s.Memory())
		if got.Text != c.want.Text {
			t.Errorf("%s: the text lies in the guest's memory", c.name)
		}
	}
}

// TestRenderBreaks: each result that breaks a rule is a fault that names plugin, export and rule.
func TestRenderBreaks(t *testing.T) {
	const text = "<|user|>Hé</s>"
	at := func(v uint32) guesttest.Fake {
		return guesttest.Fake{Code: map[string]guesttest.Code{"tgi_template_render": guesttest.Const(v)}}
	}
	with := func(words ...uint32) guesttest.Fake { return answering(text, []uint32{8, 9, 9, 11}, words...) }
	pages16 := uint32(16 * 65536)
	for _, c := range []struct {
		name string
		f    guesttest.Fake
		want string
	}{
		{"result behind memory", at(pages16 - 16), "result of 20 bytes at 0xffff0"},
		{"result at the end of addresses", at(math.MaxUint32 - 3), "result of 20 bytes at 0xfffffffc"},
		{"result not aligned", at(resultAt + 2), "aligned to 4"},
		{"status", with(7, textAt, 1, 0, 0), "status 7 is neither 0 nor 1"},
		{"failed without a text", with(1, textAt, 0, 0, 0), "status 1 without a text"},
		{"failed, text behind memory", with(1, pages16-1, 2, 0, 0), "text of 2 bytes at 0xfffff"},
		{"text behind memory", with(0, pages16-1, 2, 0, 0), "text of 2 bytes at 0xfffff"},
		{"text around memory", with(0, 0xffffffff, 0xffffffff, 0, 0), "text of 4294967295 bytes"},
		{"text cut in a character", with(0, textAt, 10, 0, 0), "text of 10 bytes is not UTF-8"},
		{"spans behind memory", with(0, textAt, 15, pages16-8, 2), "2 spans at 0xffff8"},
		{"spans around memory", with(0, textAt, 15, 0xfffffffc, 1), "1 spans at 0xfffffffc"},
		{"spans not aligned", with(0, textAt, 15, spansAt+2, 1), "aligned to 4"},
		{"span backwards", saying(text, 9, 8), "span 0 from 9 to 8"},
		{"span behind the text", saying(text, 8, 16), "span 0 from 8 to 16, the text has 15 bytes"},
		{"spans overlap", saying(text, 0, 9, 8, 9), "span 1 from 8: the one before ends at 9"},
		{"spans fall", saying(text, 11, 12, 0, 1), "span 1 from 0: the one before ends at 12"},
		{"span begins in a character", saying(text, 10, 11), "span 0 from 10 to 11 cuts a character"},
		{"span ends in a character", saying(text, 8, 10), "span 0 from 8 to 10 cuts a character"},
	} {
		s := open(t, c.f, guest.Limits{}, nil)
		r, err := template.Render(s, []byte(`{}`), nil)
		if !errors.Is(err, sandbox.ErrResult) || !strings.HasPrefix(err.Error(), "fake: tgi_template_render: ") ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, want %q", c.name, err, c.want)
		}
		if r.Text != "" || r.Data != nil {
			t.Errorf("%s: %+v beside the error", c.name, r)
		}
		if s.Guest().Stats().Faults.Result != 1 {
			t.Errorf("%s: counted %+v", c.name, s.Guest().Stats().Faults)
		}
	}
}

// TestRenderTooLong: a text or spans beyond the limits refuse the request, and are no fault of the plugin's.
func TestRenderTooLong(t *testing.T) {
	for want, words := range map[string][5]uint32{
		"the rendered text has 16777217 bytes and 0 spans, the limits are 16777216 and 262144": {0, 0, abi.MaxRendered +
			1, 0, 0},
		"the rendered text has 15 bytes and 262145 spans, the limits are 16777216 and 262144": {0, textAt, 15, 0,
			abi.MaxSpans + 1},
	} {
		f := answering("<|user|>Hé</s>", nil, words[:]...)
		f.Pages = 320
		s := open(t, f, guest.Limits{}, nil)
		_, err := template.Render(s, []byte(`{}`), nil)
		var refusal *guest.Refusal
		if !errors.As(err, &refusal) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %s", err, want)
		}
		if got := s.Guest().Stats().Faults; got != (guest.Stats{}).Faults {
			t.Errorf("counted %+v", got)
		}
	}
}

// TestRenderFaults: a guest that traps, loops or takes all memory ends with its call.
func TestRenderFaults(t *testing.T) {
	rendering := func(c guesttest.Code) guesttest.Fake {
		return guesttest.Fake{Imports: []string{"log"}, Data: map[uint32]string{guesttest.Free: "at line 3"},
			Code: map[string]guesttest.Code{"tgi_template_render": guesttest.Join(guesttest.Const(2),
				guesttest.Const(guesttest.Free), guesttest.Const(9), guesttest.Call(0), c, guesttest.Const(0))}}
	}
	for _, c := range []struct {
		name string
		code guesttest.Code
		kind error
	}{{"trap", guesttest.Trap(), sandbox.ErrTrap}, {"loop", guesttest.Spin(), sandbox.ErrFuel}} {
		s := open(t, rendering(c.code), guest.Limits{FuelPerRequest: 1_000_000}, nil)
		_, err := template.Render(s, []byte(`{}`), nil)
		if !errors.Is(err, c.kind) || !strings.Contains(err.Error(), "fake: tgi_template_render: ") ||
			!strings.Contains(err.Error(), `last printed: "at line 3"`) {
			t.Errorf("%s: %v", c.name, err)
		}
		if _, err := template.Render(s, []byte(`{}`), nil); !errors.Is(err, sandbox.ErrBroken) {
			t.Errorf("%s, again: %v", c.name, err)
		}
	}
	cancel := make(chan struct{})
	close(cancel)
	s := open(t, rendering(guesttest.Spin()), guest.Limits{}, cancel)
	if _, err := template.Render(s, []byte(`{}`), nil); !errors.Is(err, sandbox.ErrCancelled) {
		t.Errorf("cancelled: %v", err)
	}
}

// TestRenderRefuses: a guest's own words reach the caller, cut and mended, and are no fault.
func TestRenderRefuses(t *testing.T) {
	for text, want := range map[string]string{
		"messages must alternate": "messages must alternate", "a\xffb": "a\uFFFDb",
		strings.Repeat("é", 2048) + "x": strings.Repeat("é", 2048),
	} {
		f := answering("", nil, abi.StatusFailed, guesttest.Heap, uint32(len(text)), 0xffffffff, 9)
		f.Data[guesttest.Heap] = text
		f.Code["tgi_alloc"] = guesttest.Join(guesttest.Code{0x23, 0}, guesttest.Const(0x2000), guesttest.Add(),
			guesttest.Code{0x23, 0}, guesttest.Arg(0), guesttest.Const(15), guesttest.Add(),
			guesttest.Const(0xfffffff0), guesttest.Code{0x71}, guesttest.Add(), guesttest.Code{0x24, 0})
		s := open(t, f, guest.Limits{}, nil)
		_, err := template.Render(s, []byte(`{}`), nil)
		var no *guest.Refusal
		if !errors.As(err, &no) || no.Text != want || s.Guest().Stats().Refusals != 1 ||
			s.Guest().Stats().Faults.All() != 0 {
			t.Errorf("%q: %v, %+v", text, err, s.Guest().Stats())
		}
	}
}

// TestRequestReachesTheGuest: the parameters are a member of the request.
func TestRequestReachesTheGuest(t *testing.T) {
	// render answers with the request itself.
	echo := guesttest.Fake{Code: map[string]guesttest.Code{"tgi_template_render": guesttest.Join(
		guesttest.Const(resultAt+abi.RenderedText), guesttest.Arg(0), guesttest.Put(),
		guesttest.Const(resultAt+abi.RenderedTextBytes), guesttest.Arg(1), guesttest.Put(), guesttest.Const(resultAt))}}
	echo.Pages = 64
	long := `{"messages":["` + strings.Repeat("é", 1<<18) + `"]`
	for _, c := range []struct{ request, params, want string }{
		{`{"messages":[]}`, ``, `{"messages":[],"params":{}}`},
		{`{}`, `{"a":"é"}`, `{"params":{"a":"é"}}`},
		{long + "}", `{"b":1}`, long + `,"params":{"b":1}}`},
	} {
		r, err := template.Render(open(t, echo, guest.Limits{}, nil), []byte(c.request), []byte(c.params))
		if err != nil || r.Text != c.want {
			t.Errorf("%.40s with %s: %.60q, %v", c.request, c.params, r.Text, err)
		}
	}
}

// BenchmarkRender is the host's part of rendering a text of 40 KB with 50 spans.
func BenchmarkRender(b *testing.B) {
	text := strings.Repeat("hello ", 3000)
	var spans []uint32
	for i := range uint32(50) {
		spans = append(spans, 300*i, 300*i+200)
	}
	f := answering("", spans, 0, guesttest.Heap, uint32(len(text)), spansAt, 50)
	f.Data[guesttest.Heap] = text
	f.Description = guesttest.Template
	g, err := guest.Load(b.Context(), guesttest.Engine(b), guest.Config{Name: "fake", Wasm: f.Wasm(),
		Vocabulary: guesttest.NewWords()})
	if err != nil {
		b.Fatal(err)
	}
	defer g.Close()
	request := []byte(`{"messages":[]}`)
	b.ReportAllocs()
	for b.Loop() {
		s, err := g.Open(1, nil)
		if err != nil {
			b.Fatal(err)
		}
		if _, err := template.Render(s, request, nil); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
}
