package bridge

import (
	"errors"
	"fmt"
	"testing"

	"tgi/plugins"
	"tgi/server/generate"
)

// TestConversationErrors checks that the error for a too expensive conversation names the largest field and the setting
// that allows more.
func TestConversationErrors(t *testing.T) {
	costly := &plugins.TooCostly{Plugin: "chat-template", Setting: "fuel_per_request", Bound: "50", Work: "render"}
	err := &plugins.BindError{Plugin: "chat-template", Text: costly.Error(), Err: costly}
	messages := []generate.Message{{JSON: []byte(`{"a":1}`)}, {JSON: []byte(`{"b":2}`)}}
	for want, c := range map[string]*generate.Conversation{
		"messages":             {Messages: messages, Tools: []byte(`[{}]`), ToolNames: []string{"f"}},
		"tools":                {Messages: messages, Tools: []byte(`[{"name":"get_time"}]`), ToolNames: []string{"f"}},
		"documents":            {Messages: messages, Documents: []byte(`[{"text":"of much"}]`)},
		"chat_template_kwargs": {Messages: messages, Kwargs: []byte(`{"enable_thinking":true}`)},
	} {
		got := conversationError(err, c)
		var invalid *generate.Invalid
		text := fmt.Sprintf("`%s` take more than fuel_per_request = 50 of plugin chat-template allows to render. "+
			"Given: `messages` 2 (14 bytes), `tools` %d (%d bytes), `documents` and `chat_template_kwargs` %d bytes",
			want,
			len(c.ToolNames), len(c.Tools), len(c.Documents)+len(c.Kwargs))
		if !errors.As(got, &invalid) || invalid.Field != want || invalid.Msg != text {
			t.Errorf("%s: %v", want, got)
		}
	}
}

// TestTemplateErrors checks that an error which quotes the name of the request's template is about that name, and
// others are about the messages.
func TestTemplateErrors(t *testing.T) {
	for _, c := range []struct{ template, text, field string }{
		{"nope", `template input: template "nope" is none of this model's: default`, "chat_template"},
		{"", `template input: template "nope" is none of this model's: default`, ""},
		{"nope", "roles must alternate", ""},
	} {
		err := renderError(&plugins.RenderRefusal{Plugin: "chat-template", Text: c.text},
			&generate.Conversation{Template: c.template})
		var got *generate.TemplateError
		if !errors.As(err, &got) || got.Field != c.field || got.Msg != c.text {
			t.Errorf("%+v: got %+v", c, err)
		}
	}
}
