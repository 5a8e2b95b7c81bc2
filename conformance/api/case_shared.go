package api

import (
	"fmt"
	"net/http"
	"net/url"
	"strings"
	"sync"
)

// sharedPath is where hosts of many models have the two routes that generate.
const sharedPath = "/v1/completions"

// sharedExample is the documented request of the shared endpoint, as it stands.
const sharedExample = `{"model": "<MODEL_NAME>", "inputs": "My name is Olivier and I",
 "parameters": {"best_of": 1, "decoder_input_details": true, "details": true, "do_sample": false,
  "max_new_tokens": 20, "repetition_penalty": 1.03, "return_full_text": false, "seed": null,
  "stop": ["photographer"], "temperature": 0.5, "top_k": 10, "top_p": 0.95, "truncate": null,
  "typical_p": 0.95, "watermark": true}}`

// unknownModel is a name that no model has.
const unknownModel = "no-such/model"

// naming is a body of TGI's routes for a model; name is JSON.
func naming(name string) string {
	return `{"model":` + name + `,"inputs":"` + story + `","parameters":{"max_new_tokens":4}}`
}

var sharedCases = []Case{
	{ID: "shared", Rule: "/v1/completions/generate and /v1/completions/generate_stream are TGI's own two routes",
		Source: ofShared, This: true, run: func(p *probe) {
			body := generate(`"max_new_tokens":5,"details":true,"seed":1`) // a seed, since a receipt tells it
			whole := p.ask("/generate", body, "GenerateResponse")
			here := p.ask(sharedPath+"/generate", body, "GenerateResponse")
			p.equal("the reply", here, whole)
			p.costs(p.last)
			p.checkEvents(p.stream(sharedPath+"/generate_stream", generate(`"max_new_tokens":5`)),
				whole.at("generated_text").text(), "")
			for _, path := range []string{sharedPath + "/generate", sharedPath + "/generate_stream"} {
				p.invalid(path, generate(`"temperature":0.0`), "`temperature` must be strictly positive")
			}
		}},
	{ID: "shared-example", Rule: "the documented request is taken as it stands; a stream has no decoder_input_details",
		Source: ofShared, This: true, run: func(p *probe) {
			for _, path := range []string{"/generate", sharedPath + "/generate"} {
				v := p.ask(path, sharedExample, "GenerateResponse")
				if d := v.at("details"); !d.at("seed").isNumber() || len(d.at("prefill").list()) == 0 ||
					d.at("generated_tokens").number() > 20 {
					p.fail("details are %s", d)
				}
			}
			for _, path := range []string{"/generate_stream", sharedPath + "/generate_stream"} {
				p.invalid(path, sharedExample, "`decoder_input_details` == true is not supported when streaming tokens")
				p.stream(path, strings.Replace(sharedExample, `"decoder_input_details": true`,
					`"decoder_input_details": false`, 1))
			}
		}},
	{ID: "shared-default",
		Rule:   "model may be null, absent, a name that clients have for want of a better, or the default model's",
		Source: ofShared + "; " + ofClients, This: true, run: func(p *probe) {
			served := p.info.at("model_id").text()
			want := p.ask("/generate", generate(`"max_new_tokens":4`), "GenerateResponse").at("generated_text").text()
			for _, name := range []string{`null`, `""`, `"tgi"`, `"dummy"`, `"<MODEL_NAME>"`, `"http://127.0.0.1:3000"`,
				encode(served)} {
				for _, path := range []string{"/generate", sharedPath + "/generate", "/"} {
					r := p.post(path, naming(name))
					p.status(r, http.StatusOK)
					if v := p.json(r); path == "/" {
						p.equal("the full text for "+name, v.at(0, "generated_text"), story+want)
					} else {
						p.equal("the text for "+name, v.at("generated_text"), want)
					}
				}
			}
			for _, query := range []string{"", "?model=", "?model=tgi", "?model=" + url.QueryEscape(served)} {
				p.equal("model_id of /info"+query, p.ofInfo(query).at("model_id"), served)
			}
			p.bodyRefused(p.post("/generate", naming("5")), http.StatusUnprocessableEntity,
				misshapen+"model: invalid type: integer `5`, expected a string")
		}},
	{ID: "shared-unknown", Rule: "a name that is no model's is a 404 with model_not_found, in the route's own shape",
		Source: ofShared, This: true, run: func(p *probe) {
			if !p.refusesUnknown() {
				p.skip("does not hold in a server that takes any name for its model's")
			}
			text := "The model `" + unknownModel + "` does not exist"
			for _, path := range []string{"/", "/generate", "/generate_stream", sharedPath + "/generate",
				sharedPath + "/generate_stream", "/tokenize", "/invocations"} {
				p.refused(p.post(path, naming(encode(unknownModel))), http.StatusNotFound, "model_not_found", text)
			}
			p.refused(p.post(chatPath, chat(1, `,"model":`+encode(unknownModel))), http.StatusNotFound,
				"model_not_found",
				text)
			p.refused(p.post(completionPath, `{"prompt":"a","model":`+encode(unknownModel)+`}`), http.StatusNotFound,
				"model_not_found", text)
			p.refused(p.post("/generate?model="+url.QueryEscape(unknownModel), generate("")), http.StatusNotFound,
				"model_not_found", text)
			p.refused(p.get("/info?model="+url.QueryEscape(unknownModel)), http.StatusNotFound, "model_not_found", text)
			r := p.post(onePath, `{"request_id":"`+newID()+`","prompt":"a","model":`+encode(unknownModel)+`}`)
			p.status(r, http.StatusNotFound)
			p.media(r, "text/plain")
			p.equal("the text", string(r.body), text)
		}},
	{ID: "shared-models", Rule: "model chooses the model, on every route, whatever else is asked at the same time",
		Source: ofShared, This: true, run: func(p *probe) {
			first, second := p.info.at("model_id").text(), p.second()
			query := "?model=" + url.QueryEscape(second)
			p.equal("model_id of /info"+query, p.ofInfo(query).at("model_id"), second)
			p.equal("model_id of /info", p.ofInfo("").at("model_id"), first)
			for _, id := range []string{first, second} {
				p.equal("model of a chat", p.ask(chatPath, chat(1, `,"model":`+encode(id)), "Chat").at("model"), id)
				p.equal("model of a completion", p.ask(completionPath, `{"prompt":"a","max_tokens":1,"model":`+
					encode(id)+
					`}`, "Completion").at("model"), id)
			}
			alone := map[string]string{}
			for _, id := range []string{first, second} {
				alone[id] = p.ask("/generate", naming(encode(id)), "GenerateResponse").at("generated_text").text()
			}
			p.equal("the text of "+second+" by the query", p.ask("/generate"+query, generate(`"max_new_tokens":4`),
				"GenerateResponse").at("generated_text"), alone[second])
			p.both(first, second, alone)
		}},
	{ID: "shared-continue",
		Rule: "a text is continued by the model that began it; another is refused with 400, and the text stays as it was", Source: ofContinuing, This: true, run: func(p *probe) {
			first, second, id := p.info.at("model_id").text(), p.second(), newID()
			named := func(model string) string { return `"model":` + encode(model) + `,` + greedy(2) }
			whole, _ := p.text(newID(), story, greedy(4))
			one, _ := p.text(id, story, named(first))
			r := p.post(onePath, `{"request_id":"`+id+`","prompt":" ",`+named(second)+`}`)
			p.status(r, http.StatusBadRequest)
			p.media(r, "text/plain")
			p.equal("the text", string(r.body), "request_id `"+id+"` cannot be continued with the model `"+second+
				"`: its text was generated by `"+first+"`")
			two, _ := p.text(id, " ", named(first))
			p.equal("the text in two pieces", one+two, whole)
		}},
}

// ofInfo returns what /info says with that query.
func (p *probe) ofInfo(query string) value {
	r := p.get("/info" + query)
	p.status(r, http.StatusOK)
	return p.json(r)
}

// both sends several requests to two models at once and expects the replies that each gives alone.
func (p *probe) both(first, second string, alone map[string]string) {
	var wg sync.WaitGroup
	ids := []string{first, second, second, first}
	replies, errs := make([]*reply, len(ids)), make([]error, len(ids))
	for i, id := range ids {
		wg.Go(func() {
			replies[i], errs[i] = p.try(request{method: http.MethodPost, path: "/generate", body: naming(encode(id))})
		})
	}
	wg.Wait()
	for i, id := range ids {
		if errs[i] != nil {
			p.fatal("of %d requests at once one has no answer: %v", len(ids), errs[i])
		}
		p.accept(replies[i])
		v, _ := p.answer(replies[i], "GenerateResponse")
		p.equal("beside others the text of "+id, v.at("generated_text"), alone[id])
	}
}

// refusesUnknown reports whether the server refuses unknown model names. TGI ignores the name and uses its only model.
func (p *probe) refusesUnknown() bool {
	r, err := p.try(request{method: http.MethodPost, path: "/generate",
		body: fmt.Sprintf(`{"model":%q,"inputs":"a","parameters":{"max_new_tokens":1}}`, unknownModel)})
	if err != nil {
		p.fatal("POST /generate: no answer: %v", err)
	}
	return r.status != http.StatusOK
}

// second returns a model that runs and is not the default one, and leaves the case out
// where there is none.
func (p *probe) second() string {
	for _, m := range p.listed() {
		if id := m.at("id").text(); m.at("status").text() == "running" && id != p.info.at("model_id").text() {
			return id
		}
	}
	p.skip("does not hold in a server with one running model")
	return ""
}
