package generate

import (
	"fmt"
	"slices"

	"tgi/runtime/llm"
	"tgi/server/wire"
)

// Call is a call of a tool in a reply.
type Call struct {
	// Index numbers the calls of a reply in the order in which they begin.
	Index int
	// ID is what the call's result refers to, Name the tool's.
	ID, Name string
	// Arguments are a JSON object once the call is complete.
	Arguments string
}

// Reply turns the events of one sequence into what the client may see, streamed or
// not: stop strings are withheld, the parser separates the parts, and calls are checked
// against what the request demands. It belongs to one goroutine.
type Reply struct {
	filter *StopFilter
	parser Parser // nil: the text is the content
	choice ToolChoice
	names  []string
	single bool // one call at most
	shut   bool // what the parser says of its failure is not for the client
	whole  bool // nobody reads it before its end
	newID  func() string

	out   []Delta
	shown int   // bytes of the sequence's text that were let go
	open  *call // nil between calls
	calls []Call
	part  []Call // the call that the length limit or a guard cut, if one was shown
	torn  string // what the model wrote of it
	found int    // calls that began, but for hidden ones
	begun int    // of these, those that were shown
	// cut: the length limit ended the text; broken: it did so inside a call, or a call failed that had begun.
	cut, broken bool
}

// call is one that began and has not ended.
type call struct {
	Call
	text []byte // its arguments
	sent int    // bytes of text that were let go
	// hidden: it is none that the request allows; surplus: because there are enough.
	hidden, surplus bool
	shown           bool
}

// Reply returns how sequence i is to be read. keep leaves stop strings in the
// text. newID makes the ids of calls that the parser gives none. It is called
// once for each sequence, and is of no use after Close.
func (r *Run) Reply(i int, keep bool, newID func() string) *Reply {
	out := &Reply{filter: NewStopFilter(r.Request.Params.Stop, keep), whole: !r.streams, newID: newID}
	if i < len(r.parsers) {
		out.parser, out.shut = r.parsers[i], r.guarded
		out.choice, out.names, out.single = r.conversation.ToolChoice, r.conversation.ToolNames,
			!r.conversation.allowsSeveral()
	}
	return out
}

// Parsed reports whether the reply may have more than content.
func (r *Reply) Parsed() bool { return r.parser != nil }

// Next takes the sequence's next event and returns what it adds, of the kinds
// DeltaContent, DeltaReasoning, DeltaBegin and DeltaArguments, neighbours of one
// kind joined. The slice is the caller's until the next call. Put together it is
// the same however the text was cut into events.
//
// The braces at the end of a call's arguments come with the call's end: no client
// parses JSON before the call is complete. What the model wrote of a call that can't
// be used is content, unless the length limit, or a guard, cut a call that had begun, or
// more calls were made than are allowed. A stream has shown the beginning of such a call then;
// a reply that is no stream shows a call when it is known how it ends, and nothing of one
// that became content. Where the request demands a call, such calls
// and a reply without one are a *ToolError, unless the length limit or a guard cut
// the reply: then what the parser still held back, a piece of a marker or of a call,
// is left out. Other errors are the parser's.
func (r *Reply) Next(e *Event) ([]Delta, error) {
	r.out = r.out[:0]
	for _, s := range r.filter.Next(e) {
		if !s.Special {
			r.shown += len(s.Text)
		}
		if err := r.feed(s); err != nil {
			return nil, err
		}
	}
	if e.Finish == nil || r.parser == nil {
		return r.out, nil
	}
	ended := e.Finish.Reason == llm.FinishLength || e.Finish.Reason == llm.FinishGuard
	r.cut = ended && !r.filter.Stopped()
	deltas, err := r.parser.Finish(r.cut)
	if err = r.take(deltas, err); err != nil {
		return nil, err
	}
	if r.choice.Demands() && len(r.calls) == 0 && !r.cut {
		return nil, &ToolError{Msg: "the model called no tool, `tool_choice` demands a call", Err: ErrCall}
	}
	return r.out, nil
}

// Shown counts the bytes of the sequence's text that can be in what Next
// returned: all but those that a stop string may begin in.
func (r *Reply) Shown() int { return r.shown }

// Stopped reports whether a stop string ended the text; it is known after the last
// event.
func (r *Reply) Stopped() bool { return r.filter.Stopped() }

// StoppedAt is the stop string that ended the text; empty where none did, or stop strings are kept.
func (r *Reply) StoppedAt() string { return r.filter.found }

// Calls are the complete ones.
func (r *Reply) Calls() []Call { return r.calls }

// Made returns the calls that a stream has shown, in their order: the complete ones, and behind them the one
// that the text ended in, with as much of its arguments as was let go.
func (r *Reply) Made() []Call { return append(slices.Clip(r.calls), r.part...) }

// Torn is what the model wrote of the call that the text ended in, if a stream has shown one: for APIs that have no
// words for a call that is not complete.
func (r *Reply) Torn() string { return r.torn }

// Called reports whether the reply ended with calls to execute: there are complete
// ones, and none that had begun is broken.
func (r *Reply) Called() bool { return len(r.calls) > 0 && !r.broken }

// feed brings a piece of text to the parser.
func (r *Reply) feed(s Segment) error {
	if r.parser != nil {
		deltas, err := r.parser.Feed(s.Text, s.Special)
		return r.take(deltas, err)
	}
	if !s.Special {
		r.say(DeltaContent, s.Text)
	}
	return nil
}

// take checks what a parser returned.
func (r *Reply) take(deltas []Delta, err error) error {
	for i := range deltas {
		if err := r.add(&deltas[i]); err != nil {
			return err
		}
	}
	if r.shut {
		err = conceal(err)
	}
	return err
}

// say adds text.
func (r *Reply) say(kind DeltaKind, text string) {
	if text == "" {
		return
	}
	if n := len(r.out); n > 0 && r.out[n-1].Kind == kind {
		r.out[n-1].Text += text
		return
	}
	r.out = append(r.out, Delta{Kind: kind, Text: text})
}

// add checks one delta and adds what may be shown.
func (r *Reply) add(d *Delta) error {
	switch d.Kind {
	case DeltaContent, DeltaReasoning:
		if d.Kind == DeltaReasoning || !r.cutDemanded() {
			r.say(d.Kind, d.Text)
		}
		return nil
	case DeltaFailed:
		return r.fail(d)
	case DeltaBegin:
		if r.open == nil {
			return r.begin(d)
		}
	case DeltaArguments:
		if r.open != nil {
			r.open.text = append(r.open.text, d.Text...)
			if !r.open.hidden && !r.whole {
				r.argue(unfinished(r.open.text, r.open.sent))
			}
			return nil
		}
	case DeltaEnd:
		if r.open != nil {
			return r.end()
		}
	}
	return failed("the parser of tool calls put a delta of kind %d out of order", d.Kind)
}

// begin opens a call. One of a tool that may not be called is content again, where
// no call is demanded, and one too many is left out: whatever the parser says.
func (r *Reply) begin(d *Delta) error {
	switch r.choice.Mode {
	case ChooseNamed:
		if d.Name != r.choice.Name {
			return unwanted(d.Name)
		}
	case ChooseRequired:
		if !r.offered(d.Name) {
			return unwanted(d.Name)
		}
	}
	c := &call{Call: Call{ID: d.ID, Name: d.Name}}
	r.open = c
	if c.surplus = r.single && r.found > 0; c.surplus || r.choice.Mode == ChooseNone || !r.offered(d.Name) {
		c.hidden = true
		return nil
	}
	r.found++
	if !r.whole {
		r.show()
	}
	return nil
}

// show lets it be known that the open call began.
func (r *Reply) show() {
	c := r.open
	if c.shown {
		return
	}
	c.shown, c.Index = true, r.begun
	r.begun++
	if c.ID == "" {
		c.ID = r.newID()
	}
	r.out = append(r.out, Delta{Kind: DeltaBegin, Index: c.Index, Name: c.Name, ID: c.ID})
}

// cutDemanded reports whether the end of the text cut a call that the request demands, so that what is left of the text
// is no content.
func (r *Reply) cutDemanded() bool { return r.cut && r.choice.Demands() }

func (r *Reply) offered(name string) bool {
	for _, n := range r.names {
		if n == name {
			return true
		}
	}
	return false
}

func unwanted(name string) error {
	return &ToolError{Msg: fmt.Sprintf("the model called `%.64s`, which `tool_choice` does not allow", name),
		Err: ErrCall}
}

// unfinished returns how much of an object's text may be shown while it is not
// known whether the call ends there: no part of it that does not end in a brace
// is an object.
func unfinished(text []byte, from int) int {
	n := len(text)
	for n > from && (text[n-1] == '}' || text[n-1] <= ' ') {
		n--
	}
	return n
}

// argue lets the open call's arguments go up to byte to.
func (r *Reply) argue(to int) {
	c := r.open
	if to <= c.sent {
		return
	}
	text := string(c.text[c.sent:to])
	c.sent = to
	if n := len(r.out); n > 0 && r.out[n-1].Kind == DeltaArguments && r.out[n-1].Index == c.Index {
		r.out[n-1].Text += text
		return
	}
	r.out = append(r.out, Delta{Kind: DeltaArguments, Index: c.Index, Text: text})
}

// end closes the open call.
func (r *Reply) end() error {
	c := r.open
	if c.hidden {
		r.open = nil
		if !c.surplus {
			b := wire.AppendString([]byte(`{"name": `), c.Name)
			r.say(DeltaContent, string(append(append(append(b, `, "arguments": `...), c.text...), '}')))
		}
		return nil
	}
	err := wire.Decode(c.text, func(r *wire.Reader) error {
		_, err := r.RawObject()
		return err
	})
	if err != nil {
		return r.fail(&Delta{Kind: DeltaFailed, Index: c.Index, Text: string(c.text), Failed: FailedMalformed})
	}
	r.show()
	r.argue(len(c.text))
	r.open = nil
	c.Arguments = string(c.text)
	r.calls = append(r.calls, c.Call)
	return nil
}

// fail handles a call that cannot be used.
func (r *Reply) fail(d *Delta) error {
	if r.open != nil && r.open.surplus {
		r.open = nil
		return nil
	}
	begun := r.open != nil && !r.open.hidden
	part := begun && d.Failed == FailedIncomplete && r.cut
	if part {
		r.show()
		r.argue(unfinished(r.open.text, r.open.sent))
		c := r.open.Call
		c.Arguments = string(r.open.text[:r.open.sent])
		r.part, r.torn = append(r.part, c), d.Text
	}
	r.open = nil
	// What a stream has shown of the call can't be taken back, so the reply must not ask for calls to be executed.
	r.broken = r.broken || begun
	if d.Failed == FailedIncomplete && r.cut {
		r.broken = true
	} else if r.choice.Demands() && d.Failed != FailedTooMany {
		return &ToolError{Msg: "the model's call " + d.Failed.String(), Err: ErrCall}
	}
	if d.Failed != FailedTooMany && !part && !r.cutDemanded() {
		r.say(DeltaContent, d.Text)
	}
	return nil
}
