package ollama

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"io"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/deltas"
	"tgi/server/api/toolset"
	"tgi/server/generate"
	"tgi/server/wire"
)

// times are the moments of a request that its durations are between.
type times struct{ began, loaded, started, first, end time.Time }

// turn is a reply while it is made, whole or in lines. It belongs to one goroutine.
type turn struct {
	api    *API
	call   *call
	run    *generate.Run
	choice *deltas.Choice
	times  times

	// What was not sent yet: all of a whole reply.
	text, thoughts strings.Builder
	calls          int // of those that are complete
	unsent         []generate.Call
	tokens         []deltas.Scored

	generated []llm.Token
	replaced  string // what guards gave behind these instead of the model's words
}

// pump reads the run to its end. emit sends what is there; nil waits for the end. Errors are those of the run, of the
// reply and of emit.
func (t *turn) pump(ctx context.Context, emit func() error) error {
	for {
		e, err := t.run.Next(ctx)
		if errors.Is(err, io.EOF) {
			t.times.end = t.api.now()
			return nil
		}
		if err != nil {
			return err
		}
		if t.times.first.IsZero() {
			t.times.first = t.api.now()
		}
		if err := t.take(&e); err != nil {
			return err
		}
		if emit != nil && e.Finish == nil && t.some() {
			if err := emit(); err != nil {
				return err
			}
		}
	}
}

// take takes an event.
func (t *turn) take(e *generate.Event) error {
	if e.Replaced {
		t.replaced += e.Text
	} else {
		t.spell()
		t.generated = append(t.generated, e.Token)
	}
	p, err := t.choice.Next(e)
	if err != nil {
		return err
	}
	for _, d := range p.Deltas {
		switch d.Kind {
		case generate.DeltaContent:
			t.text.WriteString(d.Text)
		case generate.DeltaReasoning:
			t.thoughts.WriteString(d.Text)
		}
	}
	if all := t.choice.Reply.Calls(); len(all) > t.calls {
		t.unsent = append(t.unsent, all[t.calls:]...)
		t.calls = len(all)
	}
	if e.Finish != nil {
		t.text.WriteString(t.choice.Reply.Torn()) // clients execute every call that they get
	}
	t.tokens = append(t.tokens, p.Tokens...)
	return nil
}

// spell adds the tokens of a replacement's text: those of its events are not all of it.
func (t *turn) spell() {
	if t.replaced != "" {
		t.generated = append(t.generated, t.call.model.Service.EncodeData(t.replaced)...)
		t.replaced = ""
	}
}

// some reports whether there is something to send.
func (t *turn) some() bool {
	return t.text.Len() > 0 || t.thoughts.Len() > 0 || len(t.unsent) > 0 || len(t.tokens) > 0
}

// appendHead writes the members that every object of a reply begins with.
func (a *API) appendHead(b []byte, named string) []byte {
	b = wire.AppendString(append(b, `{"model":`...), named)
	b = append(b, `,"created_at":"`...)
	return append(a.now().UTC().AppendFormat(b, time.RFC3339Nano), '"')
}

// append writes what was not sent yet, and leaves the object open.
func (t *turn) append(b []byte) []byte {
	b = t.api.appendHead(b, t.call.named)
	if !t.call.chat {
		b = wire.AppendString(append(b, `,"response":`...), t.text.String())
		if t.thoughts.Len() > 0 {
			b = wire.AppendString(append(b, `,"thinking":`...), t.thoughts.String())
		}
	} else {
		b = wire.AppendString(append(b, `,"message":{"role":"assistant","content":`...), t.text.String())
		if t.thoughts.Len() > 0 {
			b = wire.AppendString(append(b, `,"thinking":`...), t.thoughts.String())
		}
		for i, c := range t.unsent {
			if i == 0 {
				b = append(b, `,"tool_calls":[`...)
			}
			b = appendCall(wire.Comma(b, i), &c)
		}
		if len(t.unsent) > 0 {
			b = append(b, ']')
		}
		b = append(b, '}')
	}
	if len(t.tokens) > 0 {
		b = append(b, `,"logprobs":`...)
		b = deltas.AppendLogprobs(b, t.tokens, t.call.top, t.call.bytes)
	}
	t.text.Reset()
	t.thoughts.Reset()
	t.unsent, t.tokens = t.unsent[:0], t.tokens[:0]
	return b
}

// bytes returns those of a token, and whether they are known.
func (c *call) bytes(t generate.Token) ([]byte, bool) {
	if c.model.TokenBytes == nil {
		return nil, false
	}
	return c.model.TokenBytes(t.Token)
}

// appendCall writes a call of a tool. A stream has an object in a line, so the white space that the model put between
// members is left out.
func appendCall(b []byte, c *generate.Call) []byte {
	var arguments bytes.Buffer
	if json.Compact(&arguments, []byte(c.Arguments)) != nil {
		arguments.Reset()
		_ = json.Compact(&arguments, []byte(toolset.Whole(c.Arguments))) // which is an object
	}
	b = wire.AppendString(append(b, `{"id":`...), c.ID)
	b = wire.AppendInt(append(b, `,"function":{`...), "index", c.Index)
	b = wire.AppendString(append(b, `,"name":`...), c.Name)
	return append(append(append(b, `,"arguments":`...), arguments.Bytes()...), `}}`...)
}

// appendLast writes the last object of a reply, with what was not sent yet.
func (t *turn) appendLast(b []byte) []byte {
	b = append(t.append(b), `,"done":true,"done_reason":`...)
	reason := "stop"
	switch ended := t.choice.Finish.Reason; {
	case ended == llm.FinishGuard:
		reason = "content_filter"
	case ended == llm.FinishLength && !t.choice.Reply.Stopped() && !t.choice.Reply.Called():
		reason = "length"
	}
	b = wire.AppendString(b, reason)
	if !t.call.chat && !t.call.raw {
		t.spell()
		b = append(b, `,"context":[`...)
		for i, id := range append(t.run.Request.Prompt[:len(t.run.Request.Prompt):len(t.run.Request.Prompt)],
			t.generated...) {
			b = strconv.AppendUint(wire.Comma(b, i), uint64(id), 10)
		}
		b = append(b, ']')
	}
	m, f := &t.times, t.choice.Finish
	b = appendDuration(b, "total_duration", m.end.Sub(m.began))
	b = appendDuration(b, "load_duration", m.loaded.Sub(m.began))
	b = wire.AppendInt(append(b, ','), "prompt_eval_count", f.Prompt)
	b = appendDuration(b, "prompt_eval_duration", m.first.Sub(m.started))
	b = wire.AppendInt(append(b, ','), "eval_count", f.Generated)
	b = appendDuration(b, "eval_duration", m.end.Sub(m.first))
	b = generate.AppendDropped(generate.AppendSkips(b, t.run.Skipped()), t.run.Dropped())
	return append(generate.AppendExplained(b, t.choice.Explained(), t.run.Receipt()), '}')
}

// appendDuration writes a duration in nanoseconds. Clients divide by it: it is never 0.
func appendDuration(b []byte, name string, d time.Duration) []byte {
	return wire.AppendInt(append(b, ','), name, int(max(1, d)))
}

// whole replies with one object.
func (t *turn) whole(w http.ResponseWriter, r *http.Request) error {
	if err := t.pump(r.Context(), nil); err != nil {
		return err
	}
	t.setHeader(w.Header())
	server.WriteJSON(w, t.appendLast(nil))
	return nil
}

func (t *turn) setHeader(h http.Header) {
	generate.SetDropped(h, t.run.Dropped())
	generate.SetSkipped(h, t.run.Skipped())
}

// lines replies with lines. An error before the first of them has a status.
func (t *turn) lines(w http.ResponseWriter, r *http.Request) error {
	t.setHeader(w.Header())
	lines := server.NewLines(w)
	var sent error
	err := t.pump(r.Context(), func() error {
		sent = lines.Send(append(t.append(nil), `,"done":false}`...))
		return sent
	})
	generate.TrailSkipped(w.Header(), t.run.Skipped())
	switch {
	case err == nil:
		_ = lines.Send(t.appendLast(nil)) // a client that left is nobody's problem
	case !lines.Began():
		return err
	case sent == nil:
		if errors.Is(err, generate.ErrIncomplete) {
			err = server.ErrIncompleteStream
		}
		server.Note(r.Context(), err)
		f := explain(err)
		_ = lines.Send(appendError(nil, &f)) // the last words, heard or not
	default:
		server.Note(r.Context(), err)
	}
	return nil
}
