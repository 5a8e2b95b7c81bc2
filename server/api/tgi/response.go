package tgi

import (
	"strconv"

	"tgi/runtime/llm"
	"tgi/server/dialect"
	"tgi/server/generate"
	"tgi/server/wire"
)

// The appenders below write TGI's response types. The order of the fields, and
// which are left out and which are null, is part of the contract.

// appendToken writes Token.
func appendToken(b []byte, t *generate.Token) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(t.Token), 10)
	b = wire.AppendString(append(b, `,"text":`...), t.Text)
	b = wire.AppendFloat32(append(b, `,"logprob":`...), t.Logprob)
	b = strconv.AppendBool(append(b, `,"special":`...), t.Special)
	return append(b, '}')
}

// appendPrefill writes PrefillToken.
func appendPrefill(b []byte, t *generate.PromptToken) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(t.Token), 10)
	b = wire.AppendString(append(b, `,"text":`...), t.Text)
	b = wire.AppendFloat32(append(b, `,"logprob":`...), t.Logprob)
	return append(b, '}')
}

// appendPiece writes SimpleToken.
func appendPiece(b []byte, p *generate.Piece) []byte {
	b = strconv.AppendUint(append(b, `{"id":`...), uint64(p.ID), 10)
	b = wire.AppendString(append(b, `,"text":`...), p.Text)
	b = strconv.AppendInt(append(b, `,"start":`...), int64(p.Start), 10)
	b = strconv.AppendInt(append(b, `,"stop":`...), int64(p.End), 10)
	return append(b, '}')
}

// appendList writes an array.
func appendList[T any](b []byte, items []T, one func([]byte, *T) []byte) []byte {
	b = append(b, '[')
	for i := range items {
		if i > 0 {
			b = append(b, ',')
		}
		b = one(b, &items[i])
	}
	return append(b, ']')
}

func appendTokens(b []byte, tokens *[]generate.Token) []byte {
	return appendList(b, *tokens, appendToken)
}

// appendEnd writes the fields that every form of details begins with. The seed
// is null when nothing was drawn.
func appendEnd(b []byte, f *llm.Finish, sampled, predicted bool) []byte {
	b = wire.AppendString(append(b, `"finish_reason":`...), f.Reason.String())
	b = generate.AppendStopReason(b, f)
	b = strconv.AppendInt(append(b, `,"generated_tokens":`...), int64(f.Generated), 10)
	b = generate.Counts{Predicted: predicted}.Plus(f).Append(b)
	if b = append(b, `,"seed":`...); !sampled {
		return append(b, "null"...)
	}
	return strconv.AppendUint(b, f.Seed, 10)
}

// answer is what a reply without stream is made of.
type answer struct {
	result    *generate.Result
	sampled   bool
	predicted bool // the request has a prediction
	details   bool
	// prompt is put before every text, for return_full_text.
	prompt string
}

// append writes GenerateResponse.
func (a *answer) append(b []byte) []byte {
	b = wire.AppendString(append(b, `{"generated_text":`...), a.prompt+a.result.Best.Finish.Text)
	if a.details {
		best := &a.result.Best
		b = appendEnd(append(b, `,"details":{`...), &best.Finish, a.sampled, a.predicted)
		b = a.appendTokens(b, best)
		if len(a.result.Others) > 0 {
			b = appendList(append(b, `,"best_of_sequences":`...), a.result.Others, a.appendOther)
		}
		b = generate.AppendSkips(appendExplained(appendTops(b, best.Top), best.Explained), a.result.Skipped)
		b = appendReceipt(generate.AppendDropped(b, a.result.Dropped), a.result.Receipt)
		b = append(b, '}')
	}
	return append(b, '}')
}

// appendOther writes BestOfSequence.
func (a *answer) appendOther(b []byte, s *generate.Sequence) []byte {
	b = wire.AppendString(append(b, `{"generated_text":`...), a.prompt+s.Finish.Text)
	b = appendEnd(append(b, ','), &s.Finish, a.sampled, a.predicted)
	b = a.appendTokens(b, s)
	return append(appendExplained(appendTops(b, s.Top), s.Explained), '}')
}

// appendExplained writes the member explain, unless nothing is explained.
func appendExplained(b []byte, list []*llm.Explanation) []byte {
	if len(list) == 0 {
		return b
	}
	return generate.AppendExplanations(append(b, `,"explain":`...), list)
}

func (a *answer) appendTokens(b []byte, s *generate.Sequence) []byte {
	b = appendList(append(b, `,"prefill":`...), a.result.Prefill, appendPrefill)
	return appendList(append(b, `,"tokens":`...), s.Tokens, appendToken)
}

// appendTops writes top_tokens unless there are none.
func appendTops(b []byte, tops [][]generate.Token) []byte {
	if len(tops) == 0 {
		return b
	}
	return appendList(append(b, `,"top_tokens":`...), tops, appendTokens)
}

// delta is what one event of a stream is made of.
type delta struct {
	dialect *dialect.Dialect
	index   int
	event   *generate.Event
	sampled bool
	details bool
	// predicted says that the request has a prediction.
	predicted bool
	prompt    string
	// skipped is what the last event says of plugins.
	skipped []generate.Skip
	// dropped is what it says of the grammar.
	dropped []generate.Dropped
	// receipt is what it says of the reply; nil for nothing.
	receipt *generate.Receipt
}

// append writes StreamResponse.
func (d *delta) append(b []byte) []byte {
	e := d.event
	b = append(b, '{')
	if d.dialect.StreamIndex {
		b = append(strconv.AppendInt(append(b, `"index":`...), int64(d.index), 10), ',')
	}
	t := generate.TokenOf(e)
	b = appendToken(append(b, `"token":`...), &t)
	if len(e.Top) > 0 {
		b = appendList(append(b, `,"top_tokens":`...), e.Top, appendToken)
	}
	if e.Explained != nil {
		b = generate.AppendExplanation(append(b, `,"explain":`...), e.Explained)
	}
	if e.Finish == nil {
		return append(b, `,"generated_text":null,"details":null}`...)
	}
	b = wire.AppendString(append(b, `,"generated_text":`...), d.prompt+e.Finish.Text)
	if !d.details {
		return append(b, `,"details":null}`...)
	}
	b = appendEnd(append(b, `,"details":{`...), e.Finish, d.sampled, d.predicted)
	if d.dialect.StreamInputLength {
		b = strconv.AppendInt(append(b, `,"input_length":`...), int64(e.Finish.Prompt), 10)
	}
	b = generate.AppendDropped(generate.AppendSkips(b, d.skipped), d.dropped)
	return append(appendReceipt(b, d.receipt), `}}`...)
}

// appendReceipt writes the member receipt, unless there is none.
func appendReceipt(b []byte, r *generate.Receipt) []byte {
	if r == nil {
		return b
	}
	return generate.AppendReceipt(append(b, `,"receipt":`...), r)
}
