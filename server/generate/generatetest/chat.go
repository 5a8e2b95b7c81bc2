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
	// Refuse, when set, is what Bind returns; RefuseParser what Parser does.
	Refuse, RefuseParser error
	// Holds, when set, is what Constraint returns, or RefuseHold.
	Holds      *generate.ToolGrammar
	RefuseHold error
	// Takes are the names of plugins whose calls Bind keeps.
	Takes []string

	mu       sync.Mutex
	bound    int      // Binds that were not closed
	parsers  int      // parsers that were not closed
	requests []string // to templates and parsers
}

// Open counts what Bind and Parser returned and was not closed.
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

// Bind implements generate.Chat.
func (c *Chat) Bind(_ context.Context, calls []generate.PluginCall) (generate.BoundChat, []generate.PluginCall, error) {
	if c.Refuse != nil {
		return nil, nil, c.Refuse
	}
	c.note(1, 0, nil)
	rest := slices.DeleteFunc(slices.Clone(calls),
		func(p generate.PluginCall) bool { return slices.Contains(c.Takes, p.Name) })
	return bound{c}, rest, nil
}

type bound struct{ chat *Chat }

// Close implements generate.BoundChat.
func (b bound) Close() { b.chat.note(-1, 0, nil) }

// Render implements generate.BoundChat: "<|im_start|>", role, line break, text,
// "<|im_end|>", line break for each message, tools before them all, and the
// beginning of the assistant's turn. A message without text shows its calls. The
// role hermit is refused.
func (b bound) Render(ctx context.Context, c *generate.Conversation, now time.Time) (generate.Rendered, error) {
	request := c.TemplateRequest(now)
	b.chat.note(0, 0, request)
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
		said := string(m.Content)
		if said == "" {
			said = string(m.Calls)
		}
		text.WriteString("<|im_start|>" + m.Role + "\n")
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

// content is a message's text: where it is in parts, one behind the other.
type content string

// UnmarshalJSON implements json.Unmarshaler.
func (c *content) UnmarshalJSON(b []byte) error {
	var parts []struct{ Text string }
	if len(b) == 0 || b[0] != '[' {
		return json.Unmarshal(b, (*string)(c))
	}
	err := json.Unmarshal(b, &parts)
	for _, p := range parts {
		*c += content(p.Text)
	}
	return err
}

// Constraint implements generate.BoundChat.
func (b bound) Constraint(_ context.Context, c *generate.Conversation, tools []byte) (*generate.ToolGrammar, error) {
	if b.chat.Holds != nil || b.chat.RefuseHold != nil {
		b.chat.note(0, 0, c.ConstraintRequest(tools))
	}
	return b.chat.Holds, b.chat.RefuseHold
}

// Parser implements generate.BoundChat.
func (b bound) Parser(_ context.Context, tools []byte, _ uint64) (generate.Parser, error) {
	switch {
	case b.chat.RefuseParser != nil:
		return nil, b.chat.RefuseParser
	case !b.chat.Parse:
		return nil, nil
	}
	b.chat.note(0, 1, tools)
	p := NewParser(tools)
	p.closed = func() { b.chat.note(0, -1, nil) }
	return p, nil
}
