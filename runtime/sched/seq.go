package sched

import (
	"container/list"
	"slices"

	"tgi/runtime/kv"
	"tgi/runtime/llm"
)

// Seq is one sequence, from Add until it ends. Its fields change only inside calls of
// its Scheduler.
type Seq struct {
	id     uint64 // place in the order of arrival: less is older
	rank   int    // order in the queues, before id: its virtual start, see fair.go
	state  state
	tokens []llm.Token // prompt and output
	prompt int         // tokens of the prompt
	max    int         // tokens to generate at most
	row    *kv.Row
	long   bool // more tokens than Shape.OriginalLen, and the row's keys and values are those of such
	// adapter and embeddings of a sequence or a group; the rows of a group have none of their own.
	adapter    llm.Adapter
	embeddings []llm.Embedding

	score      bool        // the logits of prompt positions are wanted
	scored     int         // how many prompt positions have had theirs
	cached     int         // prompt tokens found in the cache when first admitted
	admissions int         // times admitted
	drafts     []llm.Token // of Draft, until Plan
	ahead      []llm.Token // of a parked sequence: the drafts that its row computed behind its tokens
	parked     bool        // its next token is not known yet: see Result.Pending; set on a group, not on its rows
	// followers start where this sequence's prompt ends, sharing its cache.
	followers []*Seq
	leader    *Seq    // the sequence that it follows, until then
	self      [1]*Seq // the sequence itself: the usual Samples of its row

	context bool // it rests between spans
	// Of a context: its client's name, its place among those that may lose their blocks, and whether something was
	// computed of it before the span.
	owner   string
	request *Request
	share   float64 // of the owner
	under   bool    // the owner stands beneath others
	rested  *list.Element
	returns bool

	client *client
	before int // computed for sequences of the client that ended, between it and the next older one, as virtual time
	// computed is how many tokens were computed for it, again and again if it was preempted; spent their virtual time.
	computed, spent int

	granted int // tokens that it may compute in the step, if it has to give way

	priority  int // among those of its client that have not run: less goes first
	overtaken int // jobs that came later and went before it

	width int  // of a group: its maximum number of rows; otherwise 0
	twins bool // of a group: its rows have prompts of their own and one output
	// withholds says that others find of the output what Result.Shown says.
	withholds bool
	rows      []*Seq // of a group, which has no cache row of its own
	group     *Seq   // the group that this row belongs to
}

type state uint8

const (
	waiting state = iota
	running
	following // waits for its leader's prompt
	ended
	inGroup // the group holds the state
	resting // a context between its spans
)

// Prompt returns the prompt's tokens: a view that must not be changed.
func (q *Seq) Prompt() []llm.Token { return q.tokens[:q.prompt:q.prompt] }

// Output returns the tokens generated so far, of twins those that all rows have: a view that stays valid but does not
// grow. Beams have none in common.
func (q *Seq) Output() []llm.Token {
	if q.twins {
		q = q.rows[0]
	}
	return q.tokens[q.prompt:len(q.tokens):len(q.tokens)]
}

// Tokens returns prompt and output: a view that must not be changed.
func (q *Seq) Tokens() []llm.Token { return q.tokens[:len(q.tokens):len(q.tokens)] }

// Spent returns how many tokens were computed for the sequence, or for the last span of a context, again and again if
// it was preempted.
func (q *Seq) Spent() int { return q.computed }

// Cached returns how many prompt tokens of the sequence, or group, the cache held when
// it was first admitted.
func (q *Seq) Cached() int { return q.cached }

// Parked reports whether the sequence, or group, waits for Resolve.
func (q *Seq) Parked() bool { return q.parked }

// uncomputed returns how many known tokens have not been computed; >= 1 while the
// sequence lives and is not parked.
func (q *Seq) uncomputed() int { return len(q.tokens) - q.row.Len() }

// needsScores reports whether logits of prompt positions are still wanted. The
// prompt's last position does not count: its logits pick a token.
func (q *Seq) needsScores() bool { return q.score && q.scored < q.prompt-1 }

// queue is a list of sequences in order of rank.
type queue []*Seq

func (l queue) find(q *Seq) (int, bool) { return slices.BinarySearchFunc(l, q, (*Seq).compare) }

// next returns the first sequence that is not parked, or nil.
func (l queue) next() *Seq {
	for _, q := range l {
		if !q.parked {
			return q
		}
	}
	return nil
}

func (l *queue) insert(q *Seq) {
	i, _ := l.find(q)
	*l = slices.Insert(*l, i, q)
}

func (l *queue) remove(q *Seq) {
	if i, ok := l.find(q); ok {
		*l = slices.Delete(*l, i, i+1)
	}
}

// parked counts the parked sequences.
func (l queue) parked() (n int) {
	for _, q := range l {
		if q.parked {
			n++
		}
	}
	return n
}
