package generatetest

import (
	"context"
	"encoding/json"
	"fmt"
	"slices"
	"strings"
	"sync"
	"time"

	"tgi/server/generate"
)

// Chat is a template in the format of ChatML and, when Parse is set, a Parser. It
// reads what the plugins' contract has, so that requests are tested as plugins
// see them. Its fields must not change while it is in use.
type Chat struct {
	// Parse reads replies with a Parser.
	Parse bool
	// Refuse, when set, is what binding fails with; RefuseParser what beginning a parser does.
	Refuse, RefuseParser error
	// Drops is what replies are not held to where their calls should be; RefuseHold, when set, fails that.
	Drops      []generate.Dropped
	RefuseHold error
	// Beside: answers can be held to a grammar beside calls.
	Beside bool
	// Takes are the names of plugins whose calls are the chat's.
	Takes []string

	mu       sync.Mutex
	bound    int      // that were not closed
	parsers  int      // parsers that were not closed
	requests []string // to templates and parsers
}

// Open counts the conversations and parsers that were not closed.
func (c *Chat) Open() (bound, parsers int) {
	c.mu.Lock()
	defer c.mu.Unlock()
	return c.bound, c.parsers
}

// Requests returns what templates and parsers were handed, in order.
func (c *Chat) Requests() []string {
	c.mu.Lock()
	defer c.mu.Unlock()
	return slices.Clone(c.requests)
}

func (c *Chat) note(bound, parsers int, request []byte) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.bound += bound
	c.parsers += parsers
	if request != nil {
		c.requests = append(c.requests, string(request))
	}
}

// bind begins a conversation; rest are the calls that are not the chat's.
func (c *Chat) bind(calls []generate.PluginCall) (rest []generate.PluginCall, err error) {
	if c.Refuse != nil {
		return nil, c.Refuse
	}
	c.note(1, 0, nil)
	return slices.DeleteFunc(slices.Clone(calls),
		func(p generate.PluginCall) bool { return slices.Contains(c.Takes, p.Name) }), nil
}

// render returns "<|im_start|>", role, line break, text,
// "<|im_end|>", line break for each message, tools before them all, and the
// beginning of the assistant's turn. A message without text shows its calls. The
// role hermit is refused.
func (c *Chat) render(ctx context.Context, conversation *generate.Conversation, now time.Time) (generate.Rendered,
	error) {
	request := conversation.TemplateRequest(now)
	c.note(0, 0, request)
	var in struct {
		Messages []struct {
			Role    string
			Content content
			Calls   json.RawMessage `json:"tool_calls"`
		}
		Tools    json.RawMessage
		Ask      bool `json:"add_generation_prompt"`
		Continue bool `json:"continue_final_message"`
	}
	if err := json.Unmarshal(request, &in); err != nil {
		return generate.Rendered{}, fmt.Errorf("BUG: the template's request is no JSON: %w", err)
	}
	var out generate.Rendered
	var text strings.Builder
	if in.Tools != nil {
		text.WriteString("<tools>" + string(in.Tools) + "</tools>\n")
	}
	for i, m := range in.Messages {
		if m.Role == "hermit" {
			return out, &generate.TemplateError{Msg: "no role hermit"}
		}
		said := m.Content.text
		if said == "" {
			said = string(m.Calls)
		}
		text.WriteString("<|im_start|>" + m.Role + "\n" + strings.Repeat(Placeholder, m.Content.images))
		if said != "" {
			out.Data = append(out.Data, generate.Span{Start: text.Len(), End: text.Len() + len(said)})
			text.WriteString(said)
		}
		if !in.Continue || i < len(in.Messages)-1 {
			text.WriteString("<|im_end|>\n")
		}
	}
	if in.Ask {
		text.WriteString("<|im_start|>assistant\n")
	}
	out.Text = text.String()
	return out, context.Cause(ctx)
}

// Placeholder is what Chat puts before a message's text for each of its images.
const Placeholder = " <image>"

// content is a message's text, where it is in parts, one behind the other, and the number of its images.
type content struct {
	text   string
	images int
}

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(b []byte) error {
	var parts []struct{ Type, Text string }
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, &c.text)
	}
	err := json.Unmarshal(b, &parts)
	for _, p := range parts {
		if p.Type == "image" {
			c.images++
		}
		c.text += p.Text
	}
	return err
}

// hold says what a reply to a conversation is not held to.
func (c *Chat) hold(conversation *generate.Conversation, tools []byte) ([]generate.Dropped, error) {
	c.note(0, 0, conversation.ConstraintRequest(tools))
	if conversation.Answer != nil && !c.Beside {
		return nil, generate.AnswerOrCalls(conversation.Answer.Field)
	}
	return c.Drops, c.RefuseHold
}

// parser begins a parser, nil where there is none.
func (c *Chat) parser(tools []byte) (*Parser, error) {
	switch {
	case c.RefuseParser != nil:
		return nil, c.RefuseParser
	case !c.Parse:
		return nil, nil
	}
	c.note(0, 1, tools)
	p := NewParser(tools)
	p.closed = func() { c.note(0, -1, nil) }
	return p, nil
}
