package dispatch

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"slices"
	"strings"

	"tgi/server"
)

// Models are what requests are sent to. It is safe for concurrent use.
type Models interface {
	// Use returns the routes of the model that name means: as many as the
	// dispatcher was made with, in that order. They may be used until release,
	// which is called exactly once. "" is the default model, and so is a
	// Placeholder that no model is called. ctx ends with the request and carries
	// its key; waiting for a model to load ends with it.
	//
	// Errors are replied to the client in the shape of the route. One that wraps
	// server.ErrModel says that there is no model of that name; others are
	// server.ErrModelKey, *server.NotServing and those of the server's table. After
	// an error release is not called.
	Use(ctx context.Context, name string) (routes []server.Route, release func(), err error)
}

// pathName is the variable of paths that may name a model.
const pathName = "model_name"

// Shared is an API some of whose routes are about the server though they need a key.
type Shared interface {
	server.API
	// Shared returns the paths of those routes, as Routes has them.
	Shared() []string
}

// dispatcher is the routes of every model.
type dispatcher struct {
	shape  []server.Route
	own    []bool // routes that shape answers
	models Models
}

// New returns the routes of shape, answered by the model that each request names.
// Of shape, which are the APIs of a model that is none, everything but Handle is
// taken over. Routes that are about the server, whichever model there is, are answered
// by shape itself: Open and Admin ones, and those that a Shared API names.
func New(shape []server.API, m Models) server.API {
	d := &dispatcher{models: m}
	for _, api := range shape {
		var paths []string
		if s, ok := api.(Shared); ok {
			paths = s.Shared()
		}
		for _, route := range api.Routes() {
			computes := route.Scope == server.Generate || route.Scope == server.Models
			d.shape = append(d.shape, route)
			d.own = append(d.own, !computes || slices.Contains(paths, route.Path))
		}
	}
	return d
}

// Routes implements server.API.
func (d *dispatcher) Routes() []server.Route {
	routes := make([]server.Route, len(d.shape))
	for i, route := range d.shape {
		routes[i] = route
		if !d.own[i] {
			routes[i].Handle = func(w http.ResponseWriter, r *http.Request) error { return d.handle(i, w, r) }
		}
	}
	return routes
}

// handle lets route i of the model that r names answer. The model is given back when
// the handler has returned, which is when the last byte of a stream or of a socket is
// written, and when it panics.
func (d *dispatcher) handle(i int, w http.ResponseWriter, r *http.Request) error {
	routes, release, r, err := d.use(r)
	if err != nil {
		return err
	}
	defer release()
	want := &d.shape[i]
	if len(routes) != len(d.shape) || routes[i].Method != want.Method || routes[i].Path != want.Path {
		return fmt.Errorf("BUG: a model has no %s %s at place %d of %d routes", want.Method, want.Path, i, len(routes))
	}
	return routes[i].Handle(w, r)
}

// use returns the routes of the model that r names, and the request to hand over: its
// body may have been read from r.
func (d *dispatcher) use(r *http.Request) ([]server.Route, func(), *http.Request, error) {
	ctx := r.Context()
	if name := queried(r); name != "" {
		routes, release, err := d.models.Use(ctx, name)
		return routes, release, r, err
	}
	if name := r.PathValue(pathName); name != "" {
		routes, release, err := d.models.Use(ctx, name)
		if !errors.Is(err, server.ErrModel) {
			return routes, release, r, err
		}
	}
	name := ""
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		r, name = named(r)
	}
	routes, release, err := d.models.Use(ctx, name)
	return routes, release, r, err
}

// queried returns the query parameter model, "" for none.
func queried(r *http.Request) string {
	if r.URL.RawQuery == "" {
		return ""
	}
	return r.URL.Query().Get("model")
}

// Placeholder says whether name is what clients send where they must name a model
// and know of none: huggingface_hub sends "dummy", TGI's own examples and clients have
// "tgi", the shared endpoint's examples "<MODEL_NAME>", and @huggingface/inference the
// server's address. It means the default model, unless a model has that name.
func Placeholder(name string) bool {
	switch name {
	case "", "tgi", "dummy", "<MODEL_NAME>":
		return true
	}
	return strings.HasPrefix(name, "http://") || strings.HasPrefix(name, "https://")
}
