package api

import (
	"fmt"
	"net/http"
	"strings"
	"time"
)

const (
	responsesPath = "/v1/responses"
	messagesPath  = "/v1/messages"
	ofResponses   = ofOpenAI + ", responses"
	ofAnthropic   = "Anthropic's packages, types/message"
)

// respond is the body of a greedy response with further fields.
func respond(n int, fields string) string {
	return fmt.Sprintf(`{"input":"Tell me a story.","temperature":0,"max_output_tokens":%d%s}`, n, fields)
}

// turn is the body of a greedy message with further fields.
func turn(n int, fields string) string {
	return fmt.Sprintf(`{"model":"tgi","messages":[{"role":"user","content":"Tell me a story."}],"temperature":0,`+
		`"max_tokens":%d%s}`, n, fields)
}

var responsesCases = []Case{
	{ID: "responses", Rule: "a response has the text as an item, and usage that adds up", Source: ofResponses,
		This: true,
		run: func(p *probe) {
			v := p.ask(responsesPath, respond(4, `,"metadata":{"a":"b"}`), "Response")
			p.begins(v.at("id").text(), "resp_")
			p.equal("status", v.at("status"), "incomplete")
			p.equal("incomplete_details", v.at("incomplete_details", "reason"), "max_output_tokens")
			p.equal("metadata", v.at("metadata", "a"), "b")
			u := v.at("usage")
			in, out := u.at("input_tokens").number(), u.at("output_tokens").number()
			if !(in > 0 && out > 0 && out <= 4 && u.at("total_tokens").number() == in+out) {
				p.fail("usage is %s", u)
			}
			if spoken(v) == "" {
				p.fail("there is no text in %s", v)
			}
			same := p.ask(chatPath, chat(4, ""), "Chat").at("choices", 0, "message", "content")
			p.equal("the text", spoken(v), same.text())
		}},
	{ID: "responses-stream", Rule: "events are numbered, begin and end items, and their deltas are the text",
		Source: ofResponses + "-streaming", This: true, run: func(p *probe) {
			list := p.named(p.post(responsesPath, respond(6, `,"stream":true`)))
			text, open := "", 0
			for i, e := range list {
				p.equal("sequence_number", e.at("sequence_number"), i)
				switch e.at("type").text() {
				case "response.output_item.added":
					open++
				case "response.output_text.delta":
					text += e.at("delta").text()
				case "response.output_text.done":
					p.equal("the text of "+e.at("type").text(), e.at("text"), text)
				case "response.output_item.done":
					open--
				}
			}
			p.equal("the first event", list[0].at("type"), "response.created")
			last := list[len(list)-1]
			p.equal("the last event", last.at("type"), "response.incomplete")
			p.equal("open items", open, 0)
			p.equal("the text of the response", spoken(last.at("response")), text)
			p.equal("the text of the whole reply", spoken(p.ask(responsesPath, respond(6, ""), "Response")), text)
		}},
	{ID: "responses-kept", Rule: "a response can be asked for, listed, followed and deleted", Source: ofResponses,
		This: true, run: func(p *probe) {
			v := p.ask(responsesPath, respond(3, ""), "Response")
			at := responsesPath + "/" + v.at("id").text()
			again, _ := p.answer(p.get(at), "Response")
			p.equal("the text", spoken(again), spoken(v))
			items := p.json(p.get(at + "/input_items"))
			p.equal("the input", items.at("data", 0, "content", 0, "text"), "Tell me a story.")
			next := p.ask(responsesPath, respond(3, `,"previous_response_id":`+encode(v.at("id").text())), "Response")
			if next.at("usage", "input_tokens").number() <= v.at("usage", "input_tokens").number() {
				p.fail("the next response reads %s tokens, the first %s", next.at("usage", "input_tokens"),
					v.at("usage", "input_tokens"))
			}
			gone := p.json(p.do(request{method: http.MethodDelete, path: at}))
			p.equal("deleted", gone.at("deleted"), true)
			p.status(p.get(at), http.StatusNotFound)
			other := p.ask(responsesPath, respond(1, `,"store":false`), "Response")
			p.status(p.get(responsesPath+"/"+other.at("id").text()), http.StatusNotFound)
		}},
	{ID: "responses-background", Rule: "a response behind its request is over in the end, and its events are resumed",
		Source: ofResponses, This: true, run: func(p *probe) {
			v := p.ask(responsesPath, respond(6, `,"background":true`), "Response")
			at := responsesPath + "/" + v.at("id").text()
			p.matches("status", v.at("status").text(), `^(queued|in_progress)$`)
			for v.at("status").text() == "queued" || v.at("status").text() == "in_progress" {
				if p.ctx.Err() != nil {
					p.fatal("it is never over")
				}
				time.Sleep(20 * time.Millisecond)
				v, _ = p.answer(p.get(at), "Response")
			}
			p.equal("the text", spoken(v), spoken(p.ask(responsesPath, respond(6, ""), "Response")))
			all := p.named(p.get(at + "?stream=true"))
			rest := p.named(p.get(at + "?stream=true&starting_after=2"))
			p.equal("the first event behind 2", rest[0].at("sequence_number"), 3)
			p.equal("the number of events behind 2", len(rest), len(all)-3)
		}},
	{ID: "responses-refused", Rule: "what is not there is refused by name, as a 400 with OpenAI's object",
		Source: ofServer, This: true, run: func(p *probe) {
			for fields, name := range map[string]string{`,"tools":[{"type":"web_search"}]`: "web_search",
				`,"previous_response_id":"resp_none"`: "resp_none", `,"truncation":"some"`: "truncation",
				`,"top_p":7`: "`top_p`"} {
				r := p.post(responsesPath, respond(2, fields))
				p.status(r, http.StatusBadRequest)
				v := p.json(r)
				p.equal("the error's type", v.at("error", "type"), "invalid_request_error")
				if !strings.Contains(v.at("error", "message").text(), name) {
					p.fail("the error %s does not name %s", v, name)
				}
			}
		}},
	{ID: "messages", Rule: "a message has blocks, why it ended, and usage", Source: ofAnthropic, This: true,
		run: func(p *probe) {
			v, r := p.answer(p.post(messagesPath, turn(4, "")), "AnthropicMessage")
			p.equal("stop_reason", v.at("stop_reason"), "max_tokens")
			same := p.ask(chatPath, chat(4, ""), "Chat")
			p.equal("the text", v.at("content", 0, "text"), same.at("choices", 0, "message", "content"))
			u := v.at("usage")
			in := u.at("input_tokens").number() + u.at("cache_read_input_tokens").number()
			p.equal("the tokens of the prompt", in, same.at("usage", "prompt_tokens").number())
			if r.header.Get("Request-Id") == "" {
				p.fail("there is no request-id")
			}
			n := p.json(p.post(messagesPath+"/count_tokens", turn(1, "")))
			p.equal("count_tokens", n.at("input_tokens").number(), in)
		}},
	{ID: "messages-stream", Rule: "events begin and end blocks, and their deltas are the text", Source: ofAnthropic,
		This: true, run: func(p *probe) {
			text, kinds := "", []string{}
			for _, e := range p.named(p.post(messagesPath, turn(6, `,"stream":true`))) {
				kind := e.at("type").text()
				if n := len(kinds); kind != "ping" && (n == 0 || kinds[n-1] != kind) {
					kinds = append(kinds, kind)
				}
				text += e.at("delta", "text").text()
			}
			p.equal("the events", strings.Join(kinds, " "), "message_start content_block_start content_block_delta "+
				"content_block_stop message_delta message_stop")
			p.equal("the text", p.ask(messagesPath, turn(6, ""), "AnthropicMessage").at("content", 0, "text"), text)
		}},
	{ID: "messages-refused", Rule: "errors have Anthropic's shape, types and statuses", Source: ofAnthropic, This: true,
		run: func(p *probe) {
			for fields, name := range map[string]string{`,"top_p":7`: "`top_p`",
				`,"tools":[{"type":"web_search_20250305","name":"web_search"}]`: "web_search_20250305"} {
				r := p.post(messagesPath, turn(2, fields))
				p.status(r, http.StatusBadRequest)
				v := p.json(r)
				p.equal("type", v.at("type"), "error")
				p.equal("the error's type", v.at("error", "type"), "invalid_request_error")
				p.equal("request_id", v.at("request_id"), r.header.Get("Request-Id"))
				if !strings.Contains(v.at("error", "message").text(), name) {
					p.fail("the error %s does not name %s", v, name)
				}
			}
		}},
}

// spoken returns the text of a response.
func spoken(v value) (text string) {
	for _, item := range v.at("output").list() {
		for _, part := range item.at("content").list() {
			if part.at("type").text() == "output_text" {
				text += part.at("text").text()
			}
		}
	}
	return text
}

// named returns the events of a stream in which each has its type as its name.
func (p *probe) named(r *reply) []value {
	p.status(r, http.StatusOK)
	p.media(r, "text/event-stream")
	var out []value
	for block := range strings.SplitSeq(strings.TrimSuffix(string(r.body), "\n\n"), "\n\n") {
		name, data := "", ""
		for line := range strings.SplitSeq(block, "\n") {
			key, rest, _ := strings.Cut(line, ": ")
			switch key {
			case "event":
				name = rest
			case "data":
				data = rest
			}
		}
		if data == "" {
			continue // a comment
		}
		v, err := parse([]byte(data))
		if err != nil {
			p.fatal("the event %.60q is no JSON: %v", data, err)
		}
		p.equal("the type of an event", v.at("type"), name)
		out = append(out, v)
	}
	if len(out) == 0 {
		p.fatal("the stream has no events")
	}
	return out
}
