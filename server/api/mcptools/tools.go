// Package mcptools is what the APIs of conversations share of the tools of MCP servers: how a request asks for them,
// how a model is offered them, how a round of calls runs beside a stream, and what the model reads of it.
package mcptools

import (
	"context"
	"errors"
	"fmt"

	"tgi/server"
	"tgi/server/api/toolset"
	"tgi/server/fields"
	"tgi/server/generate"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// Kind is the type of a tool that stands for those of a server.
const Kind = "mcp"

// Read reads a tool of the type mcp: {"type":"mcp","server_label":…,"allowed_tools":…,"require_approval":"never"}. at
// is where it stands. What says how to reach a server is refused by name: servers are the operator's.
func Read(r *wire.Reader, at string) (mcp.Want, error) {
	w := mcp.Want{Field: at}
	never := ""
	list := []wire.Field{
		{Name: "server_label", Required: true, Read: wire.Into(&w.Label, (*wire.Reader).String)},
		{Name: "allowed_tools", Read: func(r *wire.Reader) error { return allowed(r, &w) }},
		{Name: "require_approval", Read: func(r *wire.Reader) (err error) {
			if none, err := r.Null(); none || err != nil {
				return err
			}
			return fields.Either(r, func(r *wire.Reader) (err error) {
				never, err = r.String()
				return err
			}, func(r *wire.Reader) error {
				_, err := r.RawObject() // refused below
				return err
			})
		}},
	}
	for _, name := range []string{"server_url", "connector_id", "tunnel_id", "authorization", "headers"} {
		list = append(list, wire.Field{Name: name, Read: func(r *wire.Reader) error {
			none, err := r.Null()
			if err == nil && !none {
				err = refused(at, name, "MCP servers are those that the operator configures ([[mcp]]), by `server_label`")
			}
			return err
		}})
	}
	if err := r.Object("struct Tool", list); err != nil {
		return w, err
	}
	if never != "never" {
		return w, refused(at, "require_approval", "must be \"never\": this server asks nobody before it calls a tool")
	}
	return w, nil
}

func refused(at, name, why string) error {
	return &generate.Invalid{Field: "tools", Msg: fmt.Sprintf("`%s.%s`: %s", at, name, why)}
}

// allowed reads names of tools, a filter, or null.
func allowed(r *wire.Reader, w *mcp.Want) error {
	if none, err := r.Null(); none || err != nil {
		return err
	}
	names := func(r *wire.Reader) (err error) {
		w.Allowed, err = r.Strings()
		if w.Allowed == nil {
			w.Allowed = []string{}
		}
		return err
	}
	return fields.Either(r, names, func(r *wire.Reader) error {
		return r.Object("struct AllowedTools", []wire.Field{
			{Name: "tool_names", Read: func(r *wire.Reader) error {
				if none, err := r.Null(); none || err != nil {
					return err
				}
				return names(r)
			}},
			{Name: "read_only", Read: fields.Flag(&w.ReadOnly)},
		})
	})
}

// Begin returns what a request uses of servers: those that it wants, and those of its key. It is nil where that is
// nothing. taken are the names of the client's own tools; calls bounds the calls besides the settings, 0 does not.
func Begin(ctx context.Context, s *mcp.Servers, wants []mcp.Want, set *toolset.Set, calls int) (*mcp.Loop, error) {
	key := server.KeyName(ctx)
	wants = append(wants[:len(wants):len(wants)], s.Policy(key, wants)...)
	if len(wants) == 0 {
		return nil, nil
	}
	var taken []string
	for i := range set.Offers {
		taken = append(taken, set.Offers[i].Name)
	}
	l, err := s.Begin(ctx, key, wants, taken, calls)
	if err != nil {
		return nil, err
	}
	for _, listed := range l.Lists() {
		for _, t := range listed.Tools {
			set.Add(offer(&t))
		}
	}
	return l, nil
}

// offer is a tool as templates read it.
func offer(t *mcp.Tool) toolset.Offer {
	o := toolset.Offer{Name: t.Name, Place: "#/tools/" + t.Label}
	o.SetFunction(t.Description, t.Schema)
	return o
}

// Round is a round of calls while it runs. It belongs to one goroutine, and must be closed.
type Round struct {
	// Calls are those that are made.
	Calls []generate.Call
	// Outcomes are what they came to; those of calls that run are empty.
	Outcomes []mcp.Outcome

	told   chan told
	left   int
	cancel context.CancelFunc
	over   chan struct{}
}

type told struct {
	i       int
	outcome mcp.Outcome
}

// Start begins a round.
func Start(ctx context.Context, l *mcp.Loop, calls []generate.Call) *Round {
	ctx, cancel := context.WithCancel(ctx)
	r := &Round{Calls: calls, Outcomes: make([]mcp.Outcome, len(calls)), told: make(chan told, len(calls)),
		left: len(calls), cancel: cancel, over: make(chan struct{})}
	go func() {
		defer close(r.over)
		l.Run(ctx, calls, func(i int, o mcp.Outcome) { r.told <- told{i, o} })
	}()
	return r
}

// Next waits for the next call that has an outcome, and returns its number; -1 when all have one. When ctx ends it
// returns its cause, and may be called again.
func (r *Round) Next(ctx context.Context) (int, error) {
	if r.left == 0 {
		return -1, nil
	}
	select {
	case t := <-r.told:
		r.left--
		r.Outcomes[t.i] = t.outcome
		return t.i, nil
	case <-ctx.Done():
		return 0, context.Cause(ctx)
	}
}

// Close ends the calls that still run.
func (r *Round) Close() {
	r.cancel()
	<-r.over
}

var (
	errGuarded = errors.New("not made: a guard ended the reply")
	errBroken  = errors.New("not made: another call of the reply is broken, or not complete")
)

// NotMade says why no call of a reply is made, nil where they are: a guard ended the reply, or not all of its calls are
// whole.
func NotMade(r *generate.Reply, guarded bool) error {
	switch {
	case guarded:
		return errGuarded
	case !r.Called():
		return errBroken
	}
	return nil
}

// Split returns the calls that servers run, and whether there are others, which the client has to make.
func Split(l *mcp.Loop, calls []generate.Call) (ours []generate.Call, others bool) {
	for _, c := range calls {
		if _, ok := l.Tool(c.Name); ok {
			ours = append(ours, c)
		} else {
			others = true
		}
	}
	return ours, others
}

// Turn is what the model reads of a round: what it said, its calls, and their outcomes.
func Turn(text, thoughts string, r *Round) []generate.Message {
	b := []byte(`{"role":"assistant","content":`)
	if text == "" {
		b = append(b, "null"...)
	} else {
		b = wire.AppendString(b, text)
	}
	if thoughts != "" {
		b = wire.AppendString(append(b, `,"reasoning_content":`...), thoughts)
	}
	b = append(b, `,"tool_calls":[`...)
	for i, c := range r.Calls {
		b = wire.AppendString(append(wire.Comma(b, i), `{"id":`...), c.ID)
		b = wire.AppendString(append(b, `,"type":"function","function":{"name":`...), c.Name)
		b = append(append(b, `,"arguments":`...), c.Arguments...)
		b = append(wire.AppendString(append(b, `,"arguments_text":`...), c.Arguments), `}}`...)
	}
	list := []generate.Message{{Role: "assistant", Calls: true, HasText: text != "", JSON: append(b, `]}`...)}}
	for i, c := range r.Calls {
		b := wire.AppendString([]byte(`{"role":"tool","tool_call_id":`), c.ID)
		b = wire.AppendString(append(b, `,"name":`...), c.Name)
		said := r.Outcomes[i].Said()
		b = append(wire.AppendString(append(b, `,"content":`...), said), '}')
		list = append(list, generate.Message{Role: "tool", HasText: said != "", JSON: b})
	}
	return list
}

// Relax takes back what a request demands of its tools once it has been met, and takes the tools away where no more
// calls may be made: the model has to answer.
func Relax(c *generate.Conversation, l *mcp.Loop) {
	if c.ToolChoice.Demands() {
		c.ToolChoice = generate.ToolChoice{}
	}
	if !l.Open() {
		c.ToolChoice = generate.ToolChoice{Mode: generate.ChooseNone}
	}
}
