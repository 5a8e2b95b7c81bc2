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
	// Field is the one to blame; empty for messages.
	Field string
}

// ErrNoTemplate: the model has no template, and is none for conversations.
var ErrNoTemplate error = &TemplateError{Msg: "template not found"}

// Error returns Msg.
func (e *TemplateError) Error() string { return e.Msg }

// Unwrap returns ErrTemplate.
func (e *TemplateError) Unwrap() error { return ErrTemplate }

// Render returns d with the prompt that its conversation becomes in the place of the conversation, and without its
// calls of plugins. It takes no permit. A draft that is no conversation stays as it is.
func (s *Service) Render(ctx context.Context, d Draft) (Draft, error) {
	if d.Conversation == nil {
		return d, nil
	}
	code, err := s.bind(ctx, &d, time.Now())
	if err != nil {
		return Draft{}, err
	}
	code.Close()
	if _, err := s.openImages(ctx, &d); err != nil {
		return Draft{}, err
	}
	d.Conversation, d.Plugins = nil, nil
	return d, nil
}
