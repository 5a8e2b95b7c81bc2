package api

import (
	"fmt"
	"strconv"
	"strings"
)

// settings turns the fields of OpenAI's routes into a request.
func (c *fakeCall) settings(prompt []spot) *ask {
	v := value{c.body, true}
	a := &ask{prompt: prompt, most: fakeTotal - len(prompt), banned: map[int]bool{}}
	if !c.this {
		a.most = min(100, a.most)
	}
	for _, name := range []string{"max_tokens", "max_completion_tokens"} {
		if n := v.at(name); n.isNumber() {
			a.most = int(n.number())
		}
	}
	a.sample = v.at("temperature").number() != 0
	a.seed, _ = strconv.ParseUint(v.at("seed").String(), 10, 64)
	if s := v.at("stop"); s.isText() {
		a.stop = []string{s.text()}
	} else {
		for _, one := range s.list() {
			a.stop = append(a.stop, one.text())
		}
	}
	if bias, ok := v.at("logit_bias").any.(map[string]any); ok {
		for id := range bias {
			n, _ := strconv.Atoi(id)
			a.banned[n] = true
		}
	}
	a.held, _ = held(c.body)
	if c.model != fakeFirst {
		a.shift = 5
	}
	if c.restless {
		a.shift = int(c.ids.Add(1))
	}
	if c.unbiased {
		a.banned = nil
	}
	return a
}

// speak runs a request as OpenAI's routes tell it.
func (c *fakeCall) speak(a *ask) said {
	s := a.run()
	switch s.reason {
	case "eos_token":
		s.reason = c.finishEOS
	case "stop_sequence":
		s.reason = c.finishStop
		if !c.keepStop {
			for _, stop := range a.stop {
				if cut, ok := strings.CutSuffix(s.text, stop); ok {
					s.text, s.tokens = cut, s.tokens[:len(s.tokens)-1]
				}
			}
		}
	}
	return s
}

func (c *fakeCall) head(object, prefix string) map[string]any {
	id := ""
	if c.uniqueIDs {
		id = fmt.Sprintf("%s%08d", prefix, c.ids.Add(1))
	}
	return map[string]any{"object": object, "id": id, "created": now(), "model": c.model,
		"system_fingerprint": c.finger()}
}

func with(m map[string]any, name string, v any) map[string]any {
	out := map[string]any{name: v}
	for k, old := range m {
		if k != name {
			out[k] = old
		}
	}
	return out
}

func usageOf(prompt, completion int) map[string]any {
	return map[string]any{"prompt_tokens": prompt, "completion_tokens": completion, "total_tokens": prompt + completion}
}

func (c *fakeCall) chatLogprobs(tokens []map[string]any) any {
	if c.body["logprobs"] != true {
		return nil
	}
	list := []any{}
	one := func(t map[string]any) map[string]any {
		m := map[string]any{"token": t["text"], "logprob": t["logprob"]}
		if c.this {
			m["bytes"] = []int{1}
		}
		return m
	}
	for _, t := range tokens {
		top := []any{}
		for _, o := range tops(t) {
			top = append(top, one(o))
		}
		list = append(list, with(one(t), "top_logprobs", top))
	}
	return map[string]any{"content": list}
}

// refusedOpenAI refuses what both routes refuse.
func (c *fakeCall) refusedOpenAI(prompt string, a *ask) bool {
	text := ""
	top := (value{c.body, true}).at("top_p")
	switch {
	case top.there && top.number() >= 1 && !c.this:
		text = validation + "`top_p` must be > 0.0 and < 1.0"
	case a.most == 0:
		text = validation + c.form.lengthZero()
	}
	switch {
	case text == "":
		return false
	case c.body["stream"] == true && !c.eagerErrors:
		send := c.events()
		if c.eventErrorObject {
			send(map[string]any{"error": map[string]any{"message": text, "http_status_code": 422}})
		} else {
			send(map[string]any{"error": text, "error_type": "validation"})
		}
		send(done)
	default:
		c.refuse(422, "validation", text)
	}
	return true
}

func (c *fakeCall) chat() {
	v := value{c.body, true}
	if !v.at("messages").there {
		c.shape("missing field `messages`")
		return
	}
	text := rendered(c.body, c.deaf)
	if text == "" {
		c.refuse(422, "template_error", "Template error: no messages")
		return
	}
	tool, refused := c.tooled()
	if refused {
		return
	}
	a := c.settings(split(text))
	if c.refusedOpenAI(text, a) {
		return
	}
	n := 1
	if m := v.at("n"); m.isNumber() {
		n = int(m.number())
	}
	prefix := "chatcmpl-"
	head := c.head("chat.completion", prefix)
	if m := v.at("model").text(); c.echoModel && m != "" && m != "tgi" && m != "dummy" {
		head["model"] = m
	}
	if c.body["stream"] == true {
		c.chatStream(with(head, "object", "chat.completion.chunk"), a, n, tool)
		return
	}
	choices, total := []any{}, 0
	for i := range n {
		one := *a
		one.seed += uint64(i)
		s := c.speak(&one)
		total += len(s.tokens)
		message := map[string]any{"role": "assistant", "content": s.text}
		if tool != "" {
			message, s.reason = c.toolMessage(tool), c.finishTools
		}
		choices = append(choices, map[string]any{"index": i, "message": message, "logprobs": c.chatLogprobs(s.tokens),
			"finish_reason": s.reason})
	}
	c.costs(text, len(a.prompt), total)
	c.json(200, with(with(head, "choices", choices), "usage", usageOf(len(a.prompt), total)))
}

func (c *fakeCall) chatStream(head map[string]any, a *ask, n int, tool string) {
	send := c.events()
	usage := (value{c.body, true}).at("stream_options", "include_usage").isTrue() && c.usageChunk
	chunk := func(i int, delta map[string]any, logprobs, reason any) {
		e := with(head, "choices", []any{map[string]any{"index": i, "delta": delta, "logprobs": logprobs,
			"finish_reason": reason}})
		if usage || c.usageAlways {
			e["usage"] = nil
		}
		send(e)
	}
	total := 0
	for i := range n {
		one := *a
		one.seed += uint64(i)
		s := c.speak(&one)
		total += len(s.tokens)
		if c.roleFirst {
			chunk(i, map[string]any{"role": "assistant", "content": ""}, nil, nil)
		}
		if tool != "" {
			s.tokens, s.reason = nil, c.finishTools
			for _, d := range c.toolDeltas(tool) {
				chunk(i, d, nil, nil)
			}
			if !c.roleFirst {
				chunk(i, map[string]any{"role": "assistant", "content": ""}, nil, s.reason)
			}
		}
		for j, t := range s.tokens {
			content, reason := t["text"], any(nil)
			if t["special"] == true {
				content = ""
			}
			delta := map[string]any{"content": content}
			if !c.roleFirst {
				delta["role"] = "assistant"
				if j == len(s.tokens)-1 {
					reason = s.reason
				}
			}
			chunk(i, delta, c.chatLogprobs(s.tokens[j:j+1]), reason)
		}
		if c.roleFirst {
			chunk(i, map[string]any{}, nil, s.reason)
		}
	}
	if usage {
		send(with(with(head, "choices", []any{}), "usage", usageOf(len(a.prompt), total)))
	}
	send(done)
}

func (c *fakeCall) complete() {
	v := value{c.body, true}
	var prompts []string
	switch p := v.at("prompt"); {
	case p.isText():
		prompts = []string{p.text()}
	case len(p.list()) == 0:
		c.shape("Empty array detected. Do not use an empty array for the prompt.")
		return
	case p.at(0).isNumber():
		text := ""
		for _, id := range p.list() {
			s, _ := spelled.Load(int(id.number()))
			text += s.(string)
		}
		prompts = []string{text}
	default:
		for _, one := range p.list() {
			prompts = append(prompts, one.text())
		}
	}
	switch {
	case v.at("suffix").isText():
		c.refuse(422, "suffix not supported",
			"Suffix is not supported and can be achieved by preprocessing the prompt.")
		return
	case len(prompts) > 4:
		c.refuse(422, "batch size exceeded", "Number of prompts exceeds the maximum allowed batch size of 4")
		return
	}
	head := c.head("text_completion", "cmpl-")
	if c.refusedOpenAI(prompts[0], c.settings(split(prompts[0]))) {
		return
	}
	if c.body["stream"] == true {
		c.completeStream(head, prompts)
		return
	}
	choices, in, out := []any{}, 0, 0
	for i, prompt := range prompts {
		a := c.settings(split(prompt))
		s := c.speak(a)
		in, out = in+len(a.prompt), out+len(s.tokens)
		var columns any
		if v.at("logprobs").isNumber() {
			names, probs, tops, at, offsets := []any{}, []any{}, []any{}, 0, []int{}
			for _, t := range s.tokens {
				names, probs, tops = append(names, t["text"]), append(probs, t["logprob"]),
					append(tops, map[string]any{})
				offsets = append(offsets, at)
				at += len([]rune(t["text"].(string)))
			}
			columns = map[string]any{"tokens": names, "token_logprobs": probs, "top_logprobs": tops,
				"text_offset": offsets}
		}
		text := s.text
		if c.body["echo"] == true {
			text = prompt + text
		}
		choices = append(choices, map[string]any{"index": i, "text": text, "logprobs": columns,
			"finish_reason": s.reason})
	}
	c.costs(prompts[0], in, out)
	c.json(200, with(with(head, "choices", choices), "usage", usageOf(in, out)))
}

func (c *fakeCall) completeStream(head map[string]any, prompts []string) {
	send := c.events()
	usage := (value{c.body, true}).at("stream_options", "include_usage").isTrue()
	var open any
	if c.emptyReason {
		open = ""
	}
	in, out := 0, 0
	for i, prompt := range prompts {
		a := c.settings(split(prompt))
		s := c.speak(a)
		in, out = in+len(a.prompt), out+len(s.tokens)
		for j, t := range s.tokens {
			last := j == len(s.tokens)-1 && !c.this
			reason := open
			if last && c.completionEnd {
				reason = s.reason
			}
			e := with(head, "choices", []any{map[string]any{"index": i, "text": t["text"], "logprobs": nil,
				"finish_reason": reason}})
			if last && c.completionEnd {
				e["usage"] = usageOf(len(a.prompt), len(s.tokens))
			}
			if c.this && usage && c.usageChunk {
				e["usage"] = nil
			}
			send(e)
		}
		if c.this && c.completionEnd {
			e := with(head, "choices", []any{map[string]any{"index": i, "text": "", "logprobs": nil,
				"finish_reason": s.reason}})
			if usage {
				e["usage"] = nil
			}
			send(e)
		}
	}
	if c.this && usage && c.usageChunk {
		send(with(with(head, "choices", []any{}), "usage", usageOf(in, out)))
	}
	send(done)
}
