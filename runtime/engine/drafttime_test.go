package engine

import (
	"sync"
	"sync/atomic"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// slowDrafter guesses so many tokens, which are wrong, and takes its time for it.
type slowDrafter struct {
	took  time.Duration
	asked *[]int // whose guesses were asked for, in order
	who   int
	guess int
}

func (d slowDrafter) Draft(_ llm.History, _, room []llm.Token) int {
	time.Sleep(d.took)
	*d.asked = append(*d.asked, d.who)
	clear(room[:d.guess])
	return d.guess
}

// guessSlowly runs so many sequences whose drafters take long, beside each other. It returns the most time that a step
// spent on guesses, and how often each sequence was asked.
func guessSlowly(t *testing.T, sequences, tokens, guess int, took time.Duration, step func(tokens int) time.Duration) (
	most time.Duration, asked []int) {
	asked = make([]int, sequences)
	synctest.Test(t, func(t *testing.T) {
		var calls []int
		m := newFake(1024, 16, 256)
		m.before = func(s llm.Step) {
			most = max(most, time.Duration(len(calls))*took)
			for _, who := range calls {
				asked[who]++
			}
			calls = calls[:0]
			time.Sleep(step(len(s.Tokens)))
		}
		e := start(t, m, Config{Speculation: draft.Settings{Tokens: 8}})
		var wg sync.WaitGroup
		for i := range sequences {
			r := endless(tokens)
			r.Plugins = func(int) sample.Plugins { return sample.Plugins{Drafter: slowDrafter{took, &calls, i, guess}} }
			wg.Go(func() {
				if _, err := generate(e, r); err != nil {
					t.Error(err)
				}
			})
		}
		wg.Wait()
		e.Close()
	})
	return most, asked
}

func cheapSteps(int) time.Duration { return 20 * time.Millisecond }

// TestGuessesShareTheirTime: however many sequences guess, a step waits for about a millisecond of it, and each has its
// turn.
func TestGuessesShareTheirTime(t *testing.T) {
	most, asked := guessSlowly(t, 16, 100, 0, dearGuess, cheapSteps)
	if most > draftTime {
		t.Errorf("a step waited %v for guesses", most)
	}
	for i, n := range asked {
		if n == 0 {
			t.Errorf("sequence %d was never asked: %v", i, asked)
		}
	}
}

// TestDearGuessesRest: a sequence whose guesses take long is soon hardly asked, one whose guesses do not in each step.
func TestDearGuessesRest(t *testing.T) {
	if _, asked := guessSlowly(t, 1, 200, 0, 2*dearGuess, cheapSteps); asked[0] < 2 || asked[0] > 9 {
		t.Errorf("dear guesses were asked for %d times in 200 steps", asked[0])
	}
	if _, asked := guessSlowly(t, 1, 200, 0, dearGuess/2, cheapSteps); asked[0] < 180 {
		t.Errorf("quick guesses were asked for %d times in 200 steps", asked[0])
	}
}

// TestNoGuessIsAskedForInVain: where further tokens were seen to cost more than they can save, nobody is asked for any.
func TestNoGuessIsAskedForInVain(t *testing.T) {
	dear := func(tokens int) time.Duration { return 20 * time.Millisecond * time.Duration(tokens*tokens) }
	if _, asked := guessSlowly(t, 1, 200, 8, dearGuess/2, dear); asked[0] < 1 || asked[0] > 20 {
		t.Errorf("asked %d times in 200 steps", asked[0])
	}
}

// TestWaitsAreNoCostOfTokens: how long a step waits for user code says nothing about what its tokens take.
func TestWaitsAreNoCostOfTokens(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := newFake(64, 16, 256)
		m.before = func(llm.Step) { time.Sleep(2 * time.Millisecond) }
		e := byHand(t, m, Config{GuestWait: time.Second})
		var opened atomic.Int64
		r := endless(20)
		r.Plugins = func(int) sample.Plugins {
			s := &slowly{t: t, sleep: func() time.Duration { return 100 * time.Millisecond }, opened: &opened}
			return s.wrap(newState().plugins(), "guest")
		}
		submit(t, e, t.Context(), r)
		for e.step() {
		}
		e.costs.Observe(4, 20*time.Millisecond) // three tokens more cost 18 ms, and save 6 at most
		if b := e.costs.Budget(1); b.Grants(3) {
			t.Error("a step's wait counts as a cost of its token")
		}
	})
}
