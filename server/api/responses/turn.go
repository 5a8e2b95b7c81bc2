package responses

import (
	"context"
	"errors"
	"io"
	"strconv"
	"strings"

	"tgi/runtime/llm"
	"tgi/server/api/deltas"
	"tgi/server/api/mcptools"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// spoken is an item of a reply while it is made.
type spoken struct {
	kind, id   string
	call, name string
	text       strings.Builder
	tokens     []deltas.Scored
	status     string
	// Of a call of a tool of an MCP server, and of a list of such: the server's label, what the model calls the tool,
	// what it said, and why it said nothing. done says that the call has an outcome.
	label, known, output string
	failed               error
	done                 bool
	tools                []mcp.Tool
}

// turn is a reply while it is made. It builds the items from deltas and tells of each step by an event, and belongs to
// one goroutine.
type turn struct {
	call   *call
	run    *generate.Run
	choice *deltas.Choice
	// again starts the model once more, with what the tools of a round said; round is one while it runs.
	again func(context.Context) (*generate.Run, error)
	round *mcptools.Round
	// What runs before this one came to.
	prompt, cached, generated, reasoned int
	counts                              generate.Counts // of the runs before
	// from is the first item of this run; exhausted says that there are no tokens left for another.
	from      int
	exhausted bool
	explained []*llm.Explanation // the tokens of all runs

	items   []*spoken
	open    bool            // the last of them has not ended
	held    string          // white space that a message may begin with
	pending []deltas.Scored // tokens of which it is not known what they are part of

	// emit takes an event; nil where nobody listens. seq numbers them.
	emit func(name string, json []byte) error
	seq  int
	err  error // the first of emit
}

func newTurn(c *call, run *generate.Run) *turn {
	return &turn{call: c, run: run, choice: deltas.NewChoice(&c.settings, run, 0)}
}

// step is what happens next in a turn: an event of the run, or the outcome of a call of a round; -1 is its end.
type step struct {
	event generate.Event
	call  int
}

// next returns the next step. It is io.EOF at the end of a run.
func (t *turn) next(ctx context.Context) (s step, err error) {
	if t.round != nil {
		s.call, err = t.round.Next(ctx)
		return s, err
	}
	s.event, err = t.run.Next(ctx)
	return s, err
}

// close ends what still runs.
func (t *turn) close() {
	if t.round != nil {
		t.round.Close()
	}
	t.run.Close()
}

// pump reads the run to its end, and those that follow it when tools have answered; next returns the next step. Errors
// are those of the runs, of the reply and of emit.
func (t *turn) pump(ctx context.Context, next func(context.Context) (step, error)) error {
	t.list()
	for {
		if err := t.hear(ctx, next); err != nil {
			return err
		}
		if goes, err := t.goOn(ctx, next); err != nil || !goes {
			return err
		}
	}
}

// hear reads a run to its end.
func (t *turn) hear(ctx context.Context, next func(context.Context) (step, error)) error {
	from := len(t.explained)
	for {
		s, err := next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		p, err := t.choice.Next(&s.event)
		if err != nil {
			return err
		}
		t.pending = append(t.pending, p.Tokens...)
		t.explained = append(t.explained, t.choice.Explained()...)
		for i := range p.Deltas {
			t.take(&p.Deltas[i])
		}
		if t.err != nil {
			return t.err
		}
	}
	t.call.draft.Explain = t.call.draft.Explain.Left(len(t.explained) - from)
	if t.held != "" && !t.choice.Reply.Called() {
		t.begin(kindMessage, nil)
		t.say(t.held)
	}
	t.endAll()
	return t.err
}

// take takes one delta. White space between calls and reasoning is no message.
func (t *turn) take(d *generate.Delta) {
	switch d.Kind {
	case generate.DeltaContent:
		t.held += d.Text
		if len(t.items) > 0 && !t.in(kindMessage) && strings.TrimSpace(t.held) == "" {
			return
		}
		t.begin(kindMessage, nil)
		t.say(t.held)
		t.held = ""
	case generate.DeltaReasoning:
		t.pending = nil
		t.begin(kindReasoning, nil)
		t.add(d.Text)
		t.event("response.reasoning_text.delta", func(b []byte) []byte {
			return wire.AppendString(append(t.at(b, true), `,"delta":`...), d.Text)
		})
	case generate.DeltaBegin:
		t.pending = nil
		t.end()
		kind := kindCall
		if t.choice.Custom(d) {
			kind = kindCustomCall
		} else if _, ok := t.call.loop.Tool(d.Name); ok {
			kind = kindMCPCall
		}
		t.begin(kind, d)
	case generate.DeltaArguments:
		if t.pending = nil; !t.open {
			return
		}
		t.add(d.Text)
		name := "response.function_call_arguments.delta"
		if t.in(kindCustomCall) {
			name = "response.custom_tool_call_input.delta"
		} else if t.in(kindMCPCall) {
			name = "response.mcp_call_arguments.delta"
		}
		t.event(name, func(b []byte) []byte {
			return wire.AppendString(append(t.at(b, false), `,"delta":`...),
				d.Text)
		})
	}
}

// in reports whether the open item is of a kind.
func (t *turn) in(kind string) bool { return t.open && t.last().kind == kind }

func (t *turn) last() *spoken { return t.items[len(t.items)-1] }

// add adds text to the open item.
func (t *turn) add(text string) { t.last().text.WriteString(text) }

// say adds text to the open message, with the tokens that it is made of.
func (t *turn) say(text string) {
	t.add(text)
	tokens := t.pending
	t.pending = nil
	t.last().tokens = append(t.last().tokens, tokens...)
	t.event("response.output_text.delta", func(b []byte) []byte {
		b = wire.AppendString(append(t.at(b, true), `,"delta":`...), text)
		return t.appendLogprobs(append(b, `,"logprobs":`...), tokens)
	})
}

// prefixes of the ids of items.
var prefixes = map[string]string{kindMessage: "msg_", kindReasoning: "rs_", kindCall: "fc_", kindCustomCall: "ctc_",
	kindMCPCall: "mcp_", kindMCPList: "mcpl_"}

// id returns the id of the next item, which is of a kind.
func (t *turn) id(kind string) string {
	return prefixes[kind] + core(t.call.id) + "_" + strconv.Itoa(len(t.items))
}

// begin opens an item of a kind, unless one of texts is open already; d begins a call.
func (t *turn) begin(kind string, d *generate.Delta) {
	if t.in(kind) && d == nil {
		return
	}
	t.end()
	if kind != kindMessage {
		t.held = ""
	}
	s := &spoken{kind: kind, id: t.id(kind), status: inProgress}
	if d != nil {
		s.call, s.name = d.ID, d.Name
	}
	if kind == kindMCPCall {
		tool, _ := t.call.loop.Tool(d.Name)
		s.known, s.name, s.label = d.Name, tool.Own, tool.Label
	}
	t.items, t.open = append(t.items, s), true
	t.itemEvent("response.output_item.added", len(t.items)-1)
	if kind == kindMCPCall {
		t.event("response.mcp_call.in_progress", func(b []byte) []byte { return t.at(b, false) })
	}
	if kind == kindMessage || kind == kindReasoning {
		t.event("response.content_part.added", func(b []byte) []byte {
			return t.appendPart(append(t.at(b, true), `,"part":`...), s)
		})
	}
}

// end closes the open item, which another one follows.
func (t *turn) end() { t.endItem(false) }

// endAll closes the last item of a run.
func (t *turn) endAll() { t.endItem(t.cut()) }

// endItem closes the open item. cut says that it ends where the text was cut. Calls know for themselves: one whose end
// was seen is complete, whatever cut the text behind it.
func (t *turn) endItem(cut bool) {
	if !t.open {
		return
	}
	s := t.last()
	t.open = false
	whole := func(name, member string, content bool) {
		t.event(name, func(b []byte) []byte {
			b = append(append(append(t.at(b, content), `,"`...), member...), `":`...)
			b = wire.AppendString(b, s.text.String())
			if name == "response.output_text.done" {
				b = t.appendLogprobs(append(b, `,"logprobs":`...), s.tokens)
			}
			return b
		})
	}
	if s.status = statusCompleted; cut {
		s.status = statusIncomplete
	}
	switch s.kind {
	case kindMessage:
		whole("response.output_text.done", "text", true)
	case kindReasoning:
		whole("response.reasoning_text.done", "text", true)
	default:
		if s.status = statusCompleted; !t.complete(s) {
			s.status = statusIncomplete
		} else if s.kind == kindMCPCall {
			s.status = inProgress
			whole("response.mcp_call_arguments.done", "arguments", false)
			return // the rest comes with its outcome
		} else if s.kind == kindCustomCall {
			whole("response.custom_tool_call_input.done", "input", false)
		} else {
			whole("response.function_call_arguments.done", "arguments", false)
		}
	}
	if s.kind == kindMessage || s.kind == kindReasoning {
		t.event("response.content_part.done", func(b []byte) []byte {
			return t.appendPart(append(t.at(b, true), `,"part":`...), s)
		})
	}
	t.itemEvent("response.output_item.done", len(t.items)-1)
}

// breakOff leaves the open items as they are, of a turn that failed.
func (t *turn) breakOff() {
	for _, s := range t.items {
		if s.kind == kindMCPCall && !s.done {
			s.status = statusIncomplete
		}
	}
	if t.open {
		t.last().status, t.open = statusIncomplete, false
	}
}

// complete reports whether a call that ended can be made.
func (t *turn) complete(s *spoken) bool {
	for _, c := range t.choice.Reply.Calls() {
		if c.ID == s.call {
			return true
		}
	}
	return false
}

// cut reports whether the bound of the length, or a guard, ended the text.
func (t *turn) cut() bool {
	c := t.choice
	return t.exhausted || t.guarded() || c.Finish.Reason == llm.FinishLength && !c.Reply.Stopped() && !c.Reply.Called()
}

// guarded reports whether a guard ended the text.
func (t *turn) guarded() bool {
	f := t.choice.Finish
	return f != nil && f.Reason == llm.FinishGuard
}

// event tells of a step; more writes the members behind its number.
func (t *turn) event(name string, more func([]byte) []byte) {
	if t.emit == nil || t.err != nil {
		return
	}
	b := wire.AppendString([]byte(`{"type":`), name)
	b = wire.AppendInt(append(b, ','), "sequence_number", t.seq)
	t.seq++
	t.err = t.emit(name, append(more(b), '}'))
}

// at writes which item an event is about, and which of its parts where it has some.
func (t *turn) at(b []byte, content bool) []byte {
	return t.atItem(b, len(t.items)-1, content)
}

// atItem is at for an item of any number.
func (t *turn) atItem(b []byte, i int, content bool) []byte {
	b = wire.AppendString(append(b, `,"item_id":`...), t.items[i].id)
	b = wire.AppendInt(append(b, ','), "output_index", i)
	if content {
		b = append(b, `,"content_index":0`...)
	}
	return b
}

// appendLogprobs writes the log-probabilities of tokens; none where they were not asked for.
func (t *turn) appendLogprobs(b []byte, tokens []deltas.Scored) []byte {
	if !t.call.logprobs {
		return append(b, "[]"...)
	}
	m := t.call.model
	return deltas.AppendLogprobs(b, tokens, int(t.call.shown.top), func(one generate.Token) ([]byte, bool) {
		if m.TokenBytes == nil {
			return nil, false
		}
		return m.TokenBytes(one.Token)
	})
}

// appendPart writes the part that an item of texts has.
func (t *turn) appendPart(b []byte, s *spoken) []byte {
	if s.kind == kindReasoning {
		return append(wire.AppendString(append(b, `{"type":"reasoning_text","text":`...), s.text.String()), '}')
	}
	b = t.appendLogprobs(append(b, `{"type":"output_text","annotations":[],"logprobs":`...), s.tokens)
	return append(wire.AppendString(append(b, `,"text":`...), s.text.String()), '}')
}

// appendItem writes an item; one that begins has no content yet.
func (t *turn) appendItem(b []byte, s *spoken) []byte {
	b = wire.AppendString(append(b, `{"id":`...), s.id)
	b = wire.AppendString(append(b, `,"type":`...), s.kind)
	if s.kind != kindMCPList {
		b = wire.AppendString(append(b, `,"status":`...), s.status)
	}
	text := s.text.String()
	switch s.kind {
	case kindMessage:
		b = append(b, `,"role":"assistant","content":[`...)
		if s.status != inProgress {
			b = t.appendPart(b, s)
		}
		b = append(b, ']')
	case kindReasoning:
		b = appendReasoning(b, text)
		if t.call.sealed && s.status != inProgress {
			b = wire.AppendString(append(b, `,"encrypted_content":`...), seal(text))
		}
	case kindMCPCall:
		b = s.appendMCPCall(b)
	case kindMCPList:
		b = s.appendMCPList(b)
	default:
		member := "arguments"
		if s.kind == kindCustomCall {
			member = "input"
		}
		b = (&item{call: s.call, name: s.name, text: text}).appendCall(b, member)
		if space := t.call.spaces[s.name]; space != "" {
			b = wire.AppendString(append(b, `,"namespace":`...), space)
		}
	}
	return append(b, '}')
}
