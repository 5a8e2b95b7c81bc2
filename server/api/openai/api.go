package openai

import (
	"crypto/rand"
	"net/http"
	"time"

	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/mcp"
)

// Options of an API.
type Options struct {
	// Models run the requests; conversations need the chat of their services.
	Models dispatch.Models
	// Version is the server's.
	Version string
	// ComputeType is the value of the header x-compute-type.
	ComputeType string
	// MaxPrompts bounds the prompts of a completion before a model is asked for; 0 leaves it to the model's limits.
	MaxPrompts int
	// Tools are MCP servers whose tools chats may want; nil has none.
	Tools *mcp.Servers
	// Dialect is spoken unless a request names another; nil is the default.
	Dialect *dialect.Dialect
}

// API is OpenAI's routes.
type API struct {
	options Options
	// now and name are the clock and the last part of ids; tests fix them.
	now  func() time.Time
	name func() string
}

// New returns the API.
func New(o Options) *API {
	return &API{options: o, now: time.Now, name: rand.Text}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Path: "/v1/chat/completions", Operation: server.Chat, Handle: read(a.Chat),
			Refuse: a.refuser(&chatForm)},
		{Method: http.MethodPost, Path: "/v1/completions", Operation: server.TextCompletion, Handle: read(a.Complete),
			Refuse: a.refuser(&completionForm)},
	}
}

// read gives serve the body of a request.
func read(serve func(http.ResponseWriter, *http.Request, []byte) error) func(http.ResponseWriter, *http.Request) error {
	return func(w http.ResponseWriter, r *http.Request) error {
		body, err := server.ReadBody(r)
		if err != nil {
			return err
		}
		return serve(w, r, body)
	}
}

// refuser returns how errors are written that occur before a call of form f is read.
func (a *API) refuser(f *form) func(http.ResponseWriter, *http.Request, error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		d, unknown := dialect.From(r, a.options.Dialect)
		if unknown != nil {
			d = dialect.Default()
		}
		refuse(w, r, f, d, err)
	}
}

// Chat serves a body of POST /v1/chat/completions. It replies to errors itself,
// in the dialect's shape.
func (a *API) Chat(w http.ResponseWriter, r *http.Request, body []byte) error {
	return a.serve(w, r, body, &chatForm, decodeChat)
}

// Complete serves a body of POST /v1/completions. It replies to errors itself,
// in the dialect's shape.
func (a *API) Complete(w http.ResponseWriter, r *http.Request, body []byte) error {
	return a.serve(w, r, body, &completionForm, func(body []byte, d *dialect.Dialect) (*call, error) {
		return decodeCompletion(body, a.options.MaxPrompts, d)
	})
}

// serve reads a call of form f with decode and replies to it.
func (a *API) serve(w http.ResponseWriter, r *http.Request, body []byte, f *form,
	decode func([]byte, *dialect.Dialect) (*call, error)) error {
	d, err := dialect.From(r, a.options.Dialect)
	if err != nil {
		refuse(w, r, f, dialect.Default(), err)
		return nil
	}
	c, err := server.Parse(r.Context(), body, func(body []byte) (*call, error) { return decode(body, d) })
	if err != nil {
		refuse(w, r, f, d, err)
		return nil
	}
	m, release, err := dispatch.Use(a.options.Models, r, c.named)
	if err != nil {
		refuse(w, r, f, d, err)
		return nil
	}
	defer release()
	if err = c.bind(m); err == nil {
		err = a.equip(r.Context(), c)
	}
	if err == nil {
		err = m.Service.CheckTogether(&c.draft, "prompt", len(c.drafts))
	}
	if err != nil {
		refuse(w, r, f, d, err)
		return nil
	}
	c.id = a.id(c)
	c.shown.CallID = func() string { return "call_" + a.name() }
	c.created = a.now().Unix()
	if c.stream {
		return a.stream(w, r, c)
	}
	return a.whole(w, r, c)
}

// id returns the reply's id.
func (a *API) id(c *call) string {
	if !c.dialect.UniqueIDs {
		return ""
	}
	return c.form.prefix + a.name()
}

// ChatDraft returns what a body of POST /v1/chat/completions asks for, the conversation
// not yet rendered, and the model that it names. Errors are those of package wire and of
// this package.
func ChatDraft(body []byte, d *dialect.Dialect) (draft generate.Draft, model string, err error) {
	c, err := decodeChat(body, d)
	if err != nil {
		return generate.Draft{}, "", err
	}
	if len(c.wants) > 0 {
		err = c.offer() // those of the client alone
	}
	return c.drafts[0], c.named, err
}
