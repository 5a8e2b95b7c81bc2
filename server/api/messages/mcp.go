package messages

import (
	"context"
	"fmt"
	"slices"
	"strings"

	"tgi/runtime/llm"
	"tgi/server/api/deltas"
	"tgi/server/api/mcptools"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// toolsetKind is the type of a tool that stands for those of an MCP server.
const toolsetKind = "mcp_toolset"

// toolset reads a tool of that type: the name of a server of the settings, and which of its tools may be called. Tools
// that a client may load later (defer_loading) are offered at once.
func (b *body) toolset(r *wire.Reader, at string) error {
	w := mcp.Want{Field: at}
	all, some := true, map[string]bool{}
	config := func(r *wire.Reader, enabled *bool) error {
		if none, err := r.Null(); none || err != nil {
			return err
		}
		return r.Object("struct ToolConfig", []wire.Field{
			{Name: "enabled", Read: fields.Flag(enabled)},
			{Name: "defer_loading", Read: fields.Flag(new(bool))},
		})
	}
	err := r.Object("struct Toolset", []wire.Field{
		{Name: "mcp_server_name", Required: true, Read: wire.Into(&w.Label, (*wire.Reader).String)},
		{Name: "default_config", Read: func(r *wire.Reader) error { return config(r, &all) }},
		{Name: "configs", Read: func(r *wire.Reader) error {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			return r.Map("a map of configurations", func(name string) error {
				enabled := all
				err := config(r, &enabled)
				some[name] = enabled
				return err
			})
		}},
		{Name: "tools", Read: fields.Unset(at + ".tools")},
		{Name: "cache_control", Read: cacheControl},
	})
	for name, enabled := range some {
		if enabled && !all {
			w.Allowed = append(w.Allowed, name)
		} else if !enabled && all {
			w.Denied = append(w.Denied, name)
		}
	}
	slices.Sort(w.Allowed) // errors name the first
	if !all && w.Allowed == nil {
		w.Allowed = []string{}
	}
	b.wants = append(b.wants, w)
	return err
}

// mcpServers refuses what would have a client choose which servers are connected to. An empty list asks for nothing.
func mcpServers(r *wire.Reader) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	return r.Array(func(int) error {
		return &generate.Invalid{Field: "mcp_servers", Msg: "`mcp_servers` must be empty: MCP servers are those that the " +
			"operator configures ([[mcp]]); a tool of type `" + toolsetKind + "` names one"}
	})
}

// equip gives the call the tools of the MCP servers that it and its key want.
func (c *call) equip(ctx context.Context, s *mcp.Servers) error {
	loop, err := mcptools.Begin(ctx, s, c.wants, &c.tools, 0)
	if err != nil {
		return err
	}
	c.loop = loop
	return c.offer()
}

// appendMCP writes a call of a server's tool up to the value of its input.
func appendMCP(b []byte, s *said) []byte {
	b = wire.AppendString(append(b, `{"type":"mcp_tool_use","id":`...), s.id)
	b = wire.AppendString(append(b, `,"name":`...), s.tool.Own)
	b = wire.AppendString(append(b, `,"server_name":`...), s.tool.Label)
	return append(b, `,"input":`...)
}

// appendResult writes what a call of a server's tool came to.
func appendResult(b []byte, s *said) []byte {
	b = wire.AppendString(append(b, `{"type":"mcp_tool_result","tool_use_id":`...), s.id)
	b = append(b, `,"is_error":`...)
	text := s.outcome.Text
	if s.outcome.Err != nil {
		b, text = append(b, "true"...), s.outcome.Err.Error()
	} else {
		b = append(b, "false"...)
	}
	b = wire.AppendString(append(b, `,"content":[{"type":"text","text":`...), text)
	return append(b, `}]}`...)
}

// goOn makes the calls of tools of MCP servers that the run ended with, and starts the next one. It reports whether
// there is one. await waits for a call.
func (t *turn) goOn(ctx context.Context,
	await func(context.Context, func(context.Context) (int, error)) (int, error)) (bool, error) {
	c := t.call
	if c.loop == nil {
		return false, nil
	}
	ours, others := mcptools.Split(c.loop, t.choice.Reply.Calls())
	if len(ours) == 0 {
		return false, nil
	}
	if why := mcptools.NotMade(t.choice.Reply, t.choice.Finish.Reason == llm.FinishGuard); why != nil {
		for _, one := range ours {
			t.settle(one.ID, mcp.Outcome{Err: why})
		}
		return false, t.err
	}
	text, thoughts := t.spoken()
	round := mcptools.Start(ctx, c.loop, ours)
	defer round.Close()
	for {
		i, err := await(ctx, round.Next)
		if err != nil {
			return false, err
		}
		if i < 0 {
			break
		}
		if t.settle(ours[i].ID, round.Outcomes[i]); t.err != nil {
			return false, t.err
		}
	}
	t.others = others
	f := t.choice.Finish
	if most := c.draft.MaxNewTokens; most != nil && !others {
		left := *most - min(*most, uint32(f.Generated))
		c.draft.MaxNewTokens = &left
		t.exhausted = left == 0
	}
	if others || t.exhausted {
		return false, nil // the client has to answer, or there is no room for more
	}
	t.before.prompt, t.before.cached = t.before.prompt+f.Prompt, t.before.cached+f.Cached
	t.before.generated, t.before.reasoned = t.before.generated+f.Generated, t.before.reasoned+t.choice.Reasoned
	t.counts = t.counts.Plus(f)
	explained := t.choice.Explained()
	t.explained, c.draft.Explain = append(t.explained, explained...), c.draft.Explain.Left(len(explained))
	v := *c.draft.Conversation
	v.Messages = append(v.Messages[:len(v.Messages):len(v.Messages)], mcptools.Turn(text, thoughts, round)...)
	v.Continue = nil
	mcptools.Relax(&v, c.loop)
	c.draft.Conversation = &v
	t.run.Close()
	run, err := c.model.Service.Start(ctx, c.draft)
	if err != nil {
		return false, err
	}
	t.run, t.choice, t.held, t.first = run, deltas.NewChoice(&c.shown, run, 0), "", len(t.blocks)
	return true, nil
}

// spoken returns the text and the thoughts of the run.
func (t *turn) spoken() (string, string) {
	var text, thoughts strings.Builder
	for _, s := range t.blocks[t.first:] {
		switch s.kind {
		case textBlock:
			text.WriteString(s.text.String())
		case thinkingBlock:
			thoughts.WriteString(s.text.String())
		}
	}
	return text.String(), thoughts.String()
}

// settle tells what a call came to: a block of its own behind all calls.
func (t *turn) settle(id string, o mcp.Outcome) {
	s := &said{kind: resultBlock, id: id, outcome: o}
	t.blocks = append(t.blocks, s)
	if t.emit == nil {
		return
	}
	b := wire.AppendInt([]byte(`{"type":"content_block_start",`), "index", len(t.blocks)-1)
	b = appendResult(append(b, `,"content_block":`...), s)
	t.send("content_block_start", append(b, '}'))
	t.send("content_block_stop", append(wire.AppendInt([]byte(`{"type":"content_block_stop",`), "index",
		len(t.blocks)-1), '}'))
}

// flush begins another message of an assistant's turn, behind the results of tools that a server ran in it.
func (t *turnReader) flush() {
	if t.role != "assistant" || len(t.results) == 0 {
		return
	}
	results := t.results
	t.results = nil
	t.before = append(t.before, t.messages()...)
	answers := &turnReader{body: t.body, role: "user", results: results}
	t.before = append(t.before, answers.messages()...)
	t.parts, t.calls, t.called = nil, nil, 0
	t.thoughts.Reset()
}

// mcpResult takes what a tool said that a server ran in an assistant's turn.
func (t *turnReader) mcpResult(r *wire.Reader, b *block) error {
	if t.body.called[b.toolUse] == "" {
		return r.Refuse(fmt.Sprintf("`tool_use_id` %.64q is not that of a call before it", b.toolUse))
	}
	return t.result(r, b)
}
