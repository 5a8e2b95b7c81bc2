package mcp

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net/http"
	"net/http/httptest"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"syscall"
	"testing"
	"time"

	sdk "github.com/modelcontextprotocol/go-sdk/mcp"
	"go.uber.org/goleak"

	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/mcp/mcptest"
)

func TestMain(m *testing.M) {
	mcptest.Run()
	goleak.VerifyTestMain(m)
}

// child is a server that this program runs.
func child(t *testing.T, kind string) config.MCP {
	t.Helper()
	me, err := os.Executable()
	if err != nil {
		t.Fatal(err)
	}
	return config.MCP{Name: "tools", Command: []string{me}, Env: map[string]string{mcptest.Variable: kind},
		StartTimeout: config.Duration(10 * time.Second), Timeout: config.Duration(5 * time.Second),
		ResultBytes: 2000}
}

// open returns servers with some settings changed.
func open(t *testing.T, m config.MCP, change func(*config.MCPLimits)) *Servers {
	t.Helper()
	c := config.Default()
	c.MCP = []config.MCP{m}
	if change != nil {
		change(&c.MCPLimits)
	}
	s := New(c, "1", nil, slog.New(slog.DiscardHandler))
	t.Cleanup(s.Close)
	return s
}

var want = []Want{{Label: "tools", Field: "tools[0]"}}

func begin(t *testing.T, s *Servers) *Loop {
	t.Helper()
	l, err := s.Begin(t.Context(), "", want, nil, 0)
	if err != nil {
		t.Fatal(err)
	}
	return l
}

// ask calls tools, each by its name and arguments.
func ask(t *testing.T, l *Loop, calls ...string) []Outcome {
	var list []generate.Call
	for _, c := range calls {
		name, arguments, _ := strings.Cut(c, " ")
		list = append(list, generate.Call{Name: name, Arguments: arguments})
	}
	told := 0
	out := l.Run(t.Context(), list, func(int, Outcome) { told++ })
	if told != len(calls) {
		t.Errorf("told of %d of %d calls", told, len(calls))
	}
	return out
}

// TestCalls: tools of a process are listed, called and limited.
func TestCalls(t *testing.T) {
	t.Setenv("TGI_API_KEY", "hush")
	s := open(t, child(t, "tools"), nil)
	l := begin(t, s)
	if tools := l.Lists()[0].Tools; len(tools) != 10 || tools[0].Name == "" ||
		!strings.Contains(string(tools[slices.IndexFunc(tools, func(t Tool) bool { return t.Own == "greet" })].Schema),
			"who is greeted") {
		t.Errorf("tools: %v", tools)
	}
	out := ask(t, l, `greet {"name":"Ada"}`, `fails {"n":0}`, `big {"n":2001}`, `nothing {}`, `greet {"nam":1}`,
		`environment {"n":0}`)
	if out[0].Text != "Hi Ada" || out[0].Err != nil {
		t.Errorf("greet: %v", out[0])
	}
	for i, text := range []string{1: "it is broken", 2: "the result has 2001 bytes, at most 2000", 3: "there is no tool",
		4: "nam"} {
		if text != "" && (out[i].Err == nil || !strings.Contains(out[i].Said(), text)) {
			t.Errorf("call %d: %v, want %q", i, out[i], text)
		}
	}
	if strings.Contains(out[5].Text, "hush") || !strings.Contains(out[5].Text, mcptest.Variable) {
		t.Errorf("its variables: %v", out[5])
	}
}

// TestBounds: whatever a server does, a call has an outcome in time, and the next one works.
func TestBounds(t *testing.T) {
	m := child(t, "tools")
	m.Timeout = config.Duration(700 * time.Millisecond)
	s := open(t, m, nil)
	for _, c := range []struct{ call, want string }{
		{`slow {"n":60000}`, "did not answer within 700ms"},
		{`shout {"n":2000}`, ""},
		{`big {"n":100000000}`, ""}, // its line is longer than any may be
		{`crash {"n":0}`, "exit status 3"},
		{`flood {"n":50000}`, ""},
	} {
		began := time.Now()
		out := ask(t, begin(t, s), c.call)[0]
		if took := time.Since(began); took > 5*time.Second {
			t.Errorf("%s took %s", c.call, took)
		}
		if !strings.Contains(out.Said(), c.want) || c.want != "" && out.Err == nil {
			t.Errorf("%s: %v, want %q", c.call, out.Said(), c.want)
		}
		for _, one := range s.list { // no test waits for pauses
			one.mu.Lock()
			one.until = time.Time{}
			one.mu.Unlock()
		}
		deadline := time.Now().Add(10 * time.Second)
		for {
			l, err := s.Begin(t.Context(), "", want, nil, 0)
			if err == nil {
				if out := ask(t, l, `greet {"name":"x"}`)[0]; out.Text == "Hi x" {
					break
				} else {
					err = out.Err
				}
			}
			if time.Now().After(deadline) {
				t.Fatalf("after %s the server is not back: %v", c.call, err)
			}
			for _, one := range s.list {
				one.mu.Lock()
				one.until = time.Time{}
				one.mu.Unlock()
			}
			time.Sleep(5 * time.Millisecond)
		}
	}
}

// TestBroken: a server that does not speak is left alone for a while, and says why.
func TestBroken(t *testing.T) {
	for kind, text := range map[string]string{"garbage": "cannot be reached", "huge": "frame",
		"silent": "did not answer within 300ms"} {
		m := child(t, kind)
		m.StartTimeout = config.Duration(300 * time.Millisecond)
		if kind == "garbage" {
			m.StartTimeout = config.Duration(5 * time.Second)
		}
		s := open(t, m, nil)
		_, err := s.Begin(t.Context(), "", want, nil, 0)
		if !errors.Is(err, ErrList) || !strings.Contains(err.Error(), text) {
			t.Errorf("%s: %v", kind, err)
		}
		_, err = s.Begin(t.Context(), "", want, nil, 0)
		if !errors.Is(err, ErrList) || !strings.Contains(err.Error(), "it is tried again in") {
			t.Errorf("%s, again: %v", kind, err)
		}
		// A key's policy asks for what there is.
		l, err := s.Begin(t.Context(), "", []Want{{Label: "tools"}}, nil, 0)
		if err != nil || len(l.Lists()) != 0 {
			t.Errorf("%s, as a policy: %v", kind, err)
		}
	}
	s := open(t, config.MCP{Name: "tools", Command: []string{"/no/such/program"}}, nil)
	if _, err := s.Begin(t.Context(), "", want, nil, 0); !errors.Is(err, ErrList) {
		t.Errorf("a program that is not there: %v", err)
	}
}

// TestEnd: the processes of a server, and those that they started, end with it.
func TestEnd(t *testing.T) {
	s := open(t, child(t, "tools"), nil)
	pid, err := strconv.Atoi(ask(t, begin(t, s), `child {"n":0}`)[0].Text)
	if err != nil {
		t.Fatal(err)
	}
	s.Close()
	for range 200 {
		state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
		if err != nil || bytes.Contains(state, []byte(") Z ")) {
			break
		}
		time.Sleep(5 * time.Millisecond)
	}
	state, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err == nil && !bytes.Contains(state, []byte(") Z ")) {
		_ = syscall.Kill(pid, syscall.SIGKILL)
		t.Error("a process of the server is left")
	}
	if _, err := s.Begin(t.Context(), "", want, nil, 0); err == nil {
		t.Error("a closed server has tools")
	}
}

// TestChanges: a request keeps the tools that it was offered; one that is gone is an error of the call, and the next
// request is offered the new ones.
func TestChanges(t *testing.T) {
	s := open(t, child(t, "tools"), nil)
	l := begin(t, s)
	if out := ask(t, l, `change {"n":0}`)[0]; out.Text != "changed" {
		t.Fatal(out)
	}
	if out := ask(t, l, `change {"n":0}`)[0]; out.Err == nil {
		t.Error("a tool that is gone answers")
	}
	deadline := time.Now().Add(5 * time.Second)
	for {
		if _, ok := begin(t, s).Tool("changed"); ok {
			break
		}
		if time.Now().After(deadline) {
			t.Fatal("the new tool is not offered")
		}
		time.Sleep(time.Millisecond)
	}
}

// TestLoopBounds: rounds, calls, bytes and time of a request are bounded.
func TestLoopBounds(t *testing.T) {
	s := open(t, child(t, "tools"), func(l *config.MCPLimits) {
		l.Rounds, l.Calls, l.ResultBytes, l.Parallel = 2, 3, 100, 2
		l.Time = config.Duration(300 * time.Millisecond)
	})
	l := begin(t, s)
	out := ask(t, l, `greet {"name":"a"}`, `big {"n":99}`)
	if said := out[0].Said() + out[1].Said(); !strings.Contains(said, "mcp_limits.result_bytes") {
		t.Errorf("results of 103 bytes: %v", out)
	}
	if !l.Open() {
		t.Error("a second round is not open")
	}
	if out := ask(t, l, `greet {"name":"a"}`, `greet {"name":"b"}`); out[0].Err == nil && out[1].Err == nil {
		t.Errorf("four calls: %v", out)
	}
	if l.Open() {
		t.Error("a third round is open")
	}
	l = begin(t, s)
	if out := ask(t, l, `slow {"n":60000}`)[0]; !strings.Contains(out.Said(), "mcp_limits.time") {
		t.Errorf("a call beyond the time: %v", out)
	}
	if l.Open() {
		t.Error("a round is open beyond the time")
	}
}

// TestCanceled: a client that leaves ends its calls, and not the server.
func TestCanceled(t *testing.T) {
	s := open(t, child(t, "tools"), nil)
	l := begin(t, s)
	ctx, cancel := context.WithCancelCause(t.Context())
	left := errors.New("left")
	time.AfterFunc(50*time.Millisecond, func() { cancel(left) })
	out := l.Run(ctx, []generate.Call{{Name: "slow", Arguments: `{"n":60000}`}}, func(int, Outcome) {})
	if !errors.Is(out[0].Err, left) {
		t.Errorf("got %v", out[0])
	}
	if out := ask(t, l, `greet {"name":"x"}`)[0]; out.Text != "Hi x" {
		t.Errorf("afterwards: %v", out)
	}
}

// TestMany: many requests at once share one process, and a limited number of calls.
func TestMany(t *testing.T) {
	s := open(t, child(t, "tools"), nil)
	var all sync.WaitGroup
	for i := range 8 {
		all.Go(func() {
			l, err := s.Begin(t.Context(), "", want, nil, 0)
			if err != nil {
				t.Error(err)
				return
			}
			name := fmt.Sprint("n", i)
			out := l.Run(t.Context(), []generate.Call{{Name: "greet", Arguments: `{"name":"` + name + `"}`},
				{Name: "slow", Arguments: `{"n":1}`}}, func(int, Outcome) {})
			if out[0].Text != "Hi "+name || out[1].Text != "done" {
				t.Errorf("got %v", out)
			}
		})
	}
	all.Wait()
}

// TestWants: labels, keys, allowed tools and names.
func TestWants(t *testing.T) {
	m := child(t, "tools")
	m.Keys, m.AllowedTools = []string{"me"}, []string{"greet", "big"}
	s := open(t, m, nil)
	refused := func(key string, w Want, text string) {
		t.Helper()
		var rule *generate.Invalid
		if _, err := s.Begin(t.Context(), key, []Want{w}, nil, 0); !errors.As(err, &rule) ||
			!strings.Contains(rule.Msg, text) {
			t.Errorf("got %v, want %q", err, text)
		}
	}
	refused("other", want[0], "this server has none")
	refused("me", Want{Label: "files", Field: "x"}, "these are: tools")
	refused("me", Want{Label: "tools", Field: "x", Allowed: []string{"crash"}}, "no tool `crash`")
	l, err := s.Begin(t.Context(), "me", []Want{{Label: "tools", Field: "x", ReadOnly: true}}, nil, 0)
	if err != nil || len(l.Lists()[0].Tools) != 1 {
		t.Errorf("read only: %v", err)
	}
	l, err = s.Begin(t.Context(), "me", want, []string{"greet"}, 0)
	if err != nil {
		t.Fatal(err)
	}
	if one, ok := l.Tool("tools_greet"); !ok || one.Own != "greet" {
		t.Errorf("a name that the client has: %v", l.Lists())
	}
	if l, err := s.Begin(t.Context(), "me", nil, nil, 0); l != nil || err != nil {
		t.Errorf("nothing: %v %v", l, err)
	}
}

// TestHTTP: a server at a URL gets its headers, is not followed elsewhere, and its replies are bounded.
func TestHTTP(t *testing.T) {
	var mu sync.Mutex
	var seen string
	tools := mcptest.Handler()
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		mu.Lock()
		seen = r.Header.Get("Authorization")
		mu.Unlock()
		tools.ServeHTTP(w, r)
	}))
	defer at.Close()
	m := config.MCP{Name: "tools", Endpoint: at.URL, Headers: map[string]string{"Authorization": "Bearer x"},
		ResultBytes: 1000, Timeout: config.Duration(2 * time.Second)}
	s := open(t, m, nil)
	out := ask(t, begin(t, s), `greet {"name":"Ada"}`, `big {"n":10000000}`)
	if out[0].Text != "Hi Ada" {
		t.Errorf("greet: %v", out[0])
	}
	if out[1].Err == nil {
		t.Error("ten million bytes are passed on")
	}
	mu.Lock()
	if seen != "Bearer x" {
		t.Errorf("the header is %q", seen)
	}
	mu.Unlock()
	s.Close()
	away := httptest.NewServer(http.RedirectHandler(at.URL, http.StatusTemporaryRedirect))
	defer away.Close()
	m.Endpoint = away.URL
	s = open(t, m, nil)
	if _, err := s.Begin(t.Context(), "", want, nil, 0); !errors.Is(err, ErrList) ||
		!strings.Contains(err.Error(), "redirects") {
		t.Errorf("a redirect: %v", err)
	}
}

// TestSecretEndpoint: user and query of an endpoint reach the server, and neither errors nor the log.
func TestSecretEndpoint(t *testing.T) {
	tools, seen := mcptest.Handler(), make(chan string, 100)
	at := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		user, password, _ := r.BasicAuth()
		select {
		case seen <- user + ":" + password + " " + r.URL.RequestURI():
		default:
		}
		tools.ServeHTTP(w, r)
	}))
	defer at.Close()
	secret := func(url string) string { return strings.Replace(url, "://", "://u:PW@", 1) + "/mcp?key=PW" }
	serves := open(t, config.MCP{Name: "tools", Endpoint: secret(at.URL)}, nil)
	out := ask(t, begin(t, serves), `greet {"name":"Ada"}`)
	serves.Close()
	if got := <-seen; out[0].Text != "Hi Ada" || got != "u:PW /mcp?key=PW" {
		t.Errorf("%v, the server was asked %s", out[0], got)
	}
	gone := httptest.NewServer(http.NotFoundHandler())
	gone.Close()
	away := httptest.NewServer(http.RedirectHandler(secret(gone.URL), http.StatusTemporaryRedirect))
	defer away.Close()
	for _, url := range []string{gone.URL, away.URL} {
		c, log := config.Default(), bytes.Buffer{}
		c.MCP = []config.MCP{{Name: "tools", Endpoint: secret(url)}}
		s := New(c, "1", nil, slog.New(slog.NewTextHandler(&log, nil)))
		_, err := s.Begin(t.Context(), "", want, nil, 0)
		s.Close()
		if all := fmt.Sprint(err) + log.String(); err == nil || strings.Contains(all, "PW") ||
			!strings.Contains(all, "/mcp") || !strings.Contains(log.String(), "cannot be reached") {
			t.Errorf("%v\n%s", err, &log)
		}
	}
}

// TestErrorsAreBounded: what a server says in errors is bounded, and counts as results do.
func TestErrorsAreBounded(t *testing.T) {
	tools := mcptest.New()
	tools.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method != "tools/call" {
				return next(ctx, method, r)
			}
			text := strings.Repeat("x", 1900)
			if r.(*sdk.CallToolRequest).Params.Name == "fails" {
				return &sdk.CallToolResult{IsError: true, Content: []sdk.Content{&sdk.TextContent{Text: text}}}, nil
			}
			return nil, errors.New(text)
		}
	})
	at := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return tools }, nil))
	defer at.Close()
	m := config.MCP{Name: "tools", Endpoint: at.URL, ResultBytes: 2000, Timeout: config.Duration(5 * time.Second)}
	s := open(t, m, func(l *config.MCPLimits) { l.ResultBytes = 3000 })
	l := begin(t, s)
	out := ask(t, l, `greet {"name":"a"}`)
	if said := out[0].Said(); len(said) > maxLine+20 || !strings.Contains(said, "xxx") {
		t.Errorf("an error of %d bytes is passed on", len(said))
	}
	ask(t, l, `fails {"n":0}`)
	if l.bytes < maxLine+1900 {
		t.Errorf("errors count as %d bytes", l.bytes)
	}
	if out := ask(t, l, `fails {"n":0}`); !strings.Contains(out[0].Said(), "mcp_limits.result_bytes") {
		t.Errorf("an error beyond the bytes of all results: %.80s", out[0].Said())
	}
	s.Close()
}

// TestListFails: a server that is connected and cannot list its tools is left alone for a while.
func TestListFails(t *testing.T) {
	var lists atomic.Int32
	tools := mcptest.New()
	tools.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				lists.Add(1)
				return nil, errors.New("no list")
			}
			return next(ctx, method, r)
		}
	})
	at := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return tools }, nil))
	defer at.Close()
	s := open(t, config.MCP{Name: "tools", Endpoint: at.URL}, nil)
	for range 3 {
		if _, err := s.Begin(t.Context(), "", want, nil, 0); !errors.Is(err, ErrList) {
			t.Errorf("got %v", err)
		}
	}
	if n := lists.Load(); n != 1 {
		t.Errorf("it was asked %d times at once", n)
	}
	s.Close()
}

// TestListsOnce: of requests that come together one lists the tools.
func TestListsOnce(t *testing.T) {
	var lists atomic.Int32
	tools := mcptest.New()
	tools.AddReceivingMiddleware(func(next sdk.MethodHandler) sdk.MethodHandler {
		return func(ctx context.Context, method string, r sdk.Request) (sdk.Result, error) {
			if method == "tools/list" {
				lists.Add(1)
				time.Sleep(20 * time.Millisecond)
			}
			return next(ctx, method, r)
		}
	})
	at := httptest.NewServer(sdk.NewStreamableHTTPHandler(func(*http.Request) *sdk.Server { return tools }, nil))
	defer at.Close()
	s := open(t, config.MCP{Name: "tools", Endpoint: at.URL}, nil)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			if _, err := s.Begin(t.Context(), "", want, nil, 0); err != nil {
				t.Error(err)
			}
		})
	}
	all.Wait()
	if n := lists.Load(); n != 1 {
		t.Errorf("the tools were listed %d times", n)
	}
	s.Close()
}
