package host

import (
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"

	"github.com/gorilla/mux"

	"tgi/server"
	"tgi/server/api/admin"
	"tgi/server/api/batchapi"
	"tgi/server/api/generateapi"
	"tgi/server/api/messages"
	"tgi/server/api/modelsapi"
	"tgi/server/api/openai"
	"tgi/server/api/responses"
	"tgi/server/api/routing"
	"tgi/server/api/texts"
	"tgi/server/api/tgi"
	"tgi/server/config"
	"tgi/server/playground"
)

// CheckRoutes returns why the further paths of s cannot be served: they are no paths, or serve something else.
func CheckRoutes(s config.Server) error {
	err := errors.Join(checkRoute("server.predict_route", http.MethodPost, s.PredictRoute, "/vertex"),
		checkRoute("server.health_route", http.MethodGet, s.HealthRoute, server.Probes()...))
	return config.Conceal(err, s.PredictRoute, s.HealthRoute)
}

// checkRoute checks one further path; those of same serve the same already.
func checkRoute(key, method, path string, same ...string) error {
	if err := tgi.CheckRoute(key, path); err != nil || path == "" || slices.Contains(same, path) {
		return err
	}
	for _, api := range []server.API{tgi.New(tgi.Options{}), openai.New(openai.Options{}),
		generateapi.New(generateapi.Options{}), messages.New(nil, nil),
		responses.New(responses.Options{}), admin.New(admin.Options{}), modelsapi.New(nil),
		batchapi.New(batchapi.Options{}), routing.New(routing.Options{}),
		texts.New(texts.Options{}), playground.New()} {
		for _, r := range api.Routes() {
			if r.Path == path || matches(r, method, path) {
				return fmt.Errorf("%s must not be a path that is served: %s %s. Given: %.64q", key, r.Method, r.Path,
					path)
			}
		}
	}
	if path == "/metrics" {
		return fmt.Errorf("%s must not be a path that is served: GET /metrics. Given: %q", key, path)
	}
	return nil
}

// matches says whether a route with variables serves path.
func matches(r server.Route, method, path string) bool {
	if r.Method != method || !strings.Contains(r.Path, "{") {
		return false
	}
	m := mux.NewRouter()
	m.Handle(r.Path, http.NotFoundHandler())
	return m.Match(&http.Request{Method: method, URL: &url.URL{Path: path}}, &mux.RouteMatch{})
}
