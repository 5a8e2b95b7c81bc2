package generate

import (
	"time"

	"tgi/runtime/llm"
)

// Request is a Draft that passed every check: no field is optional and nothing
// downstream checks again.
type Request struct {
	// Prompt is what the model reads, at least one token unless the tokenizer
	// made none of a non-empty text.
	Prompt []llm.Token
	// Params hold for each sequence.
	Params llm.Params
	// Sequences is how many are generated from the prompt.
	Sequences int
	// Checked is how long checking and tokenizing took.
	Checked time.Duration
}
