package sched

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
)

// TestSharesAreKept has clients with shares that always have more than the cache holds: what each gets over its share
// is the same for all, but for what the cache, a step and two sequences hold.
func TestSharesAreKept(t *testing.T) {
	for seed := range uint64(30) {
		r := rand.New(rand.NewPCG(seed, 21))
		set, sh, kind := tight(t, r, seed)
		s := newScheduler(t, set, sh)
		shares := map[string]float64{}
		loads, longest, least := map[string]*load{}, 0, 1.0
		for _, n := range clientNames[:2+r.IntN(3)] {
			shares[n] = []float64{0.25, 0.5, 1, 2, 4}[r.IntN(5)]
			least = min(least, shares[n])
			job := kind(40)
			one := job()
			longest = max(longest, len(one.Prompt)+one.MaxNew)
			loads[n] = &load{live: 30, job: func() Job { j := job(); j.Share = shares[n]; return j }}
		}
		bound := float64(sh.Blocks*sh.BlockSize+set.MaxBatchPrefillTokens+2*longest) / least
		got := map[string]float64{}
		for step := range 4000 {
			for n, l := range loads {
				l.refill(t, s, n)
			}
			p := s.Plan()
			for _, row := range p.Rows {
				n := row.Seq.Handle().client.name
				got[n] += float64(row.Len) / shares[n]
			}
			lo, hi := math.Inf(1), 0.0
			for n := range loads {
				lo, hi = min(lo, got[n]), max(hi, got[n])
			}
			if hi-lo > bound {
				t.Fatalf("seed %d, step %d: tokens over shares %v of %v, want them at most %v apart", seed, step, got, shares,
					bound)
			}
			commitParking(t, s, p, never)
		}
	}
}

// TestPriorities: jobs of one client that have not run go by priority, then by arrival, and the places of other
// clients' jobs stay.
func TestPriorities(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchSize: 1}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 400})
	jobs := []struct {
		name     string
		client   string
		priority int
	}{{"runs", "a", 9}, {"a0", "a", 0}, {"b9", "b", 9}, {"a2", "a", 2}, {"a-1", "a", -1}, {"b0", "b", 0}, {"a0'", "a",
		0}, {"b-5", "b", -5}}
	names := map[*Seq]string{}
	var runs *Seq
	for i, j := range jobs {
		q := add(t, s, Job{Prompt: prompt(i, 2), MaxNew: 40, Client: j.client, Priority: j.priority})[0]
		names[q] = j.name
		if i == 0 {
			runs = q
			commit(t, s, s.Plan())
		}
	}
	order := func(client string) (got []string) {
		for _, q := range s.clients.byName[client].live {
			got = append(got, names[q])
		}
		return got
	}
	if got, want := order("a"), []string{"runs", "a-1", "a0", "a0'", "a2"}; !slices.Equal(got, want) || runs.id != 1 {
		t.Errorf("a's order is %v, want %v", got, want)
	}
	if got, want := order("b"), []string{"b-5", "b0", "b9"}; !slices.Equal(got, want) {
		t.Errorf("b's order is %v, want %v", got, want)
	}
	// b's first has the place in which its oldest came, the third of all.
	if first := s.clients.byName["b"].live[0]; first.id != 3 {
		t.Errorf("b's first is number %d of all, want 3", first.id)
	}
}

// TestPrioritiesStarveNobody: however many more urgent jobs of its client come, each job is passed by so many at most.
func TestPrioritiesStarveNobody(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchSize: 2}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 400})
	for i := range 3 {
		add(t, s, Job{Prompt: prompt(i, 2), MaxNew: 3, Client: "a"})
	}
	patient := add(t, s, Job{Prompt: prompt(4, 2), MaxNew: 3, Client: "a", Priority: 7})[0]
	steps := 0
	for ; patient.state != ended; steps++ {
		if steps > 4*maxOvertaken {
			t.Fatal("it never runs")
		}
		for range 2 {
			add(t, s, Job{Prompt: prompt(10+steps, 2), MaxNew: 3, Client: "a", Priority: -steps})
		}
		commitParking(t, s, s.Plan(), never)
	}
	if patient.overtaken != maxOvertaken {
		t.Errorf("it was overtaken %d times and took %d steps", patient.overtaken, steps)
	}
}

// TestPrioritiesAtRandom has clients with priorities and shares add, abort and park sequences at random. Everything
// ends, one that has run is first until it ends, and no client's priorities change when another's jobs run.
func TestPrioritiesAtRandom(t *testing.T) {
	moved := 0
	for seed := range uint64(60) {
		plain, urgent := newTrace(t, seed, false), newTrace(t, seed, true)
		if !slices.Equal(plain.other, urgent.other) {
			t.Errorf("seed %d: the other client's steps depend on priorities", seed)
		}
		moved += urgent.moved
	}
	if moved == 0 {
		t.Error("no priority had an effect")
	}
}

// trace is what a random test saw: in which steps the client "other" had rows, and how many jobs were overtaken.
type trace struct {
	other []int
	moved int
}

// newTrace runs jobs of equal length of two clients, of which one's have priorities if urgent.
func newTrace(t *testing.T, seed uint64, urgent bool) (tr trace) {
	t.Helper()
	r := rand.New(rand.NewPCG(seed, 22))
	s := newScheduler(t, Settings{MaxBatchPrefillTokens: 3 + r.IntN(9), MaxBatchSize: 1 + r.IntN(6),
		NoPrefixSharing: true}, Shape{Blocks: 12 + r.IntN(12), BlockSize: 2 + r.IntN(3), MaxLen: 24})
	in, out, n := 1+r.IntN(6), 1+r.IntN(6), 1+r.IntN(2)
	var first *Seq
	for step := 0; step < 200 || s.Running()+s.Waiting() > 0; step++ {
		if step > 5000 {
			t.Fatalf("seed %d: no end", seed)
		}
		if step < 200 && r.IntN(2) == 0 {
			j := Job{Prompt: prompt(step, in), MaxNew: out, N: n, Client: "mine", Share: 2}
			if priority := r.IntN(9) - 4; urgent {
				j.Priority = priority
			}
			if r.IntN(3) == 0 {
				j.Client, j.Share, j.Priority = "other", 1, 0
			}
			add(t, s, j)
		}
		ran := first != nil && first.admissions > 0
		p := s.Plan()
		if ran && first.state != ended && firstOf(s) != first {
			t.Fatalf("seed %d, step %d: sequence %d ran and was first", seed, step, first.id)
		}
		first = firstOf(s)
		for _, row := range p.Rows {
			if q := row.Seq; q.client.name == "other" {
				tr.other = append(tr.other, step)
			} else if q.overtaken > 0 {
				tr.moved++
			}
		}
		commitParking(t, s, p, never)
	}
	return tr
}

// TestPoliteKeysFirstTokens: beside a client with a thousand requests, the steps until the first token of others, who
// ask now and then, are at most twice those without it, in 99 of 100.
func TestPoliteKeysFirstTokens(t *testing.T) {
	set := Settings{MaxBatchSize: 16, MaxBatchPrefillTokens: 64, NoPrefixSharing: true}
	sh := Shape{Blocks: 300, BlockSize: 4, MaxLen: 400}
	alone, beside := firstTokens(t, set, sh, 0), firstTokens(t, set, sh, 1000)
	if p, q := p99(alone), p99(beside); q > 2*p || p == 0 {
		t.Errorf("the 99th percentile is %d steps beside a flood, %d without", q, p)
	}
}

func p99(steps []int) int {
	slices.Sort(steps)
	return steps[len(steps)*99/100]
}

// firstTokens returns the steps until the first tokens of two polite clients beside one that has so many requests.
func firstTokens(t *testing.T, set Settings, sh Shape, flood int) (out []int) {
	t.Helper()
	r := rand.New(rand.NewPCG(1, 23))
	s := newScheduler(t, set, sh)
	many := &load{live: flood, job: func() Job { return Job{Prompt: prompt(1, 30), MaxNew: 60} }}
	began, shown := map[*Seq]int{}, map[*Seq]bool{}
	for step := range 3000 {
		if flood > 0 && step%50 == 0 {
			many.refill(t, s, "flood")
		}
		for _, n := range []string{"one", "two"} {
			if r.IntN(12) == 0 {
				began[add(t, s, Job{Prompt: prompt(2+step, 20), MaxNew: 8, Client: n})[0]] = step
			}
		}
		p := s.Plan()
		for _, row := range p.Rows {
			q := row.Seq
			if at, ok := began[q]; ok && len(row.Samples) > 0 && !shown[q] {
				shown[q] = true
				out = append(out, step-at+1)
			}
		}
		commitParking(t, s, p, never)
	}
	return out
}
