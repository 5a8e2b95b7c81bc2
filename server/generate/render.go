package generate

import (
	"context"
	"errors"
	"time"
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

// converse renders the conversation of d into its inputs and returns the bound chat,
// which must be closed.
func (s *Service) converse(ctx context.Context, d *Draft, now time.Time) (BoundChat, error) {
	switch {
	case s.chat == nil:
		return nil, &TemplateError{Msg: "template not found"}
	case len(d.Conversation.Messages) == 0:
		return nil, &TemplateError{Msg: "`messages` must hold at least one message"}
	}
	chat, rest, err := s.chat.Bind(ctx, d.Plugins)
	if err != nil {
		return nil, err
	}
	// The plugins share the processors by client: a render in one of our workers would keep them from everybody's
	// encoding.
	r, err := chat.Render(ctx, d.Conversation, now)
	if err != nil {
		chat.Close()
		return nil, err
	}
	d.Inputs, d.Data, d.RawPrompt, d.Plugins = r.Text, r.Data, true, rest
	return chat, nil
}

// Render returns d with the prompt that its conversation becomes in the place of
// the conversation, and without the calls of plugins that made it. It takes no
// permit. A draft that is no conversation stays as it is.
func (s *Service) Render(ctx context.Context, d Draft) (Draft, error) {
	if d.Conversation == nil {
		return d, nil
	}
	chat, err := s.converse(ctx, &d, time.Now())
	if err != nil {
		return Draft{}, err
	}
	chat.Close()
	d.Conversation = nil
	return d, nil
}
