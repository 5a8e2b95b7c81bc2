// Package chatml renders conversations for the embedded demo model, whose
// format its chat template under models/demo describes: turns between
// <|im_start|> and <|im_end|>, with the roles system, user and assistant. It
// stands in for that template and knows no other.
package chatml

import (
	"context"
	"fmt"
	"strings"

	"tgi/server/generate"
)

// Renderer implements generate.Renderer. Its zero value is ready.
//
// Text that looks like a mark of the format is not told apart from one: a
// message can close its own turn.
type Renderer struct{}

// Render implements generate.Renderer. Roles other than system (which only
// opens a conversation, and is also called developer), user and assistant,
// tools and variables for the template are refused. An empty system message is
// left out.
func (Renderer) Render(_ context.Context, c generate.Conversation) (string, error) {
	if len(c.Tools) > 0 {
		return "", refuse("the built-in template has no tools")
	}
	if len(c.Kwargs) > 0 {
		return "", refuse("the built-in template takes no `chat_template_kwargs`")
	}
	var b strings.Builder
	for i := range c.Messages {
		m := &c.Messages[i]
		role, text := m.Role, m.Text
		switch role {
		case "user":
		case "assistant":
			if m.Calls {
				return "", refuse("the built-in template has no tools: `messages[%d].tool_calls` cannot be shown", i)
			}
		case "system", "developer":
			if i > 0 {
				return "", refuse("the built-in template takes a %s message in the first place only, given `messages[%d]`", role, i)
			}
			if text == "" {
				continue
			}
			role = "system"
		default:
			return "", refuse("the built-in template knows the roles system, user and assistant, given `messages[%d].role` `%.32s`", i, role)
		}
		b.WriteString("<|im_start|>" + role + "\n" + text + "<|im_end|>\n")
	}
	b.WriteString("<|im_start|>assistant\n")
	return b.String(), nil
}

func refuse(format string, args ...any) error {
	return &generate.TemplateError{Msg: fmt.Sprintf(format, args...)}
}
