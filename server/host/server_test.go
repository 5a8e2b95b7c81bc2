package host

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"net"
	"net/http"
	"net/http/httptest"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/config"

	"github.com/spf13/pflag"
)

// These tests run the embedded demo model on ONNX Runtime, with everything in
// between real.

// testConfig is of a server without conversations: the plugins that they take, jinja and toolcalls, are nearly all of
// what starting a server costs.
func testConfig() config.Config {
	c := chatConfig()
	c.Model.Template = config.None
	return c
}

// chatConfig is testConfig with conversations.
func chatConfig() config.Config {
	c := config.Default()
	c.Runtime.Verify = true
	c.Models.Folder = "no-models" // not those of whoever tests
	c.Plugins.Uploads = ""
	return c
}

func openServer(t testing.TB, c config.Config) *Server {
	t.Helper()
	return openServerLogged(t, c, slog.New(slog.NewTextHandler(io.Discard, nil)))
}

func openServerLogged(t testing.TB, c config.Config, log *slog.Logger) *Server {
	t.Helper()
	keepModules(t)
	h, err := Open(t.Context(), Options{Config: c, Version: "dev", Log: log})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := h.Close(); err != nil {
			t.Error(err)
		}
	})
	return h
}

// mixedRequests returns n requests of different lengths and settings. Some
// prompts begin alike.
func mixedRequests(h *Server, n int) []engine.Request {
	rng := rand.New(rand.NewPCG(1, 2))
	words := []string{"the", "red", "cat", "sat", "on", "a", "hill", "and", "saw", "seven", "boats", "in", "rain"}
	shared := strings.Repeat("Once upon a time there was an island. ", 6)
	out := make([]engine.Request, n)
	for i := range out {
		text := fmt.Sprintf("Story %d:", i)
		if i%3 == 0 {
			text = shared
		}
		for range rng.IntN(60) {
			text += " " + words[rng.IntN(len(words))]
		}
		p := llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 30 + rng.IntN(60),
			IgnoreEOS: i%4 != 1, Seed: uint64(i)}
		switch i % 4 {
		case 1:
			p.Sample, p.Temperature, p.TopP = true, 0.8, 0.9
		case 2:
			p.Sample, p.TopK, p.RepetitionPenalty = true, 20, 1.2
		case 3:
			p.Watermark, p.WatermarkGamma, p.WatermarkDelta, p.FrequencyPenalty = true, 0.5, 2, 0.4
		}
		out[i] = engine.Request{Prompt: h.defaultModel().tokenizer.Encode(text, true), Params: p, N: 1 + i%8/7}
	}
	return out
}

// collect runs a request and returns the tokens of each of its sequences.
func collect(t *testing.T, h *Server, r engine.Request) [][]llm.Token {
	s, err := h.defaultModel().engine.Submit(context.Background(), r)
	if err != nil {
		t.Error(err)
		return nil
	}
	defer s.Close()
	out := make([][]llm.Token, max(r.N, 1))
	for {
		e, err := s.Next(context.Background())
		if err == io.EOF {
			return out
		}
		if err != nil {
			t.Error(err)
			return out
		}
		out[e.Index] = append(out[e.Index], e.Token)
	}
}

func TestTogetherAsAlone(t *testing.T) {
	const n = 32
	alone := make([][][]llm.Token, n)
	quiet := testConfig()
	quiet.Runtime.PrefixSharing = false
	h := openServer(t, quiet)
	for i, r := range mixedRequests(h, n) {
		alone[i] = collect(t, h, r)
	}
	for _, share := range []bool{true, false} {
		for _, small := range []bool{false, true} {
			t.Run(fmt.Sprintf("share=%v small=%v", share, small), func(t *testing.T) {
				c := testConfig()
				c.Runtime.PrefixSharing = share
				if small {
					c.Limits.MaxTotalTokens = 256
					c.Limits.MaxBatchTotalTokens = 320
				}
				h := openServer(t, c)
				got := make([][][]llm.Token, n)
				var wg sync.WaitGroup
				for i, r := range mixedRequests(h, n) {
					wg.Go(func() { got[i] = collect(t, h, r) })
				}
				wg.Wait()
				for i := range got {
					if !slices.EqualFunc(got[i], alone[i], slices.Equal) {
						t.Errorf("request %d differs:\ntogether %v\nalone    %v", i, got[i], alone[i])
					}
				}
				st := h.defaultModel().engine.Stats()
				if small != (st.Preempted > 0) {
					t.Errorf("small=%v but %d sequences stepped back", small, st.Preempted)
				}
				if st.KVUsed != 0 || st.Running != 0 || st.Waiting != 0 {
					t.Errorf("after the end: %+v", st)
				}
			})
		}
	}
}

func post(t *testing.T, ctx context.Context, url, body string) *http.Response {
	t.Helper()
	req, err := http.NewRequestWithContext(ctx, http.MethodPost, url, strings.NewReader(body))
	if err != nil {
		t.Fatal(err)
	}
	req.Header.Set("content-type", "application/json")
	res, err := http.DefaultClient.Do(req)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { res.Body.Close() })
	return res
}

func TestGenerateOverHTTP(t *testing.T) {
	h := openServer(t, testConfig())
	ts := httptest.NewServer(h)
	defer ts.Close()
	const prompt = `"inputs":"<|im_start|>user\nhello<|im_end|>\n<|im_start|>assistant\n"`

	res := post(t, t.Context(), ts.URL+"/generate", `{`+prompt+`,"parameters":{"max_new_tokens":60,"details":true}}`)
	var whole struct {
		GeneratedText string `json:"generated_text"`
		Details       struct {
			FinishReason string `json:"finish_reason"`
			Tokens       []struct {
				ID      llm.Token
				Text    string
				Special bool
			}
		}
	}
	if err := json.NewDecoder(res.Body).Decode(&whole); err != nil || res.StatusCode != 200 {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	if whole.GeneratedText == "" || whole.Details.FinishReason != "eos_token" {
		t.Errorf("the demo model answers a greeting and ends by itself; got %+v", whole)
	}

	res = post(t, t.Context(), ts.URL+"/generate_stream", `{`+prompt+`,"parameters":{"max_new_tokens":60}}`)
	var ids []llm.Token
	text, final := "", ""
	for sc := bufio.NewScanner(res.Body); sc.Scan(); {
		data, ok := bytes.CutPrefix(sc.Bytes(), []byte("data: "))
		if !ok {
			continue
		}
		var e struct {
			Token struct {
				ID      llm.Token
				Text    string
				Special bool
			}
			GeneratedText *string `json:"generated_text"`
		}
		if err := json.Unmarshal(data, &e); err != nil {
			t.Fatal(err)
		}
		ids = append(ids, e.Token.ID)
		if !e.Token.Special {
			text += e.Token.Text
		}
		if e.GeneratedText != nil {
			final = *e.GeneratedText
		}
	}
	if text != final || final != whole.GeneratedText {
		t.Errorf("streamed %q, final %q, whole %q", text, final, whole.GeneratedText)
	}
	for i, tok := range whole.Details.Tokens {
		if i >= len(ids) || ids[i] != tok.ID {
			t.Fatalf("token %d differs between stream %v and whole", i, ids)
		}
	}
}

// TestDisconnectFreesBlocks: within one step after a client has gone, nothing
// of its request is left.
func TestDisconnectFreesBlocks(t *testing.T) {
	h := openServer(t, testConfig())
	ctx, cancel := context.WithCancel(t.Context())
	s, err := h.defaultModel().engine.Submit(ctx, engine.Request{
		Prompt: h.defaultModel().tokenizer.Encode(strings.Repeat("a story ", 20), true),
		Params: llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 800,
			IgnoreEOS: true},
	})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := s.Next(t.Context()); err != nil {
		t.Fatal(err)
	}
	steps := h.defaultModel().engine.Stats().Steps
	cancel()
	for {
		if _, err := s.Next(t.Context()); err != nil {
			break
		}
	}
	// The next request's first step comes after the abort.
	collect(t, h, engine.Request{Prompt: h.defaultModel().tokenizer.Encode("x", true),
		Params: llm.Params{Temperature: 1, TopP: 1, TypicalP: 1, RepetitionPenalty: 1, MaxNewTokens: 1}})
	if st := h.defaultModel().engine.Stats(); st.KVUsed != 0 || st.Running != 0 || st.Steps >= steps+700 {
		t.Errorf("after the client had gone: %+v", st)
	}
}

// TestSilentReader: clients that never read do not slow others down, and their
// requests end.
func TestSilentReader(t *testing.T) {
	h := openServer(t, testConfig())
	ts := httptest.NewServer(h)
	defer ts.Close()
	for range 4 {
		conn, err := net.Dial("tcp", ts.Listener.Addr().String())
		if err != nil {
			t.Fatal(err)
		}
		defer conn.Close()
		body := `{"inputs":"Once upon a time","parameters":{"max_new_tokens":300}}`
		fmt.Fprintf(conn,
			"POST /generate_stream HTTP/1.1\r\nHost: x\r\nContent-Type: application/json\r\nContent-Length: %d\r\n\r\n%s", len(body), body)
	}
	res := post(t, t.Context(), ts.URL+"/generate", `{"inputs":"Once upon a time","parameters":{"max_new_tokens":20}}`)
	if _, err := io.Copy(io.Discard, res.Body); err != nil || res.StatusCode != 200 {
		t.Fatalf("status %d, %v", res.StatusCode, err)
	}
	deadline := time.Now().Add(time.Minute) // a bound for a broken server, not a measurement
	for h.defaultModel().engine.Stats().Running > 0 && time.Now().Before(deadline) {
		time.Sleep(10 * time.Millisecond)
	}
	if st := h.defaultModel().engine.Stats(); st.Running > 0 {
		t.Errorf("silent readers hold %d sequences", st.Running)
	}
}

// TestThousandAtOnce: each of 1,000 simultaneous requests gets 200 or 429.
func TestThousandAtOnce(t *testing.T) {
	h := openServer(t, testConfig())
	ts := httptest.NewServer(h)
	defer ts.Close()
	client := &http.Client{Transport: &http.Transport{MaxIdleConnsPerHost: 1000}}
	var mu sync.Mutex
	count := map[int]int{}
	var wg sync.WaitGroup
	for range 1000 {
		wg.Go(func() {
			res, err := client.Post(ts.URL+"/generate", "application/json",
				strings.NewReader(`{"inputs":"Hello","parameters":{"max_new_tokens":2}}`))
			status := 0
			if err == nil {
				status = res.StatusCode
				if status == http.StatusTooManyRequests && res.Header.Get("Retry-After") == "" {
					t.Error("429 without Retry-After")
				}
				io.Copy(io.Discard, res.Body)
				res.Body.Close()
			}
			mu.Lock()
			count[status]++
			mu.Unlock()
		})
	}
	wg.Wait()
	if count[200]+count[429] != 1000 || count[200] == 0 {
		t.Errorf("answers by status: %v", count)
	}
}

// settingFlags returns the settings that a command line gives.
func settingFlags(t *testing.T, args ...string) *config.Flags {
	t.Helper()
	f := &config.Flags{}
	set := pflag.NewFlagSet("", pflag.ContinueOnError)
	f.AddTo(set)
	if err := set.Parse(args); err != nil {
		t.Fatal(err)
	}
	return f
}
