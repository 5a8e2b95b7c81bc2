package api

import (
	"fmt"
	"net/http"
	"strings"
)

// story of the generate API that can be continued.
type kept struct {
	prompt string
	at     int
	config map[string]any
}

// inference answers the routes of the generate API.
func (c *fakeCall) inference(body []byte) {
	text := func(status int, s string) {
		c.w.Header().Set("Content-Type", "text/plain; charset=utf-8")
		c.w.WriteHeader(status)
		fmt.Fprint(c.w, s)
	}
	path := c.r.URL.Path
	if word, ok := strings.CutPrefix(path, "/api/"); ok && (word == "alive" || word == "ready") {
		text(200, word)
		return
	}
	v, err := parse(body)
	if err != nil {
		text(400, "Invalid JSON format")
		return
	}
	items := []value{v}
	if path == batchPath {
		items = v.at("prompts").list()
	}
	var ids []string
	config, _ := v.at("generation_config").any.(map[string]any)
	bad := len(items) == 0
	for _, one := range items {
		prompt := one.at("prompt")
		ids = append(ids, one.at("request_id").text())
		bad = bad || one.at("request_id").text() == "" || path == onePath && prompt.there && prompt.text() == ""
	}
	if k, there := config["top_k"]; there && k == nil || bad {
		text(400, "Invalid Data Format")
		return
	}
	if len(ids) == 2 && ids[0] == ids[1] {
		text(400, "Duplicate request_ids")
		return
	}
	if fmt.Sprint(config["max_new_tokens"]) == "0" {
		text(400, "`max_new_tokens` must be >= 1, given 0")
		return
	}
	onlyNew := !v.at("only_new_tokens").there || v.at("only_new_tokens").isTrue()
	var replies []map[string]any
	for i, one := range items {
		replies = append(replies, c.goOn(fmt.Sprint(ids, i), one.at("prompt").text(), config, onlyNew))
	}
	reason := func(r map[string]any) string { return r["reason"].(string) }
	if path == onePath {
		c.w.Header().Set("Trailer", finishReason+", "+generatedTokens)
		before, _ := replies[0]["prompt"].(string)
		text(200, before+replies[0]["response"].(string))
		c.w.Header().Set(finishReason, reason(replies[0]))
		c.w.Header().Set(generatedTokens, fmt.Sprint(replies[0]["tokens"]))
		return
	}
	status := 200
	for i, r := range replies {
		if reason(r) == "length" {
			status = http.StatusPartialContent
		}
		delete(r, "reason")
		delete(r, "tokens")
		r["request_id"] = ids[i]
	}
	c.json(status, replies)
}

// goOn generates the next tokens of what is kept under key.
func (c *fakeCall) goOn(key, prompt string, config map[string]any, onlyNew bool) map[string]any {
	c.mu.Lock()
	defer c.mu.Unlock()
	if c.texts == nil {
		c.texts = map[string]*kept{}
	}
	k := c.texts[key]
	if k == nil {
		k = &kept{prompt: prompt}
		c.texts[key] = k
	}
	if len(config) > 0 {
		k.config = config
	}
	most := 0
	_, _ = fmt.Sscan(fmt.Sprint(k.config["max_new_tokens"]), &most)
	all := (&ask{prompt: split(k.prompt), most: 200}).run().tokens
	from, to := k.at, min(k.at+most, len(all))
	word := func(i int) string { return all[i]["text"].(string) }
	r := map[string]any{"response": "", "reason": "length", "tokens": to - from}
	if !onlyNew {
		before := k.prompt
		for i := range from {
			before += word(i)
		}
		r["prompt"] = before
	}
	for i := from; i < to; i++ {
		r["response"] = r["response"].(string) + word(i)
	}
	if k.at = to; all[to-1]["special"] == true {
		r["reason"] = "eos_token"
		delete(c.texts, key)
	}
	return r
}
