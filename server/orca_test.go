package server_test

import (
	"encoding/json"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"

	"tgi/server"
)

// loaded is a server of a generating route that streams, with a load.
func loaded(set func(*server.Options)) *server.Server {
	s := newServer(nil, func(o *server.Options) {
		o.APIs = nil
		if set != nil {
			set(o)
		}
	})
	s.WatchLoad(func() server.EndpointLoad {
		return server.EndpointLoad{Utilization: 0.5, CacheUsage: 0.25, Waiting: 3, Running: 2}
	})
	s.Open([]server.API{routes{"/generate": func(w http.ResponseWriter, _ *http.Request) error {
		e, err := server.StartEvents(w)
		if err != nil {
			return err
		}
		return e.Data([]byte("1"))
	}, "/fails": func(http.ResponseWriter, *http.Request) error { return server.ErrBody }}}, nil)
	return s
}

// tells returns what the reply to a request that asks for a format says of the load.
func tells(s *server.Server, path, format, key string) string {
	r := httptest.NewRequest("POST", path, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	if format != "" {
		r.Header.Set("endpoint-load-metrics-format", format)
	}
	if key != "" {
		r.Header.Set("Authorization", "Bearer "+key)
	}
	w := httptest.NewRecorder()
	s.ServeHTTP(w, r)
	return w.Header().Get("endpoint-load-metrics")
}

// TestEndpointLoad: the header has ORCA's forms, on streams and on errors too, for those that ask.
func TestEndpointLoad(t *testing.T) {
	s := loaded(nil)
	for _, path := range []string{"/generate", "/fails"} {
		for _, format := range []string{"", "BIN", "text json"} {
			if got := tells(s, path, format, ""); got != "" {
				t.Errorf("%s, format %q: %s", path, format, got)
			}
		}
		text := tells(s, path, "text", "")
		for _, want := range []string{"TEXT application_utilization=0.5,rps_fractional=",
			",named_metrics.kv_cache_usage_perc=0.25,named_metrics.num_requests_waiting=3" +
				",named_metrics.num_requests_running=2"} {
			if !strings.Contains(text, want) {
				t.Errorf("%s: %q lacks %q", path, text, want)
			}
		}
		form, body, _ := strings.Cut(tells(s, path, "JSON", ""), " ")
		var got struct {
			Utilization float64            `json:"application_utilization"`
			Rate        float64            `json:"rps_fractional"`
			Named       map[string]float64 `json:"named_metrics"`
		}
		if err := json.Unmarshal([]byte(body), &got); err != nil || form != "JSON" {
			t.Fatalf("%s %s: %v", form, body, err)
		}
		if got.Utilization != 0.5 || got.Rate <= 0 || got.Named["num_requests_waiting"] != 3 {
			t.Errorf("%s: %s", path, body)
		}
	}
}

// TestEndpointLoadIsProtected: it is for those whom /metrics is for.
func TestEndpointLoadIsProtected(t *testing.T) {
	s := loaded(func(o *server.Options) {
		o.Config.ProtectMetrics = true
		o.Config.AdminKeys = []string{"k"} // so that generating needs none
		o.Config.APIKeys = nil
	})
	if got := tells(s, "/generate", "TEXT", ""); got != "" {
		t.Errorf("without a key: %s", got)
	}
	if got := tells(s, "/generate", "TEXT", "k"); got == "" {
		t.Error("with a key: nothing")
	}
}
