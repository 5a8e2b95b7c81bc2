package openapi

import "net/http"

// responsesFails are the statuses of the Responses API.
var responsesFails = []int{400, 404, 413, 415, 429, 500, 503, 507}

// responsesCalls are the operations of OpenAI's Responses API.
func responsesCalls() []call {
	const all, one = "/v1/responses", "/v1/responses/{response_id}"
	json := func(s *Schema) map[string]*Schema { return map[string]*Schema{mediaJSON: s} }
	both := map[string]*Schema{mediaJSON: ref("Response"), mediaEvents: ref("ResponseEvent")}
	query := func(name string, s *Schema, about string) Parameter {
		return Parameter{Name: name, In: "query", Schema: s, Description: about}
	}
	calls := []call{
		{method: http.MethodPost, path: all, summary: "Answer items with items", reads: "ResponsesRequest",
			replies: both,
			fails:   responsesFails},
		{method: http.MethodPost, path: all + "/input_tokens", summary: "Count the tokens of items",
			reads: "ResponsesRequest", fails: responsesFails,
			replies: json(object("", need("object", words("", "response.input_tokens")), need("input_tokens",
				whole("", ""))))},
		{method: http.MethodGet, path: one, summary: "A response that is kept for the key, or its events",
			replies: both,
			fails:   []int{400, 404, 409, 503}, query: []Parameter{
				query("stream", words("", "true", "false"), "Events of a response with background."),
				query("starting_after", whole("", ""), "The number of the event behind which to begin.")}},
		{method: http.MethodDelete, path: one, summary: "Forget a response", fails: []int{404, 503},
			replies: json(object("", need("id", text("")), need("object", words("", "response")), need("deleted",
				flag(""))))},
		{method: http.MethodPost, path: one + "/cancel", summary: "End a response with background",
			fails: []int{400, 404, 409, 503}, replies: json(ref("Response"))},
		{method: http.MethodGet, path: one + "/input_items", summary: "What a response was made from",
			fails: []int{400, 404, 503}, query: []Parameter{query("limit", upTo(from(whole("", ""), 1), 100),
				"20 without it."),
				query("order", words("", "asc", "desc"), "desc without it."),
				query("after", text(""), "The id of the item behind which to begin.")},
			replies: json(object("", need("object", words("", "list")), need("data", list(ref("ResponseItem"))),
				need("first_id", text("")), need("last_id", text("")), need("has_more", flag(""))))},
	}
	calls = append(calls, call{method: http.MethodPost, path: all + "/compact", fails: []int{404},
		summary: "Refused: what a model says of a conversation in fewer words is for the client to ask for"})
	calls = append(calls, conversationCalls()...)
	for i := range calls {
		calls[i].tag = tagResponses
	}
	return calls
}

// conversationCalls are the operations of conversations.
func conversationCalls() []call {
	const all, one = "/v1/conversations", "/v1/conversations/{conversation_id}"
	json := func(s *Schema) map[string]*Schema { return map[string]*Schema{mediaJSON: s} }
	c := func(method, path, summary, reads string, replies *Schema, query ...Parameter) call {
		return call{method: method, path: path, summary: summary, reads: reads, replies: json(replies), query: query,
			fails: []int{400, 404, 409, 413, 415, 429, 503}, optional: path == all}
	}
	query := func(name string, s *Schema, about string) Parameter {
		return Parameter{Name: name, In: "query", Schema: s, Description: about}
	}
	page := object("", need("object", words("", "list")), need("data", list(ref("ResponseItem"))),
		need("first_id", text("")), need("last_id", text("")), need("has_more", flag("")))
	return []call{
		c(http.MethodPost, all, "Begin a conversation", "ConversationRequest", ref("Conversation")),
		c(http.MethodGet, one, "A conversation that is kept for the key", "", ref("Conversation")),
		c(http.MethodPost, one, "Replace its metadata", "ConversationRequest", ref("Conversation")),
		c(http.MethodDelete, one, "Forget a conversation", "", object("", need("id", text("")),
			need("object", words("", "conversation.deleted")), need("deleted", flag("")))),
		c(http.MethodPost, one+"/items", "Add items", "ConversationRequest", page),
		c(http.MethodGet, one+"/items", "Its items", "", page, query("limit", upTo(from(whole("", ""), 1), 100),
			"20 without it."), query("order", words("", "asc", "desc"), "desc without it."),
			query("after", text(""), "The id of the item behind which to begin.")),
		c(http.MethodGet, one+"/items/{item_id}", "One of its items", "", ref("ResponseItem")),
		c(http.MethodDelete, one+"/items/{item_id}", "Remove an item", "", ref("Conversation")),
	}
}

// responses are the schemas of the Responses API.
func responses() map[string]*Schema {
	kind := func(name string, more ...property) *Schema {
		return object("", append([]property{need("type", words("", name))}, more...)...)
	}
	status := may("status", words("", "in_progress", "completed", "incomplete"))
	call := func(name, member string) *Schema {
		return kind(name, may("id", text("")), status, need("call_id", text("")), need("name", text("")),
			need(member, text("")))
	}
	output := func(name string) *Schema {
		return kind(name, may("id", text("")), status, need("call_id", text("")),
			need("output", oneOf("", text(""), list(ref("ResponseContent")))))
	}
	tool := anyOf("The tools that OpenAI's servers run are refused.",
		kind("function", need("name", text("")), may("description", orNull(text(""))),
			may("parameters", orNull(anyObject("A JSON Schema."))), may("strict", orNull(flag("False without it.")))),
		kind("custom", need("name", text("")), may("description", orNull(text(""))),
			may("format", orNull(anyObject("{type: text}, or {type: grammar, syntax, definition}.")))))
	tool.AnyOf = append(tool.AnyOf, mcpTool())
	choice := func() *Schema {
		return anyOf("", words("", "auto", "none", "required"),
			anyObject("A function, a custom tool, or allowed_tools."))
	}
	texts := func() *Schema {
		return object("", may("format", anyOf("What the text is held to.", kind("text"), kind("json_object"),
			kind("json_schema", may("name", text("")), need("schema", anyObject("A JSON Schema.")),
				may("strict", orNull(flag("")))))),
			may("verbosity", orNull(words("A variable of the template.", "low", "medium", "high"))))
	}
	reasoning := func() *Schema {
		return object("", may("effort", orNull(text("The template's variable reasoning_effort."))),
			may("summary", orNull(text("No summaries are written: reasoning is in content."))))
	}
	metadata := func() *Schema {
		return &Schema{Type: "object", Additional: text(""),
			Description: "At most 16 texts."}
	}
	drawn := []property{
		may("temperature", orNull(from(number("0 takes the most likely token."), 0))),
		may("top_p", orNull(upTo(from(number(""), 0), 1))),
		may("top_logprobs", orNull(upTo(whole("int32", ""), 20))),
		may("parallel_tool_calls", orNull(flag("True without it."))), may("max_tool_calls", orNull(whole("int32", ""))),
		may("background", orNull(flag("Go on behind the request."))), may("store", orNull(flag("True without it."))),
		may("previous_response_id", orNull(text("The response that this one follows."))),
		may("truncation", orNull(words("", "auto", "disabled"))), may("user", orNull(text(""))),
		may("safety_identifier", orNull(text(""))), may("prompt_cache_key", orNull(text(""))),
		may("service_tier", orNull(words("As in chat.", "auto", "default", "flex", "priority", "scale"))),
		may("max_output_tokens", orNull(whole("int32", "Where the context has less room, the text ends with it."))),
	}
	shared := func(more ...property) []property { return append(drawn[:len(drawn):len(drawn)], more...) }
	return map[string]*Schema{
		"ConversationRequest": object("", may("items", orNull(list(ref("ResponseItem")))),
			may("metadata", orNull(metadata()))),
		"Conversation": object("", need("id", text("")), need("object", words("", "conversation")),
			need("created_at", whole("int64", "Seconds since 1970.")), need("metadata", metadata())),
		"ResponsesRequest": object("", append(shared(
			may("conversation", orNull(oneOf("Whose items come before, and which gets those of the response.", text(""),
				object("", need("id", text("")))))),
			may("model", orNull(text("As of chat."))),
			may("input", orNull(oneOf("", text(""), list(ref("ResponseItem"))))),
			may("instructions", orNull(text("The system's words."))), may("stream", orNull(flag("Reply with events."))),
			may("include", orNull(
				list(text("reasoning.encrypted_content, message.output_text.logprobs; others ask for nothing.")))),
			may("metadata", orNull(metadata())), may("text", orNull(texts())), may("reasoning", orNull(reasoning())),
			may("tools", orNull(list(tool))), may("tool_choice", choice()),
			may("priority", orNull(whole("int32", "Less goes before the other requests of its key that wait."))),
			may("plugins", orNull(list(ref("PluginCall")))), explainField(),
			predictionField(), may("chat_template_kwargs", orNull(anyObject("Not OpenAI's. Variables of the template."))),
		), guidance(ref("ResponseItem"))...)...),
		"ResponseContent": anyOf("", kind("input_text", need("text", text(""))),
			kind("input_image", need("image_url",
				text("A data: URI, or an address of a host that the operator allows.")),
				may("detail", text(""))),
			kind("output_text", need("text", text("")), may("annotations", list(anyObject(""))),
				may("logprobs", list(ref("ChatCompletionLogprob")))), kind("refusal", need("refusal", text("")))),
		"ResponseItem": anyOf("", object("", may("type", words("", "message")), may("id", text("")), status,
			need("role", words("", "user", "assistant", "system", "developer")),
			need("content", oneOf("", text(""), list(ref("ResponseContent"))))),
			call("function_call", "arguments"), call("custom_tool_call", "input"), output("function_call_output"),
			output("custom_tool_call_output"),
			kind("reasoning", may("id", text("")), status, may("summary", list(anyObject(""))),
				may("content", orNull(list(kind("reasoning_text", need("text", text("")))))),
				may("encrypted_content",
					orNull(text("The reasoning again, for clients that keep nothing else of it.")))),
			kind("item_reference", need("id", text("Of an item of a response that is kept."))),
			kind("mcp_list_tools", may("id", text("")), need("server_label", text("")),
				may("tools", list(anyObject("name, description, input_schema, annotations."))),
				may("error", orNull(text("")))),
			kind("mcp_call", may("id", text("")), may("status", words("", "in_progress", "completed", "incomplete",
				"failed")), need("server_label", text("")), need("name", text("")), need("arguments", text("")),
				may("approval_request_id", orNull(text(""))), may("output", orNull(text(""))),
				may("error", orNull(anyObject("Why there is no output."))))),
		"Response": object("", shared(
			may("conversation", orNull(object("", need("id", text(""))))),
			need("id", text("")), need("object", words("", "response")),
			need("created_at", whole("int64", "Seconds since 1970.")), may("completed_at", orNull(whole("int64", ""))),
			need("status", words("", "queued", "in_progress", "completed", "incomplete", "failed", "cancelled")),
			need("error", orNull(object("", need("code", text("")), need("message", text(""))))),
			need("incomplete_details", orNull(object("",
				need("reason", words("", "max_output_tokens", "content_filter"))))),
			need("instructions", orNull(text(""))), need("model", text("")), need("output", list(ref("ResponseItem"))),
			need("text", texts()), need("reasoning", reasoning()), need("tools", list(anyObject("As in the request."))),
			need("tool_choice", choice()), need("metadata", metadata()),
			need("usage", orNull(object("", need("input_tokens", whole("", "")),
				need("input_tokens_details", object("", need("cached_tokens", whole("", "")),
					need("cache_write_tokens", whole("", "")))), need("output_tokens", whole("", "")),
				need("output_tokens_details", object("", append(counts(),
					need("reasoning_tokens", whole("", "")))...)),
				need("total_tokens", whole("", ""))))),
			may("plugins", list(ref("SkippedPlugin"))), dropped(),
			may("explain", list(ref("Explanation"))), may("receipt", ref("Receipt")),
		)...),
		"ResponseEvent": object("Of OpenAI's events those of text, reasoning, calls and MCP.", need("type", text("")),
			need("sequence_number", whole("", "From 0, without gaps.")), may("response", ref("Response")),
			may("item", ref("ResponseItem")), may("item_id", text("")), may("output_index", whole("", "")),
			may("content_index", whole("", "")), may("delta", text("")), may("text", text("")),
			may("arguments", text("")), may("input", text("")), may("part", anyObject("A part of an item.")),
			may("logprobs", list(ref("ChatCompletionLogprob")))),
	}
}

// mcpTool stands for the tools of an MCP server.
func mcpTool() *Schema {
	return object("The tools of an MCP server that the operator configures.", need("type", words("", "mcp")),
		need("server_label", text("Its name.")), need("require_approval", words("", "never")),
		may("allowed_tools", allowedTools()))
}

// allowedTools says which of a server's tools are offered.
func allowedTools() *Schema {
	return orNull(anyOf("Names, or a filter.", list(text("")), object("", may("tool_names", orNull(list(text("")))),
		may("read_only", orNull(flag("Those alone that say that they change nothing."))))))
}
