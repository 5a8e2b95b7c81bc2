package toolcalls

var think = &Span{Begin: []string{"<think>"}, End: []string{"</think>"}}

func has(texts ...string) Evidence { return Evidence{All: texts} }

// nameAndArguments is the JSON that most models write.
var nameAndArguments = &JSON{
	NameKeys: []string{"name"}, ArgumentKeys: []string{"arguments", "parameters"}, IDKeys: []string{"id"},
	Wrap: []string{"function"},
}

// presets are the built-in formats, the more special before the more general: Detect takes the first that fits.
// The sources of the facts are named in testdata.
var presets = []*Format{
	{
		Name: "gpt-oss",
		Channels: &Channels{
			Start: "<|start|>", Channel: "<|channel|>", Message: "<|message|>",
			End:       []string{"<|end|>", "<|call|>", "<|return|>"},
			Recipient: "to=", Prefix: "functions.", Reasoning: []string{"analysis"},
		},
		KeepSpace: true,
		Detect:    []Evidence{has("<|channel|>", "<|message|>", "analysis")},
	},
	{
		Name:      "kimi-k2",
		Reasoning: &Span{Begin: []string{"<think>", "◁think▷"}, End: []string{"</think>", "◁/think▷"}}, Implicit: true,
		Section: Span{Begin: []string{"<|tool_calls_section_begin|>"}, End: []string{"<|tool_calls_section_end|>"}},
		Call:    Span{Begin: []string{"<|tool_call_begin|>"}, End: []string{"<|tool_call_end|>"}},
		Named: &Named{
			Separators: []string{"<|tool_call_argument_begin|>"},
			Prefix:     "functions.", Index: ":", WholeID: true,
		},
		KeepSpace: true,
		Detect:    []Evidence{has("<|tool_calls_section_begin|>")},
	},
	{
		Name:      "deepseek-v3.2",
		Reasoning: think,
		Section: Span{Begin: []string{"<｜DSML｜function_calls>", "<｜DSML｜tool_calls>"},
			End: []string{"</｜DSML｜function_calls>", "</｜DSML｜tool_calls>"}},
		Call: Span{Begin: []string{`<｜DSML｜invoke name="`}, End: []string{"</｜DSML｜invoke>"}},
		Tagged: &Tagged{
			NameEnd: []string{`">`}, Open: []string{`<｜DSML｜parameter name="`},
			StringEnd: []string{`" string="true">`}, JSONEnd: []string{`" string="false">`},
			Close: []string{"</｜DSML｜parameter>"},
		},
		Detect: []Evidence{has("｜DSML｜")},
	},
	{
		Name:      "deepseek-v3",
		Reasoning: think,
		Section:   deepseekSection,
		Call:      Span{Begin: []string{"<｜tool▁call▁begin｜>function<｜tool▁sep｜>"}, End: []string{"<｜tool▁call▁end｜>"}},
		Named:     &Named{Separators: []string{"\n```json\n"}, After: []string{"```"}},
		KeepSpace: true,
		Detect:    []Evidence{has("<｜tool▁calls▁begin｜>", "```json")},
	},
	{
		Name:      "deepseek-v3.1",
		Reasoning: think,
		Section:   deepseekSection,
		Call:      Span{Begin: []string{"<｜tool▁call▁begin｜>"}, End: []string{"<｜tool▁call▁end｜>"}},
		Named:     &Named{Separators: []string{"<｜tool▁sep｜>"}},
		KeepSpace: true,
		Detect:    []Evidence{has("<｜tool▁calls▁begin｜>")},
	},
	{
		Name:      "minimax-m2",
		Reasoning: think,
		Section:   Span{Begin: []string{"<minimax:tool_call>"}, End: []string{"</minimax:tool_call>"}},
		Call:      Span{Begin: []string{`<invoke name="`}, End: []string{"</invoke>"}},
		Tagged: &Tagged{
			NameEnd: []string{`">`}, Open: []string{`<parameter name="`}, OpenEnd: []string{`">`},
			Close: []string{"</parameter>"},
		},
		Detect: []Evidence{has("<minimax:tool_call>")},
	},
	{
		Name:      "glm-4.5",
		Reasoning: think,
		Call:      Span{Begin: []string{"<tool_call>"}, End: []string{"</tool_call>"}},
		Tagged: &Tagged{
			NameEnd: []string{"\n"}, Open: []string{"<arg_key>"}, OpenEnd: []string{"</arg_key>"},
			ValueOpen: []string{"<arg_value>"}, Close: []string{"</arg_value>"}, GuessTypes: true,
		},
		TrimStart: true,
		Detect:    []Evidence{has("<arg_key>", "<tool_call>")},
	},
	{
		Name:      "seed-oss",
		Reasoning: &Span{Begin: []string{"<seed:think>"}, End: []string{"</seed:think>"}},
		Section:   Span{Begin: []string{"<seed:tool_call>"}, End: []string{"</seed:tool_call>"}},
		Call:      Span{Begin: []string{"<function="}, End: []string{"</function>"}},
		Tagged:    functionTags,
		Detect:    []Evidence{has("seed:tool_call")},
	},
	{
		Name:      "qwen3-coder",
		Reasoning: think,
		Implicit:  true,
		Section:   Span{Begin: []string{"<tool_call>"}, End: []string{"</tool_call>"}},
		Call:      Span{Begin: []string{"<function="}, End: []string{"</function>"}},
		Tagged:    functionTags,
		Detect:    []Evidence{has("<function=", "<parameter=", "<tool_call>")},
	},
	{
		Name:      "cohere",
		Reasoning: &Span{Begin: []string{"<|START_THINKING|>"}, End: []string{"<|END_THINKING|>"}},
		Call:      Span{Begin: []string{"<|START_ACTION|>"}, End: []string{"<|END_ACTION|>"}},
		JSON: &JSON{NameKeys: []string{"tool_name"}, ArgumentKeys: []string{"parameters"},
			IDKeys: []string{"tool_call_id"}},
		Drop:   []string{"<|START_RESPONSE|>", "<|END_RESPONSE|>", "<|START_TEXT|>", "<|END_TEXT|>"},
		Detect: []Evidence{has("<|START_ACTION|>")},
	},
	{
		Name:      "mistral-v11",
		Reasoning: &Span{Begin: []string{"[THINK]"}, End: []string{"[/THINK]"}},
		Implicit:  true,
		Call:      Span{Begin: []string{"[TOOL_CALLS]"}},
		JSON:      nameAndArguments,
		Named:     &Named{Separators: []string{"[ARGS]"}, ID: "[CALL_ID]"},
		IDs:       IDShort,
		Detect:    []Evidence{has("[TOOL_CALLS]", "[ARGS]")},
	},
	{
		Name:   "mistral",
		Call:   Span{Begin: []string{"[TOOL_CALLS]"}},
		JSON:   nameAndArguments,
		IDs:    IDShort,
		Detect: []Evidence{has("[TOOL_CALLS]")},
	},
	{
		Name:   "phi-4-mini",
		Call:   Span{Begin: []string{"functools", "<|tool_call|>"}, End: []string{"<|/tool_call|>"}},
		JSON:   nameAndArguments,
		Detect: []Evidence{has("<|/tool_call|>"), has("functools["), has("<|tool|>", "<|/tool|>")},
	},
	{
		Name:      "granite",
		Reasoning: think,
		Call:      Span{Begin: []string{"<|tool_call|>", "<tool_call>"}, End: []string{"</tool_call>"}},
		JSON:      nameAndArguments,
		Drop:      []string{"<response>", "</response>"},
		Detect:    []Evidence{has("<|tool_call|>"), has("<|start_of_role|>", "<tool_call>")},
	},
	{
		Name:      "jamba",
		Reasoning: think,
		Call:      Span{Begin: []string{"<tool_calls>"}, End: []string{"</tool_calls>"}},
		JSON:      nameAndArguments,
		Detect:    []Evidence{has("<tool_calls>[")},
	},
	{
		Name:   "lfm2",
		Call:   Span{Begin: []string{"<|tool_call_start|>"}, End: []string{"<|tool_call_end|>"}},
		Python: &Python{},
		Detect: []Evidence{{All: []string{"<|tool_call_start|>"}, None: []string{"```python"}},
			has("<|tool_list_start|>")},
	},
	{
		Name:      "olmo3",
		Reasoning: think,
		Call:      Span{Begin: []string{"<function_calls>"}, End: []string{"</function_calls>"}},
		Python:    &Python{},
		Detect:    []Evidence{has("<function_calls>", "<functions>")},
	},
	{
		Name:      "hermes",
		Reasoning: think,
		Call:      Span{Begin: []string{"<tool_call>"}, End: []string{"</tool_call>"}},
		JSON:      nameAndArguments,
		Detect: []Evidence{{All: []string{"<tool_call>"}, // not these, which have it for something else:
			None: []string{"<tool_calls>[", `<invoke name="`, "<TOOLCALL>", "<|tool_call_begin|>"}}},
	},
	{
		Name:   "pythonic",
		Call:   Span{Begin: []string{"<|python_start|>"}, End: []string{"<|python_end|>"}},
		Bare:   "[",
		Python: &Python{},
		Detect: []Evidence{has("<|python_start|>"), has("[func_name1(params_name1=params_value1")},
	},
	{
		Name: "llama3-json",
		Call: Span{Begin: []string{"<|python_tag|>"}},
		Bare: "{",
		JSON: &JSON{
			NameKeys: []string{"name"}, ArgumentKeys: []string{"parameters", "arguments"}, IDKeys: []string{"id"},
			Wrap: []string{"function"}, Separators: ";",
		},
		Detect: []Evidence{{All: []string{"<|python_tag|>"}, None: []string{"<function="}},
			has(`"parameters": dictionary of argument name`)},
	},
	{
		Name:      "tgi",
		Reasoning: think,
		Bare:      "{",
		Fence:     fence,
		JSON:      promptedJSON,
	},
}

// promptedJSON is what TGI's prompts ask for: with a grammar {"function": {"_name": ..., arguments}}, without one
// {"name": ..., "parameters": {...}}.
var promptedJSON = &JSON{
	NameKeys: []string{"_name"}, Wrap: []string{"function"}, Flat: true,
	PlainKeys: []string{"name"}, ArgumentKeys: []string{"parameters", "arguments"}, IDKeys: []string{"id"},
	Answers: map[string]string{"no_tool": "content", "notify_error": "error"},
}

// fence is how models mark code.
var fence = Span{Begin: []string{"```json", "```"}, End: []string{"```"}}

var deepseekSection = Span{Begin: []string{"<｜tool▁calls▁begin｜>"}, End: []string{"<｜tool▁calls▁end｜>"}}

var functionTags = &Tagged{
	NameEnd: []string{">"}, Open: []string{"<parameter="}, OpenEnd: []string{">"}, Close: []string{"</parameter>"},
	Newlines: true,
}

// aliases are names of other servers for the presets.
var aliases = map[string]string{
	"openai": "gpt-oss", "harmony": "gpt-oss", "deepseek-v31": "deepseek-v3.1", "deepseek-v32": "deepseek-v3.2",
	"deepseek-r1": "deepseek-v3", "glm45": "glm-4.5", "glm47": "glm-4.5", "qwen3-xml": "qwen3-coder",
	"qwen25": "hermes",
	"qwen":   "hermes", "llama4-pythonic": "pythonic", "llama4-json": "llama3-json", "llama3": "llama3-json",
	"phi4-mini-json": "phi-4-mini", "cohere-command3": "cohere", "granite4": "granite", "hunyuan-a13b": "jamba",
}
