package ollama

import (
	"context"
	"crypto/rand"
	"net/http"
	"strings"
	"time"

	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/api/modelsapi"
	"tgi/server/dispatch"
)

// Library are the models as their owner sees them. It is safe for concurrent use.
type Library interface {
	// List returns the models whose files are there and that the key of ctx may see, the default first.
	List(ctx context.Context) ([]Info, error)
	// Get returns a model by its id, or by a name that means the default. Its errors are those of modelsapi.Models.
	Get(ctx context.Context, name string) (Info, error)
	// Pull and Delete are those of modelsapi.Models.
	Pull(ctx context.Context, p modelsapi.Pull) (modelsapi.Model, error)
	Delete(ctx context.Context, id string) error
	// Keep sets for how long the model that a name means stays loaded when nobody uses it, until it is unloaded; less
	// than 0 is for ever. It reports whether that holds: a model that requests could not load again stays.
	Keep(ctx context.Context, name string, d time.Duration) bool
}

// Options of an API.
type Options struct {
	// Models and Texts run the requests.
	Models dispatch.Models
	Texts  dispatch.Embedders
	// Library are all models.
	Library Library
	// Version is the server's.
	Version string
	// Keyless says that the server has no keys: then everybody may say how long a model stays loaded.
	Keyless bool
}

// API is Ollama's routes.
type API struct {
	options Options
	// name makes the last part of ids, now tells the time; tests fix them.
	name func() string
	now  func() time.Time
	// poll is how often a download is looked at.
	poll time.Duration
}

// New returns the API.
func New(o Options) *API {
	return &API{options: o, now: time.Now, poll: 200 * time.Millisecond,
		name: func() string { return strings.ToLower(rand.Text()[:8]) }}
}

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	get := func(path string, scope server.Scope, handle handler) server.Route {
		return server.Route{Method: http.MethodGet, Path: path, Scope: scope, Handle: handle}
	}
	post := func(path string, scope server.Scope, handle handler) server.Route {
		return server.Route{Method: http.MethodPost, Path: path, Scope: scope, Handle: handle}
	}
	routes := []server.Route{
		get("/api/version", server.Open, a.version),
		post("/api/chat", server.Generate, a.chat), post("/api/generate", server.Generate, a.generate),
		post("/api/embed", server.Generate, a.embed), post("/api/embeddings", server.Generate, a.embeddings),
		get("/api/tags", server.Listing, a.tags), get("/api/ps", server.Models, a.ps),
		post("/api/show", server.Listing, a.show), post("/api/pull", server.Admin, a.pull),
		{Method: http.MethodDelete, Path: "/api/delete", Scope: server.Admin, Handle: a.remove},
		post("/api/create", server.Models, unsupported), post("/api/copy", server.Models, unsupported),
		post("/api/push", server.Models, unsupported), post("/api/blobs/{digest}", server.Models, unsupported),
		{Method: http.MethodHead, Path: "/api/blobs/{digest}", Scope: server.Models, Handle: unsupported},
	}
	of := map[string]server.Operation{"/api/chat": server.Chat, "/api/generate": server.TextCompletion,
		"/api/embed": server.Embeddings, "/api/embeddings": server.Embeddings}
	for i := range routes {
		routes[i].Refuse, routes[i].Operation = refuse, of[routes[i].Path]
		if routes[i].Scope != server.Generate {
			routes[i].BodyLimit = bodyLimit
		}
	}
	return routes
}

// bodyLimit bounds bodies that hold a few names.
const bodyLimit = 64 << 10

type handler = func(http.ResponseWriter, *http.Request) error

// spoken is the version of Ollama whose API this is: clients compare it with the one that they need.
const spoken = "0.32.0"

// version serves GET /api/version.
func (a *API) version(w http.ResponseWriter, _ *http.Request) error {
	return server.WriteValue(w, http.StatusOK, struct {
		Version string `json:"version"`
		Server  string `json:"server"`
	}{spoken, "tgi " + a.options.Version})
}

// unsupported refuses what makes and sends models.
func unsupported(_ http.ResponseWriter, r *http.Request) error {
	return refused(http.StatusBadRequest, "`%s` is not supported: models are not made, copied or sent here. /api/pull "+
		"fetches one from the hub, and the server's settings say what becomes of it", llm.Shorten(r.URL.Path))
}

// keeps carries out keep_alive for the model of a name, once a request is over. It reports whether that could be: where
// there are keys, only administrators may say how long a model stays.
func (a *API) keeps(r *http.Request, name string, d *time.Duration) bool {
	if d == nil {
		return true
	}
	return a.mayKeep(r) && a.options.Library.Keep(context.WithoutCancel(r.Context()), name, *d)
}

func (a *API) mayKeep(r *http.Request) bool {
	return a.options.Keyless || server.MayAdminister(r.Context())
}
