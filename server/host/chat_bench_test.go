package host

import (
	"encoding/json"
	"fmt"
	"io"
	"maps"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/server/config"
	"tgi/server/generate"
	"tgi/server/host/bridge"
)

// benchTools are n tools as a request offers them.
func benchTools(n int) string {
	var list []string
	for i := range n {
		list = append(list,
			fmt.Sprintf(`{"type":"function","function":{"name":"tool_%d","description":"Does something useful with a place",`+
				`"parameters":{"type":"object","required":["city"],"properties":{"city":{"type":"string","description":"Name of the city"},"days":{"type":"integer"}}}}}`, i))
	}
	return "[" + strings.Join(list, ",") + "]"
}

// BenchmarkChatStream reports the tokens per second of streamed chats, with a
// template and a parser of tool calls, and of /generate_stream with the same
// prompt, in turn; ratio is the first over the second in the same round.
// TGI_BENCH_MODEL is the folder of another model than the demo (whose steps are a tenth of a real one's), run in int4.
func BenchmarkChatStream(b *testing.B) {
	const tokens = 200
	for _, streams := range []int{1, 16} {
		b.Run(fmt.Sprint(streams), func(b *testing.B) {
			p := openPlugged(b, func(c *config.Config) {
				if c.Model.Path = os.Getenv("TGI_BENCH_MODEL"); c.Model.Path != "" {
					c.Model.Weights = config.WeightsInt4
				}
			})
			const tell = `{"role":"user","content":"Tell me a story about a red hat."}`
			tools := `,"tools":` + benchTools(1)
			prompt, _ := p.prompt(b, tell+`]`+tools+`,"stop":[`)
			inputs, err := json.Marshal(prompt)
			if err != nil {
				b.Fatal(err)
			}
			run := func(path, body string) float64 {
				began := time.Now()
				var wg sync.WaitGroup
				for range streams {
					wg.Go(func() {
						res, err := http.Post(p.url+path, "application/json", strings.NewReader(body))
						if err != nil {
							b.Error(err)
							return
						}
						defer res.Body.Close()
						n, err := io.Copy(io.Discard, res.Body)
						if err != nil || res.StatusCode != http.StatusOK || n < tokens {
							b.Errorf("%s: %d, %d bytes, %v", path, res.StatusCode, n, err)
						}
					})
				}
				wg.Wait()
				return float64(streams*tokens) / time.Since(began).Seconds()
			}
			plain := func() float64 {
				return run("/generate_stream",
					fmt.Sprintf(`{"inputs":%s,"parameters":{"max_new_tokens":%d,"ignore_eos":true}}`, inputs, tokens))
			}
			chat := func() float64 {
				return run("/v1/chat/completions",
					fmt.Sprintf(`{"messages":[%s]%s,"stream":true,"temperature":0,"max_tokens":%d,"ignore_eos":true}`,
						tell, tools, tokens))
			}
			plain()
			chat()
			var without, with, ratios []float64
			for i := 0; b.Loop(); i++ {
				var x, y float64
				if i%2 == 0 { // neither is always first
					x = plain()
					y = chat()
				} else {
					y = chat()
					x = plain()
				}
				without, with, ratios = append(without, x), append(with, y), append(ratios, y/x)
			}
			b.ReportMetric(median(without), "tok/s-generate")
			b.ReportMetric(median(with), "tok/s-chat")
			b.ReportMetric(median(ratios), "ratio")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// realTemplates are chat templates of models, by name.
func realTemplates(b *testing.B) map[string]string {
	all := map[string]string{}
	folder := filepath.Join("..", "..", "plugins", "std", "jinja", "testdata")
	for _, name := range []string{"trl/qwen3", "llama.cpp/Qwen3-Coder", "llama.cpp/GLM-4.6",
		"llama.cpp/openai-gpt-oss-120b", "axolotl/mistral_v3_tekken",
		"llama.cpp/Kimi-K2-Instruct", "llama.cpp/deepseek-ai-DeepSeek-V3.1"} {
		source, err := os.ReadFile(filepath.Join(folder, "templates", name+".jinja"))
		if err != nil {
			b.Fatal(err)
		}
		all[name] = string(source)
	}
	var rendered []struct{ Name, Template string }
	text, err := os.ReadFile(filepath.Join(folder, "rendered.json"))
	if err == nil {
		err = json.Unmarshal(text, &rendered)
	}
	if err != nil {
		b.Fatal(err)
	}
	for _, r := range rendered {
		if strings.Contains(r.Name, "Llama-3.1") || strings.Contains(r.Name, "Hermes-2") {
			all[r.Name] = r.Template
		}
	}
	return all
}

// BenchmarkChatRender renders 50 messages with 10 tools as a request does:
// the server's plugins, a warm pool, real templates.
func BenchmarkChatRender(b *testing.B) {
	path := filepath.Join(b.TempDir(), "x.jinja")
	write(b, path, "x")
	p := openPlugged(b, func(c *config.Config) { c.Model.Template = path })
	conversation := &generate.Conversation{Tools: []byte(benchTools(10)), Parallel: true}
	for i := range 50 {
		role := []string{"user", "assistant"}[i%2]
		conversation.Messages = append(conversation.Messages, generate.Message{
			Role: role, HasText: true,
			JSON: fmt.Appendf(nil, `{"role":%q,"content":"Message %d: %s"}`, role, i,
				strings.Repeat("some words of text, ", 12)),
		})
	}
	sources := realTemplates(b)
	for _, name := range slices.Sorted(maps.Keys(sources)) {
		b.Run(name, func(b *testing.B) {
			write(b, path, sources[name])
			render := func() time.Duration {
				began := time.Now()
				control := p.defaultModel().control
				code, _, err := bridge.UserCode(control.set, control, nil, false).Bind(b.Context(), nil,
					conversation, began)
				if err != nil {
					b.Fatal(err)
				}
				defer code.Close()
				return time.Since(began)
			}
			render()
			var took []float64
			for b.Loop() {
				took = append(took, render().Seconds()*1000)
			}
			b.ReportMetric(median(took), "median-ms")
			b.ReportMetric(slices.Min(took), "min-ms")
			b.ReportMetric(0, "ns/op")
		})
	}
}

// BenchmarkChatFeed feeds a reply with reasoning, text and a call token by token,
// as the server does.
func BenchmarkChatFeed(b *testing.B) {
	p := openPlugged(b, nil)
	conversation := &generate.Conversation{Tools: []byte(benchTools(10)), Parallel: true}
	text := "<think>\nThe user wants to know something about it.\n</think>\n\nI look it up for you, that takes a moment. " +
		"<tool_call>\n{\"name\": \"tool_1\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}\n</tool_call>\n"
	var pieces []string
	for i := 0; i < len(text); i += 4 {
		pieces = append(pieces, text[i:min(i+4, len(text))])
	}
	control := p.defaultModel().control
	chat, _, err := control.set.BindChat(b.Context(), nil, *control.Current())
	if err != nil {
		b.Fatal(err)
	}
	defer chat.Close()
	var took []float64
	for b.Loop() {
		parser, err := chat.Parser(b.Context(), conversation.ToolsRequest(""), 1)
		if err != nil {
			b.Fatal(err)
		}
		for range 20 {
			for _, piece := range pieces {
				began := time.Now()
				if _, err := parser.Feed(piece, false); err != nil {
					b.Fatal(err)
				}
				took = append(took, float64(time.Since(began).Nanoseconds())/1000)
			}
		}
		parser.Close()
	}
	mean := 0.0
	for _, t := range took {
		mean += t / float64(len(took))
	}
	b.ReportMetric(median(took), "median-us")
	b.ReportMetric(mean, "mean-us")
	b.ReportMetric(0, "ns/op")
}
