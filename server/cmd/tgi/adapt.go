package main

import (
	"context"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/runtime/token"
	"tgi/server/generate"
)

// backend is the paged model as the engine wants it.
type backend struct{ *ort.Paged }

func (b backend) Shape() engine.Shape {
	return engine.Shape{Vocab: b.Vocab(), BlockSize: b.BlockSize(), Blocks: b.Blocks(), MaxLen: b.MaxLen()}
}

// codec is a tokenizer as the engine wants it.
type codec struct {
	*token.Tokenizer
	eos []llm.Token
}

func (c codec) Stream(prompt []llm.Token) engine.Detokenizer { return c.Tokenizer.Stream(prompt) }
func (c codec) Special(id llm.Token) bool                    { return c.IsSpecial(id) }
func (c codec) Text(id llm.Token) string                     { return c.Decode([]llm.Token{id}, false) }
func (c codec) EOS() []llm.Token                             { return c.eos }

// encoder is a tokenizer as requests want it.
type encoder struct{ *token.Tokenizer }

func (e encoder) EncodePieces(text string, special bool) []generate.Piece {
	pieces := e.EncodeOffsets(text, special)
	out := make([]generate.Piece, len(pieces))
	for i, p := range pieces {
		out[i] = generate.Piece{ID: p.ID, Text: p.Text, Start: p.Start, End: p.End}
	}
	return out
}

// requests is the engine as requests want it.
type requests struct{ *engine.Engine }

func (r requests) Submit(ctx context.Context, req generate.Request) (generate.Stream, error) {
	s, err := r.Engine.Submit(ctx, engine.Request{Prompt: req.Prompt, Params: req.Params, N: req.Sequences})
	if err != nil {
		return nil, err
	}
	return stream{s}, nil
}

// stream is the engine's stream as requests want it.
type stream struct{ *engine.Stream }

func (s stream) Next(ctx context.Context) (generate.Event, error) {
	e, err := s.Stream.Next(ctx)
	if err != nil {
		return generate.Event{}, err
	}
	out := generate.Event{
		Index:  e.Index,
		Token:  generate.Token{ID: e.Token, Text: e.Text, Logprob: e.Logprob, Special: e.Special},
		Finish: e.Finish,
		Queued: e.Timings.Queued,
	}
	for _, p := range e.Prefill {
		out.Prefill = append(out.Prefill, generate.PromptToken{ID: p.Token, Text: p.Text, Logprob: p.Logprob})
	}
	for _, t := range e.Top {
		out.Top = append(out.Top, generate.Token{ID: t.Token, Text: t.Text, Logprob: t.Logprob, Special: t.Special})
	}
	return out, nil
}
