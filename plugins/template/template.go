// Package template is the host side of the plugin kind "template", which turns a conversation into a prompt.
//
// It writes the request into the guest's memory, reads the result and validates it. sdk/abi defines what a request
// contains; the caller builds it.
package template

import (
	"encoding/binary"
	"fmt"
	"unicode/utf8"

	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Span is a part of a text.
type Span = llm.Span

// Rendered is what the model reads.
type Rendered = llm.Rendered

// render is the export of the kind.
const render = "tgi_template_render"

// Render renders a conversation, once in a session of guest.Open. request is the JSON object of abi.Template without
// "params", which are added; nil params mean {}. Neither is kept. If the guest refuses the conversation the error is a
// *guest.Refusal with the guest's text; other errors are a *sandbox.Fault or the pool's.
func Render(s *guest.Session, request, params []byte) (Rendered, error) {
	at, n, err := s.Request(guest.WithMember(request, "params", params))
	if err != nil {
		return Rendered{}, err
	}
	result, err := s.Call(render, at, n)
	if err != nil {
		return Rendered{}, err
	}
	r, refused, err := read(s.Memory(), uint32(result))
	switch {
	case err != nil:
		return Rendered{}, s.Break(render, err.Error())
	case refused != nil:
		return Rendered{}, s.Refuse(refused)
	}
	return r, nil
}

// read copies a result out of the guest's memory, or returns the text of a refusal, which may lie in that memory. The
// error names the broken rule and the value.
func read(memory []byte, at uint32) (r Rendered, refused []byte, err error) {
	if at%4 != 0 || uint64(at)+abi.RenderedSize > uint64(len(memory)) {
		return r, nil,
			fmt.Errorf("result of %d bytes at 0x%x: want an address aligned to 4 inside the memory of %d bytes",
				abi.RenderedSize, at, len(memory))
	}
	field := func(i uint32) uint32 { return binary.LittleEndian.Uint32(memory[at+i:]) }
	status, textAt, size := field(abi.RenderedStatus), field(abi.RenderedText), field(abi.RenderedTextBytes)
	if status != abi.StatusOK && status != abi.StatusFailed {
		return r, nil, fmt.Errorf("status %d is neither %d nor %d", status, abi.StatusOK, abi.StatusFailed)
	}
	if size == 0 {
		textAt = 0
	}
	if uint64(textAt)+uint64(size) > uint64(len(memory)) {
		return r, nil, fmt.Errorf("text of %d bytes at 0x%x, the memory has %d", size, textAt, len(memory))
	}
	text := memory[textAt:][:size]
	if status == abi.StatusFailed {
		if size == 0 {
			return r, nil, fmt.Errorf("status %d without a text that says why", status)
		}
		return r, text, nil
	}
	// A conversation of a client may be too long for anybody's template: that is no fault of the plugin's.
	spanCount := field(abi.RenderedSpanCount)
	if size > abi.MaxRendered || spanCount > abi.MaxSpans {
		return r, fmt.Appendf(nil, "the rendered text has %d bytes and %d spans, the limits are %d and %d", size,
			spanCount,
			abi.MaxRendered, abi.MaxSpans), nil
	}
	if !utf8.Valid(text) {
		return r, nil, fmt.Errorf("text of %d bytes is not UTF-8", size)
	}
	r.Data, err = spans(memory, text, field(abi.RenderedSpans), spanCount)
	if err != nil {
		return Rendered{}, nil, err
	}
	r.Text = string(text)
	return r, nil, nil
}

// spans copies the spans of a text; empty ones mean nothing and are left out.
func spans(memory, text []byte, at, count uint32) (out []Span, err error) {
	switch {
	case count == 0:
		return nil, nil
	case at%4 != 0 || uint64(at)+uint64(count)*abi.SpanSize > uint64(len(memory)):
		return nil, fmt.Errorf("%d spans at 0x%x: want an address aligned to 4 inside the memory of %d bytes", count,
			at, len(memory))
	}
	out = make([]Span, 0, count)
	last := uint32(0)
	for i := range count {
		b := memory[at+i*abi.SpanSize:]
		from, to := binary.LittleEndian.Uint32(b), binary.LittleEndian.Uint32(b[4:])
		switch {
		case from > to || uint64(to) > uint64(len(text)):
			return nil, fmt.Errorf("span %d from %d to %d, the text has %d bytes", i, from, to, len(text))
		case from < last:
			return nil, fmt.Errorf("span %d from %d: the one before ends at %d", i, from, last)
		case !border(text, from) || !border(text, to):
			return nil, fmt.Errorf("span %d from %d to %d cuts a character", i, from, to)
		}
		if last = to; from < to {
			out = append(out, Span{Start: int(from), End: int(to)})
		}
	}
	return out, nil
}

// border reports whether a character begins or the text ends at an offset.
func border(text []byte, at uint32) bool {
	return int(at) == len(text) || utf8.RuneStart(text[at])
}
