package generateapi

import (
	"context"
	"slices"
	"strings"

	"tgi/runtime/llm"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// speechContext is how many of the last tokens a Decoder is shown when the text
// before it is not wanted: a character has at most four bytes, and so many tokens.
const speechContext = 8

// text is the one of a request_id: what was known of it, and what is generated
// behind that. It belongs to one goroutine.
type text struct {
	job *job
	// known are the tokens of the prompt and of earlier requests, before what
	// they read, where that is wanted.
	known  []llm.Token
	before string
	prompt llm.Encoded // of a text that is new
	// fresh are the tokens of this request, other those of what guards put behind them, as far as no token of the model
	// has followed: its own tokens are cut where there are less of the model's.
	fresh  []llm.Token
	other  string
	count  int // tokens that the client got
	speech dispatch.Decoder
	run    *generate.Run // nil for one that was done before
	// explained are the first that the client got, where that is wanted.
	explained []*llm.Explanation
	// done says that the model ended it.
	done bool
	end  llm.Reason
}

func (j *job) newText(known []llm.Token, done, onlyNew bool) *text {
	t := &text{job: j, known: known, done: done}
	if onlyNew {
		t.speech = j.model.Decoder(known[max(0, len(known)-speechContext):])
		return t
	}
	var b strings.Builder
	t.speech = j.model.Decoder(nil)
	for _, token := range known {
		b.WriteString(t.speech.Next(token))
	}
	t.before = b.String()
	return t
}

// next returns what the next token adds, and whether it was the last. What a
// text that the model did not end holds back of a character comes with the
// request that continues it.
func (t *text) next(ctx context.Context) (piece string, last bool, err error) {
	e, err := t.run.Next(ctx)
	if err != nil {
		return "", false, err
	}
	if e.Explained != nil {
		t.explained = append(t.explained, e.Explained)
	}
	if e.Replaced {
		return t.replaced(&e)
	}
	t.spell()
	t.count++
	t.fresh = append(t.fresh, e.Token)
	t.done = e.Finish != nil && slices.Contains(t.job.model.EOS, e.Token)
	if !t.done || t.job.api.options.Config.EOSText {
		piece = t.speech.Next(e.Token)
	}
	if t.done {
		piece += t.speech.Flush()
	}
	if e.Finish != nil {
		t.end = e.Finish.Reason
	}
	return piece, e.Finish != nil, nil
}

// replaced is next for what a guard gives instead of the model's words: its text, whatever its tokens spell.
func (t *text) replaced(e *generate.Event) (piece string, last bool, err error) {
	if !slices.Contains(t.job.model.EOS, e.Token) { // which stands for what has no tokens
		t.count++
	}
	if e.Text != "" {
		piece = t.speech.Flush() + e.Text
		t.other += e.Text
	}
	if e.Finish != nil {
		t.end, t.done = e.Finish.Reason, e.Finish.Reason == llm.FinishEOS
		t.spell()
	}
	return piece, e.Finish != nil, nil
}

// spell adds the tokens of what guards put in the model's place. What is asked for by the same request_id goes on from
// the text that the client has.
func (t *text) spell() {
	if t.other == "" {
		return
	}
	t.fresh, t.other = append(t.fresh, t.job.model.Service.EncodeData(t.other)...), ""
	fresh := t.fresh[max(0, len(t.fresh)-speechContext):]
	known := t.known[max(0, len(t.known)+len(fresh)-speechContext):]
	t.speech = t.job.model.Decoder(slices.Concat(known, fresh))
}

// rest reads the text to its end.
func (t *text) rest(ctx context.Context) (string, error) {
	var b strings.Builder
	for {
		piece, last, err := t.next(ctx)
		b.WriteString(piece)
		if err != nil || last {
			return b.String(), err
		}
	}
}

// reason says how the text ended, in TGI's words. The length limit may fall
// together with the model's own end, which counts.
func (t *text) reason() string {
	if t.done {
		return llm.FinishEOS.String()
	}
	return t.end.String()
}
