package openapi

import "net/http"

// modelsCalls are the operations on models.
func modelsCalls() []call {
	const all, one = "/v1/models", "/v1/models/{id}"
	begun := map[int]string{http.StatusAccepted: "It goes on: ask for the model to see how far it is"}
	replies := func(name string) map[string]*Schema { return map[string]*Schema{mediaJSON: ref(name)} }
	get := func(path, summary, name string, fails ...int) call {
		return call{method: http.MethodGet, path: path, tag: tagModels, summary: summary, replies: replies(name),
			fails: fails}
	}
	act := func(method, path, summary, reads string, fails ...int) call {
		return call{method: method, path: path, tag: tagModels, summary: summary + " Needs a key of administrators.",
			reads: reads, replies: replies("ModelChange"), also: begun, fails: fails}
	}
	// Bodies may be wrong in these ways.
	body := []int{400, 413, 415, 422}
	with := func(fails ...int) []int { return append(fails, body...) }

	list := get(all, "All models, the default first", "ModelsInfo", 422)
	list.query = []Parameter{{Name: "filter", In: "query",
		Schema:      words("", "all", "running", "downloaded", "downloading"),
		Description: "Which of them; without it all."}}
	download := act(http.MethodGet, all+"/download/{id}", "Download a model by its id.", "", 404, 409, 422, 507)
	cancel := act(http.MethodDelete, all+"/pull", "End a download, with which a pull can go on.", "ModelTask",
		with(404, 409)...)
	cancel.also = nil
	remove := call{
		method: http.MethodDelete, path: one, tag: tagModels,
		summary: "Delete the files of a model that does not run. Needs a key of administrators.",
		replies: replies("ModelDeleted"), fails: []int{404, 409},
	}
	out := []call{
		list, get(one, "A model, by its id or by a name that means the default", "ModelInfo", 404),
		act(http.MethodPost, all+"/start", "Load a model.", "ModelName", with(404, 409, 503, 507)...),
		act(http.MethodPost, all+"/stop", "Stop a model when the requests that it has are answered.", "ModelName",
			with(404, 409)...),
		act(http.MethodPost, all+"/pull", "Download a model.", "ModelPull", with(404, 409, 507)...),
		act(http.MethodPost, all+"/import", "Copy a model from the server's own disk.", "ModelImport",
			with(404, 409, 507)...),
		download, cancel, remove,
	}
	for _, c := range []call{
		{path: "/v1/load_lora_adapter", reads: "AdapterLoad", fails: with(404, 409, 503),
			summary: "Give a model a low-rank adapter from the server's own disk."},
		{path: "/v1/unload_lora_adapter", reads: "AdapterUnload", fails: with(404),
			summary: "Take an adapter away again. Requests that use it end with it."},
	} {
		c.method, c.tag, c.summary = http.MethodPost, tagModels, c.summary+" Needs a key of administrators."
		c.replies = map[string]*Schema{mediaText: text("What was done.")}
		out = append(out, c)
	}
	for _, method := range []string{http.MethodPut, http.MethodPost} {
		start := act(method, one+"/start", "Load a model.", "ModelName", with(404, 409, 503, 507)...)
		stop := act(method, one+"/stop", "Stop a model when the requests that it has are answered.", "ModelName",
			with(404, 409)...)
		start.optional, stop.optional = true, true
		out = append(out, start, stop)
	}
	return out
}

// models are the schemas of the routes about models.
func models() map[string]*Schema {
	return map[string]*Schema{
		"ModelsInfo": object("", need("object", words("", "list")), need("data", list(ref("ModelInfo")))),
		"ModelInfo":  model(),
		"ModelChange": object("What became of a model by an action.",
			need("id", text("")), need("object", words("", "model")), need("state", ref("ModelStatus")),
			need("message", text("")),
			may("warning", text("What of the body was not applied.")), may("progress", ref("ModelProgress")),
			may("failure", text("Why the last step failed.")),
			may("task", object("A download. There is one for each model at most, so that its id is the model's.",
				need("id", text("")), need("type", words("", "Model")),
				need("items", list(object("", need("id", text("")), need("bytes", orNull(whole("int64", ""))),
					need("downloadedBytes", whole("int64", "")), need("downloadUrl", text(""))))))),
			may("taskId", text("Of a download that was ended.")), may("modelHandle", text("Of an import.")),
			may("result", text("Of an import."))),
		"ModelDeleted": object("", need("id", text("")), need("object", words("", "model")), need("deleted", flag("")),
			need("message", text(""))),
		"ModelsError": object("OpenAI's error, with what clients of TGI and of Jan read beside it.",
			need("error", object("", need("message", text("")), need("type", text("")), need("param", orNull(text(""))),
				need("code", text("")),
				may("needed_bytes", whole("int64", "Of a 507.")), may("free_bytes", whole("int64", "Of a 507.")))),
			need("error_type", text("")), need("message", text(""))),
		"ModelStatus": words("Where a model is in its life.", "not_downloaded", "downloading", "downloaded", "starting",
			"running", "stopping", "stopped", "error"),
		"ModelProgress": object("Of a download.", need("bytes_done", whole("int64", "")),
			need("bytes_total", orNull(whole("int64", "Null while it is not known.")))),
		"ModelName": object("Other members are ignored, and named in the reply's warning.",
			may("model", orNull(text("The model's id, unless the address has it."))),
			may("id", orNull(text("The same.")))),
		"ModelTask": object("", may("taskId", orNull(text("The download's, which is the model's id."))),
			may("model", orNull(text("The model's id.")))),
		"ModelPull": object("", need("model",
			example(text("A repository, with :tag or @revision, a URL, or the id of a model that is known."),
				"org/name")),
			may("id", orNull(text("The id that the model gets."))), may("name", orNull(text("What people call it.")))),
		"ModelImport": object("", need("model", text("The id that the model gets.")),
			need("modelPath", text("The checkpoint on the server's disk.")),
			may("name", orNull(text("What people call it."))),
			may("option", orNull(words("Files are copied, whatever it is.", "symlink", "copy")))),
		"AdapterLoad": object("", need("lora_name", text("What requests call it.")),
			need("lora_path", text("Its folder, as PEFT saves it.")),
			may("model", orNull(text("The id of its model; the default, if left out."))),
			may("load_inplace", orNull(flag("Whether it may take the place of another of its name.")))),
		"AdapterUnload": object("", need("lora_name", text(""))),
	}
}

// model describes a model, in the list or alone: OpenAI's four members, those of
// Jan's API, and the exact state.
func model() *Schema {
	const alone, listed = "Not in the list.", "In the list alone."
	parameters := func() *Schema {
		return object(alone, may("ctx_len", whole("", "")), may("embedding", flag("")),
			may("n_parallel", whole("", "")),
			may("temperature", number("")),
			may("token_limit", whole("", "")), may("top_k", whole("", "")), may("top_p", number("")))
	}
	return object("",
		need("id", text("")), need("object", example(text(""), "model")),
		need("created", whole("int64", "Seconds since 1970.")), need("owned_by", text("")),
		may("parent", text("The model of which this is a low-rank adapter.")),
		need("status", ref("ModelStatus")),
		may("state", text("The nearest state that Jan's API has; status is exact.")),
		need("name", text("What people call it.")), may("description", text("")), may("format", text("Of the files.")),
		need("source_url", text("Where its files come from, or urn:tgi:model: and the id.")),
		may("context_length", whole("", "Tokens of prompt and output together.")),
		may("input_modalities", list(words("What it reads, while it runs.", "text", "image"))),
		may("chat_templates", list(text("Names of its chat templates, while it runs and where it has several."))),
		may("progress", ref("ModelProgress")), may("failure", text("Why the last step failed.")),
		need("metadata", object("", may("quantization", text("")), may("size", text("Parameters, such as 1.5B.")),
			may("memory_bytes", whole("int64", "")), may("disk_bytes", whole("int64", "")))),
		may("type", text(listed)), may("version", text(listed)),
		may("settings", object(listed, may("ctx_len", text("")), may("embedding", text("")),
			may("n_parallel", text("")),
			may("parameters", object("", may("temperature", text("")), may("token_limit", text("")),
				may("top_k", text("")),
				may("top_p", text("")), may("stream", text("")))))),
		may("engine_parameters", object(alone, may("ctx_len", whole("", "")), may("n_parallel", whole("", "")),
			may("cont_batching", flag("")), may("cpu_threads", whole("", "")), may("embedding", flag("")))),
		may("parameters", parameters()), may("model_parameters", parameters()),
	)
}
