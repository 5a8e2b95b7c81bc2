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

// Route is one method of one path.
type Route struct {
	Method, Path string
	// Open routes need no key and work while the server shuts down.
	Open bool
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
	gate    gate
	handler http.Handler
}

// New returns a Server. Two routes with the same method and path are a mistake
// of the caller and panic.
func New(o Options) *Server {
	s := &Server{options: o, keys: hashKeys(o.Config.APIKeys)}
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
		{Method: http.MethodGet, Path: "/health", Open: true, Handle: s.health},
		{Method: http.MethodGet, Path: "/ping", Open: true, Handle: s.health},
		{Method: http.MethodGet, Path: "/", Open: true, Handle: s.health},
	}
	if s.options.Metrics != nil {
		routes = append(routes, Route{Method: http.MethodGet, Path: "/metrics", Open: true, Handle: s.options.Metrics.serve})
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

// handle puts the key, the gate and the payload limit before a route.
func (s *Server) handle(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !route.Open {
			if !s.keys.allow(r) {
				w.Header().Set("WWW-Authenticate", "Bearer")
				w.WriteHeader(http.StatusUnauthorized)
				return
			}
			if !s.gate.enter() {
				WriteError(w, llm.ErrDraining)
				return
			}
			defer s.gate.leave()
		}
		r.Body = http.MaxBytesReader(w, r.Body, int64(s.options.Config.PayloadLimit))
		if err := route.Handle(w, r); err != nil {
			Note(r.Context(), err)
			WriteError(w, err)
		}
	})
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
