package sched

import (
	"math/rand/v2"
	"slices"
	"testing"
)

// beneath returns which of the plan's rows are of clients beneath, as show writes them, and their number of tokens.
func beneath(p *Plan) (rows []*Seq, tokens int) {
	for _, r := range p.Rows {
		if r.Seq.beneath() {
			rows = append(rows, r.Seq)
			tokens += r.Len
		}
	}
	return rows, tokens
}

// TestBeneathGiveWay has lines of a batch run, and a stream of another client beside them: while it runs, steps have as
// many rows of the batch as Yield says, the oldest, and the others keep their blocks; before and after it all join.
func TestBeneathGiveWay(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 100})
	allowed, asked := 2, [][2]int{}
	s.SetYield(func(decode, running int) int {
		asked = append(asked, [2]int{decode, running})
		return allowed
	})
	lines := make([]*Seq, 8)
	for i := range lines {
		lines[i] = add(t, s, Job{Prompt: prompt(i, 3), MaxNew: 40, Client: "batch", Share: 1.0 / 16, Beneath: true})[0]
	}
	step := func() (rows []*Seq, tokens int) {
		t.Helper()
		p := s.Plan()
		rows, tokens = beneath(p)
		if p.Beneath != tokens || p.Yielded != (s.clients.byName["honest"] != nil && len(s.clients.active) > 1) {
			t.Errorf("the plan has %d tokens beneath, yielded %v, want %d", p.Beneath, p.Yielded, tokens)
		}
		commit(t, s, p)
		return rows, tokens
	}
	for i := range 5 {
		if rows, _ := step(); len(rows) != 8 {
			t.Fatalf("alone, step %d has %d rows", i, len(rows))
		}
	}
	if len(asked) > 0 {
		t.Errorf("asked %v while nobody else was there", asked)
	}
	used, _, _ := s.Cache()
	honest := add(t, s, Job{Prompt: prompt(20, 3), MaxNew: 10, Client: "honest"})[0]
	for i := 0; honest.state != ended; i++ {
		allowed = []int{2, 0, 1}[i%3]
		want := allowed
		if i == 0 { // the stream's prompt
			want = 2
		}
		rows, _ := step()
		if !slices.Equal(rows, lines[:want]) {
			t.Errorf("beside the stream, step %d has %d rows beneath, want the first %d", i, len(rows), want)
		}
		for _, q := range lines {
			if len(q.row.Blocks()) == 0 || q.state != running {
				t.Fatal("a line lost its blocks")
			}
		}
		if now, _, _ := s.Cache(); now < used {
			t.Errorf("%d blocks, %d before", now, used)
		}
	}
	if want := [2]int{1, 1}; asked[0] != [2]int{0, 0} || asked[1] != want {
		t.Errorf("asked %v", asked)
	}
	for i := range 5 {
		if rows, _ := step(); len(rows) != 8 {
			t.Fatalf("alone again, step %d has %d rows", i, len(rows))
		}
	}
}

// TestBeneathPromptsGiveWay: prompts beneath are computed as far as Yield says too, and after those of others. They are
// not admitted before they may compute something.
func TestBeneathPromptsGiveWay(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchPrefillTokens: 50}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 100})
	allowed := 0
	s.SetYield(func(int, int) int { return allowed })
	honest := add(t, s, Job{Prompt: prompt(20, 3), MaxNew: 90, Client: "honest"})[0]
	commit(t, s, s.Plan())
	line := add(t, s, Job{Prompt: prompt(1, 12), MaxNew: 3, Client: "batch", Beneath: true})[0]
	for i, want := range []struct{ allowed, tokens, computed int }{{0, 0, 0}, {5, 5, 5}, {0, 0, 5}, {3, 3, 8},
		{9, 4, 12}, {0, 0, 12}, {1, 1, 13}} {
		allowed = want.allowed
		p := s.Plan()
		_, tokens := beneath(p)
		commit(t, s, p)
		if tokens != want.tokens || line.row.Len() != want.computed {
			t.Errorf("step %d: %d tokens beneath, %d in all, want %+v", i, tokens, line.row.Len(), want)
		}
		if i == 0 && line.state != waiting {
			t.Error("it was admitted with nothing to compute")
		}
	}
	// What is left of the step's prompt tokens is theirs.
	allowed = 100
	add(t, s, Job{Prompt: prompt(2, 40), MaxNew: 3, Client: "batch", Beneath: true})
	add(t, s, Job{Prompt: prompt(30, 45), MaxNew: 3, Client: "late"})
	p := s.Plan()
	if _, tokens := beneath(p); tokens != 1+5 || p.PrefillTokens != 50 {
		t.Errorf("%d tokens beneath of %d prompt tokens, want the line's token and 5 of 50", tokens, p.PrefillTokens)
	}
	commit(t, s, p)
	if honest.state != running {
		t.Error("the stream ended")
	}
}

// TestBeneathAreServed: where others compute nothing that decodes, a step has a token of those beneath, whatever Yield
// says, and with a Yield that is above 0 now and then each of them ends while others go on.
func TestBeneathAreServed(t *testing.T) {
	s := newScheduler(t, Settings{MaxBatchPrefillTokens: 4}, Shape{Blocks: 400, BlockSize: 4, MaxLen: 1000})
	s.SetYield(func(int, int) int { return -3 })
	add(t, s, Job{Prompt: prompt(1, 3), MaxNew: 9, Client: "batch", Beneath: true})
	commit(t, s, s.Plan())
	parked := add(t, s, Job{Prompt: prompt(2, 20), MaxNew: 9, Client: "honest"})[0]
	for range 5 { // its prompt
		p := s.Plan()
		if _, tokens := beneath(p); tokens != 1 {
			t.Errorf("%d tokens beneath beside a prompt", tokens)
		}
		commitParking(t, s, p, func(q *Seq) bool { return q == parked })
	}
	p := s.Plan()
	if _, tokens := beneath(p); tokens != 1 || !parked.parked {
		t.Errorf("%d tokens beneath beside a parked row", tokens)
	}
	commit(t, s, p)
	s.Abort(parked)

	turn := 0
	s.SetYield(func(int, int) int { turn++; return []int{1, -1, 0, 0}[turn%4] })
	add(t, s, Job{Prompt: prompt(3, 3), MaxNew: 900, Client: "honest"})
	var lines []*Seq
	for i := range 12 {
		lines = append(lines, add(t, s, Job{Prompt: prompt(10+i, 3), MaxNew: 8, Client: "batch", Beneath: true})...)
	}
	for range 700 {
		commit(t, s, s.Plan())
	}
	for i, q := range lines {
		if q.state != ended {
			t.Errorf("line %d has %d tokens", i, len(q.Output()))
		}
	}
}

// TestDraftsBeneath: those that give way get no guesses.
func TestDraftsBeneath(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 100})
	s.SetYield(func(int, int) int { return 9 })
	line := add(t, s, Job{Prompt: prompt(1, 3), MaxNew: 9, Client: "batch", Beneath: true})[0]
	commit(t, s, s.Plan())
	if _, rows := s.DraftRooms(); s.DraftRoom(line) == 0 || rows != 1 {
		t.Error("no room for guesses alone")
	}
	add(t, s, Job{Prompt: prompt(2, 3), MaxNew: 9, Client: "honest"})
	if list, rows := s.DraftRooms(); s.DraftRoom(line) != 0 || len(list) != 0 || rows != 0 {
		t.Error("room for guesses beside another client")
	}
}

// TestRandomYields plays with clients that stand beneath others, which may have any number of tokens in a step.
func TestRandomYields(t *testing.T) {
	var sum tally
	for seed := range uint64(150) {
		r := rand.New(rand.NewPCG(seed, 31))
		g := &game{t: t, choose: r.IntN, limit: 200, contexts: seed%2 == 0, yields: true}
		if g.play(); t.Failed() {
			t.Fatalf("seed %d", seed)
		}
		sum.add(g.tally)
	}
	if sum.preempted == 0 || sum.forks == 0 || sum.accepted == 0 || sum.yielded == 0 || sum.paused == 0 {
		t.Errorf("too little happened: %+v", sum)
	}
}

// TestContextsBeneath: the spans of a program's contexts, and of their forks, give way as other sequences do.
func TestContextsBeneath(t *testing.T) {
	s := newScheduler(t, Settings{}, Shape{Blocks: 100, BlockSize: 4, MaxLen: 100})
	s.SetYield(func(int, int) int { return 0 })
	q := s.Open(Job{Prompt: prompt(1, 3), Client: "program", Beneath: true})
	f := s.Fork(q, 3)
	s.Append(f, prompt(2, 2))
	for _, x := range []*Seq{q, f} {
		if err := s.Resume(x, 9, 0); err != nil {
			t.Fatal(err)
		}
	}
	commit(t, s, s.Plan())
	add(t, s, Job{Prompt: prompt(3, 3), MaxNew: 9, Client: "honest"})
	commit(t, s, s.Plan())
	p := s.Plan()
	if rows, _ := beneath(p); len(rows) != 0 || len(p.Rows) != 1 {
		t.Errorf("%d rows, %d beneath", len(p.Rows), len(rows))
	}
	commit(t, s, p)
}
