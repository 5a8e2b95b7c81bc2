package engine

import (
	"context"
	"io"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/llm"
	"tgi/runtime/sched"
)

// mean is the mean of the gaps that end between from and to.
func mean(streams [][]time.Time, from, to time.Time) time.Duration {
	sum, n := time.Duration(0), 0
	for _, at := range streams {
		for i := 1; i < len(at); i++ {
			if at[i].After(from) && !at[i].After(to) {
				sum += at[i].Sub(at[i-1])
				n++
			}
		}
	}
	return sum / time.Duration(max(n, 1))
}

// line generates a line of a batch and returns when each token came, and what they are.
func line(t *testing.T, e *Engine, i int, beneath bool) (at []time.Time, tokens []llm.Token) {
	r := promptOf(uint64(10+i), 16, 400)
	r.Client, r.Beneath = "batch", beneath
	st, err := e.Submit(t.Context(), r)
	if err != nil {
		t.Error(err)
		return nil, nil
	}
	defer st.Close()
	for {
		x, err := st.Next(t.Context())
		if err == io.EOF {
			return at, tokens
		}
		if err != nil {
			t.Error(err)
			return nil, nil
		}
		at, tokens = append(at, time.Now()), append(tokens, x.Token)
	}
}

// TestBatchBesideStreams has 24 requests beneath others come while two streams run. The streams' gaps grow by about a
// third at most, the batch goes on meanwhile, and has the whole width when the streams have ended. Its tokens are those
// of requests that are beneath nobody.
func TestBatchBesideStreams(t *testing.T) {
	const lines = 24
	for _, p := range processors {
		synctest.Test(t, func(t *testing.T) {
			m := newFake(4096, 16, 4096)
			m.before = func(s llm.Step) { time.Sleep(p.step(s)) }
			e := start(t, m, Config{PromptStretch: 2.5, Settings: sched.Settings{MaxBatchPrefillTokens: 512}})
			var streams, batch [2 * lines][]time.Time
			ctx, stop := context.WithCancel(t.Context())
			var texts [lines][]llm.Token
			var all, rest sync.WaitGroup
			for i := range 2 {
				all.Go(func() {
					var err error
					if streams[i], err = times(ctx, e, promptOf(uint64(i), 64, 3000)); err != nil {
						t.Error(err)
					}
				})
			}
			time.Sleep(2*p.solo(128) + 100*(p.weights+2*p.row+400*p.behind))
			came := time.Now()
			for i := range lines {
				rest.Go(func() {
					batch[i], texts[i] = line(t, e, i, true)
				})
			}
			time.Sleep(600 * (p.weights + 2*p.row + 400*p.behind))
			ended := time.Now()
			m.mu.Lock()
			before := m.maxRows
			m.mu.Unlock()
			stop()
			all.Wait()
			rest.Wait()
			m.mu.Lock()
			widest := m.maxRows
			m.mu.Unlock()
			for i := range lines {
				if _, want := line(t, e, i, false); len(want) != 400 || !slices.Equal(texts[i], want) {
					t.Errorf("line %d has other tokens than the request", i)
				}
			}
			e.Close()
			quiet := mean(streams[:], came.Add(-80*(p.weights+2*p.row)), came)
			with := mean(streams[:], came, ended)
			slow, without := p99(streams[:], came, ended), p99(streams[:], came.Add(-80*(p.weights+2*p.row)), came)
			done, left := 0, 0
			for _, at := range batch {
				n := 0
				for n < len(at) && !at[n].After(ended) {
					n++
				}
				if done += n; n < len(at) {
					left++
				}
			}
			t.Logf("%s: gaps of %v, p99 %v, alone %v, %v; %d tokens beneath, %d rows at most, then %d", p.name, with,
				slow, quiet, without, done, before, widest)
			if with > quiet*3/2 || with < quiet*11/10 {
				t.Errorf("%s: gaps of %v beside a batch, %v alone", p.name, with, quiet)
			}
			if slow > without*5/2 {
				t.Errorf("%s: slow gaps of %v beside a batch, %v alone", p.name, slow, without)
			}
			if done < 100 {
				t.Errorf("%s: the batch has %d tokens", p.name, done)
			}
			if before > 2+lines/2 || widest < left-2 || left < lines/2 {
				t.Errorf("%s: %d rows beside the streams, then %d of %d lines", p.name, before, widest, left)
			}
		})
	}
}
