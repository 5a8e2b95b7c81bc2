package generateapi

import (
	"log/slog"
	"net/http"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/generateapi/store"
	"tgi/server/config"
	"tgi/server/generate"
)

// Speech turns the tokens of one text into characters. It belongs to one
// goroutine.
type Speech interface {
	// Next returns what the token adds to the text, special tokens included; ""
	// while the bytes of a character are incomplete.
	Next(llm.Token) string
	// Flush ends the text and returns what was held back.
	Flush() string
}

// Options of an API.
type Options struct {
	// Service runs the requests.
	Service *generate.Service
	// Store keeps the states. It stays the caller's to close.
	Store store.Store
	// Config has the values of settings that requests do not name.
	Config config.GenerateAPI
	// Model names what generates: the states of another are refused.
	Model string
	// Vocab is the number of token ids, EOS are those that end a text.
	Vocab int
	EOS   []llm.Token
	// MaxInput bounds the tokens of a prompt, MaxTotal those of prompt and text.
	MaxInput, MaxTotal int
	// Speak returns the Speech of what follows context; without one it begins a
	// text. It must be safe for concurrent use.
	Speak func(context []llm.Token) Speech
	// Ready returns nil while requests are accepted.
	Ready func() error
	// Stopping says that the model is about to be taken away, so that sockets, which
	// hold on to it, must end; nil is never.
	Stopping func() bool
	// Origins are those whose pages may open a socket; none is all.
	Origins []string
	// MessageLimit bounds a message of a socket, in bytes.
	MessageLimit int64
	// WriteTimeout bounds how long a client may take to accept a message, ReadTimeout
	// how long it may take to send one that it has begun.
	WriteTimeout, ReadTimeout time.Duration
	// Log receives what went wrong behind the beginning of a reply.
	Log *slog.Logger
}

// API is the generate API.
type API struct {
	options Options
	// look is how often sockets are looked at for the end of the server, quiet
	// after how many looks without an answer they are taken for dead.
	look  time.Duration
	quiet int
}

// New returns the API.
func New(o Options) *API {
	if o.Stopping == nil {
		o.Stopping = func() bool { return false }
	}
	return &API{options: o, look: time.Second, quiet: 30}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	routes := []server.Route{
		{Method: http.MethodPost, Path: "/api/generate-one", Handle: a.one, Refuse: refuseRoute},
		{Method: http.MethodPost, Path: "/api/generate-batch", Handle: a.batch, Refuse: refuseRoute},
		{Method: http.MethodGet, Path: "/api/ws", Handle: a.socket, Refuse: refuseRoute},
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		routes = append(routes,
			server.Route{Method: method, Path: "/api/alive", Scope: server.Open, Handle: alive, Refuse: refuseRoute},
			server.Route{Method: method, Path: "/api/ready", Scope: server.Open, Handle: a.ready, Refuse: refuseRoute},
		)
	}
	return routes
}

func alive(w http.ResponseWriter, _ *http.Request) error {
	writeText(w, http.StatusOK, "alive")
	return nil
}

func (a *API) ready(w http.ResponseWriter, _ *http.Request) error {
	if err := a.options.Ready(); err != nil {
		writeText(w, http.StatusServiceUnavailable, "not ready")
		return nil
	}
	writeText(w, http.StatusOK, "ready")
	return nil
}
