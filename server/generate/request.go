package generate

import (
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Request is a Draft that passed every check: no field is optional and nothing
// downstream checks again.
type Request struct {
	// Prompt is what the model reads, at least one token unless the tokenizer
	// made none of a non-empty text.
	Prompt []llm.Token
	// ImageTokens are those of Prompt that images take the place of.
	ImageTokens int
	// Inputs is the text that Prompt was made from, rendered if it had to be, before images took their places in it;
	// empty for a prompt of tokens.
	Inputs string
	// Params hold for each sequence.
	Params llm.Params
	// CountPenalty is subtracted from a token's logit once for each time that the
	// output holds it: OpenAI's frequency penalty, where Params has TGI's. 0 is off.
	CountPenalty float32
	// Sequences is how many are generated from the prompt.
	Sequences int
	// healed is the last token of the client's prompt where that was taken back, and nil where it was not.
	healed *engine.Healed
	// prediction is the tokens of Draft.Prediction.
	prediction []llm.Token
	// Guidance is the kind of guidance that there is, "" for none. twins has the second prompt, mix the weights.
	Guidance string
	twins    [][]llm.Token
	mix      sample.Mix
	size
	// pictures take the place of image tokens of Prompt.
	pictures pictures
	// Checked is how long checking and tokenizing took.
	Checked time.Duration
}
