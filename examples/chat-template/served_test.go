package chattemplate

import (
	"net/http"
	"os"
	"path/filepath"
	"testing"

	"tgi/examples/internal/served"
)

// conversations are requests whose prompts are compared, with those of the
// model's own template where own is set.
var conversations = []struct {
	members string
	own     bool
}{
	{`"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Hi<|im_end|>\n"}]`, true},
	{`"messages":[{"role":"user","content":"Hi"}]`, false},
	{`"messages":[{"role":"system","content":"Be brief."},{"role":"user","content":"Add."},
		{"role":"assistant","content":null,"tool_calls":[{"id":"c1","type":"function","function":{"name":"add","arguments":{"a":[1,2.5],"b":"\u00e9"}}}]},
		{"role":"tool","tool_call_id":"c1","content":"3"}],
		"tools":[{"type":"function","function":{"name":"add","description":"é \"quoted\"","parameters":{"type":"object","properties":{"a":{"type":"array"}}}}}]`, true},
}

// TestServed: in both languages the template takes the place of the model's
// own, and writes the same prompts, which are the model's where no message is
// added.
func TestServed(t *testing.T) {
	var own, first []string
	plain := builtin(t)
	for _, c := range conversations {
		own = append(own, plain.Prompt(t, c.members))
	}
	for _, language := range []string{"rust", "go"} {
		t.Run(language, func(t *testing.T) {
			s := start(t, language)
			for i, c := range conversations {
				got := s.Prompt(t, c.members)
				if c.own != (got == own[i]) {
					t.Errorf("prompt %q, the model's own %q", got, own[i])
				}
				if len(first) <= i {
					first = append(first, got)
				} else if got != first[i] {
					t.Errorf("prompt %q, and in Rust %q", got, first[i])
				}
			}
			if r := s.Chat(t,
				`"messages":[{"role":"user","content":[{"type":"text","text":"Who are "},{"type":"text","text":"you?"}]}]`); r.Text() != "I am Bob. How can I help you?" {
				t.Errorf("%+v", r)
			}
			r := s.Chat(t,
				`"messages":[{"role":"user","content":"Hi"}],"plugins":[{"name":"house-chat","params":{"system":"You are Ann."}}]`)
			if r.Status != http.StatusUnprocessableEntity {
				t.Errorf("a request changes the operator's message: %+v", r)
			}
			s.Documented(t, "README.md")
		})
	}
}

// builtin serves with the model's own template.
func builtin(t *testing.T) *served.Server {
	folder := t.TempDir()
	if err := os.WriteFile(filepath.Join(folder, "tgi.toml"), nil, 0o600); err != nil {
		t.Fatal(err)
	}
	return served.Start(t, folder)
}

// start serves with the plugin of one language in the place of the one in Rust.
func start(t *testing.T, language string) *served.Server {
	const place = "rust/house-chat.wasm"
	files := map[string]string{"tgi.toml": "tgi.toml"}
	if language == "rust" {
		files[place] = place
	}
	folder := served.Folder(t, files)
	if language == "go" {
		served.GoPlugin(t, filepath.Join(folder, filepath.FromSlash(place)), "go")
	}
	return served.Start(t, folder)
}
