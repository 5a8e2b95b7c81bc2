package api

import (
	"fmt"
	"math"
	"net/http"
	"slices"
	"strings"
	"time"
)

const (
	chatPath       = "/v1/chat/completions"
	completionPath = "/v1/completions"
	modelsPath     = "/v1/models"
)

// chat is the body of a greedy conversation with further fields.
func chat(n int, fields string) string {
	return fmt.Sprintf(`{"messages":[{"role":"user","content":"Tell me a story."}],"temperature":0,"max_tokens":%d%s}`,
		n, fields)
}

var chatCases = []Case{
	{ID: "models", Rule: "GET /v1/models lists the served model, the default first where there are several",
		Source: "TGI 2.3, router/src/server.rs, openai_get_model_info", run: func(p *probe) {
			v, _ := p.answer(p.get(modelsPath), "Models")
			p.equal("id", v.at("data", 0, "id"), p.info.at("model_id"))
		}},
	{ID: "models-one", Rule: "GET /v1/models/{id} is one model, or a 404 with code model_not_found", Source: ofOpenAI +
		", models/retrieve", This: true, run: func(p *probe) {
		v, _ := p.answer(p.get(modelsPath+"/"+p.info.at("model_id").text()), "Model")
		p.equal("id", v.at("id"), p.info.at("model_id"))
		r := p.get(modelsPath + "/no-such/model")
		p.status(r, http.StatusNotFound)
		if v := p.json(r); p.form.errorObject {
			p.equal("code", v.at("error", "code"), "model_not_found")
		}
	}},
	{ID: "chat", Rule: "a chat reply has one choice, usage that adds up, and the time", Source: ofChat,
		run: func(p *probe) {
			v, r := p.answer(p.post(chatPath, chat(4, "")), "Chat")
			p.choices(v, 1)
			p.used(v.at("usage"), 4)
			p.stamped(v)
			p.costs(r)
			if v.at("choices", 0, "message", "content").text() == "" {
				p.fail("the content is empty")
			}
			if !v.at("choices", 0, "logprobs").null() {
				p.fail("logprobs is %s", v.at("choices", 0, "logprobs"))
			}
		}},
	{ID: "chat-ids", Rule: "ids are unique where the dialect is OpenAI's, and empty before", Source: ofOpenAI +
		", chat/object; before: TGI 3.3, chat.rs", run: func(p *probe) {
		one, two := p.ask(chatPath, chat(1, ""), "Chat").at("id"), p.ask(chatPath, chat(1, ""), "Chat").at("id")
		p.identified(one, "chatcmpl-")
		if p.form.uniqueIDs && one.text() == two.text() {
			p.fail("two replies have the id %s", one)
		}
	}},
	{ID: "chat-end", Rule: "finish_reason is length, or names the model's own end (eos_token before 2.3, stop since)",
		Source: ofChat, run: func(p *probe) {
			v := p.ask(chatPath, chat(1, ""), "Chat")
			p.equal("finish_reason", v.at("choices", 0, "finish_reason"), "length")
			most := p.room(200)
			v = p.ask(chatPath, fmt.Sprintf(`{%s,"temperature":0,"max_tokens":%d}`, greeting, most), "Chat")
			if int(v.at("usage", "completion_tokens").number()) < most {
				p.equal("finish_reason", v.at("choices", 0, "finish_reason"), p.form.finishEOS)
			}
		}},
	{ID: "chat-greedy", Rule: "temperature 0 takes the likeliest tokens", Source: ofChat, run: func(p *probe) {
		one, two := p.ask(chatPath, chat(8, ""), "Chat"), p.ask(chatPath, chat(8, `,"seed":3`), "Chat")
		p.equal("the second content", two.at("choices", 0, "message", "content"), one.at("choices", 0, "message",
			"content"))
	}},
	{ID: "chat-parts", Rule: "content may be a list of parts", Source: ofChat, run: func(p *probe) {
		parts := strings.Replace(chat(6, ""), `"Tell me a story."`, `[{"type":"text","text":"Tell me a story."}]`, 1)
		p.equal("the content", p.ask(chatPath, parts, "Chat").at("choices", 0, "message", "content"),
			p.ask(chatPath, chat(6, ""), "Chat").at("choices", 0, "message", "content"))
	}},
	{ID: "chat-model", Rule: "tgi, dummy and no name mean the served model; others are echoed since 3.0",
		Source: ofClients, This: true, run: func(p *probe) {
			served := p.info.at("model_id").text()
			names := map[string]string{"tgi": served, "dummy": served, "": served}
			if !p.refusesUnknown() {
				names["some/adapter"] = "some/adapter"
			}
			for name, want := range names {
				if !p.form.echoModel {
					want = served
				}
				v := p.ask(chatPath, chat(1, `,"model":`+encode(name)), "Chat")
				p.equal("model", v.at("model"), want)
			}
		}},
	{ID: "chat-most-tokens", Rule: "max_completion_tokens is max_tokens",
		Source: "TGI 3.0.2, router/src/lib.rs, ChatRequest", Dialects: []string{TGI3}, run: func(p *probe) {
			v := p.ask(chatPath, strings.Replace(chat(3, ""), "max_tokens", "max_completion_tokens", 1), "Chat")
			p.used(v.at("usage"), 3)
		}},
	{ID: "chat-stop", Rule: "stop may be a string; OpenAI leaves it out of the text, TGI left it in", Source: ofOpenAI +
		", chat/create; before: TGI 3.3", run: func(p *probe) {
		whole := p.ask(chatPath, chat(16, `,"logprobs":true`), "Chat").at("choices", 0)
		stop := ""
		var tokens []value
		for _, t := range whole.at("logprobs", "content").list() {
			tokens = append(tokens, value{map[string]any{"text": t.at("token").any}, true})
		}
		if stop = stopIn(tokens); stop == "" || !strings.Contains(whole.at("message", "content").text(), stop) {
			p.skip("the model's text has no word to stop at")
		}
		forms := []string{`["` + "\x00" + `"]`}
		if p.form.this {
			forms = append(forms, `"`+"\x00"+`"`)
		}
		for _, f := range forms {
			f = strings.Replace(f, "\"\x00\"", encode(stop), 1)
			v := p.ask(chatPath, chat(16, `,"stop":`+f), "Chat").at("choices", 0)
			want, _, _ := strings.Cut(whole.at("message", "content").text(), stop)
			if p.form.keepStop {
				want += stop
			}
			p.equal("content", v.at("message", "content"), want)
			p.equal("finish_reason", v.at("finish_reason"), p.form.finishStop)
		}
	}},
	{ID: "chat-logprobs", Rule: "logprobs has each token of the content with its likeliest rivals", Source: ofChat,
		run: func(p *probe) {
			v := p.ask(chatPath, chat(4, `,"logprobs":true,"top_logprobs":2`), "Chat")
			list := v.at("choices", 0, "logprobs", "content").list()
			if n := int(v.at("usage", "completion_tokens").number()); len(list) == 0 || len(list) > n {
				p.fail("%d log-probabilities of %d tokens", len(list), n)
			}
			for i, t := range list {
				p.descending(fmt.Sprintf("top_logprobs of token %d", i), t.at("top_logprobs").list(), 2)
				if !(t.at("logprob").number() <= 0) {
					p.fail("the log-probability of token %d is %s", i, t.at("logprob"))
				}
			}
			if p.form.this && !list[0].at("bytes").there {
				p.fail("tokens have no bytes")
			}
		}},
	{ID: "chat-n", Rule: "n has that many choices, numbered", Source: ofOpenAI + ", chat/create", This: true,
		run: func(p *probe) {
			v := p.ask(chatPath, `{`+greeting+`,"max_tokens":3,"n":3,"seed":1}`, "Chat")
			p.choices(v, 3)
		}},
	{ID: "chat-top-p", Rule: "top_p 1 is no restriction; TGI refuses it", Source: ofOpenAI +
		", chat/create; TGI 3.3, validation.rs", run: func(p *probe) {
		r := p.post(chatPath, `{`+greeting+`,"max_tokens":2,"top_p":1}`)
		if p.form.this {
			p.answer(r, "Chat")
			return
		}
		p.refused(r, http.StatusUnprocessableEntity, "validation", validation+"`top_p` must be > 0.0 and < 1.0")
	}},
	{ID: "chat-penalty", Rule: "presence_penalty 0 is no penalty", Source: ofOpenAI + ", chat/create", This: true,
		run: func(p *probe) {
			one := p.ask(chatPath, chat(8, `,"presence_penalty":0,"frequency_penalty":0`), "Chat")
			p.equal("the content", one.at("choices", 0, "message", "content"), p.ask(chatPath, chat(8, ""),
				"Chat").at("choices", 0, "message", "content"))
		}},
	{ID: "chat-error",
		Rule:   "a refusal is an object of OpenAI's shape where the dialect is OpenAI's, TGI's shape before",
		Source: ofOpenAI + ", errors; before: TGI 3.3", run: func(p *probe) {
			text, kind := p.refusedAs(p.post(chatPath, chat(0, "")), http.StatusUnprocessableEntity)
			p.equal("the error's text", text, validation+p.form.lengthZero())
			p.equal("error_type", kind, "validation")
		}},
	{ID: "chat-error-body", Rule: "bodies that are no requests are refused as on TGI's routes", Source: ofBodies,
		run: func(p *probe) {
			rest := p.bodyRefused(p.post(chatPath, `{}`), http.StatusUnprocessableEntity, misshapen)
			p.begins(rest, "missing field `messages`")
			p.bodyRefused(p.post(chatPath, `{"messages"`), http.StatusBadRequest, unparsable)
			r := p.do(request{method: http.MethodPost, path: chatPath, body: chat(1, ""),
				header: map[string]string{"Content-Type": "text/plain"}})
			p.bodyRefused(r, http.StatusUnsupportedMediaType, "Expected request with `Content-Type: application/json`")
		}},
}

// choices checks that there are n, in their order.
func (p *probe) choices(v value, n int) {
	list := v.at("choices").list()
	p.equal("the number of choices", len(list), n)
	for i, c := range list {
		p.equal("index", c.at("index"), i)
	}
}

// used checks a reply's count of tokens, of which n were asked for.
func (p *probe) used(u value, n int) {
	in, out, total := u.at("prompt_tokens").number(), u.at("completion_tokens").number(), u.at("total_tokens").number()
	if !(in > 0 && out > 0 && out <= float64(n) && total == in+out) {
		p.fail("usage is %s, want at most %d completion_tokens and the sum", u, n)
	}
}

// stamped checks what all replies of OpenAI's routes tell of themselves.
func (p *probe) stamped(v value) {
	// Clocks of two machines differ; a day tells seconds from milliseconds.
	if age := float64(time.Now().Unix()) - v.at("created").number(); !(math.Abs(age) < 86400) {
		p.fail("created is %s, want the time in seconds", v.at("created"))
	}
	p.matches("system_fingerprint", v.at("system_fingerprint").text(), `.+-.+`)
	p.matches("model", v.at("model").text(), `.+`)
}

// identified checks an id.
func (p *probe) identified(id value, prefix string) {
	if !p.form.uniqueIDs {
		p.equal("id", id, "")
		return
	}
	if !strings.HasPrefix(id.text(), prefix) || len(id.text()) < len(prefix)+8 {
		p.fail("id is %q, want %s and something unique", id, prefix)
	}
}

var chatStreamCases = []Case{
	{ID: "chat-stream",
		Rule:   "chunks share id, time and model; the role comes first, or with each; the reason comes last; then [DONE]",
		Source: ofChat, run: func(p *probe) {
			r := p.post(chatPath, chat(6, `,"stream":true`))
			all := p.read(r)
			text, reasons := p.spoken(all, 1)
			v := p.ask(chatPath, chat(6, ""), "Chat")
			p.equal("the streamed content", text[0], v.at("choices", 0, "message", "content"))
			p.equal("finish_reason", reasons[0], v.at("choices", 0, "finish_reason"))
			p.last = r
			p.noUsage(all)
			p.header(r, "Cache-Control", "no-cache")
			p.header(r, "X-Accel-Buffering", "no")
		}},
	{ID: "chat-stream-usage",
		Rule:   "include_usage adds one chunk behind the others, with no choices; usage is null elsewhere",
		Source: ofOpenAI + ", chat/create, stream_options", run: func(p *probe) {
			all := p.stream(chatPath, chat(4, `,"stream":true,"stream_options":{"include_usage":true}`))
			if !p.form.usageChunk {
				p.spoken(all, 1)
				p.noUsage(all)
				return
			}
			p.spoken(all[:len(all)-1], 1)
			p.totalled(all, 4, "ChatChunk")
		}},
	{ID: "chat-stream-n", Rule: "the choices of a stream are whole, each with its role and its reason",
		Source: ofOpenAI + ", chat/create", This: true, run: func(p *probe) {
			body := `{` + greeting + `,"max_tokens":4,"n":2,"seed":5}`
			text, _ := p.spoken(p.stream(chatPath, strings.Replace(body, "{", `{"stream":true,`, 1)), 2)
			v := p.ask(chatPath, body, "Chat")
			for i := range text {
				p.equal(fmt.Sprintf("content %d", i), text[i], v.at("choices", i, "message", "content"))
			}
		}},
	{ID: "chat-stream-logprobs", Rule: "chunks carry the logprobs of their tokens", Source: ofChat,
		run: func(p *probe) {
			n := 0
			for _, e := range p.stream(chatPath, chat(4, `,"stream":true,"logprobs":true,"top_logprobs":1`)) {
				p.fits("ChatChunk", e)
				n += len(e.at("choices", 0, "logprobs", "content").list())
			}
			if n == 0 || n > 4 {
				p.fail("%d log-probabilities in the chunks of 4 tokens", n)
			}
		}},
	{ID: "chat-stream-error",
		Rule: "a stream that cannot begin is refused with a status for OpenAI's clients; before, by an event and [DONE]", Source: ofOpenAI + ", errors; before: TGI 3.3, chat.rs", run: func(p *probe) {
			r := p.post(chatPath, chat(0, `,"stream":true`))
			want := validation + p.form.lengthZero()
			if p.form.eagerErrors {
				p.refused(r, http.StatusUnprocessableEntity, "validation", want)
				return
			}
			all := p.read(r)
			p.equal("the number of events", len(all), 1)
			p.fits(p.form.eventRefusal(), all[0])
			if p.form.eventErrorObject {
				p.equal("message", all[0].at("error", "message"), want)
				p.equal("http_status_code", all[0].at("error", "http_status_code"), http.StatusUnprocessableEntity)
				return
			}
			p.equal("error", all[0].at("error"), want)
		}},
	{ID: "chat-stream-template", Rule: "a conversation that has no prompt is refused with a status, streamed or not",
		Source: ofErrors, This: true, run: func(p *probe) {
			for _, stream := range []string{"", `,"stream":true`} {
				r := p.post(chatPath, `{"messages":[]`+stream+`}`)
				if p.form.this && !p.form.eagerErrors && r.header.Get("Content-Type") == "text/event-stream" {
					p.fail("the refusal is an event")
					continue
				}
				text, kind := p.refusedAs(r, http.StatusUnprocessableEntity)
				p.begins(text, "Template error: ")
				p.equal("error_type", kind, "template_error")
			}
		}},
}

// spoken checks the chunks of n choices, and returns their texts and reasons.
func (p *probe) spoken(all []value, n int) (text []string, reasons []value) {
	text, reasons = make([]string, n), make([]value, n)
	opened := make([]bool, n)
	for _, e := range all {
		p.fits("ChatChunk", e)
		p.same(e, all[0])
		p.equal("the number of choices of a chunk", len(e.at("choices").list()), 1)
		c := e.at("choices", 0)
		i := int(c.at("index").number())
		if i < 0 || i >= n {
			p.fatal("index is %s of %d choices", c.at("index"), n)
		}
		delta := c.at("delta")
		switch role := delta.at("role").text(); {
		case p.form.roleFirst && !opened[i]:
			if role != "assistant" || delta.at("content").text() != "" || !c.at("finish_reason").null() {
				p.fail("a choice begins with %s, want the role alone", c)
			}
		case p.form.roleFirst == (role == "assistant"):
			p.fail("the role of a delta is %q", role)
		}
		opened[i] = true
		if reasons[i].there {
			p.fail("a choice goes on behind its finish_reason")
		}
		if r := c.at("finish_reason"); !r.null() {
			reasons[i] = r
		}
		text[i] += delta.at("content").text()
	}
	p.identified(all[0].at("id"), "chatcmpl-")
	p.stamped(all[0])
	if i := slices.IndexFunc(reasons, func(r value) bool { return !r.there }); i >= 0 {
		p.fail("choice %d has no finish_reason", i)
	}
	return text, reasons
}

// same checks that a chunk belongs to the stream of another.
func (p *probe) same(e, first value) {
	for _, name := range []string{"id", "created", "model", "system_fingerprint", "object"} {
		p.equal(name+" of a later chunk", e.at(name), first.at(name))
	}
}

// noUsage checks that a stream has no usage if the request did not ask for it.
func (p *probe) noUsage(all []value) {
	for _, e := range all {
		if u := e.at("usage"); u.there != p.form.usageAlways || u.there && !u.null() {
			p.fail("usage of a chunk is %s", u)
		}
		if len(e.at("choices").list()) == 0 {
			p.fail("a chunk has no choices, which clients that did not ask for usage stumble over")
		}
	}
}

// totalled checks that the last chunk, and no other, has the usage.
func (p *probe) totalled(all []value, n int, kind string) {
	for i, e := range all {
		p.fits(kind, e)
		if last := i == len(all)-1; !last {
			if !e.at("usage").null() {
				p.fail("usage of chunk %d of %d is %s, want null", i+1, len(all), e.at("usage"))
			}
			continue
		}
		p.same(e, all[0])
		p.equal("choices of the last chunk", e.at("choices"), "[]")
		p.used(e.at("usage"), n)
	}
}
