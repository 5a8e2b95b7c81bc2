package chat

import (
	"bytes"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"

	"tgi/server/client/call"
	"tgi/server/sse"
)

// Client asks one server that speaks OpenAI's chat API. It may be used from
// several goroutines.
type Client struct {
	http  *http.Client
	url   string // up to and without /v1
	key   string
	model string
}

// NewClient returns a client of the server at address, a URL with or without
// /v1 at its end. The key is its bearer token, empty for none; the model is the
// one to ask for. A nil transport is one of HTTP.
func NewClient(address, key, model string, transport http.RoundTripper) (*Client, error) {
	if _, err := call.Address(address); err != nil {
		return nil, err
	}
	if transport == nil {
		transport = &http.Transport{
			Proxy:              http.ProxyFromEnvironment,
			DisableCompression: true, // a compressed stream would come in lumps
		}
	}
	return &Client{
		http: &http.Client{
			Transport: transport,
			// A redirected POST would arrive as a GET.
			CheckRedirect: func(*http.Request, []*http.Request) error { return http.ErrUseLastResponse },
		},
		url: strings.TrimSuffix(strings.TrimRight(address, "/"), "/v1"), key: key, model: model,
	}, nil
}

// Model is the name of the model that is asked.
func (c *Client) Model() string { return c.model }

// FindModel asks the server which model it has and takes that from now on. It
// is an error when there are several to choose from. It must not run beside
// other methods.
func (c *Client) FindModel(ctx context.Context) error {
	resp, err := c.send(ctx, http.MethodGet, "/v1/models", nil, "")
	if err != nil {
		return err
	}
	defer resp.Body.Close()
	data, err := io.ReadAll(io.LimitReader(resp.Body, sse.MaxEvent))
	if err != nil {
		return err
	}
	var list struct{ Data []struct{ ID string } }
	if err := json.Unmarshal(data, &list); err != nil || len(list.Data) == 0 {
		return errors.New("the server lists no models")
	}
	if len(list.Data) > 1 {
		var ids []string
		for _, m := range list.Data {
			ids = append(ids, m.ID)
		}
		return fmt.Errorf("the server has several models: %s", strings.Join(ids, ", "))
	}
	c.model = list.Data[0].ID
	return nil
}

// Question is what one request asks.
type Question struct {
	// Messages are the conversation, the oldest first.
	Messages []Message
	// Tools is OpenAI's list of tools; nil for none.
	Tools json.RawMessage
	// Settings are further members of the request, by name. They replace model
	// and stream_options, but not the messages, the tools and stream.
	Settings map[string]json.RawMessage
	// Session is an id of the conversation, empty for none: a router keeps requests with the same one together.
	Session string
}

// sessionHeader has the Session.
const sessionHeader = "X-Session-Id"

// Delta is a piece of an answer. Of several fields only one is set.
type Delta struct {
	Text, Reasoning string
	// Call says that a piece of a tool call came.
	Call bool
}

// Answer is what a model said.
type Answer struct {
	Text  string
	Calls []Call
	// Finish is the finish_reason, empty when the answer broke off.
	Finish string
	// Tokens are those generated, 0 when the server did not tell.
	Tokens int
}

// Ask sends a question and calls see with each piece of the answer as it comes.
// An error of see ends the answer and is returned. With an error the answer
// holds what came before it. Errors: *Refusal, ErrIncomplete, ErrMalformed,
// those of the connection and the cause of ctx's end.
func (c *Client) Ask(ctx context.Context, q Question, see func(Delta) error) (Answer, error) {
	body, err := c.body(q)
	if err != nil {
		return Answer{}, err
	}
	resp, err := c.send(ctx, http.MethodPost, "/v1/chat/completions", body, q.Session)
	if err != nil {
		return Answer{}, ended(ctx, err)
	}
	defer resp.Body.Close()
	if kind := resp.Header.Get("Content-Type"); !strings.HasPrefix(kind, "text/event-stream") {
		return Answer{}, fmt.Errorf("%w: it answered with the type %q", ErrMalformed, kind)
	}
	r := reading{see: see}
	err = r.all(sse.New(resp.Body))
	return r.result(), ended(ctx, err)
}

// ended returns the cause of ctx's end where that is what err is about.
func ended(ctx context.Context, err error) error {
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// body is the JSON of a request.
func (c *Client) body(q Question) ([]byte, error) {
	b := map[string]any{"model": c.model, "stream_options": map[string]bool{"include_usage": true}}
	for name, value := range q.Settings {
		b[name] = value
	}
	b["messages"], b["stream"] = q.Messages, true
	if q.Tools != nil {
		b["tools"] = q.Tools
	}
	return json.Marshal(b)
}

// send returns the response to a request of a session, if it has one, when its
// status is 200, and a *Refusal otherwise.
func (c *Client) send(ctx context.Context, method, path string, body []byte, session string) (*http.Response,
	error) {
	req, err := http.NewRequestWithContext(ctx, method, c.url+path, bytes.NewReader(body))
	if err != nil {
		return nil, err
	}
	req.Header.Set("Content-Type", "application/json")
	if session != "" {
		req.Header.Set(sessionHeader, session)
	}
	resp, err := call.Send(c.http, req, c.key)
	if err != nil {
		return nil, err
	}
	if resp.StatusCode == http.StatusOK {
		return resp, nil
	}
	defer resp.Body.Close()
	// A body that cannot be read leaves the status to tell of.
	data, _ := io.ReadAll(io.LimitReader(resp.Body, sse.MaxEvent))
	r := &Refusal{Status: resp.StatusCode, Text: Reason(data), RetryAfter: resp.Header.Get("Retry-After")}
	if to := resp.Header.Get("Location"); r.Text == "" && to != "" {
		r.Text = "the server is at " + to
	}
	return nil, r
}
