package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

// useContexts opens contexts, and forks, changes and resumes those that rest.
func (g *game) useContexts() {
	s, c := g.s, g.choose
	g.countReclaimed()
	if c(6) == 0 {
		j := Job{Prompt: prompt(c(3), c(s.Settings().MaxInputTokens)), Client: "context"}
		j.Beneath = g.yields && c(2) == 0
		q := s.Open(j)
		g.all, g.want[q] = append(g.all, q), j.Prompt
	}
	for _, q := range g.all {
		if q.owner == "" || q.state != resting {
			continue
		}
		switch c(6) {
		case 0:
			n := c(len(q.tokens) + 1)
			f := s.Fork(q, n)
			g.all, g.want[f] = append(g.all, f), q.tokens[:n]
			g.forks++
		case 1:
			add := prompt(c(3), c(9))
			s.Append(q, add)
			g.want[q] = append(slices.Clone(g.want[q]), add...)
		case 2:
			n := c(len(q.tokens) + 1)
			s.Truncate(q, n)
			g.want[q] = g.want[q][:n]
		case 3:
			s.Abort(q)
		default:
			g.resume(q)
		}
		if err := s.Check(); err != nil {
			g.t.Fatal(err)
		}
	}
}

// countReclaimed counts the contexts that rest and have lost their blocks.
func (g *game) countReclaimed() {
	for _, q := range g.all {
		if q.state == resting && q.rested == nil && q.row.Len() == 0 && q.returns {
			g.reclaimed++
		}
	}
}

func (g *game) resume(q *Seq) {
	c, n := g.choose, len(q.tokens)
	score := 0
	if n > 1 && c(3) == 0 {
		score = 1 + c(n-1)
	}
	held := len(q.row.Blocks())
	if err := g.s.Resume(q, 1+c(20), score); err == nil {
		g.scores[q] = score
		g.spans++
		g.kept += min(held, 1)
	} else if n > 0 && n < g.s.settings.MaxInputTokens-20 && n+20 < g.s.settings.MaxTotalTokens {
		g.t.Fatal(err)
	}
}

// TestRandomContexts plays all that a scheduler does at random, with contexts beside it.
func TestRandomContexts(t *testing.T) {
	var all tally
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 23))
		g := &game{t: t, choose: r.IntN, limit: 250, contexts: true}
		g.play()
		all.add(g.tally)
	}
	if all.forks < 1000 || all.spans < 1000 || all.kept < 120 || all.reclaimed < 30 || all.late < 30 ||
		all.preempted < 100 {
		t.Errorf("too little was tried: %+v", all)
	}
}

// TestContextTraces plays scripts of one context or two: what is done between two steps, and what they compute.
func TestContextTraces(t *testing.T) {
	sh := Shape{Blocks: 6, BlockSize: 4, MaxLen: 400}
	s := newScheduler(t, Settings{NoPrefixSharing: true}, sh)
	step := func(want string, r ...Result) {
		t.Helper()
		p := s.Plan()
		if got := show(p); got != want {
			t.Fatalf("planned %s, want %s", got, want)
		}
		s.Commit(p, r)
		if err := s.Check(); err != nil {
			t.Fatal(err)
		}
	}
	resume := func(q *Seq, most, score int) {
		t.Helper()
		if err := s.Resume(q, most, score); err != nil {
			t.Fatal(err)
		}
	}
	one, last, end := []llm.Token{9}, Result{Tokens: []llm.Token{9}, Rest: true}, Result{Rest: true, End: true}
	q := s.Open(Job{Prompt: prompt(1, 6)})
	resume(q, 9, 0)
	step("2[0:6]!", Result{Tokens: one})
	step("2[6:7]!", last)
	if got := q.Tokens(); len(got) != 8 || len(q.Prompt()) != 8 {
		t.Fatalf("%d tokens, %d of them are the prompt", len(got), len(q.Prompt()))
	}
	s.Append(q, prompt(2, 2))
	resume(q, 9, 0)
	step("3[7:10]!", end) // the token that ended the span before was not computed yet
	f := s.Fork(q, 9)
	if used, _, _ := s.Cache(); used != 3 {
		t.Errorf("a fork takes blocks: %d are used", used)
	}
	s.Append(f, prompt(3, 2))
	resume(f, 9, 2) // the positions before the last two are scored, which computes the one before them again
	p := s.Plan()
	if got := show(p); got != "5[8:11]?2!" || p.Rows[0].Scores != 2 || p.Rows[0].FirstScore != 8 {
		t.Fatalf("planned %s, %d positions are scored from %d on", got, p.Rows[0].Scores, p.Rows[0].FirstScore)
	}
	s.Commit(p, []Result{end})
	resume(q, 9, 0) // all is computed: the last token again
	step("6[9:10]!", end)
	// whoever lacks blocks takes those of the context that rests longest
	add(t, s, Job{Prompt: prompt(4, 14), MaxNew: 3})
	step("7[0:14]!", Result{Tokens: one})
	if len(f.row.Blocks()) != 0 || len(q.row.Blocks()) != 0 {
		t.Errorf("the contexts keep %d and %d blocks", len(f.row.Blocks()), len(q.row.Blocks()))
	}
	step("7[14:15]!", Result{Tokens: one})
	step("7[15:16]!", Result{Tokens: one, End: true})
	resume(f, 3, 0)
	step("8[0:11]!", end) // nothing of it is left without the prefix cache
	s.Abort(q)
	s.Abort(f)
	if used, _, _ := s.Cache(); used != 0 || s.rested.Len() != 0 {
		t.Errorf("%d blocks are used, %d contexts rest", used, s.rested.Len())
	}
}

// TestForksFollow: forks that are resumed together compute what they have in common once, whoever of them ends before.
func TestForksFollow(t *testing.T) {
	one, last := Result{Tokens: []llm.Token{9}}, Result{Tokens: []llm.Token{9}, Rest: true}
	for name, c := range map[string]struct {
		abort func(s *Scheduler, q []*Seq) // before the first step, or nil
		then  func(s *Scheduler, q []*Seq) // behind the first of two chunks
		want  []string
	}{
		"all": {nil, nil, []string{"4[0:4]", "4[4:6]!3", "4[6:7]! 5[6:7]! 6[6:7]!"}},
		"without the last": {func(s *Scheduler, q []*Seq) { s.Abort(q[2]) }, nil,
			[]string{"4[0:4]", "4[4:6]!2", "4[6:7]! 5[6:7]!"}},
		"without the first": {func(s *Scheduler, q []*Seq) { s.Abort(q[0]) }, nil,
			[]string{"5[0:4]", "5[4:6]!2", "5[6:7]! 6[6:7]!"}},
		"without the first of two chunks": {nil, func(s *Scheduler, q []*Seq) { s.Abort(q[0]) },
			[]string{"4[0:4]", "5[4:6]!2", "5[6:7]! 6[6:7]!"}},
		"without two": {func(s *Scheduler, q []*Seq) { s.Abort(q[0]) }, func(s *Scheduler, q []*Seq) { s.Abort(q[1]) },
			[]string{"5[0:4]", "6[4:6]!", "6[6:7]!"}},
	} {
		s := newScheduler(t, Settings{NoPrefixSharing: true, MaxBatchPrefillTokens: 4},
			Shape{Blocks: 20, BlockSize: 4, MaxLen: 400})
		q := []*Seq{s.Open(Job{Prompt: prompt(1, 6), Client: "a"})}
		q = append(q, s.Fork(q[0], 6), s.Fork(q[0], 6))
		for _, x := range q {
			if err := s.Resume(x, 2, 0); err != nil {
				t.Fatal(err)
			}
		}
		if c.abort != nil {
			c.abort(s, q)
		}
		for i, want := range c.want {
			if err := s.Check(); err != nil {
				t.Fatal(name, err)
			}
			p := s.Plan()
			if got := show(p); got != want {
				t.Errorf("%s: planned %s, want %s", name, got, want)
			}
			results := slices.Repeat([]Result{one}, p.Samples)
			if i == 2 {
				results = slices.Repeat([]Result{last}, p.Samples)
			}
			s.Commit(p, results)
			if i == 0 && c.then != nil {
				c.then(s, q)
			}
		}
		if err := s.Check(); err != nil {
			t.Fatal(name, err)
		}
		for _, x := range q {
			if x.state != resting && x.state != ended {
				t.Errorf("%s: state %d", name, x.state)
			}
			s.Abort(x)
		}
		if used, _, _ := s.Cache(); used != 0 {
			t.Errorf("%s: %d blocks are left", name, used)
		}
	}
}

// TestContextsAreNewArrivals: a context that rests holds nothing back for its client, and has no part in what clients
// share.
func TestContextsAreNewArrivals(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchSize: 1}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 400})
	q := s.Open(Job{Prompt: prompt(1, 4), Client: "a"})
	if s.Waiting()+s.Running() != 0 || len(s.clients.active) != 0 {
		t.Fatal("a context that rests counts")
	}
	add(t, s, Job{Prompt: prompt(2, 4), MaxNew: 1, Client: "a"})
	if err := s.Resume(q, 2, 0); err != nil {
		t.Fatal(err)
	}
	if got := show(s.Plan()); got != "2[0:4]!" {
		t.Errorf("planned %s: the context goes before what came earlier", got)
	}
}

// TestContextIsRefused: what its owner must not do.
func TestContextIsRefused(t *testing.T) {
	for want, try := range map[string]func(s *Scheduler, q *Seq){
		"Fork at 5 of 4":              func(s *Scheduler, q *Seq) { s.Fork(q, 5) },
		"Fork at 4 of 4":              func(s *Scheduler, q *Seq) { _ = s.Resume(q, 1, 0); s.Fork(q, 4) },
		"Append in state 0":           func(s *Scheduler, q *Seq) { _ = s.Resume(q, 1, 0); s.Append(q, nil) },
		"Resume of 4 tokens, 4 score": func(s *Scheduler, q *Seq) { _ = s.Resume(q, 1, 4) },
		"in state 0":                  func(s *Scheduler, q *Seq) { _ = s.Resume(q, 1, 0); _ = s.Resume(q, 1, 0) },
		"Truncate to 5 tokens":        func(s *Scheduler, q *Seq) { s.Truncate(q, 5) },
	} {
		func() {
			s := newScheduler(t, Settings{}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400})
			q := s.Open(Job{Prompt: prompt(1, 4)})
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, want) {
					t.Errorf("got %s, want %s", r, want)
				}
			}()
			try(s, q)
		}()
	}
	s := newScheduler(t, Settings{MaxTotalTokens: 8}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400})
	for _, q := range []*Seq{s.Open(Job{}), s.Open(Job{Prompt: prompt(1, 6)})} {
		if err := s.Resume(q, 3, 0); err == nil || s.Waiting() != 0 {
			t.Errorf("%d tokens and 3 more of 8: %v, %d wait", len(q.tokens), err, s.Waiting())
		}
	}
}
