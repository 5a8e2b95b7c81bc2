package bench

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"tgi/server/client/call"
	"tgi/server/client/terminal"
	"tgi/server/sse"
	"tgi/server/wire"
)

// Kinds of failure that have neither a status nor an error type of the server's.
const (
	failTimeout    = "timeout"
	failCancelled  = "cancelled"
	failConnection = "connection"
	failIncomplete = "incomplete stream" // it ended before its final event
	failMalformed  = "malformed stream"
)

// overloaded is how a full server is counted, whether it says so by status or,
// as TGI does on streams, by an event.
const overloaded = "429"

// client speaks to one server.
type client struct {
	http    *http.Client
	url     string // without a slash at the end
	key     string
	timeout time.Duration
}

func newClient(o Options) *client {
	transport := o.transport
	if transport == nil {
		transport = &http.Transport{
			MaxIdleConnsPerHost: MaxConcurrency,
			DisableCompression:  true, // a compressed stream would come in lumps
		}
	}
	return &client{
		http: &http.Client{
			Transport:     transport,
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url:     strings.TrimRight(o.URL, "/"),
		key:     o.Key,
		timeout: o.Timeout,
	}
}

func (c *client) post(ctx context.Context, path string, body any) (*http.Response, error) {
	data, err := json.Marshal(body)
	if err != nil {
		return nil, err
	}
	return c.send(ctx, http.MethodPost, path, data)
}

// send sends a request with the key, and with a body of JSON if that is not empty.
func (c *client) send(ctx context.Context, method, path string, body []byte) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	if len(body) > 0 {
		req.Header.Set("Content-Type", "application/json")
	}
	return call.Send(c.http, req, c.key)
}

// piece is one element of /tokenize's answer: where a token sits in the text.
type piece struct {
	Start, Stop int
}

// tokenize returns the tokens that the server makes of an ASCII text.
func (c *client) tokenize(ctx context.Context, text string) ([]piece, error) {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.post(ctx, "/tokenize", map[string]any{"inputs": text})
	if err != nil {
		return nil, err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, 64<<20))
	if err != nil {
		return nil, fmt.Errorf("POST /tokenize: %w", err)
	}
	if resp.StatusCode != http.StatusOK {
		hint := ""
		if resp.StatusCode == http.StatusUnauthorized || resp.StatusCode == http.StatusForbidden {
			hint = "; --key wants one of the server's keys"
		}
		status := strconv.Itoa(resp.StatusCode)
		return nil, fmt.Errorf("POST /tokenize: status %s%s", withReason(status, refusal(data)), hint)
	}
	var pieces []piece
	if err := json.Unmarshal(data, &pieces); err != nil {
		return nil, fmt.Errorf("POST /tokenize: the reply: %w", wire.Told(err))
	}
	return pieces, nil
}

// most returns the tokens that a prompt and what follows it may have together, 0 where the server does not say.
func (c *client) most(ctx context.Context) int {
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	resp, err := c.send(ctx, http.MethodGet, "/info", nil)
	if err != nil {
		return 0
	}
	defer resp.Body.Close()
	var info struct {
		MaxTotalTokens int `json:"max_total_tokens"`
	}
	data, err := io.ReadAll(io.LimitReader(resp.Body, maxInfo))
	if err != nil || resp.StatusCode != http.StatusOK || json.Unmarshal(data, &info) != nil {
		return 0
	}
	return info.MaxTotalTokens
}

// maxInfo and maxSaid bound what is read of /info, and what is shown of the server's reason for a refusal.
const maxInfo, maxSaid = 4 << 20, 200

// refusal is the reason that a body gives, as a terminal can show it: its member error, which may be a text or have a
// message, or else the body.
func refusal(body []byte) string {
	var said struct{ Error json.RawMessage }
	text := string(body)
	if json.Unmarshal(body, &said) == nil && len(said.Error) > 0 {
		text = reason(said.Error)
	}
	text = strings.TrimSpace(text)
	return terminal.Line(terminal.Cut(text, maxSaid))
}

// reason is the text of a member error, or its message.
func reason(member json.RawMessage) (text string) {
	var object struct{ Message string }
	if json.Unmarshal(member, &text) == nil {
		return text
	}
	if json.Unmarshal(member, &object) == nil && object.Message != "" {
		return object.Message
	}
	return string(member)
}

// withReason is a failure with what the server said of it.
func withReason(failure, said string) string {
	if said == "" {
		return failure
	}
	return failure + ": " + said
}

// outcome is what one request came to.
type outcome struct {
	failure      string // empty when the stream ended with its final event
	said         string // the server's reason for it
	due          time.Time
	tokens       []time.Time // when each token came
	end          time.Time
	inputTokens  int // as the server counts them, 0 when it does not say
	outputTokens int
	came         *atomic.Int64 // counts tokens as they come, where that is not nil
}

// event is what a line of /generate_stream may hold.
type event struct {
	Token         *struct{}
	GeneratedText *string `json:"generated_text"`
	Details       *struct {
		GeneratedTokens int `json:"generated_tokens"`
		InputLength     int `json:"input_length"`
	}
	Error     json.RawMessage
	ErrorType string `json:"error_type"`
}

// generate runs one greedy request that was due at a given moment.
func (c *client) generate(ctx context.Context, due time.Time, prompt string, maxNew int) outcome {
	out := outcome{due: due}
	ctx, cancel := context.WithTimeout(ctx, c.timeout)
	defer cancel()
	out.failure = c.stream(ctx, prompt, maxNew, false, &out)
	switch {
	case out.failure == "" || out.failure == overloaded:
	case errors.Is(ctx.Err(), context.DeadlineExceeded):
		out.failure, out.said = failTimeout, ""
	case ctx.Err() != nil:
		out.failure, out.said = failCancelled, ""
	}
	if out.failure != "" {
		out.end = time.Now()
	}
	return out
}

// stream reads the answer into out and returns what failed. endless asks for a text that only maxNew ends, where the
// server can do that.
func (c *client) stream(ctx context.Context, prompt string, maxNew int, endless bool, out *outcome) string {
	parameters := map[string]any{"max_new_tokens": maxNew, "do_sample": false, "details": true}
	if endless {
		parameters["ignore_eos"] = true // TGI passes over what it does not know
	}
	resp, err := c.post(ctx, "/generate_stream", map[string]any{"inputs": prompt, "parameters": parameters})
	if err != nil {
		return failConnection
	}
	defer resp.Body.Close()
	if resp.StatusCode != http.StatusOK {
		// Read so that the connection can be used again.
		data, _ := io.ReadAll(io.LimitReader(resp.Body, sse.MaxEvent))
		out.said = refusal(data)
		return strconv.Itoa(resp.StatusCode)
	}
	stream := sse.New(resp.Body)
	for {
		data, err := stream.Next()
		if errors.Is(err, io.EOF) {
			return failIncomplete
		}
		if errors.Is(err, sse.ErrTooLong) {
			return failMalformed
		}
		if err != nil {
			return failConnection
		}
		now := time.Now()
		var e event
		if err := json.Unmarshal(data, &e); err != nil {
			return failMalformed
		}
		if len(e.Error) > 0 && string(e.Error) != "null" {
			out.said = refusal(data)
			return errorKind(e.ErrorType)
		}
		if e.Token != nil {
			out.tokens = append(out.tokens, now)
			if out.came != nil {
				out.came.Add(1)
			}
		}
		if e.GeneratedText == nil {
			continue
		}
		out.end = now
		out.outputTokens = len(out.tokens)
		if e.Details != nil {
			out.inputTokens = e.Details.InputLength
			out.outputTokens = max(out.outputTokens, e.Details.GeneratedTokens)
		}
		// The end of the body follows; reading it frees the connection.
		_, _ = io.Copy(io.Discard, io.LimitReader(resp.Body, sse.MaxEvent))
		return ""
	}
}

// errorKind names an error event by the server's error_type.
func errorKind(errorType string) string {
	switch errorType {
	case "overloaded":
		return overloaded
	case "":
		return "error event"
	}
	return errorType
}
