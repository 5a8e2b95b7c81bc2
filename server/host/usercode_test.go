package host

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/host/bridge"
)

// logBuffer is a log in memory that several goroutines write.
type logBuffer struct {
	mu sync.Mutex
	b  bytes.Buffer
}

// Write implements io.Writer.
func (l *logBuffer) Write(b []byte) (int, error) {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.Write(b)
}

// String gives all that was written.
func (l *logBuffer) String() string {
	l.mu.Lock()
	defer l.mu.Unlock()
	return l.b.String()
}

// Get is List for one of them.
func (c *pluginController) Get(name string) (server.Plugin, bool) {
	s, ok := c.set.Get(name)
	return shownPlugin(s), ok
}

var languages = []string{"go", "rust", "c", "assemblyscript"}

// sdkGuest returns the example guest that does what its parameters say.
func sdkGuest(t testing.TB, language, name string) []byte {
	t.Helper()
	wasm, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "guests", language, name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// run generates n sequences with one plugin and returns their tokens.
func (p *plugged) run(t *testing.T, params string, seed uint64, n int) [][]llm.Token {
	t.Helper()
	control := p.defaultModel().control
	bound, _, err := bridge.UserCode(control.set, control, nil, false).Bind(t.Context(),
		[]generate.PluginCall{{Name: "guest", Params: []byte(params)}}, nil, time.Now())
	if err != nil {
		t.Fatal(err)
	}
	defer bound.Close()
	prompt := p.defaultModel().tokenizer.Encode("Once upon a time", true)
	const tokens = 40
	begun, err := bound.Begin(t.Context(), &generate.Wanted{Prompt: prompt, MaxNew: tokens, Seed: seed, N: n})
	if err != nil {
		t.Fatal(err)
	}
	s, err := p.defaultModel().engine.Submit(t.Context(), engine.Request{Prompt: prompt, N: n, Plugins: begun.Sequence,
		Params: llm.Params{
			Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, Sample: true, Seed: seed, MaxNewTokens: tokens,
			IgnoreEOS: true,
		}})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	out := make([][]llm.Token, n)
	for {
		e, err := s.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return out
		}
		if err != nil {
			t.Fatal(err)
		}
		out[e.Index] = append(out[e.Index], e.Token)
	}
}

// TestSequencesOfOneRequest: the sequences of a request begin as clones of one
// instance. Each must run as it does alone with its seed, its plugin's random
// numbers and state its own.
func TestSequencesOfOneRequest(t *testing.T) {
	for _, language := range languages {
		t.Run(language, func(t *testing.T) {
			p := openPlugged(t, nil)
			p.upload(t, "guest", sdkGuest(t, language, "every-mode"))
			const params = `{"mode":"sparse","ids":[97,98,200,300,400],"bias":6,"random":true,"force_at":3,"force":[500,501]}`
			together := p.run(t, params, 42, 3)
			for i, tokens := range together {
				alone := p.run(t, params, llm.SeedFor(42, i), 1)[0]
				if !slices.Equal(tokens, alone) {
					t.Errorf("sequence %d\ntogether %v\nalone    %v", i, tokens, alone)
				}
			}
			if slices.Equal(together[0], together[1]) {
				t.Error("two sequences are the same: nothing was shown")
			}
			p.quiet(t)
		})
	}
}

// TestSkippedPluginIsTold: a plugin whose failing must not matter is left out, and the reply says so: in its details,
// in a header or, once that is sent, in the trailer, on every API. The log has each cause once, with the request and
// the step.
func TestSkippedPluginIsTold(t *testing.T) {
	var log logBuffer
	p := openPluggedLogged(t, slog.New(server.RequestLog(slog.NewJSONHandler(&log, nil))))
	if status, text := p.call(t, http.MethodPut, "/admin/plugins/frail?on_error=skip",
		sdkGuest(t, "c", "every-mode")); status != http.StatusCreated {
		t.Fatalf("%d %s", status, text)
	}
	const bare = `"max_new_tokens":12,"details":true,"ignore_eos":true`
	const failing = `"plugins":[{"name":"frail","params":{"trap_at":5}}]`
	_, without := p.call(t, http.MethodPost, "/generate", []byte(`{"inputs":"Once upon a time","parameters":{`+bare+
		`}}`))
	for _, c := range []struct{ path, body string }{
		{"/generate", `{"inputs":"Once upon a time","parameters":{` + bare + `,` + failing + `}}`},
		{"/generate_stream", `{"inputs":"Once upon a time","parameters":{` + bare + `,` + failing + `}}`},
		{"/v1/completions", `{"prompt":"Once upon a time","max_tokens":12,` + failing + `}`},
		{"/v1/completions", `{"prompt":"Once upon a time","max_tokens":12,"stream":true,` + failing + `}`},
		{"/v1/chat/completions", `{"messages":[{"role":"user","content":"Tell me a story."}],"max_tokens":12,` +
			failing + `}`},
		{"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"Tell me a story."}],"max_tokens":12,"stream":true,` + failing +
				`}`},
	} {
		res, err := http.Post(p.url+c.path, "application/json", strings.NewReader(c.body))
		if err != nil {
			t.Fatal(err)
		}
		b, err := io.ReadAll(res.Body)
		res.Body.Close()
		text := string(b)
		if err != nil || res.StatusCode != http.StatusOK ||
			!strings.Contains(text, `"plugins":[{"name":"frail","error":"`) || !strings.Contains(text, "unreachable") {
			t.Errorf("%s: %d %s %v", c.path, res.StatusCode, text, err)
		}
		if h, tr := res.Header.Get("X-Plugin-Skipped"), res.Trailer.Get("X-Plugin-Skipped"); h+tr != "frail" {
			t.Errorf("%s: header %q, trailer %q", c.path, h, tr)
		}
		if c.path == "/generate" {
			if before, _, _ := strings.Cut(text, `,"plugins"`); !strings.HasPrefix(without, before) {
				t.Errorf("the text is not that of a request without the plugin:\n%s\n%s", text, without)
			}
		}
	}
	var line struct {
		Plugin, Error, RequestID string
		Step                     int
	}
	told := slices.DeleteFunc(strings.Split(log.String(), "\n"), func(l string) bool {
		return !strings.Contains(l, "skipped")
	})
	if len(told) != 1 {
		t.Fatalf("%d lines, want one: %q", len(told), told)
	}
	if err := json.Unmarshal([]byte(strings.Replace(told[0], "request_id", "requestid", 1)), &line); err != nil {
		t.Fatal(err)
	}
	if line.Plugin != "frail" || !strings.Contains(line.Error, "unreachable") || line.Step != 5 ||
		len(line.RequestID) != 32 {
		t.Errorf("%s", told[0])
	}
}

// TestPluginEndsText: where a plugin ended the text the reply names it; the reason keeps to the words of the API.
func TestPluginEndsText(t *testing.T) {
	p := openChat(t, nil)
	p.upload(t, "brake", sdkGuest(t, "c", "every-mode"))
	const stopping = `"plugins":[{"name":"brake","params":{"stop_at":3}}]`
	for _, c := range []struct{ path, body, want string }{
		{"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"details":true,` + stopping +
			`}}`,
			`"finish_reason":"eos_token","stop_reason":"plugin:brake","generated_tokens":4`},
		{"/generate_stream", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":12,"details":true,` +
			stopping + `}}`,
			`"finish_reason":"eos_token","stop_reason":"plugin:brake","generated_tokens":4`},
		{"/v1/completions", `{"prompt":"Once upon a time","max_tokens":12,` + stopping + `}`,
			`"finish_reason":"stop","stop_reason":"plugin:brake"`},
		{"/v1/completions", `{"prompt":"Once upon a time","max_tokens":12,"stream":true,` + stopping + `}`,
			`"finish_reason":"stop","stop_reason":"plugin:brake"`},
		{"/v1/chat/completions",
			`{"messages":[{"role":"user","content":"Tell me a story."}],"max_tokens":12,"stream":true,` + stopping +
				`}`,
			`"finish_reason":"stop","stop_reason":"plugin:brake"`},
	} {
		if status, text := p.call(t, http.MethodPost, c.path, []byte(c.body)); status != http.StatusOK ||
			strings.Count(text, c.want) != 1 {
			t.Errorf("%s: %d %s, want %s", c.path, status, text, c.want)
		}
		if _, text := p.call(t, http.MethodPost, c.path, []byte(strings.Replace(c.body, `"stop_at":3`, `"stop_at":300`,
			1))); strings.Contains(text, "stop_reason") {
			t.Errorf("%s: a text that no plugin ended has a stop_reason: %s", c.path, text)
		}
	}
}

// TestBreakerOverHTTP: a plugin that keeps failing for one client is switched off
// for it alone, and /info says so.
func TestBreakerOverHTTP(t *testing.T) {
	p := openPlugged(t, func(c *config.Config) { c.Plugins.BreakerFaults = 3 })
	p.upload(t, "frail", offences()["trap"].m.wasm())
	for i := range 3 {
		if status, text := p.generate(t, 5, "frail", `{"harm":1}`); status != http.StatusFailedDependency ||
			!strings.Contains(text, "unreachable") {
			t.Fatalf("fault %d: %d %s", i, status, text)
		}
	}
	p.quiet(t)
	status, text := p.generate(t, 5, "frail", `{}`)
	if status != http.StatusFailedDependency || !strings.Contains(text, `"error_type":"plugin"`) ||
		!strings.Contains(text, "off") {
		t.Errorf("%d %s", status, text)
	}
	if _, shown := p.call(t, http.MethodGet, "/admin/plugins/frail", nil); !strings.Contains(shown,
		`"state":"ready"`) || !strings.Contains(shown, "switched off for 1 of its clients") {
		t.Errorf("the plugin is shown as %s", shown)
	}
}

// TestRefusalsBeforeTheQueue: what a plugin or the set refuses is told as a bad
// request, and nothing runs.
func TestRefusalsBeforeTheQueue(t *testing.T) {
	p := openPlugged(t, nil)
	p.upload(t, "guest", sdkGuest(t, "c", "banned-and-boost"))
	for params, says := range map[string]string{
		`{"name":"guest","params":{"x":1}}`:        `plugin guest: unknown parameter \"x\": the plugin has ban, boost, only`,
		`{"name":"guest","params":{"only":[]}}`:    "plugin guest: ",
		`{"name":"guest","params":{"bann":[1]}}`:   `plugin guest: unknown parameter \"bann\": the plugin has ban, boost, only; did you mean ban?`,
		`{"name":"ghost"}`:                         "plugin ghost: there is no plugin of this name; did you mean guest?",
		`{"name":"guest"},{"name":"guest"}`:        "guest",
		`{"name":"guest","params":{"ban":[9999]}}`: "plugin guest: ",
	} {
		body := fmt.Sprintf(`{"inputs":"a","parameters":{"max_new_tokens":4,"plugins":[%s]}}`, params)
		status, text := p.call(t, http.MethodPost, "/generate", []byte(body))
		if status != http.StatusUnprocessableEntity || !strings.Contains(text, `"error_type":"validation"`) ||
			!strings.Contains(text, says) {
			t.Errorf("%s: %d %s", params, status, text)
		}
	}
	if st := p.defaultModel().engine.Stats(); st.Steps != 0 {
		t.Errorf("%d steps were computed", st.Steps)
	}
	if status, text := p.call(t, http.MethodDelete, "/admin/plugins/gest", nil); status != http.StatusNotFound ||
		!strings.Contains(text, `{"error":"no such plugin: \"gest\"; did you mean guest?"`) {
		t.Errorf("%d %s", status, text)
	}
	if status, text := p.call(t, http.MethodPut, "/admin/plugins/text", []byte("none")); status !=
		http.StatusUnprocessableEntity || !strings.HasPrefix(text, `{"error":"refused: text: `) {
		t.Errorf("%d %s", status, text)
	}
}
