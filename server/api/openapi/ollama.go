package openapi

import "net/http"

// tagOllama is that of Ollama's API, which is served where server.ollama is true.
const tagOllama = "Ollama"

// mediaLines are lines of JSON.
const mediaLines = "application/x-ndjson"

// ollamaFails are the statuses of Ollama's routes.
var ollamaFails = []int{400, 404, 413, 429, 500, 503, 507}

// ollamaCalls are the operations of Ollama's API.
func ollamaCalls() []call {
	reply := func(s *Schema) map[string]*Schema { return map[string]*Schema{mediaJSON: s} }
	lines := func(name string) map[string]*Schema {
		return map[string]*Schema{mediaJSON: ref(name), mediaLines: ref(name)}
	}
	o := func(method, path, summary, reads string, replies map[string]*Schema, fails ...int) call {
		return call{method: method, path: path, tag: tagOllama, summary: summary, reads: reads, replies: replies,
			fails: fails}
	}
	calls := []call{
		o(http.MethodPost, "/api/chat", "Answer a conversation", "OllamaChat", lines("OllamaChatReply"),
			ollamaFails...),
		o(http.MethodPost, "/api/generate", "Answer a prompt", "OllamaGenerate", lines("OllamaGenerateReply"),
			ollamaFails...),
		o(http.MethodPost, "/api/embed", "Turn texts into vectors of the length 1", "OllamaEmbed",
			reply(object("", need("model", text("")), need("embeddings", list(list(number("")))),
				need("total_duration", whole("int64", "")), need("load_duration", whole("int64", "")),
				need("prompt_eval_count", whole("", "")))), ollamaFails...),
		o(http.MethodPost, "/api/embeddings", "Turn a text into a vector, for older clients", "OllamaEmbeddings",
			reply(object("", need("embedding", list(number(""))))), ollamaFails...),
		o(http.MethodGet, "/api/tags", "The models that are there", "",
			reply(object("", need("models", list(ref("OllamaModel"))))), 500),
		o(http.MethodGet, "/api/ps", "The models that are loaded", "",
			reply(object("", need("models", list(ref("OllamaModel"))))), 500),
		o(http.MethodPost, "/api/show", "Describe a model", "OllamaName", reply(object("",
			need("modelfile", text("")), need("parameters", text("")), need("template", text("In Jinja.")),
			need("details", ref("OllamaDetails")), need("model_info", anyObject("")),
			need("capabilities", list(text(""))), need("modified_at", text("")))), 400, 404, 413, 500),
		o(http.MethodPost, "/api/pull", "Fetch a model from the hub", "OllamaName", lines("OllamaProgress"),
			400, 404, 409, 413, 500, 503, 507),
		o(http.MethodDelete, "/api/delete", "Remove the files of a model that does not run", "OllamaName", nil,
			400, 404, 409, 413, 500),
		o(http.MethodGet, "/api/version", "The version of Ollama whose API this is, and the server's", "",
			reply(object("", need("version", text("")), need("server", text(""))))),
	}
	for _, r := range [][2]string{{http.MethodPost, "create"}, {http.MethodPost, "copy"}, {http.MethodPost, "push"},
		{http.MethodPost, "blobs/{digest}"}, {http.MethodHead, "blobs/{digest}"}} {
		calls = append(calls, o(r[0], "/api/"+r[1], "Refused: models are not made, copied or sent here", "", nil, 400))
	}
	return calls
}

// open lets an object have members that it does not name.
func open(s *Schema) *Schema {
	s.Additional = &Schema{}
	return s
}

// ollama are the schemas of Ollama's API.
func ollama() map[string]*Schema {
	model := need("model", text("An id, with :latest or without."))
	keep := may("keep_alive", orNull(anyOf("How long the model stays loaded when nobody uses it: seconds, or a duration "+
		"such as 5m; less than 0 is for ever, 0 unloads it. Without effect for keys without the scope admin.", text(""),
		number(""))))
	options := may("options", orNull(open(object("Others have no effect, and are named in the header x-ignored-fields.",
		may("num_predict", orNull(&Schema{Type: "integer", Description: "Most tokens; less than 1 is no bound."})),
		may("temperature", orNull(from(number("0.8 without it."), 0))), may("top_k", orNull(&Schema{Type: "integer"})),
		may("top_p", orNull(upTo(from(number(""), 0), 1))), may("min_p", orNull(upTo(from(number(""), 0), 1))),
		may("typical_p", orNull(number(""))), may("seed", orNull(&Schema{Type: "integer"})),
		may("stop", orNull(anyOf("", text(""), list(text(""))))), may("repeat_penalty", orNull(number(""))),
		may("repeat_last_n", orNull(&Schema{Type: "integer", Description: "0 switches repeat_penalty off."})),
		may("presence_penalty", orNull(number(""))), may("frequency_penalty", orNull(number("")))))))
	common := func(more ...property) []property {
		return append([]property{model, options, keep, may("stream", orNull(flag("True without it."))),
			may("format", orNull(anyOf("\"json\", or a JSON Schema.", words("", "", "json"), anyObject("")))),
			may("think", orNull(anyOf("The template's variables enable_thinking and reasoning_effort.", flag(""),
				words("", "", "low", "medium", "high", "max")))),
			may("truncate", orNull(flag("Leave out the oldest messages that do not fit. True without it."))),
			may("shift", orNull(flag("Without effect."))), may("logprobs", orNull(flag(""))),
			may("top_logprobs", orNull(whole("", ""))), may("plugins", orNull(list(ref("PluginCall")))),
			explainField(), predictionField()}, more...)
	}
	images := may("images", orNull(list(text("In base64."))))
	calls := may("tool_calls", orNull(list(object("", may("id", text("")), need("function", object("",
		need("name", text("")), may("index", whole("", "")), may("arguments", orNull(anyObject("")))))))))
	token := []property{need("token", text("")), need("logprob", number("")), need("bytes", list(whole("", "")))}
	ends := func(more ...property) []property {
		list := append([]property{need("model", text("")), need("created_at", text("")), need("done", flag("")),
			may("done_reason", words("", "stop", "length", "content_filter", "load", "unload")),
			may("logprobs", list(object("", append(token[:len(token):len(token)],
				need("top_logprobs", list(object("", token...))))...))),
			may("prompt_eval_count", whole("", "")), may("eval_count", whole("", "")),
			may("plugins", list(ref("SkippedPlugin"))), dropped(),
			may("explain", list(ref("Explanation"))), may("receipt", ref("Receipt"))}, more...)
		for _, name := range []string{"total", "load", "prompt_eval", "eval"} {
			list = append(list, may(name+"_duration", whole("int64", "Nanoseconds.")))
		}
		return list
	}
	failed := func(s *Schema) *Schema {
		return anyOf("A stream that began ends with an error in its last line.", s, ref("OllamaError"))
	}
	tool := object("", may("type", orNull(words("", "function"))), need("function", object("", need("name", text("")),
		may("description", orNull(text(""))), may("parameters", orNull(anyObject(""))),
		may("strict", orNull(flag("Hold the arguments to the schema."))))))
	return map[string]*Schema{
		"OllamaChat": object("Without messages the model is loaded, or unloaded.", common(
			append(guidance(ref("OllamaMessage")), may("messages", orNull(list(ref("OllamaMessage")))),
				may("tools", orNull(list(tool))))...)...),
		"OllamaMessage": object("", need("role", text("system, user, assistant or tool.")),
			may("content", orNull(text(""))), may("thinking", orNull(text(""))), images, calls,
			may("tool_name", orNull(text(""))), may("tool_call_id", orNull(text("")))),
		"OllamaGenerate": object("Without a prompt the model is loaded, or unloaded.", common(append(guidance(nil),
			may("prompt", orNull(text(""))), may("system", orNull(text(""))), images,
			may("raw", orNull(flag("The prompt is read as it is."))),
			may("context", orNull(list(whole("int64", "That of an earlier reply.")))),
			may("suffix", orNull(text("Refused."))), may("template", orNull(text("Refused."))))...)...),
		"OllamaChatReply": failed(object("", ends(need("message", object("", need("role", words("", "assistant")),
			need("content", text("")), may("thinking", text("")), calls)))...)),
		"OllamaGenerateReply": failed(object("", ends(need("response", text("")), may("thinking", text("")),
			may("context", list(whole("int64", ""))))...)),
		"OllamaEmbed": object("", model, options, keep, may("input", orNull(anyOf("", text(""), list(text(""))))),
			may("truncate", orNull(flag("Cut texts that are too long. True without it."))),
			may("dimensions", orNull(whole("", "")))),
		"OllamaEmbeddings": object("", model, options, keep, may("prompt", orNull(text("")))),
		"OllamaName": object("", may("model", orNull(text(""))), may("name", orNull(text("Older clients' model."))),
			may("stream", orNull(flag("")))),
		"OllamaDetails": object("", need("parent_model", text("Of an adapter.")), may("context_length", whole("", "")),
			may("embedding_length", whole("", "")), need("format", text("")), need("family", text("")), need("families",
				list(text(""))), need("parameter_size", text("")), need("quantization_level", text(""))),
		"OllamaModel": object("", need("name", text("With :latest.")), need("model", text("")),
			need("size", whole("int64", "Bytes of its files; of a model that is loaded, of memory.")),
			need("digest", text("Of what the server knows of the files, not of these.")),
			need("details", ref("OllamaDetails")), may("modified_at", text("")), may("expires_at", text("")),
			may("size_vram", whole("int64", "")), may("context_length", whole("", "")),
			may("capabilities", list(text("")))),
		"OllamaProgress": failed(object("", need("status", text("")), may("digest", text("Of the model's id.")),
			may("total", whole("int64", "Bytes.")), may("completed", whole("int64", "")))),
		"OllamaError": object("", need("error", text(""))),
	}
}
