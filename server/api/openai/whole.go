package openai

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"

	"tgi/server"
	"tgi/server/api/deltas"
	"tgi/server/generate"
	"tgi/server/wire"
)

// answer is a choice with all of its pieces.
type answer struct {
	*choice
	text     strings.Builder
	thoughts strings.Builder
	tokens   []deltas.Scored
}

// collected is a call that ran to its end.
type collected struct {
	// answers of each run, in the order of its sequences.
	answers [][]*answer
	prefill [][]generate.PromptToken
	usage   usage
}

// whole replies when the call is finished.
func (a *API) whole(w http.ResponseWriter, r *http.Request, c *call) error {
	ctx := r.Context()
	rs, all, err := a.collect(ctx, c)
	if err != nil {
		refuse(w, r, c.form, c.dialect, err)
		return nil
	}
	defer rs.close()
	b := a.appendHead(nil, c, c.form.object)
	index := 0
	for i, answers := range all.answers {
		for _, one := range pick(answers, c.n) {
			one.index = index
			b = c.appendAnswer(wire.Comma(b, index), one, rs.list[i].Request.Inputs, all.prefill[i])
			index++
		}
	}
	b = all.usage.append(append(b, `],"usage":`...))
	b = generate.AppendDropped(generate.AppendSkips(b, rs.skipped()), rs.dropped())
	b = append(rs.appendReceipts(b), '}')
	a.setCompute(w.Header(), rs)
	rs.setTimings(w.Header(), c, all.usage)
	server.WriteJSON(w, b)
	return nil
}

// collect runs a call to its end, with the rounds of a chat.
func (a *API) collect(ctx context.Context, c *call) (*runs, *collected, error) {
	var before *collected
	for {
		rs, err := a.start(ctx, c)
		if err != nil {
			return nil, nil, err
		}
		all, err := rs.collect(ctx, c)
		if err == nil {
			all.follow(before)
			if !c.form.chat || !c.rounds.goesOn(all.answers[0][0].choice) {
				if c.form.chat {
					c.rounds.drop(all.answers[0][0].choice)
				}
				return rs, all, nil
			}
			err = c.rounds.run(ctx, c, all.answers[0][0].choice, wait, func(int) error { return nil })
		}
		if err == nil && c.spent() {
			return rs, all, nil
		}
		rs.close()
		if err != nil {
			return nil, nil, err
		}
		before = all
	}
}

// wait waits where no client hears of it.
func wait(ctx context.Context, next func(context.Context) (int, error)) (int, error) {
	return next(ctx)
}

// follow puts what was said before in front of it.
func (all *collected) follow(before *collected) {
	if before == nil {
		return
	}
	one, first := all.answers[0][0], before.answers[0][0]
	text, thoughts := first.text.String()+one.text.String(), first.thoughts.String()+one.thoughts.String()
	one.text.Reset()
	one.text.WriteString(text)
	one.thoughts.Reset()
	one.thoughts.WriteString(thoughts)
	one.tokens = append(first.tokens, one.tokens...)
	u, b := &all.usage, &before.usage
	u.prompt, u.images, u.cached, u.completion = u.prompt+b.prompt, u.images+b.images, u.cached+b.cached,
		u.completion+b.completion
	u.counts = u.counts.Add(b.counts)
}

// collect reads all runs to their end.
func (r *runs) collect(ctx context.Context, c *call) (*collected, error) {
	all := &collected{prefill: make([][]generate.PromptToken, len(r.list))}
	for _, run := range r.list {
		answers := make([]*answer, run.Request.Sequences)
		for i := range answers {
			answers[i] = &answer{choice: newChoice(c, i, run, i)}
		}
		all.answers = append(all.answers, answers)
	}
	for {
		a, err := r.next(ctx)
		if errors.Is(err, io.EOF) {
			return all, nil
		}
		if err != nil {
			return nil, err
		}
		if a.event.Prefill != nil {
			all.prefill[a.run] = a.event.Prefill
		}
		all.usage.count(c, r.list[a.run], &a.event)
		one := all.answers[a.run][a.event.Index]
		p, err := one.Next(&a.event)
		if err != nil {
			return nil, err
		}
		p.Deltas = c.rounds.take(p.Deltas)
		for i := range p.Deltas {
			one.add(&p.Deltas[i])
		}
		one.tokens = append(one.tokens, p.Tokens...)
	}
}

// add takes what an event adds; calls are taken when they are complete.
func (one *answer) add(d *generate.Delta) {
	switch d.Kind {
	case generate.DeltaContent:
		one.text.WriteString(d.Text)
	case generate.DeltaReasoning:
		one.thoughts.WriteString(d.Text)
	}
}

// count adds what the end of a sequence tells. A token that is hidden is not
// counted.
func (u *usage) count(c *call, run *generate.Run, e *generate.Event) {
	f := e.Finish
	if f == nil {
		return
	}
	u.counts.Predicted = c.predicted
	u.counts = u.counts.Plus(f)
	if !c.shown.ScoreOnly {
		u.completion += f.Generated
	}
	if e.Index == 0 {
		u.prompt += f.Prompt
		u.cached += f.Cached
		u.images += run.Request.ImageTokens
	}
}

// pick returns the n answers with the highest scores, the best first, or all in
// their order where none competes.
func pick(answers []*answer, n int) []*answer {
	if len(answers) > n {
		slices.SortStableFunc(answers, func(x, y *answer) int {
			switch a, b := x.Score(), y.Score(); {
			case a > b:
				return -1
			case a < b:
				return 1
			}
			return 0
		})
	}
	return answers[:n]
}

// appendAnswer writes one of a reply's choices.
func (c *call) appendAnswer(b []byte, one *answer, inputs string, prefill []generate.PromptToken) []byte {
	b = wire.AppendInt(append(b, '{'), "index", one.index)
	text := one.text.String()
	if c.form.chat {
		b = c.appendMessage(append(b, `,"message":`...), text, one.thoughts.String(),
			c.rounds.own(one.Reply.Made()))
	} else {
		echoed, chars := c.echoed(inputs, prefill)
		for i := range one.tokens {
			one.tokens[i].Offset += chars
		}
		b = wire.AppendString(append(b, `,"text":`...), echoed+text)
	}
	if !c.shown.Echo {
		prefill = nil
	}
	b = c.appendLogprobs(append(b, `,"logprobs":`...), prefill, one.tokens)
	b = appendExplained(b, one.choice)
	b = wire.AppendString(append(b, `,"finish_reason":`...), one.reason())
	return append(generate.AppendStopReason(b, one.Finish), '}')
}
