package responses

import (
	"context"
	"encoding/json"
	"errors"
	"slices"

	"tgi/server/api/deltas"
	"tgi/server/api/mcptools"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// list tells of the tools that MCP servers offer: an item for each server.
func (t *turn) list() {
	for _, l := range t.call.loop.Lists() {
		s := &spoken{kind: kindMCPList, id: t.id(kindMCPList), label: l.Label}
		t.items = append(t.items, s)
		t.itemEvent("response.output_item.added", len(t.items)-1)
		t.event("response.mcp_list_tools.in_progress", func(b []byte) []byte { return t.at(b, false) })
		s.tools = l.Tools
		t.event("response.mcp_list_tools.completed", func(b []byte) []byte { return t.at(b, false) })
		t.itemEvent("response.output_item.done", len(t.items)-1)
	}
	t.from = len(t.items)
}

// goOn makes the calls of tools of MCP servers that the run ended with, and starts the next one. It reports whether
// there is one.
func (t *turn) goOn(ctx context.Context, next func(context.Context) (step, error)) (bool, error) {
	c := t.call
	if c.loop == nil {
		return false, nil
	}
	ours, others := mcptools.Split(c.loop, t.choice.Reply.Calls())
	if len(ours) == 0 {
		return false, nil
	}
	if why := mcptools.NotMade(t.choice.Reply, t.guarded()); why != nil {
		for _, one := range ours {
			t.settle(one.ID, &mcp.Outcome{Err: why})
		}
		return false, t.err
	}
	t.round = mcptools.Start(ctx, c.loop, ours)
	for {
		s, err := next(ctx)
		if err != nil {
			return false, err
		}
		if s.call < 0 {
			break
		}
		if t.settle(ours[s.call].ID, &t.round.Outcomes[s.call]); t.err != nil {
			return false, t.err
		}
	}
	t.round.Close()
	t.round = nil
	if others {
		return false, nil // the client has to answer, too
	}
	f := t.choice.Finish
	if most := c.draft.MaxNewTokens; most != nil {
		if int(*most) <= f.Generated {
			t.exhausted = true
			return false, nil
		}
		left := *most - uint32(f.Generated)
		c.draft.MaxNewTokens = &left
	}
	t.prompt, t.cached, t.generated = t.prompt+f.Prompt, t.cached+f.Cached, t.generated+f.Generated
	t.reasoned += t.choice.Reasoned
	t.counts = t.counts.Plus(f)
	return true, t.restart(ctx)
}

// restart starts the model with what was said so far.
func (t *turn) restart(ctx context.Context) error {
	c := t.call
	for _, s := range t.items[t.from:] {
		c.rounds = append(c.rounds, s.item())
	}
	t.from = len(t.items)
	v := *c.draft.Conversation
	v.Messages = messages(c.instructions, c.items())
	mcptools.Relax(&v, c.loop)
	c.draft.Conversation = &v
	t.run.Close()
	run, err := t.again(ctx)
	if err != nil {
		return err
	}
	t.run, t.choice, t.held, t.pending = run, deltas.NewChoice(&c.settings, run, 0), "", nil
	return nil
}

// settle ends the item of a call whose outcome is there.
func (t *turn) settle(id string, o *mcp.Outcome) {
	i := slices.IndexFunc(t.items, func(s *spoken) bool { return s.kind == kindMCPCall && s.call == id })
	if i < 0 {
		return
	}
	s := t.items[i]
	s.output, s.failed, s.done, s.status = o.Text, o.Err, true, statusCompleted
	name := "response.mcp_call.completed"
	if o.Err != nil {
		s.status, name = "failed", "response.mcp_call.failed"
	}
	t.event(name, func(b []byte) []byte { return t.atItem(b, i, false) })
	t.itemEvent("response.output_item.done", i)
}

// itemEvent tells of an item as a whole.
func (t *turn) itemEvent(name string, i int) {
	t.event(name, func(b []byte) []byte {
		b = wire.AppendInt(append(b, ','), "output_index", i)
		return t.appendItem(append(b, `,"item":`...), t.items[i])
	})
}

// item is what was said as the model reads it.
func (s *spoken) item() item {
	i := item{kind: s.kind, id: s.id, call: s.call, name: s.name, text: s.text.String()}
	switch s.kind {
	case kindMessage:
		i.role, i.parts = "assistant", []generate.Part{{Text: i.text}}
	case kindMCPCall:
		o := mcp.Outcome{Text: s.output, Err: s.failed}
		i.name, i.parts = s.known, []generate.Part{{Text: o.Said()}}
	}
	return i
}

// appendMCPCall writes the members of a call. What it came to is null until it is known.
func (s *spoken) appendMCPCall(b []byte) []byte {
	b = wire.AppendString(append(b, `,"server_label":`...), s.label)
	b = wire.AppendString(append(b, `,"name":`...), s.name)
	b = wire.AppendString(append(b, `,"arguments":`...), s.text.String())
	b = append(b, `,"approval_request_id":null,"output":`...)
	if s.done && s.failed == nil {
		b = wire.AppendString(b, s.output)
	} else {
		b = append(b, "null"...)
	}
	b = append(b, `,"error":`...)
	own := &mcp.ToolError{}
	switch {
	case s.failed == nil:
		return append(b, "null"...)
	case errors.As(s.failed, &own):
		b = wire.AppendString(append(b, `{"type":"mcp_tool_execution_error","content":[{"type":"text","text":`...),
			own.Text)
		return append(b, `}]}`...)
	}
	b = wire.AppendString(append(b, `{"type":"mcp_protocol_error","code":-32603,"message":`...), s.failed.Error())
	return append(b, '}')
}

// appendMCPList writes the members of a list of tools.
func (s *spoken) appendMCPList(b []byte) []byte {
	b = wire.AppendString(append(b, `,"server_label":`...), s.label)
	b = append(b, `,"error":null,"tools":[`...)
	for i, tool := range s.tools {
		b = wire.AppendString(append(wire.Comma(b, i), `{"name":`...), tool.Own)
		b = wire.AppendString(append(b, `,"description":`...), tool.Description)
		b = append(append(b, `,"input_schema":`...), tool.Schema...)
		annotations := tool.Annotations
		if annotations == nil {
			annotations = json.RawMessage("null")
		}
		b = append(append(append(b, `,"annotations":`...), annotations...), '}')
	}
	return append(b, ']')
}
