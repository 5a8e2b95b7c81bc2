package sample

import "tgi/runtime/llm"

// tokenCounts counts the tokens of a sequence. It reads only what is new since the
// last look, so a step costs its distinct tokens, not its length.
type tokenCounts struct {
	index  map[llm.Token]int
	counts []count // in order of first appearance
	prompt int     // tokens of the prompt counted
	output int     // tokens of the output counted
}

type count struct {
	token         llm.Token
	total, output int32 // total counts prompt and output
}

// update counts what is new in h. If h is another or a shorter sequence than last time, it
// starts over.
func (t *tokenCounts) update(h History) {
	if t.index == nil || len(h.Prompt) != t.prompt || len(h.Output) < t.output {
		*t = tokenCounts{index: make(map[llm.Token]int, len(h.Prompt)), counts: t.counts[:0]}
		for _, id := range h.Prompt {
			t.entry(id).total++
		}
		t.prompt = len(h.Prompt)
	}
	for _, id := range h.Output[t.output:] {
		c := t.entry(id)
		c.total++
		c.output++
	}
	t.output = len(h.Output)
}

func (t *tokenCounts) entry(id llm.Token) *count {
	i, ok := t.index[id]
	if !ok {
		i = len(t.counts)
		t.index[id] = i
		t.counts = append(t.counts, count{token: id})
	}
	return &t.counts[i]
}

// bias implements Processor: it adds a fixed amount to some logits.
type bias []llm.Bias

func (b bias) Process(_ History, s *Step) error {
	logits := s.Logits
	for _, e := range b {
		logits[e.Token] += e.Add
	}
	return nil
}

// repetition implements Processor: tokens of prompt and output get their logit
// divided by the penalty where it is positive, multiplied where it is negative
// (Keskar et al. 2019, CTRL).
type repetition struct {
	seen    *tokenCounts
	penalty float32
}

func (p repetition) Process(h History, s *Step) error {
	logits := s.Logits
	p.seen.update(h)
	for _, c := range p.seen.counts {
		if int64(c.token) >= int64(len(logits)) {
			continue
		}
		if v := logits[c.token]; v < 0 {
			logits[c.token] = v * p.penalty
		} else {
			logits[c.token] = v / p.penalty
		}
	}
	return nil
}

// frequency implements Processor as TGI's batched version does: the penalty is
// weighed with the share of the token in prompt and output, not with its count.
type frequency struct {
	seen    *tokenCounts
	penalty float32
}

func (p frequency) Process(h History, s *Step) error {
	logits := s.Logits
	p.seen.update(h)
	length := float32(len(h.Prompt) + len(h.Output))
	for _, c := range p.seen.counts {
		if int64(c.token) < int64(len(logits)) {
			logits[c.token] -= p.amount(c, length)
		}
	}
	return nil
}

// amount is what a token loses in a sequence of the given length. The conversion keeps the product from being fused
// with the subtraction, so that it is the same wherever it is subtracted.
func (p frequency) amount(c count, length float32) float32 {
	return float32(float32(c.total) / length * p.penalty)
}

// presence implements Processor as OpenAI documents it: one subtraction for
// each token that the output holds, however often.
type presence struct {
	seen    *tokenCounts
	penalty float32
}

func (p presence) Process(h History, s *Step) error {
	logits := s.Logits
	p.seen.update(h)
	for _, c := range p.seen.counts {
		if c.output > 0 && int64(c.token) < int64(len(logits)) {
			logits[c.token] -= p.penalty
		}
	}
	return nil
}
