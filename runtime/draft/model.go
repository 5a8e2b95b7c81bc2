package draft

import (
	"errors"
	"fmt"
	"math"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// Backend computes steps of a draft model; see engine.Model.
type Backend interface {
	Forward(s *llm.Step) (logits []float32, err error)
	CopyBlocks(pairs []llm.BlockCopy) error
}

// Shape describes a draft model.
type Shape struct {
	// Vocab is the number of logits per row, Blocks of BlockSize tokens are its cache, MaxLen is the longest sequence.
	Vocab, BlockSize, Blocks, MaxLen int
}

// catchUp bounds the tokens that one call of Guess computes of texts that the model has not seen.
const catchUp = 512

// Model guesses with a second, smaller model: the tokens that it finds likeliest, for all sequences at once. It has a
// cache of its own, in which sequences have what they can get: one that finds no room gets no guesses.
type Model struct {
	backend Backend
	shape   Shape
	pool    *kv.Pool
	step    llm.Step
	copies  []llm.BlockCopy
}

// NewModel returns a Model on b with an empty cache.
func NewModel(b Backend, s Shape) (*Model, error) {
	if s.Vocab < 1 || s.MaxLen < 2 {
		return nil, fmt.Errorf("draft: a model of %d tokens for sequences of %d", s.Vocab, s.MaxLen)
	}
	pool, err := kv.New(kv.Config{Blocks: s.Blocks, BlockSize: s.BlockSize, Share: true})
	if err != nil {
		return nil, err
	}
	return &Model{backend: b, shape: s, pool: pool}, nil
}

// Row is what the model has seen of one sequence.
type Row struct {
	row    *kv.Row
	tokens []llm.Token // computed, right and wrong ones
	// Of the call of Guess under way.
	want  []llm.Token // to be computed, behind tokens
	guess []llm.Token
	limit int

	prompt  int  // so many of tokens are the prompt's first ones
	unknown bool // the sequence has a token that the model does not know
}

// NewRow returns the row of a sequence.
func (m *Model) NewRow() *Row { return &Row{row: kv.NewRow("")} }

// Drop ends a row.
func (m *Model) Drop(r *Row) {
	m.pool.Give(r.row)
	r.tokens, r.prompt = r.tokens[:0], 0
}

// Can reports whether the model may have guesses of what follows h.
func (m *Model) Can(r *Row, h llm.History) bool {
	return !r.unknown && len(h.Prompt)+len(h.Output) < m.shape.MaxLen
}

// Behind returns how many tokens of a history the row has yet to compute before it guesses the first token.
func (r *Row) Behind(h llm.History) int { return max(len(h.Prompt)+len(h.Output)-len(r.tokens), 1) }

// Ask prepares a row for Guess: it is to guess at most so many tokens that follow h.
func (m *Model) Ask(r *Row, h llm.History, most int) {
	n := len(h.Prompt) + len(h.Output)
	r.guess, r.limit = r.guess[:0], min(most, m.shape.MaxLen-n)
	if r.limit < 1 {
		r.limit = 0
		return
	}
	same := r.prompt
	same += common(r.tokens[same:], h.Prompt[same:])
	r.prompt = same
	if same == len(h.Prompt) {
		same += common(r.tokens[same:], h.Output)
	}
	same = min(same, n-1) // the last one is computed for its logits
	r.prompt = min(r.prompt, same)
	if same < len(r.tokens) {
		m.pool.Truncate(r.row, same, same)
		r.tokens = r.tokens[:same]
	}
	r.want = r.want[:0]
	if same < len(h.Prompt) {
		r.want = append(r.want, h.Prompt[same:]...)
	}
	r.want = append(r.want, h.Output[max(same-len(h.Prompt), 0):]...)
	if len(r.tokens) == 0 { // of another sequence's
		all := r.want
		found := m.pool.Find(r.row, all)
		r.tokens, r.want = append(r.tokens, all[:found]...), all[found:]
	}
	for _, t := range r.want {
		if int64(t) >= int64(m.shape.Vocab) { // the model does not know it
			r.limit, r.unknown = 0, true
		}
	}
}

func common(a, b []llm.Token) (n int) {
	for n < min(len(a), len(b)) && a[n] == b[n] {
		n++
	}
	return n
}

// Guess has the model guess for rows that were asked, and calls observe with the number of tokens of each step. The
// guesses are views that end with the next Ask. After an error the rows have to be dropped.
func (m *Model) Guess(rows []*Row, observe func(tokens int, compute func() error) error) error {
	left := catchUp
	for {
		var list []*Row
		for _, r := range rows {
			if r.limit == 0 || len(r.guess) >= r.limit || left == 0 && len(r.want) > 1 {
				continue
			}
			n := len(r.want)
			if n > 1 {
				n = min(n, left)
			}
			if !m.take(r, len(r.tokens)+n) {
				r.limit = 0
				continue
			}
			if n > 1 {
				left -= n
			}
			m.add(r, n)
			list = append(list, r)
		}
		if len(list) == 0 {
			return nil
		}
		var logits []float32
		err := observe(len(m.step.Tokens), func() (err error) {
			logits, err = m.compute(list)
			return err
		})
		if err != nil {
			return err
		}
		for _, r := range list {
			if len(r.want) > 0 {
				r.limit = 0 // it goes on at the next call
				continue
			}
			best, ok := likeliest(logits[:m.shape.Vocab])
			if logits = logits[m.shape.Vocab:]; !ok {
				r.limit = 0
				continue
			}
			r.guess = append(r.guess, best)
			r.want = append(r.want, best)
		}
	}
}

// Guessed returns what Guess guessed for a row.
func (r *Row) Guessed() []llm.Token { return r.guess }

// take gets blocks for the first n tokens of a row. One that finds none gives back what it has, for the others.
func (m *Model) take(r *Row, n int) (ok bool) {
	if len(r.tokens)+len(r.want) < n {
		return false
	}
	if m.copies, ok = m.pool.Take(r.row, n, m.copies); !ok {
		m.Drop(r)
	}
	return ok
}

// add adds the first n wanted tokens of a row to the step.
func (m *Model) add(r *Row, n int) {
	st := &m.step
	if len(st.CuSeqlens) == 0 {
		st.CuSeqlens = append(st.CuSeqlens, 0)
	}
	start := len(r.tokens)
	r.tokens = append(r.tokens, r.want[:n]...)
	r.want = append(r.want[:0], r.want[n:]...)
	st.Tokens = append(st.Tokens, r.tokens[start:]...)
	st.CuSeqlens = append(st.CuSeqlens, int32(len(st.Tokens)))
	st.PastLens = append(st.PastLens, int32(start))
	size := m.shape.BlockSize
	for at := start; at < start+n; at++ {
		st.SlotMapping = append(st.SlotMapping, r.row.Blocks()[at/size]*int32(size)+int32(at%size))
	}
	if len(r.want) == 0 {
		st.LogitRows = append(st.LogitRows, int32(len(st.Tokens)-1))
	}
	st.MaxBlocks = max(st.MaxBlocks, m.pool.BlocksFor(start+n))
}

// compute computes the step, which has the given rows, and empties it.
func (m *Model) compute(list []*Row) (logits []float32, err error) {
	st := &m.step
	defer func() {
		*st = llm.Step{Tokens: st.Tokens[:0], CuSeqlens: st.CuSeqlens[:0], PastLens: st.PastLens[:0],
			BlockTable: st.BlockTable[:0], SlotMapping: st.SlotMapping[:0], LogitRows: st.LogitRows[:0]}
		m.copies = m.copies[:0]
	}()
	for _, r := range list {
		used := m.pool.BlocksFor(len(r.tokens))
		st.BlockTable = append(st.BlockTable, r.row.Blocks()[:used]...)
		for range st.MaxBlocks - used {
			st.BlockTable = append(st.BlockTable, -1)
		}
	}
	if len(m.copies) > 0 {
		if err := m.backend.CopyBlocks(m.copies); err != nil {
			return nil, err
		}
	}
	if logits, err = m.backend.Forward(st); err != nil {
		return nil, err
	}
	if want := len(st.LogitRows) * m.shape.Vocab; len(logits) != want {
		return nil, fmt.Errorf("draft: %d logits, want %d", len(logits), want)
	}
	for _, r := range list {
		m.pool.Commit(r.row, r.tokens)
	}
	return logits, nil
}

// likeliest returns the token with the greatest logit, the first of equals; ok is false if there is none.
func likeliest(logits []float32) (best llm.Token, ok bool) {
	most := float32(math.Inf(-1))
	for t, v := range logits {
		if v > most { // not NaN
			most, best, ok = v, llm.Token(t), true
		}
	}
	return best, ok
}

// Check verifies the invariants of the cache, given all rows. An error is a bug in this program.
func (m *Model) Check(rows []*Row) error {
	list := make([]*kv.Row, len(rows))
	for i, r := range rows {
		if list[i] = r.row; r.row.Len() != len(r.tokens) {
			return fmt.Errorf("BUG: draft: a row of %d tokens has %d in the cache", len(r.tokens), r.row.Len())
		}
	}
	return m.pool.Check(list)
}

// Used returns how many blocks rows hold.
func (m *Model) Used() int { return m.pool.Used() }

// ErrModel is what the errors of a draft model wrap.
var ErrModel = errors.New("draft model failed")

// modelBefore is the chance of a guess of the model before there was one.
const modelBefore = 0.7

// Prior is how good the model's guesses were for all sequences, with which new ones begin.
type Prior struct {
	right float64 // chance of a first guess; 0 before one was seen
}

// chance returns the chance of a first guess.
func (p *Prior) chance() float64 {
	if p.right == 0 {
		return modelBefore
	}
	return p.right
}

// Observe records whether a first guess was right.
func (p *Prior) Observe(right bool) {
	was := 0.0
	if right {
		was = 1
	}
	p.right = max(p.chance()+(was-p.chance())/16, 0.01)
}

// StartModel sets the chances of the model's guesses by what is known of others.
func (q *Sequence) StartModel(p *Prior) {
	chance := p.chance()
	for i := range q.chances[Modelled].right {
		q.chances[Modelled].right[i] = chance
		chance *= p.chance()
	}
}

// ModelWorth returns how many tokens the first n guesses of the model are expected to save.
func (q *Sequence) ModelWorth(n int) (sum float64) {
	for _, c := range q.chances[Modelled].right[:min(n, MaxTokens)] {
		sum += c
	}
	return sum
}

// TakeModel takes what the model guessed in the place of the last Guess.
func (q *Sequence) TakeModel(h llm.History, guess []llm.Token) {
	guess = guess[:min(len(guess), MaxTokens, q.settings.Tokens)]
	q.tokens = append(q.tokens[:0], guess...)
	q.sources, q.expected = q.sources[:0], q.expected[:0]
	sum := 0.0
	for i := range guess {
		sum += q.chances[Modelled].right[i]
		q.sources, q.expected = append(q.sources, Modelled), append(q.expected, sum)
	}
	if len(guess) > 0 {
		q.chances[Modelled].probe(len(h.Output), guess)
	}
}

// ByModel reports whether the last guess is the model's.
func (q *Sequence) ByModel() bool { return len(q.sources) > 0 && q.sources[0] == Modelled }

// ModelOn reports whether the model is asked.
func (s *Settings) ModelOn() bool { return s.Tokens > 0 && !s.Off[Modelled] }

// GrantModel returns for how many tokens a model is asked, the same number for each of some sequences, at most so many:
// those for which the time that they save is longer by most than what the model and the step take for them. behind is
// how many tokens the model has to compute before its first guesses, and worth how many of the first k guesses of all
// sequences together are expected to be right. Nothing is known of the model before its first steps, which are tried.
func (b *Budget) GrantModel(model *Costs, sequences, behind, most int, worth func(k int) float64) int {
	now, ok := b.costs.estimate(b.tokens)
	if !ok || sequences == 0 {
		return 0
	}
	each, known := model.estimate(sequences)
	if !known {
		return most
	}
	first, _ := model.estimate(max(behind, sequences))
	first = each + (first-each)/amortised
	best, gain := 0, least*now*float64(sequences)/b.gained
	for k := 1; k <= most; k++ {
		saved := b.saved(k*sequences, worth(k), now) - first - float64(k-1)*each
		if saved > gain {
			best, gain = k, saved
		}
	}
	if best > 0 {
		b.tokens += best * sequences
		b.gained += worth(best)
	}
	return best
}

// amortised is over how many steps the model's work to catch up with a text counts.
const amortised = 32
