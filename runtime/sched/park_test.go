package sched

import (
	"fmt"
	"math/rand/v2"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

// TestParkTraces plays scripts of steps "resolve 2 | plan | park 1 2": who is resolved
// before the step, with token 7, what it computes, and whose result is pending.
func TestParkTraces(t *testing.T) {
	roomy := Shape{Blocks: 100, BlockSize: 4, MaxLen: 400}
	tight := Shape{Blocks: 4, BlockSize: 4, MaxLen: 400}
	for _, c := range []struct {
		name  string
		set   Settings
		sh    Shape
		jobs  []Job
		trace string
	}{
		{"one sits out and the other runs", Settings{}, roomy,
			[]Job{{Prompt: prompt(1, 5), MaxNew: 3}, {Prompt: prompt(2, 2), MaxNew: 5}}, `
			| 1[0:5]! 2[0:2]! | park 1
			| 2[2:3]! |
			| 2[3:4]! |
			resolve 1 | 1[5:6]! 2[4:5]! | park 1
			resolve 1 | 1[6:7]! 2[5:6]! |`},
		{"nothing to do while all are parked", Settings{}, roomy,
			[]Job{{Prompt: prompt(1, 5), MaxNew: 2}, {Prompt: prompt(2, 2), MaxNew: 2}}, `
			| 1[0:5]! 2[0:2]! | park 1 2
			| |
			resolve 2 | 2[2:3]! |
			| |
			resolve 1 | 1[5:6]! |`},
		{"a prompt is admitted beside parked rows, whatever delays prompts", Settings{WaitingServedRatio: 3,
			MaxWaitingTokens: 9, MaxBatchPrefillTokens: 5}, roomy,
			[]Job{{Prompt: prompt(1, 5), MaxNew: 2}, {Prompt: prompt(2, 4), MaxNew: 1}}, `
			| 1[0:5]! | park 1
			| 2[0:4]! |
			resolve 1 | 1[5:6]! |`},
		{"a parked one counts in the batch", Settings{MaxBatchSize: 1}, roomy,
			[]Job{{Prompt: prompt(1, 5), MaxNew: 2}, {Prompt: prompt(2, 4), MaxNew: 1}}, `
			| 1[0:5]! | park 1
			| |
			resolve 1 | 1[5:6]! |
			| 2[0:4]! |`},
		{"a parked one steps back and returns with its token", Settings{NoPrefixSharing: true}, tight,
			[]Job{{Prompt: prompt(1, 4), MaxNew: 8}, {Prompt: prompt(2, 7), MaxNew: 3}}, `
			| 1[0:4]! 2[0:7]! | park 2
			| 1[4:5]! |
			| 1[5:6]! |
			| 1[6:7]! |
			| 1[7:8]! |
			| 1[8:9]! -1 |
			resolve 2 | 1[9:10]! |
			| 1[10:11]! |
			| 2[0:8]! |
			| 2[8:9]! |`},
		{"a sequence preempted while parked lets others pass", Settings{NoPrefixSharing: true}, tight,
			[]Job{{Prompt: prompt(1, 4), MaxNew: 6}, {Prompt: prompt(2, 7), MaxNew: 3}, {Prompt: prompt(3, 3), MaxNew: 2}}, `
			| 1[0:4]! 2[0:7]! | park 2
			| 1[4:5]! |
			| 1[5:6]! |
			| 1[6:7]! |
			| 1[7:8]! |
			| 1[8:9]! 3[0:3]! -1 |
			resolve 2 | 3[3:4]! 2[0:8]! |
			| 2[8:9]! |`},
		{"each fork parks by itself, also one that has no room in the batch", Settings{MaxBatchSize: 2}, roomy,
			[]Job{{Prompt: prompt(1, 6), MaxNew: 2, N: 3}}, `
			| 1[0:6]!3 | park 1 3
			| 2[6:7]! |
			| |
			resolve 3 | 3[4:7]! |
			resolve 1 | 1[6:7]! |`},
		{"a group parks as a whole", Settings{}, roomy,
			[]Job{{Prompt: prompt(1, 6), MaxNew: 3, Beams: 2}, {Prompt: prompt(2, 2), MaxNew: 4}}, `
			| 1a[0:6]! 2[0:2]! | park 1
			| 2[2:3]! |
			resolve 1 | 1a[6:7]! 1b[6:7]! 2[3:4]! | park 1
			| 2[4:5]! |
			resolve 1 | 1a[7:8]! 1b[7:8]! |`},
		{"a parked group steps back and grows all the same", Settings{NoPrefixSharing: true}, tight,
			[]Job{{Prompt: prompt(1, 4), MaxNew: 7}, {Prompt: prompt(2, 6), MaxNew: 3, Beams: 2}}, `
			| 1[0:4]! 2a[0:6]! | park 2
			| 1[4:5]! |
			| 1[5:6]! |
			| 1[6:7]! |
			| 1[7:8]! |
			| 1[8:9]! -1 |
			resolve 2 | 1[9:10]! |
			| 2a[0:6] |
			| 2b[4:6] |
			| 2a[6:7]! 2b[6:7]! |
			| 2a[7:8]! 2b[7:8]! |`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, c.set, c.sh)
			byName := map[string]*Seq{}
			for _, j := range c.jobs {
				for _, q := range add(t, s, j) {
					byName[fmt.Sprint(q.id)] = q
				}
			}
			for i, line := range strings.Split(strings.TrimSpace(c.trace), "\n") {
				step(t, s, byName, i, strings.Split(line, "|"))
			}
			if used, _, _ := s.Cache(); used != 0 || s.Running()+s.Waiting()+s.Parked() != 0 {
				t.Errorf("%d blocks, %d running, %d waiting, %d parked are left", used, s.Running(), s.Waiting(),
					s.Parked())
			}
		})
	}
}

// step plays one line of a trace.
func step(t *testing.T, s *Scheduler, byName map[string]*Seq, i int, line []string) {
	t.Helper()
	for _, name := range strings.Fields(line[0])[min(1, len(strings.Fields(line[0]))):] {
		s.Resolve(byName[name], resultOf(byName[name]))
	}
	p := s.Plan()
	if got, want := showAll(p), strings.TrimSpace(line[1]); got != want {
		t.Errorf("step %d: %q, want %q", i+1, got, want)
	}
	parked := map[*Seq]bool{}
	for _, name := range strings.Fields(line[2])[min(1, len(strings.Fields(line[2]))):] {
		parked[byName[name]] = true
	}
	commitParking(t, s, p, func(q *Seq) bool { return parked[q] })
}

// showAll is showGroups with the picks counted.
func showAll(p *Plan) string {
	if len(p.Rows) > 0 && len(p.Rows[0].Samples) > 1 {
		return show(p)
	}
	return showGroups(p)
}

// resultOf is what a sequence or group goes on with: token 7, or as many rows as it may have.
func resultOf(q *Seq) Result {
	if q.rows == nil {
		return Result{Tokens: []llm.Token{7}, End: len(q.Output())+1 >= q.max}
	}
	if len(q.rows[0].Output())+1 >= q.max {
		return Result{}
	}
	return Result{Beams: apart(q)}
}

// commitParking commits a plan; whom park names stays pending.
func commitParking(t *testing.T, s *Scheduler, p *Plan, park func(q *Seq) bool) {
	t.Helper()
	if len(p.Rows) == 0 {
		return
	}
	var results []Result
	for _, r := range p.Rows {
		for _, m := range r.Samples {
			q := m.Handle()
			switch first := q.rows == nil || q.rows[0] == m; {
			case !first:
				results = append(results, Result{})
			case park(q):
				results = append(results, Result{Pending: true, Tokens: []llm.Token{99}, End: true})
			default:
				results = append(results, resultOf(q))
			}
		}
	}
	s.Commit(p, results)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// TestAbortParked ends parked sequences: running, preempted, and as a group.
func TestAbortParked(t *testing.T) {
	for _, beams := range []int{0, 2} {
		for _, back := range []bool{false, true} {
			s := newScheduler(t, Settings{NoPrefixSharing: true}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400})
			add(t, s, Job{Prompt: prompt(1, 4), MaxNew: 9})
			victim := add(t, s, Job{Prompt: prompt(2, 6), MaxNew: 3, Beams: beams})[0]
			park := func(q *Seq) bool { return q == victim }
			commitParking(t, s, s.Plan(), park)
			for victim.state == running == back {
				commitParking(t, s, s.Plan(), park)
			}
			if !victim.Parked() || s.Parked() != 1 {
				t.Fatal("the victim is not parked")
			}
			s.Abort(victim)
			if err := s.Check(); err != nil || victim.Parked() || s.Parked() != 0 {
				t.Errorf("beams %d, preempted %v: %v, %d parked", beams, back, err, s.Parked())
			}
			if used, _, _ := s.Cache(); used != len(s.running[0].row.Blocks()) {
				t.Errorf("beams %d, preempted %v: %d blocks are held", beams, back, used)
			}
		}
	}
}

// TestRandomParking parks, resolves, aborts and drops at random. Whatever is not parked
// gets its token in each step, and the outputs have the tokens that were picked.
func TestRandomParking(t *testing.T) {
	steppedBack := 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		s := newScheduler(t, Settings{
			MaxBatchPrefillTokens: 1 + r.IntN(12), MaxBatchSize: 2 + r.IntN(8), NoPrefixSharing: seed%4 == 0,
			WaitingServedRatio: float64(r.IntN(3)), MaxWaitingTokens: r.IntN(4),
		}, Shape{Blocks: 6 + r.IntN(12), BlockSize: 1 + r.IntN(5), MaxLen: 60})
		var parked []*Seq
		for step := 0; step < 300 || s.Running()+s.Waiting() > 0; step++ {
			if step > 20000 {
				t.Fatalf("seed %d: no end", seed)
			}
			if r.IntN(3) == 0 && step < 300 {
				addSome(t, s, r, "")
			}
			for _, q := range append([]*Seq(nil), parked...) {
				switch n := r.IntN(12); {
				case q.state == ended:
				case n == 0:
					s.Abort(q)
				case n < 4:
					s.Resolve(q, resultOf(q))
				default:
					continue
				}
				parked = remove(parked, q)
			}
			if err := s.Check(); err != nil {
				t.Fatalf("seed %d step %d: %v", seed, step, err)
			}
			p := s.Plan()
			if p.Preempted > 0 && s.waiting.parked() > 0 {
				steppedBack++
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
				if r.IntN(3) > 0 {
					return false
				}
				parked = append(parked, q)
				return true
			})
		}
		if used, _, _ := s.Cache(); used != 0 {
			t.Errorf("seed %d: %d blocks are left", seed, used)
		}
	}
	if steppedBack == 0 {
		t.Error("no sequence was preempted while it was parked")
	}
}

// addSome adds a job that fits: one sequence, several or a group.
func addSome(t *testing.T, s *Scheduler, r *rand.Rand, client string) []*Seq {
	set := s.Settings()
	in := 1 + r.IntN(set.MaxInputTokens)
	j := Job{Prompt: prompt(r.IntN(3), in), MaxNew: 1 + r.IntN(set.MaxTotalTokens-in), N: 1 + r.IntN(3)*r.IntN(2),
		Score: r.IntN(4) == 0, Client: client}
	if r.IntN(3) == 0 {
		j.N, j.Beams = 1, 2
		if set.CheckBeams(in, j.MaxNew, 2, s.pool.BlockSize()) != nil {
			return nil
		}
	}
	return add(t, s, j)
}

// checkParked verifies that nothing parked is planned and nothing else sits out.
func checkParked(t *testing.T, s *Scheduler, p *Plan) {
	t.Helper()
	inPlan := map[*Seq]bool{}
	for _, r := range p.Rows {
		if r.Seq.Handle().parked {
			t.Fatalf("parked sequence %d is planned", r.Seq.id)
		}
		inPlan[r.Seq] = true
	}
	for _, q := range s.running {
		if q.rows == nil && !q.parked && q.uncomputed() == 1 && !inPlan[q] {
			t.Fatalf("sequence %d got no token", q.id)
		}
	}
}

func remove(list []*Seq, q *Seq) []*Seq {
	for i := range list {
		if list[i] == q {
			return append(list[:i:i], list[i+1:]...)
		}
	}
	return list
}

// TestResolveIsRefused: what is not parked has nothing to resolve.
func TestResolveIsRefused(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 4, BlockSize: 4, MaxLen: 400})
	q := add(t, s, Job{Prompt: []llm.Token{1}, MaxNew: 2})[0]
	defer func() {
		if r := recover(); r == nil || !strings.Contains(fmt.Sprint(r), "BUG") {
			t.Errorf("recovered %v", r)
		}
	}()
	s.Resolve(q, Result{Tokens: []llm.Token{1}})
}
