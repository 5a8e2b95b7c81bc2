package generate

import (
	"maps"
	"slices"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Bounds of OpenAI's rules, from its API reference.
const (
	maxN           = 128
	maxTopLogprobs = 20
)

// checkCounts is checkShape under OpenAI's rules.
func (l Limits) checkCounts(d *Draft) error {
	n, best := or(d.N, 1), or(d.BestOf, 1)
	most := uint64(min(maxN, l.MaxConcurrent))
	switch {
	case n < 1 || n > most:
		return invalid("n", "`n` must be >= 1 and <= %d. Given: %d", most, n)
	case d.BestOf != nil && best < n:
		return invalid("best_of", "`best_of` must be >= `n`. Given: %d and `n` %d", best, n)
	case best > n && d.Stream:
		return invalid("best_of", "`best_of` > `n` is not supported when streaming tokens")
	case best > n && best > uint64(l.MaxBestOf):
		return invalid("best_of", "`best_of` must be > 0 and <= %d. Given: %d", l.MaxBestOf, best)
	}
	return nil
}

// checkOpenAI is checkSampling under OpenAI's rules. top_k, typical_p, min_p and
// repetition_penalty, which OpenAI does not know, are off at the values that
// switch them off elsewhere, and otherwise have TGI's bounds.
func checkOpenAI(d *Draft, p *llm.Params) error {
	const largest = 3.4e38 // finite
	switch {
	case !(p.Temperature >= 0 && p.Temperature <= largest):
		return invalid("temperature", "`temperature` must be >= 0.0")
	case !(p.RepetitionPenalty > 0):
		return invalid("repetition_penalty", "`repetition_penalty` must be strictly positive")
	case !(p.FrequencyPenalty >= -2 && p.FrequencyPenalty <= 2):
		return invalid("frequency_penalty", "`frequency_penalty` must be >= -2.0 and <= 2.0")
	case !(p.PresencePenalty >= -2 && p.PresencePenalty <= 2):
		return invalid("presence_penalty", "`presence_penalty` must be >= -2.0 and <= 2.0")
	case !(p.TopP >= 0 && p.TopP <= 1):
		return invalid("top_p", "`top_p` must be >= 0.0 and <= 1.0")
	case !(p.TypicalP > 0 && p.TypicalP <= 1):
		return invalid("typical_p", "`typical_p` must be > 0.0 and <= 1.0")
	case !(p.MinP >= 0 && p.MinP <= 1):
		return invalid("min_p", "`min_p` must be >= 0.0 and <= 1.0")
	case p.TopK < -1:
		return invalid("top_k", "`top_k` must be >= -1. Given: %d", p.TopK)
	case or(d.TopNTokens, 0) > maxTopLogprobs:
		return invalid("top_n_tokens", "`top_logprobs` must be >= 0 and <= %d. Given: %d", maxTopLogprobs, *d.TopNTokens)
	}
	p.Sample = p.Temperature > 0 && p.TopP > 0
	if p.Temperature == 0 {
		p.Temperature = 1
	}
	if p.TopP == 0 {
		p.TopP = 1
	}
	p.TopK = max(p.TopK, 0)
	p.FrequencyPenalty = 0 // Request.CountPenalty has it
	p.RawLogprobs = true
	return nil
}

// penalized puts OpenAI's frequency penalty before the user code of each
// sequence, where the engine has TGI's.
func penalized(plugins func(int) sample.Plugins, penalty float32) func(int) sample.Plugins {
	return func(i int) sample.Plugins {
		var s sample.Plugins
		if plugins != nil {
			s = plugins(i)
		}
		first := &countPenalty{penalty: penalty, at: map[llm.Token]int{}}
		return sample.Join(first.code(), s)
	}
}

// countPenalty subtracts the penalty once for each time that the output holds a
// token, as OpenAI documents it.
type countPenalty struct {
	penalty float32
	seen    int // tokens of the output that are counted
	counts  []tokenCount
	at      map[llm.Token]int // places in counts
}

type tokenCount struct {
	token llm.Token
	count int
}

// code is the penalty as user code, which forks.
func (c *countPenalty) code() sample.Plugins {
	return sample.Plugins{Processors: []sample.Processor{c}, Fork: func() (sample.Plugins, error) {
		twin := &countPenalty{penalty: c.penalty, seen: c.seen, counts: slices.Clone(c.counts), at: maps.Clone(c.at)}
		return twin.code(), nil
	}}
}

// Process implements sample.Processor.
func (c *countPenalty) Process(h sample.History, s *sample.Step) error {
	for _, t := range h.Output[c.seen:] {
		i, ok := c.at[t]
		if !ok {
			i = len(c.counts)
			c.at[t] = i
			c.counts = append(c.counts, tokenCount{token: t})
		}
		c.counts[i].count++
	}
	c.seen = len(h.Output)
	for _, t := range c.counts {
		if int64(t.token) < int64(len(s.Logits)) {
			s.Logits[t.token] -= c.penalty * float32(t.count)
		}
	}
	return nil
}
