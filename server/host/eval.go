package host

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
)

// windowTokens is the length of a window where nothing is asked for.
const windowTokens = 1024

// Perplexity is how well a model predicts a text. Windows of Window tokens start every Stride tokens, and in each the
// tokens that no window before had are scored, given what precedes them in the window; the first token of a text is
// not.
type Perplexity struct {
	Model   string `json:"model"`
	Weights string `json:"weights"`
	// Tokens of the text, with those that the tokenizer puts around it; Scored are those that count.
	Tokens  int `json:"tokens"`
	Scored  int `json:"scored"`
	Bytes   int `json:"bytes"`
	Windows int `json:"windows"`
	Window  int `json:"window"`
	Stride  int `json:"stride"`
	// NLL is the mean negative log-likelihood of a scored token in nats, Perplexity its exponential. BitsPerByte is the
	// sum of all in bits for each byte of the text, by which models with different tokenizers can be compared.
	NLL         float64 `json:"nll"`
	Perplexity  float64 `json:"perplexity"`
	BitsPerByte float64 `json:"bits_per_byte"`
	Seconds     float64 `json:"seconds"`
}

// Perplexity scores a text with the default model, by prompts that its engine computes. window and stride are in
// tokens; 0 is 1024, or what the model's limits allow, and half of the window. done is told how many tokens were
// computed.
func (s *Server) Perplexity(ctx context.Context, text string, window, stride int,
	done func(tokens, of int)) (Perplexity, error) {
	m := s.defaultModel()
	if e := s.models.defaultEmbedder(); m == nil && e != nil {
		return Perplexity{}, fmt.Errorf("model %s %s: perplexity needs one that %s", e.id, e.task, server.Generates)
	}
	if m == nil {
		return Perplexity{}, llm.ErrDraining
	}
	most := min(m.limits.MaxInputTokens, m.limits.MaxTotalTokens-1)
	if window == 0 {
		window = min(windowTokens, most)
	}
	if window < 2 || window > most {
		return Perplexity{}, fmt.Errorf("window: %d is not from 2 to %d, what the model's limits allow", window, most)
	}
	if stride == 0 {
		stride = window / 2
	}
	if stride < 1 || stride > window {
		return Perplexity{}, fmt.Errorf("stride: %d is not from 1 to %d, the window", stride, window)
	}
	start, tokens := time.Now(), m.tokenizer.Encode(text, true)
	p := Perplexity{Model: string(m.id), Weights: string(m.built.Weights), Tokens: len(tokens), Bytes: len(text),
		Window: window, Stride: stride}
	if len(tokens) < 2 {
		return p, fmt.Errorf("the text has %d tokens, want 2 at least", len(tokens))
	}
	sum, scored := 0.0, 0
	for begin, end := 0, 0; end < len(tokens); begin += stride {
		first := max(end-begin, 1) // in the window: the one before it predicts it
		end = min(begin+window, len(tokens))
		list, err := m.promptLogprobs(ctx, tokens[begin:end])
		if err != nil {
			return p, err
		}
		for _, logprob := range list[first:] {
			sum -= logprob
			scored++
		}
		p.Windows++
		done(end, len(tokens))
	}
	p.Scored, p.NLL = scored, sum/float64(scored)
	p.Perplexity, p.BitsPerByte = math.Exp(p.NLL), sum/math.Ln2/float64(len(text))
	p.Seconds = time.Since(start).Seconds()
	return p, nil
}

// promptLogprobs returns the log-probability of each token of a prompt, NaN for the first.
func (m *loadedModel) promptLogprobs(ctx context.Context, prompt []llm.Token) ([]float64, error) {
	stream, err := m.engine.Submit(ctx, engine.Request{Prompt: prompt, Params: llm.Params{
		Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 1, PromptLogprobs: true,
		RawLogprobs: true,
	}})
	if err != nil {
		return nil, err
	}
	defer stream.Close()
	var list []float64
	for {
		event, err := stream.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return nil, err
		}
		for _, t := range event.Prefill {
			list = append(list, float64(t.Logprob))
		}
	}
	if len(list) != len(prompt) {
		return nil, fmt.Errorf("BUG: %d log-probabilities of a prompt of %d tokens", len(list), len(prompt))
	}
	return list, nil
}

// WriteText writes a line for people.
func (p Perplexity) WriteText(w io.Writer) error {
	_, err := fmt.Fprintf(w, "perplexity %.4f, %.4f bits per byte, of %s in %s\n%d of %d tokens scored, %d windows of %d, "+
		"stride %d, %.1fs\n", p.Perplexity, p.BitsPerByte, p.Model, p.Weights, p.Scored, p.Tokens, p.Windows, p.Window,
		p.Stride, p.Seconds)
	return err
}
