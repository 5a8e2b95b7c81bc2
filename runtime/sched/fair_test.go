package sched

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// TestFairTraces: jobs join before the step of their line, "-1" counts the preempted.
func TestFairTraces(t *testing.T) {
	roomy := Shape{Blocks: 100, BlockSize: 4, MaxLen: 400}
	type arrival struct {
		step int
		job  Job
	}
	for _, c := range []struct {
		name  string
		set   Settings
		sh    Shape
		jobs  []arrival
		trace string
	}{
		{"in the batch", Settings{MaxBatchSize: 3}, roomy, []arrival{
			{0, Job{Prompt: prompt(1, 2), MaxNew: 5, N: 4, Client: "a"}},
			{2, Job{Prompt: prompt(2, 2), MaxNew: 2, Client: "b"}}}, `
			1[0:2]!4
			1[2:3]! 2[2:3]! 3[2:3]!
			1[3:4]! 2[3:4]! 5[0:2]! -1
			1[4:5]! 5[2:3]! 2[4:5]!
			1[5:6]! 2[5:6]! 3[0:4]!
			3[4:5]! 4[0:3]!
			3[5:6]! 4[3:4]!
			4[4:5]!
			4[5:6]!`},
		{"in the cache", Settings{NoPrefixSharing: true}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400}, []arrival{
			{0, Job{Prompt: prompt(1, 2), MaxNew: 6, Client: "a"}},
			{0, Job{Prompt: prompt(2, 2), MaxNew: 6, Client: "a"}},
			{3, Job{Prompt: prompt(3, 2), MaxNew: 2, Client: "b"}}}, `
			1[0:2]! 2[0:2]!
			1[2:3]! 2[2:3]!
			1[3:4]! 2[3:4]!
			1[4:5]! 2[4:5]!
			1[5:6]! 3[0:2]! -1
			1[6:7]! 3[2:3]!
			2[0:6]!
			2[6:7]!`},
		{"in the budget of a step", Settings{MaxBatchPrefillTokens: 4}, roomy, []arrival{
			{0, Job{Prompt: prompt(1, 13), MaxNew: 1, Client: "a"}},
			{1, Job{Prompt: prompt(2, 9), MaxNew: 1, Client: "b"}},
			{2, Job{Prompt: prompt(3, 2), MaxNew: 1, Client: "c"}}}, `
			1[0:4]
			1[4:8]
			2[0:4]
			3[0:2]! 1[8:10]
			2[4:8]
			2[8:9]! 1[10:13]!`},
		{"what cannot make room is not preempted", Settings{NoPrefixSharing: true},
			Shape{Blocks: 6, BlockSize: 4, MaxLen: 400}, []arrival{
				{0, Job{Prompt: prompt(1, 9), MaxNew: 3, Client: "a"}},
				{0, Job{Prompt: prompt(2, 1), MaxNew: 6, Client: "a"}},
				{1, Job{Prompt: prompt(3, 13), MaxNew: 1, Client: "b"}}}, `
			1[0:9]! 2[0:1]!
			1[9:10]! 2[1:2]!
			1[10:11]! 2[2:3]!
			2[3:4]! 3[0:13]!
			2[4:5]!
			2[5:6]!`},
		{"long sequences are not preempted for a small lead", Settings{MaxBatchSize: 2}, roomy, []arrival{
			{0, Job{Prompt: prompt(1, 24), MaxNew: 7, Client: "a"}},
			{0, Job{Prompt: prompt(2, 24), MaxNew: 7, Client: "a"}},
			{1, Job{Prompt: prompt(3, 2), MaxNew: 2, Client: "b"}}}, `
			1[0:24]! 2[0:24]!
			1[24:25]! 2[24:25]!
			1[25:26]! 2[25:26]!
			1[26:27]! 2[26:27]!
			1[27:28]! 2[27:28]!
			1[28:29]! 3[0:2]! -1
			1[29:30]! 3[2:3]!
			2[28:29]!
			2[29:30]!`},
		{"what a client had counts when it comes back", Settings{MaxBatchPrefillTokens: 4}, roomy, []arrival{
			{0, Job{Prompt: prompt(1, 1), MaxNew: 5, Client: "a"}},
			{0, Job{Prompt: prompt(2, 11), MaxNew: 1, Client: "b"}},
			{3, Job{Prompt: prompt(3, 4), MaxNew: 1, Client: "b"}},
			{3, Job{Prompt: prompt(4, 4), MaxNew: 1, Client: "c"}}}, `
			1[0:1]! 2[0:3]
			1[1:2]! 2[3:7]
			1[2:3]! 2[7:11]!
			1[3:4]! 4[0:4]!
			1[4:5]! 3[0:4]!`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, c.set, c.sh)
			var got []string
			for step := 0; step == 0 || s.Running()+s.Waiting() > 0; step++ {
				for _, a := range c.jobs {
					if a.step == step {
						add(t, s, a.job)
					}
				}
				p := s.Plan()
				got = append(got, show(p))
				commit(t, s, p)
			}
			var want []string
			for _, line := range strings.Split(strings.TrimSpace(c.trace), "\n") {
				want = append(want, strings.TrimSpace(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("plans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
		})
	}
}

// TestPaceOfAClient: a client for whom another is preempted has a token of its prompt computed in that step, whatever
// the pace says.
func TestPaceOfAClient(t *testing.T) {
	s := newScheduler(t, Settings{NoPrefixSharing: true}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400})
	s.SetPace(func(int, int) int { return 0 })
	add(t, s, Job{Prompt: prompt(1, 2), MaxNew: 6, Client: "a"})
	add(t, s, Job{Prompt: prompt(2, 2), MaxNew: 6, Client: "a"})
	for range 3 {
		commit(t, s, s.Plan())
	}
	add(t, s, Job{Prompt: prompt(3, 2), MaxNew: 2, Client: "b"})
	run(t, s, `
		1[4:5]! 2[4:5]!
		1[5:6]! 3[0:1] -1
		1[6:7]! 3[1:2]!
		3[2:3]!
		2[0:6]!
		2[6:7]!`)
}

// clientNames are those of the random tests.
var clientNames = []string{"a", "b", "c", "d"}

// TestClientsAtRandom has several clients add, abort, park, resolve and drop sequences and
// groups at random in a small cache. Everything ends, and the first of all stays first and
// running until it does.
func TestClientsAtRandom(t *testing.T) {
	preempted := 0
	for seed := range uint64(80) {
		r := rand.New(rand.NewPCG(seed, 12))
		s := newScheduler(t, Settings{
			MaxBatchPrefillTokens: 1 + r.IntN(12), MaxBatchSize: 2 + r.IntN(8), NoPrefixSharing: seed%4 == 0,
			WaitingServedRatio: float64(r.IntN(3)), MaxWaitingTokens: r.IntN(4), MaxPromptLogits: 1 + r.IntN(5),
		}, Shape{Blocks: 6 + r.IntN(12), BlockSize: 1 + r.IntN(5), MaxLen: 60})
		var all, parked []*Seq
		var first *Seq
		for step := 0; step < 300 || s.Running()+s.Waiting() > 0; step++ {
			if step > 20000 {
				t.Fatalf("seed %d: no end", seed)
			}
			if r.IntN(3) == 0 && step < 300 {
				all = append(all, addSome(t, s, r, clientNames[r.IntN(len(clientNames))])...)
			}
			if r.IntN(10) == 0 && len(all) > 0 {
				s.Abort(all[r.IntN(len(all))])
			}
			parked = slices.DeleteFunc(parked, func(q *Seq) bool {
				resolved := q.state != ended && r.IntN(4) == 0
				if resolved {
					s.Resolve(q, resultOf(q))
				}
				return resolved || q.state == ended
			})
			next, was := s.waiting.next(), stateOf(first)
			p := s.Plan()
			if next != nil && next.state == running && p.Preempted > 0 {
				preempted++
			}
			if now := firstOf(s); was != ended && now != first || was == running && first.state != running {
				t.Fatalf("seed %d, step %d: sequence %d was first, in state %d", seed, step, first.id, first.state)
			} else {
				first = now
			}
			if len(p.Rows) == 0 && s.Running()+s.Waiting() > 0 && s.Parked() == 0 {
				t.Fatalf("seed %d: nothing to do, and sequences wait", seed)
			}
			checkParked(t, s, p)
			if len(p.Rows) > 0 && r.IntN(40) == 0 {
				s.Drop(p)
				continue
			}
			commitParking(t, s, p, func(q *Seq) bool {
				park := r.IntN(4) == 0
				if park {
					parked = append(parked, q)
				}
				return park
			})
		}
		for _, q := range all {
			if q.state != ended {
				t.Errorf("seed %d: sequence %d is in state %d", seed, q.id, q.state)
			}
		}
		if used, _, _ := s.Cache(); used != 0 || len(s.clients.byName)+len(s.clients.active) != 0 {
			t.Errorf("seed %d: %d blocks and %d clients are left", seed, used, len(s.clients.byName))
		}
	}
	if preempted == 0 {
		t.Error("no sequence was preempted for another client's")
	}
}

// firstOf returns the first of all sequences, nil if there are none.
func firstOf(s *Scheduler) *Seq {
	all := slices.Concat(s.waiting, s.running)
	if len(all) == 0 {
		return nil
	}
	return slices.MinFunc(all, (*Seq).compare)
}

func stateOf(q *Seq) state {
	if q == nil {
		return ended
	}
	return q.state
}

// load is what a client of a test keeps in the scheduler.
type load struct {
	job  func() Job
	live int // jobs at a time
	seqs [][]*Seq
}

// refill adds jobs for those that have ended, and returns how many were added.
func (l *load) refill(t *testing.T, s *Scheduler, name string) (added int) {
	t.Helper()
	l.seqs = slices.DeleteFunc(l.seqs, func(job []*Seq) bool {
		return !slices.ContainsFunc(job, func(q *Seq) bool { return q.state != ended })
	})
	for ; len(l.seqs) < l.live; added++ {
		j := l.job()
		j.Client = name
		l.seqs = append(l.seqs, add(t, s, j))
	}
	return added
}

// stepsAlone returns how many steps a job takes by itself.
func stepsAlone(t *testing.T, set Settings, sh Shape, j Job) (n int) {
	t.Helper()
	s := newScheduler(t, set, sh)
	add(t, s, j)
	for p := s.Plan(); len(p.Rows) > 0; p = s.Plan() {
		n++
		commitParking(t, s, p, never)
	}
	return n
}

// never parks nothing.
func never(*Seq) bool { return false }

// tight returns random settings for a small cache and jobs of one kind that fit.
func tight(t *testing.T, r *rand.Rand, seed uint64) (Settings, Shape, func(most int) func() Job) {
	set := Settings{MaxBatchPrefillTokens: 4 + r.IntN(30), MaxBatchSize: 2 + r.IntN(40), NoPrefixSharing: seed%4 == 0}
	sh := Shape{Blocks: 20 + r.IntN(60), BlockSize: 1 + r.IntN(8), MaxLen: 200}
	full := newScheduler(t, set, sh).Settings()
	id := 0
	return set, sh, func(most int) func() Job {
		in := 1 + r.IntN(min(1+r.IntN(most), full.MaxInputTokens))
		out := 1 + r.IntN(min(2*most, full.MaxTotalTokens-in))
		n, beams := 1+r.IntN(8)*r.IntN(2), 0
		if r.IntN(4) == 0 && full.CheckBeams(in, out, 2, sh.BlockSize) == nil {
			n, beams = 1, 2
		}
		return func() Job {
			id++
			return Job{Prompt: prompt(id, in), MaxNew: out, N: n, Beams: beams}
		}
	}
}

// TestClientsGetEqualShares has clients with jobs of different lengths that always have
// more than the cache holds. Whenever one more has come, none gets more than another by more
// than the cache, a step and two sequences hold, and what the newcomer was given: that it
// starts beside the oldest sequence of the others, not behind their youngest.
func TestClientsGetEqualShares(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 13))
		set, sh, kind := tight(t, r, seed)
		s := newScheduler(t, set, sh)
		names := clientNames[:2+r.IntN(3)]
		loads, longest := map[string]*load{}, 0
		for _, n := range names {
			l := &load{live: 30, job: kind(60)}
			j := l.job()
			longest = max(longest, len(j.Prompt)+j.MaxNew)
			loads[n] = l
		}
		bound := sh.Blocks*sh.BlockSize + set.MaxBatchPrefillTokens + 2*longest
		got, come, given := map[string]int{}, 1, 0
		for step := range 3000 {
			if r.IntN(200) == 0 && come < len(names) {
				given = 0
				for _, a := range s.clients.active {
					own := 0
					for _, q := range a.live {
						own += q.spent / unit
					}
					given = max(given, own)
				}
				come++
				clear(got)
			}
			for _, n := range names[:come] {
				loads[n].refill(t, s, n)
			}
			p := s.Plan()
			least, most := 1<<60, 0
			for _, row := range p.Rows {
				got[row.Seq.Handle().client.name] += row.Len
			}
			for _, n := range names[:come] {
				least, most = min(least, got[n]), max(most, got[n])
			}
			if most-least > bound+given {
				t.Fatalf("seed %d, step %d: tokens %v, want them at most %d apart", seed, step, got, bound+given)
			}
			commitParking(t, s, p, never)
		}
		if come < len(names) {
			t.Fatalf("seed %d: only %d of %d clients came", seed, come, len(names))
		}
	}
}

// TestFloodDelaysNoOther: beside a client with far more than the cache, the batch or a
// step's budget holds, a job of another takes at most twice its steps alone and those of
// one of the other's sequences.
func TestFloodDelaysNoOther(t *testing.T) {
	for seed := range uint64(40) {
		r := rand.New(rand.NewPCG(seed, 14))
		set, sh, kind := tight(t, r, seed)
		s := newScheduler(t, set, sh)
		flood := &load{live: 60, job: kind(60)}
		job := kind(10)
		light := func() Job {
			j := job()
			j.N, j.Beams, j.Client = 1, 0, "light"
			return j
		}
		one := flood.job()
		one.N = 1
		bound := 2*stepsAlone(t, set, sh, light()) + stepsAlone(t, set, sh, one) + 1
		var q *Seq
		for jobs, step, began := 0, 0, 0; jobs < 60; step++ {
			flood.refill(t, s, "flood")
			if step > 100 && q == nil && r.IntN(20) == 0 {
				q, began = add(t, s, light())[0], step
			}
			commitParking(t, s, s.Plan(), never)
			if q == nil {
				continue
			}
			if n := step - began + 1; n > bound {
				t.Fatalf("seed %d: a job takes %d steps, want at most %d", seed, n, bound)
			}
			if q.state == ended {
				q, jobs = nil, jobs+1
			}
		}
	}
}

// TestClientsAreForgotten: many clients of one job each, beside one that runs for long.
func TestClientsAreForgotten(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchSize: 8}, Shape{Blocks: 4000, BlockSize: 4, MaxLen: 4000})
	add(t, s, Job{Prompt: prompt(1, 1), MaxNew: 3900, Client: "long"})
	for i := range 3000 {
		add(t, s, Job{Prompt: prompt(2, 3), MaxNew: 1 + i%8, Client: fmt.Sprint(i)})
		commitParking(t, s, s.Plan(), never)
	}
	if n := len(s.clients.byName); n > 2*minSweep {
		t.Errorf("%d clients are remembered", n)
	}
}
