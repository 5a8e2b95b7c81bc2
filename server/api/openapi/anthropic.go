package openapi

import "net/http"

// anthropicFails are the statuses of Anthropic's routes.
var anthropicFails = []int{400, 404, 413, 415, 429, 500, 529}

// anthropicCalls are the operations of Anthropic's API.
func anthropicCalls() []call {
	headers := []Parameter{
		{Name: "x-api-key", In: "header", Schema: text(""), Description: "The key, where there is no Authorization."},
		{Name: "anthropic-version", In: "header", Schema: text(""), Description: "Every version is served alike."},
	}
	return []call{
		{
			method: http.MethodPost, path: "/v1/messages", tag: tagAnthropic, reads: "MessagesRequest",
			summary: "Answer a conversation in Anthropic's blocks", fails: anthropicFails, query: headers,
			replies: map[string]*Schema{mediaJSON: ref("AnthropicMessage"), mediaEvents: ref("AnthropicEvent")},
		},
		{
			method: http.MethodPost, path: "/v1/messages/count_tokens", tag: tagAnthropic, reads: "CountTokensRequest",
			summary: "Count the tokens of a conversation", fails: anthropicFails, query: headers,
			replies: map[string]*Schema{mediaJSON: object("", need("input_tokens", whole("", "")))},
		},
	}
}

// anthropic are the schemas of Anthropic's API.
func anthropic() map[string]*Schema {
	cache := func() property {
		return may("cache_control", orNull(object("Every prefix is kept anyway.", need("type", words("", "ephemeral")),
			may("ttl", words("", "5m", "1h")))))
	}
	conversation := func(more ...property) []property {
		return append([]property{
			need("model", text("A name that is no model's is refused, or means the default, as the server is set.")),
			need("messages", list(ref("AnthropicTurn"))),
			may("system", oneOf("Blocks of text are paragraphs.", text(""), list(ref("AnthropicText")))),
			may("tools", orNull(list(anyOf("Anthropic's own tools are refused.", object("", need("name",
				text("1 to 128 letters, digits, _, - and ., unlike that of any other tool.")),
				may("type", orNull(words("", "custom"))), may("description", orNull(text(""))),
				need("input_schema", anyObject("A JSON Schema.")),
				may("strict", orNull(flag("Hold the input to the schema."))), cache()), mcpToolset())))),
			may("tool_choice", orNull(object("", need("type", words("", "auto", "any", "tool", "none")),
				may("name", text("Of the type tool.")), may("disable_parallel_tool_use", flag(""))))),
			may("thinking", orNull(object("The template's variable enable_thinking.",
				need("type", words("", "enabled", "disabled", "adaptive", "between_tools")),
				may("budget_tokens", orNull(whole("int32",
					"The parameter of the plugin thinking-budget, where it is installed."))),
				may("display", orNull(words("Thinking is not shortened.", "summarized", "omitted")))))),
			may("output_config", orNull(object("", may("effort",
				orNull(text("The template's variable reasoning_effort."))),
				may("format", orNull(ref("AnthropicFormat")))))),
			may("output_format", orNull(ref("AnthropicFormat"))), cache(),
		}, more...)
	}
	usage := []property{
		need("input_tokens", whole("", "Those of the prompt that the prefix cache did not have.")),
		need("cache_creation_input_tokens", whole("", "0")),
		need("cache_read_input_tokens", whole("", "Those that it had.")), need("output_tokens", whole("", "")),
		need("output_tokens_details", object("", append(counts(), need("thinking_tokens", whole("", "")))...)),
	}
	stop := []property{
		need("stop_reason", orNull(words("", "end_turn", "max_tokens", "stop_sequence", "tool_use",
			"model_context_window_exceeded"))),
		need("stop_sequence", orNull(text("That which ended the text."))),
	}
	beside := []property{may("plugins", list(ref("SkippedPlugin"))), dropped(),
		may("explain", list(ref("Explanation"))), may("receipt", ref("Receipt"))}
	index := need("index", whole("", ""))
	event := func(kind string, more ...property) *Schema {
		return object("", append([]property{need("type", words("", kind))}, more...)...)
	}
	mcpUse := event("mcp_tool_use", need("id", text("")), need("name", text("")), need("server_name", text("")),
		need("input", anyObject("")))
	mcpResult := event("mcp_tool_result", need("tool_use_id", text("")), need("is_error", flag("")),
		need("content", oneOf("", text(""), list(ref("AnthropicText")))))
	schemas := map[string]*Schema{
		"MessagesRequest": object("", append(conversation(
			need("max_tokens", whole("int32", "Where the context has less room, the text ends with it.")),
			may("stop_sequences", orNull(list(text("")))), may("stream", orNull(flag("Reply with events."))),
			may("temperature", orNull(from(number("0 takes the most likely token."), 0))),
			may("top_p", orNull(upTo(from(number(""), 0), 1))),
			may("top_k", orNull(from(&Schema{Type: "integer", Format: "int32"}, -1))),
			may("metadata", orNull(object("", may("user_id", orNull(text("")))))),
			may("priority", orNull(whole("int32", "Less goes before the other requests of its key that wait."))),
			may("plugins", orNull(list(ref("PluginCall")))), explainField(),
			predictionField(), may("chat_template_kwargs", orNull(anyObject("Not Anthropic's. Variables of the template."))),
		), guidance(ref("AnthropicTurn"))...)...),
		"CountTokensRequest": object("", conversation()...),
		"AnthropicFormat": object("What the text is held to.", need("type", words("", "json_schema")),
			need("schema", anyObject("A JSON Schema."))),
		"AnthropicTurn": object("The last one, if it is the assistant's and has text, is continued.",
			need("role", words("", "user", "assistant", "system")),
			need("content", oneOf("", text(""), list(ref("AnthropicBlock"))))),
		"AnthropicText": object("", need("type", words("", "text")), need("text", text("")), cache()),
		"AnthropicBlock": anyOf("", ref("AnthropicText"),
			event("image", need("source", anyOf("", object("", need("type", words("", "base64")),
				need("media_type", text("")), need("data", text(""))),
				object("", need("type", words("", "url")), need("url", text("")))))),
			event("document", need("source", object("", need("type", words("", "text")), need("data", text(""))))),
			event("tool_use", need("id", text("")), need("name", text("")), need("input", anyObject(""))),
			event("tool_result", need("tool_use_id", text("")), may("is_error", flag("")),
				may("content", oneOf("", text(""), list(anyObject("A block of type text or image."))))),
			event("thinking", need("thinking", text("")), may("signature", text("Not looked at."))),
			event("redacted_thinking", need("data", text("Left out."))), mcpUse, mcpResult),
		"AnthropicSaid": anyOf("", event("text", need("text", text(""))), mcpUse, mcpResult,
			event("thinking", need("thinking", text("")), need("signature",
				text("Clients send it again; it proves nothing."))),
			event("tool_use", need("id", text("")), need("name", text("")), need("input", anyObject("")))),
		"AnthropicMessage": object("", append(append([]property{
			need("id", text("")), need("type", words("", "message")), need("role", words("", "assistant")),
			need("model", text("")), need("content", list(ref("AnthropicSaid"))),
			need("usage", object("", append(usage[:len(usage):len(usage)], need("service_tier", words("",
				"standard")))...)),
		}, stop...), beside...)...),
		"AnthropicEvent": anyOf("", event("message_start", need("message", ref("AnthropicMessage"))), event("ping"),
			event("content_block_start", index, need("content_block", ref("AnthropicSaid"))),
			event("content_block_delta", index, need("delta", anyOf("", event("text_delta", need("text", text(""))),
				event("input_json_delta", need("partial_json", text(""))),
				event("thinking_delta", need("thinking", text(""))),
				event("signature_delta", need("signature", text("")))))),
			event("content_block_stop", index),
			event("message_delta", append([]property{need("delta", object("", stop...)),
				need("usage", object("", usage...))}, beside...)...),
			event("message_stop"), ref("AnthropicError")),
		"AnthropicError": object("", need("type", words("", "error")), need("error", object("",
			need("type", words("", "invalid_request_error", "authentication_error", "permission_error",
				"not_found_error", "request_too_large", "rate_limit_error", "api_error", "overloaded_error")),
			need("message", text("")))), need("request_id", orNull(text("As the header request-id.")))),
	}
	return schemas
}

// mcpToolset is a tool that stands for those of an MCP server.
func mcpToolset() *Schema {
	config := func() *Schema {
		return object("", may("enabled", flag("")), may("defer_loading", flag("Changes nothing.")))
	}
	return object("The tools of an MCP server that the operator configures.", need("type", words("", "mcp_toolset")),
		need("mcp_server_name", text("")), may("default_config", config()),
		may("configs", orNull(&Schema{Type: "object", Additional: config(), Description: "By the tool's name."})))
}
