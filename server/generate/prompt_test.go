package generate_test

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// endless is a tokenizer that encodes a text with "endless" in it until its work is ended, and says of one with "vast"
// how many tokens it has at least.
type endless struct {
	generatetest.Words
	begun chan struct{}
}

func (e endless) EncodePrompt(text string, o llm.Encoding) (llm.Encoded, error) {
	if strings.Contains(text, "vast") {
		return llm.Encoded{Count: o.Most + 100, AtLeast: true}, nil
	}
	if strings.Contains(text, "endless") {
		close(e.begun)
		for {
			if err := o.Pause(); err != nil {
				return llm.Encoded{}, err
			}
		}
	}
	return e.Words.EncodePrompt(text, o)
}

// TestLongPrompt: while one client's prompt is encoded, another's gets the worker in between; when the client leaves,
// so does its prompt, and the worker is free.
func TestLongPrompt(t *testing.T) {
	limits := generatetest.Limits()
	limits.Workers = 1
	tok := endless{begun: make(chan struct{})}
	s := generate.New(&generatetest.Engine{}, tok, limits, nil)
	ctx, leave := context.WithCancelCause(t.Context())
	left, ended := errors.New("left"), make(chan error)
	go func() {
		_, err := s.Encode(ctx, "endless")
		ended <- err
	}()
	<-tok.begun
	for range 3 {
		if e, err := s.Encode(t.Context(), "a b"); err != nil || e.Count != 2 {
			t.Fatalf("%+v, %v", e, err)
		}
	}
	leave(left)
	if err := <-ended; !errors.Is(err, left) {
		t.Errorf("a client that left: %v", err)
	}
	if e, err := s.Encode(t.Context(), "a b"); err != nil || e.Count != 2 {
		t.Errorf("behind it: %+v, %v", e, err)
	}
}

// TestVastPrompt: an error says where the number of tokens is not known, and everything else as it ever did.
func TestVastPrompt(t *testing.T) {
	s := generate.New(&generatetest.Engine{}, endless{}, generatetest.Limits(), nil)
	_, err := s.Start(t.Context(), generate.Draft{Inputs: "vast", MaxNewTokens: ptr(uint32(3))})
	const want = "`inputs` tokens + `max_new_tokens` must be <= 20. Given: at least 120 `inputs` tokens and 3 `max_new_tokens`"
	var refused *generate.Invalid
	if !errors.As(err, &refused) || refused.Msg != want || refused.Field != "inputs" || !refused.TooLong {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPromptRoom: a prompt that a template made is held only where there is room for it.
func TestPromptRoom(t *testing.T) {
	chat := &generatetest.Chat{}
	s := generatetest.UserCode{Chat: chat}.On(generate.New(&generatetest.Engine{}, generatetest.Words{},
		generatetest.Limits(), nil))
	full, wanted := errors.New("full"), int64(0)
	start := func(answer error) error {
		run, err := s.Start(generate.WithRoom(t.Context(), func(n int64) error {
			wanted = n
			return answer
		}), generate.Draft{Conversation: talk(say("user", "a b"))})
		if err == nil {
			run.Close()
		}
		return err
	}
	if err := start(full); !errors.Is(err, full) {
		t.Errorf("without room: %v", err)
	}
	const prompt = "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n"
	if most := int64(len(prompt) + 64); wanted < int64(len(prompt)) || wanted > most {
		t.Errorf("room for %d bytes was wanted, want %d to %d", wanted, len(prompt), most)
	}
	if err := start(nil); err != nil {
		t.Error(err)
	}
	if bound, parsers := chat.Open(); bound+parsers != 0 {
		t.Errorf("%d chats and %d parsers are open", bound, parsers)
	}
}
