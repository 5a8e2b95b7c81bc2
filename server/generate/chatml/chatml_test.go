package chatml

import (
	"bufio"
	"encoding/json"
	"errors"
	"os"
	"testing"

	"tgi/server/generate"
)

// TestGoldens holds the text against what jinja2 makes of the demo model's
// template; testdata/make_chatml.py wrote it.
func TestGoldens(t *testing.T) {
	f, err := os.Open("testdata/chatml.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	n := 0
	for lines := bufio.NewScanner(f); lines.Scan(); n++ {
		var want struct {
			Messages []struct{ Role, Content string }
			Text     string
		}
		if err := json.Unmarshal(lines.Bytes(), &want); err != nil {
			t.Fatal(err)
		}
		var c generate.Conversation
		for _, m := range want.Messages {
			c.Messages = append(c.Messages, say(m.Role, m.Content))
		}
		if got, err := (Renderer{}).Render(t.Context(), c); err != nil || got != want.Text {
			t.Errorf("got  %q, %v\nwant %q", got, err, want.Text)
		}
	}
	if n == 0 {
		t.Error("no goldens")
	}
}

func say(role, text string) generate.Message {
	return generate.Message{Role: role, Content: []generate.Part{{Text: text}}}
}

func TestRefusals(t *testing.T) {
	call := say("assistant", "")
	call.ToolCalls = []generate.ToolCall{{Name: "f"}}
	for want, c := range map[string]generate.Conversation{
		"the built-in template has no tools":                                                                             {Messages: []generate.Message{say("user", "a")}, Tools: []byte(`[{}]`)},
		"the built-in template takes no `chat_template_kwargs`":                                                          {Messages: []generate.Message{say("user", "a")}, Kwargs: []byte(`{}`)},
		"the built-in template has no tools: `messages[1].tool_calls` cannot be shown":                                   {Messages: []generate.Message{say("user", "a"), call}},
		"the built-in template takes a system message in the first place only, given `messages[1]`":                      {Messages: []generate.Message{say("user", "a"), say("system", "b")}},
		"the built-in template takes a developer message in the first place only, given `messages[1]`":                   {Messages: []generate.Message{say("system", "a"), say("developer", "b")}},
		"the built-in template knows the roles system, user and assistant, given `messages[0].role` `Tool`":              {Messages: []generate.Message{say("Tool", "a")}},
		"the built-in template knows the roles system, user and assistant, given `messages[0].role` `" + long[:32] + "`": {Messages: []generate.Message{say(long, "a")}},
	} {
		_, err := Renderer{}.Render(t.Context(), c)
		var e *generate.TemplateError
		if !errors.As(err, &e) || !errors.Is(err, generate.ErrTemplate) || e.Msg != want {
			t.Errorf("got  %v\nwant %s", err, want)
		}
	}
}

const long = "0123456789012345678901234567890123456789"

func TestDeveloperIsSystem(t *testing.T) {
	got, err := Renderer{}.Render(t.Context(), generate.Conversation{Messages: []generate.Message{say("developer", "a")}})
	if want := "<|im_start|>system\na<|im_end|>\n<|im_start|>assistant\n"; err != nil || got != want {
		t.Errorf("got %q, %v, want %q", got, err, want)
	}
}
