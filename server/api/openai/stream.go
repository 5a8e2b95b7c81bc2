package openai

import (
	"context"
	"errors"
	"io"
	"net/http"

	"tgi/server"
	"tgi/server/generate"
	"tgi/server/wire"
)

// stream replies with events as the tokens come, of all choices as they come. A
// call that does not begin gets a status where the dialect's errors are OpenAI's,
// so that clients know whether to try again; in the others the error is an event.
func (a *API) stream(w http.ResponseWriter, r *http.Request, c *call) error {
	ctx := r.Context()
	rs, refused := a.start(ctx, c)
	switch {
	case refused == nil:
		defer rs.close()
		a.setCompute(w.Header(), rs)
	// TGI looks at these before it streams
	case c.dialect.ReplyErrorObject, errors.Is(refused, generate.ErrTemplate), errors.Is(refused, generate.ErrTool):
		refuse(w, r, c.form, c.dialect, refused)
		return nil
	}
	events, err := server.StartEvents(w)
	if err != nil {
		return nil // the client left before the first byte
	}
	if refused == nil {
		s := &streaming{api: a, call: c, runs: rs, events: events,
			head: a.appendHead(nil, c, c.form.chunk)}
		refused = s.pump(ctx)
		generate.TrailSkipped(w.Header(), rs.skipped())
	}
	if refused != nil {
		server.Note(ctx, refused)
		_ = events.Data(c.appendEvent(nil, refused)) // the last words, heard or not
	}
	_ = events.Data([]byte("[DONE]"))
	return nil
}

// streaming is a stream that began.
type streaming struct {
	api     *API
	call    *call
	runs    *runs
	events  *server.Events
	choices []*choice // of all runs, in the order of the reply
	open    int       // choices that have not finished
	usage   usage
	head    []byte // that every chunk begins with
	line    []byte
}

// pump sends all choices to their end, and returns why it could not.
func (s *streaming) pump(ctx context.Context) error {
	n := s.call.n
	for _, run := range s.runs.list {
		for i := range n {
			s.choices = append(s.choices, newChoice(s.call, len(s.choices), run, i))
		}
	}
	s.open = len(s.choices)
	for {
		a, err := server.Await(ctx, s.events, s.runs.next)
		if errors.Is(err, io.EOF) {
			if s.open == 0 {
				return s.end()
			}
			if err = s.goOn(ctx); err != nil {
				return incomplete(err)
			}
			continue
		}
		if err != nil {
			return incomplete(err)
		}
		s.usage.count(s.call, s.runs.list[a.run], &a.event)
		one := s.choices[a.run*n+a.event.Index]
		if err := s.show(one, &a); err != nil {
			return err
		}
	}
}

// show sends what one event adds to its choice.
func (s *streaming) show(one *choice, a *runEvent) error {
	if !one.opened && !s.call.form.chat {
		one.opened = true
		if err := s.echo(one, a); err != nil {
			return err
		}
	}
	p, err := one.Next(&a.event)
	if err != nil {
		return err
	}
	p.Deltas = s.call.rounds.take(p.Deltas)
	last := a.event.Finish != nil && !s.call.rounds.goesOn(one)
	if last {
		s.open--
	}
	d := s.call.dialect
	apart := d.CompletionEnd // the end is a chunk of its own
	if s.call.form.chat {
		apart = d.RoleFirst
	}
	one.unsent = append(one.unsent, p.Tokens...)
	if len(p.Deltas) == 0 && (!apart || len(one.unsent) > 0 && !one.Reply.Parsed()) {
		p.Deltas = append(p.Deltas, generate.Delta{})
	}
	if s.call.form.chat && !one.opened && (last || len(p.Deltas) > 0) {
		one.opened = true
		if err := s.role(one, len(p.Deltas) == 0 || p.Deltas[0].Kind == generate.DeltaContent); err != nil {
			return err
		}
	}
	for i := range p.Deltas {
		if err := s.chunk(one, &p.Deltas[i], last && !apart && i == len(p.Deltas)-1); err != nil {
			return err
		}
	}
	if last && apart {
		return s.chunk(one, nil, true)
	}
	return nil
}

// role sends what comes before the first piece of a chat's choice: who speaks. A choice
// that begins with a call or with reasoning has no content yet, and no client has to
// take an empty or a null one for some.
func (s *streaming) role(one *choice, content bool) error {
	if !s.call.dialect.RoleFirst {
		return nil
	}
	b := append(s.delta(one), `{"role":"assistant"`...)
	if content {
		b = append(b, `,"content":""`...)
	}
	return s.send(append(b, `},"logprobs":null,"finish_reason":null`...), false)
}

// echo sends the prompt that is repeated before the first token of a completion.
func (s *streaming) echo(one *choice, a *runEvent) error {
	c := s.call
	text, chars := c.echoed(s.runs.list[a.run].Request.Inputs, a.event.Prefill)
	if one.Chars = chars; text == "" {
		return nil
	}
	b := wire.AppendString(append(s.begin(one), `,"text":`...), text)
	b = c.appendLogprobs(append(b, `,"logprobs":`...), a.event.Prefill, nil)
	return s.send(s.appendReason(append(b, `,"finish_reason":`...), one, false), false)
}

// begin writes a chunk up to the index of the choice.
func (s *streaming) begin(one *choice) []byte {
	return wire.AppendInt(append(append(s.line[:0], s.head...), '{'), "index", one.index)
}

// delta writes a chat chunk up to the value of delta.
func (s *streaming) delta(one *choice) []byte { return append(s.begin(one), `,"delta":`...) }

// chunk sends what d adds to a choice, nothing when it is nil, with the tokens
// that became known since the chunk before.
func (s *streaming) chunk(one *choice, d *generate.Delta, last bool) error {
	c := s.call
	var b []byte
	switch {
	case c.form.chat:
		b = c.appendDelta(s.delta(one), d, one.Custom(d))
	case d == nil:
		b = append(s.begin(one), `,"text":""`...)
	default:
		b = wire.AppendString(append(s.begin(one), `,"text":`...), d.Text)
	}
	b = c.appendLogprobs(append(b, `,"logprobs":`...), nil, one.unsent)
	one.unsent = one.unsent[:0]
	b = appendExplained(b, one)
	b = s.appendReason(append(b, `,"finish_reason":`...), one, last)
	return s.send(b, last)
}

// appendReason writes finish_reason. In older completions it was always empty.
func (s *streaming) appendReason(b []byte, one *choice, last bool) []byte {
	switch {
	case !s.call.form.chat && !s.call.dialect.CompletionEnd:
		return append(b, `""`...)
	case last:
		return generate.AppendStopReason(wire.AppendString(b, one.reason()), one.Finish)
	}
	return append(b, "null"...)
}

// send closes a chunk that was begun by begin and sends it. The last one of the
// last choice reports plugins.
func (s *streaming) send(b []byte, last bool) error {
	b = append(b, `}]`...)
	if s.call.usage && s.call.dialect.ChunkUsage {
		b = append(b, `,"usage":null`...)
	}
	if last && s.open == 0 {
		b = generate.AppendDropped(generate.AppendSkips(b, s.runs.skipped()), s.runs.dropped())
		b = s.runs.appendReceipts(b)
	}
	s.line = append(b, '}')
	return s.events.Data(s.line)
}

// end sends the usage, if it was asked for.
func (s *streaming) end() error {
	if !s.call.usage || !s.call.dialect.ChunkUsage {
		return nil
	}
	b := append(append(s.line[:0], s.head...), `],"usage":`...)
	return s.events.Data(append(s.usage.append(b), '}'))
}
