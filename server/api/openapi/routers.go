package openapi

import "net/http"

// routerCalls are the operations that routers ask servers by.
func routerCalls() []call {
	get := func(path, summary, schema string, fails []int) call {
		replies := map[string]*Schema{mediaJSON: ref(schema)}
		return op(http.MethodGet, path, tagServer, summary, "", replies, fails, false)
	}
	loads := get("/v1/loads", "What the server has to do, in SGLang's shape", "Loads", []int{422, 503})
	loads.query = []Parameter{
		{Name: "include", In: "query", Schema: text(""), Description: "SGLang's. Every value has the same reply."},
		{Name: "dp_rank", In: "query", Schema: upTo(from(whole("", ""), 0), 0), Description: "SGLang's."},
		{Name: "format", In: "query", Schema: words("", "json"), Description: "SGLang's."},
	}
	return []call{
		loads,
		get("/version", "The server's version, in vLLM's shape", "ServerVersion", nil),
		get("/server_info", "The server, as SGLang describes itself", "SGLangServerInfo", choosing),
		get("/get_server_info", "As /server_info", "SGLangServerInfo", choosing),
		get("/model_info", "The model, as SGLang describes it", "SGLangModelInfo", choosing),
		get("/get_model_info", "As /model_info", "SGLangModelInfo", choosing),
	}
}

// routers are the schemas of these routes.
func routers() map[string]*Schema {
	count := func(about string) *Schema { return from(whole("", about), 0) }
	part := func(about string) *Schema { return upTo(from(number(about), 0), 1) }
	return map[string]*Schema{
		"ServerVersion": object("", need("version", text(""))),
		"Loads": object("", need("timestamp", text("RFC 3339.")), need("version", text("")),
			need("dp_rank_count", whole("", "1.")),
			need("loads", list(object("Of all models together.",
				need("dp_rank", whole("", "0.")),
				need("num_running_reqs", count("Sequences that run.")),
				need("num_waiting_reqs", count("Sequences that wait.")), need("num_total_reqs", count("Both.")),
				need("num_used_tokens", count("That fit into the cache blocks which sequences hold.")),
				need("max_total_num_tokens", count("That fit into all cache blocks.")),
				need("token_usage", part("The first of the second.")),
				need("cache_hit_rate", part("Prompt tokens since the start that were found in the cache.")),
				need("utilization", part("Running sequences of those that may run.")),
				need("max_running_requests", count("Sequences that run at once at most.")))))),
		"SGLangServerInfo": object("Those of SGLang's settings that routers and its clients read.",
			need("model_id", text("")), need("model_path", text("The model's name: no path is told.")),
			need("served_model_name", text("")), need("tokenizer_path", text("The model's name.")),
			need("is_embedding", flag("It generates nothing.")), need("dtype", text("")), need("device", text("")),
			may("context_length", count("")), need("max_total_num_tokens", count("That fit into the cache.")),
			need("max_total_tokens", count("The same, as routers call it.")), need("max_running_requests", count("")),
			need("tp_size", whole("", "1.")), need("dp_size", whole("", "1.")), need("pp_size", whole("", "1.")),
			need("disaggregation_mode", words("", "null")), need("weight_version", text("The downloaded revision.")),
			need("version", text("")), need("internal_states", list(anyObject("")))),
		"SGLangModelInfo": object("", need("model_path", text("The model's name: no path is told.")),
			need("tokenizer_path", text("The model's name.")), need("is_generation", flag("")),
			need("preferred_sampling_params", orNull(text("Null."))),
			need("weight_version", text("The downloaded revision.")), need("has_image_understanding", flag("")),
			need("has_audio_understanding", flag("")), need("architectures", list(text(""))),
			may("max_context_len", count(""))),
	}
}
