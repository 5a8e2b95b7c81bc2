package openai

import (
	"context"
	"crypto/rand"
	"errors"
	"net/http"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/dialect"
	"tgi/server/generate"
)

// Options of an API.
type Options struct {
	// Service runs the requests; conversations need its chat.
	Service *generate.Service
	// Model is the id of the model that is served. Every name means it: who handed a
	// request over has looked at that (package dispatch).
	Model string
	// Version is the server's.
	Version string
	// ComputeType is the value of the header x-compute-type.
	ComputeType string
	// MaxPrompts is how many prompts a call may have.
	MaxPrompts int
	// Dialect is spoken unless a request names another; nil is the default.
	Dialect *dialect.Dialect
	// TokenBytes returns the bytes that a token stands for, which need not be
	// whole characters; nil takes those of the texts in events.
	TokenBytes func(llm.Token) ([]byte, bool)
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
	if o.TokenBytes == nil {
		o.TokenBytes = func(llm.Token) ([]byte, bool) { return nil, false }
	}
	return &API{options: o, now: time.Now, name: rand.Text}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	return []server.Route{
		{Method: http.MethodPost, Path: "/v1/chat/completions", Handle: a.Chat, Refuse: a.refuser(&chatForm)},
		{Method: http.MethodPost, Path: "/v1/completions", Handle: a.Complete, Refuse: a.refuser(&completionForm)},
	}
}

// refuser returns what replies with errors that are found before a call of form f is
// read: there is no such model, or it does not run.
func (a *API) refuser(f *form) func(http.ResponseWriter, *http.Request, error) {
	return func(w http.ResponseWriter, r *http.Request, err error) {
		d, unknown := dialect.From(r, a.options.Dialect)
		if unknown != nil {
			d = dialect.Default()
		}
		var none *server.NoModel
		if errors.As(err, &none) {
			err = noModel(none.ID)
		}
		refuse(w, r, f, d, err)
	}
}

// Chat serves a body of POST /v1/chat/completions. It replies to errors itself,
// in the dialect's shape.
func (a *API) Chat(w http.ResponseWriter, r *http.Request) error {
	return a.serve(w, r, &chatForm, a.decodeChat)
}

// Complete serves a body of POST /v1/completions. It replies to errors itself,
// in the dialect's shape.
func (a *API) Complete(w http.ResponseWriter, r *http.Request) error {
	return a.serve(w, r, &completionForm, a.decodeCompletion)
}

// serve reads a call of form f with decode and replies to it.
func (a *API) serve(w http.ResponseWriter, r *http.Request, f *form, decode func([]byte, *dialect.Dialect) (*call, error)) error {
	d, err := dialect.From(r, a.options.Dialect)
	if err != nil {
		refuse(w, r, f, dialect.Default(), err)
		return nil
	}
	text, err := server.ReadBody(r)
	if err != nil {
		refuse(w, r, f, d, err)
		return nil
	}
	c, err := decode(text, d)
	if err != nil {
		refuse(w, r, f, d, err)
		return nil
	}
	c.id = a.id(c)
	c.callID = func() string { return "call_" + a.name() }
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

// ChatDraft returns what a body of POST /v1/chat/completions asks for, with the
// conversation rendered. Errors are those of package wire, *generate.TemplateError
// and those of this package.
func (a *API) ChatDraft(ctx context.Context, body []byte, d *dialect.Dialect) (generate.Draft, error) {
	c, err := a.decodeChat(body, d)
	if err != nil {
		return generate.Draft{}, err
	}
	return a.options.Service.Render(ctx, c.drafts[0])
}
