package openai

import (
	"bufio"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"net/http/httptest"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/dispatch"
	"tgi/server/generate"
	"tgi/server/generate/generatetest"
)

// reply is what a client makes of either form, streamed or not.
type reply struct {
	ID      string
	Error   any
	Choices []struct {
		Index          int
		Text           string
		Message, Delta struct{ Role, Content string }
		FinishReason   *string `json:"finish_reason"`
		Logprobs       *struct {
			Content []struct{ Token string }
			Tokens  []string
			Offset  []int `json:"text_offset"`
		}
	}
	Usage *struct {
		Completion int `json:"completion_tokens"`
	}
}

// told is a choice put together.
type told struct {
	text, reason string
	tokens       string
	offsets      []int
}

// whole puts the choices of a reply together, by index.
func whole(t *testing.T, body string) map[int]told {
	var r reply
	if err := json.Unmarshal([]byte(body), &r); err != nil {
		t.Fatal(err, body)
	}
	out := map[int]told{}
	for i, c := range r.Choices {
		if c.Index != i {
			t.Errorf("choice %d is in place %d", c.Index, i)
		}
		out[i] = told{text: c.Text + c.Message.Content, reason: *c.FinishReason}.with(&r, i)
	}
	return out
}

func (s told) with(r *reply, i int) told {
	if l := r.Choices[i].Logprobs; l != nil {
		for _, t := range l.Content {
			s.tokens += t.Token + "|"
		}
		for _, t := range l.Tokens {
			s.tokens += t + "|"
		}
		s.offsets = append(s.offsets, l.Offset...)
	}
	return s
}

// streamed puts the choices of a stream together, and holds its form.
func streamed(t *testing.T, body string) map[int]told {
	out := map[int]told{}
	lines := strings.Split(strings.TrimSuffix(body, "\n\n"), "\n\n")
	if lines[len(lines)-1] != "data: [DONE]" {
		t.Fatalf("the stream ends with %q", lines[len(lines)-1])
	}
	for _, line := range lines[:len(lines)-1] {
		var r reply
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &r); err != nil || r.Error != nil {
			t.Fatal(err, line)
		}
		for i, c := range r.Choices {
			s, known := out[c.Index]
			if s.reason != "" {
				t.Errorf("choice %d goes on after its end: %s", c.Index, line)
			}
			if strings.Contains(line, `"delta"`) && known == (c.Delta.Role != "") {
				t.Errorf("the role comes first and once: %s", line)
			}
			s.text += c.Text + c.Delta.Content
			if c.FinishReason != nil {
				s.reason = *c.FinishReason
			}
			out[c.Index] = s.with(&r, i)
		}
	}
	return out
}

// cut deals text out to tokens at random places, some of them empty or special,
// and ends as the engine does: at the first stop string, in which the text of
// special tokens counts, or at the last token.
func cut(r engine.Request, text string, specials bool, rng *rand.Rand) []engine.Event {
	var tokens []generate.Token
	all := "" // special tokens' text included, in which stop strings count
	end, stopped, hidden := llm.FinishLength, "", 0
	for rest := text; rest != "" && stopped == ""; {
		n := rng.IntN(min(len(rest), 4) + 1)
		tok := generate.Token{Token: llm.Token(len(tokens)), Text: rest[:n], Logprob: -1}
		if specials && rng.IntN(8) == 0 {
			tok = generate.Token{Token: 999, Text: "<s>", Special: true}
		} else {
			rest = rest[n:]
		}
		before := len(all)
		all += tok.Text
		at := len(all) + 1
		for _, s := range r.Params.Stop {
			for from := max(0, before-len(s)+1); from+len(s) <= len(all); from++ {
				if all[from:from+len(s)] == s && from+len(s) < at {
					at, stopped = from+len(s), s
				}
			}
		}
		if stopped != "" {
			tok.Text = tok.Text[:at-before]
			all = all[:at]
			end = llm.FinishStop
		}
		tokens = append(tokens, tok)
	}
	if len(tokens) == 0 {
		tokens = []generate.Token{{Token: 2, Special: true}}
	}
	events := generatetest.Sequence(r, 0, end, tokens...)
	f := events[len(events)-1].Finish
	if stopped != "" {
		f.Stop = stopped
		for i, left := len(tokens)-1, len(stopped); left > 0; i-- {
			n := min(left, len(tokens[i].Text))
			if !tokens[i].Special {
				hidden += n
			}
			left -= n
		}
		f.StopBytes = hidden
		if rng.IntN(3) == 0 { // the length limit was reached with the same token
			f.Reason, f.Stop, f.StopBytes = llm.FinishLength, "", 0
		}
	}
	return events
}

// TestSplitsDoNotMatter: the deltas of a stream, put together, are the content of
// the reply that is no stream, and both end before the first stop string,
// however the text is dealt out to tokens.
func TestSplitsDoNotMatter(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	pick := func(alphabet string, n int) string {
		var b strings.Builder
		for range n {
			b.WriteByte(alphabet[rng.IntN(len(alphabet))])
		}
		return b.String()
	}
	for round := range 1000 {
		text := pick("aab<s>", rng.IntN(24))
		var stops []string
		for range rng.IntN(4) {
			stops = append(stops, pick("aab<s>", 1+rng.IntN(4)))
		}
		seed, specials := rng.Uint64(), rng.IntN(3) == 0
		s := newServer(&generatetest.Engine{Script: func(r engine.Request) []engine.Event {
			return cut(r, text, specials, rand.New(rand.NewPCG(seed, 0)))
		}})
		list, err := json.Marshal(append([]string{}, stops...))
		if err != nil {
			t.Fatal(err)
		}
		for path, fields := range map[string]string{chatPath: hi + `,"logprobs":true`,
			completionPath: `"prompt":"a b","logprobs":0,"echo":true`} {
			body := `{` + fields + `,"stop":` + string(list)
			one := whole(t, ask(s, path, body+`}`).Body.String())[0]
			many := streamed(t, ask(s, path, body+`,"stream":true}`).Body.String())[0]
			if fmt.Sprint(one) != fmt.Sprint(many) {
				t.Fatalf("round %d, %q stopping at %q\nwhole  %+v\nstream %+v", round, text, stops, one, many)
			}
			got := strings.TrimPrefix(one.text, "a b")
			for _, stop := range stops {
				if strings.Contains(got, stop) && !specials {
					t.Fatalf("round %d: %q holds the stop string %q", round, got, stop)
				}
			}
			if !strings.HasPrefix(text, got) || one.reason == "length" && got != text {
				t.Fatalf("round %d: %q of %q stopping at %q, %s", round, got, text, stops, one.reason)
			}
		}
	}
}

// TestNoByteOfAStopIsSent reads a stream token by token: what could become the
// stop string waits, and nothing else does.
func TestNoByteOfAStopIsSent(t *testing.T) {
	e := &generatetest.Engine{Step: make(chan struct{}), Script: func(r engine.Request) []engine.Event {
		var tokens []generate.Token
		for _, s := range []string{"one", " E", "N", "T", " EN", "D"} {
			tokens = append(tokens, generate.Token{Text: s})
		}
		events := generatetest.Sequence(r, 0, llm.FinishStop, tokens...)
		events[5].Finish.Stop, events[5].Finish.StopBytes = "END", 3
		return events
	}}
	s := httptest.NewServer(newServer(e))
	defer s.Close()
	r, err := http.Post(s.URL+completionPath, "application/json",
		strings.NewReader(`{"prompt":"a","stop":"END","stream":true}`))
	if err != nil {
		t.Fatal(err)
	}
	defer r.Body.Close()
	lines := bufio.NewScanner(r.Body)
	sent := func() string {
		lines.Scan()
		line := lines.Text()
		lines.Scan()
		var c reply
		if err := json.Unmarshal([]byte(strings.TrimPrefix(line, "data: ")), &c); err != nil {
			t.Fatal(err, line)
		}
		return c.Choices[0].Text
	}
	for i, want := range []string{"one", " ", "", "ENT", " ", ""} {
		e.Step <- struct{}{}
		if i == 2 {
			continue // nothing is sent for it
		}
		if got := sent(); got != want {
			t.Errorf("token %d sends %q, want %q", i, got, want)
		}
	}
	close(e.Step)
}

// TestManyPrompts: choices come by prompt and then by sequence, streams are
// interleaved as the tokens come, and the usage counts all.
func TestManyPrompts(t *testing.T) {
	script := func(r engine.Request) []engine.Event {
		var events []engine.Event
		for i := range r.N {
			tok := generate.Token{Text: fmt.Sprintf("%d.%d ", r.Prompt[0], i)}
			events = append(events, generatetest.Sequence(r, i, llm.FinishLength, tok, tok)...)
		}
		return events
	}
	s := newServer(&generatetest.Engine{Script: script})
	body := `{"prompt":["1","22","333"],"n":2`
	want := map[int]told{}
	for p := range 3 {
		for i := range 2 {
			text := fmt.Sprintf("%d.%d ", p+1, i)
			want[2*p+i] = told{text: text + text, reason: "length"}
		}
	}
	if got := whole(t, ask(s, completionPath, body+`}`).Body.String()); fmt.Sprint(got) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", got, want)
	}
	got := ask(s, completionPath, body+`,"stream":true,"stream_options":{"include_usage":true}}`).Body.String()
	if told := streamed(t, got); fmt.Sprint(told) != fmt.Sprint(want) {
		t.Errorf("got  %v\nwant %v", told, want)
	}
	if !strings.HasSuffix(got,
		`"choices":[],"usage":{"prompt_tokens":3,"completion_tokens":12,"total_tokens":15,"prompt_tokens_details":{"cached_tokens":0}}}`+"\n\ndata: [DONE]\n\n") {
		t.Errorf("the stream ends with %s", got[len(got)-300:])
	}
}

// half is an engine that fails in the middle of prompts of two letters.
type half struct{ good, bad *generatetest.Engine }

func (h half) Healthy() error { return nil }
func (h half) Submit(ctx context.Context, r engine.Request) (generate.Stream, error) {
	if r.Prompt[0] == 2 {
		return h.bad.Submit(ctx, r)
	}
	return h.good.Submit(ctx, r)
}

// TestOnePromptFails: the call fails, says which prompt, and nothing runs on.
func TestOnePromptFails(t *testing.T) {
	for _, stream := range []string{"false", "true"} {
		e := half{&generatetest.Engine{}, &generatetest.Engine{Break: llm.ErrBackend,
			Script: func(r engine.Request) []engine.Event {
				events := generatetest.Echo(r)
				return events[:len(events)-1]
			}}}
		s := newServer(e.good, func(l *generate.Limits, m *dispatch.Model) {
			m.Service = generate.New(e, generatetest.Words{}, *l, nil)
		})
		got := ask(s, completionPath, `{"prompt":["1","22"],"max_tokens":2,"stream":`+stream+`}`).Body.String()
		if !strings.Contains(got,
			`{"error":{"message":"Request failed during generation: prompt[1]: forward pass failed"`) {
			t.Errorf("stream %s: got %s", stream, got)
		}
		eventually(t, "both prompts end", func() bool { return e.good.Running()+e.bad.Running() == 0 })
	}
}

// eventually waits for what other goroutines bring about; the deadline is for
// a broken test alone.
func eventually(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(20 * time.Second); !ok(); time.Sleep(time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("never happened: ", what)
		}
	}
}

// TestClientLeaves: what a client that left asked for ends, and its permits come
// back.
func TestClientLeaves(t *testing.T) {
	for _, body := range []string{
		`{"prompt":["a","b"],"n":2}`, `{"prompt":["a","b"],"n":2,"stream":true}`, `{"prompt":"a"}`,
		`{"prompt":"a","n":4,"stream":true}`,
	} {
		e := &generatetest.Engine{Step: make(chan struct{})}
		s := httptest.NewServer(newServer(e, func(l *generate.Limits, _ *dispatch.Model) { l.MaxConcurrent = 8 }))
		ctx, leave := context.WithCancel(t.Context())
		gone := make(chan struct{})
		go func() {
			defer close(gone)
			r, err := http.NewRequestWithContext(ctx, http.MethodPost, s.URL+completionPath, strings.NewReader(body))
			if err != nil {
				panic(err)
			}
			r.Header.Set("Content-Type", "application/json")
			if got, err := http.DefaultClient.Do(r); err == nil {
				_, _ = io.Copy(io.Discard, got.Body)
			}
		}()
		e.Step <- struct{}{} // it runs
		leave()
		<-gone
		eventually(t, "the sequences end", func() bool { return e.Running() == 0 })
		close(e.Step)
		eventually(t, "the permits come back", func() bool {
			r, err := http.Post(s.URL+completionPath, "application/json",
				strings.NewReader(`{"prompt":["a","b","c","d"],"max_tokens":1}`))
			if err != nil {
				t.Fatal(err)
			}
			r.Body.Close()
			return r.StatusCode == 200
		})
		s.Close()
	}
}

// TestSilence: a stream of several prompts is kept alive while no token comes.
func TestSilence(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newServer(&generatetest.Engine{Pause: 20 * time.Second})
		got := ask(s, completionPath, `{"prompt":["a","b"],"max_tokens":1,"stream":true}`).Body.String()
		if !strings.HasPrefix(got, ":\n\ndata: ") {
			t.Errorf("got %q", got)
		}
	})
}

// TestOverloadedEngine: the engine's own refusal is a status, also for a stream.
func TestOverloadedEngine(t *testing.T) {
	s := newServer(&generatetest.Engine{Refuse: llm.ErrOverloaded})
	for _, stream := range []string{"false", "true"} {
		rec := ask(s, chatPath, `{`+hi+`,"stream":`+stream+`}`)
		if rec.Code != 429 || rec.Header().Get("Retry-After") == "" {
			t.Errorf("stream %s: %d %v", stream, rec.Code, rec.Header())
		}
	}
}

// TestPenalties: OpenAI's frequency penalty reaches the engine as user code does,
// and the rest of the rules as parameters.
func TestPenalties(t *testing.T) {
	e := &generatetest.Engine{}
	rec := ask(newServer(e), chatPath, `{`+hi+
		`,"frequency_penalty":1.5,"presence_penalty":0.5,"temperature":0.7,"top_p":1,"seed":3,"max_tokens":1}`)
	if rec.Code != 200 {
		t.Fatal(errors.New(rec.Body.String()))
	}
	r := e.Requests()[0]
	p := r.Params
	if !p.Sample || p.Temperature != 0.7 || p.TopP != 1 || p.Seed != 3 || p.PresencePenalty != 0.5 ||
		p.FrequencyPenalty != 0 || !p.RawLogprobs {
		t.Errorf("got %+v", p)
	}
	if n := len(r.Plugins(0).Processors); n != 1 {
		t.Errorf("%d processors, want the frequency penalty", n)
	}
}
