package toolcalls

// Kind is the kind of an Event.
type Kind uint8

// The kinds of events. A call is CallBegin, any number of Arguments, then CallEnd; or CallFailed instead of CallEnd.
const (
	// Content is a part of the answer: Text.
	Content Kind = iota
	// Reasoning is a part of what the model thinks: Text.
	Reasoning
	// CallBegin opens call Index with its Name and ID. It comes as soon as the name is complete.
	CallBegin
	// Arguments is the next part of the arguments of call Index: Text. The parts of a call that ended are one JSON
	// object.
	Arguments
	// CallEnd says that call Index is complete and may be executed. No other event does.
	CallEnd
	// CallFailed says that a call can't be used, and Reason why. Index is -1 if the call had not begun. Text is what
	// the model wrote, up to Limits.Call bytes: a caller that has not sent any of the call may treat it as content.
	CallFailed
)

// String is the kind's name in JSON and in tests.
func (k Kind) String() string {
	switch k {
	case Content:
		return "content"
	case Reasoning:
		return "reasoning"
	case CallBegin:
		return "call"
	case Arguments:
		return "arguments"
	case CallEnd:
		return "end"
	case CallFailed:
		return "failed"
	}
	return "unknown"
}

// Event is one step of the parsed output. Each Kind names the fields that it uses; the others are zero.
type Event struct {
	Kind   Kind
	Index  int    // of the call, from 0
	Text   string // content, reasoning, a part of the arguments, or the source of a failed call
	Name   string
	ID     string
	Reason Reason
}

// Reason says why a call failed.
type Reason string

// The reasons of CallFailed.
const (
	// Incomplete: the text ended inside the call.
	Incomplete Reason = "incomplete"
	// UnknownTool: no tool of this name was offered, or another one was required.
	UnknownTool Reason = "unknown tool"
	// Malformed: the text does not match the format, or the arguments are not a JSON object.
	Malformed Reason = "malformed"
	// TooLong: the call's text is longer than Limits.Call or nested deeper than Limits.Depth.
	TooLong Reason = "too long"
	// TooMany: more calls than Choice.Single or Limits.Calls allow.
	TooMany Reason = "too many calls"
)

// emit adds an event's text, joined to the previous event if that continues. A text that is not joined is not copied.
func (p *Parser) emit(k Kind, index int, text string) {
	if text == "" {
		return
	}
	if p.firstText != "" && (p.pendingKind != k || p.pendingIndex != index) {
		p.flush()
	}
	p.pendingKind, p.pendingIndex = k, index
	if p.firstText == "" {
		p.firstText = text
		return
	}
	if len(p.allText) == 0 {
		p.allText = append(p.allText, p.firstText...)
	}
	p.allText = append(p.allText, text...)
}

// flush ends the event that emit was collecting.
func (p *Parser) flush() {
	if p.firstText == "" {
		return
	}
	e := Event{Kind: p.pendingKind, Text: p.firstText}
	if len(p.allText) > 0 {
		e.Text = string(p.allText)
	}
	if e.Kind == Arguments {
		e.Index = p.pendingIndex
	}
	p.out = append(p.out, e)
	p.firstText, p.allText = "", p.allText[:0]
}

// emitEvent adds an event that is never joined to another.
func (p *Parser) emitEvent(e Event) {
	p.flush()
	p.out = append(p.out, e)
}
