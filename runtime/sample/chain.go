package sample

import (
	"tgi/runtime/llm"
)

// Chain turns the logits of one sequence into its next token, step after step.
//
// One Chain serves one sequence and outlives its preemptions. PrepareMask and
// Pick are not called concurrently; chains of different sequences share nothing.
type Chain struct {
	p     llm.Params
	vocab int
	plug  Plugins
}

// Pick is the outcome of one step.
type Pick struct {
	// Token is the picked token.
	Token llm.Token
	// Logprob is its log-probability: of the processed distribution, or of the
	// model's own when RawLogprobs is set.
	Logprob float32
	// Top holds the likeliest tokens of the same distribution when TopN asks for
	// them, best first. It is a view that ends with the next Pick: copy what is kept.
	Top []Candidate
}

// New returns the chain of one sequence over a vocabulary of vocab tokens.
func New(p llm.Params, vocab int, plug Plugins) (*Chain, error) {
	return &Chain{p: p, vocab: vocab, plug: plug}, nil
}

// PrepareMask computes the mask of the coming Pick. It needs no logits, so it
// may run while the forward pass does. Pick calls it where the caller has not.
func (c *Chain) PrepareMask() error { return nil }

// Pick picks the next token from logits [vocab], which it overwrites.
func (c *Chain) Pick(h History, logits []float32) (Pick, error) {
	return Pick{}, nil
}

// PromptLogprob returns the log-probability that the raw logits [vocab] give to next.
func PromptLogprob(logits []float32, next llm.Token) float32 { return 0 }
