package openai

import (
	"strconv"
	"unicode/utf8"

	"tgi/server/api/deltas"
	"tgi/server/generate"
	"tgi/server/wire"
)

// usage counts the tokens of a reply.
type usage struct {
	prompt, images, cached, completion int

	counts generate.Counts
}

// append writes the object.
func (u usage) append(b []byte) []byte {
	b = wire.AppendInt(append(b, '{'), "prompt_tokens", u.prompt)
	b = wire.AppendInt(append(b, ','), "completion_tokens", u.completion)
	b = wire.AppendInt(append(b, ','), "total_tokens", u.prompt+u.completion)
	b = wire.AppendInt(append(b, `,"prompt_tokens_details":{`...), "cached_tokens", u.cached)
	if u.images > 0 {
		b = wire.AppendInt(append(b, ','), "image_tokens", u.images)
	}
	b = append(b, '}')
	if list := u.counts.Append(nil); len(list) > 0 {
		b = append(append(append(b, `,"completion_tokens_details":{`...), list[1:]...), '}')
	}
	return append(b, '}')
}

// appendHead writes the fields that replies and chunks begin with, up to the
// bracket of choices.
func (a *API) appendHead(b []byte, c *call, object string) []byte {
	b = wire.AppendString(append(b, `{"object":`...), object)
	b = wire.AppendString(append(b, `,"id":`...), c.id)
	b = strconv.AppendInt(append(b, `,"created":`...), c.created, 10)
	b = wire.AppendString(append(b, `,"model":`...), c.modelName())
	b = wire.AppendString(append(b, `,"system_fingerprint":`...), a.options.Version+"-native")
	if t := c.tier; t != "" {
		b = wire.AppendString(append(b, `,"service_tier":`...), string(t))
	}
	return append(b, `,"choices":[`...)
}

// appendExplained writes the member explain of a choice, unless nothing is explained that was not told yet.
func appendExplained(b []byte, one *choice) []byte {
	list := one.Explained()
	if len(list) == 0 {
		return b
	}
	return generate.AppendExplanations(append(b, `,"explain":`...), list)
}

// appendReceipts writes the member receipts, one for each prompt, of a call that wants to have things explained.
func (r *runs) appendReceipts(b []byte) []byte {
	n := 0
	for _, run := range r.list {
		if of := run.Receipt(); of != nil {
			if n == 0 {
				b = append(b, `,"receipts":[`...)
			}
			b = generate.AppendReceipt(wire.Comma(b, n), of)
			n++
		}
	}
	if n > 0 {
		b = append(b, ']')
	}
	return b
}

// appendLogprobs writes logprobs of either form; null when the call has none or
// there is nothing to tell.
func (c *call) appendLogprobs(b []byte, echoed []generate.PromptToken, tokens []deltas.Scored) []byte {
	switch {
	case !c.shown.Logprobs || len(echoed)+len(tokens) == 0:
		return append(b, "null"...)
	case c.form.chat:
		b = deltas.AppendLogprobs(append(b, `{"content":`...), tokens, c.top,
			func(t generate.Token) ([]byte, bool) { return c.tokenBytes(t.Token) })
		return append(b, '}')
	}
	return c.appendColumns(b, echoed, tokens)
}

// appendColumns writes the logprobs of completions: a list per property. Nothing
// precedes the first token of what was echoed: it has null for both.
func (c *call) appendColumns(b []byte, echoed []generate.PromptToken, tokens []deltas.Scored) []byte {
	b = append(b, `{"tokens":[`...)
	for i := range echoed {
		t := promptToken(&echoed[i])
		b = wire.AppendString(wire.Comma(b, i), c.text(&t))
	}
	for i := range tokens {
		b = wire.AppendString(wire.Comma(b, i+len(echoed)), c.text(&tokens[i].Token))
	}
	b = append(b, `],"token_logprobs":[`...)
	for i, t := range echoed {
		if b = wire.Comma(b, i); i == 0 {
			b = append(b, "null"...)
			continue
		}
		b = deltas.AppendLogprob(b, t.Logprob)
	}
	for i := range tokens {
		b = deltas.AppendLogprob(wire.Comma(b, i+len(echoed)), tokens[i].Logprob)
	}
	if b = append(b, `],"top_logprobs":`...); c.top == 0 {
		b = append(b, "null"...)
	} else {
		b = append(b, '[')
		for i, t := range echoed {
			if b = wire.Comma(b, i); i == 0 {
				b = append(b, "null"...)
				continue
			}
			b = c.appendTop(b, t.Top, promptToken(&t))
		}
		for i := range tokens {
			b = c.appendTop(wire.Comma(b, i+len(echoed)), tokens[i].Best(c.top), tokens[i].Token)
		}
		b = append(b, ']')
	}
	b = append(b, `,"text_offset":[`...)
	b = c.appendOffsets(b, echoed)
	for i := range tokens {
		b = strconv.AppendInt(wire.Comma(b, i+len(echoed)), int64(tokens[i].Offset), 10)
	}
	return append(b, `]}`...)
}

// appendOffsets writes where the tokens of a prompt begin, in characters. A token
// that begins inside a character begins where that does.
func (c *call) appendOffsets(b []byte, echoed []generate.PromptToken) []byte {
	chars := 0
	for i := range echoed {
		text, at := c.part(&echoed[i]), chars
		for j := range len(text) {
			if utf8.RuneStart(text[j]) {
				chars++
			} else if j == 0 && at > 0 {
				at--
			}
		}
		b = strconv.AppendInt(wire.Comma(b, i), int64(at), 10)
	}
	return b
}

// promptToken is a token of the prompt like one that was generated.
func promptToken(t *generate.PromptToken) generate.Token {
	return generate.Token{Token: t.Token, Text: t.Text, Logprob: t.Logprob}
}

// appendTop writes the likeliest tokens and the one that stands there, by their
// texts; of several with one text the likeliest counts.
func (c *call) appendTop(b []byte, top []generate.Token, taken generate.Token) []byte {
	b = append(b, '{')
	seen := map[string]bool{}
	for _, t := range append(top[:len(top):len(top)], taken) {
		text := c.text(&t)
		if seen[text] {
			continue
		}
		b = wire.AppendString(wire.Comma(b, len(seen)), text)
		b = deltas.AppendLogprob(append(b, ':'), t.Logprob)
		seen[text] = true
	}
	return append(b, '}')
}

// text is a token as logprobs spell it.
func (c *call) text(t *generate.Token) string {
	if raw, ok := c.tokenBytes(t.Token); ok && !t.Replaced {
		return deltas.Spell(raw)
	}
	return t.Text
}
