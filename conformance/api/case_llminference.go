package api

import (
	"crypto/rand"
	"fmt"
	"net/http"
	"strings"
)

// ofInference is where the rules of the generate API come from.
const (
	ofInference  = "llm-inference, docs/rest-api-integrations.md and src/controllers"
	ofContinuing = "llm-inference, src/services/inference_service: the cache of generations"
)

const (
	onePath   = "/api/generate-one"
	batchPath = "/api/generate-batch"
)

// Names of trailers and headers.
const (
	finishReason    = "X-Finish-Reason"
	generatedTokens = "X-Generated-Tokens"
)

// greedy is a generation_config of n tokens.
func greedy(n int) string {
	return fmt.Sprintf(`"generation_config":{"do_sample":false,"max_new_tokens":%d}`, n)
}

// text posts a body of generate-one that must be taken, and returns the text.
func (p *probe) text(id, prompt, more string) (string, *reply) {
	r := p.post(onePath, `{"request_id":"`+id+`","prompt":`+encode(prompt)+`,`+more+`}`)
	p.status(r, http.StatusOK)
	p.media(r, "text/plain")
	return string(r.body), r
}

// outcome notes trailers without the values wanted.
func (p *probe) outcome(r *reply, reason string, tokens int) {
	p.equal("the trailer "+finishReason, r.trailer.Get(finishReason), reason)
	p.equal("the trailer "+generatedTokens, r.trailer.Get(generatedTokens), fmt.Sprint(tokens))
}

// newID returns an id that no request has had.
func newID() string { return rand.Text() }

var inferenceCases = []Case{
	{ID: "inference-one",
		Rule: "generate-one is plain text, streamed or not, with the prompt before it on request; trailers say how it ended", Source: ofInference, This: true, run: func(p *probe) {
			streamed, r := p.text(newID(), story, greedy(4))
			p.outcome(r, "length", 4)
			whole, r := p.text(newID(), story, `"stream_response":false,`+greedy(4))
			p.outcome(r, "length", 4)
			p.equal("the text in one piece", whole, streamed)
			full, _ := p.text(newID(), story, `"only_new_tokens":false,`+greedy(4))
			if !strings.HasSuffix(full, story+streamed) {
				p.fail("with the prompt the text is %s, want it to end with %s", quote(full), quote(story+streamed))
			}
			if v := p.ask("/generate", generate(`"max_new_tokens":4`),
				"GenerateResponse"); v.at("generated_text").text() != streamed {
				p.fail("the text is %s, /generate says %s", quote(streamed), quote(v.at("generated_text").text()))
			}
		}},
	{ID: "inference-continue",
		Rule: "a request_id goes on where its text stopped, whatever the prompt, with the settings of before, and says the same as one run", Source: ofContinuing, This: true, run: func(p *probe) {
			id := newID()
			whole, _ := p.text(newID(), story, greedy(6))
			one, _ := p.text(id, story, greedy(2))
			two, _ := p.text(id, "Something else", `"stream_response":false`)
			three, _ := p.text(id, " ", `"only_new_tokens":false,"generation_config":{}`)
			if !strings.HasSuffix(three, story+whole) || one+two == "" || !strings.HasPrefix(whole, one+two) {
				p.fail("in three pieces the text is %s, %s and %s, in one %s", quote(one), quote(two), quote(three),
					quote(whole))
			}
		}},
	{ID: "inference-end",
		Rule:   "a text that the model ended ends with its end-of-sequence text, and its request_id is new again",
		Source: ofInference, This: true, run: func(p *probe) {
			v := p.ask("/chat_tokenize", `{`+greeting+`}`, "ChatTokens")
			prompt, id, n := v.at("templated_text").text(), newID(), p.room(200)
			text, r := p.text(id, prompt, greedy(n))
			if r.trailer.Get(finishReason) != "eos_token" {
				p.skip("the model does not end by itself soon")
			}
			v = p.ask("/generate", fmt.Sprintf(`{"inputs":%s,"parameters":{"max_new_tokens":%d,"details":true}}`,
				encode(prompt), n), "GenerateResponse")
			p.equal("the text", text, v.at("generated_text").text()+v.at("details", "tokens", -1, "text").text())
			again, _ := p.text(id, prompt, greedy(n))
			p.equal("the text of the next request", again, text)
		}},
	{ID: "inference-batch",
		Rule: "generate-batch is an array in the order of the prompts, 206 while a text has not ended; responses never repeat the prompt", Source: ofInference, This: true, run: func(p *probe) {
			a, b := newID(), newID()
			batch := func(first, second, more string) value {
				r := p.post(batchPath, fmt.Sprintf(`{"prompts":[%s,%s],%s}`, first, second, more))
				p.status(r, http.StatusPartialContent)
				v := p.json(r)
				p.fits("Batch", v)
				p.equal("the number of texts", len(v.list()), 2)
				return v
			}
			item := func(id, prompt string) string {
				return `{"request_id":"` + id + `","prompt":` + encode(prompt) +
					`}`
			}
			one, _ := p.text(newID(), story, greedy(3))
			v := batch(item(a, story), item(b, "The harbour"), `"only_new_tokens":false,`+greedy(3))
			p.equal("request_id", v.at(0, "request_id"), a)
			p.equal("request_id", v.at(1, "request_id"), b)
			p.equal("response", v.at(0, "response"), one)
			if prompt := v.at(0, "prompt").text(); !strings.HasSuffix(prompt, story) {
				p.fail("prompt is %s, want it to end with %s", quote(prompt), quote(story))
			}
			// Another order is another batch.
			v = batch(item(b, story), item(a, story), greedy(3))
			p.equal("response of another order", v.at(0, "response"), one)
			if v.at(0, "prompt").there {
				p.fail("there is a prompt, only_new_tokens is true")
			}
			rest, _ := p.text(newID(), story, greedy(5))
			v = batch(item(a, " "), item(b, " "), greedy(2))
			p.equal("response of the same order", one+v.at(0, "response").text(), rest)
		}},
	{ID: "inference-refused", Rule: "bodies are refused with 400 and the original's texts", Source: ofInference,
		This: true, run: func(p *probe) {
			for _, one := range []struct{ path, body, want string }{
				{onePath, `{`, "Invalid JSON format"},
				{batchPath, `{"prompts":`, "Invalid JSON format"},
				{onePath, `{"prompt":"x"}`, "Invalid Data Format"},
				{onePath, `{"request_id":"a","prompt":""}`, "Invalid Data Format"},
				{onePath, `{"request_id":"a","prompt":"x","generation_config":{"top_k":null}}`, "Invalid Data Format"},
				{batchPath, `{"prompts":[]}`, "Invalid Data Format"},
				{batchPath, `{"prompts":[{"request_id":"a","prompt":"x"},{"request_id":"a","prompt":"y"}]}`,
					"Duplicate request_ids"},
			} {
				r := p.do(request{method: http.MethodPost, path: one.path, body: one.body,
					header: map[string]string{"Content-Type": "text/plain"}})
				p.status(r, http.StatusBadRequest)
				p.media(r, "text/plain")
				p.equal("the text", string(r.body), one.want)
			}
			r := p.post(onePath, `{"request_id":"a","prompt":"x","generation_config":{"max_new_tokens":0}}`)
			p.status(r, http.StatusBadRequest)
			p.equal("the text", string(r.body), "`max_new_tokens` must be >= 1, given 0")
		}},
	{ID: "inference-probes", Rule: "/api/alive and /api/ready say so, to POST and to GET, without a key",
		Source: ofInference, This: true, run: func(p *probe) {
			for _, word := range []string{"alive", "ready"} {
				for _, method := range []string{http.MethodPost, http.MethodGet} {
					r := p.do(request{method: method, path: "/api/" + word, bare: true})
					p.status(r, http.StatusOK)
					p.equal("the text", string(r.body), word)
				}
			}
		}},
}
