package admin

import (
	"context"
	"fmt"
	"net/http"
	"strings"
	"time"

	"tgi/server"
	"tgi/server/quota"
)

// Plugins are what the routes act on. It is safe for concurrent use.
type Plugins interface {
	// List returns all plugins, by name.
	List() []server.Plugin
	// Get returns one of them, and whether it is there.
	Get(name string) (server.Plugin, bool)
	// Put loads a module under name, in place of one that was uploaded before;
	// name and settings are within their bounds. It owns wasm. Errors wrap
	// server.ErrRefused with why or server.ErrNoRoom, after which what was there
	// serves on, or server.ErrNotUploaded.
	Put(ctx context.Context, name string, wasm []byte, s Settings) (server.Plugin, error)
	// Refused tells of an upload under a name, or of a canary, that comes to neither Put nor StartCanary: err says what
	// is wrong with its query or its body.
	Refused(ctx context.Context, name string, err error)
	// Try is Put that changes nothing.
	Try(ctx context.Context, name string, wasm []byte, s Settings) (Trial, error)
	// Versions lists what is kept of a plugin that was uploaded, the serving version first. Errors are those of Delete.
	Versions(name string) ([]Version, error)
	// Rollback has an earlier version serve, the latest or the one whose SHA-256 begins with to. Errors are those of
	// Delete and Put.
	Rollback(ctx context.Context, name, to string) (server.Plugin, error)
	// StartCanary gives a share of the requests a module beside the one that was uploaded before. Errors are those of
	// Delete and Put; nothing was changed then.
	StartCanary(ctx context.Context, name string, wasm []byte, s Settings) (Canary, error)
	// Canaries tells of those of all plugins, by name, Canary of the canary of a plugin. PromoteCanary has it
	// take the place of what serves, and EndCanary takes it away. Errors wrap server.ErrNoPlugin where there is none;
	// others are those of Put.
	Canaries() []Canary
	Canary(name string) (Canary, error)
	PromoteCanary(ctx context.Context, name string) (server.Plugin, error)
	EndCanary(ctx context.Context, name string) error
	// Log returns the lines that are kept of a plugin, behind the one whose Seq is after. Errors wrap
	// server.ErrNoPlugin.
	Log(name string, after uint64) ([]LogLine, error)
	// Delete removes a plugin that was uploaded; requests that run with it
	// finish. Errors wrap server.ErrNoPlugin or server.ErrNotUploaded.
	Delete(ctx context.Context, name string) error
	// Reload reads the settings again and loads what changed. An error wraps
	// server.ErrRefused and means that nothing was done.
	Reload(ctx context.Context) (Report, error)
}

// Report is what came of a reload. Lists hold names in order.
type Report struct {
	// Loaded are new or replaced, Removed are gone.
	Loaded  []string `json:"loaded"`
	Removed []string `json:"removed"`
	// Failed could not be loaded; what was there serves on.
	Failed []Failure `json:"failed"`
	// Restart are the settings that changed and wait for a restart.
	Restart []string `json:"restart"`
}

// Failure is a plugin that could not be loaded.
type Failure struct {
	Name  string `json:"name"`
	Error string `json:"error"`
}

// Options of an API.
type Options struct {
	// Plugins are what the routes act on.
	Plugins Plugins
	// UploadLimit bounds a module, in bytes.
	UploadLimit int64
	// Usage returns what keys have used since a time.
	Usage func(context.Context) (since time.Time, list []quota.Usage)
	// Live returns what the engines do now, as the key of a request may know it; its rates are the API's to add.
	Live func(context.Context) Live
}

// API is the admin routes.
type API struct {
	options Options
	rates   rates
}

// New returns the API.
func New(o Options) *API { return &API{options: o} }

// Routes implements server.API.
func (a *API) Routes() []server.Route {
	const plugins, one = server.AdminPath + "plugins", server.AdminPath + "plugins/{name}"
	return []server.Route{
		{Method: http.MethodGet, Path: plugins, Scope: server.Admin, Handle: a.list},
		{Method: http.MethodGet, Path: one, Scope: server.Admin, Handle: a.get},
		{Method: http.MethodPut, Path: one, Scope: server.Admin, BodyLimit: a.options.UploadLimit, Handle: a.put},
		{Method: http.MethodDelete, Path: one, Scope: server.Admin, Handle: a.delete},
		{Method: http.MethodGet, Path: one + "/versions", Scope: server.Admin, Handle: a.versions},
		{Method: http.MethodPost, Path: one + "/rollback", Scope: server.Admin, Handle: a.rollback},
		{Method: http.MethodGet, Path: server.AdminPath + "canaries", Scope: server.Admin, Handle: a.canaries},
		{Method: http.MethodGet, Path: one + "/canary", Scope: server.Admin, Handle: a.canary},
		{Method: http.MethodPost, Path: one + "/canary/promote", Scope: server.Admin, Handle: a.promoteCanary},
		{Method: http.MethodDelete, Path: one + "/canary", Scope: server.Admin, Handle: a.endCanary},
		{Method: http.MethodGet, Path: one + "/log", Scope: server.Admin, Handle: a.log},
		{Method: http.MethodPost, Path: server.AdminPath + "reload", Scope: server.Admin, Handle: a.reload},
		{Method: http.MethodGet, Path: server.AdminPath + "usage", Scope: server.Admin, Handle: a.usage},
		{Method: http.MethodGet, Path: server.AdminPath + "live", Scope: server.Admin, WhileDraining: true,
			Handle: a.live},
	}
}

// Plugin is a plugin with what is tried beside it.
type Plugin struct {
	server.Plugin
	// Canary is the new version that gets a share of its requests, or a shadow; nil for none.
	Canary *CanaryInShort `json:"canary,omitempty"`
}

func (a *API) list(w http.ResponseWriter, _ *http.Request) error {
	plugins, tried := []Plugin{}, inShort(a.options.Plugins.Canaries())
	for _, p := range a.options.Plugins.List() {
		plugins = append(plugins, Plugin{shown(p), tried[p.Name]})
	}
	return server.WriteValue(w, http.StatusOK, map[string][]Plugin{"plugins": plugins})
}

func (a *API) get(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	p, ok := a.options.Plugins.Get(name)
	if !ok {
		return fmt.Errorf("%w: %.64q", server.ErrNoPlugin, name)
	}
	return server.WriteValue(w, http.StatusOK, Plugin{shown(p), inShort(a.options.Plugins.Canaries())[name]})
}

func (a *API) put(w http.ResponseWriter, r *http.Request) error {
	name := r.PathValue("name")
	s, err := readSettings(name, r.URL.RawQuery)
	if err == nil && s.DryRun {
		return a.try(w, r, name, s)
	}
	var wasm []byte
	if err == nil {
		wasm, s.Signed, err = a.readModule(r)
	}
	if err != nil {
		a.options.Plugins.Refused(r.Context(), name, err)
		return err
	}
	if s.Canary > 0 {
		return a.startCanary(w, r, name, wasm, s)
	}
	status := http.StatusCreated
	if _, there := a.options.Plugins.Get(name); there {
		status = http.StatusOK
	}
	p, err := a.options.Plugins.Put(r.Context(), name, wasm, s)
	if err != nil {
		return err
	}
	return server.WriteValue(w, status, shown(p))
}

func (a *API) delete(w http.ResponseWriter, r *http.Request) error {
	if err := a.options.Plugins.Delete(r.Context(), r.PathValue("name")); err != nil {
		return err
	}
	w.WriteHeader(http.StatusNoContent)
	return nil
}

// reload replies with the report; one that names failures is an error as well,
// so that scripts which look at the status alone notice.
func (a *API) reload(w http.ResponseWriter, r *http.Request) error {
	report, err := a.options.Plugins.Reload(r.Context())
	if err != nil {
		return err
	}
	for _, list := range []*[]string{&report.Loaded, &report.Removed, &report.Restart} {
		if *list == nil {
			*list = []string{}
		}
	}
	if len(report.Failed) == 0 {
		report.Failed = []Failure{}
		return server.WriteValue(w, http.StatusOK, report)
	}
	var texts []string
	for _, f := range report.Failed {
		texts = append(texts, f.Name+": "+f.Error)
	}
	failed := fmt.Errorf("%w: %s", server.ErrRefused, strings.Join(texts, "; "))
	server.Note(r.Context(), failed)
	return server.WriteValue(w, http.StatusUnprocessableEntity, struct {
		Error string `json:"error"`
		Type  string `json:"error_type"`
		Report
	}{failed.Error(), "plugin", report})
}

// shown is p with its lists there, however empty.
func shown(p server.Plugin) server.Plugin {
	if p.Kinds == nil {
		p.Kinds = []string{}
	}
	if p.Faults == nil {
		p.Faults = map[string]uint64{}
	}
	return p
}
