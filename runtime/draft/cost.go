package draft

import (
	"math"
	"time"
)

// Costs are how long steps take by how many tokens they compute, measured as they come. Only steps without prompts
// count.
type Costs struct {
	// seconds by the number of tokens; 0 is unknown. More tokens than there are count as the most.
	seconds [257]float64
	// seen counts the steps of each size.
	seen [257]int
}

const (
	// A step that was fast counts more than one that was slow: other work on the machine makes steps slow now and then.
	// What took longer than outlier times what was expected counts as that.
	faster, slower = 1.0 / 4, 1.0 / 16
	outlier        = 3
	// few is how many first steps of a size count as the fastest of them, and forget the part that each smaller step
	// takes from what larger ones are thought to take: a size that was slow by chance is tried again in time.
	few    = 4
	forget = 1.0 / 256
	// group is how many tokens the kernels compute at a time, so that fewer cost the same. Few different sizes of steps
	// are soon measured, too.
	group = 4
	// least is the share by which drafts must speed a step up.
	least = 0.05
)

// Observe records what a step took.
func (c *Costs) Observe(tokens int, took time.Duration) {
	s := took.Seconds()
	if tokens < 1 || s <= 0 {
		return
	}
	tokens = min(tokens, len(c.seconds)-1)
	at := &c.seconds[tokens]
	c.seen[tokens]++
	for i := tokens + 1; i < min(tokens+MaxTokens, len(c.seconds)); i++ {
		c.seconds[i] -= forget * c.seconds[i]
	}
	if *at == 0 || c.seen[tokens] <= few && s < *at {
		*at = s
		return
	}
	weight := slower
	if s < *at {
		weight = faster
	}
	*at += weight * (min(s, outlier**at) - *at)
}

// estimate is how long a step of so many tokens takes; ok is false as long as nothing is known.
func (c *Costs) estimate(tokens int) (seconds float64, ok bool) {
	tokens = min(max(tokens, 1), len(c.seconds)-1)
	below, above := tokens, tokens
	for below > 0 && c.seconds[below] == 0 {
		below--
	}
	for above < len(c.seconds) && c.seconds[above] == 0 {
		above++
	}
	known := above < len(c.seconds)
	switch {
	case below == 0 && !known:
		return 0, false
	case below == 0:
		return c.seconds[above], true
	case !known:
		return c.seconds[below] * (1 + share(below)*float64(tokens-below)/float64(below)), true
	case below == above:
		return c.seconds[below], true
	}
	part := float64(tokens-below) / float64(above-below)
	return c.seconds[below] + part*(c.seconds[above]-c.seconds[below]), true
}

// share is about how much a further token costs of what each of so many do on average: a single row reads all weights
// for one token, so that a second costs little. Many rows cost in proportion.
func share(tokens int) float64 { return min(0.8, 0.25*math.Sqrt(float64(tokens))) }

// Budget shares a step's drafts out: each that is granted must speed the step up by more than it costs.
type Budget struct {
	costs  *Costs
	tokens int     // of the step so far
	gained float64 // tokens that the step is expected to give
}

// Budget returns the budget of a step in which so many rows compute one token each.
func (c *Costs) Budget(rows int) Budget { return Budget{costs: c, tokens: rows, gained: float64(rows)} }

// Grants reports whether Grant could return more than 0 for any of a sequence's guesses, of at most n tokens.
func (b *Budget) Grants(n int) bool {
	now, ok := b.costs.estimate(b.tokens)
	for i := 1; ok && i <= n; i++ {
		if b.saved(i, float64(i), now) > least*now/b.gained {
			return true
		}
	}
	return false
}

// saved is the time that i more tokens save, which are worth so many of a step that takes now seconds without them.
func (b *Budget) saved(i int, worth, now float64) float64 {
	then, _ := b.costs.estimate(b.tokens + i)
	// Measured times scatter: a token is never taken to cost less than half of what tokens cost without them.
	adds := max(then-now, now*share(b.tokens)*float64(i)/float64(2*b.tokens))
	// what the tokens would have taken without it, less what it adds
	return worth*now/b.gained - adds
}

// Grant returns how many of a sequence's guesses, of which there are n, the step should compute. It gives worth tokens
// more for the first i of them.
func (b *Budget) Grant(n int, worth func(i int) float64) int {
	now, ok := b.costs.estimate(b.tokens)
	if !ok {
		return 0
	}
	best, most := 0, least*now/b.gained
	for i := 1; i <= n; i++ {
		if i < n && (b.tokens+i)%group != 0 {
			continue
		}
		if saved := b.saved(i, worth(i), now); saved > most {
			best, most = i, saved
		}
	}
	if best > 0 {
		b.tokens += best
		b.gained += worth(best)
	}
	return best
}
