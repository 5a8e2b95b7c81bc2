package generateapi

import (
	"log/slog"
	"net/http"
	"time"

	"tgi/server"
	"tgi/server/api/generateapi/store"
	"tgi/server/config"
	"tgi/server/dispatch"
)

// Options of an API.
type Options struct {
	// Models run the requests.
	Models dispatch.Models
	// Store keeps the states. It stays the caller's to close.
	Store store.Store
	// Config has the values of settings that requests do not name.
	Config config.GenerateAPI
	// Ready returns nil while requests are accepted.
	Ready func() error
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
	// pollInterval is how often sockets are looked at for the end of the server, pingEvery
	// after how many looks without an answer they are taken for dead.
	pollInterval time.Duration
	pingEvery    int
}

// New returns the API.
func New(o Options) *API {
	return &API{options: o, pollInterval: time.Second, pingEvery: 30}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	routes := []server.Route{
		{Method: http.MethodPost, Path: "/api/generate-one", Operation: server.TextCompletion, Handle: a.one,
			Refuse: refuseRoute},
		{Method: http.MethodPost, Path: "/api/generate-batch", Operation: server.TextCompletion, Handle: a.batch,
			Refuse: refuseRoute},
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
