package openai

import (
	"strings"
	"unicode/utf8"

	"tgi/server/generate"
)

// echoed returns the prompt as a reply repeats it, and how many characters before
// the generated text that is; none unless the call asks for it. A prompt of
// tokens is the texts of those.
func (c *call) echoed(inputs string, prefill []generate.PromptToken) (text string, chars int) {
	if !c.shown.Echo {
		return "", 0
	}
	if text = inputs; text == "" {
		var b strings.Builder
		for i := range prefill {
			b.WriteString(c.part(&prefill[i]))
		}
		text = strings.ToValidUTF8(b.String(), "\ufffd")
	}
	return text, utf8.RuneCountInString(text)
}

// part is what a token of a prompt is in the prompt's text, perhaps a part of a
// character.
func (c *call) part(t *generate.PromptToken) string {
	if raw, ok := c.tokenBytes(t.Token); ok && !utf8.Valid(raw) {
		return string(raw)
	}
	return t.Text
}
