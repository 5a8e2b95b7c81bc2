package api

// types describe the replies of both families of routes, in the notation of
// readTypes. A type with a suffix is that of one dialect. Figures that are not
// finite are null on TGI's routes.
var types = readTypes(`
Reason = "length"|"eos_token"|"stop_sequence"
Token = {id uint, text string, logprob number|null, special bool}
PrefillToken = {id uint, text string, logprob number|null}
SimpleToken = {id uint, text string, start uint, stop uint}
Skip = {name string, error string}
BestOf = {generated_text string, finish_reason Reason, generated_tokens uint, seed uint|null, prefill [PrefillToken], tokens [Token], top_tokens? [[Token]]}
Details = {finish_reason Reason, generated_tokens uint, seed uint|null, prefill [PrefillToken], tokens [Token], best_of_sequences? [BestOf], top_tokens? [[Token]], plugins? [Skip], receipt? {...}}
GenerateResponse = {generated_text string, details? Details}
CompatResponse = [GenerateResponse]
StreamDetails3 = {finish_reason Reason, generated_tokens uint, seed uint|null, input_length uint, plugins? [Skip], receipt? {...}}
StreamDetails22 = {finish_reason Reason, generated_tokens uint, seed uint|null, plugins? [Skip], receipt? {...}}
Event3 = {index uint, token Token, top_tokens? [Token], generated_text string|null, details StreamDetails3|null}
Event22 = {index uint, token Token, top_tokens? [Token], generated_text string|null, details StreamDetails22|null}
Event06 = {token Token, top_tokens? [Token], generated_text string|null, details StreamDetails22|null}
Error = {error string, error_type string}
Tokens = [SimpleToken]
ChatTokens = {tokenize_response [SimpleToken], templated_text string}
Predictions = {predictions [string]}
Live = {live bool}
Metadata = {name string, version string, extensions [string]}
Output = {name string, shape [uint], datatype "BYTES", data [uint]}
Inference = {id string, outputs [Output]}
Info06 = {model_id string, model_sha string|null, model_dtype? string, model_device_type? string, model_pipeline_tag string|null, version string, sha string|null, ...}
Info = {model_id string, model_sha string|null, model_pipeline_tag string|null, max_concurrent_requests uint, max_best_of uint, max_stop_sequences uint, max_input_tokens uint, max_total_tokens uint, validation_workers uint, max_client_batch_size uint, router string, version string, sha string|null, docker_label string|null, ...}
Model = {id string, object "model", created uint, owned_by string, ...}
Status = "not_downloaded"|"downloading"|"downloaded"|"starting"|"running"|"stopping"|"stopped"|"error"
ListedSettings = {ctx_len? string, embedding? string, n_parallel? string, parameters? {temperature? string, token_limit? string, top_k? string, top_p? string, stream? string, ...}, ...}
Progress = {bytes_done uint, bytes_total uint|null}
Listed = {id string, object "model", created uint, owned_by string, status Status, type? string, version? string, name? string, description? string, state? "downloading"|"ready"|"starting"|"stopping", format? string, source_url string, settings? ListedSettings, metadata? {...}, progress? Progress, ...}
ListedModels = {object "list", data [Listed]}
EngineParameters = {ctx_len? uint, n_parallel? uint, cont_batching? bool, cpu_threads? uint, embedding? bool, ...}
ModelParameters = {ctx_len? uint, n_parallel? uint, embedding? bool, temperature? number, token_limit? uint, top_k? uint, top_p? number, ...}
OneModel = {id string, object "model", created uint, owned_by string, status Status, state "not_downloaded"|"downloaded"|"running"|"stopped", source_url string, engine_parameters? EngineParameters, parameters ModelParameters, model_parameters? ModelParameters, metadata {quantization? string, size? string, ...}, progress? Progress, ...}
Changed = {id string, object "model", state Status, message string, ...}
ModelsError = {error {message string, type string, param string|null, code string, ...}, error_type string, message string}
Batch = [{request_id string, prompt? string, response string}]
Models = {object "list", data [Model]}
Usage = {prompt_tokens uint, completion_tokens uint, total_tokens uint, prompt_tokens_details? {cached_tokens uint, ...}, completion_tokens_details? any}
TopLogprob = {token string, logprob number, bytes? [uint]|null}
Logprob = {token string, logprob number, bytes? [uint]|null, top_logprobs [TopLogprob]}
Logprobs = {content [Logprob]}
Call = {id string, type "function", function {name string, arguments any, description? string|null}}
Message = {role "assistant", content? string|null, tool_calls? [Call], ...}
ChatChoice = {index uint, message Message, logprobs Logprobs|null, finish_reason string}
Chat = {object "chat.completion", id string, created uint, model string, system_fingerprint string, choices [ChatChoice], usage Usage, plugins? [Skip]}
CallDelta = {index uint, id? string, type? "function", function {name? string|null, arguments string}}
Delta = {role? "assistant", content? string|null, reasoning? string, reasoning_content? string, tool_calls? [CallDelta]|CallDelta}
ChunkChoice = {index uint, delta Delta, logprobs Logprobs|null, finish_reason string|null}
ChatChunk = {object "chat.completion.chunk", id string, created uint, model string, system_fingerprint string, choices [ChunkChoice], usage? Usage|null, plugins? [Skip]}
ResponseError = {code string, message string}
Response = {id string, object "response", created_at uint, status "queued"|"in_progress"|"completed"|"incomplete"|"failed"|"cancelled", error ResponseError|null, incomplete_details any, output [{id string, type string, ...}], usage any, model string, tools [any], tool_choice any, parallel_tool_calls bool, ...}
AnthropicUsage = {input_tokens uint, output_tokens uint, cache_read_input_tokens uint, cache_creation_input_tokens uint, ...}
OllamaChat = {model string, created_at string, message {role "assistant", content string, ...}, done bool, done_reason string, prompt_eval_count uint, eval_count uint, total_duration uint, load_duration uint, prompt_eval_duration uint, eval_duration uint, ...}
OllamaGenerate = {model string, created_at string, response string, done bool, done_reason string, ...}
OllamaError = {error string}
AnthropicMessage = {id string, type "message", role "assistant", model string, content [{type string, ...}], stop_reason string|null, stop_sequence string|null, usage AnthropicUsage, ...}
Columns = {tokens [string], token_logprobs [number|null], top_logprobs [any]|null, text_offset [uint]}
Choice = {index uint, text string, logprobs Columns|null, finish_reason string}
Completion = {object "text_completion", id string, created uint, model string, system_fingerprint string, choices [Choice], usage Usage, plugins? [Skip]}
PieceChoice = {index uint, text string, logprobs Columns|null, finish_reason string|null}
Piece = {object "text_completion", id string, created uint, model string, system_fingerprint string, choices [PieceChoice], usage? Usage|null, plugins? [Skip]}
ErrorObject = {error {message string, type string, param string|null, code string|null}, error_type string}
EventErrorThis = {error {message string, type string, param string|null, code string|null, http_status_code uint}, error_type string}
EventError = {error {message string, http_status_code uint}}
`)

// fits notes where v is not of the type.
func (p *probe) fits(kind string, v value) {
	s, ok := types[kind]
	if !ok {
		panic("BUG: there is no type " + kind)
	}
	for _, wrong := range types.check(kind, s, v.any) {
		p.fail("%s", wrong)
	}
}

// event is the type of an event of TGI's streams.
func (f form) event() string {
	switch {
	case f.inputLength:
		return "Event3"
	case f.index:
		return "Event22"
	}
	return "Event06"
}

// refusal is the type of an error on OpenAI's routes.
func (f form) refusal() string {
	if f.errorObject {
		return "ErrorObject"
	}
	return "Error"
}

// eventRefusal is the type of an error in the streams of OpenAI's routes.
func (f form) eventRefusal() string {
	switch {
	case !f.eventErrorObject:
		return "Error"
	case f.this:
		return "EventErrorThis"
	}
	return "EventError"
}
