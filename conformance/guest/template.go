package guest

import (
	"encoding/binary"
	"strings"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// renders has the guest render all conversations, each in an instance of its
// own.
func (p *prepared) renders() (answers []Answer, ok bool) {
	if p.run.now.Refused {
		return nil, true
	}
	for _, request := range conversations {
		a, ok := p.render(request)
		if !ok {
			return nil, false
		}
		answers = append(answers, a)
	}
	return answers, true
}

func (p *prepared) render(request string) (a Answer, ok bool) {
	q, ok := p.begin()
	if !ok {
		return a, false
	}
	defer q.Close()
	p.world.Seed = seed
	at, n, ok := q.hand([]byte(withMember(request, "params", p.run.now.Params)))
	if !ok {
		return a, false
	}
	v, ok := q.call("tgi_template_render", at, n)
	if !ok {
		return a, false
	}
	before := len(p.run.found)
	a = q.rendered(uint32(v))
	return a, len(p.run.found) == before
}

// rendered reads a result and reports what is wrong with it.
func (p *prepared) rendered(at uint32) Answer {
	a := Answer{Kind: abi.KindTemplate}
	b, ok := p.read(at, abi.RenderedSize)
	if !ok || at%4 != 0 {
		p.run.report("rendered", "result at %#x, memory ends at %#x", at, len(p.Memory()))
		return a
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	status, textAt, size := field(abi.RenderedStatus), field(abi.RenderedText), field(abi.RenderedTextBytes)
	if size == 0 {
		textAt = 0
	}
	text, ok := p.read(textAt, size)
	switch {
	case status > abi.StatusFailed:
		p.run.report("rendered", "status %d", status)
	case !ok:
		p.run.report("rendered", "text of %d bytes at %#x, memory ends at %#x", size, textAt, len(p.Memory()))
	case size > abi.MaxRendered:
		p.run.report("rendered", "text of %d bytes, more than %d", size, abi.MaxRendered)
	case !utf8.Valid(text):
		p.run.report("rendered", "text of %d bytes is not UTF-8", size)
	case status == abi.StatusFailed && size == 0:
		p.run.report("rendered", "failed without a text")
	case status == abi.StatusFailed:
		a.Fault = string(text)
	default:
		a.Text = string(text)
		a.Spans = p.spans(text, field(abi.RenderedSpans), field(abi.RenderedSpanCount))
	}
	return a
}

func (p *prepared) spans(text []byte, at, count uint32) (out [][2]uint32) {
	if count == 0 {
		return nil
	}
	if count > abi.MaxSpans {
		p.run.report("spans", "%d, more than %d", count, abi.MaxSpans)
		return nil
	}
	b, ok := p.read(at, count*abi.SpanSize)
	if !ok || at%4 != 0 {
		p.run.report("spans", "%d at %#x, memory ends at %#x", count, at, len(p.Memory()))
		return nil
	}
	last := uint32(0)
	for ; len(b) > 0; b = b[abi.SpanSize:] {
		from, to := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		if from < last || to < from || int64(to) > int64(len(text)) || !border(text, from) || !border(text, to) {
			p.run.report("spans", "from %d to %d after one that ends at %d, of %d bytes", from, to, last, len(text))
			return nil
		}
		out, last = append(out, [2]uint32{from, to}), to
	}
	return out
}

// border reports whether a character begins at an offset, or the text ends.
func border(text []byte, at uint32) bool { return int(at) == len(text) || utf8.RuneStart(text[at]) }

// forge lets a message hold the kit's special tokens: as many of them as before
// may stand outside of data.
func (p *prepared) forge() {
	const plain, forged = "a b c", "a<s>b</s>c"
	want, ok := p.render(said(plain))
	if !ok || want.Fault != "" {
		return
	}
	got, ok := p.render(said(forged))
	if !ok || got.Fault != "" {
		return
	}
	for _, token := range []string{"<s>", "</s>"} {
		if a, b := outside(want, token), outside(got, token); a != b {
			p.run.report("forge", "%d times %q outside data, %d times when a message holds it: %q", a, token, b,
				got.Text)
		}
	}
}

// outside counts a token in the rendered text where none of it is data.
func outside(a Answer, token string) (n int) {
	for at := 0; ; {
		i := strings.Index(a.Text[at:], token)
		if i < 0 {
			return n
		}
		from, to := at+i, at+i+len(token)
		data := false
		for _, s := range a.Spans {
			data = data || int(s[0]) < to && from < int(s[1])
		}
		if !data {
			n++
		}
		at = to
	}
}
