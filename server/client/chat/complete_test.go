package chat

import (
	"encoding/json"
	"errors"
	"io"
	"os"
	"slices"
	"testing"
)

// TestComplete: commands, the names of settings and files; messages are not completed.
func TestComplete(t *testing.T) {
	t.Chdir(t.TempDir())
	for _, name := range []string{"talk.json", "tools.json", ".hidden"} {
		if err := os.WriteFile(name, nil, 0o600); err != nil {
			t.Fatal(err)
		}
	}
	if err := os.MkdirAll("talks/old", 0o755); err != nil {
		t.Fatal(err)
	}
	s := newSession(Options{Members: Members{Names: []string{"messages", "seed", "stop", "temperature"}}})
	for text, want := range map[string][]string{
		"":               nil,
		"Hello":          nil,
		"/s":             {"/system", "/set", "/save", "/save!"},
		"/set ":          {"seed=", "stop=", "temperature="},
		"/set  te":       {"temperature="},
		"/set stop x":    nil,
		"/load tal":      {"talk.json", "talks/"},
		"/save! talks/":  {"talks/old/"},
		"/load .":        {".hidden"},
		"/tools o":       {"off"},
		"/tools ":        {"off", "talk.json", "talks/", "tools.json"},
		"/load nowhere/": nil,
		"/quit ":         nil,
		"/nothing x":     nil,
		"/set\nte":       nil,
	} {
		var got []string
		for _, c := range s.complete(text) {
			got = append(got, c.Text)
		}
		if !slices.Equal(got, want) {
			t.Errorf("%q: got %q, want %q", text, got, want)
		}
	}
}

// TestSetting: a value is JSON where it can be, a text where it must be, and an error where it is neither.
func TestSetting(t *testing.T) {
	m := Members{Names: []string{"seed", "stop", "stream"}, Check: func(name string, value json.RawMessage) error {
		var n int
		var text string
		if name == "seed" {
			return json.Unmarshal(value, &n)
		}
		return json.Unmarshal(value, &text)
	}}
	for _, c := range []struct{ name, text, want string }{
		{"seed", "7", "7"}, {"stop", "7", `"7"`}, {"stop", `"7"`, `"7"`}, {"stop", "a b", `"a b"`},
		{"seed", "x", ""}, {"seed", "[", ""}, {"stop", "", ""}, {"stream", "true", ""}, {"sede", "1", ""},
	} {
		got, err := m.Setting(c.name, c.text)
		if (err != nil) != (c.want == "") || c.want != "" && string(got) != c.want {
			t.Errorf("%s %s: got %s, %v, want %s", c.name, c.text, got, err, c.want)
		}
	}
	for _, form := range []string{"a b", "a=b", "a = b", "a  b"} {
		if key, value := CutSetting(form); key != "a" || value != "b" {
			t.Errorf("%q: %q, %q", form, key, value)
		}
	}
}

// scripted is an Editor that reads a script. It is asked with prompts, and shows them itself.
type scripted struct {
	t       *testing.T
	script  []string
	prompts []string
}

func (s *scripted) Read(r Request) (string, error) {
	s.prompts = append(s.prompts, r.Prompt)
	if len(s.script) == 0 {
		return "", io.EOF
	}
	text := s.script[0]
	s.script = s.script[1:]
	switch {
	case text == "^C":
		return "", ErrInterrupted
	case r.Open != nil && r.Open(text):
		s.t.Errorf("%q is not open", text)
	}
	return text, nil
}

// TestEditor: several lines of an Editor are one entry, prompts are its own, and Ctrl-C twice leaves.
func TestEditor(t *testing.T) {
	server := &fake{t: t, replies: []string{"say Hi; finish stop; done", "say Ho; finish stop; done"}}
	e := &scripted{t: t, script: []string{"one\\\ntwo", "\"\"\"/three\nfour\"\"\"", "^C", "^C", "never"}}
	notes := writer(func(p []byte) {
		if string(p) == "> " {
			t.Error("the prompt was printed beside the editor's")
		}
	})
	o := Options{Client: server.client(t), Editor: e, Out: io.Discard, Notes: notes, Errors: notes}
	if err := Talk(t.Context(), o); err != nil {
		t.Error(err)
	}
	want := []string{
		`{"messages":[{"content":"one\ntwo","role":"user"}]}`,
		`{"messages":[{"content":"one\ntwo","role":"user"},{"content":"Hi","role":"assistant"},{"content":"/three\nfour","role":"user"}]}`,
	}
	if !slices.Equal(server.sent, want) {
		t.Errorf("sent %q", server.sent)
	}
	if !slices.Equal(e.prompts, []string{"> ", "> ", "> ", "> "}) || len(e.script) != 1 {
		t.Errorf("asked with %q, left %q", e.prompts, e.script)
	}
	broken := Options{Client: server.client(t), Out: io.Discard, Notes: io.Discard, Errors: io.Discard,
		Editor: failing{}}
	if err := Talk(t.Context(), broken); !errors.Is(err, errBroken) {
		t.Errorf("got %v", err)
	}
}

var errBroken = errors.New("broken")

// failing is an Editor whose terminal is gone.
type failing struct{}

func (failing) Read(Request) (string, error) { return "", errBroken }
