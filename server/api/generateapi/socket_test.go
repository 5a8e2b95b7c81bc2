package generateapi

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"net"
	"net/http"
	"net/http/httptest"
	"reflect"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/coder/websocket"

	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/quota"
)

// hosted is a kit behind a listener, told to stop by stop.
type hosted struct {
	stop context.CancelFunc
	done chan error
}

// serve makes k's URL that of a server which drains.
func serve(t *testing.T, k *kit) hosted {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(t.Context())
	t.Cleanup(stop)
	h := hosted{stop, make(chan error, 1)}
	go func() { h.done <- k.house.Serve(ctx, l) }()
	k.url = "http://" + l.Addr().String()
	return h
}

// dial opens a socket.
func (k *kit) dial(t *testing.T, header ...string) *websocket.Conn {
	t.Helper()
	h := http.Header{}
	for i := 0; i < len(header); i += 2 {
		h.Set(header[i], header[i+1])
	}
	c, _, err := websocket.Dial(t.Context(), k.url+"/api/ws", &websocket.DialOptions{HTTPHeader: h})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { c.CloseNow() })
	return c
}

func say(t *testing.T, c *websocket.Conn, message string) {
	t.Helper()
	if err := c.Write(t.Context(), websocket.MessageText, []byte(message)); err != nil {
		t.Fatal(err)
	}
}

var timing = regexp.MustCompile(`"execution_time": [0-9.e-]+`)

// hear reads n messages, without their timings.
func hear(t *testing.T, c *websocket.Conn, n int) []string {
	t.Helper()
	var all []string
	for range n {
		kind, b, err := c.Read(t.Context())
		if err != nil || kind != websocket.MessageText || !json.Valid(b) {
			t.Fatalf("%v %q after %q", err, b, all)
		}
		all = append(all, timing.ReplaceAllString(string(b), `"execution_time": T`))
	}
	return all
}

func expect(t *testing.T, c *websocket.Conn, want ...string) {
	t.Helper()
	if got := hear(t, c, len(want)); !reflect.DeepEqual(got, want) {
		t.Errorf("got\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestGenerateAPISocket(t *testing.T) {
	k := newKit(t)
	c := k.dial(t)
	say(t, c, `{"prompts":[{"request_id":"a","prompt":`+quote(dogs)+
		`},{"request_id":"b","prompt":"x"}],"only_new_tokens":false,"stream_response":true,"generation_config":{"max_new_tokens":2}}`)
	expect(t, c,
		`[{"request_id": "a", "type": "ACCEPTED"}, {"request_id": "b", "type": "ACCEPTED"}]`,
		`[{"request_id": "a", "type": "STARTED"}, {"request_id": "b", "type": "STARTED"}]`,
		`[{"request_id": "a", "text": "<s> [INST] Generate a short poem about 1000 dogs [/INST]\n\n", "type": "INITIALIZED"}, {"request_id": "b", "text": "<s> x", "type": "INITIALIZED"}]`,
		`[{"request_id": "a", "text": "T", "type": "PROGRESS"}, {"request_id": "b", "text": ".", "type": "PROGRESS"}]`,
		`[{"request_id": "a", "text": "a", "type": "PROGRESS"}, {"request_id": "b", "text": ".", "type": "PROGRESS"}]`,
		`[{"request_id": "a", "text": "<s> [INST] Generate a short poem about 1000 dogs [/INST]\n\nTa", "is_eos": false, "new_tokens_count": 2, "execution_time": T, "type": "COMPLETE"}, `+
			`{"request_id": "b", "text": "<s> x..", "is_eos": false, "new_tokens_count": 2, "execution_time": T, "type": "COMPLETE"}]`)
	// Without streaming there are neither INITIALIZED nor PROGRESS.
	say(t, c, `{"prompts":[{"request_id":"s","prompt":" "}],"stream_response":false}`)
	expect(t, c,
		`[{"request_id": "s", "type": "ACCEPTED"}]`,
		`[{"request_id": "s", "type": "STARTED"}]`,
		`[{"request_id": "s", "text": "Nothing was asked.</s>", "is_eos": true, "new_tokens_count": 19, "execution_time": T, "type": "COMPLETE"}]`)
	// One that ends sooner is left out of the events, and goes on by HTTP.
	say(t, c,
		`{"prompts":[{"request_id":"m","prompt":"x"},{"request_id":"n","prompt":" "}],"generation_config":{"max_new_tokens":19}}`)
	all := hear(t, c, 23)
	if want := `[{"request_id": "m", "text": "", "type": "INITIALIZED"}, {"request_id": "n", "text": "", "type": "INITIALIZED"}]`; all[2] != want {
		t.Errorf("got %s, want %s", all[2], want)
	}
	say(t, c, `{"prompts":[{"request_id":"m"},{"request_id":"n"}],"generation_config":{"max_new_tokens":1}}`)
	expect(t, c,
		`[{"request_id": "m", "type": "ACCEPTED"}, {"request_id": "n", "type": "ACCEPTED"}]`,
		`[{"request_id": "m", "type": "STARTED"}, {"request_id": "n", "type": "STARTED"}]`,
		`[{"request_id": "m", "text": "", "type": "INITIALIZED"}, {"request_id": "n", "text": "", "type": "INITIALIZED"}]`,
		`[{"request_id": "m", "text": ".", "type": "PROGRESS"}]`,
		`[{"request_id": "m", "text": ".", "is_eos": false, "new_tokens_count": 1, "execution_time": T, "type": "COMPLETE"}, `+
			`{"request_id": "n", "text": "", "is_eos": true, "new_tokens_count": 0, "execution_time": T, "type": "COMPLETE"}]`)
	a := k.do(t, "POST", "/api/generate-batch",
		`{"prompts":[{"request_id":"m"},{"request_id":"n"}],"generation_config":{"max_new_tokens":2}}`)
	if a.StatusCode != 206 || a.text != `[{"request_id": "m", "response": ".."}, {"request_id": "n", "response": ""}]` {
		t.Errorf("%d %s", a.StatusCode, a.text)
	}
}

func TestGenerateAPISocketErrors(t *testing.T) {
	k := newKit(t, func(o *Options, _ *generate.Limits, _ *config.Server) { o.Origins = []string{"https://mine"} })
	c := k.dial(t, "Origin", "https://mine")
	shape := `[{"error": "Invalid prompts or generation_config"}]`
	for message, want := range map[string]string{
		`{`:                               `[{"error": "Invalid JSON received"}]`,
		`[]`:                              shape,
		`{}`:                              shape,
		`{"prompts":[{"request_id":""}]}`: shape,
		`{"prompts":[{"request_id":"a"}],"generation_config":{"top_k":"many"}}`:                                        shape,
		`{"prompts":[{"request_id":"a"},{"request_id":"a"}]}`:                                                          `[{"error": "Duplicate request_ids"}]`,
		`{"prompts":[{"request_id":"1"},{"request_id":"2"},{"request_id":"3"},{"request_id":"4"},{"request_id":"5"}]}`: "[{\"error\": \"`prompts` must hold at most 4 prompts (generate_api.max_prompts), given 5\"}]",
	} {
		say(t, c, message)
		expect(t, c, want)
	}
	say(t, c, `{"model":"other","prompts":[{"request_id":"a"}]}`)
	expect(t, c,
		"[{\"error\": \"This socket is for the model `fake`: open /api/ws?model=NAME for another, given `other`\"}]")
	for _, mine := range []string{`"fake"`, `"tgi"`, `""`, `null`} {
		say(t, c, `{"model":`+mine+`,"prompts":[{"request_id":"m"}],"stream_response":false}`)
		if got := hear(t, c, 3)[2]; !strings.Contains(got, "Nothing was asked.") {
			t.Errorf("model %s: %s", mine, got)
		}
	}
	if err := c.Write(t.Context(), websocket.MessageBinary, []byte{0, 1}); err != nil {
		t.Fatal(err)
	}
	expect(t, c, `[{"error": "Thrift is not supported: send JSON in text messages"}]`)
	say(t, c, `{"prompts":[{"request_id":"a"},{"request_id":"b"}],"generation_config":{"top_k":-1}}`)
	expect(t, c, `[{"request_id": "a", "type": "ACCEPTED"}, {"request_id": "b", "type": "ACCEPTED"}]`,
		"[{\"request_id\": \"a\", \"type\": \"ERROR\", \"error\": \"`top_k` must be >= 0, given -1\"}, {\"request_id\": \"b\", \"type\": \"ERROR\", \"error\": \"`top_k` must be >= 0, given -1\"}]")
	say(t, c, strings.Repeat(" ", 10_001))
	if _, _, err := c.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusMessageTooBig {
		t.Errorf("a long message: %v", err)
	}
	_, res, err := websocket.Dial(t.Context(), k.url+"/api/ws",
		&websocket.DialOptions{HTTPHeader: http.Header{"Origin": {"https://other"}}})
	if err == nil || res == nil || res.StatusCode != http.StatusForbidden {
		t.Errorf("another origin: %v", err)
	}
	if a := k.do(t, "GET", "/api/ws", ""); a.StatusCode != http.StatusUpgradeRequired {
		t.Errorf("no socket: %d", a.StatusCode)
	}
}

// TestGenerateAPISocketShares: requests run side by side on one socket, an id is
// in use for all sockets, and closing a socket ends what runs on it.
func TestGenerateAPISocketShares(t *testing.T) {
	left := make(chan struct{}, 2)
	k := newKit(t, func(o *Options, _ *generate.Limits, _ *config.Server) {
		o.Store = watched{o.Store, func() { left <- struct{}{} }}
	})
	k.engine.Step = make(chan struct{})
	c, other := k.dial(t), k.dial(t)
	say(t, c, `{"prompts":[{"request_id":"a","prompt":"x"}]}`)
	hear(t, c, 3)
	say(t, c, `{"prompts":[{"request_id":"b","prompt":"x"}]}`)
	hear(t, c, 3)
	say(t, other, `{"prompts":[{"request_id":"a","prompt":"x"}]}`)
	expect(t, other, `[{"request_id": "a", "type": "ACCEPTED"}]`,
		"[{\"request_id\": \"a\", \"type\": \"ERROR\", \"error\": \"request_id `a` is in use: the request before has not ended\"}]")
	if n := k.engine.Running(); n != 2 {
		t.Errorf("%d run, want 2", n)
	}
	k.engine.Step <- struct{}{}
	if got := hear(t, c, 1)[0]; !strings.HasSuffix(got, `"text": ".", "type": "PROGRESS"}]`) {
		t.Error(got)
	}
	if err := c.Close(websocket.StatusNormalClosure, ""); err != nil {
		t.Error(err)
	}
	<-left
	<-left
	k.idle(t)
}

// TestGenerateAPISocketBounded: a socket has so many requests at once.
func TestGenerateAPISocketBounded(t *testing.T) {
	k := newKit(t, func(_ *Options, l *generate.Limits, _ *config.Server) { l.MaxConcurrent = 100 })
	k.engine.Step = make(chan struct{})
	c := k.dial(t)
	for i := range maxJobs {
		say(t, c, `{"prompts":[{"request_id":"`+string(rune('a'+i))+`","prompt":"x"}],"stream_response":false}`)
		hear(t, c, 2)
	}
	say(t, c, `{"prompts":[{"request_id":"z","prompt":"x"}]}`)
	expect(t, c, `[{"error": "Too many requests on this socket: 16 have not ended"}]`)
}

// TestGenerateAPISocketDrains: a socket on which something runs is closed behind
// it, one on which nothing runs at once.
func TestGenerateAPISocketDrains(t *testing.T) {
	k := newKit(t)
	k.api.pollInterval = time.Millisecond
	k.engine.Step = make(chan struct{})
	h := serve(t, k)
	busy, idle := k.dial(t), k.dial(t)
	say(t, busy, `{"prompts":[{"request_id":"a","prompt":"x"}],"generation_config":{"max_new_tokens":2}}`)
	hear(t, busy, 3)
	h.stop()
	expect(t, idle, `[{"error": "Server is shutting down."}]`)
	if _, _, err := idle.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the idle one: %v", err)
	}
	say(t, busy, `{"prompts":[{"request_id":"b","prompt":"x"}]}`)
	expect(t, busy, `[{"error": "Server is shutting down."}]`)
	k.engine.Step <- struct{}{}
	k.engine.Step <- struct{}{}
	all := hear(t, busy, 4)
	if !strings.Contains(all[2], `"text": "..", "is_eos": false`) ||
		all[3] != `[{"error": "Server is shutting down."}]` {
		t.Errorf("the busy one: %s", strings.Join(all, "\n"))
	}
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy one: %v", err)
	}
	if err := <-h.done; err != nil {
		t.Error(err)
	}
}

// TestGenerateAPISocketStopping: the sockets of a model that is about to be stopped are
// closed in the same way, while the server goes on.
func TestGenerateAPISocketStopping(t *testing.T) {
	var stopping atomic.Bool
	k := newKit(t)
	k.model.Stopping = stopping.Load
	k.api.pollInterval = time.Millisecond
	k.engine.Step = make(chan struct{})
	busy, idle := k.dial(t), k.dial(t)
	say(t, busy, `{"prompts":[{"request_id":"a","prompt":"x"}],"generation_config":{"max_new_tokens":1}}`)
	hear(t, busy, 3)
	stopping.Store(true)
	const told = `[{"error": "The model is being stopped."}]`
	expect(t, idle, told)
	if _, _, err := idle.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the idle one: %v", err)
	}
	say(t, busy, `{"prompts":[{"request_id":"b","prompt":"x"}]}`)
	expect(t, busy, told)
	k.engine.Step <- struct{}{}
	all := hear(t, busy, 3)
	if !strings.Contains(all[1], `"text": ".", "is_eos": false`) || all[2] != told {
		t.Errorf("the busy one: %s", strings.Join(all, "\n"))
	}
	if _, _, err := busy.Read(t.Context()); websocket.CloseStatus(err) != websocket.StatusGoingAway {
		t.Errorf("the busy one: %v", err)
	}
	if a := k.do(t, "GET", "/api/ready", ""); a.StatusCode != 200 {
		t.Errorf("the server is not ready: %d", a.StatusCode)
	}
}

// TestGenerateAPISocketDead: a client that does not answer loses its socket.
func TestGenerateAPISocketDead(t *testing.T) {
	left := make(chan struct{})
	k := newKit(t, func(o *Options, _ *generate.Limits, _ *config.Server) {
		o.WriteTimeout = 20 * time.Millisecond
		o.Store = watched{o.Store, func() { close(left) }}
	})
	k.api.pollInterval, k.api.pingEvery = time.Millisecond, 1
	k.engine.Step = make(chan struct{})
	c := k.dial(t)
	say(t, c, `{"prompts":[{"request_id":"a","prompt":"x"}]}`)
	hear(t, c, 3) // and nothing more is read, so that no ping is answered
	<-left
}

// limited puts a key before k, whose usage it returns.
func limited(t *testing.T, k *kit, l quota.Limits) *quota.Quotas {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	q, err := quota.New(map[string]quota.Limits{"team": l}, []string{"team"}, nil, log)
	if err != nil {
		t.Fatal(err)
	}
	k.house = server.New(server.Options{Config: config.Default().Server, APIs: []server.API{k.api}, Log: log, Quotas: q,
		Keys:    []config.Key{{Name: "team", Key: "secret", Scopes: []string{config.ScopeGenerate}}},
		Healthy: k.engine.Healthy})
	ts := httptest.NewServer(k.house)
	t.Cleanup(ts.Close)
	k.url = ts.URL
	return q
}

var later = regexp.MustCompile(`try again in [0-9a-z.]+`)

// TestGenerateAPISocketKeys: the limits of a key hold for the messages of a socket as for the bodies of requests: as
// many are served, the others are told the same, and the same is counted.
func TestGenerateAPISocketKeys(t *testing.T) {
	const asked = 6
	body := func(i int) string {
		return fmt.Sprintf(`{"prompts":[{"request_id":"r%d","prompt":"x"}],"stream_response":false,`+
			`"generation_config":{"max_new_tokens":8}}`, i)
	}
	// byHTTP and bySocket return what each of the requests is told that are refused, "" of those that are served.
	byHTTP := func(t *testing.T, k *kit, together bool) []string {
		var told []string
		var all sync.WaitGroup
		for i := range asked {
			answered, before := make(chan answer, 1), k.engine.Running()
			all.Go(func() {
				answered <- k.do(t, "POST", "/api/generate-batch", body(i), "Authorization", "Bearer secret")
			})
			text := ""
			for done := false; !done; {
				select {
				case a := <-answered:
					if done = true; a.StatusCode == 429 {
						text = a.text
					} else if a.StatusCode != 206 {
						t.Errorf("%d %s", a.StatusCode, a.text)
					}
				default:
					done = together && k.engine.Running() > before
				}
				runtime.Gosched()
			}
			told = append(told, text)
		}
		if together {
			close(k.engine.Step)
		}
		all.Wait()
		return told
	}
	bySocket := func(t *testing.T, k *kit, together bool) []string {
		var told []string
		c, left := k.dial(t, "Authorization", "Bearer secret"), 0
		for i := range asked {
			say(t, c, body(i))
			refused, want := "", 3
			if together {
				want = 2
			}
			for want > 0 {
				var events []struct{ Type, Error string }
				event := strings.ReplaceAll(hear(t, c, 1)[0], `"execution_time": T`, `"execution_time": 0`)
				if err := json.Unmarshal([]byte(event), &events); err != nil {
					t.Fatal(err)
				}
				if want--; events[0].Type == eventError {
					refused, want = events[0].Error, 0
				}
			}
			if told = append(told, refused); refused == "" {
				left++
			}
		}
		if together {
			close(k.engine.Step)
			hear(t, c, left)
		}
		return told
	}
	for name, c := range map[string]struct {
		limits   quota.Limits
		together bool
		served   int
	}{
		"requests per minute": {limits: quota.Limits{RequestsPerMinute: 3}, served: 3},
		"tokens per minute":   {limits: quota.Limits{TokensPerMinute: 25}, served: 2}, // of two and eight tokens
		"tokens per day":      {limits: quota.Limits{TokensPerDay: 45}, served: 4},
		"at the same time":    {limits: quota.Limits{Concurrent: 2}, together: true, served: 2},
		"none":                {served: asked},
	} {
		t.Run(name, func(t *testing.T) {
			var told [2][]string
			var used [2]quota.Usage
			for i, by := range []func(*testing.T, *kit, bool) []string{byHTTP, bySocket} {
				k := newKit(t)
				q := limited(t, k, c.limits)
				if c.together {
					k.engine.Step = make(chan struct{})
				}
				for _, text := range by(t, k, c.together) {
					told[i] = append(told[i], later.ReplaceAllString(text, "try again"))
				}
				for used[i] = q.Usage()[1]; used[i].Running > 0; used[i] = q.Usage()[1] {
					runtime.Gosched() // the handler of the last one is about to return
				}
			}
			served := 0
			for _, text := range told[0] {
				if text == "" {
					served++
				}
			}
			if served != c.served || !reflect.DeepEqual(told[0], told[1]) {
				t.Errorf("%d are served, want %d\nby HTTP   %q\nby socket %q", served, c.served, told[0], told[1])
			}
			if used[0].Generated != uint64(8*c.served) || !reflect.DeepEqual(used[0], used[1]) {
				t.Errorf("counted\nby HTTP   %+v\nby socket %+v", used[0], used[1])
			}
		})
	}
}

// TestGenerateAPISocketMemory: sockets whose messages find no memory are told so and go on, and the memory is free when
// those that have it end.
func TestGenerateAPISocketMemory(t *testing.T) {
	const size = 1 << 20
	k := newKit(t, func(o *Options, _ *generate.Limits, c *config.Server) {
		o.MessageLimit, c.PayloadLimit, c.PayloadMemory = 2*size, 2*size, 3*size
	})
	long := `{"prompts":[{"request_id":"a","prompt":"` + strings.Repeat("x", size)
	var holders []io.WriteCloser
	begin := func() *websocket.Conn {
		c := k.dial(t)
		c.SetReadLimit(-1)
		w, err := c.Writer(t.Context(), websocket.MessageText)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := io.WriteString(w, long); err != nil {
			t.Fatal(err)
		}
		holders = append(holders, w)
		return c
	}
	told := make(chan *websocket.Conn, 1)
	var all []*websocket.Conn
	for range 8 { // the server reads them all, each in its time; those that have memory hear nothing
		c := begin()
		all = append(all, c)
		go func() {
			if _, b, err := c.Read(t.Context()); err == nil && strings.Contains(string(b), "(server.payload_memory)") {
				told <- c
			}
		}()
	}
	for range 5 { // 3 MiB hold three of them, with what is free of each
		c := <-told
		i := slices.Index(all, c)
		if _, err := io.WriteString(holders[i], `"}]}`); err != nil {
			t.Fatal(err)
		}
		if err := holders[i].Close(); err != nil {
			t.Fatal(err)
		}
		say(t, c, fmt.Sprintf(`{"prompts":[{"request_id":"go on%d"}],"stream_response":false}`, i))
		if got := hear(t, c, 3)[2]; !strings.Contains(got, "Nothing was asked.") {
			t.Error(got)
		}
	}
	for _, c := range all {
		c.CloseNow()
	}
	for { // until the server has noticed
		a := k.do(t, "POST", "/api/generate-batch", long+`"}]}`)
		if a.StatusCode == http.StatusBadRequest { // it is too long for the model
			break
		}
		if a.StatusCode != http.StatusTooManyRequests {
			t.Fatalf("%d %s", a.StatusCode, a.text)
		}
	}
}
