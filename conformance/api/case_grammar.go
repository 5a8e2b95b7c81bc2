package api

import (
	"fmt"
	"net/http"
	"strings"
)

const (
	ofGrammar  = "TGI 2.2, docs/source/conceptual/guidance.md; router/src/lib.rs, GrammarType"
	ofFormat   = "OpenAI's API reference, chat/create, response_format; vLLM, structured outputs"
	aCode      = `(red|blue)-[0-9]{2}`
	codeSource = `{"type":"regex","value":"(red|blue)-[0-9]{2}"}`
	petSchema  = `{"type":"object","properties":{"pet":{"enum":["cat","dog"]},"tame":{"type":"boolean"}},"required":["pet","tame"]}`
)

// heldBody is a request of TGI's with a grammar.
func (p *probe) heldBody(grammar, fields string) string {
	return fmt.Sprintf(`{"inputs":"A code:","parameters":{"max_new_tokens":%d,"grammar":%s%s}}`, p.room(64), grammar,
		fields)
}

// pet checks a text against petSchema; it accepts a truncated one.
func (p *probe) pet(text, reason string) {
	if reason == "length" {
		return
	}
	v, err := parse([]byte(text))
	if pet := v.at("pet").text(); err != nil || pet != "cat" && pet != "dog" || v.at("tame").any != true &&
		v.at("tame").any != false {
		p.fail("the text is %s, want an object with a pet, cat or dog, that is tame or not", quote(text))
	}
}

var grammarCases = []Case{
	{ID: "grammar-regex", Rule: "a text matches the request's regular expression as a whole, and ends there",
		Source: ofGrammar, Dialects: []string{TGI22, TGI3}, run: func(p *probe) {
			for _, fields := range []string{`,"details":true`,
				`,"details":true,"do_sample":true,"temperature":1.5,"seed":3`} {
				v := p.ask("/generate", p.heldBody(codeSource, fields), "GenerateResponse")
				p.matches("generated_text", v.at("generated_text").text(), aCode)
				p.equal("finish_reason", v.at("details", "finish_reason"), "eos_token")
			}
		}},
	{ID: "grammar-json", Rule: "a text is JSON of the request's schema, which may stand in a string", Source: ofGrammar,
		Dialects: []string{TGI22, TGI3}, run: func(p *probe) {
			for _, grammar := range []string{
				`{"type":"json","value":` + petSchema + `}`, `{"type":"json_object","value":"` +
					strings.ReplaceAll(petSchema, `"`, `\"`) + `"}`,
			} {
				v := p.ask("/generate", p.heldBody(grammar, `,"details":true`), "GenerateResponse")
				p.pet(v.at("generated_text").text(), v.at("details", "finish_reason").text())
			}
		}},
	{ID: "grammar-stream", Rule: "a streamed text is held to its grammar", Source: ofGrammar, Dialects: []string{TGI22,
		TGI3}, run: func(p *probe) {
		all := p.stream("/generate_stream", p.heldBody(codeSource, ""))
		if len(all) == 0 {
			p.fatal("there are no events")
		}
		p.matches("generated_text", all[len(all)-1].at("generated_text").text(), aCode)
	}},
	{ID: "grammar-shape", Rule: "a grammar of another shape does not fit the body", Source: ofGrammar,
		Dialects: []string{TGI22, TGI3}, run: func(p *probe) {
			for _, grammar := range []string{`{"type":"regex"}`, `{"value":"a"}`, `7`} {
				p.begins(p.bodyRefused(p.post("/generate", p.heldBody(grammar, "")), http.StatusUnprocessableEntity,
					misshapen), "parameters.grammar: ")
			}
		}},
	{ID: "grammar-invalid", Rule: "a grammar that cannot be compiled is refused, and the text says where it is wrong",
		Source: ofServer, This: true, run: func(p *probe) {
			for grammar, place := range map[string]string{
				`{"type":"regex","value":"(a"}`:                                 "line 1, column 1",
				`{"type":"json","value":{"properties":{"a":{"type":"strin"}}}}`: "#/properties/a",
			} {
				text, kind := p.refusedAs(p.post("/generate", p.heldBody(grammar, "")), http.StatusUnprocessableEntity)
				p.equal("error_type", kind, "validation")
				if !strings.HasPrefix(text, validation+"grammar is not valid: ") || !strings.Contains(text, place) {
					p.fail("the text is %s, want it to begin with %q and to name %s", quote(text),
						validation+"grammar is not valid: ", place)
				}
			}
		}},
	{ID: "grammar-chat", Rule: "response_format holds a reply to a schema, in OpenAI's shape and TGI's",
		Source: ofFormat, This: true, Extra: true, run: func(p *probe) {
			for _, format := range []string{
				`{"type":"json_schema","json_schema":{"name":"pet","strict":true,"schema":` + petSchema + `}}`,
				`{"type":"json_object","value":` + petSchema + `}`,
			} {
				body := fmt.Sprintf(`{%s,"temperature":0,"max_tokens":%d,"response_format":%s}`, greeting, p.room(64),
					format)
				choice := p.ask(chatPath, body, "Chat").at("choices", 0)
				p.pet(choice.at("message", "content").text(), choice.at("finish_reason").text())
			}
		}},
	{ID: "grammar-guided", Rule: "vLLM's fields hold texts to a choice and a regular expression", Source: ofFormat,
		This: true, Extra: true, run: func(p *probe) {
			for fields, want := range map[string]string{
				`"guided_choice":["yes","no"]`: `yes|no`, `"structured_outputs":{"regex":"(red|blue)-[0-9]{2}"}`: aCode,
			} {
				body := fmt.Sprintf(`{"prompt":"A code:","temperature":0,"max_tokens":%d,%s}`, p.room(64), fields)
				p.matches("the text", p.ask(completionPath, body, "Completion").at("choices", 0, "text").text(), want)
			}
		}},
}
