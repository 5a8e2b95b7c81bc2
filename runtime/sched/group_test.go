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

// showGroups is show with a letter for each row of a group: "1a[0:5]".
func showGroups(p *Plan) string {
	var b strings.Builder
	for _, r := range p.Rows {
		name := ""
		if i := slices.Index(r.Seq.Handle().Rows(), r.Seq); i >= 0 {
			name = string(rune('a' + i))
		}
		fmt.Fprintf(&b, " %d%s[%d:%d]", r.Seq.id, name, r.Start, r.Start+r.Len)
		if len(r.Samples) > 0 {
			b.WriteString("!")
		}
	}
	if p.Preempted > 0 {
		fmt.Fprintf(&b, " -%d", p.Preempted)
	}
	return strings.TrimSpace(b.String())
}

// commitGroups commits token 7 to each sequence; next chooses how a group goes on.
func commitGroups(t *testing.T, s *Scheduler, p *Plan, next func(g *Seq) []Branch) {
	t.Helper()
	var results []Result
	for _, r := range p.Rows {
		for _, q := range r.Samples {
			g := q.Handle()
			res := Result{Tokens: []llm.Token{7}, End: len(q.Output())+1 >= q.max}
			if rows := g.Rows(); rows != nil && rows[0] == q && !g.twins {
				if res = (Result{}); len(q.Output())+1 < q.max {
					res.Beams = next(g)
				}
			}
			results = append(results, res)
		}
	}
	s.Commit(p, results)
	if err := s.Check(); err != nil {
		t.Fatal(err)
	}
}

// apart has each group go on with all its rows, or from its prompt with as many as it may.
func apart(g *Seq) (out []Branch) {
	for i := range g.width {
		out = append(out, Branch{From: i % len(g.rows), Token: llm.Token(100 + i)})
	}
	return out
}

func TestGroupTraces(t *testing.T) {
	roomy := Shape{Blocks: 100, BlockSize: 4, MaxLen: 400}
	for _, c := range []struct {
		name  string
		set   Settings
		sh    Shape
		jobs  []Job
		trace string
	}{
		{"rows step together", Settings{MaxBatchPrefillTokens: 4}, roomy,
			[]Job{{Prompt: prompt(1, 6), MaxNew: 3, Beams: 3}}, `
			1a[0:4]
			1a[4:6]!
			1a[6:7]! 1b[6:7]! 1c[6:7]!
			1a[7:8]! 1b[7:8]! 1c[7:8]!`},
		{"a group counts with all the rows that it may get", Settings{MaxBatchSize: 3}, roomy,
			[]Job{{Prompt: prompt(1, 2), MaxNew: 2, Beams: 3}, {Prompt: prompt(2, 2), MaxNew: 1}}, `
			1a[0:2]!
			1a[2:3]! 1b[2:3]! 1c[2:3]!
			2[0:2]!`},
		{"a group steps back whole, and one row computes what all begin with", Settings{NoPrefixSharing: true},
			Shape{Blocks: 7, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 11), MaxNew: 11}, {Prompt: prompt(2, 5), MaxNew: 9, Beams: 2}}, `
			1[0:11]! 2a[0:5]!
			1[11:12]! 2a[5:6]! 2b[5:6]!
			1[12:13]! 2a[6:7]! 2b[6:7]!
			1[13:14]! 2a[7:8]! 2b[7:8]!
			1[14:15]! -2
			1[15:16]!
			1[16:17]!
			1[17:18]!
			1[18:19]!
			1[19:20]!
			1[20:21]!
			2a[0:8]
			2b[4:8]
			2a[8:9]! 2b[8:9]!
			2a[9:10]! 2b[9:10]!
			2a[10:11]! 2b[10:11]!
			2a[11:12]! 2b[11:12]!
			2a[12:13]! 2b[12:13]!`},
		{"what a group computed is found again", Settings{}, Shape{Blocks: 5, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 3), MaxNew: 7}, {Prompt: prompt(2, 5), MaxNew: 6, Beams: 2}}, `
			1[0:3]! 2a[0:5]!
			1[3:4]! 2a[5:6]! 2b[5:6]!
			1[4:5]! 2a[6:7]! 2b[6:7]!
			1[5:6]! 2a[7:8]! 2b[7:8]!
			1[6:7]! -2
			1[7:8]!
			1[8:9]!
			2a[4:8]
			2a[8:9]! 2b[8:9]!
			2a[9:10]! 2b[9:10]!`},
		{"twins compute all their prompts before they pick", Settings{MaxBatchPrefillTokens: 6}, roomy,
			[]Job{{Prompt: prompt(1, 9), MaxNew: 3, N: 1, Twins: [][]llm.Token{prompt(2, 2)}}}, `
			1a[0:6]
			1a[6:9]! 1b[0:2]!
			1a[9:10]! 1b[2:3]!
			1a[10:11]! 1b[3:4]!`},
		{"twins share what they begin with, and others follow them", Settings{}, roomy,
			[]Job{{Prompt: prompt(1, 9), MaxNew: 2, N: 2, Twins: [][]llm.Token{append(prompt(1, 8), 77, 78, 79)}}}, `
			1a[0:8]
			1a[8:9]! 1b[8:11]!
			1a[9:10]! 1b[11:12]! 2a[8:9]! 2b[8:11]!
			2a[9:10]! 2b[11:12]!`},
		{"twins step back whole", Settings{NoPrefixSharing: true}, Shape{Blocks: 7, BlockSize: 4, MaxLen: 400},
			[]Job{{Prompt: prompt(1, 11), MaxNew: 5}, {Prompt: prompt(2, 5), MaxNew: 5, N: 1,
				Twins: [][]llm.Token{prompt(3, 2)}}}, `
			1[0:11]! 2a[0:5]! 2b[0:2]!
			1[11:12]! 2a[5:6]! 2b[2:3]!
			1[12:13]! 2a[6:7]! 2b[3:4]!
			1[13:14]! -2
			1[14:15]!
			2a[0:8]! 2b[0:5]!
			2a[8:9]! 2b[5:6]!`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, c.set, c.sh)
			for _, j := range c.jobs {
				add(t, s, j)
			}
			var got []string
			for p := s.Plan(); len(p.Rows) > 0 && len(got) < 100; p = s.Plan() {
				got = append(got, showGroups(p))
				commitGroups(t, s, p, apart)
			}
			var want []string
			for line := range strings.Lines(strings.TrimSpace(c.trace)) {
				want = append(want, strings.TrimSpace(line))
			}
			if !slices.Equal(got, want) {
				t.Errorf("plans\n%s\nwant\n%s", strings.Join(got, "\n"), strings.Join(want, "\n"))
			}
			if used, _, _ := s.Cache(); used != 0 || s.Running()+s.Waiting() != 0 {
				t.Errorf("%d blocks, %d running, %d waiting are left", used, s.Running(), s.Waiting())
			}
		})
	}
}

// TestBeamsFitAlone: what CheckBeams accepts never steps back when it is alone,
// and it refuses one block less.
func TestBeamsFitAlone(t *testing.T) {
	for seed := range uint64(200) {
		r := rand.New(rand.NewPCG(seed, 3))
		size, in, out, beams := 1+r.IntN(5), 1+r.IntN(20), 1+r.IntN(20), 2+r.IntN(6)
		j := Job{Prompt: prompt(1, in), MaxNew: out, Beams: beams}
		for blocks := 1; ; blocks++ {
			s := newScheduler(t, Settings{NoPrefixSharing: seed%2 == 0, MaxBatchSize: beams},
				Shape{Blocks: blocks, BlockSize: size, MaxLen: 200})
			if _, err := s.Add(j); err != nil {
				if !errors.Is(err, llm.ErrTooLong) && !errors.Is(err, llm.ErrInvalid) {
					t.Fatal(err)
				}
				continue
			}
			most := 0
			for p := s.Plan(); len(p.Rows) > 0; p = s.Plan() {
				used, _, _ := s.Cache()
				most = max(most, used)
				if p.Preempted > 0 {
					t.Fatalf("seed %d: %d beams of %d+%d tokens are preempted in %d blocks of %d", seed, beams, in, out,
						blocks, size)
				}
				commitGroups(t, s, p, apart)
			}
			if most != blocks && blocks*size > in+out {
				t.Errorf("seed %d: %d beams of %d+%d tokens use %d blocks of %d, not the %d they need", seed, beams, in,
					out, most, size, blocks)
			}
			break
		}
	}
}

func TestCheckBeams(t *testing.T) {
	sh := Shape{Blocks: 10, BlockSize: 16, MaxLen: 1000}
	s := newScheduler(t, Settings{MaxBatchSize: 8}, sh)
	for _, c := range []struct {
		in, out, beams int
		want           string
	}{
		{20, 13, 8, ""},
		{20, 13, 9, "invalid request: num_beams must be at most 8, got 9"},
		{20, 13, 1 << 40, "invalid request: num_beams must be at most 8, got 1099511627776"},
		{20, 0, 2, "invalid request: max_new_tokens must be at least 1, got 0"},
		{20, 61, 3,
			"request exceeds the model's capacity: 3 beams of 20 prompt tokens and 61 new ones need 13 cache blocks of 16 tokens, there are 10"},
		{20, 61, 2, ""},
		{160, 1, 8, ""}, // the new token needs no place
		{160, 2, 2, "request exceeds the model's capacity: 160 prompt tokens and 2 new ones, at most 161 fit together"},
	} {
		err := s.Settings().CheckBeams(c.in, c.out, c.beams, sh.BlockSize)
		if got := fmt.Sprint(err); got != c.want && (err != nil || c.want != "") {
			t.Errorf("%d beams of %d+%d: %v, want %q", c.beams, c.in, c.out, err, c.want)
		}
	}
}

// TestRandomGroups is TestRandom with groups among the sequences, whose rows go on,
// end and multiply at random. Some are twins.
func TestRandomGroups(t *testing.T) {
	preempted, again, twins := 0, 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 4))
		sh := Shape{Blocks: 6 + r.IntN(14), BlockSize: 1 + r.IntN(5), MaxLen: 60}
		s := newScheduler(t, Settings{
			MaxBatchPrefillTokens: 1 + r.IntN(12), MaxBatchSize: 2 + r.IntN(8), MaxPromptLogits: 1 + r.IntN(5),
			WaitingServedRatio: float64(r.IntN(3)), MaxWaitingTokens: r.IntN(4), NoPrefixSharing: seed%4 == 0,
		}, sh)
		set := s.Settings()
		next := func(g *Seq) (out []Branch) {
			if r.IntN(30) == 0 {
				return nil
			}
			for range 1 + r.IntN(g.width) {
				out = append(out, Branch{From: r.IntN(len(g.rows)), Token: llm.Token(r.IntN(2))})
			}
			return out
		}
		var all []*Seq
		steps := func(n int, more bool) {
			for range n {
				if more && r.IntN(3) == 0 {
					in := 1 + r.IntN(set.MaxInputTokens)
					j := Job{Prompt: prompt(r.IntN(3), in), MaxNew: 1 + r.IntN(set.MaxTotalTokens-in), N: 1,
						Beams: r.IntN(5), Score: r.IntN(4) == 0}
					if j.Beams == 0 && r.IntN(2) == 0 {
						j.N, j.Twins = 1+r.IntN(2), [][]llm.Token{prompt(r.IntN(3), 1+r.IntN(in))}
						j.MaxNew = min(j.MaxNew, set.MaxTotalTokens-len(j.Twins[0]))
					}
					if q, err := s.Add(j); err == nil {
						all = append(all, q...)
						twins += len(j.Twins) * len(q)
					} else if j.Beams < 2 && j.Twins == nil {
						t.Fatal(err)
					}
				}
				if more && r.IntN(6) == 0 && len(all) > 0 {
					s.Abort(all[r.IntN(len(all))])
				}
				p := s.Plan()
				preempted += p.Preempted
				checkGroups(t, s, p)
				for _, row := range p.Rows {
					if g := row.Seq.group; g != nil && g.admissions > 1 && len(g.rows) > 1 && row.Len > 1 {
						again++
					}
				}
				switch {
				case len(p.Rows) == 0:
				case more && r.IntN(40) == 0:
					s.Drop(p)
				default:
					commitGroups(t, s, p, next)
				}
				if err := s.Check(); err != nil {
					t.Fatalf("seed %d: %v", seed, err)
				}
			}
		}
		steps(400, true)
		for n := 0; s.Running()+s.Waiting() > 0; n++ {
			if steps(1, false); n > 20000 {
				t.Fatalf("seed %d: %d sequences make no progress", seed, s.Running()+s.Waiting())
			}
		}
		for _, q := range all {
			if q.state != ended {
				t.Errorf("seed %d: sequence %d is in state %d", seed, q.id, q.state)
			}
		}
		if used, _, _ := s.Cache(); used != 0 {
			t.Errorf("seed %d: %d blocks are left", seed, used)
		}
	}
	if preempted == 0 || again == 0 || twins < 100 {
		t.Errorf("%d sequences were preempted, %d rows of groups were computed again, %d twins", preempted, again, twins)
	}
}

// checkGroups is checkPlan for plans with groups.
func checkGroups(t *testing.T, s *Scheduler, p *Plan) {
	t.Helper()
	inPlan, picks := map[*Seq]bool{}, map[*Seq]int{}
	scores := 0
	for _, r := range p.Rows {
		if inPlan[r.Seq] || r.Seq.Handle().state != running || r.Len < 1 ||
			r.Start+r.Len > len(r.Seq.row.Blocks())*s.pool.BlockSize() {
			t.Fatalf("bad row %+v", r)
		}
		inPlan[r.Seq] = true
		scores += r.Scores
		picks[r.Seq.Handle()] += len(r.Samples)
	}
	prefill := len(p.Step.Tokens) - p.DecodeRows
	if prefill != p.PrefillTokens || prefill > s.settings.MaxBatchPrefillTokens || scores > s.settings.MaxPromptLogits {
		t.Fatalf("%d prompt tokens, %d said; %d scores", prefill, p.PrefillTokens, scores)
	}
	if s.Running() > s.settings.MaxBatchSize {
		t.Fatalf("%d run, at most %d may", s.Running(), s.settings.MaxBatchSize)
	}
	for _, q := range s.running {
		left := 0
		for _, m := range q.members() {
			left = max(left, m.uncomputed())
		}
		if n := picks[q]; left == 1 && n != len(q.members()) || n != 0 && n != len(q.members()) {
			t.Fatalf("of %d rows of sequence %d, %d pick", len(q.members()), q.id, n)
		}
	}
	if len(p.Rows) == 0 && s.Running()+s.Waiting() > 0 {
		t.Fatal("nothing to do, and sequences wait")
	}
}
