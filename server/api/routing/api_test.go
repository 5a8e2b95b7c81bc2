package routing

import (
	"context"
	"encoding/json"
	"log/slog"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/dispatch/dispatchtest"
)

// embedding is a server whose default model generates nothing.
type embedding struct{ dispatch.Models }

func (embedding) Use(context.Context, string) (*dispatch.Model, func(), error) {
	return nil, nil, &server.WrongTask{ID: "vectors", Own: server.Embeds}
}

// serve serves models with the load of a server that has work.
func serve(models dispatch.Models, keys ...config.Key) *server.Server {
	c := config.Default()
	api := New(Options{Models: models, Version: "1.2.3", Load: func() Load {
		return Load{Running: 3, Waiting: 20, UsedTokens: 64, TotalTokens: 256, CacheHits: 0.5, MaxRunning: 4}
	}})
	return server.New(server.Options{Config: c.Server, Keys: keys, APIs: []server.API{api},
		Log: slog.New(slog.DiscardHandler)})
}

var demo = dispatchtest.One(&dispatch.Model{ID: "demo", DType: "int8", Device: "cpu", Revision: "abc",
	Architecture: "LlamaForCausalLM", Limits: config.Limits{MaxTotalTokens: 2048}})

// get returns the status and the body of a reply.
func get(s *server.Server, path, key string) (int, string) {
	r := httptest.NewRequest("GET", path, nil)
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Code, w.Body.String()
}

// member returns what is at path in a body.
func member(t *testing.T, body string, path ...any) any {
	t.Helper()
	var v any
	if err := json.Unmarshal([]byte(body), &v); err != nil {
		t.Fatalf("%s: %v", body, err)
	}
	for _, step := range path {
		switch step := step.(type) {
		case string:
			v = v.(map[string]any)[step]
		case int:
			v = v.([]any)[step]
		}
	}
	return v
}

// TestLoads: the members are those that smg 1.13 reads (its SchedulerLoadSnapshot), with its query.
func TestLoads(t *testing.T) {
	status, body := get(serve(demo), "/v1/loads?include=core,disagg,queues,memory", "")
	if status != 200 {
		t.Fatalf("%d %s", status, body)
	}
	if n := member(t, body, "dp_rank_count"); n != 1.0 {
		t.Errorf("%v ranks", n)
	}
	for name, want := range map[string]float64{"dp_rank": 0, "num_running_reqs": 3, "num_waiting_reqs": 20,
		"num_total_reqs": 23, "num_used_tokens": 64, "max_total_num_tokens": 256, "token_usage": 0.25,
		"cache_hit_rate": 0.5, "utilization": 0.75, "max_running_requests": 4} {
		if got := member(t, body, "loads", 0, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	for query, want := range map[string]string{"format=prometheus": "format must be json",
		"dp_rank=1": "dp_rank must be 0"} {
		if status, body := get(serve(demo), "/v1/loads?"+query, ""); status != 422 || !strings.Contains(body, want) {
			t.Errorf("%s: %d %s", query, status, body)
		}
	}
}

// TestInfo: both names of a route say the same, and what smg's ServerInfo and ModelInfo have is of the right type.
func TestInfo(t *testing.T) {
	s := serve(demo)
	for _, route := range []string{"server_info", "model_info"} {
		_, body := get(s, "/"+route, "")
		if _, old := get(s, "/get_"+route, ""); old != body {
			t.Errorf("/get_%s: %s, want %s", route, old, body)
		}
	}
	_, body := get(s, "/server_info", "")
	for name, want := range map[string]any{"model_path": "demo", "served_model_name": "demo", "tp_size": 1.0,
		"dp_size": 1.0, "version": "1.2.3", "is_embedding": false, "context_length": 2048.0,
		"max_total_tokens": 256.0, "max_running_requests": 4.0, "weight_version": "abc"} {
		if got := member(t, body, name); got != want {
			t.Errorf("%s is %v, want %v", name, got, want)
		}
	}
	_, body = get(s, "/model_info", "")
	if got := member(t, body, "architectures", 0); got != "LlamaForCausalLM" {
		t.Errorf("architecture %v", got)
	}
	if got := member(t, body, "is_generation"); got != true {
		t.Errorf("is_generation %v", got)
	}
	_, body = get(serve(embedding{}), "/model_info", "")
	if member(t, body, "is_generation") != false || member(t, body, "model_path") != "vectors" {
		t.Errorf("an embedder: %s", body)
	}
}

// TestKeys: without a key the version is told, and nothing else.
func TestKeys(t *testing.T) {
	s := serve(demo, config.Key{Name: "router", Key: "secret", Scopes: []string{config.ScopeModels}},
		config.Key{Name: "user", Key: "other", Scopes: []string{config.ScopeGenerate}})
	if status, body := get(s, "/version", ""); status != 200 || body != `{"version":"1.2.3"}` {
		t.Errorf("/version: %d %s", status, body)
	}
	for _, path := range []string{"/v1/loads", "/server_info", "/get_server_info", "/model_info", "/get_model_info"} {
		for key, want := range map[string]int{"": 401, "wrong": 401, "other": 403, "secret": 200} {
			if status, _ := get(s, path, key); status != want {
				t.Errorf("%s with key %q: %d, want %d", path, key, status, want)
			}
		}
	}
}
