package api

import (
	"fmt"
	"io"
	"net/http"
	"slices"
	"strings"
)

// The fake's models: the second is there when it is plural.
const (
	fakeFirst  = "fake"
	fakeSecond = "org/second"
	fakeAdmin  = "admin"
)

// known says whether the fake has a model of that id.
func (f *fake) has(id string) bool { return id == fakeFirst || f.plural && id == fakeSecond }

// state is a model's, which is on its way until somebody looks twice.
func (f *fake) state(id string) string {
	f.mu.Lock()
	defer f.mu.Unlock()
	if id == fakeFirst || f.second == "" {
		return "running"
	}
	now := f.second
	switch now {
	case "stopping":
		f.second = "stopped"
	case "starting":
		f.second = "running"
	}
	return now
}

// to brings the second model on its way and returns where it is then.
func (f *fake) to(id, way, end string) string {
	now := f.state(id)
	if id == fakeFirst || now == end || now == way {
		return now
	}
	f.mu.Lock()
	defer f.mu.Unlock()
	f.second = way
	return way
}

// chosen returns the model that a request names; refused says that it was answered.
func (c *fakeCall) chosen() (id string, refused bool) {
	name := c.r.URL.Query().Get("model")
	if v, there := c.body["model"]; there && name == "" && v != nil {
		var ok bool
		if name, ok = v.(string); !ok {
			return "", c.shape("model: invalid type: integer `%v`, expected a string", v)
		}
	}
	switch {
	case name == "" || name == "tgi" || name == "dummy" || name == "<MODEL_NAME>" || strings.HasPrefix(name, "http://"):
		return fakeFirst, false
	case c.has(name):
	case c.plural && strings.HasPrefix(c.r.URL.Path, "/api/"):
		c.w.Header().Set("Content-Type", "text/plain")
		c.w.WriteHeader(http.StatusNotFound)
		fmt.Fprintf(c.w, "The model `%s` does not exist", name)
		return "", true
	case c.plural:
		c.refuse(http.StatusNotFound, "model_not_found", "The model `"+name+"` does not exist")
		return "", true
	default:
		return fakeFirst, false
	}
	if c.state(name) != "running" {
		c.w.Header().Set("Retry-After", "30")
		c.refuse(http.StatusServiceUnavailable, "model_stopped", "Model `"+name+"` is stopped")
		return "", true
	}
	return name, false
}

// described is a model in the list, or alone.
func (c *fakeCall) described(id string, alone bool) map[string]any {
	status := c.state(id)
	m := map[string]any{"id": id, "object": "model", "created": 0, "owned_by": id}
	if !c.fake.ours {
		return m
	}
	m["status"], m["source_url"], m["name"], m["metadata"] = status, "urn:tgi:model:"+strings.ReplaceAll(id, "/",
		"%2F"), id, map[string]any{"size": "5M"}
	if alone {
		p := map[string]any{"ctx_len": fakeTotal, "temperature": 1, "top_k": 0}
		m["parameters"], m["model_parameters"], m["engine_parameters"] = p, p, map[string]any{"n_parallel": 8,
			"cpu_threads": 2, "embedding": false}
		m["state"] = map[string]string{"running": "running", "stopping": "running"}[status]
		if m["state"] == "" {
			m["state"] = "stopped"
		}
		return m
	}
	m["type"], m["version"] = "model", "1"
	if m["state"] = status; !strings.HasSuffix(status, "ing") || status == "running" {
		m["state"] = "ready"
	}
	m["settings"] = map[string]any{"ctx_len": fmt.Sprint(fakeTotal), "embedding": "false",
		"parameters": map[string]any{"stream": "true"}}
	return m
}

// modelError refuses in the shape of the models API.
func (c *fakeCall) modelError(status int, kind, text string) {
	c.json(status, map[string]any{
		"error":      map[string]any{"message": text, "type": "invalid_request_error", "param": "model", "code": kind},
		"error_type": kind, "message": text,
	})
}

// models answers the routes about models.
func (c *fakeCall) models() {
	path := strings.TrimPrefix(c.r.URL.Path, modelsPath)
	ids := []string{fakeFirst}
	if c.plural {
		ids = append(ids, fakeSecond)
	}
	download := strings.HasPrefix(path, "/download/")
	switch reads := c.r.Method == http.MethodGet || c.r.Method == http.MethodHead; {
	case reads && path == "":
		list := []any{}
		filter := c.r.URL.Query().Get("filter")
		if filter == "none" {
			c.modelError(http.StatusUnprocessableEntity, "validation",
				"`filter` must be one of all, running, downloaded, downloading")
			return
		}
		for _, id := range ids {
			if m := c.described(id, false); filter == "" || filter == "all" || m["status"] == filter {
				list = append(list, m)
			}
		}
		c.json(200, map[string]any{"object": "list", "data": list})
	case reads && !download:
		id := strings.TrimPrefix(path, "/")
		if id == "tgi" {
			id = fakeFirst
		}
		if !slices.Contains(ids, id) {
			c.modelError(http.StatusNotFound, "model_not_found", "The model `"+id+"` does not exist")
			return
		}
		c.json(200, c.described(id, true))
	default:
		c.act(strings.TrimPrefix(path, "/"))
	}
}

// act does something to a model.
func (c *fakeCall) act(path string) {
	if c.r.Header.Get("Authorization") != "Bearer "+fakeAdmin {
		c.refuse(http.StatusForbidden, "forbidden", "this route needs a key with the scope `admin`")
		return
	}
	b, _ := io.ReadAll(c.r.Body)
	v, err := parse(b)
	if err != nil && len(b) > 0 {
		c.modelError(http.StatusBadRequest, "bad_request", unparsable)
		return
	}
	id, verb := v.at("model").text(), path
	for _, one := range []string{"start", "stop"} {
		if of, ok := strings.CutSuffix(path, "/"+one); ok {
			id, verb = of, one
		}
	}
	change := func(state, warning string) {
		status := http.StatusOK
		if strings.HasSuffix(state, "ing") && state != "running" {
			status = http.StatusAccepted
		}
		c.json(status, map[string]any{"id": id, "object": "model", "state": state, "message": verb, "warning": warning})
	}
	known := slices.Contains([]string{"start", "stop", "pull", "import"}, verb)
	if !known {
		id = path
	}
	sound := func(id string) bool {
		return id != "" && !strings.ContainsAny(id, ": ") && !strings.Contains(id, "..") && id[0] != '/'
	}
	pulled := v.at("id")
	switch {
	case strings.HasPrefix(path, "download/"), known && !sound(id),
		verb == "pull" && pulled.there && !sound(pulled.text()), verb == "import" && (!v.at("modelPath").there ||
			v.at("option").text() == "move"):
		c.modelError(http.StatusUnprocessableEntity, "validation", "no")
	case !c.has(id):
		c.modelError(http.StatusNotFound, "model_not_found", "The model `"+id+"` does not exist")
	case c.r.Method == http.MethodDelete:
		c.modelError(http.StatusConflict, "conflict", id+" is running, or nothing is downloaded")
	case verb == "start":
		warning := ""
		if v.at("ngl").there {
			warning = "ignored: ngl"
		}
		change(c.to(id, "starting", "running"), warning)
	case verb == "stop":
		change(c.to(id, "stopping", "stopped"), "")
	}
}
