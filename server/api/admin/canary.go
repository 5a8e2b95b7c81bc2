package admin

import (
	"net/http"
	"time"

	"tgi/server"
)

// States of a canary.
const (
	CanaryRuns    = "running"
	CanaryAborted = "aborted"
)

// Canary is a new version of an uploaded plugin that gets a share of the requests.
type Canary struct {
	Name string `json:"name"`
	// State is CanaryRuns, or CanaryAborted: no request gets it any more, Why says the reason.
	State string `json:"state"`
	Why   string `json:"why,omitempty"`
	// Percent of the requests that name the plugin get it; AbortAfter faulty ones abort it.
	Percent    int       `json:"percent"`
	AbortAfter int       `json:"abort_after"`
	Began      time.Time `json:"began"`
	// Bound counts how often requests, and runs of programs, got it; Faulty those in which it failed; Fallbacks those
	// that went on with the version that serves.
	Bound     uint64 `json:"bound"`
	Faulty    uint64 `json:"faulty"`
	Fallbacks uint64 `json:"fallbacks"`
	// Serving and Canary are what both versions used since Began.
	Serving CanaryUse `json:"serving"`
	Canary  CanaryUse `json:"canary"`
}

// CanaryUse is what one version used.
type CanaryUse struct {
	SHA256   string            `json:"sha256"`
	Version  string            `json:"version"`
	Calls    uint64            `json:"calls"`
	Refusals uint64            `json:"refusals"`
	Faults   map[string]uint64 `json:"faults"`
	Fuel     uint64            `json:"fuel"`
	Seconds  float64           `json:"seconds"`
}

// startCanary is put with canary in the query.
func (a *API) startCanary(w http.ResponseWriter, r *http.Request, name string, s Settings) error {
	wasm, err := a.readModule(r)
	if err != nil {
		return err
	}
	c, err := a.options.Plugins.StartCanary(r.Context(), name, wasm, s)
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusCreated, c)
}

func (a *API) canary(w http.ResponseWriter, r *http.Request) error {
	c, err := a.options.Plugins.Canary(r.PathValue("name"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, c)
}

func (a *API) promoteCanary(w http.ResponseWriter, r *http.Request) error {
	p, err := a.options.Plugins.PromoteCanary(r.Context(), r.PathValue("name"))
	if err != nil {
		return err
	}
	return server.WriteValue(w, http.StatusOK, shown(p))
}

func (a *API) endCanary(w http.ResponseWriter, r *http.Request) error {
	if err := a.options.Plugins.EndCanary(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}
