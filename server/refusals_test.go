package server_test

import (
	"bytes"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
)

// refusing serves requests of which most are refused.
func refusing(log *bytes.Buffer, busy *bool, keys ...config.Key) *server.Server {
	refuse := func(err error) func(http.ResponseWriter, *http.Request) error {
		return func(http.ResponseWriter, *http.Request) error { return err }
	}
	s := newServer(routes{
		"/invalid": refuse(&generate.Invalid{Msg: "no"}),
		"/plugin":  refuse(fmt.Errorf("%w: dry: tgi_logits_begin", llm.ErrPlugin)),
		"/stream": func(w http.ResponseWriter, r *http.Request) error {
			w.WriteHeader(http.StatusOK)
			server.Note(r.Context(), fmt.Errorf("%w: dry: tgi_logits_begin", llm.ErrPlugin))
			return nil
		},
		"/full":    refuse(llm.ErrOverloaded),
		"/drains":  refuse(llm.ErrDraining),
		"/damaged": refuse(server.ErrPanic),
		"/ok":      echo,
	}, func(o *server.Options) {
		o.Keys, o.Log = keys, slog.New(slog.NewTextHandler(log, nil))
	})
	s.WatchDemand(func() bool { return *busy })
	return s
}

// perSecond is how many requests one connection after the other gets replies to in a second.
func perSecond(s http.Handler, path, address string, header ...string) (n int) {
	for end := time.Now().Add(time.Second); time.Now().Before(end) && n < 10_000; n++ {
		r := httptest.NewRequest(http.MethodPost, path, strings.NewReader("{}"))
		r.Header.Set("Content-Type", "application/json")
		for i := 0; i < len(header); i += 2 {
			r.Header.Set(header[i], header[i+1])
		}
		r.RemoteAddr = address
		s.ServeHTTP(httptest.NewRecorder(), r)
	}
	return n
}

// TestRefusalsAreHeld: while others generate, a client gets a burst of refusals and then so many per second, whatever
// refuses its requests and however often it connects; all other replies of the same client, and those of other
// clients, are sent at once.
func TestRefusalsAreHeld(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	held := func(n int) bool { return n >= 125*cores && n <= 136*cores }
	for _, path := range []string{"/invalid", "/plugin", "/stream", "/nowhere", "/full", "/drains", "/damaged", "/ok"} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			busy := true
			s := refusing(&log, &busy)
			refused := path != "/full" && path != "/drains" && path != "/damaged" && path != "/ok"
			n := perSecond(s, path, "192.0.2.1:1")
			if held(n) != refused || !refused && n != 10_000 {
				t.Errorf("%s: %d in a second", path, n)
			}
			if says := strings.Count(log.String(), "held back"); says != 1 && refused || says > 0 && !refused {
				t.Errorf("%s: %d lines of the log say that replies are held", path, says)
			}
			if n := perSecond(s, "/ok", "192.0.2.1:2"); n != 10_000 {
				t.Errorf("%s: of the same client's other requests %d were served", path, n)
			}
			if !refused {
				return
			}
			perSecond(s, path, "192.0.2.1:3")
			if n := perSecond(s, path, "192.0.2.1:4"); n > 126*cores {
				t.Errorf("%s: %d in a second that follows another, on another connection", path, n)
			}
			if n := perSecond(s, path, "192.0.2.2:1"); !held(n) {
				t.Errorf("%s: of another client %d in a second", path, n)
			}
			busy = false
			if n := perSecond(s, path, "192.0.2.1:5"); n != 10_000 {
				t.Errorf("%s: while nobody generates %d in a second", path, n)
			}
		})
	}
}

// TestRefusalsOfKeys: with keys, clients are told apart by them, and nobody is held for long, however many connections
// the client has.
func TestRefusalsOfKeys(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		busy := true
		s := refusing(&log, &busy, config.Key{Name: "a", Key: "key of a"}, config.Key{Name: "b", Key: "key of b"})
		began, all := time.Now(), make(chan time.Duration)
		many := 300 * runtime.GOMAXPROCS(0)
		for range many {
			go func() {
				rec := ask(s, http.MethodPost, "/invalid", "{}", "Authorization", "Bearer key of a")
				if rec.Code != http.StatusUnprocessableEntity {
					t.Errorf("%d %s", rec.Code, rec.Body)
				}
				all <- time.Since(began)
			}()
		}
		longest := time.Duration(0)
		for range many {
			longest = max(longest, <-all)
		}
		if longest != time.Second {
			t.Errorf("%d refusals at once: the last after %v", many, longest)
		}
		began = time.Now()
		if rec := ask(s, http.MethodPost, "/invalid", "{}", "Authorization", "Bearer key of b"); rec.Code !=
			http.StatusUnprocessableEntity || time.Since(began) != 0 {
			t.Errorf("another key of the same address: %d after %v", rec.Code, time.Since(began))
		}
	})
}
