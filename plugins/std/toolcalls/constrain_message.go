package toolcalls

import (
	"slices"

	"tgi/sdk/go/params"
)

// White space that a model may write: beside markers, between calls, and around JSON's punctuation.
const (
	gap     = `[ \n]{0,2}`
	between = `[ \n]{0,3}`
	spaces  = `(?: |\n {0,20})?`
)

// message is the grammar of the whole text. ok is false where nothing constrains it.
func (h *constraintBuilder) message() (*structure, bool) {
	f := h.f
	if f.Channels != nil {
		return h.channels(), true
	}
	unit, ok := h.markedCall()
	if h.auto {
		if f.Bare != "" {
			h.noteUnconstrained("in the format " + f.Name +
				" a call may begin without a marker, and is told from an answer when it is complete")
		}
		switch {
		case !ok:
			return nil, false
		case h.d.Answer != nil:
			return either(h.reasoningThen(h.callSequence(unit)), seq(h.completeReasoning(), h.answer())), true
		}
		return h.withReasoning(h.textWithCalls(unit)), true
	}
	first := unit
	if f.Bare != "" {
		bare := h.bareCall()
		if first = bare; ok {
			first = either(bare, unit)
		}
	}
	return h.reasoningThen(h.callSequence(first)), true
}

// callSequence is one marked call, or several where the request allows them.
func (h *constraintBuilder) callSequence(unit *structure) *structure {
	f := h.f
	switch {
	case h.d.Choice.Single, f.KeepSpace && len(f.Section.Begin) > 0: // a section has all the calls
		return unit
	case f.KeepSpace: // white space between them would be content
		return plus(unit)
	}
	more := between
	if f.Bare != "" && f.JSON != nil && f.JSON.Separators != "" {
		more = gap + "[" + quoteRegex(f.JSON.Separators) + "]?" + gap
	}
	return plus(seq(unit, pattern(more)))
}

// answer is the grammar of a message without a call.
func (h *constraintBuilder) answer() *structure {
	a := h.d.Answer
	s := &structure{kind: a.Language, text: a.Source, loose: a.Loose, origin: Place{Pointer: "#/answer"}}
	switch a.Language {
	case "regex":
		s.whole = true
	case "gbnf", "lark":
		s.kind, s.syntax = "grammar", a.Language
	case "choice":
		var all []*structure
		r := params.Read([]byte(a.Source))
		for range r.Array() {
			all = append(all, constant(r.String()))
		}
		return either(all...)
	}
	return s
}

// reasoning is the format's reasoning if the model is known to reason: another model would never end it.
func (h *constraintBuilder) reasoning() *Span {
	if h.d.Reasons || h.d.Thinking {
		return h.f.Reasoning
	}
	return nil
}

// opening is reasoning before calls or an answer, which must end.
func (h *constraintBuilder) opening() *Opening {
	if c := h.f.Channels; c != nil {
		o := &Opening{End: c.End[:1]}
		for _, name := range c.Reasoning {
			o.Begin = append(o.Begin, c.Channel+name+c.Message)
		}
		return o
	}
	r := h.reasoning()
	if r == nil {
		return nil
	}
	o := &Opening{Open: h.d.Thinking, Begin: r.Begin, End: r.End}
	if h.f.Implicit {
		o.End = slices.Concat(r.End, h.callMarkers())
	}
	return o
}

// completeReasoning is reasoning before an answer, with the marker that ends it.
func (h *constraintBuilder) completeReasoning() *structure {
	r := h.reasoning()
	if r == nil {
		return seq()
	}
	inside := seq(h.reasoningText(), h.anyMarker(r.End), pattern(between))
	if h.d.Thinking {
		return inside
	}
	return optional(seq(h.anyMarker(r.Begin), inside))
}

// callMarkers are the markers that begin a call.
func (h *constraintBuilder) callMarkers() []string {
	return slices.Concat(h.f.Section.Begin, h.f.Call.Begin)
}

// textWithCalls is free text with calls in it.
func (h *constraintBuilder) textWithCalls(unit *structure) *structure {
	text := h.text()
	call := seq(text, unit)
	switch {
	case h.f.Bare != "" && h.d.Choice.Single: // text behind a call may begin another one, which nothing marks
		return either(call, text)
	case h.f.Bare != "":
		return either(seq(text, plus(seq(unit, pattern(between)))), text)
	case h.d.Choice.Single:
		return seq(text, optional(seq(unit, text)))
	}
	return seq(star(call), text)
}

// text is free text outside of calls. No special token comes in it but those of the format that are no calls.
func (h *constraintBuilder) text() *structure {
	f, plain := h.f, anyText(h.callMarkers()...)
	marks := f.Drop
	if f.Reasoning != nil {
		marks = slices.Concat(marks, f.Reasoning.Begin, f.Reasoning.End)
	}
	var tokens []*structure
	for _, m := range marks {
		if h.isToken(m) {
			tokens = append(tokens, h.marker(m))
		}
	}
	if len(tokens) == 0 {
		return plain
	}
	return seq(star(seq(plain, either(tokens...))), plain)
}

// reasoningText is the text inside reasoning, up to the marker that ends it.
func (h *constraintBuilder) reasoningText() *structure {
	ends := h.f.Reasoning.End
	if h.f.Implicit {
		ends = slices.Concat(ends, h.callMarkers())
	}
	return anyText(ends...)
}

// withReasoning puts optional reasoning before a free answer.
func (h *constraintBuilder) withReasoning(answer *structure) *structure {
	r := h.f.Reasoning
	if r == nil || h.f.Implicit { // calls in reasoning are calls: all of it is free text
		return answer
	}
	if h.d.Thinking {
		open := h.reasoningText()
		return either(seq(open, h.anyMarker(r.End), answer), open)
	}
	open := seq(h.anyMarker(r.Begin), h.reasoningText())
	return either(seq(optional(seq(open, h.anyMarker(r.End))), answer), open)
}

// reasoningThen puts optional reasoning before required calls.
func (h *constraintBuilder) reasoningThen(calls *structure) *structure {
	r := h.reasoning()
	if r == nil {
		return calls
	}
	end := h.anyMarker(r.End)
	if h.f.Implicit {
		end = optional(end)
	}
	inside := seq(h.reasoningText(), end, pattern(between))
	if h.d.Thinking {
		return seq(inside, calls)
	}
	return seq(optional(seq(h.anyMarker(r.Begin), inside)), calls)
}

// markedCall is what a marker begins: a call, an array of calls, or a section of them. ok is false where the format
// has no marker.
func (h *constraintBuilder) markedCall() (*structure, bool) {
	f := h.f
	if len(f.Call.Begin) == 0 {
		return nil, false
	}
	call := h.call()
	if len(f.Section.Begin) == 0 {
		return call, true
	}
	if h.auto { // it stands in two places
		call = once(call)
	}
	calls := seq(call, pattern(gap))
	if !h.d.Choice.Single {
		calls = plus(calls)
	}
	section := seq(h.anyMarker(f.Section.Begin), pattern(gap), calls, h.anyMarker(f.Section.End))
	if h.auto { // a model may leave the section out, and its calls are held all the same
		return either(section, call), true
	}
	return section, true
}

// call is one marked call, or an array of calls.
func (h *constraintBuilder) call() *structure {
	f := h.f
	parts := []*structure{h.anyMarker(f.Call.Begin)}
	if f.Named == nil && f.Tagged == nil {
		parts = append(parts, pattern(gap))
	}
	parts = append(parts, h.body())
	if len(f.Call.End) > 0 {
		end := seq(pattern(gap), h.anyMarker(f.Call.End))
		if len(f.Call.Begin) > 1 { // of several ways to begin some have no end
			end = optional(end)
		}
		parts = append(parts, end)
	}
	return seq(parts...)
}

// body is the text between the markers.
func (h *constraintBuilder) body() *structure {
	switch f := h.f; {
	case f.Tagged != nil:
		return h.anyTool(h.taggedCall)
	case f.Python != nil:
		return h.pythonCalls()
	case f.Named != nil:
		return h.anyTool(h.namedCall)
	}
	one := once(h.anyTool(h.object))
	if h.f.Bare == "[" {
		return one
	}
	all := seq(pattern(spaces), one, pattern(spaces))
	if !h.d.Choice.Single {
		all = list(all)
	}
	return either(one, seq(constant("["), all, constant("]")))
}

// bareCall is a call without a marker.
func (h *constraintBuilder) bareCall() *structure {
	if h.f.Python != nil {
		return h.pythonList(h.python())
	}
	return h.anyTool(h.object)
}

// anyTool is a call of any of the tools.
func (h *constraintBuilder) anyTool(call func(*offered) *structure) *structure {
	var all []*structure
	for i := range h.tools {
		all = append(all, call(&h.tools[i]))
	}
	return either(all...)
}
