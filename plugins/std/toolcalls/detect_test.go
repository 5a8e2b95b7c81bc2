package toolcalls

import (
	"encoding/json"
	"os"
	"slices"
	"strings"
	"testing"
)

// TestDetect: the formats of real chat templates, by the marks that occur in them.
func TestDetect(t *testing.T) {
	data, err := os.ReadFile("testdata/detect.json")
	if err != nil {
		t.Fatal(err)
	}
	var d struct {
		Marks     []string
		Templates map[string]struct{ Has []string }
	}
	if err := json.Unmarshal(data, &d); err != nil {
		t.Fatal(err)
	}
	for _, f := range presets {
		for _, e := range f.Detect {
			for _, mark := range slices.Concat(e.All, e.None) {
				if !slices.Contains(d.Marks, mark) {
					t.Errorf("%s: %q was not looked for in the templates", f.Name, mark)
				}
			}
		}
	}
	detected := 0
	for name, template := range d.Templates {
		want := detections[name]
		got, ok := Detect(strings.Join(template.Has, "\n"))
		if got != want || ok != (want != "") {
			t.Errorf("%s with %q: %q, %v; want %q", name, template.Has, got, ok, want)
		}
		if ok {
			detected++
		}
	}
	if detected != len(detections) {
		t.Errorf("%d templates detected; the table has %d", detected, len(detections))
	}
}

// detections are the formats of the templates that show one of a preset. The others have no tools, or another format.
var detections = map[string]string{
	"ByteDance-Seed-OSS":                            "seed-oss",
	"Apriel-1.6-15b-Thinker-fixed":                  "jamba",
	"Bielik-11B-v3.0-Instruct":                      "hermes",
	"CohereForAI-c4ai-command-r7b-12-2024-tool_use": "cohere",
	"Cohere2MoE":                                    "cohere",
	"GLM-4.6":                                       "glm-4.5",
	"GLM-4.7-Flash":                                 "glm-4.5",
	"inclusionai-ling-3.0-flash":                    "glm-4.5",
	"poolside-Laguna-S-2.1":                         "glm-4.5",
	"poolside-Laguna-XS-2.1":                        "glm-4.5",
	"poolside-Laguna-XS.2":                          "glm-4.5",
	"Spark2.5":                                      "glm-4.5",
	"Kimi-K2-Instruct":                              "kimi-k2",
	"Kimi-K2-Thinking":                              "kimi-k2",
	"moonshotai-Kimi-K2":                            "kimi-k2",
	"LFM2-8B-A1B":                                   "lfm2",
	"LFM2.5-8B-A1B":                                 "lfm2",
	"MiMo-VL":                                       "hermes",
	"MiniMax-M2":                                    "minimax-m2",
	"Mistral-Small-3.2-24B-Instruct-2506":           "mistral-v11",
	"mistralai-Ministral-3-14B-Reasoning-2512":      "mistral-v11",
	"unsloth-mistral-Devstral-Small-2507":           "mistral-v11",
	"mistralai-Mistral-Nemo-Instruct-2407":          "mistral",
	"NVIDIA-Nemotron-3-Nano-30B-A3B-BF16":           "qwen3-coder",
	"StepFun3.5-Flash":                              "qwen3-coder",
	"Qwen3-Coder":                                   "qwen3-coder",
	"Qwen3.5-4B":                                    "qwen3-coder",
	"NousResearch-Hermes-2-Pro-Llama-3-8B-tool_use": "hermes",
	"NousResearch-Hermes-3-Llama-3.1-8B-tool_use":   "hermes",
	"Qwen-QwQ-32B":                                  "hermes",
	"Qwen-Qwen2.5-7B-Instruct":                      "hermes",
	"Qwen-Qwen3-0.6B":                               "hermes",
	"Reka-Edge":                                     "hermes",
	"deepseek-ai-DeepSeek-R1-Distill-Llama-8B":      "deepseek-v3",
	"deepseek-ai-DeepSeek-R1-Distill-Qwen-32B":      "deepseek-v3",
	"llama-cpp-deepseek-r1":                         "deepseek-v3",
	"deepseek-ai-DeepSeek-V3.1":                     "deepseek-v3.1",
	"deepseek-ai-DeepSeek-V3.2":                     "deepseek-v3.2",
	"deepseek-ai-DeepSeek-V4":                       "deepseek-v3.2",
	"deepseek-ai-DeepSeek-V4-Flash-0731":            "deepseek-v3.2",
	"fireworks-ai-llama-3-firefunction-v2":          "phi-4-mini",
	"ibm-granite-granite-3.3-2B-Instruct":           "granite",
	"ibm-granite-granite-4.0":                       "granite",
	"ibm-granite-granite-4.1":                       "granite",
	"meta-llama-Llama-3.1-8B-Instruct":              "llama3-json",
	"meta-llama-Llama-3.2-3B-Instruct":              "llama3-json",
	"meta-llama-Llama-3.3-70B-Instruct":             "llama3-json",
	"openai-gpt-oss-120b":                           "gpt-oss",
	"unsloth-Apriel-1.5":                            "jamba",

	"hf.js mistralai/Mistral-7B-Instruct-v0.3 (JSON Schema)":   "mistral",
	"hf.js NousResearch/Hermes-2-Pro-Llama-3-8B (JSON Schema)": "hermes",
	"hf.js meta-llama/Llama-3.1-8B-Instruct":                   "llama3-json",
	"hf.js meta-llama/Llama-3.2-11B-Vision-Instruct":           "llama3-json",
	"hf.js Qwen/Qwen3.5-4B":                                    "qwen3-coder",
	"hf.js HuggingFaceTB/SmolLM3-3B":                           "hermes",
	"hf.js moonshotai/Kimi-K2-Thinking":                        "kimi-k2",
	"hf.js zai-org/GLM-5.1":                                    "glm-4.5",
}

// TestForTemplate: where the template reads no tools, what TGI's prompt asks for is read too.
func TestForTemplate(t *testing.T) {
	const (
		hermes   = "{{ '<tool_call>' }}"
		deepseek = "{{ '<｜tool▁calls▁begin｜>' }}"
		cohere   = "{{ '<|START_ACTION|>' }}"
		reads    = "{% for t in tools %}{% endfor %}"
		prompted = "call 0 now call_C3dszQ60t4KTqt3yVuyo09bb\narguments 0 {}\nend 0"
	)
	for _, c := range []struct{ template, text, want string }{
		{"", `{"name": "now", "parameters": {}}`, prompted},
		{hermes, `{"name": "now", "parameters": {}}`, prompted},
		{hermes, `<tool_call>{"name": "now", "arguments": {}}</tool_call>`, prompted},
		{hermes + reads, `<tool_call>{"name": "now", "arguments": {}}</tool_call>`, prompted},
		{hermes + reads, `{"name": "now", "parameters": {}}`, `content "{\"name\": \"now\", \"parameters\": {}}"`},
		{deepseek, `{"function": {"_name": "now"}}`, prompted},
		{deepseek, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
			prompted},
		{deepseek, "```go\nfoo\n```", "content \"```go\\nfoo\\n```\""},
		{cohere, "<|START_THINKING|>a<|END_THINKING|>" + `{"name": "now", "parameters": {}}`, "reasoning \"a\"\n" +
			prompted},
	} {
		f := ForTemplate(c.template)
		if err := f.Check(); err != nil {
			t.Errorf("%s: %v", c.template, err)
		}
		if got := strings.Trim(written(feed(New(f, Options{Tools: testTools(t), Seed: 1}), c.text)),
			"\n"); got != c.want {
			t.Errorf("%s: %s:\ngot\n%s\nwant\n%s", c.template, c.text, got, c.want)
		}
	}
}

func TestReadsTools(t *testing.T) {
	for template, want := range map[string]bool{
		"": false, "tools": false, "{{ tools }}": true, "{%- for t in tools -%}": true,
		"{{ x.tools }}{{ 'tools' }}{{ x['tools'] }}": false,
		"{# {{ tools }} #}":                          false, "{{ mytools or tools_of }}": false,
		"{% set tools = x %}":  false,
		"{{ f(tools=tools) }}": true,
		"{{ f(tools = x) }}":   false, "{{ tools == x }}": true, `{{ "\"" ~ tools }}`: true,
		"{{ '{{' }} tools {{ a": false, "{": false, "{{ 'x": false,
		"{ tools }": false, `{{ "a \`: false,
	} {
		if got := readsTools(template); got != want {
			t.Errorf("%s: %v, want %v", template, got, want)
		}
	}
}

// TestPreset: presets are found by other servers' names too.
func TestPreset(t *testing.T) {
	for name, want := range map[string]string{
		"hermes": "hermes", "Qwen3_Coder": "qwen3-coder", "deepseek_v31": "deepseek-v3.1", "glm45": "glm-4.5",
		"kimi_k2": "kimi-k2", "openai": "gpt-oss", "phi4_mini_json": "phi-4-mini", "nothing": "",
	} {
		f, ok := Preset(name)
		if ok != (want != "") || ok && f.Name != want {
			t.Errorf("%s: %v, %v; want %q", name, f, ok, want)
		}
	}
	for to, name := range aliases {
		if _, ok := Preset(name); !ok {
			t.Errorf("alias %s of %s: no such preset", to, name)
		}
	}
}

// TestThinking: whether a prompt ends inside reasoning.
func TestThinking(t *testing.T) {
	hermes, _ := Preset("hermes")
	llama, _ := Preset("llama3-json")
	for prompt, want := range map[string]bool{
		"<|im_start|>assistant\n<think>\n":               true,
		"<|im_start|>assistant\n<think>\n\n</think>\n\n": false,
		"<|im_start|>user\nWhat is <think>?":             false,
		"":                                               false,
	} {
		if hermes.Thinking(prompt) != want {
			t.Errorf("%q: %v; want %v", prompt, !want, want)
		}
	}
	if llama.Thinking("<think>") {
		t.Error("a format without reasoning thinks")
	}
}

// TestSpecial: special tokens that are a marker, a part of one, or hold one, are told from markup of other kinds.
func TestSpecial(t *testing.T) {
	for _, c := range []struct {
		preset, token string
		want          bool
	}{
		{"hermes", "<tool_call>", true}, {"hermes", "<think>", true}, {"hermes", "<|im_end|>", false},
		{"hermes", "[TOOL_CALLS]", false},
		{"deepseek-v3", "<｜tool▁sep｜>", true}, {"deepseek-v3", "<｜end▁of▁sentence｜>", false}, {"gpt-oss", "<|channel|>",
			true},
		{"gpt-oss", "<|endoftext|>", false}, {"mistral", "[TOOL_CALLS]", true}, {"mistral", "</s>", false},
		{"mistral-v11", "[CALL_ID]", true},
	} {
		f, _ := Preset(c.preset)
		p := New(f, Options{Tools: testTools(t), Seed: 1})
		if got := compile(f).marks(c.token); got != c.want {
			t.Errorf("%s: %s: %v, want %v", c.preset, c.token, got, c.want)
		}
		if events := append(p.Special(c.token), p.Finish()...); !c.want && len(events) > 0 {
			t.Errorf("%s: %s: %v, want nothing", c.preset, c.token, events)
		}
	}
}
