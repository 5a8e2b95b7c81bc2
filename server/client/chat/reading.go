package chat

import (
	"bytes"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"slices"
	"strings"

	"tgi/server/sse"
	"tgi/server/wire"
)

// chunk is an event of a chat stream, as OpenAI publishes it. reasoning_content
// and reasoning are the two names that servers gave to what a model thinks.
type chunk struct {
	Choices []struct {
		Index int
		Delta struct {
			Content          string
			Refusal          string
			ReasoningContent string `json:"reasoning_content"`
			Reasoning        string
			ToolCalls        []callPiece `json:"tool_calls"`
		}
		FinishReason string `json:"finish_reason"`
	}
	Usage struct {
		CompletionTokens int `json:"completion_tokens"`
	}
	Error json.RawMessage
}

// callPiece is a part of a call: the first has id and name, all have a part of
// the arguments.
type callPiece struct {
	Index    int
	ID       string
	Function struct{ Name, Arguments string }
}

// maxCalls bounds the calls of one answer.
const maxCalls = 128

// reading is an answer that is coming.
type reading struct {
	see    func(Delta) error
	answer Answer
	text   strings.Builder
	calls  map[int]*partCall // by OpenAI's index
}

// partCall is a call of which not all pieces came yet.
type partCall struct {
	id, name  string
	arguments strings.Builder
}

// all reads a stream to its end.
func (r *reading) all(stream *sse.Reader) error {
	for {
		data, err := stream.Next()
		switch {
		case errors.Is(err, io.EOF), err == nil && bytes.Equal(data, []byte("[DONE]")):
			if r.answer.Finish == "" {
				return fmt.Errorf("%w: it has no finish_reason", ErrIncomplete)
			}
			return nil
		case errors.Is(err, sse.ErrTooLong):
			return fmt.Errorf("%w: %w", ErrMalformed, err)
		case err != nil:
			return fmt.Errorf("%w: %w", ErrIncomplete, err)
		}
		if err := r.event(data); err != nil {
			return err
		}
	}
}

// event takes one event in.
func (r *reading) event(data []byte) error {
	var c chunk
	if err := json.Unmarshal(data, &c); err != nil {
		return fmt.Errorf("%w: %w in the event %q", ErrMalformed, wire.Told(err),
			oneLine(strings.ToValidUTF8(string(data[:min(len(data), maxRefusal)]), "")))
	}
	if len(c.Error) > 0 && string(c.Error) != "null" {
		return refusalOf(data, c.Error)
	}
	if n := c.Usage.CompletionTokens; n > 0 {
		r.answer.Tokens = n
	}
	for i := range c.Choices {
		one := &c.Choices[i]
		if one.Index != 0 {
			continue // setting n asks for more answers than are shown
		}
		d := &one.Delta
		thought := d.ReasoningContent
		if thought == "" {
			thought = d.Reasoning
		}
		if err := r.show(thought, d.Content+d.Refusal); err != nil {
			return err
		}
		for _, p := range d.ToolCalls {
			if err := r.call(p); err != nil {
				return err
			}
		}
		if one.FinishReason != "" {
			r.answer.Finish = one.FinishReason
		}
	}
	return nil
}

func (r *reading) show(thought, text string) error {
	if thought != "" {
		if err := r.see(Delta{Reasoning: thought}); err != nil {
			return err
		}
	}
	if text == "" {
		return nil
	}
	r.text.WriteString(text)
	return r.see(Delta{Text: text})
}

// call takes a piece of a call in.
func (r *reading) call(p callPiece) error {
	c := r.calls[p.Index]
	if c == nil {
		if len(r.calls) == maxCalls {
			return fmt.Errorf("%w: more than %d tool calls", ErrMalformed, maxCalls)
		}
		if r.calls == nil {
			r.calls = map[int]*partCall{}
		}
		c = &partCall{}
		r.calls[p.Index] = c
	}
	if p.ID != "" {
		c.id = p.ID
	}
	c.name += p.Function.Name
	c.arguments.WriteString(p.Function.Arguments)
	return r.see(Delta{Call: true})
}

// result returns what came.
func (r *reading) result() Answer {
	a := r.answer
	a.Text = r.text.String()
	var order []int
	for i := range r.calls {
		order = append(order, i)
	}
	slices.Sort(order)
	for _, i := range order {
		c := r.calls[i]
		if c.id == "" {
			c.id = fmt.Sprintf("call_%d", i) // the result must name its call
		}
		a.Calls = append(a.Calls, Call{c.id, c.name, c.arguments.String()})
	}
	return a
}

// refusalOf returns the error that an event tells of.
func refusalOf(event, object json.RawMessage) error {
	var status struct {
		Status int `json:"http_status_code"`
	}
	_ = json.Unmarshal(object, &status) // TGI's error is a text and has no status
	return &Refusal{Status: status.Status, Text: Reason(event)}
}
