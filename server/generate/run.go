package generate

import (
	"context"
	"errors"
	"io"
	"net/http"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/wire"
)

// Timings of a request that ran to its end.
type Timings struct {
	// Total is from arrival to the last token.
	Total time.Duration
	// Validation is checking and tokenizing, Queue the wait for the first step,
	// Inference the rest.
	Validation, Queue, Inference time.Duration
	// PerToken is Inference over the generated tokens of the longest sequence.
	PerToken time.Duration
}

// Sequence is one finished sequence.
type Sequence struct {
	// Finish says how it ended and holds its text.
	Finish llm.Finish
	// Tokens as generated, the end-of-sequence token included.
	Tokens []Token
	// Top holds the likeliest tokens of each step; empty when not asked for.
	Top [][]Token
	// Explained tells how the first tokens came to be; empty when not asked for.
	Explained []*llm.Explanation
}

// Result is a request that ran to its end.
type Result struct {
	// Best is the sequence with the highest mean log-probability, the first of
	// equals; Others keep their order.
	Best   Sequence
	Others []Sequence
	// Prefill holds the prompt's tokens when they were asked for.
	Prefill []PromptToken
	// Skipped are the plugins that failed and were passed over since.
	Skipped []Skip
	// Dropped is what the grammar is not held to.
	Dropped []Dropped
	// Receipt is what the reply follows from, if the request wanted to know.
	Receipt *Receipt
	Timings Timings
}

// Run is a submitted request. It belongs to one goroutine and must be closed.
type Run struct {
	// Request is what runs.
	Request Request

	service      *Service
	client       string // whose places it has
	streams      bool   // Draft.Stream
	stream       Stream
	conversation *Conversation // nil for a text
	code         BoundCode
	// What code has begun: the user code of each sequence, nil for none, and their parsers, one for each or none at
	// all.
	sequence func(int) sample.Plugins
	parsers  []Parser
	dropped  []Dropped // skipMu guards it once programs run
	unknown  []string

	programs     *programs // that generate the texts; otherwise nil
	calls        heldCalls // by their runs
	skipMu       sync.Mutex
	programSkips []Skip // what their runs went on without

	guarded    bool        // guards read the texts
	used       Used        // user code
	outputs    []*tokenSum // of each sequence, for the receipt; nil for none
	grammarSum string      // likewise
	imageSum   string

	adapter        Adapter
	adapterName    string
	releaseAdapter func()

	cancel    context.CancelFunc
	began     time.Time
	submitted time.Time
	last      []time.Time  // of each sequence's latest token
	finishes  []llm.Finish // of the sequences that finished
	queued    time.Duration
	err       error        // what ended the stream early
	generated int          // tokens of all sequences
	unseen    atomic.Int64 // engine.Request.Unseen
	settle    Settle       // of the key's tokens; nil when that was done
	given     bool         // the permits were given back
	closed    bool
}

// Next returns the next token. It returns io.EOF after the last one,
// ErrIncomplete when the engine's stream ends too early, and ctx's cause when
// ctx ends first: that loses nothing, Next may be called again.
func (r *Run) Next(ctx context.Context) (Event, error) {
	e, err := r.stream.Next(ctx)
	if err != nil {
		if ctx.Err() != nil {
			return Event{}, context.Cause(ctx)
		}
		if errors.Is(err, io.EOF) && r.over() {
			return Event{}, io.EOF
		}
		if errors.Is(err, io.EOF) {
			err = ErrIncomplete
		}
		r.err = err
		return Event{}, r.conceal(err)
	}
	r.generated++
	before := r.last[e.Index]
	first := before.IsZero()
	if first {
		before = r.submitted
	}
	r.last[e.Index] = time.Now()
	r.service.observe.Token(first, r.last[e.Index].Sub(before))
	r.countOutput(&e)
	if e.Finish != nil {
		r.finishes = append(r.finishes, *e.Finish)
		if e.Index == 0 {
			r.queued = e.Timings.Queued
		}
		// A client that reads the last event of a stream may send its next request at once, so the permits are
		// given back before it. Other replies are written first: until then the permits bound how many are in memory.
		if r.streams && r.over() {
			r.settleTokens()
			r.give()
		}
	}
	return e, nil
}

// over says that all sequences have finished.
func (r *Run) over() bool { return len(r.finishes) == r.Request.Sequences }

// give gives the places back.
func (r *Run) give() {
	if !r.given {
		r.given = true
		r.service.permits.give(r.client, r.Request.rows(), time.Now())
	}
}

// Close ends what still runs, waits until the engine has let go of it, which takes a step at most, gives the permits
// back and reports how the request went. It may be called more than once.
func (r *Run) Close() {
	if r.closed {
		return
	}
	r.closed = true
	r.cancel()
	if !r.over() {
		r.drain()
	}
	r.waitPrograms()
	r.code.Close()
	r.releaseAdapter()
	r.settleTokens()
	r.give()
	switch {
	case r.over():
		r.service.observe.Finished(r.Timings(), r.finishes)
	case r.err != nil:
		r.service.observe.Refused(r.err)
	default:
		r.service.observe.Refused(context.Canceled)
	}
}

// drain waits for the end of a stream that was canceled: without that, clients that leave could fill the engine while
// the permits look free. Each sequence may have an error of its own before the stream's, which does not go away.
func (r *Run) drain() {
	for failed := 0; failed <= r.Request.Sequences; {
		if _, err := r.stream.Next(context.Background()); err != nil {
			failed++
		}
	}
}

// AppendStopReason writes the member stop_reason, which names the plugin that ended a text, and stop_detail with what a
// guard says of that; nothing where none did.
// finish_reason keeps to the words of the API, since clients refuse others.
func AppendStopReason(b []byte, f *llm.Finish) []byte {
	if f.StoppedBy == "" {
		return b
	}
	b = wire.AppendString(append(b, `,"stop_reason":`...), "plugin:"+f.StoppedBy)
	if f.Why == "" {
		return b
	}
	return wire.AppendString(append(b, `,"stop_detail":`...), f.Why)
}

// SetSkipped sets the header that names the plugins that failed and were passed over; none where there are none.
func SetSkipped(h http.Header, skips []Skip) { setSkipped(h, "", skips) }

// TrailSkipped is SetSkipped for a reply whose header was sent: what was not in the header comes in the trailer.
func TrailSkipped(h http.Header, skips []Skip) {
	if h.Get(skippedHeader) != skippedNames(skips) {
		setSkipped(h, http.TrailerPrefix, skips)
	}
}

// skippedHeader names the plugins that failed and were passed over.
const skippedHeader = "X-Plugin-Skipped"

func setSkipped(h http.Header, prefix string, skips []Skip) {
	if len(skips) > 0 {
		h.Set(prefix+skippedHeader, skippedNames(skips))
	}
}

func skippedNames(skips []Skip) string {
	names := make([]string, len(skips))
	for i, s := range skips {
		names[i] = s.Plugin
	}
	slices.Sort(names)
	return strings.Join(slices.Compact(names), ", ")
}

// TokenOf returns the token that e is about.
func TokenOf(e *Event) Token {
	return Token{Token: e.Token, Text: e.Text, Logprob: e.Logprob, Special: e.Special,
		Replaced: e.Replaced || e.Healed}
}

// Collect reads the run to its end.
func (r *Run) Collect(ctx context.Context) (Result, error) {
	var res Result
	seqs := make([]Sequence, r.Request.Sequences)
	for {
		e, err := r.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return Result{}, err
		}
		if e.Prefill != nil {
			res.Prefill = e.Prefill
		}
		s := &seqs[e.Index]
		s.Tokens = append(s.Tokens, TokenOf(&e))
		if r.Request.Params.TopN > 0 {
			s.Top = append(s.Top, e.Top)
		}
		if e.Explained != nil {
			s.Explained = append(s.Explained, e.Explained)
		}
		if e.Finish != nil {
			s.Finish = *e.Finish
		}
	}
	res.Timings, res.Skipped, res.Dropped = r.Timings(), r.Skipped(), r.Dropped()
	res.Receipt = r.Receipt()
	best := 0
	for i := range seqs {
		if meanLogprob(seqs[i].Tokens) > meanLogprob(seqs[best].Tokens) {
			best = i
		}
	}
	res.Best = seqs[best]
	res.Others = append(append(res.Others, seqs[:best]...), seqs[best+1:]...)
	return res, nil
}

// Timings of the run; final once Next returned io.EOF.
func (r *Run) Timings() Timings {
	t := Timings{Validation: r.Request.Checked, Queue: r.queued}
	end := r.submitted
	for _, at := range r.last {
		if at.After(end) {
			end = at
		}
	}
	t.Total = end.Sub(r.began)
	t.Inference = max(0, end.Sub(r.submitted)-r.queued)
	longest := 1
	for _, f := range r.finishes {
		longest = max(longest, f.Generated)
	}
	t.PerToken = t.Inference / time.Duration(longest)
	return t
}
