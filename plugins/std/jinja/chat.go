package jinja

import (
	"fmt"
	"strings"
	"time"

	"tgi/plugins/std/jinja/chars"
	"tgi/plugins/std/jinja/value"
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
	vars, err := value.DecodeObject(in.JSON, in.origin)
	if err != nil {
		return nil, err
	}
	var spent int64
	return t.renderChat(vars, in.Now, o, l, &spent)
}

func (t *Template) renderChat(
	vars *value.Dict, now time.Time, o ChatOptions, l Limits, spent *int64,
) ([]Segment, error) {
	messages, _ := vars.GetStr("messages")
	list, ok := messages.(*value.List)
	if !ok {
		return nil, fmt.Errorf("%w: messages is not a list", ErrInput)
	}
	for i, m := range list.Items {
		d, ok := m.(*value.Dict)
		if !ok {
			return nil, fmt.Errorf("%w: message %d is not an object", ErrInput, i)
		}
		if !o.PlainReasoning {
			list.Items[i] = copyReasoning(d)
		}
	}
	if !o.ContinueFinal {
		out, err := t.render(vars, now, l, spent)
		if err != nil {
			return nil, err
		}
		return segments(out), nil
	}
	final, err := tagFinal(list)
	if err != nil {
		return nil, err
	}
	out, err := t.render(vars, now, l, spent)
	if err != nil {
		return nil, err
	}
	if out, err = cutFinal(out, final); err != nil {
		return nil, err
	}
	return segments(out), nil
}

var reasoningFields = []string{"reasoning_content", "thinking", "reasoning"}

// copyReasoning gives a message its reasoning under the names that templates read.
func copyReasoning(m *value.Dict) *value.Dict {
	for _, f := range reasoningFields {
		v, ok := m.GetStr(f)
		if !ok || v == value.None {
			continue
		}
		out := &value.Dict{}
		// string keys hash, so set cannot fail
		_ = out.Set(value.Text("thinking"), v)
		for _, e := range m.Entries() {
			_ = out.Set(e.Key, e.Value)
		}
		_ = out.Set(value.Text("reasoning_content"), v)
		return out
	}
	return m
}

// tagFinal puts the tag behind the last message's text and returns that text.
func tagFinal(messages *value.List) (*value.Str, error) {
	if len(messages.Items) == 0 {
		return nil, fmt.Errorf("%w: there is no message to continue", ErrInput)
	}
	last := messages.Items[len(messages.Items)-1].(*value.Dict)
	content, _ := last.GetStr("content")
	tagged := func(d *value.Dict, name string, s *value.Str) (*value.Str, error) {
		return s, d.Set(value.Text(name), value.Concat(s, value.Text(continueTag)))
	}
	switch c := content.(type) {
	case *value.Str:
		return tagged(last, "content", c)
	case *value.List:
		for i := len(c.Items) - 1; i >= 0; i-- {
			part, _ := c.Items[i].(*value.Dict)
			if part == nil {
				continue
			}
			if v, ok := part.GetStr("text"); ok {
				if s, ok := v.(*value.Str); ok {
					return tagged(part, "text", s)
				}
			}
		}
	}
	return nil, fmt.Errorf("%w: the last message has no text to continue", ErrInput)
}

// cutFinal ends the rendered text at the tag.
func cutFinal(out, final *value.Str) (*value.Str, error) {
	strip := func(s string) string { return strings.TrimFunc(s, chars.IsSpace) }
	i := strings.LastIndex(out.String(), strip(continueTag))
	if i < 0 || !strings.Contains(out.String(), strip(final.String())) {
		return nil, fmt.Errorf("%w: the template does not show the last message, so it cannot be continued", ErrInput)
	}
	cut := out.Sub(0, i)
	if !strings.HasPrefix(out.String()[i:], continueTag) {
		cut = cut.Trim(nil, false, true)
	}
	return cut, nil
}
