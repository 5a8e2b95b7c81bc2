package bench

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"strings"
	"sync"
)

// vocabulary is what prompts are made of: common short words, so that most
// tokenizers have one token for each and a prompt of any length can be met.
var vocabulary = strings.Fields(`a to in it is time year people way day man thing woman life child
world school state family student group country problem hand part place case week
company system program question work government number night point home water room
mother area money story fact month lot right study book eye job word business issue
side kind head house service friend father power hour game line end member law car
city community name president team minute idea kid body information back parent face
others level office door health person art war history party result change morning
reason research girl guy moment air teacher force education`)

// prompts makes texts of a wanted number of tokens. Prompts with different
// numbers differ from their first words on, after the shared prefix.
type prompts struct {
	words  []string
	costs  []int // tokens of each word with the space before it
	cheap  []int // indices of the words of fewest tokens
	base   int   // tokens of every prompt besides its words, such as a BOS
	length int
	prefix string // the first shared tokens of each prompt
	shared int
	seed   uint64

	mu   sync.Mutex
	made uint64
}

// calibrate asks the server for the tokens of each word and sets up prompts of
// o.PromptTokens tokens.
func calibrate(ctx context.Context, c *client, o Options) (*prompts, error) {
	p := &prompts{words: vocabulary, length: o.PromptTokens, shared: o.SharedPrefix, seed: o.Seed}
	pieces, err := c.tokenize(ctx, strings.Join(p.words, " "))
	if err != nil {
		return nil, err
	}
	if err := p.attribute(pieces); err != nil {
		return nil, err
	}
	if p.length <= p.base || p.shared > 0 && p.shared <= p.base {
		return nil, fmt.Errorf("prompts have %d special tokens: prompt tokens and shared prefix must be more. "+
			"Given: %d and %d", p.base, p.length, p.shared)
	}
	if p.shared > 0 {
		p.prefix = p.text(rand.New(rand.NewPCG(o.Seed, 0)), p.shared-p.base)
	}
	trial, err := c.tokenize(ctx, p.next())
	if err != nil {
		return nil, err
	}
	// Words at the start of a text, or merged with their neighbours, may cost other
	// than counted. What the server makes of the trial corrects the rest.
	if want := p.length + p.length - len(trial); want > p.base && want >= p.shared {
		p.length = want
	}
	return p, nil
}

// attribute sets costs, cheap and base from the tokens of the joined words. A
// token belongs to the word in which it ends; one that covers no text is special.
func (p *prompts) attribute(pieces []piece) error {
	p.costs = make([]int, len(p.words))
	ends, at := make([]int, len(p.words)), 0
	for i, w := range p.words {
		at += len(w)
		ends[i] = at
		at++ // the space
	}
	word := 0
	for _, t := range pieces {
		if t.Stop <= t.Start {
			p.base++
			continue
		}
		for word < len(ends)-1 && t.Stop > ends[word] {
			word++
		}
		p.costs[word]++
	}
	least := 0
	for i, cost := range p.costs {
		if cost == 0 {
			continue // part of a token that ends in a later word: never used
		}
		if least == 0 || cost < least {
			least, p.cheap = cost, p.cheap[:0]
		}
		if cost == least {
			p.cheap = append(p.cheap, i)
		}
	}
	if least == 0 {
		return errors.New("POST /tokenize: no token of the answer covers any text")
	}
	return nil
}

// text returns random words of together n tokens; fewer where no word is left
// that fits the rest.
func (p *prompts) text(rng *rand.Rand, n int) string {
	var b strings.Builder
	for {
		i := rng.IntN(len(p.words))
		if p.costs[i] == 0 || p.costs[i] > n {
			i = p.cheap[rng.IntN(len(p.cheap))]
		}
		if p.costs[i] > n {
			return b.String()
		}
		if b.Len() > 0 {
			b.WriteByte(' ')
		}
		b.WriteString(p.words[i])
		n -= p.costs[i]
	}
}

// next returns a prompt that was not returned before. It is safe for concurrent use.
func (p *prompts) next() string {
	p.mu.Lock()
	p.made++
	rng := rand.New(rand.NewPCG(p.seed, p.made))
	p.mu.Unlock()
	if p.shared == 0 {
		return p.text(rng, p.length-p.base)
	}
	rest := p.text(rng, p.length-p.shared)
	if rest == "" {
		return p.prefix
	}
	return p.prefix + " " + rest
}
