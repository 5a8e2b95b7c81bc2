package modelsapi

import (
	"cmp"
	"context"
	"maps"
	"net/http"
	"slices"

	"tgi/server"
)

// bodyLimit bounds bodies, which hold a few names.
const bodyLimit = 64 << 10

// API is the routes.
type API struct{ models Models }

// New returns the API over m.
func New(m Models) *API { return &API{m} }

// Routes implements server.API. Those with fixed paths come first: the router
// takes the first that matches, and an id may look like any of them.
func (a *API) Routes() []server.Route {
	const all, one = "/v1/models", "/v1/models/{id:.+}"
	routes := []server.Route{
		{Method: http.MethodGet, Path: all, Scope: server.Listing, Handle: a.list},
		{Method: http.MethodPost, Path: all + "/start", Scope: server.Admin, Handle: a.start},
		{Method: http.MethodPost, Path: all + "/stop", Scope: server.Admin, Handle: a.stop},
		{Method: http.MethodPost, Path: all + "/pull", Scope: server.Admin, Handle: a.pull},
		{Method: http.MethodDelete, Path: all + "/pull", Scope: server.Admin, Handle: a.cancel},
		{Method: http.MethodPost, Path: all + "/import", Scope: server.Admin, Handle: a.importing},
		{Method: http.MethodGet, Path: all + "/download/{id:.+}", Scope: server.Admin, Handle: a.download},
		{Method: http.MethodPost, Path: "/v1/load_lora_adapter", Scope: server.Admin, Handle: a.loadAdapter},
		{Method: http.MethodPost, Path: "/v1/unload_lora_adapter", Scope: server.Admin, Handle: a.unloadAdapter},
		{Method: http.MethodPut, Path: one + "/start", Scope: server.Admin, Handle: a.start},
		{Method: http.MethodPost, Path: one + "/start", Scope: server.Admin, Handle: a.start},
		{Method: http.MethodPut, Path: one + "/stop", Scope: server.Admin, Handle: a.stop},
		{Method: http.MethodPost, Path: one + "/stop", Scope: server.Admin, Handle: a.stop},
		{Method: http.MethodGet, Path: one, Scope: server.Listing, Handle: a.get},
		{Method: http.MethodDelete, Path: one, Scope: server.Admin, Handle: a.delete},
	}
	for i := range routes {
		routes[i].BodyLimit = bodyLimit
		routes[i].Refuse = func(w http.ResponseWriter, r *http.Request, err error) { _ = refuse(w, r, err) }
	}
	return routes
}

// filters are what ?filter= lists.
var filters = map[string]func(*Model) bool{
	"":            func(*Model) bool { return true },
	"all":         func(*Model) bool { return true },
	"running":     func(m *Model) bool { return m.State == Running },
	"downloaded":  func(m *Model) bool { return m.got() != string(NotDownloaded) },
	"downloading": func(m *Model) bool { return m.State == Downloading },
}

// list lists the models, all or those of a filter.
func (a *API) list(w http.ResponseWriter, r *http.Request) error {
	name := r.URL.Query().Get("filter")
	fits, ok := filters[name]
	if !ok {
		return invalid("filter", "`filter` must be one of all, running, downloaded, downloading, given %.64q", name)
	}
	models, err := a.models.List(r.Context())
	if err != nil {
		return err
	}
	if r.Header.Get(anthropicVersion) != "" {
		return writeAnthropic(w, models)
	}
	items := []item{}
	for i := range models {
		if fits(&models[i]) {
			items = append(items, models[i].item())
		}
	}
	return server.WriteValue(w, http.StatusOK, struct {
		Object string `json:"object"`
		Data   []item `json:"data"`
	}{"list", items})
}

// get describes a model.
func (a *API) get(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	m, err := a.models.Get(r.Context(), id)
	if err != nil {
		return about(id, err)
	}
	if r.Header.Get(anthropicVersion) != "" {
		return server.WriteValue(w, http.StatusOK, m.anthropic())
	}
	return server.WriteValue(w, http.StatusOK, m.single())
}

// start starts the model that the address or the body names.
func (a *API) start(w http.ResponseWriter, r *http.Request) error {
	return a.act(w, r, a.models.Start, func(m *Model) (int, string) {
		if m.State == Running {
			return http.StatusOK, "Model " + m.ID + " started"
		}
		return http.StatusAccepted, "Starting model " + m.ID
	})
}

// stop stops the model that the address or the body names.
func (a *API) stop(w http.ResponseWriter, r *http.Request) error {
	return a.act(w, r, a.models.Stop, func(m *Model) (int, string) {
		switch m.State {
		case Stopping:
			return http.StatusAccepted, "Stopping model " + m.ID
		case Stopped:
			return http.StatusOK, "Model " + m.ID + " stopped"
		}
		return http.StatusOK, "Model " + m.ID + " is not running"
	})
}

// act does something to a model; said is the status and the message then.
func (a *API) act(w http.ResponseWriter, r *http.Request, do func(context.Context, string) (Model, error),
	said func(*Model) (int, string)) error {
	address := r.PathValue("id")
	q, err := body(r, address != "")
	if err != nil {
		return err
	}
	id, err := q.subject(address)
	if err != nil {
		return err
	}
	m, err := do(r.Context(), id)
	if err != nil {
		return about(id, err)
	}
	status, message := said(&m)
	return server.WriteValue(w, status, m.change(message, q.warning()))
}

// pull begins a download.
func (a *API) pull(w http.ResponseWriter, r *http.Request) error {
	q, err := body(r, false)
	if err != nil {
		return err
	}
	p, err := q.pull()
	if err != nil {
		return err
	}
	return a.fetch(w, r, p, q.warning())
}

// download begins a download by a GET, as Jan's API does. A HEAD, which the
// router takes for a GET, must not.
func (a *API) download(w http.ResponseWriter, r *http.Request) error {
	if r.Method != http.MethodGet {
		w.Header().Set("Allow", http.MethodGet)
		w.WriteHeader(http.StatusMethodNotAllowed)
		return nil
	}
	id := r.PathValue("id")
	if err := CheckSource("id", id); err != nil {
		return err
	}
	q := request{} // Jan's clients have settings in the query
	for _, name := range slices.Sorted(maps.Keys(r.URL.Query())) {
		q.ignore(name)
	}
	return a.fetch(w, r, Pull{Source: id}, q.warning())
}

// fetch begins the download p and replies.
func (a *API) fetch(w http.ResponseWriter, r *http.Request, p Pull, warning string) error {
	m, err := a.models.Pull(r.Context(), p)
	if err != nil {
		return about(p.Source, err)
	}
	if m.State != Downloading {
		return server.WriteValue(w, http.StatusOK, m.change("Model "+m.ID+" is downloaded", warning))
	}
	c := m.change("Starting download "+m.ID, warning)
	c.Task = m.task()
	return server.WriteValue(w, http.StatusAccepted, c)
}

// cancel ends a download, named by its task or its model.
func (a *API) cancel(w http.ResponseWriter, r *http.Request) error {
	q, err := body(r, false)
	if err != nil {
		return err
	}
	q.model = cmp.Or(q.taskID, q.model)
	id, err := q.subject("")
	if err != nil {
		return err
	}
	m, err := a.models.CancelPull(r.Context(), id)
	if err != nil {
		return about(id, err)
	}
	c := m.change("Download of "+m.ID+" stopped", q.warning())
	c.TaskID = m.ID
	return server.WriteValue(w, http.StatusOK, c)
}

// importing adds a model from the server's disk.
func (a *API) importing(w http.ResponseWriter, r *http.Request) error {
	q, err := body(r, false)
	if err != nil {
		return err
	}
	i, err := q.importing()
	if err != nil {
		return err
	}
	m, err := a.models.Import(r.Context(), i)
	if err != nil {
		return about(i.ID, err)
	}
	status, message := http.StatusOK, "Model "+m.ID+" imported"
	if m.State == Downloading {
		status, message = http.StatusAccepted, "Importing model "+m.ID
	}
	c := m.change(message, q.warning())
	c.Handle, c.Result = m.ID, "OK"
	return server.WriteValue(w, status, c)
}

// delete removes a model.
func (a *API) delete(w http.ResponseWriter, r *http.Request) error {
	id := r.PathValue("id")
	if err := a.models.Delete(r.Context(), id); err != nil {
		return about(id, err)
	}
	return server.WriteValue(w, http.StatusOK, deletion{id, "model", true, "Model " + id + " deleted"})
}
