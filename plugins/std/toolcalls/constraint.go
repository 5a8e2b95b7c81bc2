package toolcalls

import (
	"slices"
	"strconv"
)

// Demand is a request's constraints on calls.
type Demand struct {
	Tools    []Tool
	Choice   Choice
	Thinking bool // the prompt ended inside reasoning
	Reasons  bool // the model is known to reason: see Format.Reasons
	// Answer constrains an answer that is not a call; nil for any text. In Auto the message is then such an answer or
	// calls, and nothing else. It is ignored where a call is required.
	Answer *Answer
	// Split cuts a marker into the special tokens of the model's vocabulary and the text between them. Nil takes every
	// marker for text.
	Split func(marker string) []Piece
}

// Answer is a grammar of answers.
type Answer struct {
	Language string // json_schema, regex, gbnf, lark or choice
	Source   string
	Loose    bool // what of it can't be enforced is left out
}

// Piece is a part of a marker.
type Piece struct {
	Text    string
	Special bool // one special token
	End     bool // a special token that ends the message: nothing is written behind it
}

// Constraint is a grammar of the messages in a format whose calls are valid: a structural tag. Without a Source
// messages are not constrained.
type Constraint struct {
	Source   string
	Optional bool // nobody insists: a message may do without it where it can't be compiled
	Answer   bool // an answer is held to the demand's
	Places   []Place
	// Reasoning is reasoning with which the message may begin and which must end; nil for none.
	Reasoning *Opening
	Dropped   []Dropped
}

// Opening is reasoning before the calls or the answer. The caller must make it end in time: its end may follow at any
// point.
type Opening struct {
	Open  bool     // the message begins inside it
	Begin []string // texts that begin it, at the message's start
	End   []string // texts that end it, the first for one who has to
}

// Dropped is a part of the request that the grammar does not enforce. Pointer leads into the request.
type Dropped struct{ Pointer, Keyword, Reason string }

// demandError is a constraint that no grammar of the format can enforce.
type demandError string

// Error says which, and why.
func (e demandError) Error() string { return string(e) }

// Constraint builds the grammar that makes the calls of a message correct.
//
// Where a call is required, the message is reasoning (if the format has it and the model is known to reason) and then
// calls of the allowed tools; a single one if the choice allows one or names the tool. In Auto the text is free until a
// marker begins a call, and after the call; without a strict tool there is no grammar. Arguments must fit the tool's
// schema. A part of the schema that can't be enforced makes the grammar's plugin refuse it, or is left out for tools
// that are not strict.
//
// Some formats can't express every schema: values between markers, and Python's literals. For a strict tool that is an
// error where a call is required; in Auto, and for tools that are not strict, that part is left out and reported. A
// call that begins without a marker can't be told from an answer before it is complete: in Auto neither it nor an
// Answer is constrained.
//
// A Parser reads every text of the grammar as calls whose arguments fit, with two exceptions: a string inside an object
// or array between markers may contain the closing marker; and a string in a Python literal may have an escape of JSON
// that Python lacks, which counts as two characters.
func (f *Format) Constraint(d Demand) (Constraint, error) {
	d.Choice.Single = d.Choice.Single || d.Choice.Mode == Exact
	h := &constraintBuilder{f: f, d: d, auto: d.Choice.Mode == Auto}
	h.tools = h.allowed()
	strict := slices.ContainsFunc(h.tools, func(t offered) bool { return t.Strict })
	answers := h.auto && d.Answer != nil
	if d.Choice.Mode == None || len(h.tools) == 0 || h.auto && !strict && !answers || answers && f.Bare != "" {
		return Constraint{}, nil
	}
	out := Constraint{Optional: !strict && !answers, Answer: d.Answer != nil}
	tooLarge := func(why string) (Constraint, error) {
		if strict && !h.auto || answers {
			return Constraint{}, demandError(why)
		}
		return Constraint{Dropped: []Dropped{{"#/tools", "function", why}}}, nil
	}
	if why := h.tooLarge(); why != "" {
		return tooLarge(why)
	}
	s, ok := h.message()
	if h.count > maxAll {
		return tooLarge("the tools have more than " + strconv.Itoa(maxAll) + " parameters, which the format " + f.Name +
			" writes one by one")
	}
	if h.err != "" {
		return Constraint{}, demandError(h.err)
	}
	out.Dropped = h.dropped
	if !ok {
		return out, nil
	}
	w := writer{b: make([]byte, 0, 64<<10)}
	w.write(s, "#")
	if len(w.places) > maxPlaces {
		return tooLarge("the grammar of the tools has " + strconv.Itoa(len(w.places)) + " schemas, the limit is " +
			strconv.Itoa(maxPlaces))
	}
	out.Source, out.Places = string(w.b), w.places
	if !h.auto || answers {
		out.Reasoning = h.opening()
	}
	return out, nil
}

// The largest tools that a grammar is built for. More would exceed the limits of a plugin's calls, and the plugin would
// be disabled for what a client sent.
const (
	maxSchemas = 192 << 10 // bytes of all schemas, and toolCost of each tool
	maxListed  = 128 << 10 // the same, where arguments are written one by one
	toolCost   = 1 << 10
	// parameters of all tools where they are written one by one; one whose marker says what it is counts twice
	maxAll    = 800
	maxPlaces = 4096 // of the contract
)

// tooLarge says why the tools are too large for a grammar; "" if they are not.
func (h *constraintBuilder) tooLarge() string {
	size, most := 0, maxSchemas
	if h.d.Answer != nil {
		size = len(h.d.Answer.Source)
	}
	if h.f.Tagged != nil || h.f.Python != nil {
		most = maxListed
	}
	for _, t := range h.tools {
		size += len(t.Parameters) + toolCost
	}
	if size <= most {
		return ""
	}
	return "the tools and their schemas are too large to constrain calls: they count as " + strconv.Itoa(size) +
		" bytes, the limit is " + strconv.Itoa(most)
}

// offered is a tool with its number in the request.
type offered struct {
	Tool
	index int
}

// pointer leads to the tool's schema in the request.
func (t *offered) pointer() string {
	return "#/tools/" + strconv.Itoa(t.index) + "/function/parameters"
}

// constraintBuilder builds the grammar for one demand.
type constraintBuilder struct {
	f          *Format
	d          Demand
	tools      []offered // those that may be called
	auto       bool
	dropped    []Dropped
	err        string                // the first demand that can't be enforced
	markers    map[string]*structure // of markers
	markerSets map[listOf]*structure
	count      int        // parameters so far, of formats that write them one by one
	pyCall     *structure // of a Python call
}

// allowed are the tools that the choice allows.
func (h *constraintBuilder) allowed() (list []offered) {
	for i, t := range h.d.Tools {
		if h.d.Choice.Mode != Exact || t.Name == h.d.Choice.Name {
			list = append(list, offered{t, i})
		}
	}
	return list
}

// noteUnenforceable records that the format can't enforce a part of a tool's schema. It is an error for a strict tool
// where a call is required.
func (h *constraintBuilder) noteUnenforceable(t *offered, pointer, keyword, why string) {
	if t.Strict && !h.auto && h.err == "" {
		h.err = "tool `" + t.Name + "`: " + pointer + ": " + keyword + ": " + why
	}
	h.dropped = append(h.dropped, Dropped{pointer, keyword, why})
}

// noteUnconstrained records that calls of the strict tools are not constrained.
func (h *constraintBuilder) noteUnconstrained(why string) {
	for _, t := range h.tools {
		if t.Strict {
			h.dropped = append(h.dropped, Dropped{"#/tools/" + strconv.Itoa(t.index) + "/function/strict", "strict",
				why})
		}
	}
}

// marker is the grammar of a marker: special tokens where it has them, text elsewhere.
func (h *constraintBuilder) marker(m string) *structure {
	if h.d.Split == nil {
		return constant(m)
	}
	if s, ok := h.markers[m]; ok {
		return s
	}
	var parts []*structure
	for _, p := range h.d.Split(m) {
		switch {
		case !p.Special:
			parts = append(parts, constant(p.Text))
		case !p.End:
			parts = append(parts, &structure{kind: "token", text: p.Text})
		}
	}
	if h.markers == nil {
		h.markers = map[string]*structure{}
	}
	h.markers[m] = seq(parts...)
	return h.markers[m]
}

// anyMarker is any marker of one of the format's lists.
func (h *constraintBuilder) anyMarker(list []string) *structure {
	if len(list) == 0 {
		return either()
	}
	key := listOf{&list[0], len(list)}
	if s, ok := h.markerSets[key]; ok {
		return s
	}
	var all []*structure
	for _, m := range list {
		all = append(all, h.marker(m))
	}
	if h.markerSets == nil {
		h.markerSets = map[listOf]*structure{}
	}
	h.markerSets[key] = either(all...)
	return h.markerSets[key]
}

// listOf is a list of markers by where it lies.
type listOf struct {
	first *string
	n     int
}

// isToken says whether a marker is one special token.
func (h *constraintBuilder) isToken(m string) bool {
	if h.d.Split == nil {
		return false
	}
	p := h.d.Split(m)
	return len(p) == 1 && p[0].Special
}
