package api

import (
	"encoding/json"
	"fmt"
	"net/http"
	"slices"
	"strconv"
	"strings"
	"unicode/utf8"
)

// generationHeaders belong to replies that generated something.
var generationHeaders = []string{
	"x-compute-type", "x-compute-time", "x-compute-characters", "x-total-time", "x-validation-time", "x-queue-time",
	"x-inference-time",
	"x-time-per-token", "x-prompt-tokens", "x-generated-tokens",
}

var generateCases = []Case{
	{ID: "generate", Rule: "without details the reply is generated_text alone", Source: ofResponse,
		run: func(p *probe) {
			v := p.ask("/generate", generate(`"max_new_tokens":4`), "GenerateResponse")
			if v.at("details").there {
				p.fail("details is %s", v.at("details"))
			}
			if v.at("generated_text").text() == "" {
				p.fail("the text is empty")
			}
		}},
	{ID: "generate-details", Rule: "details count the tokens, and the text is that of the tokens that are not special",
		Source: ofResponse, run: func(p *probe) {
			v := p.ask("/generate", generate(`"max_new_tokens":6,"details":true`), "GenerateResponse")
			d := v.at("details")
			p.counted(d, 6)
			p.equal("seed", d.at("seed"), "null")
			p.equal("generated_text", v.at("generated_text").text(), texts(d.at("tokens").list()))
			if d.at("top_tokens").there || d.at("best_of_sequences").there {
				p.fail("top_tokens or best_of_sequences is there without being asked for")
			}
			p.prefill(d, p.form.prefillAlways)
			for i, t := range d.at("tokens").list() {
				p.shortest(fmt.Sprintf("tokens[%d].logprob", i), t.at("logprob"))
			}
		}},
	{ID: "generate-prefill", Rule: "decoder_input_details has the prompt's tokens; the first has no log-probability",
		Source: ofResponse, run: func(p *probe) {
			v := p.ask("/generate", generate(`"max_new_tokens":1,"details":true,"decoder_input_details":true`),
				"GenerateResponse")
			if !p.form.this && p.form.name == TGI3 && len(v.at("details", "prefill").list()) == 0 {
				p.skip("the server was started without --enable-prefill-logprobs")
			}
			p.prefill(v.at("details"), true)
		}},
	{ID: "generate-length", Rule: "a text that reaches max_new_tokens ends with length", Source: ofSampling,
		run: func(p *probe) {
			v := p.ask("/generate", generate(`"max_new_tokens":1,"details":true`), "GenerateResponse")
			p.equal("finish_reason", v.at("details", "finish_reason"), "length")
		}},
	{ID: "generate-sampled", Rule: "do_sample, or a temperature but 1.0, draws and tells the seed", Source: ofSampling,
		run: func(p *probe) {
			for parameters, drawn := range map[string]bool{`"do_sample":true`: true, `"temperature":0.5`: true,
				`"top_p":0.9`: true, `"temperature":1.0`: false, `"repetition_penalty":1.2`: false} {
				v := p.ask("/generate", generate(parameters+`,"max_new_tokens":2,"details":true`), "GenerateResponse")
				if seed := v.at("details", "seed"); seed.isNumber() != drawn {
					p.fail("with %s the seed is %s", parameters, seed)
				}
			}
		}},
	{ID: "generate-seed", Rule: "the same seed draws the same text, and is told as it was given", Source: ofSampling,
		run: func(p *probe) {
			const seed = "18446744073709551615"
			body := generate(`"max_new_tokens":8,"details":true,"do_sample":true,"seed":` + seed)
			one, two := p.ask("/generate", body, "GenerateResponse"), p.ask("/generate", body, "GenerateResponse")
			p.equal("seed", one.at("details", "seed"), seed)
			p.equal("the second text", two.at("generated_text"), one.at("generated_text"))
		}},
	{ID: "generate-top", Rule: "top_n_tokens has that many candidates for each token, the likeliest first",
		Source: ofResponse, run: func(p *probe) {
			v := p.ask("/generate", generate(`"max_new_tokens":3,"details":true,"top_n_tokens":2`), "GenerateResponse")
			d := v.at("details")
			p.equal("the length of top_tokens", len(d.at("top_tokens").list()), len(d.at("tokens").list()))
			for i, top := range d.at("top_tokens").list() {
				p.descending(fmt.Sprintf("top_tokens[%d]", i), top.list(), 2)
				p.equal("the likeliest token", top.at(0, "id"), d.at("tokens", i, "id"))
			}
		}},
	{ID: "generate-best-of", Rule: "best_of returns the losers beside the winner", Source: ofResponse,
		run: func(p *probe) {
			if p.limit("max_best_of", 2) < 2 {
				p.skip("the server allows one sequence")
			}
			v := p.ask("/generate", generate(`"max_new_tokens":4,"details":true,"do_sample":true,"best_of":2`),
				"GenerateResponse")
			others := v.at("details", "best_of_sequences").list()
			p.equal("the number of losers", len(others), 1)
			if len(others) == 1 && others[0].at("seed").String() == v.at("details", "seed").String() {
				p.fail("both sequences have the seed %s", others[0].at("seed"))
			}
		}},
	{ID: "generate-stop", Rule: "a stop string ends the text, stays in it and is named stop_sequence",
		Source: ofSampling, run: func(p *probe) {
			all := p.ask("/generate", generate(`"max_new_tokens":12,"details":true`), "GenerateResponse")
			stop := stopIn(all.at("details", "tokens").list())
			if stop == "" {
				p.skip("the model's text has no word to stop at")
			}
			v := p.ask("/generate", generate(`"max_new_tokens":12,"details":true,"stop":[`+encode(stop)+`]`),
				"GenerateResponse")
			p.equal("finish_reason", v.at("details", "finish_reason"), "stop_sequence")
			text, whole := v.at("generated_text").text(), all.at("generated_text").text()
			if !strings.HasSuffix(text, stop) || !strings.HasPrefix(whole, text) {
				p.fail("the text %s does not end with %q, or is not how %s begins", quote(text), stop, quote(whole))
			}
		}},
	{ID: "generate-eos",
		Rule:   "the model's own end is a special token that counts and is not in the text; length comes before it",
		Source: ofSampling, run: endOfText},
	{ID: "generate-full-text", Rule: "return_full_text puts the prompt before the text", Source: ofResponse,
		run: func(p *probe) {
			one := p.ask("/generate", generate(`"max_new_tokens":4`), "GenerateResponse")
			two := p.ask("/generate", generate(`"max_new_tokens":4,"return_full_text":true`), "GenerateResponse")
			p.equal("generated_text", two.at("generated_text"), story+one.at("generated_text").text())
		}},
	{ID: "generate-truncate", Rule: "truncate keeps that many tokens, the last ones of the prompt", Source: ofSampling,
		run: func(p *probe) {
			v := p.ask("/generate",
				generate(`"max_new_tokens":1,"truncate":2,"details":true,"decoder_input_details":true`),
				"GenerateResponse")
			if p.form.tokenHeaders {
				p.header(p.last, "X-Prompt-Tokens", "2")
			}
			list := v.at("details", "prefill").list()
			if p.form.this || len(list) > 0 {
				p.equal("the length of prefill", len(list), 2)
				all := p.ask("/tokenize", `{"inputs":"`+story+`"}`, "Tokens")
				p.equal("the last token's id", v.at("details", "prefill", -1, "id"), all.at(-1, "id"))
			}
		}},
	{ID: "generate-headers", Rule: "a whole reply tells its cost in headers", Source: ofHeaders, run: func(p *probe) {
		const prompt = "Zoë said"
		r := p.post("/generate", `{"inputs":"`+prompt+`","parameters":{"max_new_tokens":3,"details":true}}`)
		v, _ := p.answer(r, "GenerateResponse")
		p.costs(r)
		p.header(r, "X-Compute-Characters", strconv.Itoa(utf8.RuneCountInString(prompt)))
		if p.form.tokenHeaders {
			p.header(r, "X-Generated-Tokens", v.at("details", "generated_tokens").String())
			p.header(r, "X-Prompt-Tokens", strconv.Itoa(p.tokens(prompt)))
		} else if r.header.Get("X-Prompt-Tokens")+r.header.Get("X-Generated-Tokens") != "" {
			p.fail("x-prompt-tokens or x-generated-tokens came with 1.4")
		}
	}},
	{ID: "generate-default-length", Rule: "without max_new_tokens the text has at most the dialect's length (20, 100)",
		Source: ofRequest, Dialects: []string{TGI06, TGI22}, run: func(p *probe) {
			v := p.ask("/generate", generate(`"details":true`), "GenerateResponse")
			d := v.at("details")
			if n := int(d.at("generated_tokens").number()); n > p.form.maxNewTokens ||
				(n == p.form.maxNewTokens) != (d.at("finish_reason").text() == "length") {
				p.fail("%d tokens that end with %s, want %d or an end before", n, d.at("finish_reason"),
					p.form.maxNewTokens)
			}
		}},
	{ID: "generate-null-length", Rule: "max_new_tokens may be null since 1.x; before, it was a number",
		Source: ofRequest, run: func(p *probe) {
			r := p.post("/generate", generate(`"max_new_tokens":null,"stop":["e"]`))
			if p.form.nullLength {
				p.answer(r, "GenerateResponse")
				return
			}
			p.bodyRefused(r, http.StatusUnprocessableEntity, misshapen)
		}},
	{ID: "generate-all-fields",
		Rule:   "the body of the documented shared endpoint, nulls included, is taken as it stands",
		Source: "DataCrunch, shared inference endpoint, example request", run: func(p *probe) {
			p.ask("/generate", `{"model":"<MODEL_NAME>","inputs":"My name is Olivier and I","parameters":{"best_of":1,"decoder_input_details":true,"details":true,"do_sample":false,
			"max_new_tokens":20,"repetition_penalty":1.03,"return_full_text":false,"seed":null,"stop":["photographer"],"temperature":0.5,"top_k":10,"top_p":0.95,
			"truncate":null,"typical_p":0.95,"watermark":true}}`, "GenerateResponse")
		}},
	{ID: "compat", Rule: "POST / replies with an array of one, and with the full text unless told otherwise",
		Source: ofRoutes, run: func(p *probe) {
			plain := p.ask("/generate", generate(`"max_new_tokens":4`), "GenerateResponse").at("generated_text").text()
			full := plain
			if tag := p.info.at("model_pipeline_tag"); !tag.isText() || tag.text() == "text-generation" {
				full = story + plain
			}
			for parameters, want := range map[string]string{"": full, `,"return_full_text":true`: story + plain,
				`,"return_full_text":false`: plain} {
				v := p.ask("/", generate(`"max_new_tokens":4`+parameters), "CompatResponse")
				p.equal("the number of replies", len(v.list()), 1)
				p.equal("generated_text", v.at(0, "generated_text"), want)
			}
		}},
}

// counted checks what details say of their length, which is at most n.
func (p *probe) counted(d value, n int) {
	tokens := d.at("tokens").list()
	p.equal("generated_tokens", d.at("generated_tokens"), len(tokens))
	if reason := d.at("finish_reason").text(); len(tokens) > n || (len(tokens) == n) != (reason == "length") {
		p.fail("%d of %d tokens end with %q", len(tokens), n, reason)
	}
}

// prefill checks the prompt's tokens.
func (p *probe) prefill(d value, wanted bool) {
	list := d.at("prefill").list()
	if !wanted {
		p.equal("the length of prefill", len(list), 0)
		return
	}
	p.equal("the length of prefill", len(list), p.tokens(story))
	for i, t := range list {
		if t.at("logprob").null() != (i == 0) {
			p.fail("prefill[%d].logprob is %s", i, t.at("logprob"))
		}
	}
}

// tokens returns how many tokens a text is.
func (p *probe) tokens(text string) int {
	last := p.last
	if !p.form.this {
		if r, err := p.try(request{method: http.MethodPost, path: "/tokenize", body: `{"inputs":"a"}`}); err == nil &&
			r.status == http.StatusNotFound {
			p.skip("there is no /tokenize to count with")
		}
	}
	n := len(p.ask("/tokenize", `{"inputs":`+encode(text)+`}`, "Tokens").list())
	p.last = last
	return n
}

// descending checks candidates: n of them, or more that tie with the last.
func (p *probe) descending(what string, list []value, n int) {
	if len(list) < n {
		p.fail("%s has %d candidates, want %d", what, len(list), n)
	}
	for i := 1; i < len(list); i++ {
		if list[i].at("logprob").number() > list[i-1].at("logprob").number() {
			p.fail("%s is not sorted", what)
		}
	}
}

// shortest checks that a figure is written with the digits that a 32-bit float
// needs.
func (p *probe) shortest(what string, v value) {
	n, _ := v.any.(json.Number)
	f, err := strconv.ParseFloat(string(n), 32)
	if err != nil {
		return // the type says whether that is allowed
	}
	want := strconv.FormatFloat(f, 'g', -1, 32)
	got, _ := strconv.ParseFloat(string(n), 64)
	if short, _ := strconv.ParseFloat(want, 64); short != got {
		p.fail("%s is %s, the shortest text of that 32-bit float is %s", what, n, want)
	}
}

// stopIn picks a string that the tokens' text holds for the first time, at the
// end of one of them.
func stopIn(tokens []value) string {
	text := ""
	for i, t := range tokens {
		one := t.at("text").text()
		if t.at("special").isTrue() {
			return ""
		}
		if i > 1 && len(strings.TrimSpace(one)) > 1 && utf8.ValidString(one) && !strings.Contains(text, one) {
			return one
		}
		text += one
	}
	return ""
}

// costs checks the headers of a reply that was generated.
func (p *probe) costs(r *reply) {
	for _, name := range []string{"x-total-time", "x-validation-time", "x-queue-time", "x-inference-time",
		"x-time-per-token"} {
		p.matches(name, r.header.Get(name), `\d+`)
	}
	p.matches("x-compute-type", r.header.Get("X-Compute-Type"), `.+`)
	p.matches("x-compute-characters", r.header.Get("X-Compute-Characters"), `\d+`)
	pattern := `\d+\.\d+(e-?\d+)?`
	tokens := p.form.tokenHeaders || openAI(r.request.path)
	if !p.form.computeSeconds && !openAI(r.request.path) { // OpenAI's routes came later
		pattern = `\d+`
	}
	p.matches("x-compute-time", r.header.Get("X-Compute-Time"), pattern)
	if tokens {
		p.matches("x-prompt-tokens", r.header.Get("X-Prompt-Tokens"), `\d+`)
		p.matches("x-generated-tokens", r.header.Get("X-Generated-Tokens"), `\d+`)
	}
}

// greeting is a conversation that models answer briefly.
const greeting = `"messages":[{"role":"user","content":"hello"}]`

// endOfText looks for the model's own end behind a conversation's prompt.
func endOfText(p *probe) {
	r, err := p.try(request{method: http.MethodPost, path: "/chat_tokenize", body: `{` + greeting + `}`})
	if err != nil || r.status != http.StatusOK {
		p.skip("there is no /chat_tokenize to get a prompt from")
	}
	v, err := parse(r.body)
	if err != nil {
		p.fatal("/chat_tokenize: %v", err)
	}
	ask := func(n int) value {
		return p.ask("/generate", fmt.Sprintf(`{"inputs":%s,"parameters":{"max_new_tokens":%d,"details":true}}`,
			encode(v.at("templated_text").text()), n), "GenerateResponse")
	}
	all := ask(p.room(200))
	d := all.at("details")
	if d.at("finish_reason").text() != "eos_token" {
		p.skip("the model does not end by itself soon")
	}
	tokens := d.at("tokens").list()
	p.equal("generated_tokens", d.at("generated_tokens"), len(tokens))
	p.equal("special of the last token", d.at("tokens", -1, "special"), true)
	p.equal("generated_text", all.at("generated_text"), texts(tokens))
	if slices.ContainsFunc(tokens[:max(len(tokens)-1, 0)], func(t value) bool { return t.at("special").isTrue() }) {
		return // not a text of which a rule could say more
	}
	short := ask(len(tokens))
	p.equal("finish_reason where both apply", short.at("details", "finish_reason"), "length")
}
