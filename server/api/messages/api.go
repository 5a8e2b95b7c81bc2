package messages

import (
	"context"
	"crypto/rand"
	"net/http"

	"tgi/server"
	"tgi/server/dispatch"
	"tgi/server/mcp"
	"tgi/server/wire"
)

// API is Anthropic's routes.
type API struct {
	models dispatch.Models
	tools  *mcp.Servers
	// name makes the last part of ids; tests fix it.
	name func() string
}

// New returns the API; models run its requests, tools are those of MCP servers, nil for none.
func New(models dispatch.Models, tools *mcp.Servers) *API {
	return &API{models: models, tools: tools, name: rand.Text}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Path: "/v1/messages", Operation: server.Chat, Handle: a.handle(true, a.create),
			Refuse: refuse},
		{Method: http.MethodPost, Path: "/v1/messages/count_tokens", Light: true, Handle: a.handle(false, a.count),
			Refuse: refuse},
	}
}

// handle reads a call and lets serve reply to it. generates says that it is for a reply and not for a count.
func (a *API) handle(generates bool, serve func(http.ResponseWriter, *http.Request, *call) error) func(
	http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		identify(w)
		body, err := server.ReadBody(r)
		if err != nil {
			return err
		}
		c, err := server.Parse(r.Context(), body, func(body []byte) (*call, error) { return decode(body, generates) })
		if err != nil {
			return err
		}
		m, release, err := dispatch.Use(a.models, r, c.named)
		if err != nil {
			return err
		}
		defer release()
		c.bind(m)
		if err := c.equip(r.Context(), a.tools); err != nil {
			return err
		}
		c.shown.CallID = func() string { return "toolu_" + a.name() }
		return serve(w, r, c)
	}
}

// identify gives a reply the header by which Anthropic's clients name a request.
func identify(w http.ResponseWriter) { w.Header().Set("Request-Id", w.Header().Get("X-Request-Id")) }

// count serves POST /v1/messages/count_tokens.
func (a *API) count(w http.ResponseWriter, r *http.Request, c *call) error {
	n, err := c.model.Service.Count(r.Context(), c.draft, 0)
	if err != nil {
		return err
	}
	server.WriteJSON(w, append(wire.AppendInt([]byte{'{'}, "input_tokens", n), '}'))
	return nil
}

// create serves POST /v1/messages.
func (a *API) create(w http.ResponseWriter, r *http.Request, c *call) error {
	c.id = "msg_" + a.name()
	ctx := r.Context()
	run, err := c.model.Service.Start(ctx, c.draft)
	if err != nil {
		return err
	}
	t := newTurn(c, run)
	defer func() { t.run.Close() }() // each run but the last is closed before the next
	if c.stream {
		return t.stream(w, ctx)
	}
	b, err := t.whole(ctx)
	if err != nil {
		return err
	}
	t.setHeader(w.Header())
	server.WriteJSON(w, b)
	return nil
}

// whole runs the turn to its end and returns the message.
func (t *turn) whole(ctx context.Context) ([]byte, error) {
	for {
		if err := t.pump(ctx, t.run.Next); err != nil {
			return nil, err
		}
		more, err := t.goOn(ctx, func(ctx context.Context, next func(context.Context) (int, error)) (int, error) {
			return next(ctx)
		})
		if err != nil {
			return nil, err
		}
		if !more {
			return t.appendMessage(nil), nil
		}
	}
}
