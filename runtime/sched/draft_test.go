package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

// TestDraftTraces plays a step per line: the drafts that are given before it, as "1:3" for three of sequence 1; the
// plan; and how many of each row's drafts are right, 0 without a word.
func TestDraftTraces(t *testing.T) {
	roomy := Shape{Blocks: 100, BlockSize: 4, MaxLen: 400}
	for _, c := range []struct {
		name  string
		set   Settings
		sh    Shape
		jobs  []Job
		trace string
		used  int // blocks at the end
	}{
		{"all right, some right, none", Settings{}, roomy, []Job{{Prompt: prompt(1, 3), MaxNew: 20}}, `
			     | 1[0:3]!
			1:4  | 1[3:4]+4!   | 4
			1:4  | 1[8:9]+4!   | 2
			1:4  | 1[11:12]+4! | 0
			     | 1[12:13]!`, 4},
		{"no more than may be generated", Settings{}, roomy, []Job{{Prompt: prompt(1, 3), MaxNew: 6}}, `
			1:9  | 1[0:3]!
			1:9  | 1[3:4]+4!   | 2
			1:9  | 1[6:7]+1!`, 2},
		{"no more than a step may have", Settings{MaxBatchDraftTokens: 5}, roomy,
			[]Job{{Prompt: prompt(1, 3), MaxNew: 20}, {Prompt: prompt(2, 3), MaxNew: 20}}, `
			        | 1[0:3]! 2[0:3]!
			1:4 2:4 | 1[3:4]+4! 2[3:4]+1! | 1 1
			2:6     | 1[5:6]! 2[5:6]+5!   | 2`, 5},
		{"none for forks of a prompt", Settings{}, roomy, []Job{{Prompt: prompt(1, 3), MaxNew: 20, N: 2}}, `
			1:2     | 1[0:3]!2
			1:2 2:2 | 1[3:4]+2! 2[3:4]+2! | 0 2`, 4},
		{"what does not fit into the blocks is dropped first", Settings{NoPrefixSharing: true},
			Shape{Blocks: 4, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 3), MaxNew: 9}, {Prompt: prompt(2, 6), MaxNew: 3}}, `
			     | 1[0:3]! 2[0:6]!
			1:7  | 1[3:4]+4! 2[6:7]! | 0
			1:7  | 1[4:5]+3! 2[7:8]! | 1
			1:7  | 1[6:7]+4!         | 1
			1:7  | 1[8:9]+2!         | 0`, 3},
		{"prompts are admitted before drafts get blocks", Settings{NoPrefixSharing: true},
			Shape{Blocks: 4, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 3), MaxNew: 9}, {Prompt: prompt(2, 12), MaxNew: 1}}, `
			     | 1[0:3]!
			1:8  | 1[3:4]+7! | 0`, 2},
		{"none across the original context", Settings{}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 400, OriginalLen: 8},
			[]Job{{Prompt: prompt(1, 4), MaxNew: 20}}, `
			     | 1[0:4]!
			1:9  | 1[4:5]+3!  | 3
			1:9  | 1[0:9]! -1
			1:9  | 1[9:10]+9! | 0`, 3},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, c.set, c.sh)
			var all []*Seq
			for _, j := range c.jobs {
				all = append(all, add(t, s, j)...)
			}
			for _, line := range strings.Split(strings.TrimSpace(c.trace), "\n") {
				part := append(strings.Split(line, "|"), "")
				for _, d := range strings.Fields(part[0]) {
					var id, n int
					fmt.Sscanf(d, "%d:%d", &id, &n)
					s.Draft(all[id-1], slices.Repeat([]llm.Token{7}, n))
				}
				p := s.Plan()
				if got, want := show(p), strings.TrimSpace(part[1]); got != want {
					t.Fatalf("planned %s, want %s", got, want)
				}
				right := strings.Fields(part[2])
				var results []Result
				for _, r := range p.Rows {
					n := 0
					if len(r.Drafts) > 0 && len(right) > 0 {
						fmt.Sscan(right[0], &n)
						right = right[1:]
					}
					for _, q := range r.Samples {
						results = append(results, Result{Tokens: append(slices.Clone(r.Drafts[:n]), 7),
							End: len(q.Output())+n+1 >= q.max})
					}
				}
				s.Commit(p, results)
				if err := s.Check(); err != nil {
					t.Fatal(err)
				}
			}
			if used, _, _ := s.Cache(); used != c.used {
				t.Errorf("%d blocks are in use, want %d", used, c.used)
			}
		})
	}
}

// TestDraftsThatStayAreCharged: a client pays for each token of its text once, however it was computed, and not for
// guesses that were wrong.
func TestDraftsThatStayAreCharged(t *testing.T) {
	for _, late := range []bool{false, true} {
		for right := range 5 {
			s := newScheduler(t, Settings{}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 400})
			q := add(t, s, Job{Prompt: prompt(1, 3), MaxNew: 20})[0]
			s.Commit(s.Plan(), []Result{{Tokens: []llm.Token{7}}})
			s.Draft(q, []llm.Token{7, 7, 7, 7})
			p := s.Plan()
			r := Result{Tokens: append(slices.Clone(p.Rows[0].Drafts[:right]), 9)}
			if late {
				s.Commit(p, []Result{{Pending: true}})
				s.Resolve(q, r)
			} else {
				s.Commit(p, []Result{r})
			}
			if want := 3 + 1 + right; q.computed != want {
				t.Errorf("late %v, %d of 4 guesses right: %d tokens are charged, want %d", late, right, q.computed, want)
			}
		}
	}
}

// TestRandomDrafts plays everything that a scheduler does at random, with drafts and rewinds.
func TestRandomDrafts(t *testing.T) {
	var all tally
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 19))
		g := &game{t: t, choose: r.IntN, limit: 300}
		g.play()
		all.add(g.tally)
	}
	if all.drafts < 1000 || all.accepted < 300 || all.late < 50 || all.lost < 5 || all.cut < 200 || all.cutLong < 5 ||
		all.preempted < 100 {
		t.Errorf("too little was tried: %+v", all)
	}
}

// FuzzDrafts is TestRandomDrafts with the fuzzer's choices, of which the first one is whether there are contexts too.
func FuzzDrafts(f *testing.F) {
	for seed := range uint64(8) {
		r := rand.New(rand.NewPCG(seed, 7))
		choices := make([]byte, 600)
		for i := range choices {
			choices[i] = byte(r.Uint32())
		}
		f.Add(choices)
	}
	f.Fuzz(func(t *testing.T, choices []byte) {
		at := 0
		g := &game{t: t, limit: 1000, choose: func(n int) int {
			if at == len(choices) {
				return 0
			}
			at++
			return int(choices[at-1]) % n
		}}
		g.more = func() bool { return at < len(choices) }
		g.contexts = g.choose(2) == 1
		g.play()
	})
}

// game plays a scheduler with a memory of what a backend would have in its cache: each row must find its own tokens
// there, computed as those of a sequence of its length.
type game struct {
	t      *testing.T
	choose func(n int) int
	more   func() bool
	limit  int // steps in which something new happens
	s      *Scheduler
	sh     Shape
	cache  map[int32]written
	all    []*Seq
	want   map[*Seq][]llm.Token // the tokens that each should have
	// contexts: there are some too. scores are how many of their positions are still to be scored.
	contexts bool
	// yields: the client "b", and some contexts, stand beneath the others.
	yields bool
	scores map[*Seq]int
	tally
}

type tally struct {
	drafts, accepted, late, lost, cut, cutLong, preempted, forks, spans, kept, reclaimed, yielded, paused int
}

func (t *tally) add(o tally) {
	t.drafts, t.accepted, t.late, t.lost = t.drafts+o.drafts, t.accepted+o.accepted, t.late+o.late, t.lost+o.lost
	t.cut, t.cutLong, t.preempted = t.cut+o.cut, t.cutLong+o.cutLong, t.preempted+o.preempted
	t.forks, t.spans, t.kept, t.reclaimed = t.forks+o.forks, t.spans+o.spans, t.kept+o.kept, t.reclaimed+o.reclaimed
	t.yielded, t.paused = t.yielded+o.yielded, t.paused+o.paused
}

func (g *game) play() {
	c := g.choose
	g.sh = Shape{Blocks: 6 + c(14), BlockSize: 1 + c(5), MaxLen: 60, OriginalLen: c(3) * c(20)}
	g.s = newScheduler(g.t, Settings{
		MaxBatchPrefillTokens: 1 + c(12), MaxBatchSize: 2 + c(8), MaxPromptLogits: 1 + c(5),
		WaitingServedRatio: float64(c(3)), MaxWaitingTokens: c(4), NoPrefixSharing: c(4) == 0,
		MaxBatchDraftTokens: 1 + c(12),
	}, g.sh)
	if g.yields {
		g.s.SetYield(func(_, _ int) int { return c(6) - 2 })
	}
	g.cache, g.want, g.scores = map[int32]written{}, map[*Seq][]llm.Token{}, map[*Seq]int{}
	for step := 0; step < g.limit && (g.more == nil || g.more()); step++ {
		g.between()
		g.step()
	}
	for n := 0; g.s.Running()+g.s.Waiting() > 0; n++ {
		if n > 20000 {
			g.t.Fatalf("%d sequences make no progress", g.s.Running()+g.s.Waiting())
		}
		for _, q := range g.all {
			if q.parked {
				g.resolve(q)
			}
		}
		g.step()
	}
	for _, q := range g.all {
		g.s.Abort(q)
	}
	if used, _, _ := g.s.Cache(); used != 0 || g.s.rested.Len() != 0 {
		g.t.Errorf("%d blocks are left, %d contexts rest", used, g.s.rested.Len())
	}
}

// between does what may be done between two steps.
func (g *game) between() {
	s, c := g.s, g.choose
	if c(3) == 0 {
		set := s.Settings()
		in := 1 + c(set.MaxInputTokens)
		j := Job{Prompt: prompt(c(3), in), MaxNew: 1 + c(set.MaxTotalTokens-in), N: 1, Beams: c(6), Score: c(4) == 0,
			Client: []string{"", "a", "b"}[c(3)]}
		j.Beneath = g.yields && j.Client == "b"
		if j.Beams < 2 {
			j.N = 1 + c(3)
		}
		seqs, err := s.Add(j)
		if err != nil && j.Beams < 2 {
			g.t.Fatal(err)
		}
		for _, q := range seqs {
			if q != nil {
				g.all = append(g.all, q)
				g.want[q] = j.Prompt
			}
		}
	}
	if g.contexts {
		g.useContexts()
	}
	for _, q := range g.all {
		switch {
		case q.state == ended || q.state == resting:
		case c(60) == 0:
			s.Abort(q)
		case q.parked:
			if c(3) == 0 {
				g.resolve(q)
			}
		case q.rows == nil && c(8) == 0:
			n := q.prompt + c(len(q.tokens)-q.prompt+1)
			if n < len(q.tokens) {
				g.cut++
			}
			if q.long && n <= g.sh.OriginalLen {
				g.cutLong++
			}
			s.Truncate(q, n)
			g.want[q] = g.want[q][:n]
		}
		if err := s.Check(); err != nil {
			g.t.Fatal(err)
		}
	}
	for _, q := range g.all {
		if q.state != ended && q.state != resting && q.rows == nil && c(2) == 0 {
			var drafts []llm.Token
			for range c(9) {
				drafts = append(drafts, llm.Token(c(2)))
			}
			s.Draft(q, drafts)
		}
	}
	g.all = slices.DeleteFunc(g.all, func(q *Seq) bool { return q.state == ended })
}

func (g *game) step() {
	p := g.s.Plan()
	g.preempted += p.Preempted
	if p.Yielded {
		g.yielded++
		if p.Beneath == 0 {
			g.paused++
		}
	}
	if len(p.Rows) == 0 {
		if g.s.Running()+g.s.Waiting() > 0 && g.s.Parked() == 0 {
			g.t.Fatal("nothing to do, and sequences wait")
		}
		return
	}
	g.compute(p)
	if g.choose(50) == 0 {
		g.s.Drop(p)
	} else {
		g.s.Commit(p, g.results(p))
	}
	if err := g.s.Check(); err != nil {
		g.t.Fatal(err)
	}
	for _, q := range g.all {
		if q.state != ended && q.rows == nil && !slices.Equal(q.tokens, g.want[q]) {
			g.t.Fatalf("sequence %d has tokens %v, want %v", q.id, q.tokens, g.want[q])
		}
	}
}

// compute writes the step's tokens into the cache, and has each row read all of its tokens there.
func (g *game) compute(p *Plan) {
	size, st := int32(g.sh.BlockSize), &p.Step
	for _, c := range p.Copies {
		for i := range size {
			g.cache[c.Dst*size+i] = g.cache[c.Src*size+i]
		}
	}
	logits, drafts := 0, 0
	for b, row := range p.Rows {
		q := row.Seq
		isLong := len(st.Long) > 0 && st.Long[b]
		known := append(slices.Clone(q.tokens[:row.Start+row.Len]), row.Drafts...)
		if isLong != (g.sh.OriginalLen > 0 && len(q.tokens) > g.sh.OriginalLen) {
			g.t.Fatalf("a row of %d tokens is long: %t, the original context has %d", len(q.tokens), isLong, g.sh.OriginalLen)
		}
		if end := len(known); end > g.sh.OriginalLen && !isLong && g.sh.OriginalLen > 0 || end > q.prompt+q.max-1 {
			g.t.Fatalf("a row ends at %d", end)
		}
		for i := row.Start; i < len(known); i++ {
			at := int(st.CuSeqlens[b]) + i - row.Start
			if st.Tokens[at] != known[i] {
				g.t.Fatalf("token %d of row %d is %d, want %d", i, b, st.Tokens[at], known[i])
			}
			g.cache[st.SlotMapping[at]] = written{known[i], i, isLong}
		}
		if row.Logit != logits {
			g.t.Fatalf("the logits of row %d begin at %d, want %d", b, row.Logit, logits)
		}
		g.scores[q] -= row.Scores
		if row.Scores > 0 && g.contexts && q.owner == "context" && row.FirstScore+row.Scores > q.prompt-1 {
			g.t.Fatalf("positions up to %d of a prompt of %d are scored", row.FirstScore+row.Scores, q.prompt)
		}
		logits += row.Scores + min(len(row.Samples), 1)*(1+len(row.Drafts))
		drafts += len(row.Drafts)
		for i := range len(known) {
			want := written{known[i], i, isLong}
			block := st.BlockTable[b*st.MaxBlocks+i/g.sh.BlockSize]
			got := g.cache[block*size+int32(i%g.sh.BlockSize)]
			if got != want && i < row.Start { // the rest may be another row's
				g.t.Fatalf("sequence %d reads %+v, want %+v", q.id, got, want)
			}
		}
	}
	if logits != len(st.LogitRows) || drafts != p.DraftTokens || drafts > g.s.settings.MaxBatchDraftTokens {
		g.t.Fatalf("%d logit rows for %d, %d drafts for %d", len(st.LogitRows), logits, p.DraftTokens, drafts)
	}
	g.drafts += drafts
}

// results picks for each sample.
func (g *game) results(p *Plan) (out []Result) {
	for _, r := range p.Rows {
		for _, m := range r.Samples {
			q := m.Handle()
			switch {
			case q.rows != nil && q.rows[0] != m:
				out = append(out, Result{})
			case g.choose(5) == 0:
				out = append(out, Result{Pending: true})
				g.late += min(len(r.Drafts), 1)
			default:
				out = append(out, g.result(q, r.Drafts))
			}
		}
	}
	return out
}

// result is what a sequence or group goes on with.
func (g *game) result(q *Seq, drafts []llm.Token) (r Result) {
	if q.rows != nil {
		for range 1 + g.choose(q.width) {
			if len(q.rows[0].Output())+1 < q.max {
				r.Beams = append(r.Beams, Branch{From: g.choose(len(q.rows)), Token: llm.Token(g.choose(2))})
			}
		}
		return r
	}
	n := g.choose(len(drafts) + 1)
	g.accepted += n
	r.Tokens = append(slices.Clone(drafts[:n]), llm.Token(g.choose(2)))
	r.End = len(q.Output())+len(r.Tokens) >= q.max || g.choose(30) == 0
	if g.choose(30) == 0 { // as after an error
		r = Result{End: true}
	}
	if r.End && q.owner != "" {
		if g.scores[q] != 0 {
			g.t.Fatalf("%d positions of context %d are to be scored", g.scores[q], q.id)
		}
		r.Rest, r.End = true, g.choose(2) == 0
		if len(r.Tokens) == 0 {
			r.End = true
		}
		if r.End {
			g.want[q] = append(slices.Clone(g.want[q]), r.Tokens[:max(len(r.Tokens)-1, 0)]...)
			return r
		}
	}
	g.want[q] = append(slices.Clone(g.want[q]), r.Tokens...)
	return r
}

func (g *game) resolve(q *Seq) {
	if len(q.ahead) > 0 && q.state == waiting {
		g.lost++
	}
	g.s.Resolve(q, g.result(q, q.ahead))
}

// TestTruncateIsRefused: the prompt stays, and a step needs the tokens that it computes.
func TestTruncateIsRefused(t *testing.T) {
	for want, try := range map[string]func(s *Scheduler, q *Seq){
		"Truncate to 3 tokens of 4+1": func(s *Scheduler, q *Seq) { s.Truncate(q, 3) },
		"Truncate to 6 tokens of 4+1": func(s *Scheduler, q *Seq) { s.Truncate(q, 6) },
		"inside a step":               func(s *Scheduler, q *Seq) { s.Plan(); s.Truncate(q, 4) },
		"drafted":                     func(s *Scheduler, q *Seq) { s.Draft(q, []llm.Token{1}); s.Truncate(q, 4) },
		"has ended":                   func(s *Scheduler, q *Seq) { s.Abort(q); s.Truncate(q, 4) },
		"twice":                       func(s *Scheduler, q *Seq) { s.Draft(q, []llm.Token{1}); s.Draft(q, []llm.Token{1}) },
		"picked [2 3] of drafts [1]": func(s *Scheduler, q *Seq) {
			s.Draft(q, []llm.Token{1})
			s.Commit(s.Plan(), []Result{{Tokens: []llm.Token{2, 3}}})
		},
	} {
		func() {
			s := newScheduler(t, Settings{}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400})
			q := add(t, s, Job{Prompt: prompt(1, 4), MaxNew: 9})[0]
			commit(t, s, s.Plan())
			defer func() {
				if r := fmt.Sprint(recover()); !strings.Contains(r, want) {
					t.Errorf("got %s, want %s", r, want)
				}
			}()
			try(s, q)
		}()
	}
}

// TestTruncateAndGoOn: a sequence that is cut computes its last token again, and what it drops is found by others.
func TestTruncateAndGoOn(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 20, BlockSize: 4, MaxLen: 80})
	q := add(t, s, Job{Prompt: prompt(1, 6), MaxNew: 20})[0]
	for range 9 {
		commit(t, s, s.Plan())
	}
	before := q.Output()
	s.Truncate(q, 10)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
	p := s.Plan()
	if got := show(p); got != "1[9:10]!" || len(p.Copies) != 0 {
		t.Errorf("planned %s with copies %v", got, p.Copies)
	}
	s.Commit(p, []Result{{Tokens: []llm.Token{8}}})
	if slices.Contains(before, 8) {
		t.Error("a view of the output from before has changed")
	}
	s.Truncate(q, 6)
	other := add(t, s, Job{Prompt: append(prompt(1, 6), 7, 7, 7), MaxNew: 1})[0]
	if got := show(s.Plan()); got != "1[5:6]! 2[4:9]!" || other.Cached() != 4 {
		t.Errorf("planned %s, %d tokens are found", got, other.Cached())
	}
}
