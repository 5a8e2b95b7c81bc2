package server

import (
	"context"
	"log/slog"
	"net/http"
	"strings"
	"sync/atomic"
	"time"

	"github.com/gorilla/mux"

	"tgi/runtime/llm"
	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/quota"
	"tgi/server/record"
)

// API is one dialect's routes.
type API interface{ Routes() []Route }

// AdminPath is where nothing but Admin routes is. Some of those are elsewhere,
// next to what they administrate.
const AdminPath = "/admin/"

// Route is one method of one path.
type Route struct {
	Method string
	// Path may hold variables such as {name}, which Request.PathValue returns.
	Path string
	// Scope says whom it serves.
	Scope Scope
	// Operation is what it wants of a model, for metrics and traces; "" leaves it to what its handler does with one.
	// Recorder keeps those that have one.
	Operation Operation
	// BodyLimit bounds the body in bytes; 0 is server.payload_limit.
	BodyLimit int64
	// WhileDraining says that it is served while the server shuts down too, which does not wait for it.
	WhileDraining bool
	// Light says that no model computes for it: a client that asks too much of this kind while others generate is
	// refused. Routes that are open or list things are anyway.
	Light bool
	// Streamed says that the handler does not hold the body: its bytes do not count for server.payload_memory.
	Streamed bool
	// Handle replies, or returns an error before it wrote anything.
	Handle func(w http.ResponseWriter, r *http.Request) error
	// Refuse replies with an error that was found before Handle was called or
	// that Handle returned, in the shape that the route's clients read; nil is
	// WriteError.
	Refuse func(w http.ResponseWriter, r *http.Request, err error)
}

// Pages are for people who look at a server with a browser.
type Pages interface {
	API
	// Front replies to GET / if r comes from a browser; else it returns false and has written nothing.
	Front(w http.ResponseWriter, r *http.Request) bool
}

// Options of a Server.
type Options struct {
	// Config bounds bodies, connections and the time to shut down, and holds
	// keys.
	Config config.Server
	// Keys are those of [[key]].
	Keys []config.Key
	// APIs are served in addition to the probes and /metrics; nil until Open is called.
	APIs []API
	// Pages are what browsers get at "/", and its files; nil is none. They are there before Open is called.
	Pages Pages
	// Quotas bound and count what keys use; nil is no bound.
	Quotas *quota.Quotas
	// Healthy returns nil while the engine makes progress; nil is always.
	Healthy func() error
	// Metrics are served under /metrics.
	Metrics *Metrics
	// Tracer makes traces of requests for all but Open routes; nil makes none.
	Tracer *Tracer
	// Recorder keeps requests of Generate routes that have an Operation with their replies; nil keeps none.
	Recorder *record.Recorder
	// Log receives a line per request.
	Log *slog.Logger
}

// Server answers HTTP requests.
type Server struct {
	options Options
	keys    keys
	gate    gate
	texts   byteBudget
	load    func() EndpointLoad // nil is nobody's
	rate    rate
	// holds are of clients with many requests that no model computes.
	holds holds
	// discards are of bodies that nobody wants.
	discards discards
	turns    atomic.Pointer[generate.Turns] // nil where the processors are not shared
	// late is closed when the time to shut down is over.
	late chan struct{}
	// handlers are what is served now; it is replaced once, when it opens.
	handlers atomic.Pointer[handlers]
	public   http.Handler
	private  http.Handler // of the admin address
}

// handlers is everything behind the middleware.
type handlers struct {
	loading         bool
	healthy         func() error // nil for nothing that could be ill
	public, private http.Handler
}

// New returns a Server that serves o. Without APIs it is loading until Open is called:
// probes and /metrics are answered, and everything else is 503 with the error type
// "loading". Two routes with the same method and path, and a route below AdminPath that
// is no Admin route, are mistakes of the caller and panic.
func New(o Options) *Server {
	s := &Server{options: o, keys: newKeys((&config.Config{Server: o.Config, Key: o.Keys}).AllKeys()),
		late: make(chan struct{})}
	s.gate.init()
	s.texts.grow(o.Config.Payloads())
	s.handlers.Store(s.build(true, nil, nil))
	s.public = s.wrap(func(h *handlers) http.Handler { return h.public })
	s.private = s.wrap(func(h *handlers) http.Handler { return h.private })
	if o.APIs != nil {
		s.Open(o.APIs, o.Healthy)
	}
	return s
}

// Open serves apis from now on, and is ready as long as healthy returns nil. It
// is called once. It panics as New does.
func (s *Server) Open(apis []API, healthy func() error) {
	s.texts.grow(max(0, largestBody(apis)-s.options.Config.Payloads()))
	s.handlers.Store(s.build(false, apis, healthy))
}

// largestBody returns the highest limit that a route has of its own: the memory of all bodies must hold one such.
func largestBody(apis []API) (n int64) {
	for _, api := range apis {
		for _, r := range api.Routes() {
			if !r.Streamed {
				n = max(n, r.BodyLimit)
			}
		}
	}
	return n
}

// build registers the routes. Those of administrators are on the public address
// unless they have one of their own, where what tells of models is too: who starts
// and stops them has to see them.
func (s *Server) build(loading bool, apis []API, healthy func() error) *handlers {
	public := s.own()
	private := s.own()
	apart := s.options.Config.AdminPort != 0
	for _, api := range apis {
		for _, r := range api.Routes() {
			if apart && (r.Scope == Admin || r.Scope.forModels()) {
				private = append(private, r)
			}
			if !apart || r.Scope != Admin {
				public = append(public, r)
			}
		}
	}
	return &handlers{loading, healthy, s.mux(public, loading), s.mux(private, loading)}
}

// wrap puts the middleware around those handlers that are in place when a request
// comes.
func (s *Server) wrap(part func(*handlers) http.Handler) http.Handler {
	inner := http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { part(s.handlers.Load()).ServeHTTP(w, r) })
	return s.log(s.identify(s.recoverPanics(s.crossOrigin(checkProtocol(inner)))))
}

// ServeHTTP implements http.Handler for the public address.
func (s *Server) ServeHTTP(w http.ResponseWriter, r *http.Request) { s.public.ServeHTTP(w, r) }

// own returns the routes of this package.
func (s *Server) own() []Route {
	routes := s.probes()
	if s.options.Metrics != nil {
		scope := Open
		if s.options.Config.ProtectMetrics {
			scope = anyKey
		}
		routes = append(routes, Route{Method: http.MethodGet, Path: "/metrics", Scope: scope,
			Handle: s.serveMetrics})
	}
	if s.options.Pages != nil {
		routes = append(routes, s.options.Pages.Routes()...)
	}
	return routes
}

// mux routes by path and method. Unknown paths get 404 with the nearest, or 503
// while the routes are not known yet, wrong methods 405 with the right ones. A path
// that could be shorter is unknown: no client is redirected from //generate to /generate,
// which makes a GET of a POST, and no handler meets a "..".
func (s *Server) mux(routes []Route, loading bool) http.Handler {
	m := mux.NewRouter().SkipClean(true)
	hints := newRouteHints(routes)
	hints.ollama = s.options.Config.Ollama
	absent := hints.noRoute
	if loading {
		absent = func(w http.ResponseWriter, r *http.Request) {
			Note(r.Context(), ErrLoading)
			WriteError(w, ErrLoading)
		}
	}
	seen := map[string]bool{}
	for _, r := range routes {
		methods := []string{r.Method}
		if r.Method == http.MethodGet {
			methods = append(methods, http.MethodHead)
		}
		if seen[r.Method+" "+r.Path] {
			panic("BUG: " + r.Method + " " + r.Path + " is served twice")
		}
		if strings.HasPrefix(r.Path, AdminPath) && r.Scope != Admin {
			panic("BUG: " + r.Method + " " + r.Path + " has the wrong scope")
		}
		seen[r.Method+" "+r.Path] = true
		m.Handle(r.Path, s.handle(r)).Methods(methods...)
	}
	for _, path := range hints.paths { // of two that match, the first counts
		m.HandleFunc(path, func(w http.ResponseWriter, r *http.Request) {
			if loading { // POST / will be there
				absent(w, r)
				return
			}
			hints.noMethod(w, r, path)
		})
	}
	m.NotFoundHandler = http.HandlerFunc(absent)
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		if !isClean(r.URL.Path) {
			absent(w, r)
			return
		}
		m.ServeHTTP(w, r)
	})
}

// refuse replies with err as the route's clients read it.
func (route *Route) refuse(w http.ResponseWriter, r *http.Request, err error) {
	if route.Refuse != nil {
		route.Refuse(w, r, err)
		return
	}
	WriteError(w, err)
}

// record begins to record r and the reply that w will be; nil where nothing is recorded.
func (s *Server) record(w http.ResponseWriter, r *http.Request) *record.Exchange {
	out, ok := w.(*reply)
	if !ok {
		return nil
	}
	out.kept = s.options.Recorder.Begin(r, w.Header().Get("X-Request-Id"), KeyName(r.Context()))
	return out.kept
}

// handle puts the key and the gate before a route.
func (s *Server) handle(route Route) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		logOf(r.Context()).noteRoute(&route)
		r, err := s.admit(fromAddress(r), route.Scope)
		if err != nil {
			route.refuseKey(w, r, err)
			return
		}
		if s.gate.announced() {
			w.Header().Set("Connection", "close")
		}
		if !route.Scope.open() {
			if !route.WhileDraining {
				if !s.gate.enter() {
					route.refuse(w, r, llm.ErrDraining)
					return
				}
				defer s.gate.leave()
			}
			r = s.options.Tracer.begin(r, route.Path)
		}
		for name, value := range mux.Vars(r) {
			r.SetPathValue(name, value)
		}
		if route.Scope == Generate && route.Operation != "" { // other routes look at things, or keep and count them
			kept := s.record(w, r)
			r.Body = kept.Body(r.Body)
			defer func() { kept.End(statusOf(w), w.Header()) }()
		}
		s.visit(w, r, &route)
	})
}

// visit serves a request whose key was looked at: by the limits of the key, with the limit of the body, what is held
// taken from the memory of all requests, and what it costs charged to its client. Whatever is a request passes here,
// whether it has a connection of its own or is a message; see Connection.
func (s *Server) visit(w http.ResponseWriter, r *http.Request, route *Route) {
	limit := route.BodyLimit
	if limit == 0 {
		limit = int64(s.options.Config.PayloadLimit)
	}
	v := logOf(r.Context())
	held := &holding{from: &s.texts}
	lease, refused := s.enter(w, r, route.Scope)
	here := &stay{server: s, held: held, lease: lease, closed: route.Scope == Generate && r.Method != http.MethodPost}
	ctx := here.context(r.Context())
	if v != nil {
		ctx = llm.WithWaits(ctx, v.wait)
		here.account = v.account(r)
	}
	if !route.Scope.open() {
		here.operation = &operation{began: time.Now(), name: route.Operation}
		s.tellLoad(w, r, route.Scope)
		ctx = context.WithValue(ctx, operationKey{}, here.operation)
	}
	r = r.WithContext(ctx)
	defer func() {
		v.noteWork(route, here.operation)
		here.leave(r.Context(), statusOf(w))
	}()
	if v != nil {
		r.Body = waitedBody{r.Body, v}
	}
	r.Body = http.MaxBytesReader(w, r.Body, limit)
	parses := route.Scope == Generate && !route.Streamed
	if parses && r.ContentLength < 0 {
		r.Body = &untoldBody{ReadCloser: r.Body, stay: here}
	}
	if !route.Streamed {
		r.Body = &budgetedBody{ReadCloser: r.Body, holding: held}
	}
	if refused == nil && r.ContentLength > limit && route.BodyLimit == 0 {
		refused = ErrTooLarge // the length is enough to know; routes with a limit of their own say which
	}
	if refused == nil {
		refused = s.overdrawn(r, route, v)
	}
	if refused == nil && parses && r.ContentLength >= longBody {
		refused = here.mayParse()
	}
	if refused != nil {
		Note(r.Context(), refused)
		route.refuse(w, r, refused)
		return
	}
	if err := route.Handle(w, r); err != nil {
		Note(r.Context(), err)
		route.refuse(w, r, err)
	}
}
