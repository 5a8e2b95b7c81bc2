package generate

import (
	"maps"
	"slices"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// penalized applies OpenAI's frequency penalty before the plugins of each sequence,
// where the engine applies TGI's.
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

// Name implements sample.Named.
func (*countPenalty) Name() string { return "frequency_penalty" }

// Rewind implements sample.Rewinder: the next call counts anew.
func (c *countPenalty) Rewind(sample.History) error {
	c.seen, c.counts, c.at = 0, c.counts[:0], map[llm.Token]int{}
	return nil
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
