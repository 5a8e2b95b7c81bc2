package generate_test

import (
	"errors"
	"fmt"
	"io"
	"iter"
	"reflect"
	"strings"
	"testing"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// spans is a tokenizer that notes which parts of texts were data.
type spans struct {
	generatetest.Words
	seen *[]string
}

func (s spans) EncodePrompt(text string, o llm.Encoding) (llm.Encoded, error) {
	for _, d := range o.Data {
		*s.seen = append(*s.seen, text[d.Start:d.End])
	}
	return s.Words.EncodePrompt(text, o)
}

func (s spans) SpanPieces(text string, data []generate.Span) iter.Seq[generate.Piece] {
	for _, d := range data {
		*s.seen = append(*s.seen, "piece "+text[d.Start:d.End])
	}
	return s.Words.SpanPieces(text, data)
}

// TestConversation: a conversation is bound, rendered and tokenized with its data
// apart; the plugins get the calls that are not for the chat.
func TestConversation(t *testing.T) {
	chat := &generatetest.Chat{Parse: true, Takes: []string{"mine"}}
	var data, calls []string
	code := generatetest.UserCode{Chat: chat, Loop: func(list []generate.PluginCall) (func(int) sample.Plugins, error) {
		for _, c := range list {
			calls = append(calls, c.Name)
		}
		return nil, nil
	}}
	s := code.On(generate.New(&generatetest.Engine{}, spans{seen: &data}, generatetest.Limits(), nil))
	run, err := s.Start(t.Context(), generate.Draft{
		Conversation: talk(say("user", "a b"), say("assistant", ""), say("user", "<|im_end|>")),
		Plugins:      []generate.PluginCall{{Name: "p"}, {Name: "mine"}, {Name: "q"}}, N: ptr(uint64(2)),
		Rules: generate.OpenAI,
	})
	if err != nil {
		t.Fatal(err)
	}
	const want = "<|im_start|>user\na b<|im_end|>\n<|im_start|>assistant\n<|im_end|>\n<|im_start|>user\n<|im_end|><|im_end|>\n<|im_start|>assistant\n"
	if r := run.Request; r.Inputs != want || len(r.Prompt) != 2 {
		t.Errorf("got %+v", r)
	}
	if want := []string{"a b", "<|im_end|>"}; !reflect.DeepEqual(data, want) {
		t.Errorf("data is %q, want %q", data, want)
	}
	if want := []string{"p", "q"}; !reflect.DeepEqual(calls, want) {
		t.Errorf("the plugins were asked for %q, want %q", calls, want)
	}
	if r := chat.Requests(); len(r) != 3 || !strings.Contains(r[1], `assistant\n"}`) || r[1] != r[2] {
		t.Errorf("the chat was asked %q", r)
	}
	if bound, parsers := chat.Open(); bound != 1 || parsers != 2 {
		t.Errorf("%d chats and %d parsers are open, want 1 and 2", bound, parsers)
	}
	run.Close()
	run.Close()
	if bound, parsers := chat.Open(); bound != 0 || parsers != 0 {
		t.Errorf("%d chats and %d parsers are left open", bound, parsers)
	}
}

// TestRender: other APIs get the prompt as a draft, with what is data.
func TestRender(t *testing.T) {
	chat := &generatetest.Chat{Parse: true, Takes: []string{"mine"}}
	var data []string
	s := generatetest.UserCode{Chat: chat}.On(
		generate.New(&generatetest.Engine{}, spans{seen: &data}, generatetest.Limits(), nil))
	d, err := s.Render(t.Context(), generate.Draft{
		Conversation: talk(say("user", "a b")), Plugins: []generate.PluginCall{{Name: "mine"}}, Watermark: true,
	})
	if err != nil || d.Conversation != nil || !d.RawPrompt || len(d.Plugins) != 0 || !d.Watermark {
		t.Fatalf("got %+v, %v", d, err)
	}
	pieces, err := piecesOf(s.Tokenize(t.Context(), d))
	if want := []string{"piece a b"}; err != nil || len(pieces) != 2 || !reflect.DeepEqual(data, want) {
		t.Errorf("got %v, %v, data %q", pieces, err, data)
	}
	run, err := s.Start(t.Context(), d)
	if err != nil {
		t.Fatal(err)
	}
	defer run.Close()
	if want := []string{"piece a b", "a b"}; !reflect.DeepEqual(data, want) {
		t.Errorf("data is %q, want %q", data, want)
	}
	if bound, parsers := chat.Open(); bound+parsers != 0 {
		t.Errorf("%d chats and %d parsers are open", bound, parsers)
	}
}

// TestConversationRefused: whatever step refuses, nothing stays open and the
// observer hears of it.
func TestConversationRefused(t *testing.T) {
	busy := fmt.Errorf("%w: no instance", llm.ErrOverloaded)
	demanding := talk(say("user", "a"))
	demanding.ToolChoice.Mode = generate.ChooseRequired
	for name, c := range map[string]struct {
		chat  *generatetest.Chat
		talk  *generate.Conversation
		calls []generate.PluginCall
		want  error
		text  string
	}{
		"no template": {nil, talk(say("user", "a")), nil, generate.ErrTemplate, "template not found"},
		"no messages": {&generatetest.Chat{}, talk(), nil, generate.ErrTemplate,
			"`messages` must hold at least one message"},
		"the template": {&generatetest.Chat{}, talk(say("hermit", "a")), nil, generate.ErrTemplate, "no role hermit"},
		"bind": {&generatetest.Chat{Refuse: &generate.Invalid{Msg: "no"}}, talk(say("user", "a")), nil,
			llm.ErrInvalid, "no"},
		"bind busy": {&generatetest.Chat{Refuse: busy}, talk(say("user", "a")), nil, llm.ErrOverloaded,
			"model is overloaded"},
		"too long": {&generatetest.Chat{Parse: true}, talk(say("user", strings.Repeat("a ", 30))), nil,
			llm.ErrInvalid,
			"`inputs` tokens + `max_new_tokens` must be <= 20. Given: 31 `inputs` tokens and 0 `max_new_tokens`"},
		"other plugins": {&generatetest.Chat{Parse: true}, talk(say("user", "a")), []generate.PluginCall{{Name: "x"}},
			llm.ErrInvalid, "plugin `x` is not installed"},
		"the parser": {&generatetest.Chat{RefuseParser: &generate.Invalid{Msg: "no"}}, talk(say("user", "a")), nil,
			llm.ErrInvalid, "no"},
		"no parser": {&generatetest.Chat{}, demanding, nil, generate.ErrTool,
			"the model has no parser of tool calls, `tool_choice` cannot demand one"},
	} {
		o := &log{}
		e := &generatetest.Engine{}
		s := generate.New(e, generatetest.Words{}, generatetest.Limits(), o)
		if c.chat != nil {
			generatetest.UserCode{Chat: c.chat}.On(s)
		}
		_, err := s.Start(t.Context(), generate.Draft{Conversation: c.talk, Plugins: c.calls})
		if !errors.Is(err, c.want) || err.Error() != c.text || len(o.refused) != 1 || len(e.Requests()) != 0 {
			t.Errorf("%s: got %v, told %v", name, err, o.refused)
		}
		if c.chat == nil {
			continue
		}
		if bound, parsers := c.chat.Open(); bound+parsers != 0 {
			t.Errorf("%s: %d chats and %d parsers are left open", name, bound, parsers)
		}
	}
	e := &generatetest.Engine{Refuse: llm.ErrDraining}
	chat := &generatetest.Chat{Parse: true}
	_, err := generatetest.UserCode{Chat: chat}.On(generate.New(e, generatetest.Words{}, generatetest.Limits(), nil)).
		Start(t.Context(), generate.Draft{Conversation: talk(say("user", "a"))})
	if bound, parsers := chat.Open(); !errors.Is(err, llm.ErrDraining) || bound+parsers != 0 {
		t.Errorf("got %v, %d chats and %d parsers are left open", err, bound, parsers)
	}
}

// collect reads a run through its replies.
func collect(t *testing.T, run *generate.Run) ([]*generate.Reply, [][]generate.Delta, error) {
	t.Helper()
	n := 0
	replies := make([]*generate.Reply, run.Request.Sequences)
	for i := range replies {
		replies[i] = run.Reply(i, false, func() string { n++; return fmt.Sprint("id", n) })
	}
	all := make([][]generate.Delta, len(replies))
	for {
		e, err := run.Next(t.Context())
		if errors.Is(err, io.EOF) {
			return replies, all, nil
		}
		if err != nil {
			t.Fatal(err)
		}
		deltas, err := replies[e.Index].Next(&e)
		all[e.Index] = append(all[e.Index], deltas...)
		if err != nil {
			return replies, all, err
		}
	}
}
