package bridge

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
)

// held is what the texts of a reply are held to.
type held struct {
	grammar   *plugins.Grammar // nil for nothing
	refusal   func(error) error
	reasoning *generate.Reasoning
	dropped   []generate.Dropped
}

// hold compiles the grammar of a request, or what its conversation's parser says.
func (b *boundCode) hold(ctx context.Context, w *generate.Wanted, tools []byte) (held, error) {
	switch {
	case w.Grammar != nil:
		return b.holdText(ctx, w.Grammar)
	case w.HoldCalls && w.Inner:
		return b.request.held, nil
	case w.HoldCalls:
		c := b.conversation
		g, err := b.chat.Constraint(ctx, c.ConstraintRequest(tools))
		if err != nil {
			return held{}, toolsError(err, c)
		}
		return holdCalls(ctx, c, g, b.set.Compile)
	}
	return held{}, nil
}

// holdText compiles the client's own grammar.
func (b *boundCode) holdText(ctx context.Context, call *generate.Grammar) (h held, err error) {
	h.refusal = func(err error) error { return grammarError(err, call.Field) }
	if h.grammar, err = b.set.Compile(ctx, *call); err != nil {
		return held{}, h.refusal(err)
	}
	h.dropped = droppedOf(h.grammar, func(text string) (string, string) { return text, "" })
	return h, nil
}

// holdCalls compiles g, what the parser's plugin wants the texts of a reply to c to be held to; nil is nothing. Where
// no plugin knows its language, calls are checked when they are complete, as those of a plugin that says nothing.
func holdCalls(ctx context.Context, c *generate.Conversation, g *plugins.ToolGrammar,
	compile func(context.Context, plugins.GrammarCall) (*plugins.Grammar, error)) (h held, err error) {
	switch {
	case c.Answer != nil && (g == nil || g.Source == "" || !g.Answer):
		return h, generate.AnswerOrCalls(c.Answer.Field)
	case g == nil:
		return h, nil
	}
	for _, d := range g.Dropped {
		d.Pointer = c.Place(d.Pointer)
		h.dropped = append(h.dropped, d)
	}
	if g.Source == "" {
		return h, nil
	}
	client := clientTerms(c, g)
	h.refusal = func(err error) error { return toolGrammarError(err, client) }
	h.grammar, err = compile(ctx, plugins.GrammarCall{Language: g.Language, Source: []byte(g.Source),
		Params: g.Params})
	if err != nil {
		err = h.refusal(err)
		var no *generate.ToolError
		if c.Answer != nil || !errors.As(err, &no) || !g.Optional && !errors.Is(err, errLanguage) {
			return h, err
		}
		h.dropped = append(h.dropped, generate.Dropped{Pointer: "#/tools", Keyword: "function", Reason: err.Error()})
		return h, nil
	}
	if r := g.Reasoning; r != nil {
		h.reasoning = &generate.Reasoning{Open: r.Open, Begin: r.Begin, End: r.End}
	}
	h.dropped = append(h.dropped, droppedOf(h.grammar, client)...)
	return h, nil
}

// droppedOf returns what a grammar does not enforce in the client's terms, each thing once: a grammar of tools has a
// tool in several places.
func droppedOf(g *plugins.Grammar, client func(string) (said, tool string)) (out []generate.Dropped) {
	for _, d := range g.Dropped() {
		d.Pointer, _ = client(d.Pointer)
		if !slices.Contains(out, d) {
			out = append(out, d)
		}
	}
	return out
}

// clientTerms returns what says a text that begins with a place in g's source in the terms of c's client, and which
// tool it is about.
func clientTerms(c *generate.Conversation, g *plugins.ToolGrammar) func(string) (said, tool string) {
	return func(text string) (said, tool string) {
		said, tool = g.Client(text)
		if rest, ok := strings.CutPrefix(said, "#/answer"); ok && tool == "" && c.Answer != nil {
			said = "#/" + c.Answer.Field + rest
		}
		return c.Place(said), tool
	}
}

// toolsError says what an error of a parser's plugin means to a request with c that asks what its texts are held to.
func toolsError(err error, c *generate.Conversation) error {
	var no *plugins.BindError
	if errors.As(err, new(*plugins.TooCostly)) {
		return conversationError(err, c)
	}
	if errors.Is(err, plugins.ErrParams) && errors.As(err, &no) {
		return &generate.ToolError{Msg: no.Text}
	}
	return bindError(err)
}

// refusedGrammar returns the error of a plugin that does not take a grammar, nil for other errors.
func refusedGrammar(err error) *plugins.BindError {
	var no *plugins.BindError
	if errors.As(err, &no) && (errors.Is(err, plugins.ErrUnknown) || errors.Is(err, plugins.ErrParams)) {
		return no
	}
	return nil
}

// grammarError says what an error of the grammar in a field means to a request.
func grammarError(err error, field string) error {
	if no := refusedGrammar(err); no != nil {
		const what = "grammar is not valid: "
		return &generate.Invalid{Msg: what + no.Text + Suggestion(err), Outline: what + no.Outline(), Field: field}
	}
	return bindError(err)
}

// errLanguage: no plugin knows the language of a grammar.
var errLanguage = errors.New("unknown language of a grammar")

// toolGrammarError says what an error of the grammar of tools means to a request.
func toolGrammarError(err error, client func(string) (said, tool string)) error {
	no := refusedGrammar(err)
	if no == nil {
		return bindError(err)
	}
	said, tool := client(no.Text)
	if tool != "" {
		said = "tool `" + tool + "`: " + said
	}
	refused := &generate.ToolError{Msg: said}
	if errors.Is(err, plugins.ErrUnknown) {
		refused.Err = errLanguage
	}
	return refused
}

// texts are the sequences of a request on their way through its grammar.
type texts struct {
	refusal func(error) error // of the grammar
	encode  Encode
	mu      sync.Mutex
	list    []*plugins.Constraint // nil where the engine has it
}

// beginTexts begins a text for each sequence.
func beginTexts(ctx context.Context, h held, w *generate.Wanted, encode Encode, jump bool) (*texts, error) {
	t := &texts{refusal: h.refusal, encode: encode}
	for i := range w.N {
		c, err := h.grammar.Sequence(ctx, llm.SeedFor(w.Seed, i))
		if err != nil {
			t.close()
			return nil, h.refusal(err)
		}
		if jump && encode != nil {
			c.Jump(w.Prompt[:len(w.Prompt)-w.Read], encode)
		}
		t.list = append(t.list, c)
	}
	return t, nil
}

// take hands out what holds sequence i to the grammar, once.
func (t *texts) take(i int) sample.Plugins {
	t.mu.Lock()
	defer t.mu.Unlock()
	c := t.list[i]
	if c == nil {
		panic(fmt.Sprintf("BUG: the grammar of sequence %d is handed out twice, or after Close", i))
	}
	t.list[i] = nil
	if c.Native() {
		return sample.Plugins{Masker: forkingMasker{c, t.refusal, t.encode}, Close: c.Close}
	}
	return guestMasker(c)
}

// close ends the texts that were not handed out.
func (t *texts) close() {
	t.mu.Lock()
	defer t.mu.Unlock()
	for i, c := range t.list {
		if c != nil {
			c.Close()
			t.list[i] = nil
		}
	}
}

// followed is a text that a guest follows.
type followed struct{ *plugins.Constraint }

// Forced implements sample.Forcer.
func (m followed) Forced(h sample.History, room []llm.Token) int {
	return m.Constraint.Forced(h.Prompt, nil, room)
}

// guestMasker is a text that a guest follows, as the engine wants it.
func guestMasker(c *plugins.Constraint) sample.Plugins {
	return sample.Plugins{
		Masker: followed{c},
		Guests: []string{c.Plugin()},
		Close:  c.CloseLater,
		Fork: func() (sample.Plugins, error) {
			twin, err := c.Clone()
			if err != nil {
				return sample.Plugins{}, err
			}
			return guestMasker(twin), nil
		},
	}
}

// forkingMasker is a masker that beam search can use: the host runs its grammar,
// so that a clone costs nothing and needs no Close.
type forkingMasker struct {
	*plugins.Constraint
	refusal func(error) error // says in the client's terms what the grammar may not be
	encode  Encode
}

// Forced implements sample.Forcer.
func (m forkingMasker) Forced(h sample.History, room []llm.Token) int {
	if m.encode == nil {
		return 0
	}
	return m.Constraint.Forced(h.Prompt, m.encode, room)
}

// Mask implements sample.Masker.
func (m forkingMasker) Mask(bits []uint32) (constrained bool, err error) {
	constrained, err = m.Constraint.Mask(bits)
	return constrained, m.explain(err)
}

// TryMask implements sample.QuickMasker.
func (m forkingMasker) TryMask(bits []uint32) (constrained, done bool, err error) {
	constrained, done, err = m.Constraint.TryMask(bits)
	return constrained, done, m.explain(err)
}

// Accept implements sample.Masker.
func (m forkingMasker) Accept(token llm.Token) error { return m.explain(m.AcceptLater(token)) }

var _ sample.PromptMasker = forkingMasker{}

// AcceptNow implements sample.PromptMasker.
func (m forkingMasker) AcceptNow(token llm.Token) error { return m.explain(m.Constraint.Accept(token)) }

// Rewind implements sample.Rewinder.
func (m forkingMasker) Rewind(h sample.History) error {
	return m.explain(m.Constraint.Rewind(len(h.Output)))
}

// explain says in the client's terms that its grammar takes too much; other errors stay as they are.
func (m forkingMasker) explain(err error) error {
	if errors.Is(err, plugins.ErrParams) {
		return m.refusal(err)
	}
	return err
}

// Fork implements sample.ForkingMasker.
func (m forkingMasker) Fork() sample.Masker {
	twin, err := m.Clone()
	if err != nil {
		panic("BUG: a grammar that the host runs cannot be cloned: " + err.Error())
	}
	return forkingMasker{twin, m.refusal, m.encode}
}
