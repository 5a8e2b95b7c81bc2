// Package llm declares the plain types that cross the borders between the runtime, the
// plugins and the server, each once. It imports nothing of the module, starts no
// goroutines and has no state: every package may import it.
//
// The reasons behind it: docs/rationale/architecture.md.
package llm

import (
	"errors"
	"fmt"
)

// Token is an id of the model's vocabulary. It is an alias, so that tokenizers and
// guests' arrays can use []uint32.
type Token = uint32

// Reason is why a sequence ended.
type Reason uint8

// Reasons, in the order in which they are tested after each token: the length limit,
// the end-of-sequence token, the stop strings.
const (
	// FinishNone: the sequence has not ended.
	FinishNone Reason = iota
	// FinishLength: MaxNewTokens were generated.
	FinishLength
	// FinishEOS: the model produced an end-of-sequence token.
	FinishEOS
	// FinishStop: the text contains one of the request's stop strings.
	FinishStop
	// FinishGuard: a guard ended the sequence.
	FinishGuard
)

// String returns TGI's wire name of the reason; it is empty for FinishNone.
func (r Reason) String() string {
	switch r {
	case FinishLength:
		return "length"
	case FinishEOS:
		return "eos_token"
	case FinishStop, FinishGuard: // TGI knows no other
		return "stop_sequence"
	}
	return ""
}

// Finish describes how one sequence ended.
type Finish struct {
	Reason Reason
	// Stop is the stop string that matched, empty unless Reason is FinishStop.
	Stop string
	// StoppedBy names the processor that ended the sequence, with Reason FinishEOS, or the guard, with FinishGuard;
	// empty if none did.
	StoppedBy string
	// Why is what a guard says of the end, with Reason FinishGuard.
	Why string
	// Text is the generated text without special tokens. If a stop string matched,
	// Text ends with it; to hide it, cut StopBytes bytes.
	Text string
	// StopBytes counts the bytes at the end of Text that belong to the stop string:
	// fewer than len(Stop) if a special token's text, which is not in Text, matched
	// part of it.
	StopBytes int
	// Generated counts the sampled tokens, the end-of-sequence token included.
	Generated int
	// Prompt counts the tokens of the prompt.
	Prompt int
	// Cached counts the prompt tokens that the prefix cache held.
	Cached int
	// AcceptedPrediction and RejectedPrediction count the tokens of the request's prediction that steps computed ahead
	// of time, and that turned out right or wrong.
	AcceptedPrediction, RejectedPrediction int
	// Rewound and Replaced count the tokens that guards took back, and those that they gave other text for.
	Rewound, Replaced int
	// Seed is the seed that drew the tokens; meaningless when greedy.
	Seed uint64
	// Score is the beam search's score of the sequence: the sum of its tokens' scores
	// divided by their number to the power of LengthPenalty. It is 0 without beams.
	Score float32
}

// Bias is an addend for one token's logit.
type Bias struct {
	Token Token
	Add   float32
}

// Params are the settings of one request after validation: every field has its value,
// no field means "unset", and nothing downstream validates them again.
type Params struct {
	// Sample draws from the distribution; otherwise the best token is taken.
	Sample bool
	// Seed drives the request's own generator.
	Seed uint64
	// Temperature divides the logits; > 0, 1 is off.
	Temperature float32
	// TopK keeps the k best logits, ties at the k-th kept; 0 is off.
	TopK int
	// TopP keeps the smallest set of tokens whose mass reaches p; 1 is off.
	TopP float32
	// TypicalP keeps the tokens nearest the distribution's entropy until their mass reaches p; 1 is off.
	TypicalP float32
	// MinP keeps tokens at least MinP times as likely as the best; 0 is off.
	MinP float32
	// RepetitionPenalty divides positive and multiplies negative logits of tokens seen in prompt or output; 1 is off.
	RepetitionPenalty float32
	// FrequencyPenalty is TGI's: penalty times count over prompt and output, divided by their length; 0 is off.
	FrequencyPenalty float32
	// PresencePenalty is OpenAI's: subtracted once for each token that the output holds; 0 is off.
	PresencePenalty float32
	// LogitBias is added to the raw logits.
	LogitBias []Bias
	// Watermark adds WatermarkDelta to a pseudo-random green list of WatermarkGamma of the vocabulary, keyed by the
	// previous token.
	Watermark      bool
	WatermarkGamma float32
	WatermarkDelta float32
	// NumBeams asks for a beam search like that of Python's transformers (generate
	// with num_beams, 5.23) with that many beams. 0 and 1 turn it off; the three
	// fields below are then ignored. With Sample each step draws the continuations,
	// otherwise it takes the best. Temperature, top-k and the other warpers apply
	// only with Sample.
	NumBeams int
	// LengthPenalty is an exponent: the (negative) sum of a sequence's
	// log-probabilities is divided by its number of generated tokens to this power.
	// Values above 0 favour long sequences, below 0 short ones; 1 ranks by the mean
	// and is transformers' default. It must be finite.
	LengthPenalty float32
	// EarlyStopping decides when NumBeams finished sequences end the search.
	EarlyStopping EarlyStopping
	// NumReturn is how many of the best sequences are returned, best first; at most
	// NumBeams. 0 means 1.
	NumReturn int
	// MaxNewTokens ends the sequence; >= 1.
	MaxNewTokens int
	// Stop strings end the sequence wherever they appear in the generated text.
	Stop []string
	// IgnoreEOS lets the sequence run on after an end-of-sequence token (benchmarks).
	IgnoreEOS bool
	// TopN asks for the n likeliest tokens at each step, ties at the n-th included; 0 is off.
	TopN int
	// PromptLogprobs asks for the log-probability of each prompt token.
	PromptLogprobs bool
	// PromptTopN asks, with PromptLogprobs, for the n likeliest tokens at each prompt
	// position but the first, without further ties; 0 is off.
	PromptTopN int
	// Explain asks how tokens came to be; a beam search tells nothing.
	Explain Explain
	// RawLogprobs reports log-probabilities of the model's own distribution
	// (OpenAI's meaning) instead of the processed one (TGI's).
	RawLogprobs bool
}

// SeedFor returns the seed of the i-th sequence of a request: the request's own seed
// for i = 0, otherwise the i-th output of SplitMix64 (Steele et al. 2014) from it, so
// that the sequences of one request are independent and reproducible.
func SeedFor(seed uint64, i int) uint64 {
	if i == 0 {
		return seed
	}
	z := seed + uint64(i)*0x9e3779b97f4a7c15
	z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9
	z = (z ^ (z >> 27)) * 0x94d049bb133111eb
	return z ^ (z >> 31)
}

// Step is one forward pass, as a backend receives it: the tokens of all rows,
// concatenated. A decode row has one token, a prefill chunk has many.
//
// With T tokens and B rows, row b owns Tokens[CuSeqlens[b]:CuSeqlens[b+1]], at
// positions PastLens[b], PastLens[b]+1, … of its sequence. T and B are at least 1. A
// backend must not keep any of the slices.
type Step struct {
	// Tokens [T].
	Tokens []Token
	// CuSeqlens [B+1] starts with 0 and ends with T.
	CuSeqlens []int32
	// PastLens [B]: tokens of the row already in the cache.
	PastLens []int32
	// BlockTable [B*MaxBlocks], row-major: the cache blocks of each row in order of
	// position, padded with -1.
	BlockTable []int32
	// MaxBlocks is the width of BlockTable.
	MaxBlocks int
	// SlotMapping [T]: the slot of each token's key and value, block*BlockSize+offset;
	// -1 means that they are not written.
	SlotMapping []int32
	// LogitRows [n]: indices into Tokens whose logits are wanted, ascending; n may be 0.
	LogitRows []int32
	// Adapters [B]: the low-rank adapter of each row. Empty: no row has one.
	Adapters []Adapter
	// Embeddings replace what the model's table gives for some tokens. Their At is the index of the first one in
	// Tokens; they are in ascending order and do not overlap.
	Embeddings []Embedding
	// Places [3*T] are the positions of each token in time, height and width, for models that have such. Empty: all
	// three are the token's position in its sequence.
	Places []int32
	// KeyEnds [T] is, for each token, the position behind the last key of its row that it sees, ascending within a row
	// and not beyond it: for tokens of a run whose tokens see each other that of the run's last. Empty: each sees the
	// keys up to its own.
	KeyEnds []int32
	// Long [B] says which rows are of sequences longer than the model's original context, for models that rotate all
	// tokens of those otherwise. Empty: none is.
	Long []bool
}

// Embedding is a run of tokens whose vectors the model's table does not give, such as the tokens of an image. In a
// prompt each token of the run is a token of the vocabulary too, which penalties and user code see.
type Embedding struct {
	// At is the index of the first token of the run, N is how many tokens it has; >= 1.
	At, N int
	// Vectors [N*width], row-major; width is that of the model's residual stream. They must not change.
	Vectors []float32
	// Sum identifies the vectors: equal sums, equal vectors.
	Sum [32]byte
	// Columns, if not 0, says that the run is a picture in lines of so many tokens, which the model wants to know: see
	// AppendPlaces. It divides N.
	Columns int
	// Mutual says that the tokens of the run see each other, also those behind them, so that one step computes all of
	// them. A prompt does not end with such a run.
	Mutual bool
}

// End returns the index after the run's last token.
func (e Embedding) End() int { return e.At + e.N }

// Cut returns the part of the run that lies within tokens from to to; its N is 0 if there is none. Sum is that of the
// whole run, Columns is 0.
func (e Embedding) Cut(from, to int) Embedding {
	from, to = max(from, e.At), min(to, e.End())
	if from >= to {
		return Embedding{}
	}
	width := len(e.Vectors) / e.N
	return Embedding{At: from, N: to - from, Sum: e.Sum, // without Columns: it may begin and end within a line
		Mutual: e.Mutual, Vectors: e.Vectors[(from-e.At)*width : (to-e.At)*width : (to-e.At)*width]}
}

// Adapter is the number of a low-rank adapter (LoRA) that a backend holds.
type Adapter int32

// NoAdapter is the model without an adapter.
const NoAdapter Adapter = 0

// Rows returns B.
func (s *Step) Rows() int { return len(s.PastLens) }

// BlockCopy asks a backend to copy one whole cache block, all layers.
type BlockCopy struct{ Dst, Src int32 }

// Errors of admission: the request was refused and nothing runs for it.
var (
	// ErrOverloaded: the queue is full.
	ErrOverloaded = errors.New("model is overloaded")
	// ErrDraining: the server is shutting down.
	ErrDraining = errors.New("server is draining")
	// ErrTooLong: the request can never fit the model or the cache.
	ErrTooLong = errors.New("request exceeds the model's capacity")
	// ErrInvalid: the request's settings are out of bounds.
	ErrInvalid = errors.New("invalid request")
)

// Errors of generation: they end a running sequence.
var (
	// ErrBackend: the model's forward pass failed.
	ErrBackend = errors.New("forward pass failed")
	// ErrLost is an ErrBackend after which none will work until the process is restarted.
	ErrLost = fmt.Errorf("%w for good", ErrBackend)
	// ErrPlugin: a processor, masker or sampler of the sequence failed.
	ErrPlugin = errors.New("plugin failed")
	// ErrDeadEnd: a processor forbids all tokens that were left to it, which others had made fewer: none of them
	// failed.
	ErrDeadEnd = errors.New("no token is left that is allowed")
	// ErrClosed: the engine was closed.
	ErrClosed = errors.New("engine closed")
)
