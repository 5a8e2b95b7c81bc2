package server

import (
	"log/slog"
	"net/http"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"tgi/runtime/llm"
	"tgi/server/config"
)

// API is one dialect's routes.
type API interface{ Routes() []Route }

// Scope says whom a route serves.
type Scope uint8

// Scopes of routes.
const (
	// Keyed routes need one of server.api_keys, if there are any.
	Keyed Scope = iota
	// Open routes need no key and work while the server shuts down.
	Open
	// Admin routes need one of server.admin_keys, and are refused while there
	// are none. Their paths begin with AdminPath.
	Admin
)

// AdminPath is what the paths of Admin routes begin with, and no others. Pages
// of other origins may not call them.
const AdminPath = "/admin/"

// Route is one method of one path.
type Route struct {
	Method string
	// Path may hold variables such as {name}, which Request.PathValue returns.
	Path string
	// Scope says whom it serves.
	Scope Scope
	// BodyLimit bounds the body in bytes; 0 is server.payload_limit.
	BodyLimit int64
	// Handle replies, or returns an error before it wrote anything.
	Handle func(w http.ResponseWriter, r *http.Request) error
}

// Options of a Server.
type Options struct {
	// Config bounds bodies, connections and the time to shut down.
	Config config.Server
	// APIs are served beside /health, /ping and /metrics.
	APIs []API
	// Healthy returns nil while the engine makes progress.
	Healthy func() error
	// Metrics are served under /metrics.
	Metrics *Metrics
	// Log receives a line per request.
	Log *slog.Logger
}

// Server answers HTTP requests.
type Server struct {
	options Options
	keys    keys
	admin   keys
	gate    gate
	handler http.Handler
}

// New returns a Server. Two routes with the same method and path, and an Admin
// route anywhere but below AdminPath, are mistakes of the caller and panic.
func New(o Options) *Server {
	s := &Server{options: o, keys: hashKeys(o.Config.APIKeys), admin: hashKeys(o.Config.AdminKeys)}
	s.gate.init()
	routes := s.routes()
	for _, api := range o.APIs {
		routes = append(routes, api.Routes()...)
	}
	s.handler = s.log(s.identify(s.rescue(s.crossOrigin(s.mux(routes)))))
	return s
}

// ServeHTTP implements http.Handler.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.handler.ServeHTTP(w, r) }

func (s *Server) routes() []Route {
	routes := []Route{
		{Method: http.MethodGet, Path: "/health", Scope: Open, Handle: s.health},
		{Method: http.MethodGet, Path: "/ping", Scope: Open, Handle: s.health},
		{Method: http.MethodGet, Path: "/", Scope: Open, Handle: s.health},
	}
	if s.options.Metrics != nil {
		routes = append(routes, Route{Method: http.MethodGet, Path: "/metrics", Scope: Open, Handle: s.options.Metrics.serve})
	}
	return routes
}

// mux routes by path and method. Unknown paths get an empty 404, wrong methods
// an empty 405 that names the right ones.
func (s *Server) mux(routes []Route) http.Handler {
	m := mux.NewRouter()
	allowed := map[string][]string{}
	for _, r := range routes {
		methods := []string{r.Method}
		if r.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		if slices.Contains(allowed[r.Path], r.Method) {
			panic("BUG: " + r.Method + " " + r.Path + " is served twice")
		}
		if strings.HasPrefix(r.Path, AdminPath) != (r.Scope == Admin) {
			panic("BUG: " + r.Method + " " + r.Path + " has the wrong scope")
		}
		allowed[r.Path] = append(allowed[r.Path], methods...)
		m.Handle(r.Path, s.handle(r)).Methods(methods...)
	}
	for path, methods := range allowed {
		allow := strings.Join(methods, ",")
		m.HandleFunc(path, func(w http.ResponseWriter, _ *http.Request) {
			w.Header().Set("Allow", allow)
			w.WriteHeader(http.StatusMethodNotAllowed)
		})
	}
	m.NotFoundHandler = http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { w.WriteHeader(http.StatusNotFound) })
	return m
}

// handle puts the key, the gate and the limit of the body before a route.
func (s *Server) handle(route Route) http.Handler {
	limit := route.BodyLimit
	if limit == 0 {
		limit = int64(s.options.Config.PayloadLimit)
	}
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if route.Scope != Open {
			if !s.admit(w, r, route.Scope) {
				return
			}
			if !s.gate.enter() {
				WriteError(w, llm.ErrDraining)
				return
			}
			defer s.gate.leave()
		}
		for name, value := range mux.Vars(r) {
			r.SetPathValue(name, value)
		}
		r.Body = http.MaxBytesReader(w, r.Body, limit)
		if err := route.Handle(w, r); err != nil {
			Note(r.Context(), err)
			WriteError(w, err)
		}
	})
}

// admit says whether the key of r opens the scope, and replies when it does not.
func (s *Server) admit(w http.ResponseWriter, r *http.Request, scope Scope) bool {
	refused := error(nil)
	switch {
	case scope == Keyed && (len(s.keys) == 0 || s.keys.match(r)), scope == Admin && s.admin.match(r):
		return true
	case scope == Admin && len(s.admin) == 0:
		refused = ErrAdminOff
	case scope == Admin && s.keys.match(r):
		refused = ErrNotAdmin
	default:
		w.Header().Set("WWW-Authenticate", "Bearer")
		w.WriteHeader(http.StatusUnauthorized)
		return false
	}
	Note(r.Context(), refused)
	WriteError(w, refused)
	return false
}

// health replies 200 with no body, or 503.
func (s *Server) health(w http.ResponseWriter, _ *http.Request) error {
	if s.gate.draining() {
		return ErrUnhealthy
	}
	if err := s.options.Healthy(); err != nil {
		s.options.Log.Warn("unhealthy", "error", err)
		return ErrUnhealthy
	}
	w.WriteHeader(http.StatusOK)
	return nil
}
