package sched

import (
	"math/rand/v2"
	"testing"

	"tgi/runtime/llm"
)

// TestLongTraces: a sequence that grows beyond the original context is computed anew, and shares no blocks with shorter
// ones.
func TestLongTraces(t *testing.T) {
	roomy := Shape{Blocks: 100, BlockSize: 4, MaxLen: 400, OriginalLen: 8}
	for _, c := range []struct {
		name  string
		set   Settings
		sh    Shape
		jobs  []Job
		trace string
	}{
		{"one that grows", Settings{}, roomy, []Job{{Prompt: prompt(1, 7), MaxNew: 4}}, `
			1[0:7]!
			1[7:8]!
			1[0:9]! -1
			1[9:10]!`},
		{"one that fits", Settings{}, roomy, []Job{{Prompt: prompt(1, 7), MaxNew: 2}}, `
			1[0:7]!
			1[7:8]!`},
		{"a long prompt is computed once, in chunks", Settings{MaxBatchPrefillTokens: 5}, roomy,
			[]Job{{Prompt: prompt(1, 12), MaxNew: 2}}, `
			1[0:5]
			1[5:10]
			1[10:12]!
			1[12:13]!`},
		{"a short and a long one share no prefix, two long ones do", Settings{MaxBatchSize: 1}, roomy,
			[]Job{{Prompt: prompt(1, 8), MaxNew: 1}, {Prompt: prompt(1, 12), MaxNew: 1},
				{Prompt: prompt(1, 13), MaxNew: 1}}, `
			1[0:8]!
			2[0:12]!
			3[12:13]!`},
		{"forks grow together", Settings{}, roomy, []Job{{Prompt: prompt(1, 8), MaxNew: 3, N: 2}}, `
			1[0:8]!2
			1[0:9]! 2[0:9]! -2
			1[9:10]! 2[9:10]!`},
		{"forks of a long prompt share it", Settings{}, roomy, []Job{{Prompt: prompt(1, 12), MaxNew: 2, N: 2}}, `
			1[0:12]!2
			1[12:13]! 2[12:13]!`},
		{"it waits for room like any other", Settings{NoPrefixSharing: true},
			Shape{Blocks: 5, BlockSize: 4, MaxLen: 400, OriginalLen: 8},
			[]Job{{Prompt: prompt(1, 3), MaxNew: 9}, {Prompt: prompt(2, 8), MaxNew: 2}}, `
			1[0:3]! 2[0:8]!
			1[3:4]! 2[0:9]! -1
			1[4:5]!
			1[5:6]!
			1[6:7]!
			1[7:8]!
			1[0:9]! -1
			1[9:10]!
			1[10:11]!`},
	} {
		t.Run(c.name, func(t *testing.T) {
			s := newScheduler(t, c.set, c.sh)
			for _, j := range c.jobs {
				add(t, s, j)
			}
			run(t, s, c.trace)
		})
	}
}

// written is what a slot of the cache holds.
type written struct {
	token    llm.Token
	position int
	long     bool
}

// TestLongSequencesReadTheirOwnKeys keeps what a backend would have in its cache: each row must find its own tokens
// there, all computed as those of a sequence of its length.
func TestLongSequencesReadTheirOwnKeys(t *testing.T) {
	crossed, long, short := 0, 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 9))
		sh := Shape{Blocks: 6 + r.IntN(14), BlockSize: 1 + r.IntN(5), MaxLen: 60, OriginalLen: 1 + r.IntN(40)}
		s := newScheduler(t, Settings{
			MaxBatchPrefillTokens: 1 + r.IntN(12), MaxBatchSize: 2 + r.IntN(8), MaxPromptLogits: 1 + r.IntN(5),
			WaitingServedRatio: float64(r.IntN(3)), MaxWaitingTokens: r.IntN(4), NoPrefixSharing: seed%4 == 0,
		}, sh)
		set := s.Settings()
		cache := map[int32]written{}
		next := func(g *Seq) (out []Branch) {
			for range 1 + r.IntN(g.width) {
				out = append(out, Branch{From: r.IntN(len(g.rows)), Token: llm.Token(r.IntN(2))})
			}
			return out
		}
		read := func(p *Plan) {
			size, st := int32(sh.BlockSize), &p.Step
			for _, c := range p.Copies {
				for i := range size {
					cache[c.Dst*size+i] = cache[c.Src*size+i]
				}
			}
			for b, row := range p.Rows {
				q := row.Seq
				isLong := len(st.Long) > 0 && st.Long[b]
				if isLong != (len(q.tokens) > sh.OriginalLen) {
					t.Fatalf("seed %d: a row of %d tokens is long: %t, the original context has %d", seed, len(q.tokens), isLong,
						sh.OriginalLen)
				}
				if isLong {
					long++
				} else {
					short++
				}
				for i := row.Start; i < row.Start+row.Len; i++ {
					cache[st.SlotMapping[int(st.CuSeqlens[b])+i-row.Start]] = written{q.tokens[i], i, isLong}
				}
			}
			for b, row := range p.Rows { // as rows of a step may share what one of them computes
				for i := range row.Start + row.Len {
					block := st.BlockTable[b*st.MaxBlocks+i/sh.BlockSize]
					want := written{row.Seq.tokens[i], i, len(row.Seq.tokens) > sh.OriginalLen}
					if got := cache[block*size+int32(i%sh.BlockSize)]; got != want {
						t.Fatalf("seed %d: sequence %d reads %+v, want %+v", seed, row.Seq.id, got, want)
					}
				}
			}
		}
		for step := 0; step < 300 || s.Running()+s.Waiting() > 0; step++ {
			if step > 20000 {
				t.Fatalf("seed %d: %d sequences make no progress", seed, s.Running()+s.Waiting())
			}
			if step < 300 && r.IntN(3) == 0 {
				in := 1 + r.IntN(set.MaxInputTokens)
				j := Job{Prompt: prompt(r.IntN(3), in), MaxNew: 1 + r.IntN(set.MaxTotalTokens-in), N: 1,
					Beams: r.IntN(5), Score: r.IntN(4) == 0}
				if j.Beams < 2 {
					j.N = 1 + r.IntN(3)
				}
				if in <= sh.OriginalLen && in+j.MaxNew > sh.OriginalLen+1 {
					crossed++
				}
				if _, err := s.Add(j); err != nil && j.Beams < 2 {
					t.Fatal(err)
				}
			}
			p := s.Plan()
			if len(p.Rows) == 0 {
				if s.Running()+s.Waiting() > 0 {
					t.Fatalf("seed %d: nothing to do, and sequences wait", seed)
				}
				continue
			}
			read(p)
			commitGroups(t, s, p, next)
		}
	}
	if crossed < 100 || long < 1000 || short < 1000 {
		t.Errorf("%d sequences were to grow long, %d long rows and %d others ran", crossed, long, short)
	}
}
