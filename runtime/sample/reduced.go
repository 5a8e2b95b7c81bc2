package sample

import (
	"fmt"
	"math"
	"math/bits"
	"slices"

	"tgi/runtime/llm"
)

// A row of logits on a device need not come to the host: Reductions says what the next pick needs of it, and
// PickReduced picks from that, by the code that picks from whole rows, run on the row's best tokens. What that gives:
//
//   - A greedy token, top_k, min_p, and whatever follows them: exactly what Pick gives, probabilities included, except
//     that where nothing narrows the row its sum comes from the device.
//   - The device's sums, and the place of a draw from a whole row, differ from the host's by llm.ReducedError at most,
//     relative to the row's mass. So log-probabilities differ by as much, a draw gives the token's neighbour where the
//     random number is that near the border between the two, and top_p keeps one token more or less where the mass in
//     front of it is that near to p.
//   - Where the best tokens do not decide, PickReduced says so and the chain is as before: then Pick is to be called
//     with the row.

// reduction is what a chain keeps of the coming PickReduced.
type reduction struct {
	edits  []llm.Edits
	pairs  [][]llm.Edit // memory of edits
	biases []llm.Edits  // never change
	x      []float32
	order  []uint64
	part   partial
}

// Reductions appends to list what a backend has to reduce for the next Pick, where row is the index of its row: one
// reduction, or a second of the unprocessed row for its top tokens. ok is false if the pick needs the whole row: with
// user code that edits rows, where tokens were taken back, inserted or forced, with a watermark or explanations, if
// more than llm.MaxCandidates tokens are wanted, and with typical_p where nothing narrows the row before it. Prepare
// must have been called. The reductions are views that end with the next call.
func (c *Chain) Reductions(h History, row int, list []llm.Reduction) (_ []llm.Reduction, ok bool) {
	if c.err != nil || c.explain.tells(h) || c.EditedByPlugins() || c.topN > llm.MaxCandidates ||
		!c.warp.reducible(c.allowed()) {
		return list, false
	}
	if _, forced := c.forcedByMask(); forced || c.rewound.edits(h) || !c.listEdits(h) {
		return list, false
	}
	q := llm.Reduction{Row: row, Edits: c.reduction.edits, Scale: c.warp.scale, Draw: llm.NoDraw, Raw: c.raw}
	if c.masked {
		q.Mask = c.mask
	}
	if c.sample && !c.warp.narrows() {
		q.Draw = c.draw(h)
	}
	list = append(list, q)
	if c.rawTop(q.Edits) {
		list = append(list, llm.Reduction{Row: row, Scale: 1, Draw: llm.NoDraw})
	}
	return list, true
}

// EditedByPlugins reports whether user code edits rows, or chooses from more candidates than a reduction has: then
// Reductions fails.
func (c *Chain) EditedByPlugins() bool {
	return len(c.processors) > c.builtins || c.sampler != nil && c.sampler.Candidates() > llm.MaxCandidates
}

// Watermarks reports whether rows get a watermark: then Reductions fails.
func (c *Chain) Watermarks() bool {
	return slices.ContainsFunc(c.processors, func(p Processor) bool { _, ok := p.(watermark); return ok })
}

// rawTop reports whether top tokens of another row than the processed one are wanted.
func (c *Chain) rawTop(edits []llm.Edits) bool {
	return c.raw && c.topN > 0 && (c.masked || len(edits) > 0)
}

// allowed returns how many tokens the mask allows at most, or more than llm.MaxCandidates.
func (c *Chain) allowed() (n int) {
	if !c.masked {
		return math.MaxInt
	}
	for _, m := range c.mask {
		if n += bits.OnesCount32(m); n > llm.MaxCandidates {
			break
		}
	}
	return n
}

// reducible reports whether a list of llm.MaxCandidates tokens may be enough for the warpers.
func (w *warper) reducible(allowed int) bool {
	switch {
	case allowed <= llm.MaxCandidates:
		return true
	case w.topK > 0:
		return w.topK <= llm.MaxCandidates
	}
	return w.topP < 1 || w.typicalP == 1
}

// listEdits lists what the built-in processors change; false if one of them changes more than single tokens.
func (c *Chain) listEdits(h History) bool {
	m := &c.reduction
	m.edits = m.edits[:0]
	for _, p := range c.processors {
		switch p := p.(type) {
		case bias:
			if m.biases == nil {
				m.biases = editsOf(p)
			}
			m.edits = append(m.edits, m.biases...)
		case repetition:
			c.edit(h, llm.EditPenalize, func(count) float32 { return p.penalty })
		case frequency:
			length := float32(len(h.Prompt) + len(h.Output))
			c.edit(h, llm.EditAdd, func(n count) float32 { return -p.amount(n, length) })
		case presence:
			c.edit(h, llm.EditAdd, func(n count) float32 {
				if n.output == 0 {
					return 0
				}
				return -p.penalty
			})
		default:
			return false
		}
	}
	return true
}

// edit adds the edit of each token that the sequence holds, unless its value is 0, which changes nothing.
func (c *Chain) edit(h History, kind llm.EditKind, value func(count) float32) {
	c.counts.update(h)
	m := &c.reduction
	if len(m.pairs) <= len(m.edits) {
		m.pairs = append(m.pairs, make([][]llm.Edit, len(m.edits)+1-len(m.pairs))...)
	}
	list := m.pairs[len(m.edits)][:0] // each step the same memory
	for _, n := range c.counts.counts {
		if v := value(n); v != 0 && int64(n.token) < int64(c.vocab) {
			list = append(list, llm.Edit{Token: n.token, Value: v})
		}
	}
	if len(list) > 0 {
		m.pairs[len(m.edits)] = list
		m.edits = append(m.edits, llm.Edits{Kind: kind, Pairs: list})
	}
}

// editsOf returns biases as edits. A token that has several gets them in their order, in edits of their own.
func editsOf(b bias) (list []llm.Edits) {
	seen := make(map[llm.Token]int)
	for _, e := range b {
		nth := seen[e.Token]
		seen[e.Token]++
		if nth == len(list) {
			list = append(list, llm.Edits{Kind: llm.EditAdd})
		}
		list[nth].Pairs = append(list[nth].Pairs, llm.Edit{Token: e.Token, Value: e.Add})
	}
	return list
}

// PickReduced is Pick from what the backend returned for Reductions, in their order. If that does not decide, decided
// is false, nothing has changed, and Pick is to be called with the row.
func (c *Chain) PickReduced(h History, list []llm.Reduced) (p Pick, decided bool, err error) {
	if c.err != nil {
		return Pick{}, true, c.err
	}
	s := scratches.Get().(*scratch)
	defer scratches.Put(s)
	if p, decided, err = c.pickReduced(s, h, list); err != nil {
		c.err = err
		return Pick{}, true, err
	}
	if decided {
		c.prepared, c.hasMask = false, false
	}
	return p, decided, nil
}

func (c *Chain) pickReduced(s *scratch, h History, list []llm.Reduced) (Pick, bool, error) {
	c.rewound.hidden = c.rewound.hidden[:0] // Reductions has none where something was taken back
	most := &list[0]
	raw := most
	if c.rawTop(c.reduction.edits) {
		raw = &list[1]
	}
	inf := float32(math.Inf(1))
	switch {
	case most.Count == 0:
		return Pick{}, true, c.noToken()
	case most.Top == inf || c.raw && most.RawTop == inf:
		return Pick{}, false, nil
	}
	looked := len(most.Candidates)
	if !c.warp.narrows() && c.sampler == nil && (c.topN == 0 || c.raw) {
		looked = 1 // the best, or the drawn token, is all that is needed
	}
	r := c.reduction.row(most, most.Candidates[:looked], c.sample && !c.warp.narrows())
	r.scale = c.warp.scale
	if !c.decides(s, &r, most, raw) {
		return Pick{}, false, nil
	}
	p, err := c.pickFromRow(s, &r, h, &c.warp, c.sample)
	if err != nil {
		return Pick{}, true, err
	}
	if c.raw {
		c.reportReducedRaw(s, most, raw, &p)
	}
	if c.masker != nil {
		if err := c.masker.Accept(p.Token); err != nil {
			return Pick{}, true, maskerError(fmt.Sprintf("accept token %d", p.Token), err)
		}
	}
	return p, true, nil
}

// partial is the part of a row whose tokens a reduction returned.
type partial struct {
	tokens []llm.Token // of the indices, ascending
	own    []float32   // their logits before they were processed
	sum    float64     // of the whole row
	drawn  int         // index of the drawn token
}

// token returns the token whose logit has an index in x.
func (r *row) token(index llm.Token) llm.Token {
	if r.part != nil {
		return r.part.tokens[index]
	}
	return index
}

// row returns the part of a row that holds best and, if one was drawn, the drawn token, in order of token. The next
// call uses its memory again.
func (m *reduction) row(list *llm.Reduced, best []llm.ReducedToken, drew bool) row {
	m.order = m.order[:0]
	drawn := -1 // among best
	for i, c := range best {
		m.order = append(m.order, uint64(c.Token)<<32|uint64(i))
		if drew && c.Token == list.Drawn.Token {
			drawn = i
		}
	}
	if drew && drawn < 0 {
		drawn = len(best)
		m.order = append(m.order, uint64(list.Drawn.Token)<<32|uint64(drawn))
	}
	slices.Sort(m.order)
	m.x = m.x[:0]
	m.part = partial{tokens: m.part.tokens[:0], own: m.part.own[:0], sum: list.Sum}
	for at, o := range m.order {
		i := int(uint32(o))
		c := list.Drawn
		if i < len(best) {
			c = best[i]
		}
		if i == drawn {
			m.part.drawn = at
		}
		m.x = append(m.x, c.Logit)
		m.part.tokens, m.part.own = append(m.part.tokens, c.Token), append(m.part.own, c.Raw)
	}
	r := row{x: m.x, scale: 1, part: &m.part}
	r.findMax()
	return r
}

// reportReducedRaw is reportRaw from what was reduced.
func (c *Chain) reportReducedRaw(s *scratch, most, raw *llm.Reduced, p *Pick) {
	p.Logprob = negInf
	if most.RawTop == negInf {
		return
	}
	part := &c.reduction.part
	one := row{x: []float32{part.own[slices.Index(part.tokens, p.Token)]}, scale: 1, top: most.RawTop, sum: most.RawSum}
	p.Logprob = one.logprob(0)
	if c.topN > 0 {
		r := c.reduction.row(raw, raw.Candidates, false)
		r.sum = most.RawSum
		p.Top = c.copyTop(s.topOf(&r, c.topN))
	}
}

// decides reports whether the candidates hold all tokens that the pick looks at. r is the part of the row that they
// are.
func (c *Chain) decides(s *scratch, r *row, most, raw *llm.Reduced) bool {
	top := c.topN
	if c.raw {
		if top > 0 && !holdsTop(raw, top) {
			return false
		}
		top = 0
	}
	if c.warp.narrows() {
		return len(most.Candidates) == most.Count || c.warp.decides(s, r, most)
	}
	if c.sampler != nil {
		top = max(top, c.sampler.Candidates(), 1)
	}
	return top == 0 || holdsTop(most, top)
}

// holdsTop reports whether the k best tokens, with all that tie with the k-th, are candidates.
func holdsTop(list *llm.Reduced, k int) bool {
	n := len(list.Candidates)
	if n == list.Count {
		return true
	}
	return k < n && list.Candidates[k-1].Logit > list.Candidates[n-1].Logit || k <= n && list.Ties == 0
}

// decides reports whether all tokens that the first active stage keeps are in r, a part of a row that lacks tokens.
func (w *warper) decides(s *scratch, r *row, list *llm.Reduced) bool {
	last := (r.top - list.Candidates[len(list.Candidates)-1].Logit) * r.scale // no missing token is nearer
	switch {
	case w.topK > 0:
		return holdsTop(list, w.topK)
	case w.topP < 1:
		// What is kept must be nearer, by the keys that rank it, than any missing token.
		s.gatherWithin(r, math.MaxFloat32)
		s.keys = s.keys[:0]
		for _, d := range s.d {
			s.keys = append(s.keys, distanceKey(-d))
		}
		return len(s.keys) > 0 && s.cut(s.keys, s.w, w.topP*list.Sum).key < distanceKey(last)
	case w.typicalP < 1:
		return false
	}
	return last > w.minPRange()
}
