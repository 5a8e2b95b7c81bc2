package host

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server/api/admin"
	"tgi/server/config"
)

// TestLive: the live route counts what requests had computed, and only for those whose key allows it.
func TestLive(t *testing.T) {
	c := testConfig()
	c.Server.AdminKeys = []string{adminKey}
	c.Key = []config.Key{
		{Name: "user", Key: "user", Scopes: []string{config.ScopeGenerate, config.ScopeModels}},
		{Name: "other", Key: "other", Scopes: []string{config.ScopeAdmin}, Models: []string{"another"}},
	}
	ts := httptest.NewServer(openServer(t, c))
	t.Cleanup(ts.Close)
	for range 2 {
		body := `{"inputs":"` + strings.Repeat("a lighthouse ", 8) + `","parameters":{"max_new_tokens":7}}`
		if res, text := keyed(t, ts.URL, "/generate", "user", body); res.StatusCode != http.StatusOK {
			t.Fatalf("%d %s", res.StatusCode, text)
		}
	}
	res, text := keyed(t, ts.URL, "/admin/live", adminKey, "")
	var l admin.Live
	if err := json.Unmarshal([]byte(text), &l); err != nil || res.StatusCode != http.StatusOK || len(l.Models) != 1 {
		t.Fatalf("%d %v %s", res.StatusCode, err, text)
	}
	m := l.Models[0]
	if m.ID != "tgi-demo" || m.State != "running" || m.GeneratedTokens < 2 || m.GeneratedTokens > 14 || m.Steps < 2 ||
		m.StepSeconds <= 0 || m.Running != 0 || m.Waiting != 0 || m.Device != "cpu" || m.DType == "" {
		t.Errorf("%+v", m)
	}
	if m.PromptTokens < 2*17 || m.PrefillTokens+m.CachedTokens != m.PromptTokens || m.CachedTokens < 16 {
		t.Errorf("two equal prompts: %+v", m)
	}
	if k := m.Cache; k.Total == 0 || k.Used != 0 || k.Cached == 0 || k.BlockSize == 0 || k.Bytes == 0 {
		t.Errorf("cache: %+v", k)
	}
	if len(l.Plugins) == 0 || l.Draining || l.Requests != 0 || l.Uptime <= 0 || l.Memory.Models == 0 {
		t.Errorf("%s", text)
	}
	if res, text := keyed(t, ts.URL, "/admin/live", "user", ""); res.StatusCode != http.StatusForbidden {
		t.Errorf("a key without the scope: %d %s", res.StatusCode, text)
	}
	_, text = keyed(t, ts.URL, "/admin/live", "other", "")
	if l = (admin.Live{}); json.Unmarshal([]byte(text), &l) != nil || len(l.Models) != 0 {
		t.Errorf("a key for another model: %s", text)
	}
}
