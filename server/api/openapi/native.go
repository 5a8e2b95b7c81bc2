package openapi

import (
	"tgi/server/config"
	"tgi/server/generate"
)

// native are the schemas of TGI's own routes.
func native(l *config.Limits) map[string]*Schema {
	return map[string]*Schema{
		"GenerateRequest": object("", need("inputs", example(text("The prompt."), "My name is Olivier and I")),
			may("parameters", ref("GenerateParameters")), beside(), named()),
		"CompatGenerateRequest": object("", need("inputs", example(text("The prompt."), "My name is Olivier and I")),
			may("parameters", ref("GenerateParameters")), beside(),
			may("stream", flag("Reply with an event per token.")),
			named()),
		"GenerateParameters": parameters(l),
		"GrammarType": oneOf("Every text is held to it. What the installed plugins cannot enforce is refused, with its JSON pointer.",
			grammar(words("", "json", "json_object"), need("value", anything("A JSON Schema, or one in a string."))),
			grammar(words("", "json_schema"), need("value",
				anyObject("An object whose schema is the JSON Schema; strict: false leaves out what cannot be enforced."))),
			grammar(words("", "regex"), need("value", text("The whole text matches it."))),
			grammar(words("", "choice"), need("value", list(text("")))),
			grammar(words("", "grammar"), need("value", anything("A grammar in the language.")),
				may("language",
					orNull(text("gbnf, lark or another that a plugin knows; without it, what the grammar looks like.")))),
			grammar(words("", "structural_tag"), need("value", anyObject("XGrammar's structural tag.")))),
		"GenerateResponse": object("", need("generated_text",
			example(text("With the prompt before it when return_full_text is set."), "test")),
			may("details", orNull(ref("Details")))),
		"Details": object("", sequence(
			may("best_of_sequences", orNull(list(ref("BestOfSequence")))),
			may("plugins", list(ref("SkippedPlugin"))), dropped(), may("receipt", ref("Receipt")))...),
		"BestOfSequence": object("", sequence(need("generated_text", example(text(""), "test")))...),
		"SkippedPlugin": object("A plugin that failed and without which the request went on.", need("name", text("")),
			need("error", text(""))),
		"FinishReason": words("", "length", "eos_token", "stop_sequence"),
		"PrefillToken": object("", need("id", whole("int64", "")), need("text", text("")),
			need("logprob", orNull(number("Null for the first token.")))),
		"Token": object("", need("id", whole("int64", "")),
			need("text", text("Empty until the bytes of a character are complete.")),
			need("logprob", orNull(number("After all settings that shape the distribution."))),
			need("special", flag(""))),
		"SimpleToken": object("", need("id", whole("int64", "")), need("text", text("")),
			need("start", whole("", "Characters before the token.")),
			need("stop", whole("", "Characters up to its end."))),
		"TokenizeResponse": list(ref("SimpleToken")),
		"StreamResponse": object("", may("index", whole("int32", "From 1. Not in tgi-0.6.")),
			need("token", ref("Token")),
			may("top_tokens", list(ref("Token"))), may("explain", ref("Explanation")),
			may("generated_text", orNull(text("Null but in the last event."))),
			may("details", orNull(ref("StreamDetails")))),
		"StreamDetails": object("", append(counts(), need("finish_reason", ref("FinishReason")),
			need("generated_tokens", whole("int32", "")),
			may("seed", seed()), may("input_length", whole("int32", "Tokens of the prompt. tgi-3 only.")),
			may("plugins", list(ref("SkippedPlugin"))), dropped(), may("receipt", ref("Receipt")))...),
		"DroppedKeyword": object("Something that the grammar asks for and that the text is not held to.",
			need("pointer", text("To its place in the grammar.")), need("keyword", text("")), need("reason", text(""))),
		"ErrorResponse": object("", need("error", text("")), need("error_type", text(""))),
		"Info":          info(),
		"InfoDevice": object("The GPU that the model runs on; absent on the CPU.", need("name", text("")),
			need("index", whole("", "Its number among those that CUDA shows.")),
			need("memory_bytes", whole("", "")), need("cache_bytes", whole("", "Of the model's KV cache.")),
			need("cuda_graphs", list(whole("", "Rows of batches that decode as a CUDA graph.")))),
		"InfoKVDisk": object("What is kept of prompts on disk, of all models together; absent where it is nothing.",
			need("bytes", whole("int64", "")), need("limit_bytes", whole("int64", "")),
			need("blocks", whole("int64", "Of the key/value cache."))),
		"InfoPlugin": object("", need("name", text("")), need("version", text("")), need("sha256", text("")),
			need("state", words("", "ready", "failed", "loading")),
			may("error", text("Why it failed, for how many clients it is off, or why a newer version was rejected.")),
			need("kinds", list(text(""))), may("languages", list(text("Of kind grammar: that it reads."))),
			need("apply", words("Of the requests of the key that asks.", "request", "always")),
			may("nameable", flag("False where requests of this key may not name it; else absent.")),
			may("params", anyObject("JSON Schema of the parameters, as the module declares it; the server holds requests to it."))),
	}
}

// named is the member with which a body chooses a model.
func named() property {
	return may("model", orNull(text("The model that is meant; without it the default one.")))
}

func dropped() property { return may("grammar_dropped", list(ref("DroppedKeyword"))) }

// grammar is one form of GrammarType.
func grammar(kind *Schema, more ...property) *Schema {
	return object("", append(append([]property{need("type", kind)}, more...),
		may("plugin",
			orNull(text("The installed plugin that compiles it; without it, the first that knows the language."))),
		may("params", orNull(anyObject("For that plugin, in its own terms."))))...)
}

// sequence are the members that every form of details has, and more.
func sequence(more ...property) []property {
	return append(append(counts(),
		need("finish_reason", ref("FinishReason")), need("generated_tokens",
			whole("int32", "The end-of-sequence token included.")),
		may("seed", seed()), need("prefill", list(ref("PrefillToken"))), need("tokens", list(ref("Token"))),
		may("top_tokens", list(list(ref("Token")))), may("explain", list(ref("Explanation"))),
	), more...)
}

// counts are what replies tell of predictions and guards.
func counts() []property {
	return []property{
		may("accepted_prediction_tokens", whole("int32", "Tokens of the prediction that were computed ahead and are in the reply.")),
		may("rejected_prediction_tokens", whole("int32", "Tokens of the prediction that were computed ahead and are not.")),
		may("rewound_tokens", whole("int32", "Tokens that guards took back; only where there are some.")),
		may("replaced_tokens", whole("int32", "Tokens that guards gave other text for; only where there are some.")),
	}
}

func seed() *Schema { return orNull(whole("int64", "Of 64 bits; null when nothing was drawn.")) }

func anything(about string) *Schema { return &Schema{Description: about} }

func anyObject(about string) *Schema {
	return &Schema{Type: "object", Description: about, Additional: &Schema{}}
}

// beside are the plugins of a request, outside of its parameters.
func beside() property {
	return may("plugins", orNull(list(ref("PluginCall"))))
}

// parameters is GenerateParameters, with this server's limits.
func parameters(l *config.Limits) *Schema {
	stops := list(text(""))
	stops.Description, stops.MaxItems = "Strings that end the text; they stay in it.", l.MaxStopSequences
	bias := &Schema{Type: "object", Description: "From token ids to addends for their logits.", Additional: number("")}
	unit := func(about string) *Schema { return orNull(below(above(number(about), 0), 1)) }
	most := func(s *Schema, n int) *Schema {
		if n == 0 {
			return s
		}
		return upTo(s, float64(n))
	}
	return object("", append(append(beams(), guidance(nil)...),
		may("best_of", orNull(most(whole("",
			"Generate so many and return the one with the highest mean log-probability."),
			l.MaxBestOf))),
		may("temperature", orNull(above(number("Divides the logits."), 0))),
		may("repetition_penalty", orNull(above(number("1 is none."), 0))),
		may("frequency_penalty", orNull(upTo(from(number("0 is none."), -2), 2))),
		may("presence_penalty", orNull(upTo(from(number("0 is none."), -2), 2))),
		may("top_k", orNull(above(&Schema{Type: "integer", Format: "int32", Description: "Draw from so many tokens."},
			0))),
		may("top_p", unit("Draw from the likeliest tokens with this much probability.")),
		may("typical_p", unit("Draw from the most typical tokens with this much probability.")),
		may("min_p", orNull(upTo(from(number("Leave out tokens below this share of the likeliest one's probability."),
			0),
			1))),
		may("do_sample", flag("Draw at all. Other settings that shape the distribution imply it.")),
		may("max_new_tokens", orNull(above(whole("int32",
			"Without it: the rest of the context; 100 in tgi-2.2, 20 in tgi-0.6, where it may not be null."), 0))),
		may("return_full_text", orNull(flag("Put the prompt before the text."))),
		may("stop", stops),
		may("truncate", orNull(most(above(whole("", "Keep so many of the prompt's last tokens."), 0),
			l.MaxInputTokens))),
		may("watermark", flag("")),
		may("details", flag("Add details to the reply.")),
		may("decoder_input_details", flag("Add the prompt's tokens to details. In tgi-0.6 they always are.")),
		may("seed", orNull(whole("int64", "Of the draws, 64 bits; random without it."))),
		may("top_n_tokens", orNull(most(whole("int32", "Add the likeliest tokens of each step to details."),
			l.MaxTopNTokens))),
		may("grammar", orNull(ref("GrammarType"))),
		may("adapter_id", orNull(text("Name of a low-rank adapter of the model; `/info` lists them."))),
		may("logit_bias", orNull(bias)),
		may("ignore_eos", flag("Go on after the model's own end.")),
		may("token_healing",
			orNull(flag("Let the text go on within the last token of the prompt. Without it the model's setting counts."))),
		may("plugins", orNull(list(ref("PluginCall")))),
		may("best_of_seed", orNull(whole("int64", "Not TGI's. The seed of the sequences of best_of, as a receipt tells it."))),
		explainField(), predictionField(),
	)...)
}

// guidance are the fields of a second prompt; message is the schema of one where that may be a conversation, nil where
// it may not.
func guidance(message *Schema) []property {
	about, member := "What the text is to avoid. Without it: the last token of the prompt.", "The second prompt."
	contrast := []property{
		may("beta", orNull(upTo(from(number("How much the second prompt counts against a token. 0.5 without it."), 0), 100))),
		may("alpha",
			orNull(upTo(from(number("Leave out tokens that are less than so many times as likely as the likeliest, behind the prompt alone. 0.1 without it."), 0), 1))),
	}
	var more []property
	if message != nil {
		about = "Stands in the place of the system message in a second conversation, which the text is to avoid; empty for none. Without it: the last token of the prompt."
		member = "The system message of the second conversation; empty for none."
		more = append(more, may("negative_messages",
			orNull(list(message))))
		contrast = append(contrast, may("messages", orNull(list(message))))
	}
	contrast = append(contrast, may("prompt", orNull(text(member))))
	return append(more,
		may("guidance_scale",
			orNull(upTo(from(number("Classifier-free guidance: how much the prompt counts against the negative one. 1 is off."), 0), 100))),
		may("negative_prompt", orNull(text(about))),
		may("contrastive",
			orNull(object("Contrastive decoding against a second prompt, of which there has to be one.", contrast...))))
}

// beams are the fields of a beam search, on all routes that generate.
func beams() []property {
	return []property{
		may("num_beams",
			orNull(upTo(from(whole("",
				"Search with so many beams at once; what is found streams when the search is over."), 1),
				generate.MaxBeams))),
		may("length_penalty",
			orNull(number("Exponent on the length by which a beam search divides scores. 1 without it."))),
		may("early_stopping",
			orNull(anyOf("When a beam search is content: false, the default, when no better one is likely; true when it has num_beams; or never before nothing can be better.",
				flag(""), &Schema{Type: "string", Enum: []string{"never"}}))),
	}
}

func info() *Schema {
	count := func() *Schema { return whole("", "Not in tgi-0.6.") }
	return object("",
		need("model_id", text("")), may("model_sha", orNull(text(""))), may("model_dtype", text("")),
		may("model_device_type", text("")), may("device", ref("InfoDevice")),
		may("model_pipeline_tag", orNull(text(""))),
		may("max_concurrent_requests", count()), may("max_best_of", count()), may("max_stop_sequences", count()),
		may("max_input_tokens", count()), may("max_total_tokens", count()),
		may("waiting_served_ratio", number("Not in tgi-0.6.")),
		may("max_batch_total_tokens", count()), may("max_waiting_tokens", count()), may("max_batch_size", count()),
		may("validation_workers", count()), may("max_client_batch_size", count()),
		may("router", text("Not in tgi-0.6.")),
		need("version", text("")), may("sha", orNull(text(""))), may("docker_label", orNull(text("Not in tgi-0.6."))),
		may("kv_disk", ref("InfoKVDisk")), may("plugins", list(ref("InfoPlugin"))),
	)
}
