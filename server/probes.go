package server

import "net/http"

// Probes: GET of these paths is answered by this package, in microseconds and
// without generating. /livez says whether restarting would help: 503 when the
// engine does not work. /startupz is 503 until the model is loaded. /readyz is
// 503 then, while the server shuts down, and when the engine does not work;
// /health, /ping and / are TGI's names for it; browsers get the page of Options.Pages at /.
func Probes() []string { return []string{"/", "/health", "/ping", "/readyz", "/livez", "/startupz"} }

func (s *Server) probes() []Route {
	var routes []Route
	for _, path := range Probes() {
		answer := s.Ready
		switch path {
		case "/livez":
			answer = s.live
		case "/startupz":
			answer = s.started
		}
		routes = append(routes, Route{Method: http.MethodGet, Path: path, Scope: Open,
			Handle: func(w http.ResponseWriter, r *http.Request) error {
				if path == "/" && s.options.Pages != nil && s.options.Pages.Front(w, r) {
					return nil
				}
				if err := answer(); err != nil {
					return err
				}
				w.WriteHeader(http.StatusOK)
				return nil
			}})
	}
	return routes
}

// live returns nil unless the engine does not work: then no request reaches it
// any more that could show that it recovered, so whoever watches must restart.
func (s *Server) live() error {
	if h := s.handlers.Load(); h.healthy != nil {
		if err := h.healthy(); err != nil {
			s.options.Log.Warn("unhealthy", "error", err)
			return ErrUnhealthy
		}
	}
	return nil
}

func (s *Server) started() error {
	if s.handlers.Load().loading {
		return ErrLoading
	}
	return nil
}

// Ready returns nil while requests are accepted: ErrLoading before Open, and
// ErrUnhealthy while the server shuts down and when the engine does not work.
func (s *Server) Ready() error {
	if err := s.started(); err != nil {
		return err
	}
	if s.gate.announced() {
		return ErrUnhealthy
	}
	return s.live()
}
