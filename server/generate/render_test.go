package generate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// turns is a template that shows each turn as "role:text;", the text with the
// space around it removed when trim is set.
type turns struct{ trim bool }

func (r turns) Render(_ context.Context, c generate.Conversation) (string, error) {
	var b strings.Builder
	for _, m := range c.Messages {
		text := m.Text
		if r.trim {
			text = strings.TrimSpace(text)
		}
		if m.Role == "hide" {
			return "assistant:", nil
		}
		b.WriteString(m.Role + ":" + text + ";")
	}
	return b.String() + "assistant:", nil
}

func message(role string, parts ...string) generate.Message {
	m := generate.Message{Role: role}
	for _, p := range parts {
		m.Content = append(m.Content, generate.Part{Text: p})
	}
	return m
}

func TestPrompt(t *testing.T) {
	called := message("assistant", "x")
	called.ToolCalls = []generate.ToolCall{{Name: "f"}}
	for _, c := range []struct {
		r        generate.Renderer
		messages []generate.Message
		want     string
	}{
		{turns{}, []generate.Message{message("user", "a", " b")}, "user:a b;assistant:"},
		{turns{}, []generate.Message{message("user", "x"), message("assistant", "I ", "say x \n")}, "user:x;assistant:I say x"},
		{turns{}, []generate.Message{message("assistant", " x")}, "assistant: x"},
		{turns{true}, []generate.Message{message("assistant", " x ")}, "assistant:x"},
		{turns{}, []generate.Message{message("assistant", " ")}, "assistant: ;assistant:"},
		{turns{}, []generate.Message{message("user", "a"), called}, "user:a;assistant:x;assistant:"},
	} {
		got, err := generate.Prompt(t.Context(), c.r, generate.Conversation{Messages: c.messages})
		if err != nil || got != c.want {
			t.Errorf("%+v: got %q, %v, want %q", c.messages, got, err, c.want)
		}
	}
	for _, c := range []struct {
		r        generate.Renderer
		messages []generate.Message
		want     string
	}{
		{nil, []generate.Message{message("user", "a")}, "template not found"},
		{turns{}, nil, "`messages` must hold at least one message"},
		{turns{}, []generate.Message{message("hide"), message("assistant", "x y")}, "the template does not show the last message, so it cannot be continued"},
	} {
		_, err := generate.Prompt(t.Context(), c.r, generate.Conversation{Messages: c.messages})
		if !errors.Is(err, generate.ErrTemplate) || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
}

// TestConversation: a request may be a conversation, which the service renders;
// its failures are told like any refusal.
func TestConversation(t *testing.T) {
	o := &log{}
	e := &generatetest.Engine{}
	s := generate.New(e, generatetest.Words{}, generatetest.Limits(), o).WithRenderer(turns{})
	d := generate.Draft{Conversation: &generate.Conversation{Messages: []generate.Message{message("user", "a b")}}}
	run, err := s.Start(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	run.Close()
	if r := run.Request; r.Inputs != "user:a b;assistant:" || len(r.Prompt) != 2 {
		t.Errorf("got %+v", r)
	}
	o.refused = nil
	d.Conversation = &generate.Conversation{}
	if _, err := s.Start(t.Context(), d); !errors.Is(err, generate.ErrTemplate) || len(o.refused) != 1 {
		t.Errorf("got %v, told %v", err, o.refused)
	}
}
