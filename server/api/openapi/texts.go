package openapi

import "net/http"

const tagTexts = "Text Embeddings Inference"

// scoringFails are the statuses of routes that compute vectors or scores.
var scoringFails = []int{413, 422, 424, 429, 400, 404, 415, 503, 507}

// textCalls are the operations of models that turn texts into vectors or scores.
func textCalls() []call {
	reply := func(s *Schema) map[string]*Schema { return map[string]*Schema{mediaJSON: s} }
	vectors := list(list(number("")))
	post := func(path, tag, summary, reads string, out *Schema) call {
		return op(http.MethodPost, path, tag, summary, reads, reply(out), scoringFails, false)
	}
	return []call{
		post("/v1/embeddings", tagOpenAI, "Turn texts into vectors", "EmbeddingRequest", ref("EmbeddingResponse")),
		post("/embeddings", tagOpenAI, "Turn texts into vectors", "EmbeddingRequest", ref("EmbeddingResponse")),
		post("/v1/rerank", tagTexts, "Order documents by a query, for Jina's and Cohere's clients", "DocumentsRequest",
			ref("DocumentsResponse")),
		post("/v2/rerank", tagTexts, "Order documents by a query, for Cohere's clients", "DocumentsRequest",
			ref("DocumentsResponse")),
		post("/embed", tagTexts, "Turn texts into vectors", "EmbedRequest", vectors),
		post("/embed_all", tagTexts, "Turn texts into the vectors of their tokens", "EmbedRequest", list(vectors)),
		post("/embed_sparse", tagTexts, "Turn texts into sparse vectors, with a SPLADE model", "EmbedRequest",
			list(list(object("", need("index", whole("", "")), need("value", number("")))))),
		post("/rerank", tagTexts, "Order texts by a query; with documents in place of texts as vLLM and Infinity do",
			"RankingRequest", anyOf("Of texts, or of documents.", list(ref("Rank")), ref("DocumentsResponse"))),
		post("/predict", tagTexts, "Score the labels of texts, or of pairs of texts", "PredictRequest",
			anyOf("A list for each text of a batch.", list(ref("Prediction")), list(list(ref("Prediction"))))),
		post("/similarity", tagTexts, "The cosines of a text's vector and those of others", "SimilarityRequest",
			list(number(""))),
		post("/decode", tagTexts, "Turn tokens into texts", "DecodeRequest", list(text(""))),
	}
}

// textInput is what routes take as texts.
func textInput() *Schema {
	ids := func() *Schema { return list(whole("int64", "")) }
	return anyOf("A text, a list of texts, the tokens of a text, or a list of these.", text(""), list(text("")), ids(),
		list(ids()))
}

// cutting are the members that say how texts are encoded.
func cutting(more ...property) []property {
	return append([]property{named(),
		may("truncate", orNull(flag("Cut texts that are longer than the model reads; else they are an error. "+
			"Without it: embeddings.auto_truncate; /v1/rerank and /v2/rerank cut."))),
		may("truncation_direction", orNull(words("Which end is cut.", "Left", "Right", "left", "right"))),
		may("prompt_name", orNull(text("The model's prompt to put before texts; without it the model's default."))),
	}, more...)
}

// texts are the schemas of these routes.
func texts() map[string]*Schema {
	raw := may("raw_scores", flag("Scores as the model has them, not probabilities."))
	size := may("dimensions", orNull(from(whole("", "Vectors are cut to so many numbers, and get the length 1 again."), 1)))
	usage := need("usage", object("", need("prompt_tokens", whole("", "")), need("total_tokens", whole("", ""))))
	return map[string]*Schema{
		"EmbedRequest": object("", cutting(need("inputs", textInput()), size,
			may("normalize", orNull(flag("Give vectors the length 1. True without it."))))...),
		"EmbeddingRequest": object("", cutting(need("input", textInput()), size,
			may("encoding_format", orNull(words("", "float", "base64"))), may("user", orNull(text("Ignored."))),
			may("truncate_prompt_tokens",
				orNull(from(&Schema{Type: "integer", Description: "vLLM's. Keep so many tokens; -1 is what the model reads."},
					-1))))...),
		"EmbeddingResponse": object("", need("object", words("", "list")), need("model", text("")), need("data",
			list(object("", need("object", words("", "embedding")), need("index", whole("", "")),
				need("embedding",
					anyOf("32-bit floats, little-endian, if they are in base64.", list(number("")), text("")))))),
			usage),
		"RerankRequest": object("", cutting(need("query", text("")), need("texts", list(text(""))), raw,
			may("return_text", orNull(flag("Reply with the texts."))))...),
		"RankingRequest": anyOf("TEI's request, or that of vLLM and Infinity.", ref("RerankRequest"),
			ref("DocumentsRequest")),
		"Rank": object("", need("index", whole("", "Of the text in the request.")), need("score", number("")),
			may("text", text(""))),
		"PredictRequest": object("", cutting(need("inputs",
			anyOf("A text, a pair of texts, or a list of lists of one or two.", text(""), list(text("")),
				list(list(text(""))))), raw)...),
		"Prediction": object("", need("label", text("")), need("score", number(""))),
		"SimilarityRequest": object("", cutting(need("inputs", object("", need("source_sentence", text("")),
			need("sentences", list(text(""))))),
			may("parameters", orNull(anyObject("The members beside inputs."))))...),
		"DecodeRequest": object("", named(), need("ids", anyOf("The tokens of a text, or of several.",
			list(whole("int64", "")), list(list(whole("int64", ""))))), may("skip_special_tokens", flag(""))),
		"DocumentsRequest": object("", cutting(need("query", text("")), need("documents", list(anyOf("", text(""),
			object("", need("text", text("")))))), may("top_n", orNull(from(whole("", ""), 1))),
			may("max_tokens_per_doc", orNull(from(whole("", "Documents are cut to so many tokens."), 1))),
			may("return_documents", orNull(flag("Reply with the documents. Without it /v1/rerank does."))))...),
		"DocumentsError": object("The text under the names that Cohere's and Jina's clients read.",
			need("message", text("")), need("detail", text("")), need("error_type", text(""))),
		"DocumentsResponse": object("", need("id", text("")), need("object", words("", "list")),
			need("model", text("")), need("results", list(object("", need("index", whole("", "")),
				need("relevance_score", number("")),
				may("document", object("", need("text", text(""))))))), usage, need("meta", anyObject(""))),
		"TextModelInfo": object("What /info says of a model that turns texts into vectors or scores.",
			need("model_id", text("")), need("model_sha", orNull(text(""))), need("model_dtype", text("")),
			need("model_type", anyObject("One of embedding, reranker and classifier.")),
			need("max_concurrent_requests", whole("", "")), need("max_input_length", whole("", "Tokens of a text.")),
			need("max_batch_tokens", whole("", "")), need("max_batch_requests", orNull(whole("", ""))),
			need("max_client_batch_size", whole("", "")), need("auto_truncate", flag("")),
			need("tokenization_workers", whole("", "")), need("version", text("")), need("sha", orNull(text(""))),
			need("docker_label", orNull(text("")))),
		"TextTokens": list(list(object("", need("id", whole("int64", "")), need("text", text("")),
			need("special", flag("")), need("start", orNull(whole("", ""))), need("stop", orNull(whole("", "")))))),
	}
}
