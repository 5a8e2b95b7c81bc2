package openapi

import "tgi/runtime/llm"

// explainField is what a request wants to know of how its tokens came to be.
func explainField() property {
	return may("explain", orNull(oneOf("Tell how each token came to be, and what the reply follows from (a receipt).",
		flag(""), words("The receipt alone.", "receipt"), object("Without a member: a top of 5, the first 256 tokens.",
			may("top", orNull(upTo(whole("", "So many of the likeliest tokens, of the model's and of the changed distribution."),
				llm.MaxExplainTop))),
			may("tokens", orNull(upTo(whole("", "So many tokens of each sequence, from the first; 0 asks for the receipt alone."),
				llm.MaxExplainTokens)))))))
}

// predictionField is what a reply is expected to be.
func predictionField() property { return may("prediction", orNull(ref("Prediction"))) }

// explained are the schemas of explanations and receipts.
func explained() map[string]*Schema {
	token := func(more ...property) []property {
		return append([]property{need("id", whole("int64", "")), need("text", text(""))}, more...)
	}
	sum := func(about string) *Schema { return text("SHA-256 in hex " + about) }
	return map[string]*Schema{
		"Explanation": object("How a token came to be. Log-probabilities are null where something rules a token out.",
			token(need("raw_logprob", orNull(number("In the model's own distribution."))),
				need("logprob", orNull(number("In the distribution that it was picked from."))),
				need("rank", whole("int32", "Place in the model's own distribution, 0 for the likeliest.")),
				need("picked", words("", "best", "draw", "sampler", "forced", "stop", "program", "guard")),
				may("by", text("The plugin that picked it, or ended the text; for guard the one whose text it is of.")),
				need("changes", list(ref("ExplainedChange"))),
				need("candidates", list(object("The likeliest tokens of both distributions, and the picked one.",
					token(need("raw_logprob", orNull(number(""))), need("logprob", orNull(number(""))))...))),
				may("draft", object("The guess that was computed ahead for this place.",
					token(need("source", words("", "grammar", "plugin", "prediction", "prompt")),
						need("accepted", flag("")))...)),
				may("rewound", list(object("What a guard took back in front of this token.", need("by", text("")),
					need("tokens", whole("int32", ""))))),
				may("replaced", list(object("What a guard gives other text for, which begins here, or is none in front of this token.",
					need("by", text("")), need("tokens", whole("int32", ""))))))...),
		"ExplainedChange": object("What one of those that change a distribution did. Who changed nothing is left out.",
			need("kind", words("", "setting", "mask", "plugin", "sampling", "guard", "program")),
			need("name", text("Of the setting, the plugin or the guards.")),
			need("allowed", whole("int32", "Tokens that are possible after it.")),
			need("forbidden", number("Share of the probability before it that it ruled out.")),
			need("before", orNull(number("The picked token's log-probability before it."))),
			need("after", orNull(number("And after it."))),
			may("overtook", object("The likeliest token after it, where that was another before.", token()...)),
			need("count", whole("int32", "Tokens whose logit changed.")),
			need("moved", list(object("Those of the likeliest whose logit changed.",
				token(need("by", orNull(number("What was added; null where it was ruled out."))))...))),
			may("temperature", number("That is in force from then on.")),
			may("forced", whole("int64", "The token that it forced.")),
			may("stop", flag("It ended the text."))),
		"Receipt": object("What a reply follows from: the same request with the same seed gets the same tokens from a server whose receipt is the same.",
			need("version", whole("int32", "Of this form.")), may("server", text("The program's version.")),
			may("model", text("")), may("weights_sha256", sum("of the weights as they are computed with.")),
			may("tokenizer_sha256", sum("of the tokenizer.")), may("format", text("Of the weights.")),
			may("kernels", text("Instruction sets of attention and products.")),
			may("kv_dtype", text("What keys and values are stored as.")),
			may("jump", text("`force` where tokens of text without a choice are the tokenizer's.")), may("adapter", text("")),
			may("adapter_sha256", sum("of the adapter.")), may("template_sha256", sum("of the chat template's text.")),
			may("grammar_sha256", sum("of the grammar with its language; white space of JSON does not count.")),
			may("plugins", list(object("", need("name", text("")), need("use", text("The kind that it was used as.")),
				may("version", text("")), need("sha256", sum("of the module.")),
				may("config_mac", text("HMAC-SHA256 of its operator's settings: 16 digits that name the key, a full stop, 64 digits."))))),
			need("prompt", object("", need("tokens", whole("int32", "")),
				need("sha256", sum("of the tokens, four bytes each, the lowest first.")),
				may("images_sha256", sum("of the images.")))),
			need("seed", whole("int64", "That was used, of 64 bits.")),
			need("settings", anyObject("All that shape the text, given or not.")),
			need("outputs", list(object("Of each sequence.", need("tokens", whole("int32", "")),
				need("sha256", sum("of the tokens.")))))),
	}
}
