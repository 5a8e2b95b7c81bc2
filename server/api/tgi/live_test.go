package tgi

import (
	"bufio"
	"context"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// live serves e on a real connection.
func live(t *testing.T, e *generatetest.Engine, change ...func(*generate.Limits, *config.Config)) string {
	s := httptest.NewServer(newServer(e, change...))
	t.Cleanup(s.Close)
	return s.URL
}

func post(ctx context.Context, url, body string) (*http.Response, error) {
	r, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		return nil, err
	}
	r.Header.Set("Content-Type", "application/json")
	return http.DefaultClient.Do(r)
}

// eventually waits for what other goroutines bring about; the deadline is for
// a broken test alone.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: ", what)
		}
	}
}

func TestEventsAreFlushedOneByOne(t *testing.T) {
	e := &generatetest.Engine{Step: make(chan struct{})}
	url := live(t, e)
	r, err := post(t.Context(), url+"/generate_stream", `{"inputs":"Hi","parameters":{"max_new_tokens":3}}`)
	if err != nil {
		t.Fatal(err) // the header is there before the first token is
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	for i := 1; i <= 3; i++ {
		e.Step <- struct{}{}
		if !lines.Scan() || !strings.HasPrefix(lines.Text(), fmt.Sprintf(`data: {"index":%d,`, i)) {
			t.Fatalf("event %d: %q, %v", i, lines.Text(), lines.Err())
		}
		lines.Scan()
	}
	close(e.Step)
	if lines.Scan() {
		t.Errorf("after the last event: %q", lines.Text())
	}
}

func TestClientLeaves(t *testing.T) {
	for _, path := range []string{"/generate", "/generate_stream"} {
		e := &generatetest.Engine{Step: make(chan struct{})}
		url := live(t, e, func(l *generate.Limits, _ *config.Config) { l.MaxConcurrent = 1 })
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			if r, err := post(ctx, url+path, `{"inputs":"Hi"}`); err == nil {
				_, _ = io.Copy(io.Discard, r.Body)
			}
		}()
		e.Step <- struct{}{} // the sequence runs
		leave()
		<-gone
		eventually(t, "the sequence ends", func() bool { return e.Running() == 0 })
		close(e.Step)
		eventually(t, "the permit comes back", func() bool {
			r, err := post(t.Context(), url+"/generate", `{"inputs":"Hi"}`)
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			return r.StatusCode == 200
		})
	}
}

// TestClientNeverReads has a client that asks for more than any socket buffers
// and reads nothing: the server gives up on it, and others are served meanwhile.
func TestClientNeverReads(t *testing.T) {
	big := strings.Repeat("x", 1<<16)
	e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
		events := generatetest.Echo(r)
		for i := range events {
			events[i].Text = big
		}
		return events
	}}
	url := live(t, e, func(l *generate.Limits, c *config.Config) {
		l.MaxTotal = 10_000
		c.Server.WriteTimeout = config.Duration(200 * time.Millisecond)
	})
	conn, err := net.Dial("tcp", strings.TrimPrefix(url, "http://"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	body := `{"inputs":"Hi","parameters":{"max_new_tokens":9000}}`
	fmt.Fprintf(conn,
		"POST /generate_stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s",
		len(body), body)
	eventually(t, "the request runs", func() bool { return e.Running() == 1 })
	r, err := post(t.Context(), url+"/generate", `{"inputs":"Hi","parameters":{"max_new_tokens":1}}`)
	if err != nil || r.StatusCode != 200 {
		t.Fatalf("the neighbour got %v, %v", r, err)
	}
	r.Body.Close()
	eventually(t, "the server gives up", func() bool { return e.Running() == 0 })
}

// TestThousandRequests sends a thousand at once to a server with few permits:
// each gets its text or a 429 that says when to come back, and none hangs.
func TestThousandRequests(t *testing.T) {
	e := &generatetest.Engine{Pause: time.Millisecond}
	s := newServer(e, func(l *generate.Limits, _ *config.Config) { l.MaxConcurrent = 50 })
	var wg sync.WaitGroup
	var good, refused atomic.Int64
	start := make(chan struct{})
	for i := range 1000 {
		path := [2]string{"/generate", "/generate_stream"}[i%2]
		wg.Go(func() {
			<-start
			r := httptest.NewRequest(http.MethodPost, path,
				strings.NewReader(`{"inputs":"Hi","parameters":{"max_new_tokens":3}}`))
			r.Header.Set("Content-Type", "application/json")
			rec := httptest.NewRecorder()
			s.ServeHTTP(rec, r)
			body := rec.Body.String()
			switch {
			case strings.Contains(body, `"generated_text":" x x x"`) && rec.Code == 200:
				good.Add(1)
			case strings.Contains(body, `{"error":"Model is overloaded","error_type":"overloaded"}`) &&
				(rec.Code == 429 && rec.Header().Get("Retry-After") != "" || path == "/generate_stream" &&
					rec.Code == 200):
				refused.Add(1)
			default:
				t.Errorf("%s: %d %s", path, rec.Code, body)
			}
		})
	}
	close(start)
	wg.Wait()
	if good.Load() < 50 || good.Load()+refused.Load() != 1000 {
		t.Errorf("%d served, %d refused", good.Load(), refused.Load())
	}
	if e.Running() != 0 {
		eventually(t, "all sequences end", func() bool { return e.Running() == 0 })
	}
}

func TestSickEngine(t *testing.T) {
	url := live(t, &generatetest.Engine{Sick: errors.New("stuck")})
	r, err := http.Get(url + "/health")
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	if body, _ := io.ReadAll(r.Body); r.StatusCode != 503 ||
		string(body) != `{"error":"unhealthy","error_type":"healthcheck"}` {
		t.Errorf("got %d %s", r.StatusCode, body)
	}
}
