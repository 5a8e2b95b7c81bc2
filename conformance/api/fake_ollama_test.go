package api

import (
	"encoding/json"
	"fmt"
	"strings"
)

// ollama serves Ollama's API.
func (c *fakeCall) ollama() {
	v := value{c.body, true}
	refuse := func(text string) { c.json(400, map[string]any{"error": text}) }
	isChat := c.r.URL.Path == ollamaChat
	switch {
	case c.r.URL.Path == ollamaVersion:
		c.json(200, map[string]any{"version": "0"})
		return
	case !isChat && c.r.URL.Path != ollamaGenerate:
		refuse("`" + c.r.URL.Path + "` is not supported")
		return
	case v.at("model").text() == "":
		refuse("model is required")
		return
	case v.at("options", "top_p").number() > 1:
		refuse("`options.top_p` must be at most 1")
		return
	case v.at("suffix").text() != "":
		refuse("\"tgi\" does not support insert")
		return
	}
	reply := func(text string, done bool) map[string]any {
		m := map[string]any{"model": v.at("model").text(), "created_at": "2026-11-24T16:00:00Z", "done": done}
		if isChat {
			return with(m, "message", map[string]any{"role": "assistant", "content": text})
		}
		return with(m, "response", text)
	}
	raw := v.at("raw").isTrue()
	if !isChat && v.at("prompt").text() == "" {
		c.json(200, with(reply("", true), "done_reason", "load"))
		return
	}
	prompt := v.at("prompt").text()
	if !isChat {
		c.body["messages"] = []any{map[string]any{"role": "user", "content": prompt}}
	}
	if !raw {
		prompt = rendered(c.body, false)
	}
	c.body["max_tokens"], c.body["temperature"] = v.at("options", "num_predict").any, json.Number("0")
	a := c.settings(split(prompt))
	s := c.speak(a)
	last := func(text string) map[string]any {
		m := with(reply(text, true), "done_reason", "length")
		m["prompt_eval_count"], m["eval_count"] = len(a.prompt), len(s.tokens)
		for _, name := range []string{"total", "load", "prompt_eval", "eval"} {
			m[name+"_duration"] = 1
		}
		if !isChat && !raw {
			m["context"] = make([]int, len(a.prompt)+len(s.tokens))
		}
		return m
	}
	if c.body["stream"] == false {
		c.json(200, last(s.text))
		return
	}
	c.w.Header().Set("Content-Type", "application/x-ndjson")
	var b strings.Builder
	for _, t := range s.tokens {
		fmt.Fprintf(&b, "%s\n", value{reply(t["text"].(string), false), true})
	}
	fmt.Fprintf(c.w, "%s%s\n", b.String(), value{last(""), true})
}
