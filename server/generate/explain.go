package generate

import (
	"math"
	"strconv"

	"tgi/runtime/llm"
	"tgi/server/wire"
)

// Explain is what a request wants to know of how its tokens came to be; nil fields have the default.
type Explain struct{ Top, Tokens *uint64 }

// What is told of where a request does not say, and how many tokens of all its sequences are explained at most.
const (
	defaultExplainTop    = 5
	defaultExplainTokens = 256
	maxExplained         = 2048
)

// Left is what is wanted of a reply's further texts once n of its tokens are explained: e bounds them all together.
func (e *Explain) Left(n int) *Explain {
	if e == nil {
		return nil
	}
	tokens := or(e.Tokens, defaultExplainTokens)
	tokens -= min(tokens, uint64(n))
	return &Explain{Top: e.Top, Tokens: &tokens}
}

// Share returns how many tokens are explained of each of n texts of a request, which what calls them: as many as are
// wanted, by default as many as all of them may have together.
func (e *Explain) Share(n int, what string) (tokens uint64, err error) {
	most := maxExplained / uint64(n)
	if tokens = or(e.Tokens, min(defaultExplainTokens, most)); tokens > most {
		return 0, invalid("explain", "`explain.tokens` of all %s together must be <= %d. Given: %d of %d %s", what,
			maxExplained, tokens, n, what)
	}
	return tokens, nil
}

// checkExplain checks the explain of d, which has size n, and writes it to p.
func checkExplain(d *Draft, n size, p *llm.Params) error {
	if d.Explain == nil {
		return nil
	}
	top := or(d.Explain.Top, defaultExplainTop)
	switch wanted := or(d.Explain.Tokens, 0); {
	case top > llm.MaxExplainTop:
		return invalid("explain", "`explain.top` must be >= 0 and <= %d. Given: %d", llm.MaxExplainTop, top)
	case wanted > llm.MaxExplainTokens:
		return invalid("explain", "`explain.tokens` must be >= 0 and <= %d. Given: %d", llm.MaxExplainTokens, wanted)
	}
	tokens, err := d.Explain.Share(n.sequences, "sequences")
	switch {
	case err != nil:
		return err
	case tokens > 0 && n.beams > 0:
		_, search := d.searchField()
		return invalid("explain", "`explain` and %s exclude each other: a beam search compares texts, and "+
			"picks no token at a time; `explain.tokens` = 0 asks for the receipt alone", search)
	}
	p.Explain = llm.Explain{Top: int(top), Tokens: int(tokens)}
	return nil
}

// AppendExplanations writes the explanations of a sequence's first tokens as an array.
func AppendExplanations(b []byte, list []*llm.Explanation) []byte {
	b = append(b, '[')
	for i, e := range list {
		b = AppendExplanation(wire.Comma(b, i), e)
	}
	return append(b, ']')
}

// AppendExplained writes the members explain and receipt of a reply that has one sequence, as far as there are any.
func AppendExplained(b []byte, list []*llm.Explanation, r *Receipt) []byte {
	if len(list) > 0 {
		b = AppendExplanations(append(b, `,"explain":`...), list)
	}
	if r != nil {
		b = AppendReceipt(append(b, `,"receipt":`...), r)
	}
	return b
}

// AppendExplanation writes an explanation as an object. A log-probability of -Inf is null.
func AppendExplanation(b []byte, e *llm.Explanation) []byte {
	b = appendToken(append(b, '{'), e.Token, e.Text)
	b = appendNumber(append(b, `,"raw_logprob":`...), e.Raw)
	b = appendNumber(append(b, `,"logprob":`...), e.Final)
	b = wire.AppendInt(append(b, ','), "rank", e.Rank)
	b = appendText(appendText(b, "picked", e.Pick.String()), "by", e.By)
	b = append(b, `,"changes":[`...)
	for i := range e.Changes {
		b = appendChange(wire.Comma(b, i), &e.Changes[i])
	}
	b = append(b, `],"candidates":[`...)
	for i, c := range e.Candidates {
		b = appendToken(append(wire.Comma(b, i), '{'), c.Token, c.Text)
		b = appendNumber(append(b, `,"raw_logprob":`...), c.Raw)
		b = append(appendNumber(append(b, `,"logprob":`...), c.Final), '}')
	}
	b = append(b, ']')
	if d := e.Draft; d != nil {
		b = wire.AppendString(append(b, `,"draft":{"source":`...), d.Source)
		b = appendToken(append(b, ','), d.Token, d.Text)
		b = append(strconv.AppendBool(append(b, `,"accepted":`...), d.Accepted), '}')
	}
	b = appendRewound(b, "rewound", e.Rewound)
	b = appendRewound(b, "replaced", e.Replaced)
	return append(b, '}')
}

// appendRewound writes a member with what guards did, unless there is nothing.
func appendRewound(b []byte, name string, list []llm.Rewound) []byte {
	if len(list) == 0 {
		return b
	}
	b = append(wire.AppendString(append(b, ','), name), ":["...)
	for i, r := range list {
		b = wire.AppendString(append(wire.Comma(b, i), `{"by":`...), r.By)
		b = append(wire.AppendInt(append(b, ','), "tokens", r.Tokens), '}')
	}
	return append(b, ']')
}

func appendChange(b []byte, c *llm.Change) []byte {
	b = wire.AppendString(append(b, `{"kind":`...), c.Kind.String())
	b = appendText(b, "name", c.Name)
	b = wire.AppendInt(append(b, ','), "allowed", c.Allowed)
	b = wire.AppendFloat32(append(b, `,"forbidden":`...), c.Forbidden)
	b = appendNumber(append(b, `,"before":`...), c.Before)
	b = appendNumber(append(b, `,"after":`...), c.After)
	if c.Overtook {
		b = append(appendToken(append(b, `,"overtook":{`...), c.Best.Token, c.Best.Text), '}')
	}
	b = wire.AppendInt(append(b, ','), "count", c.Count)
	b = append(b, `,"moved":[`...)
	for i, m := range c.Moved {
		b = appendToken(append(wire.Comma(b, i), '{'), m.Token, m.Text)
		b = append(appendNumber(append(b, `,"by":`...), m.By), '}')
	}
	b = append(b, ']')
	if c.Temperature == c.Temperature {
		b = appendNumber(append(b, `,"temperature":`...), c.Temperature)
	}
	if c.Forced >= 0 {
		b = strconv.AppendInt(append(b, `,"forced":`...), c.Forced, 10)
	}
	if c.Stop {
		b = append(b, `,"stop":true`...)
	}
	return append(b, '}')
}

// appendToken writes the members of a token.
func appendToken(b []byte, id llm.Token, text string) []byte {
	b = strconv.AppendUint(append(b, `"id":`...), uint64(id), 10)
	return wire.AppendString(append(b, `,"text":`...), text)
}

// appendNumber writes a number, null for one that JSON has not.
func appendNumber(b []byte, v float32) []byte {
	if f := float64(v); math.IsInf(f, 0) || math.IsNaN(f) {
		return append(b, "null"...)
	}
	return wire.AppendFloat32(b, v)
}
