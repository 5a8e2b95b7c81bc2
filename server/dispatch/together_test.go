package dispatch

import (
	"bufio"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"strings"
	"sync"
	"testing"

	"github.com/coder/websocket"
)

// TestReleasedAtTheEnd: a model is held as long as a stream or a socket is open, and no
// longer, whichever side ends it and however.
func TestReleasedAtTheEnd(t *testing.T) {
	m := list(t, "a", "b")
	hold := make(chan struct{})
	ts := httptest.NewServer(serve(m, hold))
	defer ts.Close()
	open := func(ctx context.Context) io.Closer {
		q, err := http.NewRequestWithContext(ctx, "POST", ts.URL+"/stream", strings.NewReader(`{"model":"b"}`))
		if err != nil {
			t.Fatal(err)
		}
		res, err := http.DefaultClient.Do(q)
		if err != nil {
			t.Fatal(err)
		}
		if line, err := bufio.NewReader(res.Body).ReadString('\n'); err != nil || line != "data: b\n" {
			t.Fatalf("the stream begins with %q, %v", line, err)
		}
		return res.Body
	}
	ctx, leave := context.WithCancel(t.Context())
	defer open(ctx).Close()
	defer open(t.Context()).Close()
	conn, _, err := websocket.Dial(t.Context(), ts.URL+"/ws?model=b", nil)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.CloseNow()
	if err := conn.Write(t.Context(), websocket.MessageText, []byte("hi")); err != nil {
		t.Fatal(err)
	}
	if _, text, err := conn.Read(t.Context()); err != nil || string(text) != "b hi" {
		t.Fatalf("the socket says %q, %v", text, err)
	}
	if got := ask(ts.Config.Handler, "POST", "/generate", `{"model":"b"}`); got.Code != 200 {
		t.Fatalf("a short request: %d", got.Code)
	}
	if n := m.used("b"); n != 3 {
		t.Fatalf("two streams and a socket use the model %d times", n)
	}
	close(hold) // both streams end, one of them for nobody
	leave()
	if err := conn.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	m.idle("b")
}

// TestReleasedAfterPanics: a handler that panics gives its model back.
func TestReleasedAfterPanics(t *testing.T) {
	m := list(t, "a")
	ts := httptest.NewServer(serve(m, nil))
	defer ts.Close()
	for path, want := range map[string]string{"/panics": "500", "/breaks-off": "unexpected EOF"} {
		res, err := http.Post(ts.URL+path, "application/json", strings.NewReader("{}"))
		got := fmt.Sprint(err)
		if err == nil {
			_, err = io.ReadAll(res.Body)
			got = fmt.Sprint(res.StatusCode, err)
			res.Body.Close()
		}
		if !strings.Contains(got, want) && !strings.Contains(got, "EOF") {
			t.Errorf("%s: %s, want %s", path, got, want)
		}
	}
	m.idle("a")
}

// TestTogether: many requests at once each reach the model that they name, and all
// models are free at the end.
func TestTogether(t *testing.T) {
	var names []string
	for i := range 5 {
		names = append(names, fmt.Sprint("m", i))
	}
	m := list(t, names...)
	s := serve(m, nil)
	var wg sync.WaitGroup
	for i := range 16 {
		wg.Go(func() {
			for k := range 50 {
				name := names[(i+k)%len(names)]
				body := fmt.Sprintf(`{"inputs":"%d-%d","model":%q}`, i, k, name)
				target := "/generate"
				if k%5 == 4 {
					body, target = fmt.Sprintf(`{"inputs":"%d-%d"}`, i, k), "/generate?model="+name
				}
				if got := ask(s, "POST", target, body).Body.String(); got != name+" " {
					t.Errorf("%s: %s", body, got)
				}
			}
		})
	}
	wg.Wait()
	for _, name := range names {
		if n := m.used(name); n != 0 {
			t.Errorf("%s is used %d times at the end", name, n)
		}
	}
}
