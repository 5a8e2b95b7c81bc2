package plugins

import (
	"cmp"
	"context"
	"errors"
	"math"
	"slices"

	"tgi/plugins/draft"
	"tgi/plugins/guard"
	"tgi/plugins/internal/guest"
	"tgi/plugins/logits"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// The artificial sequence that every new version must complete before it serves requests. The prompt is longer than
// what plugins look back at, and there are enough steps to use up what the first ones have beside their own fuel.
const (
	selfTestPrompt = 40
	selfTestSteps  = 6
	selfTestSeed   = 1
)

// selfTest asks a guest to validate {}, and for what its kinds do: to begin with it and take some steps, to render a
// conversation, to parse a text. The guest may refuse {}, since parameters may be mandatory for it: refuses is then its
// text. Any fault is an error that names the export and the cause.
func selfTest(ctx context.Context, g *guest.Guest, kinds []string) (refuses string, err error) {
	var no *guest.Refusal
	switch err := g.Validate(ctx.Done(), nil); {
	case errors.As(err, &no):
		refuses = no.Text
	case err != nil:
		return "", err
	}
	for _, k := range kinds {
		switch k {
		case abi.KindTemplate:
			err = selfTestTemplate(ctx, g)
		case abi.KindTools:
			err = selfTestTools(ctx, g)
		case abi.KindGrammar:
			err = selfTestGrammar(ctx, g)
		case abi.KindProgram:
			err = selfTestProgram(ctx, g)
		}
		if err != nil && !errors.As(err, &no) {
			return "", err
		}
	}
	if err := selfTestSequence(ctx, g, slices.DeleteFunc(slices.Clone(kinds), func(k string) bool {
		return !guest.Steps(k)
	})); err != nil && !errors.As(err, &no) {
		return "", err
	}
	return refuses, nil
}

// selfTestSequence begins a sequence of the token loop's kinds and takes some steps, if there are such kinds.
func selfTestSequence(ctx context.Context, g *guest.Guest, kinds []string) error {
	if len(kinds) == 0 {
		return nil
	}
	prompt := selfTestTokens(g.Vocabulary())
	s, err := g.Begin(guest.Start{Kinds: kinds, Prompt: prompt, Seed: selfTestSeed,
		MaxTokens: len(prompt) + selfTestSteps, Cancel: ctx.Done()})
	if err != nil {
		return err
	}
	defer s.Close()
	return selfTestRun(s, kinds, prompt)
}

// selfTestTokens returns the first tokens that stand for text, or token 0.
func selfTestTokens(v Vocabulary) (ids []uint32) {
	for id := range uint32(v.Size()) {
		if len(v.Bytes(id)) > 0 && v.Flags(id) == 0 {
			ids = append(ids, id)
		}
		if len(ids) == selfTestPrompt {
			return ids
		}
	}
	return []uint32{0}
}

func selfTestRun(s *guest.Session, kinds []string, prompt []uint32) error {
	var p *logits.Processor
	var pick *logits.Sampler
	if slices.Contains(kinds, abi.KindLogits) {
		p = logits.NewProcessor(s)
	}
	if slices.Contains(kinds, abi.KindSampler) {
		pick = logits.NewSampler(s)
	}
	var watch *guard.Checker
	if slices.Contains(kinds, abi.KindGuard) {
		watch = guard.NewChecker(s)
	}
	var guess *draft.Proposer
	if slices.Contains(kinds, abi.KindDraft) {
		guess = draft.NewProposer(s)
	}
	row := make([]float32, s.Guest().Vocabulary().Size())
	var output []uint32
	for range selfTestSteps {
		selfTestRow(row, len(output))
		effect := logits.None()
		if p != nil {
			if err := p.Prepare(prompt, output); err != nil {
				return err
			}
			var err error
			if effect, err = p.Process(prompt, output, row); err != nil || effect.Stop {
				return err
			}
		}
		if guess != nil {
			if _, err := guess.Propose(prompt, output, make([]uint32, abi.MaxDraft)); err != nil {
				return err
			}
		}
		ids, values, logprobs := selfTestCandidates(row, pick)
		next := 0
		if pick != nil {
			var err error
			if next, err = pick.Sample(ids, values, logprobs); err != nil {
				return err
			}
		}
		if token := ids[next]; effect.Force < 0 {
			output = append(output, token)
		} else {
			output = append(output, uint32(effect.Force))
		}
		if watch != nil {
			if done, err := selfTestCheck(watch, s.Guest().Vocabulary(), prompt, output); done || err != nil {
				return err
			}
		}
	}
	return nil
}

// selfTestCheck shows a guard all of the output.
func selfTestCheck(watch *guard.Checker, vocab Vocabulary, prompt, output []uint32) (done bool, err error) {
	view := llm.GuardView{Prompt: prompt, Output: output}
	for _, id := range output {
		view.Text = append(view.Text, vocab.Bytes(id)...)
		view.Ends = append(view.Ends, uint32(len(view.Text)))
	}
	v, err := watch.Check(&view)
	return v.Done, err
}

// selfTestRow fills a row with numbers from -8 to 8, different ones at each step.
func selfTestRow(row []float32, step int) {
	for i := range row {
		row[i] = float32((uint32(i)+1)*2654435761*uint32(step+1)>>20)/256 - 8
	}
}

// selfTestCandidates lists the allowed tokens by falling logit, as many as the sampler wants, all without one.
func selfTestCandidates(row []float32, pick *logits.Sampler) (ids []uint32, values, logprobs []float32) {
	highest, sum := math.Inf(-1), 0.0
	for id, x := range row {
		if !math.IsInf(float64(x), -1) {
			ids = append(ids, uint32(id))
			highest = max(highest, float64(x))
		}
	}
	for _, id := range ids {
		sum += math.Exp(float64(row[id]) - highest)
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(row[b], row[a]) })
	if pick != nil {
		ids = ids[:min(len(ids), pick.Candidates())]
	}
	for _, id := range ids {
		values = append(values, row[id])
		logprobs = append(logprobs, float32(float64(row[id])-highest-math.Log(sum)))
	}
	return ids, values, logprobs
}
