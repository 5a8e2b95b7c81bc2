package toolcalls

import (
	"slices"
	"strings"
	"unicode"
)

// format is a Format with its sets of markers.
type format struct {
	*Format
	thinkBegin  *markers
	atStart     *markers // where reasoning or a call may begin
	inText      *markers
	inReasoning *markers
	inSection   *markers
	afterCall   *markers
	ends        *markers // of a call that can't be used
	nameEnd     *markers // after a name: Named or Tagged
	open        *markers // between the parameters of Tagged
	keyEnd      *markers
	valueOpen   *markers
	close       *markers
	headers     *markers // what a header of Channels begins with
	message     *markers // the end of a header
	inMessage   *markers // what ends a channel's text
	all         []string
}

func compile(f *Format) *format {
	c := &format{Format: f}
	var think Span
	if f.Reasoning != nil {
		think = *f.Reasoning
	}
	text := slices.Concat(f.Section.Begin, f.Call.Begin, f.Section.End, f.Call.End, f.Drop)
	c.thinkBegin = newMarkers(think.Begin)
	c.atStart = newMarkers(think.Begin, think.End, text, f.Fence.Begin)
	c.inText = newMarkers(text)
	c.inReasoning = newMarkers(think.End)
	if f.Implicit {
		c.inReasoning = newMarkers(think.End, f.Section.Begin, f.Call.Begin)
	}
	c.inSection = newMarkers(f.Call.Begin, f.Section.End)
	c.ends = newMarkers(f.Call.End, f.Section.End)
	if len(c.ends.list) == 0 {
		c.ends = newMarkers(f.Call.Begin)
	}
	after := slices.Concat(f.Call.End, f.Fence.End)
	if n := f.Named; n != nil {
		after = slices.Concat(after, n.After)
		c.nameEnd = newMarkers(n.Separators, []string{"{"}, f.Call.End)
	}
	c.afterCall = newMarkers(after)
	if t := f.Tagged; t != nil {
		c.nameEnd = newMarkers(t.NameEnd, t.Open, f.Call.End)
		c.open = newMarkers(t.Open, f.Call.End, f.Section.End)
		c.keyEnd = newMarkers(t.OpenEnd, t.StringEnd, t.JSONEnd)
		c.valueOpen = newMarkers(t.ValueOpen)
		c.close = newMarkers(t.Close)
	}
	if h := f.Channels; h != nil {
		c.headers = newMarkers([]string{h.Start, h.Channel, h.Recipient})
		c.message = newMarkers([]string{h.Message})
		c.inMessage = newMarkers(h.End, []string{h.Start, h.Channel})
		c.ends = newMarkers(h.End, []string{h.Start})
		c.afterCall = newMarkers(h.End)
	}
	for _, list := range f.lists() {
		c.all = append(c.all, list...)
	}
	return c
}

// marks reports whether text is a marker, a part of one, or contains one. Markers without letters, such as >, do not
// count as contained: too many tokens would.
func (f *format) marks(text string) bool {
	return slices.ContainsFunc(f.all, func(m string) bool {
		return strings.Contains(m, text) || strings.Contains(text, m) && strings.ContainsFunc(m, unicode.IsLetter)
	})
}
