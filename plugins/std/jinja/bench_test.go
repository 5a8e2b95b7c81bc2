package jinja

import (
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"testing"
)

// conversation makes a request of n messages and ten tools.
func conversation(n int) []byte {
	type object = map[string]any
	var messages []object
	for i := range n {
		role := []string{"user", "assistant"}[i%2]
		messages = append(messages, object{"role": role, "content": fmt.Sprintf("Message %d: %s", i,
			strings.Repeat("some words of text, ", 12))})
	}
	var tools []object
	for i := range 10 {
		tools = append(tools, object{"type": "function", "function": object{
			"name": fmt.Sprintf("tool_%d", i), "description": "Does something useful with a place",
			"parameters": object{"type": "object", "required": []string{"city"}, "properties": object{
				"city": object{"type": "string", "description": "Name of the city"},
				"days": object{"type": "integer"}}},
		}})
	}
	b, _ := json.Marshal(object{"messages": messages, "tools": tools, "add_generation_prompt": true, "bos_token": "<s>",
		"eos_token": "</s>"})
	return b
}

func BenchmarkRender(b *testing.B) {
	for _, name := range []string{"trl/qwen3", "llama.cpp/openai-gpt-oss-120b", "llama.cpp/Qwen3-Coder",
		"axolotl/mistral_v3_tekken"} {
		src, err := os.ReadFile("testdata/templates/" + name + ".jinja")
		if err != nil {
			b.Fatal(err)
		}
		tmpl, err := Parse(name, string(src))
		if err != nil {
			b.Fatal(err)
		}
		in := Input{JSON: conversation(50), Now: testNow}
		b.Run(name, func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				if _, err := tmpl.Render(in, Limits{}); err != nil {
					b.Fatal(err)
				}
			}
		})
	}
	src, _ := os.ReadFile("testdata/templates/llama.cpp/openai-gpt-oss-120b.jinja")
	b.Run("parse", func(b *testing.B) {
		for b.Loop() {
			if _, err := Parse("x", string(src)); err != nil {
				b.Fatal(err)
			}
		}
	})
}
