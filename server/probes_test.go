package server_test

import (
	"errors"
	"net/http"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/server"
	"tgi/server/config"
)

func TestHealth(t *testing.T) {
	var sick error
	s := newServer(nil, func(o *server.Options) { o.Healthy = func() error { return sick } })
	for _, path := range server.Probes() {
		if rec := ask(s, "GET", path, ""); rec.Code != 200 || rec.Body.Len() > 0 {
			t.Errorf("%s: %d %q", path, rec.Code, rec.Body)
		}
		if rec := ask(s, "HEAD", path, ""); rec.Code != 200 {
			t.Errorf("HEAD %s: %d", path, rec.Code)
		}
	}
	sick = errors.New("stuck")
	for _, path := range server.Probes() {
		rec := ask(s, "GET", path, "")
		if path == "/startupz" {
			if rec.Code != 200 {
				t.Errorf("%s of a server that has started: %d", path, rec.Code)
			}
		} else if rec.Code != 503 || rec.Body.String() != `{"error":"unhealthy","error_type":"healthcheck"}` {
			t.Errorf("sick, %s: %d %q", path, rec.Code, rec.Body)
		}
	}
}

// TestLoading: an address that answers before there is a model.
func TestLoading(t *testing.T) {
	const loading = `{"error":"Model is loading","error_type":"loading"}`
	m := server.NewMetrics()
	c := config.Default().Server
	c.APIKeys = []string{"k"}
	s := server.New(server.Options{Config: c, Metrics: m, Log: quiet})
	for _, one := range []struct {
		method, path string
		status       int
	}{
		{"GET", "/livez", 200}, {"GET", "/metrics", 200}, {"GET", "/readyz", 503}, {"GET", "/startupz", 503},
		{"GET", "/health", 503}, {"GET", "/ping", 503},
		{"GET", "/", 503}, {"POST", "/", 503}, {"POST", "/echo", 503}, {"GET", "/nowhere", 503},
	} {
		rec := ask(s, one.method, one.path, "")
		if rec.Code != one.status || one.status == 503 && (rec.Body.String() != loading ||
			rec.Header().Get("Retry-After") != "5") {
			t.Errorf("%s %s while loading: %d %s %v", one.method, one.path, rec.Code, rec.Body, rec.Header())
		}
	}
	limits, err := config.Default().Limits.Size(1000, 4000)
	if err != nil {
		t.Fatal(err)
	}
	m.Watch(limits, func() engine.Stats { return engine.Stats{} })
	s.Open([]server.API{routes{"/echo": echo}}, func() error { return nil })
	for _, path := range server.Probes() {
		if rec := ask(s, "GET", path, ""); rec.Code != 200 {
			t.Errorf("%s after loading: %d", path, rec.Code)
		}
	}
	if rec := ask(s, "POST", "/echo", "1", "Authorization", "Bearer k"); rec.Code != 200 {
		t.Errorf("a route after loading: %d", rec.Code)
	}
	if rec := ask(s, "GET", "/nowhere", ""); rec.Code != 404 {
		t.Errorf("a path that is not there after loading: %d", rec.Code)
	}
}

func TestProtectedMetrics(t *testing.T) {
	s := newServer(nil, func(o *server.Options) {
		o.Metrics, o.Config.ProtectMetrics = server.NewMetrics(), true
		o.Config.AdminKeys = []string{"a"}
		o.Keys = []config.Key{{Name: "scraper", Key: "m", Scopes: []string{config.ScopeModels}}}
	})
	for token, want := range map[string]int{"": 401, "x": 401, "m": 200, "a": 200} {
		if rec := ask(s, "GET", "/metrics", "", "Authorization", "Bearer "+token); rec.Code != want {
			t.Errorf("with %q: got %d, want %d", token, rec.Code, want)
		}
	}
	for _, path := range server.Probes() {
		if rec := ask(s, "GET", path, ""); rec.Code != http.StatusOK {
			t.Errorf("%s wants a key: %d", path, rec.Code)
		}
	}
}

// TestPluginWorkIsForOperators: where there are keys, a client who may generate does not see how much plugins had to
// do with texts.
func TestPluginWorkIsForOperators(t *testing.T) {
	open := func(keys ...config.Key) *server.Server {
		m := server.NewMetrics()
		m.WatchPlugins(func() []server.Plugin {
			return []server.Plugin{{Name: "g", Guard: &server.Guard{Held: 7}}}
		})
		return newServer(nil, func(o *server.Options) {
			o.Metrics, o.Keys, o.Config.APIKeys = m, keys, nil
			if len(keys) > 1 {
				o.Config.APIKeys = []string{"api"}
			}
		})
	}
	keyed := open(config.Key{Name: "client", Key: "c", Scopes: []string{config.ScopeGenerate}},
		config.Key{Name: "scraper", Key: "m", Scopes: []string{config.ScopeModels}},
		config.Key{Name: "admin", Key: "a", Scopes: []string{config.ScopeAdmin}})
	for _, c := range []struct {
		s     *server.Server
		token string
		want  bool
	}{
		{open(), "", true},
		{open(config.Key{Name: "admin", Key: "a", Scopes: []string{config.ScopeAdmin}}), "", true},
		{keyed, "", false}, {keyed, "x", false}, {keyed, "c", false}, {keyed, "api", false}, {keyed, "m", true},
		{keyed, "a", true},
	} {
		text := ask(c.s, "GET", "/metrics", "", "Authorization", "Bearer "+c.token).Body.String()
		if !strings.Contains(text, `tgi_plugin_loads_total{plugin="g"}`) {
			t.Errorf("with %q: no plugins in %s", c.token, text)
		}
		for _, name := range []string{"guard_held_tokens", "plugin_calls", "plugin_fuel", "plugin_seconds",
			"plugin_slices", "plugin_paused_seconds"} {
			if strings.Contains(text, "tgi_"+name+"_total{") != c.want {
				t.Errorf("with %q: %s is there %v, want %v", c.token, name, !c.want, c.want)
			}
		}
	}
}

func BenchmarkProbe(b *testing.B) {
	s := newServer(nil, nil)
	for b.Loop() {
		if rec := ask(s, "GET", "/readyz", ""); rec.Code != 200 {
			b.Fatal(rec.Code)
		}
	}
}
