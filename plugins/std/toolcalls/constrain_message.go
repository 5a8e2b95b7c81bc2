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

// message is the whole text. Not ok: there is nothing to hold it to.
func (h *holder) message() (*structure, bool) {
	f := h.f
	if f.Channels != nil {
		return h.channels(), true
	}
	unit, ok := h.unit()
	if h.auto {
		if f.Bare != "" {
			h.unheld("in the format " + f.Name + " a call may begin without a marker, and is told from an answer when it is complete")
		}
		switch {
		case !ok:
			return nil, false
		case h.d.Answer != nil:
			return either(h.thinkingFirst(h.units(unit)), seq(h.thoughts(), h.answer())), true
		}
		return h.thinking(h.lazily(unit)), true
	}
	first := unit
	if f.Bare != "" {
		bare := h.bare()
		if first = bare; ok {
			first = either(bare, unit)
		}
	}
	return h.thinkingFirst(h.units(first)), true
}

// units is one unit, or more where they are allowed.
func (h *holder) units(unit *structure) *structure {
	f := h.f
	switch {
	case h.d.Choice.Single, f.KeepSpace && len(f.Section.Begin) > 0: // a section has all the calls
		return unit
	case f.KeepSpace: // white space between them would be content
		return plus(unit)
	}
	more := between
	if f.Bare != "" && f.JSON != nil && f.JSON.Separators != "" {
		more = gap + "[" + fixed(f.JSON.Separators) + "]?" + gap
	}
	return plus(seq(unit, pattern(more)))
}

// answer is what a message is that is no call.
func (h *holder) answer() *structure {
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

// reasoning is the format's, where the model is known to reason: another would write one that has no end.
func (h *holder) reasoning() *Span {
	if h.d.Reasons || h.d.Thinking {
		return h.f.Reasoning
	}
	return nil
}

// opening is reasoning that comes before calls or an answer and has to end.
func (h *holder) opening() *Opening {
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
		o.End = slices.Concat(r.End, h.begins())
	}
	return o
}

// thoughts are reasoning before an answer, complete.
func (h *holder) thoughts() *structure {
	r := h.reasoning()
	if r == nil {
		return seq()
	}
	inside := seq(h.thought(), h.marks(r.End), pattern(between))
	if h.d.Thinking {
		return inside
	}
	return optional(seq(h.marks(r.Begin), inside))
}

// begins are the markers that begin calls.
func (h *holder) begins() []string { return slices.Concat(h.f.Section.Begin, h.f.Call.Begin) }

// lazily is free text with calls in it.
func (h *holder) lazily(unit *structure) *structure {
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
func (h *holder) text() *structure {
	f, plain := h.f, free(h.begins()...)
	marks := f.Drop
	if f.Reasoning != nil {
		marks = slices.Concat(marks, f.Reasoning.Begin, f.Reasoning.End)
	}
	var tokens []*structure
	for _, m := range marks {
		if h.isToken(m) {
			tokens = append(tokens, h.mark(m))
		}
	}
	if len(tokens) == 0 {
		return plain
	}
	return seq(star(seq(plain, either(tokens...))), plain)
}

// thought is what is inside reasoning, up to what ends it.
func (h *holder) thought() *structure {
	ends := h.f.Reasoning.End
	if h.f.Implicit {
		ends = slices.Concat(ends, h.begins())
	}
	return free(ends...)
}

// thinking puts reasoning before what a free answer is.
func (h *holder) thinking(answer *structure) *structure {
	r := h.f.Reasoning
	if r == nil || h.f.Implicit { // calls in reasoning are calls: all of it is free text
		return answer
	}
	if h.d.Thinking {
		open := h.thought()
		return either(seq(open, h.marks(r.End), answer), open)
	}
	open := seq(h.marks(r.Begin), h.thought())
	return either(seq(optional(seq(open, h.marks(r.End))), answer), open)
}

// thinkingFirst puts reasoning before calls that are demanded.
func (h *holder) thinkingFirst(calls *structure) *structure {
	r := h.reasoning()
	if r == nil {
		return calls
	}
	end := h.marks(r.End)
	if h.f.Implicit {
		end = optional(end)
	}
	inside := seq(h.thought(), end, pattern(between))
	if h.d.Thinking {
		return seq(inside, calls)
	}
	return seq(optional(seq(h.marks(r.Begin), inside)), calls)
}

// unit is what a marker begins: a call, an array of calls, or a section of them. Not ok: no marker does.
func (h *holder) unit() (*structure, bool) {
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
	section := seq(h.marks(f.Section.Begin), pattern(gap), calls, h.marks(f.Section.End))
	if h.auto { // a model may leave the section out, and its calls are held all the same
		return either(section, call), true
	}
	return section, true
}

// call is one marked call, or an array of calls.
func (h *holder) call() *structure {
	f := h.f
	parts := []*structure{h.marks(f.Call.Begin)}
	if f.Named == nil && f.Tagged == nil {
		parts = append(parts, pattern(gap))
	}
	parts = append(parts, h.body())
	if len(f.Call.End) > 0 {
		end := seq(pattern(gap), h.marks(f.Call.End))
		if len(f.Call.Begin) > 1 { // of several ways to begin some have no end
			end = optional(end)
		}
		parts = append(parts, end)
	}
	return seq(parts...)
}

// body is what stands between the markers.
func (h *holder) body() *structure {
	switch f := h.f; {
	case f.Tagged != nil:
		return h.each(h.taggedCall)
	case f.Python != nil:
		return h.pythonCalls()
	case f.Named != nil:
		return h.each(h.namedCall)
	}
	one := once(h.each(h.object))
	if h.f.Bare == "[" {
		return one
	}
	all := seq(pattern(spaces), one, pattern(spaces))
	if !h.d.Choice.Single {
		all = list(all)
	}
	return either(one, seq(constant("["), all, constant("]")))
}

// bare is a call without a marker.
func (h *holder) bare() *structure {
	if h.f.Python != nil {
		return h.pythonList(h.python())
	}
	return h.each(h.object)
}

// each is a call of any of the tools.
func (h *holder) each(call func(*offered) *structure) *structure {
	var all []*structure
	for i := range h.tools {
		all = append(all, call(&h.tools[i]))
	}
	return either(all...)
}
