package engine

import (
	"errors"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
)

// other is a fake that finds other tokens likely wherever wrong says so.
type other struct {
	*fakeModel
	wrong func(call int) bool
	calls int
	err   error // from the given call on
	at    int
}

func (o *other) Forward(s *llm.Step) ([]float32, error) {
	if o.calls++; o.err != nil && o.calls >= o.at {
		return nil, o.err
	}
	logits, err := o.fakeModel.Forward(s)
	if err == nil && o.wrong(o.calls) {
		for i := range logits {
			logits[i] = -logits[i]
		}
	}
	return logits, err
}

// draftModel returns a draft model on b.
func draftModel(t *testing.T, b draft.Backend, s Shape) *draft.Model {
	t.Helper()
	m, err := draft.NewModel(b, draft.Shape{Vocab: s.Vocab, BlockSize: s.BlockSize, Blocks: s.Blocks, MaxLen: s.MaxLen})
	if err != nil {
		t.Fatal(err)
	}
	return m
}

// TestDraftModelChangesNothing: whatever a second model guesses, requests of all kinds get what they get without: from
// one that is always right, never or at times, with little cache, one that fails, and one that knows fewer tokens.
func TestDraftModelChangesNothing(t *testing.T) {
	reqs := append(maskedKinds(36), guarded(12)...)
	want := alone(t, reqs)
	for name, c := range map[string]struct {
		blocks, size, maxLen, k int
		wrong                   func(int) bool
		err                     error
	}{
		"right":                {512, 16, 256, 4, func(int) bool { return false }, nil},
		"wrong":                {512, 16, 256, 8, func(int) bool { return true }, nil},
		"at times":             {512, 8, 256, 3, func(i int) bool { return i%3 == 0 }, nil},
		"right, tiny cache":    {11, 4, 256, 2, func(int) bool { return false }, nil},
		"right, one block":     {1, 1, 256, 2, func(int) bool { return false }, nil},
		"right, short":         {512, 16, 40, 7, func(int) bool { return false }, nil},
		"fails":                {512, 16, 256, 4, func(i int) bool { return i%2 == 0 }, errors.New("no more")},
		"small blocks, 1":      {300, 1, 256, 1, func(i int) bool { return i%2 == 0 }, nil},
		"right, small batches": {64, 16, 256, 5, func(int) bool { return false }, nil},
	} {
		t.Run(name, func(t *testing.T) {
			f := newFake(c.blocks, c.size, c.maxLen)
			o := &other{fakeModel: f, wrong: c.wrong, err: c.err, at: 20}
			var seen counting
			e := start(t, newFake(64, 16, 256), Config{Speculation: always(c.k), Observer: &seen,
				DraftModel: draftModel(t, o, f.shape)})
			var wg sync.WaitGroup
			for i, r := range reqs {
				wg.Go(func() {
					got, err := generate(e, r)
					if err == nil {
						got.prefill = want[i].prefill
						err = sameSteps(got, want[i])
					}
					if err != nil {
						t.Errorf("request %d: %v", i, err)
					}
				})
			}
			wg.Wait()
			e.Close()
			a, r := seen.drafts.Accepted[draft.Modelled], seen.drafts.Rejected[draft.Modelled]
			t.Logf("%d right, %d wrong", a, r)
			if name == "right" && a < 200 || name == "wrong" && (r < 300 || a > r/4) ||
				name != "right, one block" && a+r == 0 {
				t.Errorf("%d right, %d wrong", a, r)
			}
			if used := e.second.model; used != nil && len(e.second.rows) == 0 && used.Used() != 0 {
				t.Errorf("%d blocks are left", used.Used())
			}
		})
	}
}

// TestDraftModelSavesSteps: a right one, k at a time, takes a text's length over k+1 steps.
func TestDraftModelSavesSteps(t *testing.T) {
	for _, k := range []int{0, 1, 3, 8} {
		m, f := newFake(64, 16, 256), newFake(64, 16, 256)
		e := start(t, m, Config{Speculation: always(k), DraftModel: draftModel(t, f, f.shape)})
		if _, err := generate(e, endless(61)); err != nil {
			t.Fatal(err)
		}
		e.Close()
		if steps := 1 + (60+k)/(k+1); m.steps != steps || k == 0 && f.steps > 0 || f.steps > k*(steps-1) {
			t.Errorf("%d guesses: %d steps, want %d; %d of the draft model", k, m.steps, steps, f.steps)
		}
	}
}

// failures keeps the errors of reports.
type failures struct{ errs []error }

func (f *failures) Step(r Report) {
	if r.DraftErr != nil {
		f.errs = append(f.errs, r.DraftErr)
	}
}

// TestDraftModelFails: its failures, panics too, end nothing, are told once, and it is not called again.
func TestDraftModelFails(t *testing.T) {
	want := alone(t, []Request{endless(30)})[0]
	for name, set := range map[string]func(f *fakeModel){
		"an error": func(f *fakeModel) { f.fail = errors.New("no more") },
		"a panic":  func(f *fakeModel) { f.boom = "no more" },
	} {
		f, seen := newFake(64, 16, 256), &failures{}
		set(f)
		e := start(t, newFake(64, 16, 256), Config{Speculation: always(4), DraftModel: draftModel(t, f, f.shape),
			Observer: seen})
		got, err := generate(e, endless(30))
		if err == nil {
			err = same(got, want)
		}
		e.Close()
		if err != nil || f.steps != 1 || len(seen.errs) != 1 || !errors.Is(seen.errs[0], draft.ErrModel) ||
			!strings.Contains(fmt.Sprint(seen.errs), "no more") {
			t.Errorf("%s: %v, %d steps, errors %v", name, err, f.steps, seen.errs)
		}
	}
}

// TestDraftModelIsWorthIt: the model is asked where that saves time, and hardly where it costs more or guesses wrong.
func TestDraftModelIsWorthIt(t *testing.T) {
	for _, c := range []struct {
		name        string
		streams     int
		wrong       bool
		model, each time.Duration // a step of the second model; a token of a step of the first
		least, most int           // tokens that steps gave, beyond one each, of 100 per stream
	}{
		{"right and cheap", 1, false, 500 * time.Microsecond, 100 * time.Microsecond, 60, 100},
		{"right and cheap, four streams", 4, false, 500 * time.Microsecond, 100 * time.Microsecond, 240, 400},
		{"as slow as the first", 1, false, 10 * time.Millisecond, 100 * time.Microsecond, 0, 25},
		{"the step is busy", 1, false, 500 * time.Microsecond, 400 * time.Millisecond, 0, 25},
		{"wrong", 1, true, 500 * time.Microsecond, 100 * time.Microsecond, 0, 2},
	} {
		synctest.Test(t, func(t *testing.T) {
			m, f := newFake(512, 16, 256), newFake(512, 16, 256)
			m.before = func(s llm.Step) { time.Sleep(10*time.Millisecond + time.Duration(len(s.Tokens))*c.each) }
			f.before = func(s llm.Step) { time.Sleep(c.model) }
			var seen counting
			o := &other{fakeModel: f, wrong: func(int) bool { return c.wrong }}
			e := start(t, m, Config{Speculation: draft.Settings{Tokens: 7}, Observer: &seen,
				DraftModel: draftModel(t, o, f.shape)})
			var wg sync.WaitGroup
			for i := range c.streams {
				r := endless(100)
				r.Prompt = append(slices.Clone(r.Prompt), llm.Token(5+i))
				wg.Go(func() {
					if _, err := generate(e, r); err != nil {
						t.Error(err)
					}
				})
			}
			wg.Wait()
			e.Close()
			a, r := seen.drafts.Accepted[draft.Modelled], seen.drafts.Rejected[draft.Modelled]
			t.Logf("%s: %d steps, %d right, %d wrong, %d steps of the draft model", c.name, m.steps, a, r, f.steps)
			if a < c.least || a > c.most || c.wrong && o.calls > 60 {
				t.Errorf("%s: %d right, %d wrong, in %d calls", c.name, a, r, o.calls)
			}
		})
	}
}
