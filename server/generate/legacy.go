package generate

import (
	"context"
	"strings"
	"time"
	"unicode"
)

// Renderer turns conversations into prompts. It is safe for concurrent use.
type Renderer interface {
	// Render returns the text of c, ready for the assistant's next turn.
	Render(ctx context.Context, c Conversation) (text string, err error)
}

// WithRenderer lets requests be conversations, whose replies are text. It is
// called before the first request.
func (s *Service) WithRenderer(r Renderer) *Service { return s.WithChat(renderer{r}) }

type renderer struct{ r Renderer }

func (r renderer) Bind(_ context.Context, calls []PluginCall) (BoundChat, []PluginCall, error) {
	return r, calls, nil
}

func (r renderer) Render(ctx context.Context, c *Conversation, _ time.Time) (Rendered, error) {
	text, err := r.r.Render(ctx, *c)
	if err != nil || !c.continues() {
		return Rendered{Text: text}, err
	}
	said := strings.TrimRightFunc(c.Messages[len(c.Messages)-1].Text, unicode.IsSpace)
	at := strings.LastIndex(text, said)
	if at < 0 {
		return Rendered{}, &TemplateError{Msg: "the template does not show the last message, so it cannot be continued"}
	}
	return Rendered{Text: text[:at+len(said)]}, nil
}

func (renderer) Parser(context.Context, *Conversation, string, uint64) (Parser, error) {
	return nil, nil
}
func (renderer) Close() {}
