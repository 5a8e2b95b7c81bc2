package std_test

import (
	"fmt"
	"os"
	"strings"
	"testing"

	"tgi/plugins/tools"
)

// conversation makes a request of n messages and ten tools.
func conversation(t testing.TB, n int) []byte {
	var messages, list []object
	for i := range n {
		role := []string{"user", "assistant"}[i%2]
		messages = append(messages, object{"role": role, "content": fmt.Sprintf("Message %d: %s", i,
			strings.Repeat("some words of text, ", 12))})
	}
	for i := range 10 {
		list = append(list, object{"type": "function", "function": object{
			"name": fmt.Sprintf("tool_%d", i), "description": "Does something useful with a place",
			"parameters": object{"type": "object", "required": []string{"city"}, "properties": object{
				"city": object{"type": "string", "description": "Name of the city"},
				"days": object{"type": "integer"}}},
		}})
	}
	return marshal(t, object{"messages": messages, "tools": list, "add_generation_prompt": true,
		"now": "2025-07-10T15:06:07Z"})
}

// BenchmarkRender renders 50 messages with 10 tools, each in an instance of a warm pool.
func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"trl/qwen3", "llama.cpp/openai-gpt-oss-120b", "llama.cpp/Qwen3-Coder",
		"axolotl/mistral_v3_tekken"} {
		src, err := os.ReadFile("jinja/testdata/templates/" + name + ".jinja")
		if err != nil {
			b.Fatal(err)
		}
		g := renders(b, object{"model": object{"tokens": object{"bos_token": "<s>", "eos_token": "</s>"},
			"templates": object{"default": string(src)}}})
		request := conversation(b, 50)
		b.Run(name, func(b *testing.B) {
			before := g.Stats()
			for b.Loop() {
				if _, err := rendered(b, g, request); err != nil {
					b.Fatal(err)
				}
			}
			after := g.Stats()
			b.ReportMetric(float64(after.Fuel-before.Fuel)/float64(b.N), "fuel/op")
			b.ReportMetric(float64(after.Nanoseconds-before.Nanoseconds)/float64(b.N), "guest-ns/op")
			b.Logf("%+v", after)
		})
	}
}

// BenchmarkFeed feeds a message of text, reasoning and calls piece by piece.
func BenchmarkFeed(b *testing.B) {
	g, err := tryLoad(b, module(b, "toolcalls"), `{"format":"hermes"}`)
	if err != nil {
		b.Fatal(err)
	}
	request := marshal(b, object{"tools": []object{{"type": "function", "function": object{"name": "get_weather",
		"parameters": object{"type": "object"}}}},
		"tool_choice": "auto", "parallel_tool_calls": true, "prompt_end": ""})
	text := "<think>\nThe user wants to know something about it.\n</think>\n\nI look it up for you, that takes a moment. " +
		"<tool_call>\n{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Paris\", \"days\": 3}}\n</tool_call>\n"
	var pieces []string
	for i := 0; i < len(text); i += 4 {
		pieces = append(pieces, text[i:min(i+4, len(text))])
	}
	n := 0
	for b.Loop() {
		s, err := g.Open(1, nil)
		if err != nil {
			b.Fatal(err)
		}
		p, err := tools.Begin(s, request, nil)
		if err != nil {
			b.Fatal(err)
		}
		for range 20 {
			for _, piece := range pieces {
				if _, err := p.Feed(piece, false); err != nil {
					b.Fatal(err)
				}
				n++
			}
		}
		if _, err := p.Finish(false); err != nil {
			b.Fatal(err)
		}
		s.Close()
	}
	b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/piece")
	b.Logf("%+v", g.Stats())
}
