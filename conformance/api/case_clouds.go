package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

var cloudCases = []Case{
	{ID: "vertex", Rule: "POST /vertex has a text for each instance, in their order", Source: ofClouds,
		run: func(p *probe) {
			v := p.ask("/vertex", `{"instances":[{"inputs":"`+story+
				`","parameters":{"max_new_tokens":3,"seed":1}},{"inputs":"a","parameters":{"max_new_tokens":1}},{"inputs":"`+story+`","parameters":{"max_new_tokens":3,"seed":1}}]}`, "Predictions")
			p.equal("the number of predictions", len(v.at("predictions").list()), 3)
			p.equal("the third prediction", v.at("predictions", 2), v.at("predictions", 0))
		}},
	{ID: "vertex-empty", Rule: "no instances are a 422", Source: ofClouds, run: func(p *probe) {
		p.refused(p.post("/vertex", `{"instances":[]}`), http.StatusUnprocessableEntity, "Input validation error",
			"Input validation error")
	}},
	{ID: "vertex-failure", Rule: "any failure of an instance is a 500", Source: ofClouds, run: func(p *probe) {
		p.refused(p.post("/vertex", `{"instances":[{"inputs":"a","parameters":{"max_new_tokens":1}},{"inputs":""}]}`),
			http.StatusInternalServerError, "Incomplete generation", "Incomplete generation")
	}},
	{ID: "vertex-chat", Rule: "an instance may be a conversation", Source: ofClouds, Dialects: []string{TGI3},
		run: func(p *probe) {
			v := p.ask("/vertex", `{"instances":[{`+greeting+`,"max_tokens":3}]}`, "Predictions")
			p.equal("the number of predictions", len(v.at("predictions").list()), 1)
		}},
	{ID: "invocations", Rule: "POST /invocations with inputs is POST /", Source: ofClouds, run: func(p *probe) {
		one, two := p.ask("/invocations", generate(`"max_new_tokens":3`), "CompatResponse"),
			p.ask("/", generate(`"max_new_tokens":3`), "CompatResponse")
		p.equal("the reply", one, two)
		all := p.stream("/invocations", `{"inputs":"a","stream":true,"parameters":{"max_new_tokens":2}}`)
		p.fits(p.form.event(), all[0])
	}},
	{ID: "invocations-chat", Rule: "POST /invocations with messages is chat", Source: ofClouds,
		Dialects: []string{TGI3}, run: func(p *probe) {
			v := p.ask("/invocations", `{`+greeting+`,"max_tokens":3}`, "Chat")
			p.equal("object", v.at("object"), "chat.completion")
		}},
	{ID: "invocations-completion", Rule: "POST /invocations with prompt is completions", Source: ofClouds,
		Dialects: []string{TGI3}, run: func(p *probe) {
			v := p.ask("/invocations", `{"prompt":"a","max_tokens":3}`, "Completion")
			p.equal("object", v.at("object"), "text_completion")
		}},
	{ID: "invocations-none", Rule: "a body of no form is a 422 with serde's text of the union", Source: ofClouds,
		Dialects: []string{TGI3}, run: func(p *probe) {
			rest := p.bodyRefused(p.post("/invocations", `{"texts":["a"]}`), http.StatusUnprocessableEntity, misshapen)
			p.begins(rest, "data did not match any variant of untagged enum SagemakerRequest")
		}},
	{ID: "kserve-server", Rule: "GET /v2 names the server and its extensions", Source: ofClouds, run: func(p *probe) {
		v, _ := p.answer(p.get("/v2"), "Metadata")
		p.equal("name", v.at("name"), "text-generation-inference")
		p.equal("extensions", v.at("extensions"), `["health","models","metrics"]`)
	}},
	{ID: "kserve-health", Rule: "GET /v2/health/live and /ready reply {\"live\":true}", Source: ofClouds,
		run: func(p *probe) {
			for _, path := range []string{"/v2/health/live", "/v2/health/ready", "/v2/models/m/versions/1/ready"} {
				v, _ := p.answer(p.get(path), "Live")
				p.equal("live", v.at("live"), true)
			}
		}},
	{ID: "kserve-model", Rule: "GET /v2/models/M/versions/V repeats both names", Source: ofClouds, run: func(p *probe) {
		v, _ := p.answer(p.get("/v2/models/some-model/versions/7"), "Metadata")
		p.equal("name", v.at("name"), "some-model")
		p.equal("version", v.at("version"), "7")
		p.equal("extensions", v.at("extensions"), `["infer","ready"]`)
	}},
	{ID: "kserve-infer", Rule: "POST …/infer replies with the texts' bytes, under the outputs' names", Source: ofClouds,
		run: func(p *probe) {
			text := p.ask("/generate", generate(`"max_new_tokens":3`), "GenerateResponse").at("generated_text").text()
			v := p.ask("/v2/models/m/versions/1/infer", inference(story, `{"name":"out"}`, `{"max_new_tokens":3}`),
				"Inference")
			p.equal("id", v.at("id"), "7")
			p.equal("name", v.at("outputs", 0, "name"), "out")
			p.equal("data", v.at("outputs", 0, "data"), octets(text))
			p.equal("shape", v.at("outputs", 0, "shape"), fmt.Sprintf("[1,%d]", len(text)))
		}},
	{ID: "kserve-length", Rule: "other numbers of inputs and outputs are a 422", Source: ofClouds, run: func(p *probe) {
		r := p.post("/v2/models/m/versions/1/infer", inference("a", `{"name":"x"},{"name":"y"}`,
			`{"max_new_tokens":1}`))
		p.refused(r, http.StatusUnprocessableEntity, "length mismatch", "Inputs and outputs length mismatch")
	}},
	{ID: "kserve-utf8", Rule: "data that is no UTF-8 is a 422", Source: ofClouds, run: func(p *probe) {
		r := p.post("/v2/models/m/versions/1/infer", inference("a\xff", `{"name":"x"}`, `{"max_new_tokens":1}`))
		p.refused(r, http.StatusUnprocessableEntity, "utf8", "invalid utf-8 sequence of 1 bytes from index 1")
	}},
}

// octets writes the bytes of a text as JSON.
func octets(text string) string {
	var all []string
	for _, c := range []byte(text) {
		all = append(all, strconv.Itoa(int(c)))
	}
	return "[" + strings.Join(all, ",") + "]"
}

// inference is a body of KServe's protocol.
func inference(text, outputs, parameters string) string {
	return fmt.Sprintf(`{"id":"7","inputs":[{"name":"in","shape":[1,%d],"datatype":"BYTES","data":%s}],"outputs":[%s],"parameters":%s}`, len(text), octets(text), outputs, parameters)
}
