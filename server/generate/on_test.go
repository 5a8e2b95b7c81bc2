package generate_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"sync"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/sched"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// counting is a model whose next token is always one more than the last.
type counting struct{}

const countingVocab = 64

func (counting) Shape() engine.Shape {
	return engine.Shape{Vocab: countingVocab, BlockSize: 4, Blocks: 64, MaxLen: 20}
}

func (counting) Forward(s *llm.Step) ([]float32, error) {
	logits := make([]float32, len(s.LogitRows)*countingVocab)
	for i, row := range s.LogitRows {
		logits[i*countingVocab+int(s.Tokens[row]+1)%countingVocab] = 9
	}
	return logits, nil
}

func (counting) CopyBlocks([]llm.BlockCopy) error { return nil }

// numbers spells each token as its number and a space.
type numbers struct{}

func (numbers) Stream([]llm.Token) engine.Detokenizer { return numbers{} }
func (numbers) Next(id llm.Token) string              { return fmt.Sprintf("%d ", id) }
func (numbers) Flush() string                         { return "" }
func (numbers) Open() bool                            { return false }
func (numbers) Special(llm.Token) bool                { return false }
func (numbers) Text(id llm.Token) string              { return fmt.Sprintf("%d ", id) }
func (numbers) EOS() []llm.Token                      { return nil }

func newEngine(t *testing.T) *engine.Engine {
	e, err := engine.New(counting{}, numbers{}, engine.Config{Verify: true,
		Settings: sched.Settings{MaxConcurrentRequests: 64}})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { e.Close() })
	return e
}

// TestOnAnEngine runs requests on the real engine, with a model that counts.
func TestOnAnEngine(t *testing.T) {
	e := newEngine(t)
	l := generatetest.Limits()
	l.MaxConcurrent, l.Vocab = 64, countingVocab
	s := generate.New(generate.On(e), generatetest.Words{}, l, nil)
	var wg sync.WaitGroup
	for i := range 20 {
		wg.Go(func() {
			d := generate.Draft{Inputs: "aa bbbb", MaxNewTokens: ptr(uint32(1 + i%5)), Stop: []string{"8 "},
				PromptLogprobs: true, TopNTokens: ptr(uint32(2))}
			if i%2 == 0 {
				d.BestOf, d.TopK = ptr(uint64(2)), ptr(int32(1))
			}
			run, err := s.Start(t.Context(), d)
			if err != nil {
				t.Error(err)
				return
			}
			defer run.Close()
			res, err := run.Collect(t.Context())
			if err != nil {
				t.Error(err)
				return
			}
			want, reason := "", llm.FinishLength
			for n := range 1 + i%5 {
				if want += fmt.Sprintf("%d ", 6+n); 6+n == 8 && n < i%5 {
					reason = llm.FinishStop
					break
				}
			}
			if f := res.Best.Finish; f.Text != want || f.Reason != reason || f.Prompt != 2 ||
				len(res.Best.Tokens) != f.Generated {
				t.Errorf("%d new: got %+v, want %q ending with %s", 1+i%5, f, want, reason)
			}
			if len(res.Prefill) != 2 || len(res.Others) != 1-i%2 || len(res.Best.Top) != len(res.Best.Tokens) {
				t.Errorf("prefill %v, others %v, top %v", res.Prefill, res.Others, res.Best.Top)
			}
			if ti := res.Timings; ti.Total < ti.Queue || ti.Queue <= 0 {
				t.Errorf("timings %+v", ti)
			}
		})
	}
	wg.Wait()
	if st := e.Stats(); st.KVUsed != 0 || st.Running != 0 {
		t.Errorf("left behind: %+v", st)
	}
}

func TestEngineRefusals(t *testing.T) {
	e := newEngine(t)
	s := generate.New(generate.On(e), generatetest.Words{}, generatetest.Limits(), nil)
	e.Close()
	if run, err := s.Start(t.Context(), generate.Draft{Inputs: "a"}); !errors.Is(err, llm.ErrClosed) || run != nil {
		t.Errorf("got %v, %v", run, err)
	}
	if err := s.Healthy(); !errors.Is(err, llm.ErrClosed) {
		t.Errorf("health of a closed engine: %v", err)
	}
}

// TestCause: a request that is cut off ends with the reason for it, not with
// "context canceled".
func TestCause(t *testing.T) {
	ctx, cut := context.WithCancelCause(t.Context())
	e := &generatetest.Engine{Step: make(chan struct{})}
	run, err := generate.New(e, generatetest.Words{}, generatetest.Limits(), nil).Start(ctx,
		generate.Draft{Inputs: "a"})
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	cut(llm.ErrDraining)
	if _, err := run.Next(ctx); !errors.Is(err, llm.ErrDraining) || errors.Is(err, io.EOF) {
		t.Errorf("got %v", err)
	}
}
