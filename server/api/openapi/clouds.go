package openapi

// clouds are the schemas of the routes that clouds and KServe call.
func clouds() map[string]*Schema {
	octets := func() *Schema {
		s := list(upTo(whole("int32", ""), 255))
		s.Description = "The bytes of a text."
		return s
	}
	return map[string]*Schema{
		"SagemakerRequest": anyOf("The first that fits counts. In tgi-2.2 and tgi-0.6 the first alone, or the second alone where the server is told so.",
			ref("CompatGenerateRequest"), ref("ChatRequest"), ref("CompletionRequest")),
		"VertexRequest": object("", need("instances", list(ref("VertexInstance"))), named()),
		"VertexInstance": anyOf("The first that fits counts. In tgi-2.2 and tgi-0.6 the first alone.",
			ref("GenerateVertexInstance"), ref("ChatRequest")),
		"GenerateVertexInstance": object("Of the parameters max_new_tokens, seed, grammar, adapter_id and plugins count, and the header x-ignored-fields names others; tokens are always drawn.",
			need("inputs", example(text(""), "What is Deep Learning?")),
			may("parameters", orNull(ref("GenerateParameters"))),
			beside()),
		"VertexResponse": object("", need("predictions", list(text("")))),
		"ChatTokenizeResponse": object("", need("tokenize_response", ref("TokenizeResponse")),
			need("templated_text", text("The prompt that the conversation becomes."))),
		"InferenceRequest": object("", need("id", text("")), may("parameters", ref("GenerateParameters")), beside(),
			need("inputs", list(ref("Input"))), need("outputs", list(ref("Output"))), named()),
		"Input": object("", need("name", text("")), need("shape", list(whole("", ""))), need("datatype", text("")),
			need("data", octets())),
		"Output":          object("", need("name", text(""))),
		"InferenceOutput": object("", need("id", text("")), need("outputs", list(ref("OutputChunk")))),
		"OutputChunk": object("", need("name", text("")), need("shape", list(whole("", ""))),
			need("datatype", text("")),
			need("data", octets())),
		"LiveResponse":  object("", need("live", flag(""))),
		"ReadyResponse": object("", need("live", flag(""))),
		"MetadataServerResponse": object("", need("name", text("")), need("version", text("")),
			need("extensions", list(text("")))),
	}
}
