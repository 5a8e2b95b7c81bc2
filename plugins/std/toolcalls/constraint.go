package toolcalls

import (
	"slices"
	"strconv"
)

// Demand is what a request wants of the calls that answer it.
type Demand struct {
	Tools    []Tool
	Choice   Choice
	Thinking bool // the prompt ended inside reasoning
	// Answer is the JSON schema of an answer that is no call; nil for any text. In Auto the message is then such an answer or
	// calls, and nothing else. It does not matter where a call is demanded.
	Answer []byte
	// LooseAnswer leaves out what of Answer can't be enforced.
	LooseAnswer bool
	// Split cuts a marker into the special tokens of the model's vocabulary and the text between them. Nil takes every marker
	// for text.
	Split func(marker string) []Piece
}

// Piece is a part of a marker.
type Piece struct {
	Text    string
	Special bool // one special token
	End     bool // a special token that ends the message: nothing is written behind it
}

// Constraint is a grammar of the messages in a format whose calls are right: a structural tag. Without a Source there is
// nothing to hold a message to.
type Constraint struct {
	Source   string
	Optional bool // nobody insists: a message may do without it where it can't be compiled
	Answer   bool // an answer is held to the demand's
	Places   []Place
	Dropped  []Dropped
}

// Dropped is something that a request asks for and that the grammar does not enforce. Pointer leads into the request.
type Dropped struct{ Pointer, Keyword, Reason string }

// demandError is a demand that no grammar of the format can hold a message to.
type demandError string

// Error says which, and why.
func (e demandError) Error() string { return string(e) }

// Constraint is what a message is held to so that its calls are right.
//
// Where a call is demanded the message is reasoning, if the format has it, and then calls of the tools that are allowed, one if
// only one is. In Auto the text is free until a marker begins a call, and again behind it; there must be a strict tool, since
// otherwise nobody asks for anything. Arguments are held to the tool's schema, and what of the schema can't be enforced makes
// the grammar's plugin refuse it; of tools that are not strict it is left out.
//
// Some formats can't say all that a schema can: values between markers and Python's literals. What they can't say of a strict
// tool is an error where a call is demanded. In Auto it is left out and noted, as it always is of tools that are not strict. A
// call that begins without a marker can't be told from an answer before it is complete: in Auto it is held to nothing, and an
// Answer neither.
//
// Every text of the grammar is read by a Parser as calls whose arguments fit, with two exceptions: a string inside an object or
// an array that stands between markers may spell the marker behind it; and a string in a Python literal may have an escape that
// is JSON's and not Python's, which counts as two characters.
func (f *Format) Constraint(d Demand) (Constraint, error) {
	h := &holder{f: f, d: d, auto: d.Choice.Mode == Auto}
	h.tools = h.allowed()
	strict := slices.ContainsFunc(h.tools, func(t offered) bool { return t.Strict })
	answers := h.auto && d.Answer != nil
	if d.Choice.Mode == None || len(h.tools) == 0 || h.auto && !strict && !answers || answers && f.Bare != "" {
		return Constraint{}, nil
	}
	out := Constraint{Optional: !strict && !answers, Answer: d.Answer != nil}
	s, ok := h.message()
	if h.err != "" {
		return Constraint{}, demandError(h.err)
	}
	out.Dropped = h.dropped
	if !ok {
		return out, nil
	}
	w := writer{}
	w.write(&s, "#")
	if len(w.b) > maxConstraint || len(w.places) > maxPlaces {
		why := "the grammar of the tools has " + strconv.Itoa(len(w.b)) + " bytes with " + strconv.Itoa(len(w.places)) + " schemas, at most " +
			strconv.Itoa(maxConstraint) + " and " + strconv.Itoa(maxPlaces) + " are held to"
		if strict && !h.auto {
			return Constraint{}, demandError(why)
		}
		out.Dropped = append(out.Dropped, Dropped{"#/tools", "function", why})
		return out, nil
	}
	out.Source, out.Places = string(w.b), w.places
	return out, nil
}

// What a grammar may have at most. The contract takes twice as many bytes, quoted, and as many places.
const (
	maxConstraint = 2 << 20
	maxPlaces     = 4096
)

// offered is a tool with its number in the request.
type offered struct {
	Tool
	index int
}

// pointer leads to the tool's schema in the request.
func (t *offered) pointer() string {
	return "#/tools/" + strconv.Itoa(t.index) + "/function/parameters"
}

// holder makes the grammar of one demand.
type holder struct {
	f       *Format
	d       Demand
	tools   []offered // those that may be called
	auto    bool
	dropped []Dropped
	err     string // the first demand that can't be met
}

// allowed are the tools that the choice allows.
func (h *holder) allowed() (list []offered) {
	for i, t := range h.d.Tools {
		if h.d.Choice.Mode != Exact || t.Name == h.d.Choice.Name {
			list = append(list, offered{t, i})
		}
	}
	return list
}

// cannot notes that the format can't say something of a tool. It is an error where a strict tool's call is demanded.
func (h *holder) cannot(t *offered, pointer, keyword, why string) {
	if t.Strict && !h.auto && h.err == "" {
		h.err = "tool `" + t.Name + "`: " + pointer + ": " + keyword + ": " + why
	}
	h.dropped = append(h.dropped, Dropped{pointer, keyword, why})
}

// unheld notes that calls of the strict tools are held to nothing.
func (h *holder) unheld(why string) {
	for _, t := range h.tools {
		if t.Strict {
			h.dropped = append(h.dropped, Dropped{"#/tools/" + strconv.Itoa(t.index) + "/function/strict", "strict", why})
		}
	}
}

// mark is a marker: tokens where its pieces are special ones.
func (h *holder) mark(m string) structure {
	if h.d.Split == nil {
		return constant(m)
	}
	var parts []structure
	for _, p := range h.d.Split(m) {
		switch {
		case !p.Special:
			parts = append(parts, constant(p.Text))
		case !p.End:
			parts = append(parts, structure{kind: "token", text: p.Text})
		}
	}
	return seq(parts...)
}

// marks is any of some markers.
func (h *holder) marks(list []string) structure {
	var all []structure
	for _, m := range list {
		all = append(all, h.mark(m))
	}
	return either(all...)
}

// isToken says whether a marker is one special token.
func (h *holder) isToken(m string) bool {
	if h.d.Split == nil {
		return false
	}
	p := h.d.Split(m)
	return len(p) == 1 && p[0].Special
}

// White space that a model may write: beside markers, between calls, and around JSON's punctuation.
const (
	gap     = `[ \n]{0,2}`
	between = `[ \n]{0,3}`
	spaces  = `(?: |\n {0,20})?`
)

// message is the whole text. Not ok: there is nothing to hold it to.
func (h *holder) message() (structure, bool) {
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
			return structure{}, false
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
func (h *holder) units(unit structure) structure {
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
func (h *holder) answer() structure {
	return structure{kind: "json_schema", text: string(h.d.Answer), loose: h.d.LooseAnswer, origin: Place{Pointer: "#/answer"}}
}

// thoughts are reasoning before an answer, complete.
func (h *holder) thoughts() structure {
	r := h.f.Reasoning
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
func (h *holder) lazily(unit structure) structure {
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
func (h *holder) text() structure {
	f, plain := h.f, free(h.begins()...)
	marks := f.Drop
	if f.Reasoning != nil {
		marks = slices.Concat(marks, f.Reasoning.Begin, f.Reasoning.End)
	}
	var tokens []structure
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
func (h *holder) thought() structure {
	ends := h.f.Reasoning.End
	if h.f.Implicit {
		ends = slices.Concat(ends, h.begins())
	}
	return free(ends...)
}

// thinking puts reasoning before what a free answer is.
func (h *holder) thinking(answer structure) structure {
	r := h.f.Reasoning
	switch {
	case r == nil, h.f.Implicit && !h.d.Thinking:
		return answer
	case h.f.Implicit: // a marker of a call ends it
		return answer
	}
	open := seq(h.marks(r.Begin), h.thought())
	if h.d.Thinking {
		open = h.thought()
		return either(seq(open, h.marks(r.End), answer), open)
	}
	return either(seq(optional(seq(open, h.marks(r.End))), answer), open)
}

// thinkingFirst puts reasoning before calls that are demanded.
func (h *holder) thinkingFirst(calls structure) structure {
	r := h.f.Reasoning
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
func (h *holder) unit() (structure, bool) {
	f := h.f
	if len(f.Call.Begin) == 0 {
		return structure{}, false
	}
	call := h.call()
	if len(f.Section.Begin) == 0 {
		return call, true
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
func (h *holder) call() structure {
	f := h.f
	parts := []structure{h.marks(f.Call.Begin)}
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
func (h *holder) body() structure {
	switch f := h.f; {
	case f.Tagged != nil:
		return h.each(h.taggedCall)
	case f.Python != nil:
		return h.pythonCalls()
	case f.Named != nil:
		return h.each(h.namedCall)
	}
	one := h.each(h.object)
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
func (h *holder) bare() structure {
	if h.f.Python != nil {
		return h.pythonList()
	}
	return h.each(h.object)
}

// each is a call of any of the tools.
func (h *holder) each(call func(*offered) structure) structure {
	var all []structure
	for i := range h.tools {
		all = append(all, call(&h.tools[i]))
	}
	return either(all...)
}
