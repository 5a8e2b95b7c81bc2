package openai

import (
	"strings"
	"unicode/utf8"

	"tgi/server/generate"
)

// echo returns the prompt as a reply repeats it, and how many characters before
// the generated text that is; none unless the call asks for it. A prompt of
// tokens is the texts of those, in which a character that is spread over several
// is lost.
func echo(c *call, inputs string, prefill []generate.PromptToken) (text string, chars int) {
	if !c.echo {
		return "", 0
	}
	if text = inputs; text == "" {
		var b strings.Builder
		for _, t := range prefill {
			b.WriteString(t.Text)
		}
		text = b.String()
	}
	return text, utf8.RuneCountInString(text)
}
