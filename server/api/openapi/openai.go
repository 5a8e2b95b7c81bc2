package openapi

// openai are the schemas of OpenAI's routes, in every dialect.
func openai() map[string]*Schema {
	all := openaiRequests()
	for name, s := range openaiReplies() {
		all[name] = s
	}
	return all
}

// drawn are the settings that chat and completions share.
func drawn(more ...property) []property {
	stop := oneOf("The text ends before any of them. In tgi-2.2 and tgi-0.6 they stay in it.", text(""), list(text("")))
	bias := &Schema{Type: "object", Description: "From token ids to addends for their logits.", Additional: number("")}
	more = append(more, may("use_beam_search", orNull(flag("vLLM's. A beam search with best_of or n beams, unless num_beams says how many."))))
	return append(append([]property{
		may("model", orNull(text("The model that is meant; without it the default one. A name that is no model's is refused, or means the default, as the server is set."))),
		may("frequency_penalty", orNull(upTo(from(number("Counts the output alone. 0 is none."), -2), 2))),
		may("presence_penalty", orNull(upTo(from(number("0 is none."), -2), 2))),
		may("repetition_penalty", orNull(above(number("Not OpenAI's. 1 is none."), 0))),
		may("logit_bias", orNull(bias)),
		may("max_tokens", orNull(whole("int32", "Without it: the rest of the context; 100 in tgi-2.2 and tgi-0.6."))),
		may("n", orNull(whole("int32", "So many choices."))),
		may("seed", orNull(whole("int64", "Of the draws, 64 bits; random without it."))),
		may("stop", orNull(stop)),
		may("include_stop_str_in_output", orNull(flag("Not OpenAI's. Leave the stop string in the text."))),
		may("stream", orNull(flag("Reply with events."))),
		may("stream_options", orNull(ref("StreamOptions"))),
		may("temperature", orNull(from(number("0 takes the most likely token."), 0))),
		may("top_p", orNull(upTo(from(number("Draw from the likeliest tokens with this much probability."), 0), 1))),
		may("top_k", orNull(from(&Schema{Type: "integer", Format: "int32",
			Description: "Not OpenAI's. Draw from so many tokens; -1 and 0 are all."}, -1))),
		may("min_p", orNull(upTo(from(number("Not OpenAI's. Leave out tokens below this share of the likeliest one's probability."), 0), 1))),
		may("typical_p", orNull(upTo(above(number("Not OpenAI's. Draw from the most typical tokens with this much probability."), 0), 1))),
		may("ignore_eos", orNull(flag("Not OpenAI's. Go on after the model's own end."))),
		may("plugins", orNull(list(ref("PluginCall")))),
		may("response_format", orNull(ref("ResponseFormat"))),
		may("grammar", orNull(ref("GrammarType"))),
		may("guided_json", anything("vLLM's. A JSON Schema, or one in a string.")),
		may("guided_regex", orNull(text("vLLM's."))),
		may("guided_choice", orNull(list(text("")))),
		may("guided_grammar", orNull(text("vLLM's. In the notation of llama.cpp, or Lark's where it has no ::=."))),
		may("guided_json_object", orNull(flag("vLLM's."))),
		may("structured_outputs", orNull(anyObject("vLLM's. One of json, regex, choice, grammar, json_object and structural_tag."))),
	}, beams()...), more...)
}

func openaiRequests() map[string]*Schema {
	ids := func() *Schema { return list(whole("int64", "")) }
	return map[string]*Schema{
		"ChatRequest": object("", drawn(
			need("messages", list(ref("Message"))),
			may("logprobs", orNull(flag(""))),
			may("top_logprobs", orNull(upTo(whole("int32", "So many likely tokens beside each."), 20))),
			may("max_completion_tokens", orNull(whole("int32", "The newer name of max_tokens, which it goes before."))),
			may("tools", orNull(list(ref("Tool")))),
			may("tool_choice", ref("ToolChoice")),
			may("functions", orNull(list(ref("FunctionOffered")))),
			may("function_call", oneOf("The older form of tool_choice, beside functions: auto, none, or the name of one.",
				text(""), ref("FunctionName"))),
			may("parallel_tool_calls", orNull(flag("Without it true: a turn may have several calls."))),
			may("tool_prompt", orNull(text("Not OpenAI's. Stands behind the last message where tools are offered. Without it the model's template alone says how they are called."))),
			may("reasoning_effort", orNull(text("A variable of the template, unless chat_template_kwargs has it."))),
			may("include_reasoning", orNull(flag("Not OpenAI's. Without it true: what the model thinks is in the reply, apart from the content."))),
			may("documents", orNull(list(anyObject("Not OpenAI's. A text to answer from, in the template's terms.")))),
			may("chat_template", orNull(text("Not OpenAI's. The name of one of the model's templates."))),
			may("chat_template_kwargs", orNull(anyObject("Not OpenAI's. Variables of the template."))),
			may("add_generation_prompt", orNull(flag("Not OpenAI's. End the prompt where the assistant's turn begins. Without it true, unless the last message is continued."))),
			may("continue_final_message", orNull(flag("Not OpenAI's. End the prompt where the last message ends. Without it true where that is the assistant's, has text and calls nothing."))),
		)...),
		"CompletionRequest": object("", drawn(
			need("prompt", ref("Prompt")),
			may("best_of", orNull(whole("", "Generate so many and return the n best."))),
			may("logprobs", orNull(whole("int32", "So many likely tokens beside each."))),
			may("echo", orNull(flag("Put the prompt before the text."))),
			may("suffix", orNull(text("Refused unless it is empty."))),
		)...),
		"ResponseFormat": anyOf("What the text is held to. A request has one of response_format, grammar and those of vLLM.",
			object("", need("type", words("", "text"))),
			object("", need("type", words("", "json_object")), may("schema", anyObject("Not OpenAI's. A JSON Schema."))),
			object("", need("type", words("", "json_schema")),
				need("json_schema", object("", need("schema", anyObject("A JSON Schema.")), may("name", text("")),
					may("strict", orNull(flag("true refuses what cannot be enforced, false leaves it out and lists it in grammar_dropped; without it the plugin's configuration says.")))))),
			ref("GrammarType")),
		"Prompt": anyOf("A text, several, the tokens of one, or of several.", text(""), list(text("")), ids(),
			list(ids())),
		"StreamOptions": object("", may("include_usage", flag("Send a last chunk without choices that has usage."))),
		"Message": object("Other members are the template's.", need("role", example(text(""), "user")),
			may("content", orNull(ref("MessageContent"))), may("name", orNull(text(""))),
			may("tool_calls", orNull(list(ref("ToolCall")))),
			may("tool_call_id", orNull(text("The call that a tool's message answers."))),
			may("function_call", orNull(ref("FunctionDefinition"))),
			may("reasoning", orNull(text("What an assistant thought; reasoning_content is the same for templates that know that name.")))),
		"MessageContent": oneOf("", text(""), list(ref("MessageChunk"))),
		"MessageChunk": oneOf("", object("", need("type", words("", "text")), need("text", text(""))),
			object("Refused: no model here sees images.", need("type", words("", "image_url")), need("image_url", ref("Url")))),
		"Url": object("", need("url", text(""))),
		"Tool": object("With the member that type names.", need("type", words("", "function", "custom")),
			may("function", ref("FunctionOffered")), may("custom", ref("CustomOffered"))),
		"CustomOffered": object("A tool that takes a text.", need("name", text("As a function's.")),
			may("description", orNull(text(""))), may("format",
				orNull(oneOf("A text of a regex is held to it while it is written; one in Lark is not, and grammar_dropped says so.",
					object("", need("type", words("", "text"))),
					object("", need("type", words("", "grammar")),
						need("grammar", object("", need("syntax", words("", "lark", "regex")), need("definition", text("")))))))),
		),
		"FunctionOffered": object("", need("name",
			text("1 to 64 letters, digits, _, - and ., unlike that of any other tool.")), may("description", orNull(text(""))),
			may("parameters", orNull(anyObject("A JSON Schema."))),
			may("arguments", orNull(anyObject("TGI's name of parameters."))),
			may("strict", orNull(flag("Hold the arguments to the schema; what cannot be enforced is refused, with its JSON pointer. Where no installed plugin can hold them, grammar_dropped says so.")))),
		"FunctionDefinition": object("", need("name", text("")),
			may("description", orNull(text("Null in replies of tgi-2.2 and tgi-0.6."))),
			may("arguments", anything("JSON in a string; in replies of tgi-2.2 and tgi-0.6 an object. Requests may have either.")), may("parameters", anything("TGI's name of arguments in requests."))),
		"FunctionName": object("", need("name", text(""))),
		"AllowedTools": object("The model is told of these tools alone.", need("mode", words("", "auto", "required")),
			need("tools", list(object("", need("type", words("", "function", "custom")), may("function", ref("FunctionName")),
				may("custom", ref("FunctionName")))))),
		"ToolChoice": orNull(ref("ToolType")),
		"ToolType":   oneOf("auto, none, required or the name of a function. What a reply to required or to a name says is held to such a call; one that has none, because nothing can hold it or its length ends it, is an error, tool_error.", text(""), object("", need("function", ref("FunctionName")), may("type", words("", "function"))), object("", need("type", words("", "custom")), need("custom", ref("FunctionName"))), object("", need("type", words("", "allowed_tools")), need("allowed_tools", ref("AllowedTools")))),
	}
}

func openaiReplies() map[string]*Schema {
	head := func(object string, more ...property) []property {
		return append([]property{
			may("object", words("", object)), need("id", text("Empty in tgi-2.2 and tgi-0.6.")),
			need("created", whole("int64", "Seconds since 1970.")),
			need("model", text("")), need("system_fingerprint", text("")), may("plugins", list(ref("SkippedPlugin"))), dropped(),
		}, more...)
	}
	logprob := func(more ...property) []property {
		return append([]property{need("token", text("")), need("logprob", number("")),
			may("bytes", orNull(list(whole("int32", ""))))}, more...)
	}
	return map[string]*Schema{
		"ChatCompletion": object("", head("chat.completion", need("choices", list(ref("ChatCompletionComplete"))),
			need("usage", ref("Usage")))...),
		"ChatCompletionComplete": object("", need("index", whole("int32", "")), need("message", ref("OutputMessage")),
			may("logprobs", orNull(ref("ChatCompletionLogprobs"))),
			need("finish_reason", text("stop, length or tool_calls, function_call for functions; in tgi-2.2 and tgi-0.6 eos_token, length or stop_sequence. length with a call that was cut off: the call is not in a whole reply, and its arguments are no JSON in a stream."))),
		"OutputMessage": anyOf("", ref("TextMessage"), ref("ToolCallMessage"), ref("FunctionCallMessage")),
		"TextMessage": object("", may("role", example(text(""), "assistant")), may("content", orNull(text(""))),
			may("reasoning_content", text("What the model thinks.")), may("reasoning", text("The same.")),
			may("tool_call_id", text(""))),
		"ToolCallMessage": object("", need("role", example(text(""), "assistant")),
			may("content", orNull(text("Null where nothing is said beside the calls; not there then in tgi-2.2 and tgi-0.6."))),
			may("reasoning_content", text("What the model thinks.")), may("reasoning", text("The same.")),
			need("tool_calls", list(ref("ToolCall")))),
		"FunctionCallMessage": object("Where functions were offered.", need("role", example(text(""), "assistant")),
			may("content", orNull(text(""))), may("reasoning_content", text("What the model thinks.")),
			may("reasoning", text("The same.")), need("function_call", ref("Function"))),
		"ToolCall": object("One of function and custom.",
			may("id", orNull(text("In a reply unique; the number of the call in tgi-2.2 and tgi-0.6."))), may("type", text("")),
			may("function", ref("FunctionDefinition")),
			may("custom", object("", need("name", text("")), need("input", text(""))))),
		"ChatCompletionLogprobs":   object("", need("content", list(ref("ChatCompletionLogprob")))),
		"ChatCompletionLogprob":    object("", logprob(need("top_logprobs", list(ref("ChatCompletionTopLogprob"))))...),
		"ChatCompletionTopLogprob": object("", logprob()...),
		"ChatCompletionChunk": object("", head("chat.completion.chunk",
			need("choices", list(ref("ChatCompletionChoice"))), may("usage", orNull(ref("Usage"))))...),
		"ChatCompletionChoice": object("", need("index", whole("int32", "")), need("delta", ref("ChatCompletionDelta")),
			may("logprobs", orNull(ref("ChatCompletionLogprobs"))), may("finish_reason", orNull(text("")))),
		"ChatCompletionDelta": anyOf("", ref("TextMessage"), ref("ToolCallDelta"), ref("FunctionCallDelta")),
		"ToolCallDelta": object("", may("role", example(text(""), "assistant")),
			need("tool_calls", oneOf("One object in tgi-2.2 and tgi-0.6.", list(ref("DeltaToolCall")), ref("DeltaToolCall")))),
		"FunctionCallDelta": object("", may("role", example(text(""), "assistant")),
			need("function_call", object("", may("name", text("")), need("arguments", text(""))))),
		"DeltaToolCall": object("id, type and name come with the first delta of a call. The input of a custom tool comes as a whole.", need("index", whole("int32", "")), may("id", text("")), may("type", text("")), may("function", ref("Function")), may("custom", object("", may("name", text("")), need("input", text(""))))),
		"Function":      object("", may("name", orNull(text(""))), need("arguments", text(""))),
		"CompletionFinal": object("", head("text_completion", need("choices", list(ref("CompletionComplete"))),
			need("usage", ref("Usage")))...),
		"CompletionComplete": object("", need("index", whole("int32", "")), need("text", text("")),
			may("logprobs", orNull(ref("CompletionLogprobs"))), need("finish_reason", orNull(text("")))),
		"Chunk": object("", head("text_completion", need("choices", list(ref("CompletionComplete"))),
			may("usage", orNull(ref("Usage"))))...),
		"Completion": anyOf("", ref("Chunk"), ref("CompletionFinal")),
		"Usage": object("", need("prompt_tokens", whole("int32", "")), need("completion_tokens", whole("int32", "")),
			need("total_tokens", whole("int32", "")),
			may("prompt_tokens_details", object("", need("cached_tokens", whole("int32", ""))))),
		"CompletionLogprobs": object("A list per property.", need("tokens", list(text(""))),
			need("token_logprobs", list(orNull(number("")))),
			need("top_logprobs", orNull(list(orNull(&Schema{Type: "object", Additional: number("")})))),
			need("text_offset", list(whole("int32", "")))),
		"OpenAIError": object("", need("error", object("", need("message", text("")),
			may("http_status_code", whole("int32", "")), may("type", text("")), may("param", orNull(text(""))),
			may("code", orNull(text(""))))), may("error_type", text("As in ErrorResponse."))),
	}
}
