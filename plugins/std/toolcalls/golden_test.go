package toolcalls

import (
	"encoding/json"
	"os"
	"reflect"
	"strings"
	"testing"
)

// goldens is what testdata/make_goldens.py wrote.
type goldens struct {
	Rendered []struct {
		Preset, Template, Prompt, Text, Content string
		Calls                                   []struct {
			Name      string
			Arguments json.RawMessage
		}
	}
	Parsed []struct {
		Preset, Title, By, Text string
		Calls                   []struct{ Name, Arguments string }
	}
}

func readGoldens(t *testing.T) goldens {
	t.Helper()
	data, err := os.ReadFile("testdata/goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var g goldens
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	return g
}

// result is what a caller that does not stream makes of the events.
type result struct {
	content string
	calls   []made
}

type made struct {
	name      string
	arguments any
}

func resultOf(events []Event) result {
	var r result
	var arguments string
	var name string
	for _, e := range events {
		switch e.Kind {
		case Content:
			r.content += e.Text
		case CallBegin:
			name, arguments = e.Name, ""
		case Arguments:
			arguments += e.Text
		case CallEnd:
			r.calls = append(r.calls, made{name, decoded(arguments)})
		}
	}
	r.content = strings.TrimSpace(r.content)
	return r
}

func decoded(source string) any {
	var v any
	if json.Unmarshal([]byte(source), &v) != nil {
		return "no JSON: " + source
	}
	return v
}

// TestRoundTrip: calls that a model's own template wrote come out as they went in.
func TestRoundTrip(t *testing.T) {
	templates := make(map[string]bool)
	tools := testTools(t)
	for _, g := range readGoldens(t).Rendered {
		f, _ := Preset(g.Preset)
		want := result{content: g.Content}
		for _, c := range g.Calls {
			want.calls = append(want.calls, made{c.Name, decoded(string(c.Arguments))})
		}
		got := resultOf(feed(New(f, Options{Tools: tools, Thinking: f.Thinking(g.Prompt)}), g.Text))
		if !reflect.DeepEqual(got, want) {
			t.Errorf("%s: %s\ngot  %v\nwant %v", g.Template, g.Text, got, want)
		}
		templates[g.Template] = true
	}
	if len(templates) < 20 {
		t.Errorf("goldens of %d templates; want at least 20", len(templates))
	}
}

// TestOthers compares with the parsers of other servers. Where they differ, differences says why.
func TestOthers(t *testing.T) {
	used := make(map[string]bool)
	tools := testTools(t)
	for _, g := range readGoldens(t).Parsed {
		f, _ := Preset(g.Preset)
		var want []made
		for _, c := range g.Calls {
			want = append(want, made{c.Name, decoded(c.Arguments)})
		}
		got := resultOf(feed(New(f, Options{Tools: tools}), g.Text)).calls
		key := g.Preset + " | " + g.Title + " | " + g.By[strings.LastIndex(g.By, ".")+1:]
		same := reflect.DeepEqual(got, want)
		_, known := differences[key]
		switch {
		case known && same:
			t.Errorf("%s: no difference any more", key)
		case !known && !same:
			t.Errorf("%s: text\n%s\ngot  %v\nwant %v", key, g.Text, got, want)
		}
		used[key] = true
	}
	for key := range differences {
		if !used[key] {
			t.Errorf("%s: no golden", key)
		}
	}
}

// Why others differ.
const (
	whyUnknown      = "passes calls of tools that were not offered on"
	whyShape        = "passes on what has not the format's shape, or arguments that are no object"
	whySpelling     = "does not read this spelling, or fails on valid JSON or literals"
	whyOtherVersion = "is for another version of the model"
	whyCut          = "tells a call that was cut in a value as complete, or drops a complete one because what follows was cut"
	whyTypes        = "leaves objects behind references and Python's literals as strings, takes any null and false for the type"
	whyInText       = "takes a call in the middle of the text or of the thoughts for one"
	whyTrims        = "trims strings"
	whyBrackets     = "reads round brackets around one value, which can't be told from a tuple before their end"
)

// differences are the samples that another parser reads otherwise.
var differences = map[string]string{
	"deepseek-v3 | cut before the closing fence | DeepSeekV3Detector":                    whyCut,
	"deepseek-v3 | cut before the closing fence | DeepSeekV3ToolParser":                  whyCut,
	"deepseek-v3 | unknown tool | DeepSeekV3ToolParser":                                  whyUnknown,
	"deepseek-v3.1 | arguments that are no object | DeepSeekV31ToolParser":               whyShape,
	"deepseek-v3.1 | known tool, then an unknown one | DeepSeekV31ToolParser":            whyUnknown,
	"deepseek-v3.1 | no arguments | DeepSeekV31Detector":                                 whySpelling,
	"deepseek-v3.1 | no arguments | DeepSeekV31ToolParser":                               whySpelling,
	"deepseek-v3.1 | unknown tool beside a known one | DeepSeekV31ToolParser":            whyUnknown,
	"deepseek-v3.2 | two calls | DeepSeekV32Detector":                                    whyTrims,
	"glm-4.5 | lines in a value | Glm47MoeDetector":                                      whyOtherVersion,
	"glm-4.5 | no arguments, one line | Glm4MoeDetector":                                 whyOtherVersion,
	"glm-4.5 | one call | Glm47MoeDetector":                                              whyOtherVersion,
	"glm-4.5 | one line | Glm4MoeDetector":                                               whyOtherVersion,
	"glm-4.5 | reasoning | Glm47MoeDetector":                                             whyOtherVersion,
	"glm-4.5 | two calls | Glm47MoeDetector":                                             whyOtherVersion,
	"glm-4.5 | types | Glm47MoeDetector":                                                 whyOtherVersion,
	"gpt-oss | empty arguments | GptOssDetector":                                         whySpelling,
	"gpt-oss | preamble and two calls | GptOssDetector":                                  whySpelling,
	"gpt-oss | recipient before the channel, as the template writes it | GptOssDetector": whySpelling,
	"gpt-oss | recipient first | GptOssDetector":                                         whySpelling,
	"granite | granite 3.1 | Granite4ToolParser":                                         whyOtherVersion,
	"granite | granite 3.3 | Granite4ToolParser":                                         whyOtherVersion,
	"hermes | a brace too many | Hermes2ProToolParser":                                   whySpelling,
	"hermes | a brace too many | HermesDetector":                                         whySpelling,
	"hermes | a call in the thoughts is no call | Hermes2ProToolParser":                  whyInText,
	"hermes | a call in the thoughts is no call | HermesDetector":                        whyInText,
	"hermes | a line break inside a string | Hermes2ProToolParser":                       whySpelling,
	"hermes | a line break inside a string | HermesDetector":                             whySpelling,
	"hermes | a marker inside a marker | Hermes2ProToolParser":                           whySpelling,
	"hermes | a marker inside a marker | HermesDetector":                                 whySpelling,
	"hermes | all of JSON comes through as it is | Hermes2ProToolParser":                 whySpelling,
	"hermes | all of JSON comes through as it is | HermesDetector":                       whySpelling,
	"hermes | an unknown tool | Hermes2ProToolParser":                                    whyUnknown,
	"hermes | an unknown tool, then a known one | Hermes2ProToolParser":                  whyUnknown,
	"hermes | arguments as a string | Hermes2ProToolParser":                              whySpelling,
	"hermes | arguments as a string | HermesDetector":                                    whySpelling,
	"hermes | arguments that are no object | Hermes2ProToolParser":                       whyShape,
	"hermes | arguments that are no object | HermesDetector":                             whyShape,
	"hermes | null and missing arguments | Hermes2ProToolParser":                         whySpelling,
	"hermes | null and missing arguments | HermesDetector":                               whySpelling,
	"hermes | wrapped | Hermes2ProToolParser":                                            whySpelling,
	"hermes | wrapped | HermesDetector":                                                  whySpelling,
	"kimi-k2 | the bare name | KimiK2Detector":                                           whySpelling,
	"kimi-k2 | unknown tool | KimiK2Detector":                                            whyUnknown,
	"kimi-k2 | without section | KimiK2Detector":                                         whySpelling,
	"llama3-json | text | Llama3JsonToolParser":                                          whyInText,
	"llama3-json | white space before | Llama32Detector":                                 whySpelling,
	"llama3-json | wrapped | Llama32Detector":                                            whySpelling,
	"llama3-json | wrapped | Llama3JsonToolParser":                                       whySpelling,
	"mistral | an id after the arguments comes too late | MistralDetector":               whySpelling,
	"mistral | an id before the name | MistralDetector":                                  whySpelling,
	"mistral | cut before the closing bracket | MistralDetector":                         whySpelling,
	"mistral | cut in the second | MistralDetector":                                      whySpelling,
	"mistral | no array | MistralDetector":                                               whySpelling,
	"mistral | text before and after | MistralDetector":                                  whySpelling,
	"mistral | two calls | MistralDetector":                                              whySpelling,
	"mistral | unknown tool second | MistralDetector":                                    whySpelling,
	"mistral-v11 | broken, then another | MistralDetector":                               whySpelling,
	"mistral-v11 | the old form | MistralDetector":                                       whySpelling,
	"mistral-v11 | with id | MistralDetector":                                            whySpelling,
	"mistral-v11 | without the marker between, as text output has it | MistralDetector":  whySpelling,
	"olmo3 | unknown tool | Olmo3PythonicToolParser":                                     whyUnknown,
	"phi-4-mini | markers | Phi4MiniJsonToolParser":                                      whySpelling,
	"phi-4-mini | unknown tool | Phi4MiniJsonToolParser":                                 whyUnknown,
	"pythonic | between markers | PythonicToolParser":                                    whySpelling,
	"pythonic | cut after a call | PythonicDetector":                                     whyCut,
	"pythonic | cut after a call | PythonicToolParser":                                   whyCut,
	"pythonic | cut after a comma | PythonicDetector":                                    whyCut,
	"pythonic | cut after a comma | PythonicToolParser":                                  whyCut,
	"pythonic | literals | PythonicDetector":                                             whySpelling,
	"pythonic | text after | PythonicToolParser":                                         whySpelling,
	"pythonic | text | PythonicDetector":                                                 whyInText,
	"pythonic | unknown tool | PythonicToolParser":                                       whyUnknown,
	"pythonic | white space | PythonicDetector":                                          whySpelling,
	"pythonic | white space | PythonicToolParser":                                        whySpelling,
	"qwen3-coder | Python literals | Qwen3CoderDetector":                                 whyTypes,
	"qwen3-coder | a parameter twice | Qwen3CoderDetector":                               whyShape,
	"qwen3-coder | cut between parameters | Qwen3CoderDetector":                          whyCut,
	"qwen3-coder | cut in a value | Qwen3CoderDetector":                                  whyCut,
	"qwen3-coder | talk | Qwen3CoderDetector":                                            whyShape,
	"qwen3-coder | text in a call | Qwen3CoderDetector":                                  whyShape,
	"qwen3-coder | types | Qwen3CoderDetector":                                           whyTypes,
	"qwen3-coder | unknown tool | Qwen3CoderDetector":                                    whyUnknown,
	"qwen3-coder | values that do not fit their types stay strings | Qwen3CoderDetector": whyTypes,
	"qwen3-coder | without the outer marker | Qwen3CoderDetector":                        whySpelling,
	"pythonic | brackets around one value are no tuple | PythonicDetector":               whyBrackets,
	"pythonic | brackets around one value are no tuple | PythonicToolParser":             whyBrackets,
	"pythonic | tuples | PythonicDetector":                                               whySpelling,
}
