package api

import (
	"fmt"
	"net/http"
	"net/url"
	"slices"
	"strings"
	"time"
)

// listed returns the models of the list, and leaves the case out where the server has
// no models API: there, a model has OpenAI's four members alone.
func (p *probe) listed() []value {
	r := p.get(modelsPath)
	p.status(r, http.StatusOK)
	list := p.json(r).at("data").list()
	if len(list) == 0 || !list[0].at("status").there {
		p.skip("does not hold in a server without a models API")
	}
	return list
}

// modelPath is the address of a model; ids hold slashes, which need not be encoded.
func modelPath(id string) string { return modelsPath + "/" + id }

// admin sends a request of an administrator; without the key the case is left out.
func (p *probe) admin(method, path, body string) *reply {
	if p.target.AdminKey == "" {
		p.skip("does not hold in a run without an administrator's key")
	}
	return p.do(request{method: method, path: path, body: body, header: map[string]string{"Authorization": "Bearer " +
		p.target.AdminKey}})
}

// actions are the routes that change a model. For an unknown model only the key is checked.
func actions(id string) []request {
	body := `{"model":` + encode(id) + `}`
	var all []request
	for _, path := range []string{"/start", "/stop"} {
		all = append(all, request{method: http.MethodPost, path: modelsPath + path, body: body},
			request{method: http.MethodPut, path: modelPath(id) + path}, request{method: http.MethodPost,
				path: modelPath(id) + path})
	}
	return append(all, request{method: http.MethodDelete, path: modelPath(id)}, request{method: http.MethodDelete,
		path: modelsPath + "/pull", body: body})
}

var modelsCases = []Case{
	{ID: "models-list",
		Rule: "GET /v1/models has Jan's members behind OpenAI's, and the exact state; filter picks some", Source: ofJan,
		This: true, run: func(p *probe) {
			p.listed()
			v, _ := p.answer(p.get(modelsPath), "ListedModels")
			seen := map[string]bool{}
			for _, m := range v.at("data").list() {
				if id := m.at("id").text(); seen[id] {
					p.fail("%s is listed twice", id)
				} else {
					seen[id] = true
				}
				p.absolute(m)
			}
			for filter, status := range map[string]string{"all": "", "running": "running",
				"downloading": "downloading"} {
				some, _ := p.answer(p.get(modelsPath+"?filter="+filter), "ListedModels")
				want := 0
				for _, m := range v.at("data").list() {
					if status == "" || m.at("status").text() == status {
						want++
					}
				}
				p.equal("the number of models with filter="+filter, len(some.at("data").list()), want)
			}
			p.modelsRefused(p.get(modelsPath+"?filter=none"), http.StatusUnprocessableEntity, "validation")
		}},
	{ID: "models-get",
		Rule: "GET /v1/models/{id} describes a model, whose slashes may be encoded; a name for want of a better is the default's", Source: ofJan, This: true, run: func(p *probe) {
			for _, m := range p.listed() {
				id := m.at("id").text()
				for _, path := range []string{modelPath(id), modelsPath + "/" + url.PathEscape(id)} {
					v, _ := p.answer(p.get(path), "OneModel")
					p.equal("id", v.at("id"), id)
					p.equal("status", v.at("status"), m.at("status"))
					p.absolute(v)
					p.bounded(v)
				}
			}
			v, _ := p.answer(p.get(modelPath("tgi")), "OneModel")
			p.equal("id of tgi", v.at("id"), p.info.at("model_id"))
			p.modelsRefused(p.get(modelPath(unknownModel)), http.StatusNotFound, "model_not_found")
			p.empty(p.do(request{method: http.MethodHead, path: modelPath("tgi")}))
		}},
	{ID: "models-keys", Rule: "what changes something needs an administrator's key", Source: ofServer, This: true,
		run: func(p *probe) {
			p.listed()
			for _, q := range actions(unknownModel) {
				r := p.do(q)
				if r.status == http.StatusNotFound && p.target.Key != "" {
					p.skip("the key given is an administrator's")
				}
				if r.status != http.StatusUnauthorized && r.status != http.StatusForbidden {
					p.fail("%s %s has status %d without an administrator's key, want 401 or 403", q.method, q.path,
						r.status)
				}
			}
		}},
	{ID: "models-refused",
		Rule: "actions on unknown models are 404, on one that runs 409, and bodies that name none or more than a name 422", Source: ofJan, This: true, run: func(p *probe) {
			p.listed()
			for _, q := range actions(unknownModel) {
				p.modelsRefused(p.admin(q.method, q.path, q.body), http.StatusNotFound, "model_not_found")
			}
			served := p.info.at("model_id").text()
			p.modelsRefused(p.admin(http.MethodDelete, modelPath(served), ""), http.StatusConflict, "conflict")
			p.modelsRefused(p.admin(http.MethodDelete, modelsPath+"/pull", `{"model":`+encode(served)+`}`),
				http.StatusConflict, "conflict")
			p.modelsRefused(p.admin(http.MethodPost, modelsPath+"/start", `{"model"`), http.StatusBadRequest,
				"bad_request")
			for _, bad := range []struct{ path, body string }{
				{"/start", `{}`}, {"/stop", `{"model":5}`}, {"/pull", `{"id":"a"}`}, {"/pull", `{"model":"../../etc"}`},
				{"/pull", `{"model":"ftp://host/a"}`},
				{"/pull", `{"model":"org/a","id":"../a"}`}, {"/pull", `{"model":"org/a","id":"/a"}`},
				{"/import", `{"model":"a"}`}, {"/import", `{"model":"..","modelPath":"/tmp/a"}`},
				{"/import", `{"model":"a","modelPath":"/tmp/a","option":"move"}`},
			} {
				p.modelsRefused(p.admin(http.MethodPost, modelsPath+bad.path, bad.body), http.StatusUnprocessableEntity,
					"validation")
			}
			p.modelsRefused(p.admin(http.MethodGet, modelsPath+"/download/a%20b", ""), http.StatusUnprocessableEntity,
				"validation")
		}},
	{ID: "models-stop-start",
		Rule: "a model is stopped and started while others answer: 202 on the way, 200 where it is so already; a request to one that was stopped is a 503 with Retry-After", Source: ofJan, This: true, run: func(p *probe) {
			p.listed()
			if p.target.AdminKey == "" {
				p.skip("does not hold in a run without an administrator's key")
			}
			id := p.second()
			first := p.info.at("model_id").text()
			text := p.ask("/generate", naming(encode(id)), "GenerateResponse").at("generated_text").text()
			p.changed(p.admin(http.MethodPut, modelPath(id)+"/start", ""), id, "running", http.StatusOK)
			p.changed(p.admin(http.MethodPut, modelPath(id)+"/stop", ""), id, "stopping", http.StatusAccepted,
				http.StatusOK)
			p.becomes(id, "stopped")
			for _, path := range []string{"/generate", "/generate_stream", "/tokenize"} {
				p.stopped(p.post(path, naming(encode(id))), id)
			}
			p.stopped(p.post(chatPath, chat(1, `,"model":`+encode(id))), id)
			p.ask("/generate", naming(encode(first)), "GenerateResponse")
			p.changed(p.admin(http.MethodPost, modelsPath+"/stop", `{"model":`+encode(id)+`}`), id, "stopped",
				http.StatusOK)
			p.changed(p.admin(http.MethodPost, modelsPath+"/start", `{"model":`+encode(id)+`,"ngl":100}`), id,
				"starting",
				http.StatusAccepted, http.StatusOK)
			if w := p.json(p.last).at("warning").text(); !strings.Contains(w, "ngl") {
				p.fail("warning is %s, want it to name ngl, which was not applied", quote(w))
			}
			p.becomes(id, "running")
			p.equal("the text after the start", p.ask("/generate", naming(encode(id)),
				"GenerateResponse").at("generated_text"), text)
		}},
}

// modelsRefused expects an error in the shape of the models API.
func (p *probe) modelsRefused(r *reply, status int, kind string) {
	p.status(r, status)
	v := p.json(r)
	p.fits("ModelsError", v)
	p.equal("code", v.at("error", "code"), kind)
	p.equal("error_type", v.at("error_type"), kind)
	p.equal("message", v.at("message"), v.at("error", "message"))
}

// changed expects the reply to an action on a model, with one of the statuses: the
// state wanted goes with the first of them.
func (p *probe) changed(r *reply, id, state string, statuses ...int) {
	if !slices.Contains(statuses, r.status) {
		p.status(r, statuses[0])
	}
	v := p.json(r)
	p.fits("Changed", v)
	p.equal("id", v.at("id"), id)
	if r.status == statuses[0] {
		p.equal("state", v.at("state"), state)
	}
}

// becomes waits until a model has a state.
func (p *probe) becomes(id, want string) {
	for {
		v, _ := p.answer(p.get(modelPath(id)), "OneModel")
		switch state := v.at("status").text(); {
		case state == want:
			p.equal("state", v.at("state"), want)
			return
		case state == "error":
			p.fatal("%s is in the state error (%s), want %s", id, v.at("failure"), want)
		}
		select {
		case <-time.After(20 * time.Millisecond):
		case <-p.ctx.Done():
			p.fatal("%s is %s for too long, want %s", id, v.at("status"), want)
		}
	}
}

// stopped expects that requests for the model fail because it was stopped.
func (p *probe) stopped(r *reply, id string) {
	p.refused(r, http.StatusServiceUnavailable, "model_stopped", "Model `"+id+"` is stopped")
	p.matches("retry-after", r.header.Get("Retry-After"), `[1-9]\d*`)
}

// absolute checks the form of a model's source.
func (p *probe) absolute(m value) {
	if u, err := url.Parse(m.at("source_url").text()); err != nil || !u.IsAbs() {
		p.fail("source_url of %s is %s, want an absolute one", m.at("id"), m.at("source_url"))
	}
}

// bounded checks the bounds that Jan's schemas have for numbers.
func (p *probe) bounded(m value) {
	for at, bounds := range map[string][2]float64{
		"engine_parameters.ctx_len": {128, 4096}, "engine_parameters.n_parallel": {1, 10},
		"engine_parameters.cpu_threads": {1, 1 << 20},
		"parameters.ctx_len":            {0, 4096}, "parameters.n_parallel": {1, 10}, "parameters.temperature": {0, 2},
		"parameters.token_limit": {1, 4096},
		"parameters.top_k":       {0, 100}, "parameters.top_p": {0, 1},
	} {
		object, member, _ := strings.Cut(at, ".")
		if v := m.at(object, member); v.there && (v.number() < bounds[0] || v.number() > bounds[1]) {
			p.fail("%s is %s, want %v to %v", at, v, bounds[0], bounds[1])
		}
	}
	if a, b := fmt.Sprint(m.at("parameters")), fmt.Sprint(m.at("model_parameters")); a != b {
		p.fail("parameters are %s and model_parameters %s", a, b)
	}
}
