package openai

import (
	"encoding/json"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"os"
	"path/filepath"
	"reflect"
	"strings"
	"testing"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

const offered = `"tools":[{"type":"function","function":{"name":"f"}},{"type":"function","function":{"name":"g"}}]`

// spoken is what a client makes of a reply, whole or streamed.
type spoken struct {
	Content, Reasoning string
	Calls              []spokenCall
	Reason             string
	Logprobs           []string
	Fault              string
}

type spokenCall struct{ ID, Name, Arguments string }

// choiceJSON is a choice of a reply or of a chunk, as OpenAI's clients read it.
type choiceJSON struct {
	Message, Delta struct {
		Content          *string
		Reasoning        string
		ReasoningContent string `json:"reasoning_content"`
		Calls            []struct {
			Index    *int
			ID       string
			Type     string
			Function struct{ Name, Arguments *string }
		} `json:"tool_calls"`
	}
	Logprobs *struct{ Content []struct{ Token string } }
	Reason   *string `json:"finish_reason"`
}

type replyJSON struct {
	Choices []choiceJSON
	Error   *struct{ Message string }
}

func (s *spoken) add(c *choiceJSON) {
	if c.Logprobs != nil {
		for _, t := range c.Logprobs.Content {
			s.Logprobs = append(s.Logprobs, t.Token)
		}
	}
	if c.Reason != nil {
		s.Reason = *c.Reason
	}
}

// readWhole reads a reply's only choice.
func readWhole(t *testing.T, body []byte) (s spoken) {
	t.Helper()
	var r replyJSON
	if err := json.Unmarshal(body, &r); err != nil {
		t.Fatalf("%v: %s", err, body)
	}
	if r.Error != nil {
		return spoken{Fault: r.Error.Message}
	}
	c := &r.Choices[0]
	s.add(c)
	m := &c.Message
	if (m.Content == nil) && len(m.Calls) == 0 || m.Reasoning != m.ReasoningContent {
		t.Fatalf("no message: %s", body)
	}
	if m.Content != nil {
		s.Content = *m.Content
	}
	s.Reasoning = m.Reasoning
	for _, call := range m.Calls {
		if call.Type != "function" || call.ID == "" ||
			s.Reason == "tool_calls" && !json.Valid([]byte(*call.Function.Arguments)) {
			t.Fatalf("no call: %s", body)
		}
		s.Calls = append(s.Calls, spokenCall{call.ID, *call.Function.Name, *call.Function.Arguments})
	}
	return s
}

// readStream puts the chunks of a stream's only choice together, and holds them
// against what clients stumble over: the role comes first and once, no content or
// arguments are null, calls have an index, and id, type and name once.
func readStream(t *testing.T, body []byte) (s spoken) {
	t.Helper()
	finished, first := false, true
	for line := range strings.Lines(string(body)) {
		text, ok := strings.CutPrefix(strings.TrimSpace(line), "data: ")
		if !ok || text == "[DONE]" {
			continue
		}
		var r replyJSON
		if err := json.Unmarshal([]byte(text), &r); err != nil {
			t.Fatalf("%v: %s", err, text)
		}
		if r.Error != nil {
			return spoken{Fault: r.Error.Message}
		}
		if len(r.Choices) == 0 {
			continue
		}
		if strings.Contains(text, `"content":null`) || strings.Contains(text, `"arguments":null`) ||
			strings.Contains(text, `"name":null`) || finished {
			t.Fatalf("clients stumble over %s", text)
		}
		if strings.Contains(text, `"role":"assistant"`) != first {
			t.Fatalf("the role is not first, or not alone: %s", text)
		}
		first = false
		c := &r.Choices[0]
		s.add(c)
		finished = c.Reason != nil
		d := &c.Delta
		if d.Content != nil {
			s.Content += *d.Content
		}
		if d.Reasoning != d.ReasoningContent {
			t.Fatalf("reasoning has two texts: %s", text)
		}
		s.Reasoning += d.Reasoning
		s.addCalls(t, text, d.Calls)
	}
	if !finished {
		t.Fatalf("no finish_reason: %s", body)
	}
	return s
}

func (s *spoken) addCalls(t *testing.T, text string, calls []struct {
	Index    *int
	ID       string
	Type     string
	Function struct{ Name, Arguments *string }
}) {
	t.Helper()
	for _, d := range calls {
		switch {
		case d.Index == nil || d.Function.Arguments == nil:
			t.Fatalf("no index or no arguments: %s", text)
		case *d.Index == len(s.Calls):
			if d.ID == "" || d.Type != "function" || d.Function.Name == nil || *d.Function.Arguments != "" {
				t.Fatalf("a call begins with %s", text)
			}
			s.Calls = append(s.Calls, spokenCall{ID: d.ID, Name: *d.Function.Name})
		case *d.Index != len(s.Calls)-1 || d.ID != "" || d.Function.Name != nil:
			t.Fatalf("a call goes on with %s", text)
		default:
			s.Calls[*d.Index].Arguments += *d.Function.Arguments
		}
	}
}

// TestStreamedTranscripts holds all transcripts of today's dialect against what
// clients expect of a stream.
func TestStreamedTranscripts(t *testing.T) {
	files, _ := filepath.Glob("testdata/*_stream*.txt")
	n := 0
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		ask, reply, _ := strings.Cut(string(text), "---\n200\n")
		if !strings.Contains(ask, chatPath) || strings.Contains(ask, "Dialect") || strings.Contains(ask, `"n":2`) ||
			!strings.Contains(reply, "event-stream") {
			continue
		}
		if strings.Contains(ask, "break") {
			continue
		}
		n++
		readStream(t, []byte(reply))
	}
	if n < 10 {
		t.Errorf("%d transcripts", n)
	}
}

// TestStreamIsWhole: for any text and any cut, the stream says what the whole reply
// says, also of a call that the length limit cut. One with wrong arguments, or that the text ends in otherwise, is
// content, and only begins in the stream.
func TestStreamIsWhole(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	for _, c := range []struct{ text, fields string }{
		{`Hi there`, ""}, {`<think>a b</think>Hi`, ""}, {`<think>a`, ""}, {`<think>a b</think>Hi`,
			`,"include_reasoning":false`},
		{`<think>x</think>ok <call>f c1 {"x":{"y":"}"}}</call> and <call>g - {}</call>`, ""},
		{`<call>f c1 {}</call><call>g c2 {"x":{}`, ""}, {`<call>f c1 {!!}</call>.`, ""}, {`<call>h c1 {}</call>.`, ""},
		{`<call>f`, ""},
		{`<call>f c1 {}</call>`, `,"tool_choice":"g"`}, {`none`, `,"tool_choice":"required"`},
		{`<call>f c1 {"x`, `,"tool_choice":"required"`},
		{`a <call>f c1 {}</call><call>g c2 {}</call> b`, `,"parallel_tool_calls":false`}, {`a<fault>b`, ""},
		{`<call>f c1 {"x":"###"}</call>`, `,"stop":"###"`}, {`<call>f c1 {}</call>ab###`, `,"stop":["###","zz"]`},
	} {
		for round := range 30 {
			end := []llm.Reason{llm.FinishEOS, llm.FinishLength}[round%2]
			var list []generate.Token
			for rest := []rune(c.text); len(rest) > 0; {
				n := min(len(rest), 1+rng.IntN(1+round))
				list = append(list, generate.Token{Text: string(rest[:n])})
				rest = rest[n:]
			}
			e := &generatetest.Engine{Script: func(r engine.Request) []engine.Event {
				return generatetest.Sequence(r, 0, end, list...)
			}}
			s := newServer(e, roomy(e, true))
			body := `{` + hi + `,` + offered + `,"logprobs":true` + c.fields
			whole, stream := readWhole(t, ask(s, chatPath, body+`}`).Body.Bytes()),
				readStream(t, ask(s, chatPath, body+`,"stream":true}`).Body.Bytes())
			var done []spokenCall
			for _, call := range stream.Calls {
				if cut := whole.Reason == "length" && !strings.Contains(call.Arguments, "!!"); cut ||
					json.Valid([]byte(call.Arguments)) {
					done = append(done, call)
				}
				if whole.Reason != "tool_calls" && len(call.Arguments) > 2 && json.Valid([]byte(call.Arguments)) &&
					call == stream.Calls[len(stream.Calls)-1] && !strings.Contains(c.text, "</call>") {
					t.Fatalf("%s: a call that is not complete can be read: %+v", c.text, call)
				}
			}
			if stream.Calls = done; !reflect.DeepEqual(whole, stream) {
				t.Fatalf("%s, %v, %+v:\n whole %+v\nstream %+v", c.text, end, list, whole, stream)
			}
		}
	}
}

// roomy gives a server a chat and longer contexts.
func roomy(e *generatetest.Engine, parse bool) func(*generate.Limits, *dispatch.Model) {
	return func(l *generate.Limits, m *dispatch.Model) {
		l.MaxInput, l.MaxTotal = 1000, 3000
		m.Service = generatetest.UserCode{Chat: &generatetest.Chat{Parse: parse}}.On(
			generate.New(e, generatetest.Words{}, *l, nil))
	}
}

// BenchmarkParsed is BenchmarkStream through a parser beside the same without.
func BenchmarkParsed(b *testing.B) {
	for _, parse := range []bool{false, true} {
		b.Run(fmt.Sprintf("parse=%v", parse), func(b *testing.B) {
			e := &generatetest.Engine{}
			s := httptest.NewServer(newServer(e, roomy(e, parse)))
			defer s.Close()
			b.ReportAllocs()
			for b.Loop() {
				r, err := http.Post(s.URL+chatPath, "application/json", strings.NewReader(`{`+hi+`,`+offered+
					`,"stream":true,"max_tokens":1000}`))
				if err != nil {
					b.Fatal(err)
				}
				if n, err := io.Copy(io.Discard, r.Body); err != nil || n < 100_000 {
					b.Fatal(n, err)
				}
				r.Body.Close()
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(b.N*1000), "ns/token")
		})
	}
}
