package api

import (
	"net/http"
	"strings"
	"unicode/utf8"
)

var infoCases = []Case{
	{ID: "info", Rule: "GET /info has TGI's fields, with null for what is not known",
		Source: "TGI 3.3, router/src/lib.rs, Info", run: func(p *probe) {
			kind := "Info"
			if !p.form.infoLimits {
				kind = "Info06"
			}
			v, _ := p.answer(p.get("/info"), kind)
			if v.at("model_id").text() == "" || v.at("version").text() == "" {
				p.fail("model_id is %q and version %q", v.at("model_id"), v.at("version"))
			}
			if !p.form.infoLimits {
				return
			}
			if p.form.this {
				p.equal("router", v.at("router"), "text-generation-router")
			}
			in, total := v.at("max_input_tokens").number(), v.at("max_total_tokens").number()
			if !(in > 0 && in < total) {
				p.fail("max_input_tokens is %v, want more than 0 and less than max_total_tokens, %v", in, total)
			}
		}},
	{ID: "docs", Rule: "GET /docs is a page", Source: ofRoutes, run: func(p *probe) {
		r := p.get("/docs")
		if r.status == http.StatusSeeOther || r.status == http.StatusPermanentRedirect {
			return // TGI sends browsers on to /docs/
		}
		p.status(r, http.StatusOK)
		p.media(r, "text/html")
	}},
	{ID: "openapi", Rule: "GET /api-doc/openapi.json is an OpenAPI 3 document of the routes", Source: ofRoutes,
		run: func(p *probe) {
			r := p.get(documentPath)
			p.status(r, http.StatusOK)
			v := p.json(r)
			p.matches("openapi", v.at("openapi").text(), `3\.[01]\.\d+`)
			for _, path := range []string{"/", "/generate", "/generate_stream", "/info", "/metrics", "/health",
				"/tokenize",
				"/v1/chat/completions", "/v1/completions"} {
				if !v.at("paths", path).there && !(p.form.name == TGI06 && !p.form.this) {
					p.fail("the document does not know %s", path)
				}
			}
			if p.form.this {
				if _, err := NewDocument("the document", r.body); err != nil {
					p.fail("%v", err)
				}
			}
		}},
	{ID: "tokenize", Rule: "POST /tokenize is a bare array; a token's text is the input's from start to stop",
		Source: "TGI 3.3, router/src/server.rs, tokenize", Extra: true, run: func(p *probe) {
			const text = "The quick brown fox, 42 jumps."
			v := p.ask("/tokenize", `{"inputs":`+encode(text)+`}`, "Tokens")
			p.pieces(v, text)
		}},
	{ID: "tokenize-characters", Rule: "start and stop count characters, and the text between them is the token's",
		Source: ofServer, This: true, run: func(p *probe) {
			const text = "Zoë läuft über 日本 und 👩‍🚀 zurück"
			v := p.ask("/tokenize", `{"inputs":`+encode(text)+`}`, "Tokens")
			p.pieces(v, text)
		}},
	{ID: "tokenize-headers", Rule: "a reply of /tokenize has none of the headers of generations", Source: ofHeaders,
		Extra: true, run: func(p *probe) {
			r := p.post("/tokenize", `{"inputs":"a"}`)
			p.status(r, http.StatusOK)
			for _, name := range generationHeaders {
				if v := r.header.Get(name); v != "" {
					p.fail("%s is %q", name, v)
				}
			}
		}},
	{ID: "chat-tokenize", Rule: "POST /chat_tokenize has the prompt that a conversation becomes, and its tokens",
		Source: "TGI 2.3, router/src/server.rs, get_chat_tokenize", Extra: true, run: func(p *probe) {
			v := p.ask("/chat_tokenize", `{"messages":[{"role":"user","content":"Where is the harbour?"}]}`,
				"ChatTokens")
			text := v.at("templated_text").text()
			if !strings.Contains(text, "Where is the harbour?") {
				p.fail("templated_text is %s, want the message in it", quote(text))
			}
			p.pieces(v.at("tokenize_response"), text)
		}},
}

// pieces checks the tokens of text. Tokens that the tokenizer adds have no place.
func (p *probe) pieces(v value, text string) {
	list, runes := v.list(), []rune(text)
	if len(list) == 0 {
		p.fail("there are no tokens")
	}
	covered, last := 0, 0
	for i, t := range list {
		start, stop := int(t.at("start").number()), int(t.at("stop").number())
		switch {
		case start == 0 && stop == 0:
			continue
		case start > stop || stop > utf8.RuneCountInString(text) || start < last:
			p.fail("token %d stands from %d to %d, behind one that begins at %d in a text of %d characters", i, start,
				stop, last, len(runes))
		case string(runes[start:stop]) != t.at("text").text():
			p.fail("token %d is %s, the input from %d to %d is %q", i, quote(t.at("text").text()), start, stop,
				string(runes[start:stop]))
		}
		last = start
		covered = max(covered, stop)
	}
	p.equal("the end of the last token", covered, len(runes))
}
