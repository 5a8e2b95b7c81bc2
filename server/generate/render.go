package generate

import (
	"context"
	"errors"
	"strings"
	"unicode"
)

// ErrTemplate: a conversation could not be turned into a prompt.
var ErrTemplate = errors.New("template error")

// TemplateError says why a conversation has no prompt. It wraps ErrTemplate.
type TemplateError struct {
	// Msg is for the client.
	Msg string
}

// Error returns Msg.
func (e *TemplateError) Error() string { return e.Msg }

// Unwrap returns ErrTemplate.
func (e *TemplateError) Unwrap() error { return ErrTemplate }

// Message is one turn of a conversation.
type Message struct {
	// Role is who speaks: system, developer, user, assistant or tool.
	Role string
	// Content is what is said; nil where the client sent none (a null). A string
	// is one part.
	Content []Part
	// Name tells speakers of one role apart; empty for none.
	Name string
	// ToolCalls are what an assistant's turn calls.
	ToolCalls []ToolCall
	// ToolCallID is the call that a tool's turn answers; empty for none.
	ToolCallID string
}

// Part is one piece of a message's content.
type Part struct {
	// Text of the piece.
	Text string
}

// ToolCall is one call of a function.
type ToolCall struct {
	// ID is what the answer refers to.
	ID string
	// Name is the function's.
	Name string
	// Arguments are a JSON object.
	Arguments string
}

// Text returns the parts of the content, one behind the other.
func (m *Message) Text() string {
	if len(m.Content) == 1 {
		return m.Content[0].Text
	}
	var b strings.Builder
	for _, p := range m.Content {
		b.WriteString(p.Text)
	}
	return b.String()
}

// Conversation is what a template turns into a prompt.
type Conversation struct {
	// Messages in their order, at least one.
	Messages []Message
	// Tools is a JSON array of those offered, as the client wrote it; nil for none.
	Tools []byte
	// Kwargs is a JSON object of variables for the template, as the client wrote
	// it; nil for none.
	Kwargs []byte
}

// Renderer turns conversations into prompts. It is safe for concurrent use.
type Renderer interface {
	// Render returns the text of c, ready for the assistant's next turn. It
	// holds the special tokens that the model expects, so the tokenizer adds
	// none. What c may not hold fails with an error that wraps ErrTemplate, best
	// a *TemplateError; when ctx ends, so does Render, with its cause. The
	// slices of c are the caller's.
	Render(ctx context.Context, c Conversation) (text string, err error)
}

// Prompt renders c with r, which may be nil: a model without a template fails
// with a *TemplateError. A conversation whose last turn is the assistant's is
// not answered but continued: the prompt ends with what that turn says, the
// white space at its end removed.
func Prompt(ctx context.Context, r Renderer, c Conversation) (string, error) {
	if r == nil {
		return "", &TemplateError{Msg: "template not found"}
	}
	if len(c.Messages) == 0 {
		return "", &TemplateError{Msg: "`messages` must hold at least one message"}
	}
	text, err := r.Render(ctx, c)
	if err != nil {
		return "", err
	}
	last := &c.Messages[len(c.Messages)-1]
	if last.Role != "assistant" || len(last.ToolCalls) > 0 {
		return text, nil
	}
	said := strings.TrimRightFunc(last.Text(), unicode.IsSpace)
	if said == "" {
		return text, nil
	}
	// A template may trim what it renders, never more than the space around it.
	at := strings.LastIndex(text, said)
	if at < 0 {
		said = strings.TrimSpace(said)
		at = strings.LastIndex(text, said)
	}
	if at < 0 {
		return "", &TemplateError{Msg: "the template does not show the last message, so it cannot be continued"}
	}
	return text[:at+len(said)], nil
}
