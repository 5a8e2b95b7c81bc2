package engine

import (
	"sync"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// Guests that guess run on the workers of user code. A step waits for them a moment only: what is not there by then is
// of use at a later step, as far as the tokens that came meanwhile are those that were guessed.

const (
	// proposeWait is how long a step waits for a guess.
	proposeWait = dearGuess / 2
	// proposeAlways is that with Settings.Always.
	proposeAlways = 100 * time.Millisecond
)

// proposer is a draft.Drafter that asks a sequence's guests. Its Draft is called on the step goroutine.
type proposer struct {
	guests *guestPool
	from   []sample.Proposer
	names  []string
	wait   time.Duration
	room   int // tokens that are asked for

	mu     sync.Mutex
	busy   bool
	ended  func() // to be called when no guest runs; nil before the end
	base   int    // tokens of the output behind which guess comes
	guess  []llm.Token
	answer chan struct{} // holds a token when an answer came
}

// newProposer returns what asks a sequence's guests. The sequence's user code is closed when none of them runs.
func (e *Engine) newProposer(q *sequence, list []sample.Proposer) *proposer {
	p := &proposer{guests: e.guests, from: list, wait: proposeWait, answer: make(chan struct{}, 1)}
	// what a guess lacks at its begin when it is late
	p.room = min(e.speculation.Tokens+1, maxProposed)
	if e.speculation.Always {
		p.wait = proposeAlways
	}
	for _, x := range list {
		p.names = append(p.names, x.Name)
	}
	done := q.done
	q.done = func() { p.end(done) }
	return p
}

// maxProposed bounds what a guest is asked for.
const maxProposed = 32

// Draft implements draft.Drafter.
func (p *proposer) Draft(h llm.History, ahead, room []llm.Token) int {
	if len(ahead) > 0 {
		return 0
	}
	if n := p.take(h, room); n > 0 {
		return n
	}
	if !p.ask(h) {
		return 0
	}
	timer := time.NewTimer(p.wait)
	defer timer.Stop()
	select {
	case <-p.answer:
		return p.take(h, room)
	case <-timer.C:
		return 0
	}
}

// take returns what is left of the last answer.
func (p *proposer) take(h llm.History, room []llm.Token) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	came := len(h.Output) - p.base
	if p.busy || came < 0 || came >= len(p.guess) {
		return 0
	}
	for i, t := range h.Output[p.base:] {
		if p.guess[i] != t {
			p.guess = nil
			return 0
		}
	}
	return copy(room, p.guess[came:])
}

// ask starts a question, unless one is under way.
func (p *proposer) ask(h llm.History) (asked bool) {
	p.mu.Lock()
	if p.busy || p.ended != nil {
		p.mu.Unlock()
		return false
	}
	p.busy, p.guess, p.base = true, nil, len(h.Output)
	select {
	case <-p.answer: // of a question that nobody waited for
	default:
	}
	p.mu.Unlock()
	p.guests.submit(p.names, func() { p.answerTo(h) })
	return true
}

// answerTo asks the guests. It runs on a worker; h is a view of tokens that never change.
func (p *proposer) answerTo(h llm.History) {
	room := make([]llm.Token, p.room)
	n := 0
	_ = catchPanic(func() error { // which skips the guest, as its errors do
		for _, x := range p.from {
			if n = x.Draft(h, nil, room); n > 0 {
				break
			}
		}
		return nil
	})
	p.mu.Lock()
	p.busy, p.guess = false, room[:max(min(n, len(room)), 0)]
	ended := p.ended
	if ended == nil {
		p.answer <- struct{}{} // ask emptied it, and asks no more while this is busy
	}
	p.mu.Unlock()
	if ended != nil {
		ended()
	}
}

// end calls done when no guest runs.
func (p *proposer) end(done func()) {
	if done == nil {
		done = func() {}
	}
	p.mu.Lock()
	p.ended = done
	busy := p.busy
	p.mu.Unlock()
	if !busy {
		done()
	}
}
