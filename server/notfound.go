package server

import (
	"errors"
	"fmt"
	"net/http"
	pathpkg "path"
	"regexp"
	"slices"
	"strings"

	"tgi/server/config"
)

// Errors of requests that match no route. Clients see their texts unchanged.
var (
	// ErrProtocol: HTTP/2 begins with TLS here.
	ErrProtocol = errors.New("HTTP/2 without TLS is not served: use HTTP/1.1, or TLS (server.tls_cert)")
	// ErrHeader: the header is too large.
	ErrHeader = errors.New("the header is too large")
	// ErrRoute: there is no such path.
	ErrRoute = errors.New("no such route")
	// ErrMethod: the path has other methods.
	ErrMethod = errors.New("method not allowed")
)

// longestGuess is the longest path for which a nearest one is looked for: the
// search takes time with its length.
const longestGuess = 200

// ofOllama are paths of Ollama's API, which is served where server.ollama says so.
var ofOllama = []string{"/api/tags", "/api/chat", "/api/generate", "/api/show", "/api/ps", "/api/version", "/api/embed",
	"/api/embeddings", "/api/pull"}

// routeHints tells those who ask for what is not there where they may have wanted to
// go, each in the shape of the API that the path seems to belong to.
type routeHints struct {
	routes []Route
	// methods of each path, in the order of routes; paths in that order too.
	methods map[string][]string
	paths   []string
	// ollama: Ollama's API is served.
	ollama bool
}

func newRouteHints(routes []Route) *routeHints {
	s := &routeHints{routes: routes, methods: map[string][]string{}}
	for _, r := range routes {
		if s.methods[r.Path] == nil {
			s.paths = append(s.paths, r.Path)
		}
		s.methods[r.Path] = append(s.methods[r.Path], r.Method)
		if r.Method == http.MethodGet {
			s.methods[r.Path] = append(s.methods[r.Path], http.MethodHead)
		}
	}
	return s
}

// noRoute replies that nothing has the path of r.
func (s *routeHints) noRoute(w http.ResponseWriter, r *http.Request) {
	path := pathpkg.Clean("/" + r.URL.Path)
	about, guess := s.closest(path), ""
	if !s.ollama && slices.Contains(ofOllama, path) {
		about = &Route{} // its clients read JSON, unlike those of other routes below /api
		guess = "; server.ollama = true serves Ollama's API"
	} else if len(path) <= longestGuess {
		// The variables of a pattern stand for what the path has in their places.
		filled := map[string]string{}
		var candidates []string
		for _, p := range s.paths {
			as := fill(p, path)
			if filled[as] == "" {
				filled[as] = p
				candidates = append(candidates, as)
			}
		}
		if near := config.Nearest(path, candidates); near != "" {
			pattern := filled[near]
			about = s.first(pattern)
			guess = fmt.Sprintf("; did you mean %s %s?", s.methodNames(pattern), plain(pattern))
		}
	}
	s.refuse(w, r, about, fmt.Errorf("%w: %s%s", ErrRoute, describe(r), guess))
}

// noMethod replies that path, which r has, is for other methods.
func (s *routeHints) noMethod(w http.ResponseWriter, r *http.Request, path string) {
	w.Header().Set("Allow", strings.Join(s.methods[path], ","))
	s.refuse(w, r, s.first(path), fmt.Errorf("%w: %s; use %s", ErrMethod, describe(r), s.methodNames(path)))
}

func (s *routeHints) refuse(w http.ResponseWriter, r *http.Request, about *Route, err error) {
	Note(r.Context(), err)
	about.refuse(w, r, err)
}

// first returns the first route of a path.
func (s *routeHints) first(path string) *Route {
	i := slices.IndexFunc(s.routes, func(r Route) bool { return r.Path == path })
	return &s.routes[i]
}

// closest returns the first of the routes that share most with the beginning of path,
// preferring one with its own error format; a route without one if none shares
// anything.
func (s *routeHints) closest(path string) *Route {
	best, most := &Route{}, 0
	given := strings.Split(strings.Trim(path, "/"), "/")
	for i := range s.routes {
		n := 0
		for k, part := range strings.Split(strings.Trim(s.routes[i].Path, "/"), "/") {
			if k == len(given) || part != given[k] || part == "" {
				break
			}
			n++
		}
		if n > most || n > 0 && n == most && best.Refuse == nil && s.routes[i].Refuse != nil {
			best, most = &s.routes[i], n
		}
	}
	return best
}

// variable is a part of a pattern that stands for others.
var variable = regexp.MustCompile(`\{([a-z_]+)(:[^}]*)?\}`)

// plain is a pattern as people write it.
func plain(pattern string) string { return variable.ReplaceAllString(pattern, "{$1}") }

// fill puts the parts of path into the variables of a pattern, where it has them.
func fill(pattern, path string) string {
	parts, given := strings.Split(pattern, "/"), strings.Split(path, "/")
	for i, p := range parts {
		if i < len(given) && given[i] != "" && variable.MatchString(p) {
			parts[i] = given[i]
		}
	}
	return strings.Join(parts, "/")
}

// isClean reports whether a path goes straight to its end.
func isClean(path string) bool {
	clean := pathpkg.Clean(path)
	return path == clean || path == clean+"/"
}

// describe names what r asks for, in characters that are harmless everywhere.
func describe(r *http.Request) string {
	return fmt.Sprintf("%.20s %.*s", r.Method, longestGuess, r.URL.EscapedPath())
}

// methodNames lists the methods of a path; that HEAD goes with GET is understood.
func (s *routeHints) methodNames(path string) string {
	methods := slices.DeleteFunc(slices.Clone(s.methods[path]), func(m string) bool { return m == http.MethodHead })
	return strings.Join(methods, " or ")
}
