package sched

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

func newScheduler(t *testing.T, set Settings, sh Shape) *Scheduler {
	t.Helper()
	s, err := New(set, sh)
	if err != nil {
		t.Fatal(err)
	}
	return s
}

// prompt returns n tokens that no other call with another id shares.
func prompt(id, n int) []llm.Token {
	out := make([]llm.Token, n)
	for i := range out {
		out[i] = llm.Token(id*1000 + i)
	}
	return out
}

func add(t *testing.T, s *Scheduler, j Job) []*Seq {
	t.Helper()
	if j.N == 0 {
		j.N = 1
	}
	seqs, err := s.Add(j)
	if err != nil {
		t.Fatal(err)
	}
	return seqs
}

// show writes a plan as "1[0:8] 2[8:9]!": sequence 1 computes its tokens 0 to 7,
// sequence 2 its ninth and picks the next. "+3" are three drafts, "!3" are three picks, "?2" two scored
// positions, "-1" a preempted sequence.
func show(p *Plan) string {
	var b strings.Builder
	for _, r := range p.Rows {
		fmt.Fprintf(&b, " %d[%d:%d]", r.Seq.id, r.Start, r.Start+r.Len)
		if n := len(r.Drafts); n > 0 {
			fmt.Fprintf(&b, "+%d", n)
		}
		if r.Scores > 0 {
			fmt.Fprintf(&b, "?%d", r.Scores)
		}
		if n := len(r.Samples); n > 0 {
			b.WriteString("!")
			if n > 1 {
				fmt.Fprint(&b, n)
			}
		}
	}
	if p.Preempted > 0 {
		fmt.Fprintf(&b, " -%d", p.Preempted)
	}
	return strings.TrimSpace(b.String())
}

// commit has every pick be token 7 and ends sequences that have all of theirs.
func commit(t *testing.T, s *Scheduler, p *Plan) {
	t.Helper()
	var results []Result
	for _, r := range p.Rows {
		for _, q := range r.Samples {
			results = append(results, Result{Tokens: []llm.Token{7}, End: len(q.Output())+1 >= q.max})
		}
	}
	s.Commit(p, results)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// run plays plans to the end and compares them with the trace, a line per step.
func run(t *testing.T, s *Scheduler, trace string) {
	t.Helper()
	var got []string
	for range 100 {
		p := s.Plan()
		if len(p.Rows) == 0 {
			break
		}
		got = append(got, show(p))
		commit(t, s, p)
	}
	var want []string
	for _, line := range strings.Split(strings.TrimSpace(trace), "\n") {
		want = append(want, strings.TrimSpace(line))
	}
	if !slices.Equal(got, want) {
		t.Errorf("plans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
	}
}

func TestTraces(t *testing.T) {
	roomy := Shape{Blocks: 100, BlockSize: 4, MaxLen: 400}
	for _, c := range []struct {
		name  string
		set   Settings
		sh    Shape
		jobs  []Job
		trace string
	}{
		{"one", Settings{}, roomy, []Job{{Prompt: prompt(1, 5), MaxNew: 3}}, `
			1[0:5]!
			1[5:6]!
			1[6:7]!`},
		{"a long prompt goes in chunks beside a running row", Settings{MaxBatchPrefillTokens: 4}, roomy,
			[]Job{{Prompt: prompt(1, 2), MaxNew: 5}, {Prompt: prompt(2, 9), MaxNew: 2}}, `
			1[0:2]! 2[0:2]
			1[2:3]! 2[2:6]
			1[3:4]! 2[6:9]!
			1[4:5]! 2[9:10]!
			1[5:6]!`},
		{"the queue is served in order", Settings{MaxBatchSize: 1}, roomy,
			[]Job{{Prompt: prompt(1, 2), MaxNew: 2}, {Prompt: prompt(2, 3), MaxNew: 1}, {Prompt: prompt(3, 1), MaxNew: 1}}, `
			1[0:2]!
			1[2:3]!
			2[0:3]!
			3[0:1]!`},
		{"the small does not overtake the large", Settings{}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 5), MaxNew: 2}, {Prompt: prompt(2, 12), MaxNew: 1}, {Prompt: prompt(3, 1), MaxNew: 1}}, `
			1[0:5]!
			1[5:6]!
			2[0:12]! 3[0:1]!`},
		{"no block is spared for those that have all they can need", Settings{}, Shape{Blocks: 2, BlockSize: 16, MaxLen: 16},
			[]Job{{Prompt: prompt(1, 3), MaxNew: 2}, {Prompt: prompt(2, 4), MaxNew: 12}}, `
			1[0:3]! 2[0:4]!
			1[3:4]! 2[4:5]!
			2[5:6]!
			2[6:7]!
			2[7:8]!
			2[8:9]!
			2[9:10]!
			2[10:11]!
			2[11:12]!
			2[12:13]!
			2[13:14]!
			2[14:15]!`},
		{"the youngest steps back and returns with its output", Settings{NoPrefixSharing: true},
			Shape{Blocks: 4, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 4), MaxNew: 9}, {Prompt: prompt(2, 3), MaxNew: 6}}, `
			1[0:4]! 2[0:3]!
			1[4:5]! 2[3:4]!
			1[5:6]! 2[4:5]!
			1[6:7]! 2[5:6]!
			1[7:8]! 2[6:7]!
			1[8:9]! -1
			1[9:10]!
			1[10:11]!
			1[11:12]!
			2[0:8]!`},
		{"the prefix of a preempted sequence is still cached", Settings{}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 4), MaxNew: 6}, {Prompt: prompt(2, 7), MaxNew: 3}}, `
			1[0:4]! 2[0:7]!
			1[4:5]! 2[7:8]!
			1[5:6]! -1
			1[6:7]!
			1[7:8]!
			1[8:9]!
			2[4:9]!`},
		{"sequences fork when their prompt is done", Settings{MaxBatchPrefillTokens: 4}, roomy,
			[]Job{{Prompt: prompt(1, 6), MaxNew: 2, N: 3}}, `
			1[0:4]
			1[4:6]!3
			1[6:7]! 2[6:7]! 3[6:7]!`},
		{"forks beyond the batch wait", Settings{MaxBatchSize: 2}, roomy,
			[]Job{{Prompt: prompt(1, 6), MaxNew: 2, N: 3}}, `
			1[0:6]!3
			1[6:7]! 2[6:7]!
			3[4:7]!`},
		{"a shared prompt is computed once", Settings{}, roomy,
			[]Job{{Prompt: prompt(1, 10), MaxNew: 1}, {Prompt: prompt(1, 10), MaxNew: 1}}, `
			1[0:10]! 2[0:10]!`},
		{"what another row computes meanwhile is found", Settings{MaxBatchPrefillTokens: 10}, roomy,
			[]Job{{Prompt: prompt(1, 12), MaxNew: 1}, {Prompt: prompt(1, 12), MaxNew: 1}}, `
			1[0:10]
			1[10:12]! 2[8:12]!`},
		{"prompts are scored in bounded pieces", Settings{MaxPromptLogits: 3}, roomy,
			[]Job{{Prompt: prompt(1, 8), MaxNew: 2, Score: true}}, `
			1[0:3]?3
			1[3:6]?3
			1[6:8]?1!
			1[8:9]!`},
		{"two scored prompts share the bound", Settings{MaxPromptLogits: 3}, roomy,
			[]Job{{Prompt: prompt(1, 3), MaxNew: 1, Score: true}, {Prompt: prompt(1, 3), MaxNew: 1, Score: true}}, `
			1[0:3]?2! 2[0:1]?1
			2[1:3]?1!`},
		{"a scored prompt that steps back is not scored again", Settings{MaxPromptLogits: 8},
			Shape{Blocks: 3, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 3), MaxNew: 6}, {Prompt: prompt(2, 4), MaxNew: 3, Score: true}}, `
			1[0:3]! 2[0:4]?3!
			1[3:4]! 2[4:5]!
			1[4:5]! -1
			1[5:6]!
			1[6:7]!
			1[7:8]!
			2[4:6]!`},
		{"prompts wait until there are enough of them", Settings{WaitingServedRatio: 2, MaxWaitingTokens: 3,
			MaxBatchPrefillTokens: 2}, roomy,
			[]Job{{Prompt: prompt(1, 2), MaxNew: 5}, {Prompt: prompt(2, 2), MaxNew: 1}}, `
			1[0:2]!
			1[2:3]!
			1[3:4]!
			1[4:5]!
			1[5:6]! 2[0:2]!`},
		{"enough prompts join at once", Settings{WaitingServedRatio: 2, MaxWaitingTokens: 3, MaxBatchPrefillTokens: 2},
			roomy,
			[]Job{{Prompt: prompt(1, 2), MaxNew: 2}, {Prompt: prompt(2, 2), MaxNew: 1}, {Prompt: prompt(3, 2), MaxNew: 1}}, `
			1[0:2]!
			1[2:3]! 2[0:2]!
			3[0:2]!`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, c.set, c.sh)
			for _, j := range c.jobs {
				add(t, s, j)
			}
			run(t, s, c.trace)
			if used, _, _ := s.Cache(); used != 0 || s.Running()+s.Waiting() != 0 {
				t.Errorf("%d blocks, %d running, %d waiting are left", used, s.Running(), s.Waiting())
			}
		})
	}
}

func TestStepForm(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchPrefillTokens: 5}, Shape{Blocks: 10, BlockSize: 4, MaxLen: 40})
	add(t, s, Job{Prompt: []llm.Token{10, 11, 12, 13}, MaxNew: 3})
	commit(t, s, s.Plan())
	add(t, s, Job{Prompt: []llm.Token{20, 21, 22, 23, 24, 25}, MaxNew: 3, Score: true})
	p := s.Plan()
	got := fmt.Sprintf("%+v", p.Step)
	want := fmt.Sprintf("%+v", llm.Step{
		Tokens:      []llm.Token{7, 20, 21, 22, 23, 24},
		CuSeqlens:   []int32{0, 1, 6},
		PastLens:    []int32{4, 0},
		BlockTable:  []int32{0, 1, 2, 3},
		MaxBlocks:   2,
		SlotMapping: []int32{4, 8, 9, 10, 11, 12},
		LogitRows:   []int32{0, 1, 2, 3, 4, 5},
	})
	if got != want {
		t.Errorf("step %s\nwant %s", got, want)
	}
	if r := p.Rows[1]; r.Logit != 1 || r.FirstScore != 0 || r.Scores != 5 || len(r.Samples) != 0 {
		t.Errorf("row %+v", r)
	}
	commit(t, s, p)
	p = s.Plan() // one token left of the second: its table is as wide, the first's padded alike
	if want := []int32{0, 1, 2, 3}; !slices.Equal(p.Step.BlockTable, want) || p.DecodeRows != 2 {
		t.Errorf("table %v, want %v; %d decode rows", p.Step.BlockTable, want, p.DecodeRows)
	}
}

// TestPace: beside rows that decode, the pace bounds prompts, or has them wait; alone they have the whole budget.
func TestPace(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchPrefillTokens: 8, MaxBatchSize: 3}, Shape{Blocks: 30, BlockSize: 4,
		MaxLen: 40})
	asked, pace := []string{}, []int{3, 0, 99, 3, 3}
	s.SetPace(func(rows, prompts int) int {
		asked = append(asked, fmt.Sprintf("%d/%d", rows, prompts))
		return pace[len(asked)-1]
	})
	add(t, s, Job{Prompt: prompt(1, 9), MaxNew: 7})
	commit(t, s, s.Plan())
	add(t, s, Job{Prompt: prompt(2, 12), MaxNew: 1})
	add(t, s, Job{Prompt: prompt(3, 2), MaxNew: 1})
	add(t, s, Job{Prompt: prompt(4, 2), MaxNew: 1}) // for which the batch has no room at first
	run(t, s, `
		1[8:9]! 2[0:3]
		1[9:10]!
		1[10:11]! 2[3:11]
		1[11:12]! 2[11:12]! 3[0:2]!
		1[12:13]! 4[0:2]!
		1[13:14]!
		1[14:15]!`)
	if got := strings.Join(asked, " "); got != "1/2 1/2 1/2 2/1 1/1" {
		t.Errorf("the pace was asked about %s", got)
	}
}

// TestPaceOfARequest: what a request has counts as one prompt for the pace: its outputs, and the contexts of a program
// that run, follow one another or wait. Another's count for themselves.
func TestPaceOfARequest(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchPrefillTokens: 64, MaxBatchSize: 32}, Shape{Blocks: 99, BlockSize: 4,
		MaxLen: 40})
	var asked []int
	s.SetPace(func(_, requests int) int {
		asked = append(asked, requests)
		return 2
	})
	add(t, s, Job{Prompt: prompt(1, 2), MaxNew: 20})
	commit(t, s, s.Plan())
	add(t, s, Job{Prompt: prompt(2, 9), MaxNew: 3, N: 8})
	commit(t, s, s.Plan())
	for range 2 {
		var own Request
		for i := range 4 {
			q := s.Open(Job{Prompt: prompt(3+i, 9), Client: "a", Request: &own})
			for _, c := range []*Seq{q, s.Fork(q, 9), s.Fork(q, 8)} {
				if err := s.Resume(c, 3, 0); err != nil {
					t.Fatal(err)
				}
			}
		}
		commit(t, s, s.Plan())
	}
	if !slices.Equal(asked, []int{1, 2, 3}) {
		t.Errorf("the pace was asked about %v requests", asked)
	}
}

func TestTableIsPadded(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 10, BlockSize: 4, MaxLen: 40})
	add(t, s, Job{Prompt: prompt(1, 2), MaxNew: 1})
	add(t, s, Job{Prompt: prompt(2, 9), MaxNew: 1})
	if p := s.Plan(); !slices.Equal(p.Step.BlockTable, []int32{0, -1, -1, 1, 2, 3}) {
		t.Errorf("table %v", p.Step.BlockTable)
	}
}

func TestAbort(t *testing.T) {
	sh := Shape{Blocks: 20, BlockSize: 4, MaxLen: 80}
	for _, steps := range []int{0, 1, 2, 4} { // in the queue, in the prompt, at its end, after it
		for victim := range 3 {
			s := newScheduler(t, Settings{MaxBatchPrefillTokens: 4, NoPrefixSharing: true}, sh)
			seqs := add(t, s, Job{Prompt: prompt(1, 7), MaxNew: 4, N: 3})
			for range steps {
				commit(t, s, s.Plan())
			}
			s.Abort(seqs[victim])
			s.Abort(seqs[victim])
			if err := s.Check(); err != nil {
				t.Fatal(err)
			}
			left := 2
			if victim == 0 && steps < 2 {
				left = 0 // followers have no prompt to follow
			}
			if n := s.Running() + s.Waiting(); n != left {
				t.Errorf("after %d steps without %d: %d sequences, want %d", steps, victim, n, left)
			}
			for p := s.Plan(); len(p.Rows) > 0; p = s.Plan() {
				commit(t, s, p)
			}
			if used, _, _ := s.Cache(); used != 0 {
				t.Errorf("%d blocks are left", used)
			}
		}
	}
}

func TestDrop(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 20, BlockSize: 4, MaxLen: 80})
	add(t, s, Job{Prompt: prompt(1, 7), MaxNew: 4, N: 2})
	add(t, s, Job{Prompt: prompt(2, 7), MaxNew: 4})
	if gone := s.Drop(s.Plan()); len(gone) != 3 {
		t.Errorf("%d sequences were dropped, want 3", len(gone))
	}
	if _, cached, _ := s.Cache(); cached != 0 {
		t.Errorf("%d blocks of a failed step can be found", cached)
	}
	if err := s.Check(); err != nil || len(s.Plan().Rows) != 0 {
		t.Errorf("after the drop: %v", err)
	}
}

func TestSettings(t *testing.T) {
	sh := Shape{Blocks: 10, BlockSize: 16, MaxLen: 1000}
	for _, c := range []struct {
		set  Settings
		sh   Shape
		want string
	}{
		{Settings{MaxBatchSize: -1}, sh, "sched: max_batch_size must not be negative, got -1"},
		{Settings{WaitingServedRatio: -0.5}, sh, "sched: waiting_served_ratio must not be negative, got -0.5"},
		{Settings{MaxBatchTotalTokens: 15}, sh,
			"sched: max_batch_total_tokens must be at least one cache block of 16, got 15"},
		{Settings{}, Shape{Blocks: 0, BlockSize: 16, MaxLen: 10},
			"sched: a cache of 0 blocks of 16 tokens for sequences of 10 tokens holds no request"},
	} {
		if _, err := New(c.set, c.sh); err == nil || err.Error() != c.want {
			t.Errorf("got %v, want %s", err, c.want)
		}
	}
	got := newScheduler(t, Settings{MaxBatchTotalTokens: 100}, sh).Settings()
	if got.MaxBatchTotalTokens != 96 || got.MaxTotalTokens != 97 || got.MaxInputTokens != 96 ||
		got.MaxConcurrentRequests != 128 {
		t.Errorf("defaults %+v", got)
	}
	if _, err := newScheduler(t, Settings{}, sh).Add(Job{Prompt: prompt(1, 160), MaxNew: 2, N: 1}); !errors.Is(err,
		llm.ErrTooLong) {
		t.Errorf("a request that can never fit: %v", err)
	}
}

// TestRandom adds, aborts and drops at random, checks the invariants after every call,
// and asks of every plan that each running row whose tokens are computed but one is
// in it, that the budgets hold, and that everything ends.
func TestRandom(t *testing.T) {
	preempted := 0
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 2))
		sh, budget := Shape{Blocks: 4 + r.IntN(12), BlockSize: 1 + r.IntN(5), MaxLen: 60}, 12
		if seed%4 == 3 { // a GPU's blocks
			sh.BlockSize, sh.MaxLen, budget = []int{64, 128, 256}[r.IntN(3)], 700, 400
		}
		s := newScheduler(t, Settings{
			MaxBatchPrefillTokens: 1 + r.IntN(budget), MaxBatchSize: 1 + r.IntN(8), MaxPromptLogits: 1 + r.IntN(5),
			WaitingServedRatio: float64(r.IntN(3)), MaxWaitingTokens: r.IntN(4), NoPrefixSharing: seed%4 == 0,
		}, sh)
		set := s.Settings()
		var all []*Seq
		for step := range 400 {
			if r.IntN(3) == 0 && step < 300 {
				in, id := 1+r.IntN(set.MaxInputTokens), r.IntN(3)
				j := Job{Prompt: prompt(id, in), MaxNew: 1 + r.IntN(set.MaxTotalTokens-in),
					N: 1 + r.IntN(3)*r.IntN(2), Score: r.IntN(4) == 0}
				if seed%3 == 1 {
					j.Embeddings, j.Score = mutualRuns(id, in), false
				}
				all = append(all, add(t, s, j)...)
			}
			if r.IntN(6) == 0 && len(all) > 0 {
				s.Abort(all[r.IntN(len(all))])
			}
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			p := s.Plan()
			preempted += p.Preempted
			checkPlan(t, s, p)
			if len(p.Rows) == 0 {
				continue
			}
			if r.IntN(40) == 0 {
				s.Drop(p)
				continue
			}
			commit(t, s, p)
		}
		for n := 0; s.Running()+s.Waiting() > 0; n++ {
			p := s.Plan()
			if len(p.Rows) == 0 || n > 60000 {
				t.Fatalf("seed %d: %d sequences make no progress", seed, s.Running()+s.Waiting())
			}
			checkPlan(t, s, p)
			commit(t, s, p)
		}
		for _, q := range all {
			if q.state != ended {
				t.Errorf("seed %d: sequence %d is in state %d", seed, q.id, q.state)
			}
		}
	}
	if preempted == 0 {
		t.Error("no sequence was preempted")
	}
}

// mutualRuns are those of a prompt: runs of some tokens that see each other. Prompts of one id have the same.
func mutualRuns(id, length int) (list []llm.Embedding) {
	for at := 1 + id; at+5+id < length; at += 8 + 2*id {
		list = append(list, llm.Embedding{At: at, N: 5 + id, Mutual: true})
	}
	return list
}

// checkRuns checks that no row cuts a run whose tokens see each other, that the step says so, and that only a row that
// has one run alone goes beyond the budget.
func checkRuns(t *testing.T, s *Scheduler, p *Plan) (beyond bool) {
	t.Helper()
	for i, r := range p.Rows {
		end := r.Start + r.Len
		var ends []int32
		if len(p.Step.KeyEnds) > 0 {
			ends = p.Step.KeyEnds[p.Step.CuSeqlens[i]:p.Step.CuSeqlens[i+1]]
		}
		for _, e := range r.Seq.embeddings {
			if e.At < end && end < e.End() {
				t.Fatalf("tokens %d to %d cut the run from %d to %d", r.Start, end, e.At, e.End())
			}
			for at := max(e.At, r.Start); at < min(e.End(), end); at++ {
				if len(ends) == 0 || int(ends[at-r.Start]) != e.End() {
					t.Fatalf("token %d sees %v, want those up to %d", at, ends, e.End())
				}
			}
			alone := e.At <= r.Start && end == e.End() && p.PrefillTokens == r.Len
			beyond = beyond || alone && r.Len > s.settings.MaxBatchPrefillTokens
		}
	}
	return beyond
}

func checkPlan(t *testing.T, s *Scheduler, p *Plan) {
	t.Helper()
	beyond := checkRuns(t, s, p)
	inPlan := map[*Seq]bool{}
	prefill, scores := 0, 0
	for _, r := range p.Rows {
		if inPlan[r.Seq] || r.Seq.state != running || r.Len < 1 {
			t.Fatalf("bad row %+v", r)
		}
		inPlan[r.Seq] = true
		scores += r.Scores
		if r.Start+r.Len > len(r.Seq.row.Blocks())*s.pool.BlockSize() {
			t.Fatalf("row without blocks: %+v", r)
		}
	}
	prefill = len(p.Step.Tokens) - p.DecodeRows
	if prefill != p.PrefillTokens || prefill > s.settings.MaxBatchPrefillTokens && !beyond ||
		scores > s.settings.MaxPromptLogits {
		t.Fatalf("%d prompt tokens, %d said; %d scores", prefill, p.PrefillTokens, scores)
	}
	for _, q := range s.running {
		if q.uncomputed() == 1 && !inPlan[q] {
			t.Fatalf("running sequence %d got no token", q.id)
		}
	}
	if len(p.Rows) == 0 && s.Running()+s.Waiting() > 0 {
		t.Fatal("nothing to do, and sequences wait")
	}
}
