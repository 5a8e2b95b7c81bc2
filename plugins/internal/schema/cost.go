package schema

import (
	"fmt"
	"regexp/syntax"
)

// The library finds all that is wrong before it answers, so its time and memory grow with the rules of the schema times
// the values of the parameters, and a pattern looks at each byte in each of its states. The products are bounded: a
// large schema gets small parameters.
const (
	maxWork   = 1 << 20 // rules times values: about 130 MB, where everything is wrong
	maxScan   = 1 << 28 // states of patterns times bytes: seconds
	maxStates = 10_000  // of the patterns of a schema
)

// cost is what checking against a schema takes.
type cost struct {
	rules  int // schemas, keywords and the values that they list
	states int // of all patterns, with their repetitions written out
}

// values is how many values the parameters may have.
func (c cost) values() int { return maxWork / max(c.rules, 1) }

// bytes is how many bytes they may have, or 0 where no pattern reads them.
func (c cost) bytes() int {
	if c.states == 0 {
		return 0
	}
	return maxScan / c.states
}

// add counts a keyword that contains no schemas.
func (c *cost) add(at, key string, value any) error {
	c.rules += count(value)
	if text, ok := value.(string); ok && key == "pattern" {
		return c.addPattern(at, text)
	}
	return nil
}

// addPattern counts a pattern. The library says what is wrong with one that can't be read.
func (c *cost) addPattern(at, text string) error {
	p, err := syntax.Parse(text, syntax.Perl)
	if err != nil {
		return nil
	}
	if c.states += states(p); c.states > maxStates {
		return fmt.Errorf("%.200s: with pattern %q the schema's patterns have %d states, repetitions written out: the "+
			"limit is %d", at, cut(text), c.states, maxStates)
	}
	return nil
}

// states is about how many states a pattern has.
func states(p *syntax.Regexp) int {
	n := max(1, len(p.Rune)) // of a literal; ranges of a class
	for _, part := range p.Sub {
		n += states(part)
	}
	if p.Op == syntax.OpRepeat {
		n *= max(1, p.Min, p.Max)
	}
	return n
}

// count is how many values a value has, itself among them.
func count(value any) int {
	n := 1
	switch v := value.(type) {
	case []any:
		for _, part := range v {
			n += count(part)
		}
	case map[string]any:
		for _, part := range v {
			n += 1 + count(part)
		}
	}
	return n
}
