package api

import (
	"fmt"
	"net/http"
	"strings"
)

// story is a prompt that every model continues.
const story = "Once upon a time"

// generate is the body of TGI's routes with these parameters.
func generate(parameters string) string {
	return `{"inputs":"` + story + `","parameters":{` + parameters + `}}`
}

// healthy checks a probe.
func healthy(path string) func(*probe) {
	return func(p *probe) {
		r := p.do(request{method: http.MethodGet, path: path, bare: true})
		p.status(r, http.StatusOK)
		p.empty(r)
	}
}

// absent expects the reply for an unknown path or method: TGI's is empty, this server's names it.
func (p *probe) absent(r *reply, status int, begin string) {
	p.status(r, status)
	if !p.form.this {
		p.empty(r)
		return
	}
	text, _ := p.refusedAs(r, status)
	p.begins(text, begin)
}

var transportCases = []Case{
	{ID: "health", Rule: "GET /health without a key replies 200 with no body", Source: ofRoutes,
		run: healthy("/health")},
	{ID: "ping", Rule: "GET /ping is /health", Source: ofRoutes, run: healthy("/ping")},
	{ID: "health-root", Rule: "GET / is /health", Source: ofRoutes, run: healthy("/")},
	{ID: "not-found", Rule: "an unknown path is a 404, with no body or an error's", Source: ofRoutes,
		run: func(p *probe) {
			r := p.get("/no/such/route")
			p.absent(r, http.StatusNotFound, "no such route: GET /no/such/route")
		}},
	{ID: "wrong-method", Rule: "another method is a 405 that names the right ones, with no body or an error's",
		Source: ofRoutes, run: func(p *probe) {
			r := p.get("/generate")
			p.absent(r, http.StatusMethodNotAllowed, "method not allowed: GET /generate; use POST")
			if !strings.Contains(r.header.Get("Allow"), http.MethodPost) {
				p.fail("allow is %q, want POST in it", r.header.Get("Allow"))
			}
		}},
	{ID: "media-type", Rule: "a body that is not said to be JSON is a 415", Source: ofBodies, run: func(p *probe) {
		r := p.do(request{method: http.MethodPost, path: "/generate", body: generate(""),
			header: map[string]string{"Content-Type": "text/plain"}})
		if rest := p.bodyRefused(r, http.StatusUnsupportedMediaType,
			"Expected request with `Content-Type: application/json`"); rest != "" {
			p.fail("the text goes on with %q", rest)
		}
	}},
	{ID: "media-type-suffix", Rule: "types that end in +json are JSON", Source: ofBodies, run: func(p *probe) {
		p.status(p.do(request{
			method: http.MethodPost, path: "/generate", body: generate(`"max_new_tokens":1`),
			header: map[string]string{"Content-Type": "application/problem+json; charset=utf-8"},
		}), http.StatusOK)
	}},
	{ID: "syntax", Rule: "a body that is no JSON is a 400 with serde's text", Source: ofBodies, run: func(p *probe) {
		for _, path := range []string{"/generate", "/generate_stream"} {
			rest := p.bodyRefused(p.post(path, `{"inputs":`), http.StatusBadRequest, unparsable)
			p.matches("serde's text", rest, `(inputs: )?EOF while parsing a value at line 1 column 10`)
		}
	}},
	{ID: "missing-inputs", Rule: "a body without inputs is a 422 that names the field", Source: ofBodies,
		run: func(p *probe) {
			for _, path := range []string{"/generate", "/generate_stream", "/"} {
				rest := p.bodyRefused(p.post(path, `{}`), http.StatusUnprocessableEntity, misshapen)
				p.equal("serde's text", rest, "missing field `inputs` at line 1 column 2")
			}
		}},
	{ID: "wrong-type", Rule: "a field of another type is a 422 that names its path", Source: ofBodies,
		run: func(p *probe) {
			for _, c := range []struct{ field, value, text string }{
				{"max_new_tokens", "-1", "invalid value: integer `-1`, expected u32"},
				{"seed", "-1", "invalid value: integer `-1`, expected u64"},
				{"details", `"yes"`, `invalid type: string "yes", expected a boolean`},
				{"temperature", `"hot"`, `invalid type: string "hot", expected f32`},
			} {
				rest := p.bodyRefused(p.post("/generate", generate(`"`+c.field+`":`+c.value)),
					http.StatusUnprocessableEntity, misshapen)
				at := strings.LastIndex(rest, " at line 1 column ")
				p.equal("serde's text", rest[:max(at, 0)], "parameters."+c.field+": "+c.text)
			}
		}},
	{ID: "null-refused",
		Rule:   "null is no value of parameters, do_sample, details, watermark, stop and decoder_input_details",
		Source: ofRequest, run: func(p *probe) {
			bodies := []string{`{"inputs":"a","parameters":null}`}
			for _, name := range []string{"do_sample", "details", "watermark", "stop", "decoder_input_details"} {
				bodies = append(bodies, generate(fmt.Sprintf(`"%s":null`, name)))
			}
			for _, body := range bodies {
				p.bodyRefused(p.post("/generate", body), http.StatusUnprocessableEntity, misshapen)
			}
		}},
	{ID: "null-taken", Rule: "null is the same as absent for optional fields", Source: ofRequest, run: func(p *probe) {
		p.ask("/generate", generate(`"max_new_tokens":1,"best_of":null,"temperature":null,"repetition_penalty":null,"frequency_penalty":null,"top_k":null,"top_p":null,
			"typical_p":null,"return_full_text":null,"truncate":null,"seed":null,"top_n_tokens":null,"grammar":null,"adapter_id":null`), "GenerateResponse")
	}},
	{ID: "unknown-fields", Rule: "fields that nobody knows are passed over", Source: ofRequest, run: func(p *probe) {
		p.ask("/generate",
			`{"inputs":"a","request":{"id":7},"options":{"wait_for_model":true},"parameters":{"max_new_tokens":1,"no_such_field":[1]}}`, "GenerateResponse")
	}},
	{ID: "payload-limit", Rule: "a body of more than --payload-limit (2,000,000 bytes) is a 413", Source: ofBodies,
		run: func(p *probe) {
			r := p.post("/generate", `{"inputs":"`+strings.Repeat("x ", 1_050_000)+
				`","parameters":{"max_new_tokens":1}}`)
			if r.status == http.StatusUnprocessableEntity {
				p.skip("the server's limit is higher than the default")
			}
			p.bodyRefused(r, http.StatusRequestEntityTooLarge,
				"Failed to buffer the request body: length limit exceeded")
		}},
	{ID: "cors", Rule: "pages of any origin may read replies unless origins are configured", Source: ofRoutes,
		run: func(p *probe) {
			r := p.do(request{method: http.MethodGet, path: "/health",
				header: map[string]string{"Origin": "https://page.example"}})
			p.allowed(r)
		}},
	{ID: "cors-preflight", Rule: "browsers may POST JSON", Source: ofRoutes, run: func(p *probe) {
		p.preflight("content-type")
	}},
	{ID: "cors-key", Rule: "browsers may send a key", Source: ofServer, This: true, run: func(p *probe) {
		p.preflight("authorization")
	}},
	{ID: "request-id", Rule: "x-request-id is the client's, or else a new one", Source: ofClients, This: true,
		run: func(p *probe) {
			r := p.do(request{method: http.MethodGet, path: "/health",
				header: map[string]string{"X-Request-Id": "kit-7f3a"}})
			p.header(r, "X-Request-Id", "kit-7f3a")
			one, two := p.get("/info").header.Get("X-Request-Id"), p.get("/info").header.Get("X-Request-Id")
			if one == "" || one == two {
				p.fail("two requests have the ids %q and %q", one, two)
			}
		}},
	{ID: "dialect-unknown", Rule: "X-TGI-Dialect with another value is a 422 that names the three", Source: ofServer,
		This: true, run: func(p *probe) {
			for _, path := range []string{"/generate", "/v1/completions"} {
				r := p.do(request{method: http.MethodPost, path: path, body: `{"inputs":"a","prompt":"a"}`,
					header: map[string]string{dialectHeader: "tgi-9"}})
				if p.status(r, http.StatusUnprocessableEntity); !strings.Contains(string(r.body),
					"must be one of tgi-0.6, tgi-2.2, tgi-3. Given: ") {
					p.fail("the body is %s", quote(string(r.body)))
				}
			}
		}},
	{ID: "key-missing", Rule: "routes that generate reply 401 without the key, those of TGI an empty one",
		Source: ofRoutes, run: func(p *probe) {
			p.keyed(map[string]string{})
		}},
	{ID: "key-wrong", Rule: "routes that generate reply 401 with another key, those of TGI an empty one",
		Source: ofRoutes, run: func(p *probe) {
			p.keyed(map[string]string{"Authorization": "Bearer " + p.target.Key + "x"})
		}},
	{ID: "key-everywhere", Rule: "every route needs the key but those of health, figures and the docs page",
		Source: ofServer, This: true, run: func(p *probe) {
			p.hasKey()
			for _, path := range []string{"/info", "/v1/models", "/v2", documentPath} {
				r := p.do(request{method: http.MethodGet, path: path, bare: true})
				p.equal("the status of "+path, r.status, http.StatusUnauthorized)
			}
			for _, path := range []string{"/chat_tokenize", "/invocations", "/v2/models/m/versions/1/infer"} {
				r := p.do(request{method: http.MethodPost, path: path, body: `{}`, bare: true})
				p.equal("the status of "+path, r.status, http.StatusUnauthorized)
			}
		}},
}

// hasKey skips the case if the server's key is unknown.
func (p *probe) hasKey() {
	if p.target.Key == "" {
		p.skip("no key is given")
	}
}

// keyed checks the routes that TGI protects.
func (p *probe) keyed(header map[string]string) {
	p.hasKey()
	for _, path := range []string{"/", "/generate", "/generate_stream", "/tokenize", "/v1/chat/completions",
		"/v1/completions", "/vertex"} {
		r := p.do(request{method: http.MethodPost, path: path, body: generate(`"max_new_tokens":1`), bare: true,
			header: header})
		p.equal("the status of "+path, r.status, http.StatusUnauthorized)
		if !strings.HasPrefix(path, "/v1/") { // OpenAI's clients read an error object, of which TGI sends none
			p.empty(r)
		}
	}
}

// allowed checks that pages of other origins may read r.
func (p *probe) allowed(r *reply) {
	switch origin := r.header.Get("Access-Control-Allow-Origin"); {
	case origin == "*" || origin == "https://page.example":
	case origin == "" && strings.Contains(strings.ToLower(r.header.Get("Vary")), "origin"):
		p.skip("the server lets configured origins in")
	default:
		p.fail("access-control-allow-origin is %q, want *", origin)
	}
}

// preflight asks what a page may send.
func (p *probe) preflight(field string) {
	r := p.do(request{method: http.MethodOptions, path: "/generate", bare: true, header: map[string]string{
		"Origin": "https://page.example", "Access-Control-Request-Method": "POST",
		"Access-Control-Request-Headers": field,
	}})
	p.status(r, http.StatusOK)
	p.allowed(r)
	for name, want := range map[string]string{"Access-Control-Allow-Methods": "post",
		"Access-Control-Allow-Headers": field} {
		if got := strings.ToLower(strings.Join(r.header.Values(name), ",")); !strings.Contains(got, want) {
			p.fail("%s is %q, want %s in it", strings.ToLower(name), got, want)
		}
	}
}
