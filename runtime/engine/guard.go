package engine

import (
	"fmt"
	"math"
	"slices"
	"strings"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Guards decide which picked tokens go out. Their sequence has a holdback in front of its events: everything behind the
// engine sees released tokens only, so nothing there has to take anything back. A guard is asked behind each pick, in
// the order of the positions, so that guesses change nothing of what it sees.
//
// A rewind happens in two places: chain, text and counts are taken back where the token was picked, the scheduler's
// tokens when it has got those of the step (Engine.rewind).

// holdback is what a sequence with guards has not let go. It is used where the sequence's picks are made.
type holdback struct {
	guards []guardian
	prompt []llm.Token // the client's
	output []llm.Token // all tokens, those that are held at the end
	held   []heldToken
	given  []picked // released in the step under way
	before int      // how many of them earlier picks of the step released: guesses are no part of what goes out
	sent   int      // events with a token
	shown  []byte   // the text that went out, as the client has it
	plain  int      // how many of the first tokens went out as they are
	stops  finder   // of stop strings in what went out
	own    finder   // of those in what the model wrote of it, behind the last replacement
	over   bool     // it found one: the text has ended
	ending bool     // a guard has ended the text: the last token that is held has its end
	ended  bool     // so it had already, by what the model wrote
	anew   bool     // an end was taken back: all guards are asked, also those whose turn it is not
	seen   int      // how much of the transcript's text was released, or replaced
	ends   []uint32
	lets   []int // scratch of agree
	view   llm.GuardView

	rewinds, rewound, replaced, inserted, biases int

	took, gave []llm.Rewound // what the next explanation tells of: taken back, and replaced by nothing

	emitted *emission        // where a program's tokens are guarded; otherwise nil
	gone    sample.TakenBack // of those; otherwise the chain knows
}

// guardian is one guard of a sequence.
type guardian struct {
	sample.Guard
	rules llm.GuardRules
	by    sample.Banner
	freed freed // what it released
	rests []int // how many output tokens it took to release what went out, where those did not, in order
	kept  int   // output tokens that were there when it was asked last, and were not taken back since
	done  bool
	at    int         // the output tokens that were there when it said that it is done, 0 where another than it said so
	v     llm.Verdict // at the current position
	waits bool        // v replaces, once the others let go as much
	saw   int         // the output tokens that were there when it said v, where that replaces
}

// heldToken is a token that waits, and where the text ends behind it.
type heldToken struct {
	picked
	end  int
	open bool // inside a character
}

// maxSplit is how many tokens without an end of a character between them are held together. A text may have no such
// end.
const maxSplit = 16

// newHoldback returns what holds a sequence's tokens back behind a client's prompt, nil without guards.
func newHoldback(list []sample.Guard, prompt []llm.Token, stops []string) *holdback {
	if len(list) == 0 {
		return nil
	}
	h := &holdback{prompt: prompt, stops: newFinder(stops), own: newFinder(stops)}
	for i, g := range list {
		r := g.Rules()
		h.guards = append(h.guards, guardian{Guard: g, rules: r, by: sample.Banner{By: i, Name: r.Name,
			Yields: r.OnExhausted == llm.GuardReleases}})
	}
	return h
}

// checkGuards refuses guards that the sequence's chain, or a beam search, cannot have.
func checkGuards(c *sample.Chain, p llm.Params, list []sample.Guard) error {
	if len(list) == 0 {
		return nil
	}
	name := list[0].Rules().Name
	if p.BeamSearch() {
		return fmt.Errorf("%w: beam search compares whole texts and cannot run beside guard %s, which holds tokens back",
			llm.ErrInvalid, name)
	}
	for _, g := range list {
		if r := g.Rules(); r.Rewinds {
			if err := c.CanRewind(); err != nil {
				return fmt.Errorf("%w: guard %s takes tokens back: %w", llm.ErrInvalid, r.Name, err)
			}
		}
	}
	return nil
}

// boundary is the last position up to position that lies between two characters. Guards see characters: a token that
// begins one goes out, or is taken back, with that which completes it.
func (h *holdback) boundary(position int) int {
	at := position - h.released()
	for i := 0; i < maxSplit && at > 0 && h.held[at-1].open; i++ {
		at--
	}
	return h.released() + at
}

// spelled is the position of a replacement without the tokens at its end that have a part of a character alone, which
// goes on behind them: they add nothing to its text, and go with the rest of the character.
func (h *holdback) spelled(position int) int {
	at := position - h.released()
	for at > 1 && h.held[at-1].open && h.held[at-1].end == h.held[at-2].end {
		at--
	}
	return h.released() + at
}

// goesOn reports whether more tokens come behind those before position.
func (h *holdback) goesOn(position int) bool {
	return position < len(h.output) || h.held[len(h.held)-1].fin.Reason == llm.FinishNone
}

// released counts the output tokens that went out.
func (h *holdback) released() int { return len(h.output) - len(h.held) }

// guardPick is called behind a pick of a sequence with guards. It reports whether the step has to end there.
func (t *pickTask) guardPick(x picked) (over bool, err error) {
	q, h := t.q, t.q.guards
	h.before = len(h.given)
	h.output = append(h.output, x.pick.Token)
	h.held = append(h.held, heldToken{x, len(q.text.visible), q.text.detok.Open()})
	over, err = t.settle()
	return over || x.fin.Reason != llm.FinishNone, err
}

// settle asks the guards and applies their verdicts, until they have nothing more to say of what is held. over says
// that the sequence does not go on from the token that was picked last.
func (t *pickTask) settle() (over bool, err error) {
	h := t.q.guards
	for again := true; again && len(h.held) > 0; {
		if err := h.ask(t); err != nil {
			return true, err
		}
		if again, over, err = t.decide(); err != nil {
			return over, err
		}
	}
	if n := len(h.held); n > 0 && !h.over && h.held[n-1].fin.Reason != llm.FinishNone {
		return true, fmt.Errorf("%w: BUG: the text has ended and guards hold %d tokens", llm.ErrPlugin, n)
	}
	return over, nil
}

// asksBehind reports whether guardPick asks a guard behind the pick.
func (h *holdback) asksBehind(x picked) bool {
	for i := range h.guards {
		if g := &h.guards[i]; g.waits || g.due(len(h.output)+1, x.fin.Reason) {
			return true
		}
	}
	return false
}

// due reports whether the guard is asked at a position, behind a token that ended the text for a reason or did not.
func (g *guardian) due(position int, reason llm.Reason) bool {
	return !g.done && (reason != llm.FinishNone || position%g.rules.Every == 0)
}

// ask asks the guards whose turn it is.
func (h *holdback) ask(t *pickTask) error {
	n, reason := len(h.output), h.held[len(h.held)-1].fin.Reason
	h.look(t)
	for i := range h.guards {
		g := &h.guards[i]
		// At an end all are asked: by what one says of a stop string the text may go on, and then the others may hold
		// what they let go at the end.
		if g.waits = g.waits && (g.done || reason == llm.FinishNone || g.saw == n); g.waits {
			continue
		}
		if g.done {
			g.v = llm.Verdict{Position: n}
			continue
		}
		g.v = llm.Verdict{Position: max(g.freed.upTo(n), h.released())}
		if h.anew || g.due(n, reason) {
			h.view.New, g.kept = n-g.kept, n
			v, err := g.Check(&h.view)
			if err == nil {
				err = h.check(g, v, t.e.shape.Vocab)
			}
			if err != nil {
				return fmt.Errorf("%w: guard %s: %w", llm.ErrPlugin, g.rules.Name, err)
			}
			g.v, g.saw = h.bounded(g, v), n
			if v.Kind == llm.VerdictReplace {
				g.v.Position = h.spelled(v.Position)
			}
			if v.Done {
				g.done, g.at = true, n
			}
			if g.done && g.v.Kind == llm.VerdictRelease {
				g.v.Position = n
			}
		}
		if g.v.Kind == llm.VerdictRelease && n-g.v.Position > g.rules.Hold {
			g.v = llm.Verdict{Kind: llm.VerdictStop, Position: g.v.Position, Why: "it holds back too much"}
			if g.rules.OnFull == llm.GuardReleases {
				g.v = llm.Verdict{Position: n - g.rules.Hold}
			}
		}
		free := g.v.Position
		if g.v.Kind == llm.VerdictReplace { // what it changes is not free: another verdict may come before it
			free = h.unchanged(t, g)
		}
		g.freed.add(n, free)
	}
	h.anew = false
	return nil
}

// look makes the view of what is held.
func (h *holdback) look(t *pickTask) {
	from := max(h.seen-llm.GuardContext, 0)
	h.ends = h.ends[:0]
	for _, x := range h.held {
		h.ends = append(h.ends, uint32(x.end-from))
	}
	h.view = llm.GuardView{Prompt: h.prompt, Output: h.output, Released: h.released(),
		Text: t.q.text.visible[from:h.held[len(h.held)-1].end], Context: h.seen - from, Ends: h.ends,
		Reason: h.held[len(h.held)-1].fin.Reason}
}

// check refuses verdicts that mean nothing.
func (h *holdback) check(g *guardian, v llm.Verdict, vocab int) error {
	n, least := len(h.output), max(h.released(), 0)
	most := n
	switch v.Kind {
	case llm.VerdictRelease:
		if h.view.Reason != llm.FinishNone {
			least = n // nothing comes that could let them go
		}
	case llm.VerdictRewind:
		most = n - 1
	case llm.VerdictReplace:
		least++
	case llm.VerdictInsert, llm.VerdictStop:
	default:
		return fmt.Errorf("verdict %d: the last is %d", v.Kind, llm.Verdicts-1)
	}
	if v.Position < least || v.Position > most {
		return fmt.Errorf("verdict %s at position %d: want %d to %d", v.Kind, v.Position, least, most)
	}
	if (v.Kind == llm.VerdictRewind || v.Kind == llm.VerdictInsert) && !g.rules.Rewinds {
		return fmt.Errorf("verdict %s is not declared", v.Kind)
	}
	for _, b := range v.Biases {
		if int64(b.Token) >= int64(vocab) || b.Add != b.Add || b.Add > llm.MaxBias {
			return fmt.Errorf("bias %v of token %d: want a number up to %g, and a token below %d", b.Add, b.Token,
				llm.MaxBias, vocab)
		}
	}
	for _, id := range v.Tokens {
		if int64(id) >= int64(vocab) {
			return fmt.Errorf("token %d: the vocabulary has %d", id, vocab)
		}
	}
	return nil
}

// decide applies the verdicts. again says that the guards are to be asked once more, over that the sequence does not go
// on from the token that was picked last.
func (t *pickTask) decide() (again, over bool, err error) {
	h := t.q.guards
	whole := h.whole()
	var stop, replace *guardian
	for i := range h.guards {
		g := &h.guards[i]
		switch g.v.Kind {
		case llm.VerdictRewind, llm.VerdictInsert:
			if h.ending {
				h.stop(t, g, g.v.Position)
				return true, true, nil
			}
			return t.takeBack(g)
		case llm.VerdictStop:
			if stop == nil {
				stop = g
			}
		case llm.VerdictReplace: // what it replaces must not go out, whatever the others say
			if replace == nil || g.v.Position < replace.v.Position {
				replace = g
			}
		}
	}
	if by := h.cutBy(); by != nil && !h.ending && stop == nil && replace == nil {
		by.v, stop = llm.Verdict{Kind: llm.VerdictStop, Position: len(h.output), Why: nothingFollowed}, by
	}
	switch {
	case stop != nil:
		h.stop(t, stop, stop.v.Position)
		return true, true, nil
	case replace == nil:
		free, by := h.free(whole)
		n := free - h.released()
		h.rely(free)
		h.release(t, free)
		h.forget(len(h.output))
		h.applied(n)
		if len(h.held) > 2*llm.MaxHold && !h.over {
			by.v.Why = heldTogether
			h.end(t, by, len(h.output)) // what nobody wants to take back goes out
			return true, true, nil
		}
		return false, h.over || h.ending, nil
	}
	all := h.together(replace)
	position, saw := h.joined(all)
	for i := range h.guards {
		g := &h.guards[i]
		if g.v.Kind == llm.VerdictReplace || min(g.v.Position, whole) >= position &&
			(!g.cuts() || g.v.Position >= saw) { // it takes back nothing of what they saw
			continue
		}
		// It is asked again at the next token. What is held stays within what two guards may hold.
		for _, g := range all {
			g.waits = true
		}
		if len(h.held) <= 2*llm.MaxHold {
			return false, false, nil
		}
		replace.v.Why = heldTogether
		h.end(t, replace, h.released())
		return true, true, nil
	}
	if any, atOnce := h.undecided(t, all); any {
		return atOnce, false, nil
	}
	for _, g := range all {
		g.relies(g.saw)
	}
	h.join(t, all)
	if h.unmakes(t, replace) {
		h.goOn(t.q)
		return true, false, nil
	}
	h.replace(t, replace)
	return !h.over, h.over || h.ending, nil
}

// heldTogether is why a text ends whose guards hold back more than there is room for.
const heldTogether = "guards hold back too much together"

// applied tells the guards how many tokens went out.
func (h *holdback) applied(n int) {
	if n == 0 {
		return
	}
	for i := range h.guards {
		if g := &h.guards[i]; !g.done {
			g.Applied(llm.VerdictRelease, n)
		}
	}
}

// release lets the tokens below position go, or those up to the first stop string.
func (h *holdback) release(t *pickTask, position int) {
	n := position - h.released()
	for i := 0; i < n && !h.over; i++ {
		x := h.held[i]
		text := t.q.text.visible[h.seen:x.end]
		h.seen = x.end
		if h.stopsIn(&x.picked, x.open, t.e.endToken()) {
			text, n = text[:min(len(text), len(x.text))], i+1
		}
		h.own.pass(x.text, !x.special)
		h.shown = append(h.shown, text...)
		h.give(x.picked)
	}
	h.held = h.held[:copy(h.held, h.held[n:])]
	if h.replaced == 0 {
		h.plain = h.released()
	}
}

// give makes an event of a token.
func (h *holdback) give(x picked) {
	h.sent++
	if x.pick.Explained != nil && h.hides() {
		x.pick.Explained = x.pick.Explained.Bare()
	}
	if x.fin.Reason != llm.FinishNone {
		h.count(&x.fin)
	}
	h.given = append(h.given, x)
}

// hides reports whether what was picked now may rest on tokens that nobody saw: those that a guard gave other text for,
// and those that a program did not emit, which no guard judged. Penalties, plugins and guesses go by them, and an
// explanation that tells what these did names them.
func (h *holdback) hides() bool { return h.replaced > 0 || h.emitted != nil }

// count tells in the end of a text what the client got of it, and what guards did.
func (h *holdback) count(fin *llm.Finish) {
	fin.Text, fin.Generated, fin.Rewound, fin.Replaced = string(h.shown), h.sent, h.rewound, h.replaced
}

// replace gives the client a text instead of the tokens below the verdict's position.
func (h *holdback) replace(t *pickTask, g *guardian) {
	v := g.v
	n := v.Position - h.released()
	last := h.held[n-1]
	h.own.forget()
	h.own.pass(h.behind(t, g), true)
	tokens := v.Tokens[:min(len(v.Tokens), n)] // no more events than the client may have tokens
	if len(tokens) == 0 && v.Text != "" {      // which the tokenizer cannot say
		tokens = []llm.Token{t.e.endToken()}
	}
	h.replaced += n
	told, took, gave := h.held[0].pick.Explained != nil, h.took, h.gave // where it is, so are all before
	if told {
		h.took, h.gave = nil, nil
		h.untell(h.held[:n])
		h.gave = append(h.gave, llm.Rewound{By: g.rules.Name, Tokens: n})
	}
	for i, text := range spelled(t.e.codec.Stream(lastTokens(t.history.Prompt, detokContext)), v.Text, tokens) {
		x := picked{pick: sample.Pick{Token: tokens[i]}, text: text, replaced: true}
		if told && h.sent < t.q.params.Explain.Tokens {
			x.pick.Explained = llm.PickAlone(tokens[i], text, llm.PickedGuard, g.rules.Name)
			h.explain(x.pick.Explained)
		}
		over := h.stopsIn(&x, false, t.e.endToken())
		h.shown = append(h.shown, x.text...)
		if h.give(x); over {
			break
		}
	}
	if told && len(h.held) > n && h.held[n].pick.Explained != nil { // of no text the next tells
		e := h.held[n].pick.Explained
		e.Rewound, e.Replaced = slices.Concat(h.took, e.Rewound), slices.Concat(h.gave, e.Replaced)
		h.took, h.gave = nil, nil
	}
	if told { // what waited was behind these tokens
		h.took, h.gave = append(h.took, took...), append(h.gave, gave...)
	}
	h.seen = last.end
	h.held = h.held[:copy(h.held, h.held[n:])]
	h.followStops(t.q)
	for i := range h.guards { // what others wanted was of a text that began before, or is done, too
		if x := &h.guards[i]; x.waits {
			x.waits, h.anew = false, true
		}
	}
	g.Applied(llm.VerdictReplace, n)
	switch by := h.cutBy(); {
	case last.fin.Reason == llm.FinishNone || h.over:
	case by != nil && !h.ending:
		by.Applied(llm.VerdictStop, 0)
		h.finish(t, llm.Finish{Reason: llm.FinishGuard, StoppedBy: by.rules.Name, Why: nothingFollowed}, picked{})
	default:
		h.finish(t, last.fin, last.picked)
	}
}

// spelled cuts a text, of which tokens are the first, into what each of them adds. The last has all that is left of it,
// and so has one that ends inside a character, or that spells something else.
func spelled(d Detokenizer, text string, tokens []llm.Token) []string {
	pieces := make([]string, len(tokens))
	for i, id := range tokens {
		piece := d.Next(id)
		if i == len(tokens)-1 || d.Open() || !strings.HasPrefix(text, piece) {
			piece = text
		}
		pieces[i], text = piece, text[len(piece):]
	}
	return pieces
}

// takeBack applies a rewind or an insertion.
func (t *pickTask) takeBack(g *guardian) (again, over bool, err error) {
	q, h := t.q, t.q.guards
	wanted := h.boundary(g.v.Position)
	if h.emitted != nil {
		g.v = h.refuse(g.v)
		if h.emitted.ending {
			g.v.Kind, g.v.Why = llm.VerdictStop, "it takes back the end, and the program is over"
			h.stop(t, g, g.v.Position)
			return true, true, nil
		}
	}
	v, n := g.v, len(h.output)
	if v.Kind == llm.VerdictInsert && v.Position == n && h.view.Reason != llm.FinishNone {
		v.Position = max(n-1, h.released()) // what ended the text does not stay before more of it
	}
	before := h.output[:v.Position] // what the biases hold behind
	v.Position = h.boundary(v.Position)
	biases := v.Biases
	if v.Kind == llm.VerdictInsert {
		biases, v.Tokens = nil, slices.Concat(t.unhealed(v.Position), v.Tokens)
	} else if len(biases) == 0 {
		before, biases = h.output[:v.Position], []llm.Bias{{Token: h.output[v.Position], Add: float32(math.Inf(-1))}}
	}
	back := n - v.Position
	switch {
	case h.rewinds == llm.MaxRewinds && back > 0:
		return h.exhausted(t, g, "it rewound too often")
	case h.rewound+back > llm.MaxRewound(q.params.MaxNewTokens), h.biases+len(biases) > llm.MaxBiases:
		return h.exhausted(t, g, "it rewound too much")
	case h.inserted+len(v.Tokens) > llm.MaxInserted && v.Kind == llm.VerdictInsert,
		v.Kind == llm.VerdictInsert && v.Position+len(v.Tokens) > q.params.MaxNewTokens:
		return h.exhausted(t, g, "it inserted too much")
	}
	if back > 0 {
		h.rewinds++
		h.tell(q, g, v.Position)
	}
	h.rewound += back
	h.biases += len(biases)
	gone := h.output[v.Position:]
	if back > 0 {
		if err := t.cutTo(v.Position); err != nil {
			return false, true, err
		}
		if v.Position == wanted { // it knows what it takes back
			g.freed.add(v.Position, v.Position)
		}
	}
	if h.emitted != nil {
		h.gone.Add(h.output, gone)
		h.emitted.refused = g
		g.Applied(v.Kind, back)
		return false, true, nil
	}
	if back > 0 {
		q.chain.Ban(h.output, gone)
		q.chain.Bias(before, biases, g.by)
	}
	if v.Kind == llm.VerdictInsert {
		h.inserted += len(v.Tokens)
		q.chain.Insert(v.Tokens, g.rules.Name)
	}
	g.Applied(v.Kind, max(back, len(v.Tokens)))
	return false, true, nil
}

// tell notes for the next explanation that a guard takes back all but the first n output tokens.
func (h *holdback) tell(q *sequence, g *guardian, n int) {
	if q.params.Explain.Tokens == 0 {
		return
	}
	h.untell(h.held[n-h.released():])
	h.took = append(h.took, llm.Rewound{By: g.rules.Name, Tokens: len(h.output) - n})
}

// untell has what the explanations of tokens that are gone tell of others wait for the next. What waits already was
// taken back behind all that they tell of.
func (h *holdback) untell(gone []heldToken) {
	var took, gave []llm.Rewound
	for _, x := range gone {
		if e := x.pick.Explained; e != nil {
			took, gave = append(took, e.Rewound...), append(gave, e.Replaced...)
		}
	}
	h.took, h.gave = append(took, h.took...), append(gave, h.gave...)
}

// explain adds to an explanation what waits for it.
func (h *holdback) explain(e *llm.Explanation) {
	e.Rewound, e.Replaced = slices.Concat(e.Rewound, h.took), slices.Concat(e.Replaced, h.gave)
	h.took, h.gave = nil, nil
}

// cutTo takes back all but the first n output tokens.
func (t *pickTask) cutTo(n int) error {
	q, h := t.q, t.q.guards
	h.cutHeld(n)
	t.cut = n
	q.generated = n
	q.text = newTranscript(t.e.codec, t.history.Prompt, nil, q.healed.size())
	for _, id := range h.output {
		q.text.add(id, t.e.codec.Special(id))
	}
	h.followStops(q)
	if q.chain == nil { // of a program's emissions
		return nil
	}
	return q.chain.Rewind(sample.History{Prompt: t.history.Prompt, Output: h.output})
}

// rewind takes back the scheduler's tokens of a sequence whose picks did so. Nothing is planned, and the sequence not
// parked.
func (e *Engine) rewind(n *seqStep) {
	t := n.tasks[0]
	if t.cut < 0 || n.q.guards == nil || e.active[n.q.seq] != n.q {
		return
	}
	if keep := len(n.q.seq.Prompt()) + t.cut; keep < len(n.q.seq.Prompt())+len(n.q.seq.Output()) {
		e.sched.Truncate(n.q.seq, keep)
	}
}

// events returns what of a task's picks goes out.
func (t *pickTask) events() []picked {
	if t.q.guards == nil {
		return t.picks
	}
	return t.q.guards.given
}
