package server_test

import (
	"bytes"
	"encoding/hex"
	"io"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"time"

	collect "go.opentelemetry.io/proto/otlp/trace/v1"
	"google.golang.org/protobuf/proto"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// collector is an OTLP receiver: it keeps the spans that it is sent.
type collector struct {
	*httptest.Server
	status int
	spans  []*collect.Span
	names  map[string]string // of the resource
}

func newCollector(t *testing.T) *collector {
	c := &collector{status: 200, names: map[string]string{}}
	c.Server = httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		body, _ := io.ReadAll(r.Body)
		var data collect.TracesData
		if err := proto.Unmarshal(body, &data); err != nil || r.URL.Path != "/v1/traces" ||
			r.Header.Get("Content-Type") != "application/x-protobuf" {
			t.Errorf("sent %s %v: %v", r.URL, r.Header, err)
		}
		for _, one := range data.ResourceSpans {
			for _, a := range one.Resource.Attributes {
				c.names[a.Key] = a.Value.GetStringValue()
			}
			for _, scope := range one.ScopeSpans {
				c.spans = append(c.spans, scope.Spans...)
			}
		}
		w.WriteHeader(c.status)
	}))
	t.Cleanup(c.Close)
	return c
}

// traced returns a server with a route that generates and one that fails, and
// what sends the rest of its traces.
func traced(t *testing.T, c config.Trace, log *slog.Logger) (s *server.Server, flush func()) {
	t.Helper()
	tracer, err := server.NewTracer(c, "1.2", log)
	if err != nil {
		t.Fatal(err)
	}
	svc := generate.New(server.Engine("small", &generatetest.Engine{Script: generatetest.Echo}), generatetest.Words{},
		generatetest.Limits(), nil)
	s = newServer(routes{
		"/go": func(w http.ResponseWriter, r *http.Request) error {
			five, seed := uint32(5), uint64(7)
			run, err := svc.Start(r.Context(), generate.Draft{Inputs: "a b", MaxNewTokens: &five, Seed: &seed,
				Stop: []string{"private"}})
			if err != nil {
				return err
			}
			defer run.Close()
			if _, err := run.Collect(r.Context()); err != nil {
				return err
			}
			server.WriteJSON(w, []byte("1"))
			return nil
		},
		"/bad": func(http.ResponseWriter, *http.Request) error { return llm.ErrBackend },
	}, func(o *server.Options) { o.Tracer, o.Log, o.Metrics = tracer, log, server.NewMetrics() })
	return s, func() {
		if err := tracer.Close(t.Context()); err != nil {
			t.Error(err)
		}
	}
}

// TestTraceOfBeams: a search that ends with more sequences than it begins with is traced, and its request ends.
func TestTraceOfBeams(t *testing.T) {
	c := newCollector(t)
	tracer, err := server.NewTracer(config.Trace{OTLPEndpoint: c.URL, SampleRatio: 1}, "1.2", quiet)
	if err != nil {
		t.Fatal(err)
	}
	e := server.Engine("small", &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		var events []engine.Event
		for i := range 2 {
			events = append(events, generatetest.Sequence(r, i, llm.FinishLength, generate.Token{Text: " x"})...)
		}
		return events
	}})
	s := newServer(routes{"/go": func(w http.ResponseWriter, r *http.Request) error {
		stream, err := e.Submit(r.Context(), engine.Request{Prompt: []llm.Token{1}, N: 1})
		if err != nil {
			return err
		}
		for range 2 {
			if _, err := stream.Next(r.Context()); err != nil {
				return err
			}
		}
		server.WriteJSON(w, []byte("1"))
		return nil
	}}, func(o *server.Options) { o.Tracer = tracer })
	ended := make(chan int, 1)
	go func() { ended <- ask(s, "POST", "/go", "{}").Code }()
	select {
	case status := <-ended:
		if status != http.StatusOK {
			t.Errorf("status %d", status)
		}
	case <-time.After(20 * time.Second):
		t.Fatal("the request does not end")
	}
	if err := tracer.Close(t.Context()); err != nil {
		t.Error(err)
	}
	if len(c.spans) == 0 {
		t.Error("nothing was traced")
	}
}

func attributes(s *collect.Span) map[string]string {
	all := map[string]string{}
	for _, a := range s.Attributes {
		all[a.Key] = a.Value.GetStringValue()
		if all[a.Key] == "" {
			all[a.Key] = a.Value.String()
		}
	}
	return all
}

func TestTraces(t *testing.T) {
	c := newCollector(t)
	var logged bytes.Buffer
	s, flush := traced(t, config.Trace{OTLPEndpoint: c.URL, OTLPServiceName: "me", SampleRatio: 1},
		slog.New(slog.NewJSONHandler(&logged, nil)))
	const caller, parent = "0af7651916cd43dd8448eb211c80319c", "b7ad6b7169203331"
	if rec := ask(s, "POST", "/go", "{}", "traceparent", "00-"+caller+"-"+parent+"-01", "X-Request-Id",
		"id7"); rec.Code != 200 {
		t.Fatal(rec.Code, rec.Body)
	}
	ask(s, "POST", "/bad", "{}", "traceparent", "00-"+caller+"-"+parent+"-01")
	ask(s, "POST", "/go", "{}", "traceparent", "00-"+caller+"-"+parent+"-00") // the caller wants none
	ask(s, "GET", "/readyz", "")
	ask(s, "GET", "/metrics", "")
	flush()
	if c.names["service.name"] != "me" || c.names["service.version"] != "1.2" {
		t.Errorf("the service is called %v", c.names)
	}
	byName := map[string]*collect.Span{}
	for _, one := range c.spans {
		if hex.EncodeToString(one.TraceId) != caller {
			t.Errorf("%s is of another trace", one.Name)
		}
		byName[one.Name] = one
	}
	if len(c.spans) != 6 || len(byName) != 6 {
		t.Fatalf("got %d spans: %v", len(c.spans), byName)
	}
	request := byName["POST /go"]
	if hex.EncodeToString(request.ParentSpanId) != parent || request.Kind != collect.Span_SPAN_KIND_SERVER {
		t.Errorf("the request's span: %v", request)
	}
	got := attributes(request)
	for key, want := range map[string]string{"request_id": "id7", "http.route": "/go", "seed": "7",
		"http.response.status_code": "int_value:200"} {
		if strings.ReplaceAll(got[key], " ", "") != want {
			t.Errorf("%s is %q, want %q", key, got[key], want)
		}
	}
	for _, key := range []string{"total_time", "validation_time", "queue_time", "inference_time", "time_per_token"} {
		if _, err := time.ParseDuration(got[key]); err != nil {
			t.Errorf("%s: %v", key, err)
		}
	}
	if !strings.Contains(got["parameters"], "MaxNewTokens:5") || strings.Contains(got["parameters"], "private") {
		t.Errorf("parameters: %s", got["parameters"])
	}
	end := request.StartTimeUnixNano
	for _, name := range []string{"validation", "queue", "inference"} {
		stage := byName[name]
		if stage == nil || !bytes.Equal(stage.ParentSpanId, request.SpanId) || stage.StartTimeUnixNano != end {
			t.Errorf("%s does not follow the stage before it: %v", name, stage)
			continue
		}
		end = stage.EndTimeUnixNano
	}
	if end > request.EndTimeUnixNano || end == request.StartTimeUnixNano {
		t.Errorf("the stages end at %d, the request began at %d and ended at %d", end, request.StartTimeUnixNano,
			request.EndTimeUnixNano)
	}
	if bad := byName["POST /bad"]; bad.Status.GetCode() != collect.Status_STATUS_CODE_ERROR ||
		attributes(bad)["error.type"] != "generation" {
		t.Errorf("a request that failed: %v", bad)
	}
	// Lines of the three requests name the trace, the one that is not recorded included.
	if n := strings.Count(logged.String(), `"trace_id":"`+caller+`"`); n != 3 {
		t.Errorf("%d lines name the trace, want 3:\n%s", n, &logged)
	}
}

// TestNoTraces: nothing is sent by default, nor when the share is 0.
func TestNoTraces(t *testing.T) {
	if tracer, err := server.NewTracer(config.Default().Trace, "", quiet); tracer != nil || err != nil {
		t.Errorf("by default: %v, %v", tracer, err)
	}
	c := newCollector(t)
	s, flush := traced(t, config.Trace{OTLPEndpoint: c.URL + "/v1/traces", OTLPServiceName: "me"}, quiet)
	ask(s, "POST", "/go", "{}")
	ask(s, "POST", "/go", "{}", "traceparent", "nonsense")
	flush()
	if len(c.spans) > 0 {
		t.Errorf("got %v", c.spans)
	}
}

func TestTracesLost(t *testing.T) {
	c := newCollector(t)
	c.status = 503
	var logged bytes.Buffer
	s, flush := traced(t, config.Trace{OTLPEndpoint: c.URL, OTLPServiceName: "me", SampleRatio: 1},
		slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
	if rec := ask(s, "POST", "/go", "{}"); rec.Code != 200 {
		t.Error("the request suffered:", rec.Code)
	}
	flush()
	if !strings.Contains(logged.String(), "traces were dropped") || !strings.Contains(logged.String(), "503") {
		t.Errorf("the log says %s", &logged)
	}
}

// TestTracesLostQuietly: what the log says of a collector has neither the user nor the query of its address.
func TestTracesLostQuietly(t *testing.T) {
	refuses := newCollector(t)
	refuses.status = 503
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	for _, at := range []string{refuses.URL, gone.URL} {
		var logged bytes.Buffer
		s, flush := traced(t, config.Trace{OTLPEndpoint: strings.Replace(at, "://", "://u:PW@", 1) + "/?api_key=PW",
			OTLPServiceName: "me", SampleRatio: 1},
			slog.New(slog.NewTextHandler(&logged, &slog.HandlerOptions{Level: slog.LevelWarn})))
		ask(s, "POST", "/go", "{}")
		flush()
		if text := logged.String(); strings.Contains(text, "PW") || !strings.Contains(text, "traces were dropped") ||
			!strings.Contains(text, "/v1/traces?***") {
			t.Errorf("the log says %s", text)
		}
	}
	if _, err := server.NewTracer(config.Trace{OTLPEndpoint: "http://u:PW@ho st"}, "1", quiet); err == nil ||
		strings.Contains(err.Error(), "PW") {
		t.Error(err)
	}
}
