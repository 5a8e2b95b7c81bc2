package api

import (
	"fmt"
	"net/http"
	"strings"
)

const (
	ollamaChat     = "/api/chat"
	ollamaGenerate = "/api/generate"
	ollamaVersion  = "/api/version"
	ofOllama       = "Ollama, api/types.go and docs/api.md"
)

// ollama leaves the case out where Ollama's API is not switched on.
func (p *probe) ollama() {
	if p.get(ollamaVersion).status == http.StatusNotFound {
		p.skip("Ollama's API is not served")
	}
}

// asked is the body of a greedy request of Ollama's with n tokens and further members.
func asked(n int, members string) string {
	return fmt.Sprintf(`{"model":"tgi","options":{"temperature":0,"num_predict":%d}%s}`, n, members)
}

// talk is the conversation of chat.
const talk = `,"messages":[{"role":"user","content":"Tell me a story."}]`

// lines are the objects of a stream of Ollama's.
func (p *probe) lines(r *reply) (out []value) {
	p.status(r, http.StatusOK)
	p.media(r, "application/x-ndjson")
	for line := range strings.Lines(string(r.body)) {
		v, err := parse([]byte(line))
		if err != nil {
			p.fatal("the line %.60q is no JSON: %v", line, err)
		}
		out = append(out, v)
	}
	if len(out) == 0 {
		p.fatal("the stream has no lines")
	}
	return out
}

var ollamaCases = []Case{
	{ID: "ollama-chat", Rule: "a reply is one object with the message, why it is done, and durations; or lines of it",
		Source: ofOllama, This: true, run: func(p *probe) {
			p.ollama()
			v := p.ask(ollamaChat, asked(4, talk+`,"stream":false`), "OllamaChat")
			p.equal("done_reason", v.at("done_reason"), "length")
			p.equal("model", v.at("model"), "tgi")
			p.equal("the text", v.at("message", "content"), p.ask(chatPath, chat(4, ""), "Chat").at("choices", 0,
				"message", "content").text())
			p.equal("eval_count", v.at("eval_count"), 4)
			all := p.lines(p.post(ollamaChat, asked(4, talk)))
			text := ""
			for i, one := range all {
				p.equal("done", one.at("done"), i == len(all)-1)
				text += one.at("message", "content").text()
			}
			p.equal("the text of the lines", text, v.at("message", "content").text())
			p.fits("OllamaChat", all[len(all)-1])
		}},
	{ID: "ollama-generate", Rule: "a prompt is a conversation unless it is raw; its tokens can be gone on from",
		Source: ofOllama, This: true, run: func(p *probe) {
			p.ollama()
			v := p.ask(ollamaGenerate, asked(3, `,"prompt":"Tell me a story.","stream":false`), "OllamaGenerate")
			p.equal("response", v.at("response"), p.ask(chatPath, chat(3, ""), "Chat").at("choices", 0, "message",
				"content").text())
			if n := len(v.at("context").list()); n <= 3 {
				p.fail("the context has %d tokens", n)
			}
			raw := p.ask(ollamaGenerate, asked(3, `,"prompt":`+encode(story)+`,"raw":true,"stream":false`),
				"OllamaGenerate")
			p.equal("the raw response", raw.at("response"), p.ask("/generate", generate(`"max_new_tokens":3`),
				"GenerateResponse").at("generated_text").text())
			if raw.at("context").there {
				p.fail("a raw reply has a context")
			}
			empty := p.ask(ollamaGenerate, `{"model":"tgi"}`, "OllamaGenerate")
			p.equal("done_reason of no prompt", empty.at("done_reason"), "load")
		}},
	{ID: "ollama-refused", Rule: "errors are a text, and name the member", Source: ofOllama, This: true,
		run: func(p *probe) {
			p.ollama()
			for _, one := range []struct{ path, body, want string }{
				{ollamaChat, `{"messages":[]}`, "model is required"},
				{ollamaChat, `{"model":"tgi"` + talk + `,"options":{"top_p":7}}`, "`options.top_p`"},
				{ollamaGenerate, asked(1, `,"prompt":"a","suffix":"b"`), "does not support insert"},
				{"/api/copy", `{"source":"a","destination":"b"}`, "`/api/copy` is not supported"},
			} {
				r := p.post(one.path, one.body)
				p.status(r, http.StatusBadRequest)
				v := p.json(r)
				p.fits("OllamaError", v)
				if !strings.Contains(v.at("error").text(), one.want) {
					p.fail("the error of %s is %s, want %s in it", one.body, v, quote(one.want))
				}
			}
		}},
}
