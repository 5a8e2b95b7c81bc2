package messages

import (
	"context"
	"crypto/sha256"
	"encoding/base64"
	"errors"
	"io"
	"net/http"
	"strings"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/deltas"
	"tgi/server/api/toolset"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// kind is that of a block of a reply.
type kind uint8

const (
	textBlock kind = iota
	thinkingBlock
	toolBlock
	mcpBlock    // a call that a server runs
	resultBlock // what that came to
)

// said is a block of a reply.
type said struct {
	kind     kind
	id, name string // of a call
	text     strings.Builder
	tool     mcp.Tool    // of a server
	outcome  mcp.Outcome // of its call
}

// turn is a reply while it is made. It builds the blocks from deltas, whole or streamed, and belongs to one goroutine.
type turn struct {
	call   *call
	run    *generate.Run
	choice *deltas.Choice

	blocks []*said
	open   bool   // the last of them has not ended
	held   string // white space that a text may begin with

	// What the runs before this one were, where tools of MCP servers were called between them.
	before struct{ prompt, cached, generated, reasoned int }
	counts generate.Counts // likewise
	// explained are the tokens of these runs, first the block that this one begins with.
	explained []*llm.Explanation
	first     int
	// others: the reply has calls for the client beside those of servers. exhausted: there are no tokens left.
	others, exhausted bool

	// emit sends an event with a name; nil for a whole reply.
	emit func(name string, json []byte) error
	err  error // the first of emit
}

func newTurn(c *call, run *generate.Run) *turn {
	return &turn{call: c, run: run, choice: deltas.NewChoice(&c.shown, run, 0)}
}

// pump reads the run to its end; next returns its next event. Errors are those of the run, of the reply and of emit.
func (t *turn) pump(ctx context.Context, next func(context.Context) (generate.Event, error)) error {
	for {
		e, err := next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return err
		}
		p, err := t.choice.Next(&e)
		if err != nil {
			return err
		}
		for i := range p.Deltas {
			t.take(&p.Deltas[i])
		}
		if t.err != nil {
			return t.err
		}
	}
	if t.held != "" && !t.choice.Reply.Called() {
		t.begin(textBlock, "", "")
		t.add(t.held, "text_delta", "text")
	}
	t.end()
	return t.err
}

// take takes one delta. White space between calls and thinking is no text.
func (t *turn) take(d *generate.Delta) {
	switch d.Kind {
	case generate.DeltaReasoning:
		t.begin(thinkingBlock, "", "")
		t.add(d.Text, "thinking_delta", "thinking")
	case generate.DeltaContent:
		t.held += d.Text
		if len(t.blocks) > 0 && !t.in(textBlock) && strings.TrimSpace(t.held) == "" {
			return
		}
		t.begin(textBlock, "", "")
		t.add(t.held, "text_delta", "text")
		t.held = ""
	case generate.DeltaBegin:
		t.end()
		if _, ours := t.call.loop.Tool(d.Name); ours {
			t.begin(mcpBlock, d.ID, d.Name)
		} else {
			t.begin(toolBlock, d.ID, d.Name)
		}
	case generate.DeltaArguments:
		t.add(d.Text, "input_json_delta", "partial_json")
	}
}

// in reports whether the open block is of a kind.
func (t *turn) in(k kind) bool { return t.open && t.blocks[len(t.blocks)-1].kind == k }

// begin opens a block of a kind, unless one of texts is open already.
func (t *turn) begin(k kind, id, name string) {
	if t.in(k) && k != toolBlock && k != mcpBlock {
		return
	}
	t.end()
	if k != textBlock {
		t.held = ""
	}
	s := &said{kind: k, id: id, name: name}
	s.tool, _ = t.call.loop.Tool(name)
	t.blocks = append(t.blocks, s)
	t.open = true
	if t.emit == nil {
		return
	}
	b := wire.AppendInt([]byte(`{"type":"content_block_start",`), "index", len(t.blocks)-1)
	b = append(b, `,"content_block":`...)
	switch k {
	case textBlock:
		b = append(b, `{"type":"text","text":""}`...)
	case thinkingBlock:
		b = append(b, `{"type":"thinking","thinking":"","signature":""}`...)
	case toolBlock:
		b = append(appendTool(b, id, name), `{}}`...)
	case mcpBlock:
		b = append(appendMCP(b, s), `{}}`...)
	}
	t.send("content_block_start", append(b, '}'))
}

// appendTool writes a call up to the value of its input.
func appendTool(b []byte, id, name string) []byte {
	b = wire.AppendString(append(b, `{"type":"tool_use","id":`...), id)
	b = wire.AppendString(append(b, `,"name":`...), name)
	return append(b, `,"input":`...)
}

// add adds text to the open block; kind and member are those of its delta.
func (t *turn) add(text, kind, member string) {
	if !t.open || text == "" {
		return
	}
	t.blocks[len(t.blocks)-1].text.WriteString(text)
	t.delta(kind, member, text)
}

// delta sends what is added to the open block.
func (t *turn) delta(kind, member, text string) {
	if t.emit == nil {
		return
	}
	b := wire.AppendInt([]byte(`{"type":"content_block_delta",`), "index", len(t.blocks)-1)
	b = wire.AppendString(append(b, `,"delta":{"type":`...), kind)
	b = wire.AppendString(append(append(append(b, `,"`...), member...), `":`...), text)
	t.send("content_block_delta", append(b, `}}`...))
}

// end closes the open block.
func (t *turn) end() {
	if !t.open {
		return
	}
	if t.in(thinkingBlock) {
		t.delta("signature_delta", "signature", signature(t.blocks[len(t.blocks)-1].text.String()))
	}
	t.open = false
	if t.emit != nil {
		t.send("content_block_stop", append(wire.AppendInt([]byte(`{"type":"content_block_stop",`), "index",
			len(t.blocks)-1), '}'))
	}
}

func (t *turn) send(name string, json []byte) {
	if t.err == nil {
		t.err = t.emit(name, json)
	}
}

// signature is the member of that name of a block of thinking: clients expect one and send it again. It tells nobody
// anything; a block is as true as any other that a client sends.
func signature(thoughts string) string {
	sum := sha256.Sum256([]byte(thoughts))
	return base64.StdEncoding.EncodeToString(sum[:])
}

// stop returns why the text ended, and the stop string that ended it.
func (t *turn) stop() (reason, sequence string) {
	c := t.choice
	switch {
	case c.Finish.Reason == llm.FinishGuard:
		return "refusal", ""
	case t.exhausted:
		return "max_tokens", ""
	case c.Reply.Called():
		return "tool_use", ""
	case c.Reply.Stopped():
		return "stop_sequence", c.Reply.StoppedAt()
	case c.Finish.Reason != llm.FinishLength:
		return "end_turn", ""
	}
	if asked := t.call.draft.MaxNewTokens; asked != nil && t.run.Request.Params.MaxNewTokens < int(*asked) {
		return "model_context_window_exceeded", ""
	}
	return "max_tokens", ""
}

// appendStop writes stop_reason and stop_sequence.
func (t *turn) appendStop(b []byte) []byte {
	reason, sequence := t.stop()
	b = wire.AppendString(append(b, `"stop_reason":`...), reason)
	if b = append(b, `,"stop_sequence":`...); sequence == "" {
		return append(b, "null"...)
	}
	return wire.AppendString(b, sequence)
}

// appendUsage writes the tokens of the turn so far: those of the prompt that the prefix cache had, and the others.
func (t *turn) appendUsage(b []byte) []byte {
	prompt, cached, generated := len(t.run.Request.Prompt), 0, 0
	if f := t.choice.Finish; f != nil {
		prompt, cached, generated = f.Prompt, f.Cached, f.Generated
	}
	prompt, cached, generated = prompt+t.before.prompt, cached+t.before.cached, generated+t.before.generated
	b = wire.AppendInt(append(b, '{'), "input_tokens", prompt-cached)
	b = append(b, `,"cache_creation_input_tokens":0,`...)
	b = wire.AppendInt(b, "cache_read_input_tokens", cached)
	b = wire.AppendInt(append(b, ','), "output_tokens", generated)
	b = wire.AppendInt(append(b, `,"output_tokens_details":{`...), "thinking_tokens",
		t.before.reasoned+t.choice.Reasoned)
	counts := t.counts.Plus(t.choice.Finish)
	counts.Predicted = t.call.draft.Prediction != nil && t.choice.Finish != nil
	return append(counts.Append(b), "}"...)
}

// appendHead writes the members that a message begins with.
func (t *turn) appendHead(b []byte) []byte {
	b = wire.AppendString(append(b, `{"id":`...), t.call.id)
	b = wire.AppendString(append(b, `,"type":"message","role":"assistant","model":`...),
		dispatch.Shown(t.call.named, t.call.model))
	return append(b, `,"content":[`...)
}

// appendMessage writes the whole message. A call that the text ended in has the members that are complete, as clients
// make of the stream's pieces; stop_reason says that it is none to execute. One of an MCP server is left out.
func (t *turn) appendMessage(b []byte) []byte {
	b = t.appendHead(b)
	calls, n := t.choice.Reply.Calls(), 0
	for i, s := range t.blocks {
		text := s.text.String()
		if i >= t.first && s.kind == mcpBlock && !complete(calls, s.id) {
			continue
		}
		b = wire.Comma(b, n)
		n++
		switch s.kind {
		case textBlock:
			b = append(wire.AppendString(append(b, `{"type":"text","text":`...), text), '}')
		case thinkingBlock:
			b = wire.AppendString(append(b, `{"type":"thinking","thinking":`...), text)
			b = append(wire.AppendString(append(b, `,"signature":`...), signature(text)), '}')
		case toolBlock:
			b = append(append(appendTool(b, s.id, s.name), toolset.Whole(text)...), '}')
		case mcpBlock:
			b = append(append(appendMCP(b, s), text...), '}')
		case resultBlock:
			b = appendResult(b, s)
		}
	}
	b = t.appendStop(append(b, `],`...))
	b = append(t.appendUsage(append(b, `,"usage":`...)), `,"service_tier":"standard"}`...)
	return append(t.appendBeside(b), '}')
}

// complete reports whether the call of an id is among calls.
func complete(calls []generate.Call, id string) bool {
	for i := range calls {
		if calls[i].ID == id {
			return true
		}
	}
	return false
}

// appendBeside writes what this server adds, once: plugins that were skipped, what a grammar does not hold, and how the
// tokens came to be, where that was asked for.
func (t *turn) appendBeside(b []byte) []byte {
	b = generate.AppendDropped(generate.AppendSkips(b, t.run.Skipped()), t.run.Dropped())
	return generate.AppendExplained(b, append(t.explained, t.choice.Explained()...), t.run.Receipt())
}

// setHeader sets what the header says of the run.
func (t *turn) setHeader(h http.Header) {
	generate.SetUnknown(h, t.run.Unknown())
	generate.SetDropped(h, t.run.Dropped())
	generate.SetSkipped(h, t.run.Skipped())
}

// stream replies with events.
func (t *turn) stream(w http.ResponseWriter, ctx context.Context) error {
	t.setHeader(w.Header())
	events, err := server.StartEvents(w)
	if err != nil {
		return nil // the client left before the first byte
	}
	t.emit = events.Named
	b := append(t.appendHead([]byte(`{"type":"message_start","message":`)),
		`],"stop_reason":null,"stop_sequence":null`...)
	b = append(t.appendUsage(append(b, `,"usage":`...)), `,"service_tier":"standard"}}}`...)
	t.send("message_start", b)
	t.send("ping", []byte(`{"type":"ping"}`))
	await := func(ctx context.Context, next func(context.Context) (int, error)) (int, error) {
		return server.Await(ctx, events, next)
	}
	for more := true; more && err == nil; {
		err = t.pump(ctx, func(ctx context.Context) (generate.Event, error) {
			return server.Await(ctx, events, t.run.Next)
		})
		if err == nil {
			more, err = t.goOn(ctx, await)
		}
	}
	generate.TrailSkipped(w.Header(), t.run.Skipped())
	if err != nil {
		server.Note(ctx, err)
		f := explain(err)
		_ = events.Named("error", f.append(nil, w.Header().Get("Request-Id"))) // the last words, heard or not
		return nil
	}
	b = append(t.appendStop([]byte(`{"type":"message_delta","delta":{`)), '}')
	b = append(t.appendUsage(append(b, `,"usage":`...)), '}')
	t.send("message_delta", append(t.appendBeside(b), '}'))
	t.send("message_stop", []byte(`{"type":"message_stop"}`))
	return nil
}
