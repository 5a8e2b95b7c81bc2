package openai

import (
	"context"
	"errors"
	"slices"
	"strings"

	"tgi/server"
	"tgi/server/api/mcptools"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// rounds are the rounds of calls of tools of MCP servers that a chat makes before it replies. It belongs to one
// goroutine.
type rounds struct {
	loop *mcp.Loop
	// calls are those that were made, outcomes what they came to.
	calls    []generate.Call
	outcomes []mcp.Outcome

	text, thoughts strings.Builder // of the run
	hidden         map[int]int     // calls of the run, by their index: -1 for those of servers, or else the client's index
	shown          int             // calls of the client's own tools
}

// errOthers is why calls were not made.
var errOthers = errors.New("not made: the reply has calls for the client, too")

// equip gives a chat the tools of the MCP servers that it and its key want.
func (a *API) equip(ctx context.Context, c *call) error {
	if !c.form.chat {
		return nil
	}
	d := &c.drafts[0]
	single := c.n == 1 && d.NumBeams == nil && (d.BestOf == nil || *d.BestOf <= 1) && !c.functions
	if len(c.wants) > 0 && !single {
		return &generate.Invalid{Field: "tools",
			Msg: "tools of MCP servers are for requests with one choice: without `n`, `best_of`, beams and `functions`"}
	}
	if !single {
		return nil // those of a key's policy are left out
	}
	loop, err := mcptools.Begin(ctx, a.options.Tools, c.wants, c.tools, 0)
	if err != nil || loop == nil {
		return err
	}
	c.rounds = &rounds{loop: loop, hidden: map[int]int{}}
	return c.offer()
}

// take takes what an event adds, and returns what of it the client sees: not the calls that servers run.
func (r *rounds) take(deltas []generate.Delta) []generate.Delta {
	if r == nil {
		return deltas
	}
	out := deltas[:0]
	for _, d := range deltas {
		switch d.Kind {
		case generate.DeltaContent:
			r.text.WriteString(d.Text)
		case generate.DeltaReasoning:
			r.thoughts.WriteString(d.Text)
		case generate.DeltaBegin:
			if _, ours := r.loop.Tool(d.Name); ours {
				r.hidden[d.Index] = -1
				continue
			}
			r.hidden[d.Index] = r.shown
			r.shown++
			d.Index = r.hidden[d.Index]
		case generate.DeltaArguments:
			if r.hidden[d.Index] < 0 {
				continue
			}
			d.Index = r.hidden[d.Index]
		}
		out = append(out, d)
	}
	return out
}

// goesOn reports whether a run that ended is followed by another.
func (r *rounds) goesOn(one *choice) bool {
	if r == nil || !one.Reply.Called() || one.guarded() {
		return false
	}
	ours, others := mcptools.Split(r.loop, one.Reply.Calls())
	return len(ours) > 0 && !others
}

// drop notes the calls of the last run that servers could make and do not: beside the client's own, since nobody would
// tell the model of them, beside one that is broken, and of a text that a guard ended.
func (r *rounds) drop(one *choice) {
	if r == nil || r.goesOn(one) {
		return
	}
	ours, _ := mcptools.Split(r.loop, one.Reply.Calls())
	why := mcptools.NotMade(one.Reply, one.guarded())
	if why == nil {
		why = errOthers
	}
	for _, c := range ours {
		r.calls, r.outcomes = append(r.calls, c), append(r.outcomes, mcp.Outcome{Err: why})
	}
}

// own are the calls that the client has to make.
func (r *rounds) own(calls []generate.Call) []generate.Call {
	if r == nil {
		return calls
	}
	return slices.DeleteFunc(slices.Clone(calls), func(c generate.Call) bool {
		_, ours := r.loop.Tool(c.Name)
		return ours
	})
}

// run makes the calls that the run ended with, and puts them before the model. next waits for a call that has an
// outcome; told is called with its number.
func (r *rounds) run(ctx context.Context, c *call, one *choice, next func(context.Context,
	func(context.Context) (int, error)) (int, error), told func(i int) error) error {
	round := mcptools.Start(ctx, r.loop, one.Reply.Calls())
	defer round.Close()
	first := len(r.calls)
	r.calls = append(r.calls, round.Calls...)
	r.outcomes = append(r.outcomes, round.Outcomes...)
	for {
		i, err := next(ctx, round.Next)
		if err != nil {
			return err
		}
		if i < 0 {
			break
		}
		r.outcomes[first+i] = round.Outcomes[i]
		if err := told(first + i); err != nil {
			return err
		}
	}
	d := &c.drafts[0]
	if d.MaxNewTokens != nil {
		left := *d.MaxNewTokens - min(*d.MaxNewTokens, uint32(one.Finish.Generated))
		d.MaxNewTokens = &left
	}
	v := *d.Conversation
	v.Messages = append(v.Messages[:len(v.Messages):len(v.Messages)],
		mcptools.Turn(r.text.String(), r.thoughts.String(), round)...)
	v.Continue = nil
	mcptools.Relax(&v, r.loop)
	d.Conversation = &v
	r.text.Reset()
	r.thoughts.Reset()
	r.hidden = map[int]int{}
	return nil
}

// spent reports whether there are no tokens left for another run.
func (c *call) spent() bool {
	most := c.drafts[0].MaxNewTokens
	return most != nil && *most == 0
}

// appendMade writes the calls that servers made, from number first on: an addition to OpenAI's messages and deltas.
func (r *rounds) appendMade(b []byte, first, end int) []byte {
	b = append(b, `"mcp_calls":[`...)
	for i := first; i < end; i++ {
		t, _ := r.loop.Tool(r.calls[i].Name)
		b = wire.AppendString(append(wire.Comma(b, i-first), `{"id":`...), r.calls[i].ID)
		b = wire.AppendString(append(b, `,"server_label":`...), t.Label)
		b = wire.AppendString(append(b, `,"name":`...), t.Own)
		b = wire.AppendString(append(b, `,"arguments":`...), r.calls[i].Arguments)
		if o := &r.outcomes[i]; o.Err != nil {
			b = wire.AppendString(append(b, `,"output":null,"error":`...), o.Err.Error())
		} else {
			b = append(wire.AppendString(append(b, `,"output":`...), o.Text), `,"error":null`...)
		}
		b = append(b, '}')
	}
	return append(b, ']')
}

// await waits in a stream, which sends comments meanwhile.
func (s *streaming) await(ctx context.Context, next func(context.Context) (int, error)) (int, error) {
	return server.Await(ctx, s.events, next)
}

// goOn makes the calls that the run of a stream ended with, and begins the next one.
func (s *streaming) goOn(ctx context.Context) error {
	one := s.choices[0]
	c := s.call
	if !one.opened {
		one.opened = true
		if err := s.role(one, true); err != nil {
			return err
		}
	}
	err := c.rounds.run(ctx, c, one, s.await, func(i int) error {
		b := append(c.rounds.appendMade(append(s.delta(one), '{'), i, i+1), '}')
		return s.send(append(b, `,"logprobs":null,"finish_reason":null`...), false)
	})
	if err != nil {
		return err
	}
	s.runs.close()
	if c.spent() {
		s.open = 0
		return s.send(append(s.delta(one), `{},"logprobs":null,"finish_reason":"length"`...), true)
	}
	next, err := s.api.start(ctx, c)
	if err != nil {
		return err
	}
	s.runs.list = next.list
	again := newChoice(c, 0, next.list[0], 0)
	again.opened = one.opened
	s.choices[0] = again
	return nil
}
