package host

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
)

// TestWhatRoutersRead: a server with default settings tells its load in every form that routers and endpoint pickers
// read, and the forms agree.
func TestWhatRoutersRead(t *testing.T) {
	s := openServer(t, chatConfig())
	ask := func(method, path, body string, header ...string) *httptest.ResponseRecorder {
		r := httptest.NewRequest(method, path, strings.NewReader(body))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		w := httptest.NewRecorder()
		s.ServeHTTP(w, r)
		if w.Code != http.StatusOK {
			t.Fatalf("%s %s: %d %s", method, path, w.Code, w.Body)
		}
		return w
	}
	for path, body := range map[string]string{
		"/generate":            `{"inputs":"My name is","parameters":{"max_new_tokens":3}}`,
		"/generate_stream":     `{"inputs":"My name is","parameters":{"max_new_tokens":3}}`,
		"/v1/chat/completions": `{"messages":[{"role":"user","content":"hi"}],"max_tokens":3}`,
		"/v1/completions":      `{"model":"x","prompt":"a","max_tokens":3,"stream":true}`,
		"/v1/messages":         `{"model":"tgi-demo","messages":[{"role":"user","content":"hi"}],"max_tokens":3}`,
		"/v1/responses":        `{"model":"tgi-demo","input":"hi","max_output_tokens":16}`,
	} {
		reply := ask(http.MethodPost, path, body, "endpoint-load-metrics-format", "TEXT")
		told := reply.Header().Get("endpoint-load-metrics")
		if !strings.HasPrefix(told, "TEXT ") || !strings.Contains(told, "named_metrics.kv_cache_usage_perc=") {
			t.Errorf("%s tells the load as %q", path, told)
		}
	}
	metrics := ask(http.MethodGet, "/metrics", "").Body.String()
	for _, gauge := range []string{"vllm:num_requests_waiting ", "vllm:num_requests_running ",
		"vllm:kv_cache_usage_perc ", "vllm:cache_config_info{block_size=", "vllm:lora_requests_info{max_lora="} {
		if !strings.Contains(metrics, "\n"+gauge) {
			t.Errorf("/metrics lacks %s", gauge)
		}
	}
	var loads struct {
		Loads []struct {
			Total int `json:"max_total_num_tokens"`
			Most  int `json:"max_running_requests"`
		}
	}
	if err := json.Unmarshal(ask(http.MethodGet, "/v1/loads", "").Body.Bytes(), &loads); err != nil {
		t.Fatal(err)
	}
	m, _ := s.Default()
	if len(loads.Loads) != 1 || loads.Loads[0].Total != m.Blocks*m.BlockTokens || loads.Loads[0].Most < 1 {
		t.Errorf("/v1/loads: %+v of a cache of %d blocks of %d", loads, m.Blocks, m.BlockTokens)
	}
}
