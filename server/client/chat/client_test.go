package chat

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"
	"testing/iotest"
	"time"

	"tgi/server/sse"
)

func nothing(Delta) error { return nil }

// TestChatSplits: however a stream is cut into reads and its lines end, the
// answer is the same.
func TestChatSplits(t *testing.T) {
	stream := strings.Join([]string{
		": a comment", "event: x", `data: {"choices":[{"index":0,"delta":{"role":"assistant","content":""}}]}`, "",
		`data: {"choices":[{"index":1,"delta":{"content":"other"},"finish_reason":"length"}]}`, "",
		`data: {"choices":[{"index":0,`, `data: "delta":{"reasoning":"hm"}}]}`, "",
		`data:{"choices":[{"index":0,"delta":{"content":"né","tool_calls":[{"index":3,"id":"c","function":{"name":"f"}}]}}],"usage":null}`, "",
		`data: {"choices":[{"index":0,"delta":{"tool_calls":[{"index":1,"function":{"name":"g","arguments":"{"}},{"index":3,"function":{"arguments":"[]"}}]}}]}`, "",
		`data: {"choices":[{"index":0,"delta":{"refusal":"!","tool_calls":[{"index":1,"function":{"arguments":"}"}}]},"finish_reason":"tool_calls"}]}`, "",
		`data: {"choices":[],"usage":{"completion_tokens":7}}`, "",
		`data: [DONE]`, "", `data: {"error":"after the end"}`, "", "",
	}, "\n")
	want := Answer{
		Text: "né!", Finish: "tool_calls", Tokens: 7,
		Calls: []Call{{"call_1", "g", "{}"}, {"c", "f", "[]"}},
	}
	shown := []Delta{{Reasoning: "hm"}, {Text: "né"}, {Call: true}, {Call: true}, {Call: true}, {Text: "!"},
		{Call: true}}
	crlf := strings.ReplaceAll(stream, "\n", "\r\n")
	for name, r := range map[string]io.Reader{
		"whole": strings.NewReader(stream), "bytes": iotest.OneByteReader(strings.NewReader(stream)),
		"crlf": strings.NewReader(crlf), "crlf bytes": iotest.OneByteReader(strings.NewReader(crlf)),
	} {
		var saw []Delta
		in := reading{see: func(d Delta) error {
			saw = append(saw, d)
			return nil
		}}
		if err := in.all(sse.New(r)); err != nil {
			t.Errorf("%s: %v", name, err)
		}
		if got := in.result(); !reflect.DeepEqual(got, want) || !reflect.DeepEqual(saw, shown) {
			t.Errorf("%s: got %+v\nshown %+v\nwant %+v\nshown %+v", name, got, saw, want, shown)
		}
	}
}

// TestChatBrokenStreams: an answer that is not whole is an error of its kind.
func TestChatBrokenStreams(t *testing.T) {
	const begin = "data: {\"choices\":[{\"index\":0,\"delta\":{\"content\":\"Hi\"}}]}\n\n"
	const end = "data: {\"choices\":[{\"index\":0,\"delta\":{},\"finish_reason\":\"stop\"}]}\n\n"
	cut := errors.New("cut")
	var calls strings.Builder
	for i := range maxCalls + 1 {
		fmt.Fprintf(&calls,
			"data: {\"choices\":[{\"index\":0,\"delta\":{\"tool_calls\":[{\"index\":%d,\"id\":\"a\"}]}}]}\n\n", i)
	}
	for name, c := range map[string]struct {
		stream io.Reader
		want   error
	}{
		"whole without the mark":  {strings.NewReader(begin + end), nil},
		"cut behind the reason":   {io.MultiReader(strings.NewReader(begin+end), iotest.ErrReader(cut)), ErrIncomplete},
		"empty":                   {strings.NewReader(""), ErrIncomplete},
		"no reason":               {strings.NewReader(begin), ErrIncomplete},
		"no reason, but the mark": {strings.NewReader(begin + "data: [DONE]\n\n"), ErrIncomplete},
		"an event cut short":      {strings.NewReader(begin + strings.TrimRight(end, "\n")), ErrIncomplete},
		"a connection cut":        {io.MultiReader(strings.NewReader(begin), iotest.ErrReader(cut)), cut},
		"no JSON":                 {strings.NewReader(begin + "data: hello\n\n"), ErrMalformed},
		"another shape": {strings.NewReader(begin + "data: {\"choices\":[{\"delta\":\"x\"}]}\n\n"),
			ErrMalformed},
		"a long line": {strings.NewReader("data: " + strings.Repeat("x", sse.MaxEvent+1)), ErrMalformed},
		"a long event": {strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", sse.MaxEvent/4)+"\n",
			5) + "\n"), ErrMalformed},
		"many calls": {strings.NewReader(calls.String()), ErrMalformed},
	} {
		r := reading{see: nothing}
		if err := r.all(sse.New(c.stream)); !errors.Is(err, c.want) {
			t.Errorf("%s: got %v, want %v", name, err, c.want)
		}
	}
}

// TestChatAsk: an answer ends with its reader, and with its context, whose cause
// is told; what came before is returned.
func TestChatAsk(t *testing.T) {
	left := make(chan struct{})
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		play(w, r, "say Hel|lo; hang")
		close(left)
	}))
	defer ts.Close()
	c, err := NewClient(ts.URL, "", "m", nil)
	if err != nil {
		t.Fatal(err)
	}
	full := errors.New("full")
	a, err := c.Ask(t.Context(), Question{}, func(d Delta) error {
		if d.Text == "lo" {
			return full
		}
		return nil
	})
	if !errors.Is(err, full) || a.Text != "Hello" {
		t.Errorf("got %+v, %v", a, err)
	}
	<-left
	left = make(chan struct{})
	ctx, cancel := context.WithCancelCause(t.Context())
	a, err = c.Ask(ctx, Question{}, func(Delta) error {
		cancel(ErrInterrupted)
		return nil
	})
	if err != ErrInterrupted || !strings.HasPrefix("Hello",
		a.Text) || a.Text == "" { // not wrapped in where it was noticed
		t.Errorf("got %+v, %v", a, err)
	}
	<-left
	if _, err = c.Ask(ctx, Question{}, nothing); !errors.Is(err, ErrInterrupted) {
		t.Errorf("got %v before the request", err)
	}
}

// TestChatAddresses: the forms of a server's URL, its key and its models.
func TestChatAddresses(t *testing.T) {
	for _, bad := range []string{"", "localhost:3000", "ftp://host", "http://", "/v1"} {
		if _, err := NewClient(bad, "", "", nil); err == nil {
			t.Errorf("%q was taken", bad)
		}
	}
	list, status := "", http.StatusOK
	mux := http.NewServeMux()
	mux.HandleFunc("GET /api/v1/models", func(w http.ResponseWriter, r *http.Request) {
		if r.Header.Get("Authorization") != "Bearer k" {
			t.Errorf("header %v", r.Header)
		}
		w.WriteHeader(status)
		io.WriteString(w, list)
	})
	ts := httptest.NewServer(mux)
	defer ts.Close()
	for _, suffix := range []string{"", "/", "/v1", "/v1/"} {
		list, status = `{"data":[{"id":"one"}]}`, http.StatusOK
		c, err := NewClient(ts.URL+"/api"+suffix, "k", "", nil)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.FindModel(t.Context()); err != nil || c.Model() != "one" {
			t.Errorf("%q: found %q, %v", suffix, c.Model(), err)
		}
	}
	for body, text := range map[string]string{
		`{"data":[{"id":"one"},{"id":"two"}]}`: "several models: one, two",
		`{"data":[]}`:                          "lists no models",
		`hello`:                                "lists no models",
	} {
		list = body
		c, _ := NewClient(ts.URL+"/api", "k", "old", nil)
		if err := c.FindModel(t.Context()); err == nil || !strings.Contains(err.Error(), text) || c.Model() != "old" {
			t.Errorf("%s: %v, model %q", body, err, c.Model())
		}
	}
	list, status = `{"error":"no"}`, http.StatusForbidden
	c, _ := NewClient(ts.URL+"/api", "k", "", nil)
	var refused *Refusal
	if err := c.FindModel(t.Context()); !errors.As(err, &refused) || refused.Status != status || refused.Text != "no" {
		t.Errorf("got %v", err)
	}
}

// TestChatOnce: text alone goes out, also on a terminal, and an answer that
// fails is an error.
func TestChatOnce(t *testing.T) {
	for name, c := range map[string]struct {
		reply, out, notes, err string
	}{
		"text":    {"think hm; say Hi|\\e there; finish stop; usage 3; done", "Hi\x1b there\n", "", ""},
		"newline": {"say Hi\\n; finish stop; done", "Hi\n", "", ""},
		"empty":   {"finish stop; done", "", "", ""},
		"cut":     {"say Hi; finish length; done", "Hi\n", "the answer was cut at the length that was allowed\n", ""},
		"half":    {"say Hi; break", "Hi\n", "", "the answer broke off: unexpected EOF"},
		"status": {"header Retry-After 3; status 429 {\"error\":\"full\"}", "", "",
			"429 Too Many Requests: full (try again in 3 s)"},
		"long page": {"status 502 " + strings.Repeat("a", maxRefusal+1), "", "", "502 Bad Gateway: " +
			strings.Repeat("a",
				maxRefusal) + "..."},
		"call": {"call 0 c f {}; finish tool_calls; done", "", "",
			"the model calls the tool f, which it was not given"},
	} {
		t.Run(name, func(t *testing.T) {
			var out, notes bytes.Buffer
			server := &fake{t: t, replies: []string{c.reply}}
			o := Options{Client: server.client(t), Out: &out, Notes: &notes, Errors: io.Discard, Colour: true}
			err := Once(t.Context(), o, "Hello")
			text := ""
			if err != nil {
				text = err.Error()
			}
			if out.String() != c.out || notes.String() != c.notes || text != c.err {
				t.Errorf("got %q, %q, %q, want %q, %q, %q", &out, &notes, text, c.out, c.notes, c.err)
			}
		})
	}
}

// TestChatEnds: a conversation ends with its context, at the prompt and within
// an answer, and when nothing can be read.
func TestChatEnds(t *testing.T) {
	told := errors.New("told to")
	for name, prompted := range map[string]bool{"prompt": true, "answer": false} {
		t.Run(name, func(t *testing.T) {
			ctx, cancel := context.WithCancelCause(t.Context())
			server := &fake{t: t, replies: []string{"say Hi; hang"}}
			typed, keyboard := io.Pipe()
			defer keyboard.Close()
			go func() {
				if prompted {
					cancel(told)
					return
				}
				io.WriteString(keyboard, "Hello\n")
			}()
			out := writer(func(p []byte) {
				if string(p) == "Hi" {
					cancel(told)
				}
			})
			o := Options{Client: server.client(t), In: typed, Out: out, Notes: io.Discard, Errors: io.Discard}
			if err := Talk(ctx, o); !errors.Is(err, told) {
				t.Errorf("got %v", err)
			}
		})
	}
	o := Options{Client: &Client{}, In: iotest.ErrReader(told), Out: io.Discard, Notes: io.Discard, Errors: io.Discard}
	if err := Talk(t.Context(), o); !errors.Is(err, told) {
		t.Errorf("got %v", err)
	}
}

// TestChatSessions: the requests of a conversation have one id, by which a router keeps them together, and another
// conversation has another one.
func TestChatSessions(t *testing.T) {
	var ids []string
	ts := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		io.Copy(io.Discard, r.Body)
		ids = append(ids, r.Header.Get("X-Session-Id"))
		play(w, r, "say Hi; finish stop; done")
	}))
	defer ts.Close()
	for range 2 {
		c, err := NewClient(ts.URL, "", "m", nil)
		if err != nil {
			t.Fatal(err)
		}
		o := Options{Client: c, In: strings.NewReader("a\nb\n/reset\nc\n"), Out: io.Discard, Notes: io.Discard,
			Errors: io.Discard}
		if err := Talk(t.Context(), o); err != nil {
			t.Fatal(err)
		}
	}
	if len(ids) != 6 || ids[0] == "" || ids[0] != ids[1] || ids[1] == ids[2] || ids[2] == ids[3] || ids[3] != ids[4] ||
		ids[0] == ids[3] {
		t.Errorf("the sessions of two conversations of three requests, the last behind /reset: %q", ids)
	}
}

// writer is told what is written.
type writer func([]byte)

func (w writer) Write(p []byte) (int, error) {
	w(p)
	return len(p), nil
}

// TestChatSaved: a conversation is its user's alone, and every message comes
// back as it was.
func TestChatSaved(t *testing.T) {
	list := []Message{
		textMessage("system", "<b> & \u2028"),
		textMessage("user", "line\nline"),
		callMessage("", []Call{{"c", "f", `{"a": "<"}`}}),
		resultMessage(Call{ID: "c"}, "x"),
		{"user", []byte(`{"role":"user","name":"Ann","content":[{"type":"text","text":"hi"}]}`)},
	}
	text := writeMessages(list)
	if !bytes.Contains(text, []byte(`{"role":"system","content":"<b> &`)) {
		t.Errorf("escaped for HTML: %s", text)
	}
	back, err := readMessages(text)
	if err != nil || !reflect.DeepEqual(back, list) {
		t.Errorf("got %s, %v, want %s", back, err, list)
	}
	if back, err := readMessages(writeMessages(nil)); err != nil || len(back) != 0 {
		t.Errorf("nothing became %v, %v", back, err)
	}
}

// TestChatSafe: nothing that a terminal would obey is left of a text.
func TestChatSafe(t *testing.T) {
	for r := rune(0); r < 0x2100; r++ {
		got := safe(string(r))
		steers := r < 0x20 && r != '\n' && r != '\t' || r >= 0x7f && r < 0xa0 || r >= 0x202a && r <= 0x202e ||
			r >= 0x2066 && r <= 0x2069
		if (got != string(r)) != steers {
			t.Errorf("%q became %q", r, got)
		}
	}
	if got := safe("\x1b]0;title\a\r\x7f"); got != "␛]0;title␇␍␡" {
		t.Errorf("got %q", got)
	}
}

// TestChatPace: all tokens count over all the time, also of an answer of which
// nothing was shown.
func TestChatPace(t *testing.T) {
	at := time.Unix(0, 0)
	s := showing{began: at, first: at.Add(250 * time.Millisecond), over: at.Add(1250 * time.Millisecond), pieces: 3}
	if got, want := s.pace(10), "10 tokens in 1.25s, 8.0 tokens/s; the first after 250ms"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
	s = showing{began: at, over: at.Add(time.Second)}
	if got, want := s.pace(1), "1 token in 1s, 1.0 tokens/s"; got != want {
		t.Errorf("got %q, want %q", got, want)
	}
}

// FuzzChatStream: whatever comes, reading it ends, and does not depend on how it
// is cut into reads.
func FuzzChatStream(f *testing.F) {
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"content\":\"Hi\"},\"finish_reason\":\"stop\"}]}\n\ndata: [DONE]\n\n"))
	f.Add([]byte("data: {\"choices\":[{\"delta\":{\"tool_calls\":[{\"index\":-1,\"function\":{\"name\":\"f\",\"arguments\":\"{\"}}]}}]}\r\n\r\n"))
	f.Add([]byte("data: {\"error\":{\"message\":\"no\",\"http_status_code\":500}}\n\n"))
	f.Add([]byte("data: {\"error\":\"no\"}\n\n: x\n\ndata:\n\n"))
	f.Fuzz(func(t *testing.T, stream []byte) {
		var results [2]string
		for i, r := range []io.Reader{bytes.NewReader(stream), iotest.OneByteReader(bytes.NewReader(stream))} {
			text := 0
			in := reading{see: func(d Delta) error {
				text += len(d.Text)
				return nil
			}}
			err := in.all(sse.New(r))
			a := in.result()
			if len(a.Text) != text || err == nil && a.Finish == "" {
				t.Errorf("shown %d bytes of %+v, %v", text, a, err)
			}
			results[i] = fmt.Sprintf("%+v %v", a, err)
		}
		if results[0] != results[1] {
			t.Errorf("%s\n%s", results[0], results[1])
		}
	})
}
