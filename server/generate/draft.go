package generate

import (
	"cmp"

	"tgi/runtime/llm"
)

// Rules says which API defines the meaning and bounds of a Draft's settings.
type Rules uint8

const (
	// TGI's: a temperature must be positive and top_p below 1, one of the settings
	// that shape the distribution must be given for a draw, log-probabilities are
	// those of the processed distribution.
	TGI Rules = iota
	// OpenAI's: tokens are drawn unless the temperature or top_p is 0, penalties
	// count the output alone, log-probabilities are the model's own.
	OpenAI
)

// Draft is a request as a client wrote it: nil means "not given". Dialects fill
// it from their own wire types; Service.Start turns it into a Request.
type Draft struct {
	// Rules say what the settings below mean.
	Rules Rules
	// Inputs is the prompt.
	Inputs string
	// Conversation, when not nil, is rendered to be the prompt, and the replies
	// are parsed.
	Conversation *Conversation
	// Tokens, when not nil, are the prompt as they are.
	Tokens []llm.Token
	// RawPrompt leaves out the special tokens that the tokenizer would add,
	// for prompts that a chat template rendered.
	RawPrompt bool
	// Data are the parts of the Inputs of a RawPrompt in which no special token is
	// recognised.
	Data []Span
	// Before are tokens that the prompt follows: those of a text that it goes on from.
	Before []llm.Token
	// Stream says that the reply is read token by token.
	Stream bool

	// BestOf is how many sequences compete.
	BestOf *uint64
	// N is how many sequences are wanted, all of them: none competes. Where BestOf
	// is larger, the caller picks. Only OpenAI's rules know it.
	N *uint64
	// NumBeams is how many sequences a beam search follows at once; nil and 1 do not
	// search. N of them are wanted, the best first, and none streams before the
	// search is over.
	NumBeams *uint64
	// BeamsField is the name of the field that NumBeams comes from, as use_beam_search wants it; empty for num_beams.
	BeamsField string
	// LengthPenalty is the exponent on the length by which a beam search divides
	// scores; nil is 1.
	LengthPenalty *float32
	// EarlyStopping says when a beam search is content with what it has.
	EarlyStopping llm.EarlyStopping
	// DoSample draws instead of taking the best token.
	DoSample bool
	// Temperature, TopK, TopP, TypicalP and MinP shape the distribution.
	Temperature *float32
	TopK        *int32
	TopP        *float32
	TypicalP    *float32
	MinP        *float32
	// RepetitionPenalty, FrequencyPenalty and PresencePenalty push tokens away
	// that were seen before.
	RepetitionPenalty *float32
	FrequencyPenalty  *float32
	PresencePenalty   *float32
	// LogitBias maps tokens to addends for their logits.
	LogitBias map[uint32]float32
	// Watermark marks the text as generated.
	Watermark bool
	// Seed drives the draws. BestOfSeed does where sequences of BestOf compete, for which TGI has no seed.
	Seed, BestOfSeed *uint64

	// MaxNewTokens ends a sequence; nil is the rest of the context.
	MaxNewTokens *uint32
	// Clip makes MaxNewTokens a bound alone: where the context has less room, the text ends with the context.
	Clip bool
	// LengthField is the name of the field that MaxNewTokens comes from; empty for max_new_tokens, TGI's name on all of
	// its routes. TopField is that of TopNTokens under OpenAI's rules; empty for top_logprobs. EchoField is that of
	// PromptLogprobs; empty for decoder_input_details.
	LengthField, TopField, EchoField string
	// Tier and Priority say how urgent the request is: less goes before the others of its client that wait.
	Tier     Tier
	Priority int

	// Stop strings end a sequence.
	Stop []string
	// IgnoreEOS keeps a sequence running past the model's own end.
	IgnoreEOS bool
	// Truncate keeps the last tokens of the prompt.
	Truncate *uint64

	// TopNTokens asks for the likeliest tokens of each step.
	TopNTokens *uint32
	// PromptLogprobs asks for the log-probabilities of the prompt's tokens, and
	// PromptTop for the TopNTokens likeliest in the place of each.
	PromptLogprobs, PromptTop bool
	// Grammar, when not nil, holds every text to it.
	Grammar *Grammar
	// Heal lets the last token of the prompt be another, longer one: the text goes on within it.
	Heal *bool
	// Prediction is a text that the outputs are expected to be, or much of it; nil is none. It makes them faster where
	// that is right, and changes none.
	Prediction *string
	// Guidance weighs the prompt against a second one.
	Guidance Guidance
	// Plugins are the user code that the request asks for, in order.
	Plugins []PluginCall
	// Receipt asks for the reply's receipt, as Explain does.
	Receipt bool
	// Explain, when not nil, asks how the tokens came to be.
	Explain *Explain
	// Unknown are members of the request that mean nothing here.
	Unknown []string
	// Adapter names a fine-tuned variant of the model.
	Adapter *string
}

// searchField is the field by which the client asks for a beam search, and words say what it has then.
func (d *Draft) searchField() (field, words string) {
	if d.BeamsField != "" {
		return "use_beam_search", "`use_beam_search`"
	}
	return "num_beams", "`num_beams` > 1"
}

// echoField is the client's name for PromptLogprobs.
func (d *Draft) echoField() string { return cmp.Or(d.EchoField, "decoder_input_details") }
