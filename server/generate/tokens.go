package generate

import (
	"context"
	"errors"
	"io"
	"iter"
	"time"

	"tgi/runtime/llm"
)

// A batch of Tokens ends with the token that passes one of these.
const (
	batchPieces = 512
	batchText   = 16 << 10
)

// Tokens are the tokens of a text with their places, made as they are asked for.
// They hold one of the places of Limits.MaxConcurrent, and while some are being
// made one of Limits.Workers: who reads slowly keeps no worker. They belong to one
// goroutine and must be closed.
type Tokens struct {
	service *Service
	client  string
	next    func() ([]Piece, bool)
	stop    func()
	closed  bool
}

// Tokenize returns the tokens of the text of d, which is no conversation. Errors
// are *Overloaded. ctx says whose request it is.
func (s *Service) Tokenize(ctx context.Context, d Draft) (*Tokens, error) {
	client := s.client(ctx)
	if err := s.permits.take(client, 1, time.Now()); err != nil {
		return nil, err
	}
	pieces := s.tok.Pieces(d.Inputs, true)
	if d.RawPrompt {
		pieces = s.tok.SpanPieces(d.Inputs, d.Data)
	}
	t := &Tokens{service: s, client: client}
	t.next, t.stop = iter.Pull(batches(pieces))
	return t, nil
}

// Next returns the next few tokens, which hold until it is called again, io.EOF
// behind the last, and ctx's cause when that ends while all workers are busy.
func (t *Tokens) Next(ctx context.Context) (batch []Piece, err error) {
	more := false
	if err := t.service.work(ctx, func() { batch, more = t.next() }); err != nil {
		return nil, err
	}
	if !more {
		return nil, io.EOF
	}
	return batch, nil
}

// Close gives the place back. It may be called more than once.
func (t *Tokens) Close() {
	if t.closed {
		return
	}
	t.closed = true
	t.stop()
	t.service.permits.give(t.client, 1, time.Now())
}

// Count returns how many tokens the prompt of d has, those of its images included. Behind most it stops counting; 0
// counts
// all. It takes a place while it does. Errors are those of Render and Tokenize.
func (s *Service) Count(ctx context.Context, d Draft, most int) (n int, err error) {
	if d, err = s.Render(ctx, d); err != nil {
		return 0, err
	}
	tokens, err := s.Tokenize(ctx, d)
	if err != nil {
		return 0, err
	}
	defer tokens.Close()
	for most == 0 || n <= most {
		batch, err := tokens.Next(ctx)
		if errors.Is(err, io.EOF) {
			break
		}
		if err != nil {
			return 0, err
		}
		n += len(batch)
	}
	return n, nil
}

// batches yields pieces several at a time, in the same room each time.
func batches(pieces iter.Seq[Piece]) iter.Seq[[]Piece] {
	return func(yield func([]Piece) bool) {
		batch, text := make([]Piece, 0, batchPieces), 0
		for p := range pieces {
			batch, text = append(batch, p), text+len(p.Text)
			if len(batch) < batchPieces && text < batchText {
				continue
			}
			if !yield(batch) {
				return
			}
			batch, text = batch[:0], 0
		}
		if len(batch) > 0 {
			yield(batch)
		}
	}
}

// Encode returns the tokens of a prompt, as far as one of MaxTotal needs them. It waits for a worker, and takes no
// place.
func (s *Service) Encode(ctx context.Context, text string) (llm.Encoded, error) {
	return s.encode(ctx, text, llm.Encoding{Special: true, Most: s.limits.MaxTotal})
}

// EncodeData returns the tokens of a short text that stands behind others, none added and no control token among them.
func (s *Service) EncodeData(text string) []llm.Token {
	return s.tok.EncodeSpans(text, []Span{{End: len(text)}})
}

// encode encodes a prompt. Between parts of a long one, others who wait for a worker get it.
func (s *Service) encode(ctx context.Context, text string, o llm.Encoding) (out llm.Encoded, err error) {
	e := encoding{service: s, client: s.client(ctx)}
	defer e.end()
	if err := e.begin(ctx); err != nil {
		return out, err
	}
	o.Pause = func() error { return e.pause(ctx) }
	return s.tok.EncodePrompt(text, o)
}
