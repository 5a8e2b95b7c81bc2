package openapi

import (
	"net/http"

	"tgi/server/generate"
)

// plainCalls are the operations of the generate API, whose texts are plain.
func plainCalls() []call {
	fails := []int{400, 404, 409, 413, 429, 500, 503, 507}
	said := map[string]*Schema{mediaText: text("")}
	out := []call{
		{
			method: http.MethodPost, path: "/api/generate-one", tag: tagPlain, reads: "GenerateOne", replies: said,
			fails:   fails,
			summary: "Generate a text, or go on with one; the trailers X-Finish-Reason and X-Generated-Tokens say how it ended, X-Receipt what it follows from",
		},
		{
			method: http.MethodPost, path: "/api/generate-batch", tag: tagPlain, reads: "GenerateBatch", fails: fails,
			summary: "Generate several texts, or go on with them",
			replies: map[string]*Schema{mediaJSON: list(ref("BatchText"))},
			also:    map[int]string{http.StatusPartialContent: "The model has not ended all texts, which can go on"},
		},
		{
			method: http.MethodGet, path: "/api/ws", tag: tagPlain, only: http.StatusSwitchingProtocols,
			fails:   []int{404, 503},
			query:   []Parameter{whichModel()},
			summary: "A WebSocket: each message is a body of /api/generate-batch",
		},
	}
	for _, method := range []string{http.MethodPost, http.MethodGet} {
		out = append(out,
			call{method: method, path: "/api/alive", tag: tagPlain, summary: "Whether the process answers",
				replies: said},
			call{method: method, path: "/api/ready", tag: tagPlain, summary: "Whether requests are accepted",
				replies: said,
				fails:   []int{503}})
	}
	return out
}

// plain are the schemas of the generate API.
func plain() map[string]*Schema {
	item := []property{need("request_id",
		example(text("Whose text it is: while the model has not ended it, the next request with the id goes on with it."), "YmFzZTY0")),
		may("prompt", text("Ignored where a text goes on."))}
	shared := []property{
		may("only_new_tokens", flag("Leave out what was known before. True without it.")),
		may("stream_response", flag("Send the text as it grows. True without it.")),
		may("generation_config", orNull(ref("GenerationConfig"))), named(), explainField(),
		may("seed", orNull(whole("int64", "Of the draws of the first text; others have their own of it."))),
	}
	return map[string]*Schema{
		"GenerateOne":   object("", append(item, shared...)...),
		"GenerateBatch": object("", append([]property{need("prompts", list(object("", item...)))}, shared...)...),
		"BatchText": object("", need("request_id", text("")),
			may("prompt", text("As the model sees it. Not with only_new_tokens.")), need("response", text("")),
			may("explain", list(ref("Explanation"))), may("receipt", ref("Receipt"))),
		"GenerationConfig": object("What is left out is the server's own. Where a text goes on and nothing is given, what held before still does.",
			may("num_beams", upTo(from(whole("", "Search with so many beams at once."), 1), generate.MaxBeams)),
			may("do_sample", flag("")),
			may("temperature", above(number(""), 0)), may("top_p", from(number("1 and more is all."), 0)),
			may("top_k", whole("", "0 is all.")),
			may("max_new_tokens", from(whole("", ""), 1)), may("repetition_penalty", above(number(""), 0)),
			may("length_penalty", number("Exponent on the length by which a beam search divides scores."))),
	}
}
