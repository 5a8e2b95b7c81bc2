package sample

import (
	"cmp"
	"math"
	"slices"
	"strings"
	"sync"

	"tgi/runtime/llm"
)

// Named is user code that explanations call by a name.
type Named interface{ Name() string }

// explainer tells how the tokens of one chain came to be. A chain without explanations has none. It copies the row
// after each stage that changed it; what became of the picked token can be told only when that is known.
type explainer struct {
	want llm.Explain
	at   *telling

	// What processors wanted before the stage that comes: see Step.
	temperature float32
	force       int64
	stop        bool
}

// telling is the pick that is being explained.
type telling struct {
	n      int // of rows and stages in use: the model's row, then one for each stage that changed something
	rows   [][]float32
	stages []told
	s      scratch
}

// told is a stage that changed something, and the row behind it.
type told struct {
	llm.Change
	r    row         // of its copy, once it is measured
	tops []llm.Token // the likeliest tokens, then
	best int         // the first of them
}

var tellings = sync.Pool{New: func() any { return new(telling) }}

func newExplainer(p llm.Params) *explainer {
	if p.Explain.Tokens == 0 || p.BeamSearch() {
		return nil
	}
	return &explainer{want: p.Explain}
}

// fork returns one for a copy of the chain.
func (x *explainer) fork() *explainer {
	if x == nil {
		return nil
	}
	return &explainer{want: x.want}
}

// tells reports whether the pick behind h is explained.
func (x *explainer) tells(h History) bool { return x != nil && len(h.Output) < x.want.Tokens }

// begin takes the model's own row. After the last token that is explained it does nothing, and so do the others.
func (x *explainer) begin(h History, logits []float32) {
	if x.at = nil; !x.tells(h) {
		return
	}
	x.at = tellings.Get().(*telling)
	x.at.n = 0
	x.at.push(logits, llm.Change{})
}

// push adds a stage and a copy of the row behind it.
func (t *telling) push(logits []float32, c llm.Change) {
	if t.n == len(t.rows) {
		t.rows, t.stages = append(t.rows, nil), append(t.stages, told{})
	}
	t.rows[t.n] = append(t.rows[t.n][:0], logits...)
	t.stages[t.n] = told{Change: c, tops: t.stages[t.n].tops[:0]}
	t.n++
}

// ask comes before a stage.
func (x *explainer) ask(st *Step) { x.temperature, x.force, x.stop = st.Temperature, st.Force, st.Stop }

// after looks at what a stage did.
func (x *explainer) after(kind llm.ChangeKind, name string, st *Step) {
	if x.at == nil {
		return
	}
	c := llm.Change{Kind: kind, Name: name, Temperature: nan, Forced: -1}
	before := x.at.rows[x.at.n-1]
	for i, v := range st.Logits {
		if b := before[i]; v != b && (v == v || b == b) {
			c.Count++
		}
	}
	if t := st.Temperature; t == t && t != x.temperature {
		c.Temperature = t
	}
	if st.Force >= 0 && st.Force != x.force {
		c.Forced = st.Force
	}
	c.Stop = st.Stop && !x.stop
	if c.Count > 0 || c.Temperature == c.Temperature || c.Forced >= 0 || c.Stop {
		x.at.push(st.Logits, c)
	}
}

// end explains the pick p, whose row is st's.
func (x *explainer) end(c *Chain, st *Step, p *Pick) *llm.Explanation {
	t := x.at
	if t == nil {
		return nil
	}
	x.at = nil
	defer tellings.Put(t)
	e := &llm.Explanation{Token: p.Token}
	hidden := slices.DeleteFunc(slices.Clone(c.rewound.hidden), func(id llm.Token) bool { return id == p.Token })
	for i := range t.stages[:t.n] {
		t.measure(i, x.want.Top, hidden)
	}
	model := &t.stages[0].r
	e.Raw = model.logprobOrNone(p.Token)
	if v := t.rows[0][p.Token]; e.Raw > negInf {
		for i, u := range t.rows[0] {
			if (u > v || u == v && i < int(p.Token)) && !slices.Contains(hidden, llm.Token(i)) {
				e.Rank++
			}
		}
	}
	candidates := slices.Clone(t.stages[0].tops)
	for i := 1; i < t.n; i++ {
		ch := t.change(i, p.Token, x.want.Top)
		if ch.Forced >= 0 && slices.Contains(hidden, llm.Token(ch.Forced)) {
			ch.Forced = -1
		}
		e.Changes = append(e.Changes, ch)
	}
	final := t.warp(c, st, p, e, &candidates, x.want.Top, hidden)
	e.Final = final(p.Token)
	if !slices.Contains(candidates, p.Token) {
		candidates = append(candidates, p.Token)
	}
	for _, id := range candidates {
		e.Candidates = append(e.Candidates, llm.ExplainedToken{Token: id, Raw: model.logprobOrNone(id),
			Final: final(id)})
	}
	slices.SortStableFunc(e.Candidates, func(a, b llm.ExplainedToken) int {
		return cmp.Or(cmp.Compare(b.Final, a.Final), cmp.Compare(b.Raw, a.Raw), cmp.Compare(a.Token, b.Token))
	})
	for i := range e.Changes {
		best := &e.Changes[i].Best
		best.Raw, best.Final = model.logprobOrNone(best.Token), final(best.Token)
	}
	e.Pick, e.By = c.pickedBy(st, p, e.Changes)
	return e
}

// measure computes what is needed of the distribution behind a stage. Hidden tokens are none of its likeliest, and
// its best is the best of the others.
func (t *telling) measure(i, k int, hidden []llm.Token) {
	s := &t.stages[i]
	s.r = row{x: t.rows[i], scale: 1}
	if !s.r.findMax() {
		return
	}
	s.r.computeSums(nil)
	s.best = s.r.bestBut(hidden)
	if k > 0 {
		for _, c := range firstOf(t.s.topOf(&s.r, k+len(hidden)), k, hidden) {
			s.tops = append(s.tops, c.Token)
		}
	}
}

// logprobOrNone is logprob, which is -Inf where no token has any.
func (r *row) logprobOrNone(t llm.Token) float32 {
	if r.top == negInf {
		return negInf
	}
	return r.logprob(t)
}

// bestBut returns the place of the greatest logit of those that are not hidden; the first without any.
func (r *row) bestBut(hidden []llm.Token) int {
	if !slices.Contains(hidden, llm.Token(r.best)) {
		return r.best
	}
	best, top := r.best, negInf
	for i, v := range r.x {
		if v > top && !slices.Contains(hidden, llm.Token(i)) {
			best, top = i, v
		}
	}
	return best
}

// firstOf drops what is hidden from a list, and returns the first k of the others.
func firstOf(list []Candidate, k int, hidden []llm.Token) []Candidate {
	list = slices.DeleteFunc(list, func(c Candidate) bool { return slices.Contains(hidden, c.Token) })
	return list[:min(k, len(list))]
}

// change completes what a stage did, for the picked token.
func (t *telling) change(i int, picked llm.Token, k int) llm.Change {
	c, before, after := t.stages[i].Change, &t.stages[i-1].r, &t.stages[i].r
	forbidden := 0.0
	for j, v := range after.x {
		if v > negInf {
			c.Allowed++
		} else if b := before.x[j]; b > negInf {
			forbidden += math.Exp(float64(b - before.top))
		}
	}
	if before.top > negInf {
		c.Forbidden = float32(min(1, forbidden/before.sum))
	}
	c.Before, c.After = before.logprobOrNone(picked), after.logprobOrNone(picked)
	best := t.stages[i].best
	c.Best.Token, c.Overtook = llm.Token(best), after.top > negInf && best != t.stages[i-1].best
	seen := slices.Clone(t.stages[i-1].tops)
	for _, id := range t.stages[i].tops {
		if !slices.Contains(seen, id) {
			seen = append(seen, id)
		}
	}
	for _, id := range seen {
		if b, v := before.x[id], after.x[id]; len(c.Moved) < k && v != b && (v == v || b == b) {
			c.Moved = append(c.Moved, llm.MovedToken{Token: id, By: v - b})
		}
	}
	return c
}

// warp explains what temperature, top_k and their like do, adds the likeliest tokens behind them to candidates, and
// returns the log-probabilities that the token was picked by.
func (t *telling) warp(c *Chain, st *Step, p *Pick, e *llm.Explanation, candidates *[]llm.Token, k int,
	hidden []llm.Token) func(llm.Token) float32 {
	last := &t.stages[t.n-1].r
	add := func(list []Candidate) {
		for _, x := range firstOf(list, k, hidden) {
			if !slices.Contains(*candidates, x.Token) {
				*candidates = append(*candidates, x.Token)
			}
		}
	}
	w, _ := c.warpOf(st)
	if st.Force >= 0 || st.Stop || last.top == negInf || w.scale == 1 && !w.narrows() {
		if last.top > negInf && k > 0 {
			add(t.s.topOf(last, k+len(hidden)))
		}
		return last.logprobOrNone
	}
	r := row{x: last.x, scale: w.scale}
	r.findMax()
	r.computeSums(nil)
	change := llm.Change{Kind: llm.ChangeWarp, Name: w.names(), Temperature: nan, Forced: -1}
	if w.scale != 1 {
		change.Temperature = 1 / w.scale
	}
	w.apply(&t.s, &r)
	kept, left := 0.0, map[llm.Token]float32{}
	for i, id := range t.s.id {
		kept += math.Exp(float64(r.x[id]-r.top) * float64(r.scale))
		left[id] = t.s.logprob(i)
	}
	if !w.narrows() { // of which none dropped out: sums are the row's, as where no list is made
		kept = r.sum
		for id := range left {
			left[id] = r.logprob(id)
		}
	}
	final := func(id llm.Token) float32 {
		if v, ok := left[id]; ok {
			return v
		}
		return negInf
	}
	change.Allowed, change.Forbidden = len(t.s.id), float32(max(0, 1-kept/r.sum))
	change.Before, change.After = last.logprobOrNone(p.Token), final(p.Token)
	if k > 0 {
		add(t.s.topSurvivors(&r, k+len(hidden)))
	}
	change.Best.Token = llm.Token(t.stages[t.n-1].best)
	if _, ok := left[change.Best.Token]; !ok { // typical_p may drop the very best
		change.Overtook = true
		for id, v := range left {
			if slices.Contains(hidden, id) {
				continue
			}
			if b, ok := left[change.Best.Token]; !ok || v > b || v == b && id < change.Best.Token {
				change.Best.Token = id
			}
		}
	}
	e.Changes = append(e.Changes, change)
	return final
}

// names says which stages are on.
func (w *warper) names() string {
	var list []string
	for _, s := range []struct {
		name string
		on   bool
	}{{"temperature", w.scale != 1}, {"top_k", w.topK > 0}, {"top_p", w.topP < 1}, {"typical_p", w.typicalP < 1},
		{"min_p", w.minP > 0}} {
		if s.on {
			list = append(list, s.name)
		}
	}
	return strings.Join(list, ", ")
}

// pickedBy says how a token was picked.
func (c *Chain) pickedBy(st *Step, p *Pick, changes []llm.Change) (llm.Picked, string) {
	_, draw := c.warpOf(st)
	switch {
	case st.Stop:
		return llm.PickedStop, st.StoppedBy
	case st.Force >= 0:
		by := ""
		for _, x := range changes {
			if x.Forced == st.Force {
				by = x.Name
			}
		}
		return llm.PickedForced, by
	case p.sampled:
		return llm.PickedSampler, nameOf(c.sampler, "sampler")
	case draw:
		return llm.PickedDraw, ""
	}
	return llm.PickedBest, ""
}

// nameOf returns the name of user code, or of a built-in processor.
func nameOf(of any, otherwise string) string {
	switch of := of.(type) {
	case Named:
		return of.Name()
	case bias:
		return "logit_bias"
	case watermark:
		return "watermark"
	case repetition:
		return "repetition_penalty"
	case frequency:
		return "frequency_penalty"
	case presence:
		return "presence_penalty"
	}
	return otherwise
}

// explainProcessor looks at what a processor did.
func (c *Chain) explainProcessor(i int, st *Step) {
	kind, name := llm.ChangeSetting, nameOf(c.processors[i], "server")
	if i >= c.builtins && slices.Contains(c.guests, name) {
		kind = llm.ChangePlugin
	}
	c.explain.after(kind, name, st)
}
