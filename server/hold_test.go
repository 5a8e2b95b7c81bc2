package server_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"runtime"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

const operatorKey = "an operator's"

// refusing serves requests of which most are refused.
func refusing(log *bytes.Buffer, busy *bool, keys ...config.Key) *server.Server {
	refuse := func(err error) func(http.ResponseWriter, *http.Request) error {
		return func(http.ResponseWriter, *http.Request) error { return err }
	}
	svc := generate.New(server.Engine("small", &generatetest.Engine{Script: generatetest.Echo}), generatetest.Words{},
		generatetest.Limits(), nil)
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
		"/chat": func(w http.ResponseWriter, r *http.Request) error {
			run, err := svc.Start(r.Context(), generate.Draft{Inputs: "Hi"})
			if err != nil {
				return err
			}
			defer run.Close()
			_, err = run.Collect(r.Context())
			return err
		},
	}, func(o *server.Options) {
		o.Config.AdminKeys, o.APIs, o.Metrics = []string{operatorKey}, append(o.APIs, scoped{}), server.NewMetrics()
		o.Keys, o.Log = keys, slog.New(slog.NewTextHandler(log, nil))
	})
	s.WatchDemand(func() bool { return *busy })
	return s
}

// manyPerSecond is more than a client gets that is held back.
var manyPerSecond = 600 * runtime.GOMAXPROCS(0)

// perSecond is how many requests one connection after the other gets replies to in a second, of many.
func perSecond(s http.Handler, path, address string) (n int) {
	for end := time.Now().Add(time.Second); time.Now().Before(end) && n < manyPerSecond; n++ {
		askFrom(s, path, address)
	}
	return n
}

// askFrom sends a request from an address.
func askFrom(s http.Handler, path, address string) {
	method := http.MethodPost
	if path == "/livez" || path == "/metrics" || path == "/admin/x" {
		method = http.MethodGet
	}
	r := httptest.NewRequest(method, path, strings.NewReader("{}"))
	r.Header.Set("Content-Type", "application/json")
	if path == "/admin/x" {
		r.Header.Set("Authorization", "Bearer "+operatorKey)
	}
	r.RemoteAddr = address
	s.ServeHTTP(httptest.NewRecorder(), r)
}

// TestRequestsAreHeld: while others generate, a client gets so many replies at once and then so many per second to
// requests that no model computes, whatever they are and however often it connects; all other replies of the same
// client, its probes, and those of other clients, are sent at once.
func TestRequestsAreHeld(t *testing.T) {
	cores := runtime.GOMAXPROCS(0)
	quick, refused, free := 540*cores, 135*cores, manyPerSecond
	for path, most := range map[string]int{"/invalid": refused, "/plugin": refused, "/stream": refused,
		"/nowhere": refused, "/full": quick, "/ok": quick, "/livez": quick, "/metrics": quick, "/drains": free,
		"/damaged": free, "/chat": free, "/admin/x": free} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			busy, held := true, func(n int) bool { return n >= most*9/10 && n <= most+2 }
			s := refusing(&log, &busy)
			n := perSecond(s, path, "192.0.2.1:1")
			if most < free && !held(n) || most == free && n != free {
				t.Errorf("%s: %d in a second, want %d", path, n, most)
			}
			says := strings.Count(log.String(), "held back")
			if most < free && says != 1 || most == free && says != 0 {
				t.Errorf("%s: %d lines of the log say that replies are held", path, says)
			}
			if n := perSecond(s, "/chat", "192.0.2.1:2"); n != free {
				t.Errorf("%s: of the same client's texts %d were generated", path, n)
			}
			if most == free {
				return
			}
			other := "/livez"
			if path == other {
				other = "/metrics"
			}
			perSecond(s, path, "192.0.2.1:3")
			if n := perSecond(s, path, "192.0.2.1:4"); n > most*125/135+1 {
				t.Errorf("%s: %d in a second that follows another, on another connection", path, n)
			}
			if n := perSecond(s, other, "192.0.2.1:4"); n < 490*cores {
				t.Errorf("%s: of the same client's requests for %s %d were served", path, other, n)
			}
			if n := perSecond(s, path, "192.0.2.2:1"); !held(n) {
				t.Errorf("%s: of another client %d in a second", path, n)
			}
			busy = false
			if n := perSecond(s, path, "192.0.2.1:5"); n != free {
				t.Errorf("%s: while nobody generates %d in a second", path, n)
			}
		})
	}
}

// TestProbesAreApart: what a client owes for anything else, metrics included, does not make its probes wait.
func TestProbesAreApart(t *testing.T) {
	for _, path := range []string{"/ok", "/metrics"} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			busy := true
			s := refusing(&log, &busy)
			var all sync.WaitGroup
			for range manyPerSecond {
				all.Go(func() { askFrom(s, path, "192.0.2.1:1") })
			}
			synctest.Wait()
			for _, c := range []struct {
				path string
				want time.Duration
			}{{"/livez", 0}, {path, time.Second}} {
				began := time.Now()
				if askFrom(s, c.path, "192.0.2.1:2"); time.Since(began) != c.want {
					t.Errorf("beside many requests for %s one for %s takes %v, want %v", path, c.path,
						time.Since(began), c.want)
				}
			}
			all.Wait()
		})
	}
}

// light is a route that no model computes.
type light struct{}

func (light) Routes() []server.Route {
	return []server.Route{{Method: http.MethodPost, Path: "/light", Light: true, Handle: echo}}
}

// TestOverdrawn: while others generate, a client that has used its part for longer than replies are held is refused
// what no model computes, until it may ask again; nothing else is, and nobody else.
func TestOverdrawn(t *testing.T) {
	for _, path := range []string{"/metrics", "/light"} {
		synctest.Test(t, func(t *testing.T) {
			var log bytes.Buffer
			busy := true
			s := refusing(&log, &busy)
			refuse := func(http.ResponseWriter, *http.Request) error { return &generate.Invalid{Msg: "no"} }
			s.Open([]server.API{light{}, routes{"/ok": echo, "/invalid": refuse}}, nil)
			status := func(path, address string) (int, string) {
				method := http.MethodPost
				if path == "/metrics" || path == "/livez" {
					method = http.MethodGet
				}
				r := httptest.NewRequest(method, path, strings.NewReader("{}"))
				r.Header.Set("Content-Type", "application/json")
				r.RemoteAddr = address
				rec := httptest.NewRecorder()
				s.ServeHTTP(rec, r)
				return rec.Code, rec.Header().Get("Retry-After")
			}
			var all sync.WaitGroup
			for range 1108 * runtime.GOMAXPROCS(0) { // of 0.2 ms each: 8 ms at once, and 2.1 s of a tenth of each core
				all.Go(func() { status(path, "192.0.2.1:1") })
			}
			synctest.Wait()
			if code, retry := status(path, "192.0.2.1:2"); code != http.StatusTooManyRequests ||
				retry != "2" && retry != "3" { // a few of them may still be under way
				t.Errorf("%s of a client that owes much: %d, to try again in %q s", path, code, retry)
			}
			for _, c := range []struct {
				path, address string
				status        int
			}{{"/livez", "192.0.2.1:2", 200}, {"/ok", "192.0.2.1:2", 200}, {"/invalid", "192.0.2.1:2", 422},
				{path, "192.0.2.2:1", 200}} {
				if code, _ := status(c.path, c.address); code != c.status {
					t.Errorf("%s beside many for %s: %d", c.path, path, code)
				}
			}
			busy = false
			if code, _ := status(path, "192.0.2.1:3"); code != http.StatusOK {
				t.Errorf("%s when nobody generates: %d", path, code)
			}
			busy = true
			all.Wait()
			time.Sleep(3 * time.Second)
			if code, _ := status(path, "192.0.2.1:4"); code != http.StatusOK {
				t.Errorf("%s after a rest: %d", path, code)
			}
		})
	}
}

// TestLongBodiesOfDebtors: while others generate, the long bodies of a client that owes much are not read, whatever
// they ask for, and nobody else's are refused, nor its short ones.
func TestLongBodiesOfDebtors(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		busy, read, asked := true, 0, 0
		s := refusing(&log, &busy)
		s.Open([]server.API{routes{
			"/invalid": func(http.ResponseWriter, *http.Request) error { return &generate.Invalid{Msg: "no"} },
			"/parse": func(w http.ResponseWriter, r *http.Request) error {
				asked++
				body, err := server.ReadBody(r)
				if err != nil {
					return err
				}
				_, err = server.Parse(r.Context(), body, func([]byte) (int, error) {
					read++
					return 0, nil
				})
				return err
			}}}, nil)
		var all sync.WaitGroup
		for range 300 * runtime.GOMAXPROCS(0) { // of 0.8 ms each: 2.3 s of a tenth of each core
			all.Go(func() { askFrom(s, "/invalid", "192.0.2.1:1") })
		}
		synctest.Wait()
		for _, c := range []struct {
			address string
			bytes   int
			busy    bool
			told    bool // how long the body is
			status  int
		}{{"192.0.2.1:2", 1 << 14, true, true, 429}, {"192.0.2.1:2", 1 << 14, true, false, 429},
			{"192.0.2.1:2", 1<<14 - 1, true, true, 200}, {"192.0.2.2:1", 1 << 14, true, true, 200},
			{"192.0.2.1:2", 1 << 14, false, true, 200}} {
			busy, read, asked = c.busy, 0, 0
			r := httptest.NewRequest(http.MethodPost, "/parse", strings.NewReader(strings.Repeat("x", c.bytes)))
			r.Header.Set("Content-Type", "application/json")
			r.RemoteAddr = c.address
			if !c.told {
				r.ContentLength = -1
			}
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			says, ok := strings.Contains(rec.Body.String(), "16384 bytes and more"), c.status == http.StatusOK
			if rec.Code != c.status || says == ok || (read > 0) != ok || c.told && (asked > 0) != ok {
				t.Errorf("%d bytes from %s: %d, read %d times: %s", c.bytes, c.address, rec.Code, read, rec.Body)
			}
		}
		all.Wait()
	})
}

// TestHeldAreTold: the log names who used most, and not who happened to be held.
func TestHeldAreTold(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		busy := false
		s := refusing(&log, &busy)
		perSecond(s, "/ok", "192.0.2.7:1")
		for range 41 * runtime.GOMAXPROCS(0) {
			askFrom(s, "/ok", "192.0.2.8:1")
		}
		busy = true
		askFrom(s, "/ok", "192.0.2.8:1")
		if !strings.Contains(log.String(), `most_by="address 192.0.2.7"`) {
			t.Errorf("the log says %s", &log)
		}
	})
}

// TestManyAreHeld: clients that have many requests at once share a quarter of the cores, and who asks every second
// never waits.
func TestManyAreHeld(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var log bytes.Buffer
		busy, cores := true, runtime.GOMAXPROCS(0)
		s := refusing(&log, &busy)
		ctx, stop := context.WithTimeout(t.Context(), 10*time.Second)
		defer stop()
		var all sync.WaitGroup
		var served atomic.Int64
		for i := range 25 {
			all.Go(func() {
				for ctx.Err() == nil {
					askFrom(s, "/ok", fmt.Sprintf("192.0.2.%d:1", i+1))
					served.Add(1)
				}
			})
		}
		all.Go(func() {
			for range 9 {
				time.Sleep(time.Second)
				for _, path := range []string{"/livez", "/metrics"} {
					began := time.Now()
					askFrom(s, path, "192.0.2.200:1")
					if took := time.Since(began); took != 0 {
						t.Errorf("%s took %v", path, took)
					}
				}
			}
		})
		all.Wait()
		// A quarter of the cores for ten seconds, and what each has at once.
		most := int64(cores) * (10*1250 + 25*(40+5))
		if n := served.Load(); n > most || n < most*8/10 {
			t.Errorf("%d were served, want at most %d", n, most)
		}
	})
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
