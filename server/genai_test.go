package server_test

import (
	"encoding/json"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	collect "go.opentelemetry.io/proto/otlp/trace/v1"

	"tgi/runtime/engine"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// measured returns a server with a route that chats with the model of a script, its metrics, and what sends its traces.
func measured(t *testing.T, c config.Trace, script func(engine.Request) []engine.Event) (*server.Server, func()) {
	t.Helper()
	tracer, err := server.NewTracer(c, "1.2", quiet)
	if err != nil {
		t.Fatal(err)
	}
	svc := generate.New(server.Engine("small", &generatetest.Engine{Script: script}), generatetest.Words{},
		generatetest.Limits(), nil).WithUserCode(
		generatetest.UserCode{Chat: &generatetest.Chat{}})
	chat := func(stream bool) func(w http.ResponseWriter, r *http.Request) error {
		return func(w http.ResponseWriter, r *http.Request) error {
			server.NoteModel(r.Context(), "any", "small")
			run, err := svc.Start(r.Context(), generate.Draft{Rules: generate.OpenAI, Stream: stream,
				Conversation: &generate.Conversation{Messages: []generate.Message{
					{Role: "user", JSON: []byte(`{"role":"user","content":"the secret"}`)}}}})
			if err != nil {
				return err
			}
			defer run.Close()
			if _, err := run.Collect(r.Context()); err != nil {
				return err
			}
			server.WriteJSON(w, []byte("1"))
			return nil
		}
	}
	metrics := server.NewMetrics()
	s := newServer(routes{"/chat": chat(false), "/stream": chat(true),
		"/nothing": func(w http.ResponseWriter, _ *http.Request) error {
			server.WriteJSON(w, []byte("1"))
			return nil
		}}, func(o *server.Options) { o.Tracer, o.Log, o.Metrics = tracer, slog.New(slog.DiscardHandler), metrics })
	return s, func() {
		if err := tracer.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestGenAISpans: a call of a model is a span of the conventions, which holds what was said where the settings want it.
func TestGenAISpans(t *testing.T) {
	for _, content := range []bool{false, true} {
		c := newCollector(t)
		s, flush := measured(t, config.Trace{OTLPEndpoint: c.URL, SampleRatio: 1, Content: content}, generatetest.Echo)
		if rec := ask(s, "POST", "/stream", "{}"); rec.Code != 200 {
			t.Fatal(rec.Code, rec.Body)
		}
		flush()
		var span *collect.Span
		for _, one := range c.spans {
			if one.Name == "chat any" {
				span = one
			}
		}
		if span == nil {
			t.Fatalf("no span of the call: %v", c.spans)
		}
		got := attributes(span)
		for key, want := range map[string]string{"gen_ai.operation.name": "chat", "gen_ai.provider.name": "tgi",
			"gen_ai.request.model": "any", "gen_ai.response.model": "small",
			"gen_ai.request.stream": "bool_value:true"} {
			if strings.ReplaceAll(got[key], " ", "") != want {
				t.Errorf("%s is %q, want %q", key, got[key], want)
			}
		}
		for _, key := range []string{"gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens",
			"gen_ai.response.time_to_first_chunk", "gen_ai.response.finish_reasons"} {
			if got[key] == "" {
				t.Errorf("no %s in %v", key, got)
			}
		}
		var said []struct {
			Role  string
			Parts []struct{ Type, Content string }
		}
		text := got["gen_ai.input.messages"]
		if !content {
			if strings.Contains(strings.Join(c.texts(), " "), "secret") {
				t.Error("what was said is in the traces")
			}
			continue
		}
		if err := json.Unmarshal([]byte(text), &said); err != nil || said[0].Role != "user" ||
			said[0].Parts[0].Type != "text" || said[0].Parts[0].Content != "the secret" {
			t.Errorf("what was said: %s %v", text, err)
		}
		if !strings.Contains(got["gen_ai.output.messages"], `"finish_reason":"length"`) {
			t.Errorf("what was answered: %s", got["gen_ai.output.messages"])
		}
	}
}

// texts are all attributes that are texts.
func (c *collector) texts() (all []string) {
	for _, one := range c.spans {
		for _, value := range attributes(one) {
			all = append(all, value)
		}
	}
	return all
}

// TestGenAIMetrics: calls and requests are counted under the names of the conventions; names that clients make up are
// no labels.
func TestGenAIMetrics(t *testing.T) {
	fails := false
	s, flush := measured(t, config.Trace{}, func(r engine.Request) []engine.Event {
		if fails {
			return nil
		}
		return generatetest.Echo(r)
	})
	defer flush()
	ask(s, "POST", "/chat", "{}")
	ask(s, "POST", "/nothing", "{}")
	fails = true
	if rec := ask(s, "POST", "/chat", "{}"); rec.Code == 200 {
		t.Fatal("a call without events has a result")
	}
	text := ask(s, "GET", "/metrics", "").Body.String()
	const labels = `gen_ai_operation_name="chat",gen_ai_provider_name="tgi",gen_ai_request_model="_OTHER",` +
		`gen_ai_response_model="small"`
	for _, line := range []string{
		`gen_ai_server_request_duration_seconds_count{error_type="",` + labels + `} 1`,
		`gen_ai_server_request_duration_seconds_count{error_type="incomplete_generation",` + labels + `} 1`,
		`gen_ai_server_time_to_first_token_seconds_count{` + labels + `} 1`,
		`gen_ai_server_time_per_output_token_seconds_count{` + labels + `} 1`,
		`gen_ai_client_token_usage_count{` + labels + `,gen_ai_token_type="output"} 1`,
	} {
		if !strings.Contains(text, line+"\n") {
			t.Errorf("no %s in\n%s", line, grep(text, "gen_ai"))
		}
	}
	if strings.Contains(text, `"any"`) {
		t.Error("a client's name of a model is a label")
	}
}

// grep returns the lines of text that hold part.
func grep(text, part string) string {
	var out []string
	for line := range strings.Lines(text) {
		if strings.Contains(line, part) && !strings.Contains(line, "_bucket") {
			out = append(out, line)
		}
	}
	return strings.Join(out, "")
}
