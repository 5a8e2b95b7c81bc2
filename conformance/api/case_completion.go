package api

import (
	"fmt"
	"net/http"
	"strings"
)

// complete is the body of a greedy completion with further fields.
func complete(n int, fields string) string {
	return fmt.Sprintf(`{"prompt":"`+story+`","temperature":0,"max_tokens":%d%s}`, n, fields)
}

var completionCases = []Case{
	{ID: "completion", Rule: "a completion is the prompt's greedy continuation, as on TGI's routes",
		Source: "TGI 3.3, router/src/server.rs, completions", run: func(p *probe) {
			v, _ := p.answer(p.post(completionPath, complete(4, "")), "Completion")
			p.choices(v, 1)
			p.used(v.at("usage"), 4)
			p.stamped(v)
			p.identified(v.at("id"), "cmpl-")
			p.equal("text", v.at("choices", 0, "text"), p.ask("/generate", generate(`"max_new_tokens":4`),
				"GenerateResponse").at("generated_text"))
			p.equal("prompt_tokens", v.at("usage", "prompt_tokens"), p.tokens(story))
		}},
	{ID: "completion-prompts", Rule: "several prompts have a choice each, in their order, and one usage",
		Source: ofOpenAI + ", completions/create", run: func(p *probe) {
			prompts := []string{story, "a", story + " there was"}
			v := p.ask(completionPath, fmt.Sprintf(`{"prompt":[%q,%q,%q],"temperature":0,"max_tokens":3}`, prompts[0],
				prompts[1], prompts[2]), "Completion")
			list := v.at("choices").list()
			p.equal("the number of choices", len(list), 3)
			p.used(v.at("usage"), 9)
			for at, c := range list {
				i := int(c.at("index").number())
				if p.form.this {
					p.equal("index", i, at)
				}
				if i < 0 || i >= len(prompts) {
					p.fatal("index is %s", c.at("index"))
				}
				alone := p.ask("/generate", fmt.Sprintf(`{"inputs":%q,"parameters":{"max_new_tokens":3}}`, prompts[i]),
					"GenerateResponse")
				p.equal(fmt.Sprintf("text %d", i), c.at("text"), alone.at("generated_text"))
			}
		}},
	{ID: "completion-prompts-most", Rule: "more prompts than max_client_batch_size are refused",
		Source: "TGI 3.3, router/src/server.rs, completions", run: func(p *probe) {
			n := p.limit("max_client_batch_size", 4)
			r := p.post(completionPath, `{"prompt":["a"`+strings.Repeat(`,"a"`, n)+`],"max_tokens":1}`)
			p.refused(r, http.StatusUnprocessableEntity, "batch size exceeded",
				fmt.Sprintf("Number of prompts exceeds the maximum allowed batch size of %d", n))
		}},
	{ID: "completion-prompts-none", Rule: "an empty list of prompts is refused",
		Source: "TGI 3.3, router/src/lib.rs, PromptDeserializer", run: func(p *probe) {
			rest := p.bodyRefused(p.post(completionPath, `{"prompt":[]}`), http.StatusUnprocessableEntity, misshapen)
			if !strings.Contains(rest, "Empty array detected. Do not use an empty array for the prompt.") &&
				p.form.this {
				p.fail("serde's text is %q", rest)
			}
		}},
	{ID: "completion-suffix", Rule: "a suffix is refused", Source: "TGI 3.3, router/src/server.rs, completions",
		run: func(p *probe) {
			r := p.post(completionPath, complete(1, `,"suffix":"!"`))
			p.refused(r, http.StatusUnprocessableEntity, "suffix not supported",
				"Suffix is not supported and can be achieved by preprocessing the prompt.")
		}},
	{ID: "completion-stream", Rule: "chunks of text, the reason at the end; then [DONE]",
		Source: "TGI 3.3, router/src/server.rs, completions; OpenAI's API reference", run: func(p *probe) {
			all := p.stream(completionPath, complete(4, `,"stream":true`))
			p.continued(all, 1, p.ask(completionPath, complete(4, ""), "Completion"))
		}},
	{ID: "completion-stream-prompts", Rule: "the chunks of several prompts are told apart by their index",
		Source: ofOpenAI + ", completions/create", run: func(p *probe) {
			body := `{"prompt":["` + story + `","a"],"temperature":0,"max_tokens":3`
			p.continued(p.stream(completionPath, body+`,"stream":true}`), 2, p.ask(completionPath, body+`}`,
				"Completion"))
		}},
	{ID: "completion-stream-usage",
		Rule:   "include_usage adds one chunk behind the others, with no choices; usage is null elsewhere",
		Source: ofOpenAI + ", completions/create, stream_options", This: true, Dialects: []string{TGI3},
		run: func(p *probe) {
			p.totalled(p.stream(completionPath, complete(3, `,"stream":true,"stream_options":{"include_usage":true}`)),
				3,
				"Piece")
		}},
	{ID: "completion-tokens", Rule: "a prompt may be token ids", Source: ofOpenAI + ", completions/create", This: true,
		run: func(p *probe) {
			var ids []string
			for _, t := range p.ask("/tokenize", `{"inputs":"`+story+`"}`, "Tokens").list() {
				ids = append(ids, t.at("id").String())
			}
			v := p.ask(completionPath, fmt.Sprintf(`{"prompt":[%s],"temperature":0,"max_tokens":4}`,
				strings.Join(ids, ",")), "Completion")
			p.equal("text", v.at("choices", 0, "text"), p.ask(completionPath, complete(4, ""),
				"Completion").at("choices",
				0, "text"))
		}},
	{ID: "completion-echo", Rule: "echo puts the prompt before the text", Source: ofOpenAI + ", completions/create",
		This: true, run: func(p *probe) {
			one, two := p.ask(completionPath, complete(3, `,"echo":true`), "Completion"),
				p.ask(completionPath, complete(3, ""), "Completion")
			p.equal("text", one.at("choices", 0, "text"), story+two.at("choices", 0, "text").text())
		}},
	{ID: "completion-logprobs", Rule: "logprobs is a list per property, of one length", Source: ofOpenAI +
		", completions/create", This: true, run: func(p *probe) {
		v := p.ask(completionPath, complete(3, `,"logprobs":2`), "Completion")
		c := v.at("choices", 0, "logprobs")
		n := len(c.at("tokens").list())
		if n == 0 || n > 3 {
			p.fail("%d tokens in logprobs, want up to 3", n)
		}
		for _, name := range []string{"token_logprobs", "top_logprobs", "text_offset"} {
			p.equal("the length of "+name, len(c.at(name).list()), n)
		}
		text := ""
		for i, t := range c.at("tokens").list() {
			p.equal("text_offset", c.at("text_offset", i), len([]rune(text)))
			text += t.text()
		}
	}},
	{ID: "completion-bias", Rule: "logit_bias is a map of token ids, and -100 bans a token", Source: ofOpenAI +
		", completions/create", This: true, run: func(p *probe) {
		first := p.ask("/generate", generate(`"max_new_tokens":1,"details":true`), "GenerateResponse")
		id := first.at("details", "tokens", 0, "id")
		v := p.ask(completionPath, complete(1, fmt.Sprintf(`,"logit_bias":{"%s":-100}`, id)), "Completion")
		if v.at("choices", 0, "text").text() == first.at("generated_text").text() {
			p.fail("the text is still %s", first.at("generated_text"))
		}
	}},
	{ID: "completion-end", Rule: "a whole reply's finish_reason is length where the text was cut", Source: ofOpenAI +
		", completions/create", run: func(p *probe) {
		v := p.ask(completionPath, complete(1, ""), "Completion")
		p.equal("finish_reason", v.at("choices", 0, "finish_reason"), "length")
	}},
}

// continued checks the chunks of n prompts against the whole reply.
func (p *probe) continued(all []value, n int, whole value) {
	text, reasons := make([]string, n), make([]string, n)
	for _, e := range all {
		p.fits("Piece", e)
		if p.form.uniqueIDs {
			p.same(e, all[0])
		}
		for _, c := range e.at("choices").list() {
			i := int(c.at("index").number())
			if i < 0 || i >= n {
				p.fatal("index is %s of %d prompts", c.at("index"), n)
			}
			text[i] += c.at("text").text()
			switch reason := c.at("finish_reason"); {
			case reason.text() != "":
				reasons[i] += reason.text()
			case p.form.emptyReason != reason.isText():
				p.fail("finish_reason of a chunk is %s", reason)
			}
		}
	}
	p.identified(all[0].at("id"), "cmpl-")
	for i := range n {
		want := whole.at("choices", i, "finish_reason").text()
		if !p.form.completionEnd {
			want = ""
		}
		p.equal(fmt.Sprintf("the streamed text %d", i), text[i], whole.at("choices", i, "text"))
		if p.form.this || want != "stop" {
			p.equal(fmt.Sprintf("finish_reason %d", i), reasons[i], want)
		}
	}
	if p.form.this {
		p.noUsage(all)
	}
}
