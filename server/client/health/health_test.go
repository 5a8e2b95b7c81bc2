package health_test

import (
	"net"
	"net/http"
	"net/http/httptest"
	"strconv"
	"strings"
	"testing"

	"tgi/server/client/health"
	"tgi/server/config"
)

// TestURL: an address that stands for all of a machine's is asked at the machine itself.
func TestURL(t *testing.T) {
	for _, c := range []struct {
		host, cert, want string
	}{
		{"0.0.0.0", "", "http://127.0.0.1:8080/readyz"},
		{"::", "", "http://[::1]:8080/readyz"},
		{"10.1.2.3", "", "http://10.1.2.3:8080/readyz"},
		{"127.0.0.1", "cert.pem", "https://127.0.0.1:8080/readyz"},
	} {
		if got := health.URL(config.Server{Hostname: c.host, Port: 8080, TLSCert: c.cert}); got != c.want {
			t.Errorf("%s, certificate %q: %s, want %s", c.host, c.cert, got, c.want)
		}
	}
}

// TestAsk: only 200 is healthy; another answer is told, and that nobody answers too.
func TestAsk(t *testing.T) {
	for _, secure := range []bool{false, true} {
		status := http.StatusOK
		s := httptest.NewUnstartedServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
			if r.URL.Path != "/readyz" {
				t.Errorf("asked %s", r.URL.Path)
			}
			http.Error(w, strings.Repeat("loading ", 100), status)
		}))
		var settings config.Server
		if secure {
			s.StartTLS()
			settings.TLSCert = "cert.pem"
		} else {
			s.Start()
		}
		_, port, _ := net.SplitHostPort(s.Listener.Addr().String())
		settings.Hostname = "127.0.0.1"
		settings.Port, _ = strconv.Atoi(port)
		if err := health.Ask(t.Context(), settings); err != nil {
			t.Errorf("secure %v: %v", secure, err)
		}
		status = http.StatusServiceUnavailable
		err := health.Ask(t.Context(), settings)
		if err == nil || !strings.Contains(err.Error(), "503 Service Unavailable: loading") || len(err.Error()) > 300 {
			t.Errorf("secure %v: %v, want 503 and the beginning of its text", secure, err)
		}
		s.Close()
		if err := health.Ask(t.Context(), settings); err == nil {
			t.Errorf("secure %v: a server that does not listen is healthy", secure)
		}
	}
}
