package jinja

import (
	"fmt"
	"strings"
	"time"
)

// ChatOptions is what transformers does around a template.
type ChatOptions struct {
	// ContinueFinal ends the text where the content of the last message ends,
	// so that the model goes on with it: continue_final_message.
	ContinueFinal bool
	// PlainReasoning leaves the names of a message's reasoning as they are.
	// Without it reasoning_content, thinking and reasoning stand in for one
	// another, as transformers does since version 5.
	PlainReasoning bool
}

// continueTag marks the end of the message that is continued. It is the text
// that transformers uses: templates that strip white space leave the tag.
const continueTag = "CONTINUE_FINAL_MESSAGE_TAG "

// RenderChat renders a conversation, the variable messages of the input, as
// transformers' apply_chat_template does. Errors are those of Render.
func (t *Template) RenderChat(in Input, o ChatOptions, l Limits) ([]Segment, error) {
	vars, err := decodeObject(in.JSON, in.origin)
	if err != nil {
		return nil, err
	}
	return t.renderChat(vars, in.Now, o, l)
}

func (t *Template) renderChat(vars *Dict, now time.Time, o ChatOptions, l Limits) ([]Segment, error) {
	messages, _ := vars.getStr("messages")
	list, ok := messages.(*List)
	if !ok {
		return nil, fmt.Errorf("%w: messages is not a list", ErrInput)
	}
	for i, m := range list.items {
		d, ok := m.(*Dict)
		if !ok {
			return nil, fmt.Errorf("%w: message %d is not an object", ErrInput, i)
		}
		if !o.PlainReasoning {
			list.items[i] = aliasReasoning(d)
		}
	}
	if !o.ContinueFinal {
		out, err := t.render(vars, now, l)
		if err != nil {
			return nil, err
		}
		return out.segments(), nil
	}
	final, err := tagFinal(list)
	if err != nil {
		return nil, err
	}
	out, err := t.render(vars, now, l)
	if err != nil {
		return nil, err
	}
	if out, err = cutFinal(out, final); err != nil {
		return nil, err
	}
	return out.segments(), nil
}

var reasoningFields = []string{"reasoning_content", "thinking", "reasoning"}

// aliasReasoning gives a message its reasoning under the names that templates read.
func aliasReasoning(m *Dict) *Dict {
	for _, f := range reasoningFields {
		v, ok := m.getStr(f)
		if !ok || v == none {
			continue
		}
		out := &Dict{}
		// string keys hash, so set cannot fail
		_ = out.set(text("thinking"), v)
		for _, e := range m.entries {
			_ = out.set(e.key, e.val)
		}
		_ = out.set(text("reasoning_content"), v)
		return out
	}
	return m
}

// tagFinal puts the tag behind the last message's text and returns that text.
func tagFinal(messages *List) (*Str, error) {
	if len(messages.items) == 0 {
		return nil, fmt.Errorf("%w: there is no message to continue", ErrInput)
	}
	last := messages.items[len(messages.items)-1].(*Dict)
	content, _ := last.getStr("content")
	tagged := func(d *Dict, name string, s *Str) (*Str, error) {
		return s, d.set(text(name), join2(s, text(continueTag)))
	}
	switch c := content.(type) {
	case *Str:
		return tagged(last, "content", c)
	case *List:
		for i := len(c.items) - 1; i >= 0; i-- {
			part, _ := c.items[i].(*Dict)
			if part == nil {
				continue
			}
			if v, ok := part.getStr("text"); ok {
				if s, ok := v.(*Str); ok {
					return tagged(part, "text", s)
				}
			}
		}
	}
	return nil, fmt.Errorf("%w: the last message has no text to continue", ErrInput)
}

// cutFinal ends the rendered text at the tag.
func cutFinal(out, final *Str) (*Str, error) {
	strip := func(s string) string { return strings.TrimFunc(s, isSpace) }
	i := strings.LastIndex(out.s, strip(continueTag))
	if i < 0 || !strings.Contains(out.s, strip(final.s)) {
		return nil, fmt.Errorf("%w: the template does not show the last message, so it cannot be continued", ErrInput)
	}
	cut := out.sub(0, i)
	if !strings.HasPrefix(out.s[i:], continueTag) {
		cut = cut.trimmed(nil, false, true)
	}
	return cut, nil
}
