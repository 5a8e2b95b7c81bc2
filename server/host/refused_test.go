package host

import (
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"testing"

	"tgi/server/config"
)

// refusedRoutes generate texts. body has a place for settings and one for members of the request beside them; held is a
// member for a grammar. event: a stream that is refused is a 200 with the error as its event, as TGI has it.
var refusedRoutes = []struct {
	path, stream, body, temperature, held string
	event                                 bool
}{
	{"/generate", "/generate_stream", `{"inputs":"Once upon","parameters":{"max_new_tokens":20%s}%s}`,
		`,"temperature":%v`, `,"grammar":{"type":"json","value":%s}`, true},
	{"/", "/", `{"inputs":"Once upon","parameters":{"max_new_tokens":20%s}%s}`,
		`,"temperature":%v`, `,"grammar":{"type":"json","value":%s}`, true},
	{"/v1/chat/completions", "/v1/chat/completions",
		`{"messages":[{"role":"user","content":"Hi"}],"max_tokens":20%s%s}`,
		`,"temperature":%v`, `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}}`, false},
	{"/v1/completions", "/v1/completions", `{"prompt":"Once upon","max_tokens":20%s%s}`,
		`,"temperature":%v`, `,"response_format":{"type":"json_schema","json_schema":{"name":"x","schema":%s}}`, false},
	{"/v1/responses", "/v1/responses", `{"input":"Hi","max_output_tokens":20%s%s}`,
		`,"temperature":%v`, `,"text":{"format":{"type":"json_schema","name":"x","schema":%s}}`, false},
	{"/v1/messages", "/v1/messages",
		`{"model":"m","messages":[{"role":"user","content":"Hi"}],"max_tokens":20%s%s}`,
		`,"temperature":%v`, `,"output_config":{"format":{"type":"json_schema","schema":%s}}`, false},
	{"/api/chat", "/api/chat", `{"model":"m","messages":[{"role":"user","content":"Hi"}]%s%s}`,
		`,"options":{"temperature":%v}`, `,"format":%s`, false},
	{"/api/generate", "/api/generate", `{"model":"m","prompt":"Once upon"%s%s}`,
		`,"options":{"temperature":%v}`, `,"format":%s`, false},
}

// TestRefusedAlike: what is refused before the model computes anything has one status and one error, streamed and
// whole, on every route; the routes of TGI tell of it in an event of a stream.
func TestRefusedAlike(t *testing.T) {
	p := programming(t, func(c *config.Config) { c.Server.Ollama = true })
	plugin := func(name, params string) string {
		return fmt.Sprintf(`,"plugins":[{"name":%q,"params":%s}]`, name, params)
	}
	for _, r := range refusedRoutes {
		for what, more := range map[string]string{
			"two grammars": fmt.Sprintf(r.held, `{"type":"integer"}`) +
				plugin("json-repair", `{"schema":{}}`),
			"a program's grammar":   plugin("json-repair", `{"schema":{"type":"nope"}}`),
			"a grammar":             fmt.Sprintf(r.held, `{"type":"nope"}`),
			"a program's parameter": plugin("vote", `{"n":-1}`),
			"a long question":       plugin("best-of-judge", fmt.Sprintf(`{"question":%q}`, strings.Repeat("why ", 3000))),
			"a long reply":          plugin("best-of-judge", fmt.Sprintf(`{"yes":%q}`, strings.Repeat("why ", 3000))),
			"a question for many": plugin("best-of-judge", fmt.Sprintf(`{"n":32,"question":%q}`,
				strings.Repeat("why ", 500))),
			"a program that refuses": plugin("hostile", `{"do":"error"}`),
			"a program that fails":   plugin("hostile", `{"do":"trap"}`),
			"no plugin":              plugin("nobody", `{}`),
			"two programs":           `,"plugins":[{"name":"vote"},{"name":"json-repair"}]`,
			"a setting":              fmt.Sprintf(r.temperature, -1),
		} {
			body := func(stream string) []byte {
				return fmt.Appendf(nil, r.body, more, stream)
			}
			steps := p.defaultModel().engine.Stats().Steps
			status, whole := p.call(t, http.MethodPost, r.path, body(`,"stream":false`))
			streamed, events := p.call(t, http.MethodPost, r.stream, body(`,"stream":true`))
			want := status
			if r.event {
				want, events = http.StatusOK, strings.TrimPrefix(strings.TrimSpace(events), "data: ")
			}
			if a, b := errorOf(whole), errorOf(events); status < 400 || streamed != want || a != b || a == "" {
				t.Errorf("%s, %s:\n   whole %d %s\nstreamed %d %s", r.path, what, status, whole, streamed, events)
			}
			if n := p.defaultModel().engine.Stats().Steps - steps; n != 0 {
				t.Errorf("%s, %s: the model computed %d steps", r.path, what, n)
			}
		}
	}
	p.settled(t)
}

// TestJudgesQuestion: a question that has no room, or costs more than all answers may, is refused by the name of its
// parameter, with what it has and may have. One that leaves room for the beginnings of answers is asked about these,
// and where not all answers can be judged those that can compete.
func TestJudgesQuestion(t *testing.T) {
	p := programming(t, nil)
	for _, x := range []struct {
		params string
		n      int // words of the question
		status int
		want   []string
	}{
		{`"n":2`, 3000, http.StatusUnprocessableEntity,
			[]string{"`question` is too long", "tokens or more", "room for 10"}},
		{`"n":32`, 500, http.StatusUnprocessableEntity,
			[]string{"`question` takes 5", "`n` 32", "the program may have "}},
		{`"n":2`, 985, http.StatusOK, nil},
		{`"n":32`, 110, http.StatusOK, nil},
	} {
		for path, body := range map[string]string{
			"/v1/completions":      `"prompt":"Once upon a time"`,
			"/v1/chat/completions": `"messages":[{"role":"user","content":"Hi"}]`,
		} {
			status, text := p.call(t, http.MethodPost, path, fmt.Appendf(nil, `{%s,"max_tokens":40,"plugins":[{"name":`+
				`"best-of-judge","params":{%s,"question":%q}}]}`, body, x.params, strings.Repeat("word ", x.n)))
			for _, want := range x.want {
				if !strings.Contains(text, want) {
					t.Errorf("%s, %s, %d words: no %q in %s", path, x.params, x.n, want, text)
				}
			}
			if status != x.status {
				t.Errorf("%s, %s, %d words: %d %s", path, x.params, x.n, status, text)
			}
		}
	}
	p.settled(t)
}

// errorOf is a reply's error without what is each reply's own; empty if there is none.
func errorOf(text string) string {
	var v map[string]any
	if json.Unmarshal([]byte(text), &v) != nil || v["error"] == nil {
		return ""
	}
	delete(v, "request_id")
	return fmt.Sprint(v)
}

// TestProgramsRefuse: of several texts, each with a program, those that fail refuse the request, and nothing is left of
// them.
func TestProgramsRefuse(t *testing.T) {
	p := programming(t, nil)
	for _, n := range []int{1, 3} {
		body := func(stream bool) []byte {
			return fmt.Appendf(nil, `{"prompt":"Once upon","max_tokens":20,"n":%d,"stream":%v,"plugins":%s}`, n, stream,
				do("error"))
		}
		status, whole := p.call(t, http.MethodPost, "/v1/completions", body(false))
		streamed, events := p.call(t, http.MethodPost, "/v1/completions", body(true))
		if status != streamed || status < 400 || errorOf(whole) != errorOf(events) {
			t.Errorf("n %d: %d %s, streamed %d %s", n, status, whole, streamed, events)
		}
		p.settled(t)
	}
}
