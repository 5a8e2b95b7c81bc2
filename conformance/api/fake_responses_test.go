package api

import (
	"fmt"
	"net/http"
	"strconv"
	"strings"
)

// fakeResponse is what the fake keeps of a response.
type fakeResponse struct {
	said   []any // messages of chat
	v      map[string]any
	events []map[string]any
}

// response serves the Responses API.
func (c *fakeCall) response() {
	id, more, _ := strings.Cut(strings.TrimPrefix(c.r.URL.Path, responsesPath+"/"), "/")
	if c.r.URL.Path != responsesPath {
		kept, ok := c.fake.responses.Load(id)
		if !ok {
			c.refuseResponse(404, "not_found", "Response with id '"+id+"' not found.")
			return
		}
		one := kept.(*fakeResponse)
		switch {
		case c.r.Method == http.MethodDelete:
			c.fake.responses.Delete(id)
			c.json(200, map[string]any{"id": id, "object": "response", "deleted": true})
		case more != "":
			c.json(200, map[string]any{"object": "list", "data": []any{map[string]any{"id": "i", "type": "message",
				"content": []any{map[string]any{"type": "input_text",
					"text": one.said[len(one.said)-2].(map[string]any)["content"]}}}}})
		case c.r.URL.Query().Get("stream") == "true":
			from, _ := strconv.Atoi(c.r.URL.Query().Get("starting_after"))
			if c.r.URL.Query().Has("starting_after") {
				from++
			}
			for _, e := range one.events[from:] {
				c.tell(e)
			}
		default:
			c.json(200, one.v)
		}
		return
	}
	v := value{c.body, true}
	previous := &fakeResponse{}
	if name := v.at("previous_response_id"); name.isText() {
		kept, ok := c.fake.responses.Load(name.text())
		if !ok {
			c.refuseResponse(400, "previous_response_not_found",
				"Previous response with id '"+name.text()+"' not found.")
			return
		}
		previous = kept.(*fakeResponse)
	}
	switch {
	case len(v.at("tools").list()) > 0:
		c.refuseResponse(400, "validation", "tools of type `"+v.at("tools", 0, "type").text()+"` are not supported")
		return
	case v.at("truncation").text() == "some":
		c.refuseResponse(400, "validation", "truncation: unknown")
		return
	case v.at("top_p").number() > 1:
		c.refuseResponse(400, "validation", "`top_p` must be positive")
		return
	}
	all := append(previous.said[:len(previous.said):len(previous.said)],
		map[string]any{"role": "user", "content": v.at("input").text()})
	c.body["messages"], c.body["max_tokens"] = all, c.body["max_output_tokens"]
	a := c.settings(split(rendered(c.body, false)))
	s := c.speak(a)
	n := c.fake.answered.Add(1)
	id = fmt.Sprintf("resp_%d", n)
	item := map[string]any{"id": fmt.Sprintf("msg_%d_0", n), "type": "message", "role": "assistant",
		"status":  "completed",
		"content": []any{map[string]any{"type": "output_text", "annotations": []any{}, "text": s.text}}}
	metadata := c.body["metadata"]
	if metadata == nil {
		metadata = map[string]any{}
	}
	begun := map[string]any{"id": id, "object": "response", "created_at": now(), "status": "in_progress", "error": nil,
		"incomplete_details": nil, "output": []any{}, "usage": nil, "model": c.model, "tools": []any{},
		"tool_choice": "auto", "parallel_tool_calls": true, "metadata": metadata}
	over := with(with(with(begun, "status", "incomplete"), "output", []any{item}), "usage", map[string]any{
		"input_tokens": len(a.prompt), "output_tokens": len(s.tokens), "total_tokens": len(a.prompt) + len(s.tokens)})
	over["incomplete_details"] = map[string]any{"reason": "max_output_tokens"}
	events := []map[string]any{{"type": "response.created", "response": begun},
		{"type": "response.output_item.added", "output_index": 0}}
	for _, t := range s.tokens {
		events = append(events, map[string]any{"type": "response.output_text.delta", "delta": t["text"]})
	}
	events = append(events, map[string]any{"type": "response.output_text.done", "text": s.text},
		map[string]any{"type": "response.output_item.done", "output_index": 0},
		map[string]any{"type": "response.incomplete", "response": over})
	for i := range events {
		events[i]["sequence_number"] = i
	}
	if c.body["store"] != false {
		c.fake.responses.Store(id, &fakeResponse{append(all, map[string]any{"role": "assistant", "content": s.text}),
			over,
			events})
	}
	switch {
	case c.body["stream"] == true:
		for _, e := range events {
			c.tell(e)
		}
	case c.body["background"] == true:
		c.json(200, with(begun, "status", "queued"))
	default:
		c.json(200, over)
	}
}

// refuseResponse refuses with OpenAI's object, whatever the dialect.
func (c *fakeCall) refuseResponse(status int, code, text string) {
	c.json(status, map[string]any{"error": map[string]any{"message": text, "type": "invalid_request_error",
		"param": nil,
		"code":  code}, "error_type": code})
}

// tell sends an event that has its type as its name.
func (c *fakeCall) tell(e map[string]any) {
	c.w.Header().Set("Content-Type", "text/event-stream")
	fmt.Fprintf(c.w, "event: %s\ndata: %s\n\n", e["type"], value{e, true})
}

// message serves Anthropic's API.
func (c *fakeCall) message() {
	v := value{c.body, true}
	c.w.Header().Set("Request-Id", c.w.Header().Get("X-Request-Id"))
	text := ""
	switch {
	case len(v.at("tools").list()) > 0:
		text = "tools of type `" + v.at("tools", 0, "type").text() + "` are not supported"
	case v.at("top_p").number() > 1:
		text = "`top_p` must be positive"
	}
	if text != "" {
		c.json(400, map[string]any{"type": "error", "error": map[string]any{"type": "invalid_request_error",
			"message": text}, "request_id": c.w.Header().Get("Request-Id")})
		return
	}
	a := c.settings(split(rendered(c.body, false)))
	if c.r.URL.Path != messagesPath {
		c.json(200, map[string]any{"input_tokens": len(a.prompt)})
		return
	}
	s := c.speak(a)
	usage := map[string]any{"input_tokens": len(a.prompt), "output_tokens": len(s.tokens), "cache_read_input_tokens": 0,
		"cache_creation_input_tokens": 0}
	block := map[string]any{"type": "text", "text": s.text}
	m := map[string]any{"id": "msg_1", "type": "message", "role": "assistant", "model": c.model, "usage": usage,
		"content": []any{block}, "stop_reason": "max_tokens", "stop_sequence": nil}
	if c.body["stream"] != true {
		c.json(200, m)
		return
	}
	c.tell(map[string]any{"type": "message_start", "message": with(with(m, "content", []any{}), "stop_reason", nil)})
	c.tell(map[string]any{"type": "content_block_start", "index": 0, "content_block": map[string]any{"type": "text",
		"text": ""}})
	for _, t := range s.tokens {
		c.tell(map[string]any{"type": "content_block_delta", "index": 0, "delta": map[string]any{"type": "text_delta",
			"text": t["text"]}})
	}
	c.tell(map[string]any{"type": "content_block_stop", "index": 0})
	c.tell(map[string]any{"type": "message_delta", "delta": map[string]any{"stop_reason": "max_tokens"},
		"usage": usage})
	c.tell(map[string]any{"type": "message_stop"})
}
