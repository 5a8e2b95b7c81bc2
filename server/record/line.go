package record

import (
	"bytes"
	"encoding/json"
	"mime"
	"net/http"
	"net/url"
	"time"
	"unicode/utf8"
)

// Version is that of the format.
const Version = 1

// Record is one line of a file.
type Record struct {
	// Version of the format, under the name "record": a line that has it is one.
	Version int `json:"record"`
	// ID is the request's (X-Request-Id), At when it came, Seconds how long it took.
	ID      string    `json:"id"`
	At      time.Time `json:"at"`
	Seconds float64   `json:"seconds"`
	Method  string    `json:"method"`
	Path    string    `json:"path"`
	Query   string    `json:"query,omitempty"`
	// Key is the name of the key that the request came with, empty for none. The key itself is not kept.
	Key string `json:"key,omitempty"`
	// Headers are those of the request, ReplyHeaders of the reply.
	Headers map[string][]string `json:"headers"`
	// Body is the request's: its JSON, or a string. Cut says that only its beginning is there.
	Body json.RawMessage `json:"body,omitempty"`
	Cut  bool            `json:"cut,omitempty"`

	Status       int                 `json:"status"`
	ReplyHeaders map[string][]string `json:"reply_headers"`
	// Reply is its JSON, or a string; Events are a stream as it was sent. ReplyCut says that only the beginning is
	// there.
	Reply    json.RawMessage `json:"reply,omitempty"`
	Events   []Event         `json:"events,omitempty"`
	ReplyCut bool            `json:"reply_cut,omitempty"`
	// Redacted says that values were left out of the bodies.
	Redacted bool `json:"redacted,omitempty"`
}

// Event is a part of a stream: an event, or a line of JSON.
type Event struct {
	// Seconds is when it left, after the request came.
	Seconds float64 `json:"seconds"`
	// Text is what was sent, the newlines behind it included.
	Text string `json:"text"`
}

// line returns the exchange as a line.
func (e *Exchange) line(h hiding) ([]byte, error) {
	rec := Record{Version: Version, ID: e.id, At: e.began.UTC(), Seconds: e.took.Seconds(), Method: e.method,
		Path: e.path, Query: h.query(e.query), Key: e.key, Headers: h.headers(e.header), Cut: e.body.cut,
		Status: e.status, ReplyHeaders: h.headers(e.back), ReplyCut: e.reply.cut}
	var hid, hidToo bool
	rec.Body, hid = h.body(e.body.Bytes(), e.body.cut)
	kind, _, _ := mime.ParseMediaType(e.back.Get("Content-Type"))
	switch kind {
	case "text/event-stream":
		rec.Events, hidToo = e.events("\n\n", h)
	case "application/x-ndjson":
		rec.Events, hidToo = e.events("\n", h)
	default:
		rec.Reply, hidToo = h.body(e.reply.Bytes(), e.reply.cut)
	}
	rec.Redacted = hid || hidToo
	var b bytes.Buffer
	enc := json.NewEncoder(&b)
	enc.SetEscapeHTML(false)
	err := enc.Encode(&rec)
	return b.Bytes(), err
}

// events cuts the reply behind each end; each part left with the write in which it ended.
func (e *Exchange) events(end string, h hiding) (list []Event, hid bool) {
	all, at, write := e.reply.Bytes(), 0, 0
	for at < len(all) {
		n := len(all)
		if i := bytes.Index(all[at:], []byte(end)); i >= 0 {
			n = at + i + len(end)
		}
		for write < len(e.sent)-1 && e.sent[write].end < n {
			write++
		}
		text, some := h.event(all[at:n])
		hid = hid || some
		one := Event{Text: text}
		if write < len(e.sent) {
			one.Seconds = e.sent[write].after.Seconds()
		}
		list, at = append(list, one), n
	}
	return list, hid
}

// body returns a body as JSON: as it is, where it is some, and else a string. Whether values were left out is the
// second result.
func (h hiding) body(b []byte, cut bool) (json.RawMessage, bool) {
	switch {
	case len(b) == 0:
		return nil, false
	case !cut && json.Valid(b) && utf8.Valid(b):
		return h.json(b)
	case len(h.fields) > 0: // nobody knows where the fields are
		return quoted(Gone), true
	}
	return quoted(string(b)), false
}

// event returns an event as it was sent, without the values that are left out.
func (h hiding) event(b []byte) (string, bool) {
	if len(h.fields) == 0 {
		return string(b), false
	}
	hid := false
	var out []byte
	for line := range bytes.Lines(b) {
		body := bytes.TrimRight(line, "\r\n")
		head, data := []byte(nil), body
		if rest, ok := bytes.CutPrefix(body, []byte("data:")); ok {
			data = bytes.TrimLeft(rest, " ")
			head = body[:len(body)-len(data)]
		}
		if json.Valid(data) {
			value, some := h.json(data)
			data, hid = value, hid || some
		} else if (len(head) > 0 && string(data) != "[DONE]") || len(head) == 0 && unnamed(data) {
			data, hid = []byte(Gone), true
		}
		out = append(append(append(out, head...), data...), line[len(body):]...)
	}
	return string(out), hid
}

// unnamed reports whether a line that is no JSON is none of the fields of server-sent events either: a line of JSON
// that was cut.
func unnamed(line []byte) bool {
	name, _, _ := bytes.Cut(line, []byte(":"))
	switch string(name) {
	case "", "event", "id", "retry":
		return len(name) == 0 && len(line) > 0 && line[0] != ':'
	}
	return true
}

func quoted(s string) json.RawMessage {
	b, _ := json.Marshal(s) // a string always has a JSON form
	return b
}

// headers returns a header without keys.
func (h hiding) headers(from http.Header) map[string][]string {
	out := map[string][]string{}
	for name, values := range from {
		if h.secret(name) {
			values = []string{Gone}
		}
		out[name] = values
	}
	return out
}

// query returns a query without keys.
func (h hiding) query(text string) string {
	if text == "" {
		return ""
	}
	values, err := url.ParseQuery(text)
	if err != nil {
		return Gone
	}
	hid := false
	for name := range values {
		if h.secret(name) {
			values[name], hid = []string{Gone}, true
		}
	}
	if hid {
		return values.Encode()
	}
	return text
}
