package generate_test

import (
	"context"
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// piecesOf reads tokens to their end.
func piecesOf(tokens *generate.Tokens, err error) ([]generate.Piece, error) {
	if err != nil {
		return nil, err
	}
	defer tokens.Close()
	var pieces []generate.Piece
	for {
		batch, err := tokens.Next(context.Background())
		if errors.Is(err, io.EOF) {
			return pieces, nil
		}
		if err != nil {
			return nil, err
		}
		pieces = append(pieces, batch...)
	}
}

// TestTokenize: the batches of a text, put together, are its tokens.
func TestTokenize(t *testing.T) {
	s := generate.New(&generatetest.Engine{}, generatetest.Words{}, generatetest.Limits(), nil)
	for _, text := range []string{"", "a", "a bé", strings.Repeat(" word", 511), strings.Repeat(" word", 512),
		strings.Repeat(" word", 5000),
		strings.Repeat("long", 10_000) + strings.Repeat(" a", 600)} {
		want := slices.Collect(generatetest.Words{}.Pieces(text, true))
		got, err := piecesOf(s.Tokenize(t.Context(), generate.Draft{Inputs: text}))
		if err != nil || !slices.Equal(got, want) {
			t.Errorf("%.20q with %d bytes: %d tokens and %v, want %d", text, len(text), len(got), err, len(want))
		}
	}
}

// TestTokenizeTakesAPlace: who tokenizes counts among the requests until it has
// closed, and while it does not read it keeps no worker from others.
func TestTokenizeTakesAPlace(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		limits := generatetest.Limits()
		hold := make(chan struct{})
		s := generate.New(&generatetest.Engine{}, generatetest.Words{Hold: hold}, limits, nil)
		large := generate.Draft{Inputs: strings.Repeat(" word", 5000)}
		var all []*generate.Tokens
		for range limits.MaxConcurrent {
			tokens, err := s.Tokenize(t.Context(), large)
			if err != nil {
				t.Fatal(err)
			}
			all = append(all, tokens)
		}
		var full *generate.Overloaded
		if _, err := s.Tokenize(t.Context(), large); !errors.As(err, &full) {
			t.Errorf("one more got %v", err)
		}
		if _, err := s.Start(t.Context(), generate.Draft{Inputs: "x"}); !errors.As(err, &full) {
			t.Errorf("a generation beside them got %v", err)
		}
		// Both workers are busy with the first two; the third gives up.
		for _, tokens := range all[:2] {
			go func() {
				if batch, err := tokens.Next(t.Context()); err != nil || len(batch) == 0 {
					t.Errorf("got %d tokens, %v", len(batch), err)
				}
			}()
		}
		synctest.Wait()
		short, cancel := context.WithTimeout(t.Context(), time.Second)
		defer cancel()
		if _, err := all[2].Next(short); !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("a third worker: %v", err)
		}
		close(hold)
		synctest.Wait()
		// They have their first tokens, and stop reading: a worker is free.
		if batch, err := all[2].Next(t.Context()); err != nil || len(batch) == 0 {
			t.Errorf("beside two that do not read: %d tokens, %v", len(batch), err)
		}
		for _, tokens := range all {
			tokens.Close()
			tokens.Close()
		}
		for range limits.MaxConcurrent { // every place came back, once
			tokens, err := s.Tokenize(t.Context(), large)
			if err != nil {
				t.Fatal(err)
			}
			defer tokens.Close()
		}
		if _, err := s.Tokenize(t.Context(), large); !errors.As(err, &full) {
			t.Errorf("one more, later, got %v", err)
		}
	})
}
