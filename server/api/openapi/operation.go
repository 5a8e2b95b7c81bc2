package openapi

import (
	"cmp"
	"maps"
	"net/http"
	"slices"
	"strconv"
	"strings"

	"tgi/server/dialect"
)

// Operation is an OpenAPI operation object.
type Operation struct {
	Tags        []string            `json:"tags"`
	Summary     string              `json:"summary,omitempty"`
	OperationID string              `json:"operationId"`
	Parameters  []Parameter         `json:"parameters,omitempty"`
	RequestBody *RequestBody        `json:"requestBody,omitempty"`
	Responses   map[string]Response `json:"responses"`
	// Security is set on routes that need no key.
	Security *[]map[string][]string `json:"security,omitempty"`
}

// Parameter is a header or a part of the path.
type Parameter struct {
	Name        string  `json:"name"`
	In          string  `json:"in"`
	Required    bool    `json:"required,omitempty"`
	Description string  `json:"description,omitempty"`
	Schema      *Schema `json:"schema"`
}

// RequestBody is what an operation reads.
type RequestBody struct {
	Content  map[string]Media `json:"content"`
	Required bool             `json:"required"`
}

// Response is what it replies.
type Response struct {
	Description string            `json:"description"`
	Headers     map[string]Header `json:"headers,omitempty"`
	Content     map[string]Media  `json:"content,omitempty"`
}

// Header is one of a response.
type Header struct {
	Description string  `json:"description,omitempty"`
	Schema      *Schema `json:"schema"`
}

// Media is a body of one media type.
type Media struct {
	Schema  *Schema        `json:"schema"`
	Example map[string]any `json:"example,omitempty"`
}

// Media types.
const (
	mediaJSON   = "application/json"
	mediaEvents = "text/event-stream"
	mediaText   = "text/plain"
)

// call describes an operation in few words.
type call struct {
	method, path, tag, summary string
	// reads is the schema of the body; empty for none.
	reads string
	// body is the media type of the body; "" is JSON.
	body string
	// optional bodies may be left out.
	optional bool
	// replies maps media types to the schemas of a 200; none is an empty reply.
	replies map[string]*Schema
	// also are further statuses with the same replies, and what they mean.
	also map[int]string
	// only is the one status of success that is no 200; 0 is 200.
	only int
	// fails lists the statuses of generation besides those that every route has.
	fails []int
	// whole replies have the headers of a finished generation.
	timed bool
	// query are parameters of the query.
	query []Parameter
}

// op is a call of TGI's or OpenAI's routes.
func op(method, path, tag, summary, reads string, replies map[string]*Schema, fails []int, timed bool) call {
	c := call{method: method, path: path, tag: tag, summary: summary, reads: reads, replies: replies, fails: fails,
		timed: timed}
	if slices.Equal(fails, choosing) {
		c.query = []Parameter{whichModel()}
	}
	return c
}

// whichModel is the parameter with which requests without a body choose a model.
func whichModel() Parameter {
	return Parameter{Name: "model", In: "query", Schema: text(""),
		Description: "The model that is meant; without it the default one."}
}

const (
	tagTGI    = "Text Generation Inference"
	tagOpenAI = "OpenAI"
	tagModels = "Models"
	tagPlain  = "Generate API"
	// tagAnthropic is that of Anthropic's API.
	tagAnthropic = "Anthropic"
	// tagResponses is that of OpenAI's Responses API.
	tagResponses = "OpenAI responses"
	tagCloud     = "SageMaker, Vertex AI, KServe"
	tagServer    = "Server"
)

// generating are the statuses of routes that generate.
var generating = []int{422, 424, 429, 500, 400, 404, 413, 415, 503, 507}

// parsing are those of routes that read a body and generate nothing.
var parsing = []int{422, 400, 404, 413, 415, 503, 507}

// choosing are those of routes that are about a model.
var choosing = []int{404, 503, 507}

// calls are all operations that have a description.
func calls() []call {
	body := func(s *Schema) map[string]*Schema { return map[string]*Schema{mediaJSON: s} }
	both := func(whole, event *Schema) map[string]*Schema {
		return map[string]*Schema{mediaJSON: whole, mediaEvents: event}
	}
	const version = "/v2/models/{model_name}/versions/{model_version}"
	return slices.Concat([]call{
		op(http.MethodPost, "/", tagTGI, "Generate tokens, or stream them if `stream` is set", "CompatGenerateRequest",
			both(list(ref("GenerateResponse")), ref("StreamResponse")), generating, true),
		op(http.MethodPost, "/generate", tagTGI, "Generate tokens", "GenerateRequest", body(ref("GenerateResponse")),
			generating, true),
		op(http.MethodPost, "/generate_stream", tagTGI, "Generate a stream of tokens", "GenerateRequest",
			map[string]*Schema{mediaEvents: ref("StreamResponse")}, generating, false),
		op(http.MethodPost, "/v1/completions/generate", tagTGI, "Generate tokens, where hosts of many models have it",
			"GenerateRequest", body(ref("GenerateResponse")), generating, true),
		op(http.MethodPost, "/v1/completions/generate_stream", tagTGI,
			"Generate a stream of tokens, where hosts of many models have it", "GenerateRequest",
			map[string]*Schema{mediaEvents: ref("StreamResponse")}, generating, false),
		op(http.MethodPost, "/tokenize", tagTGI, "Tokenize inputs", "GenerateRequest",
			body(anyOf("TextTokens of a model that turns texts into vectors or scores.", ref("TokenizeResponse"),
				ref("TextTokens"))), parsing, false),
		op(http.MethodPost, "/chat_tokenize", tagTGI, "Render a conversation and tokenize it", "ChatRequest",
			body(ref("ChatTokenizeResponse")), parsing, false),
		op(http.MethodGet, "/info", tagTGI, "What is served", "",
			body(anyOf("", ref("Info"), ref("TextModelInfo"))), choosing, false),
		op(http.MethodPost, "/v1/chat/completions", tagOpenAI, "Answer a conversation", "ChatRequest",
			both(ref("ChatCompletion"), ref("ChatCompletionChunk")), generating, true),
		op(http.MethodPost, "/v1/completions", tagOpenAI, "Continue one or several prompts", "CompletionRequest",
			both(ref("CompletionFinal"), ref("Chunk")), generating, false),
		op(http.MethodPost, "/invocations", tagCloud, "Generate tokens from a SageMaker request", "SagemakerRequest",
			both(anyOf("", list(ref("GenerateResponse")), ref("ChatCompletion"), ref("CompletionFinal")),
				anyOf("", ref("StreamResponse"), ref("ChatCompletionChunk"), ref("Chunk"))), generating, true),
		op(http.MethodPost, "/vertex", tagCloud, "Generate tokens from a Vertex request", "VertexRequest",
			body(ref("VertexResponse")), generating, false),
		op(http.MethodGet, "/v2", tagCloud, "The server", "", body(ref("MetadataServerResponse")), nil, false),
		op(http.MethodGet, "/v2/health/live", tagCloud, "Whether the process answers", "", body(ref("LiveResponse")),
			nil,
			false),
		op(http.MethodGet, "/v2/health/ready", tagCloud, "Whether requests are accepted", "",
			body(ref("ReadyResponse")),
			[]int{503}, false),
		op(http.MethodGet, version, tagCloud, "A version of a model", "", body(ref("MetadataServerResponse")), choosing,
			false),
		op(http.MethodGet, version+"/ready", tagCloud, "Whether requests are accepted", "", body(ref("ReadyResponse")),
			[]int{503}, false),
		op(http.MethodPost, version+"/infer", tagCloud, "Generate a text per input", "InferenceRequest",
			body(ref("InferenceOutput")), generating, false),
		op(http.MethodGet, "/health", tagServer, "Whether requests are accepted", "", nil, []int{503}, false),
		op(http.MethodGet, "/ping", tagServer, "Whether requests are accepted, for SageMaker", "", nil, []int{503},
			false),
		op(http.MethodGet, "/", tagServer, "Whether requests are accepted", "", nil, []int{503}, false),
		op(http.MethodGet, "/readyz", tagServer, "Whether requests are accepted", "", nil, []int{503}, false),
		op(http.MethodGet, "/livez", tagServer, "Whether restarting would help", "", nil, []int{503}, false),
		op(http.MethodGet, "/startupz", tagServer, "Whether the model is loaded", "", nil, []int{503}, false),
		op(http.MethodGet, "/metrics", tagServer, "Prometheus metrics", "",
			map[string]*Schema{mediaText: {Type: "string"}},
			nil, false),
		op(http.MethodGet, "/docs", tagServer, "This document as a page", "",
			map[string]*Schema{"text/html": {Type: "string"}}, nil, false),
		op(http.MethodGet, "/api-doc/openapi.json", tagServer, "This document", "", body(anyObject("")), nil, false),
	}, modelsCalls(), plainCalls(), anthropicCalls(), textCalls(), responsesCalls(), ollamaCalls(),
		batchCalls(), routerCalls())
}

// failures are what clients see of each status.
var failures = map[int]struct{ about, text, kind string }{
	400: {"The body is not JSON",
		"Failed to parse the request body as JSON: EOF while parsing a value at line 1 column 0", "bad_request"},
	404: {"No model has the name", "The model `x` does not exist", "model_not_found"},
	409: {"The model's state forbids it", "the model's state does not allow this", "conflict"},
	413: {"The body is too large", "Failed to buffer the request body: length limit exceeded", "payload_too_large"},
	415: {"The body does not say that it is JSON", "Expected request with `Content-Type: application/json`",
		"unsupported_media_type"},
	422: {"Input validation error", "Input validation error: `inputs` cannot be empty", "validation"},
	424: {"Generation Error", "Request failed during generation: forward pass failed", "generation"},
	429: {"Model is overloaded", "Model is overloaded", "overloaded"},
	500: {"Incomplete generation", "Incomplete generation", "incomplete_generation"},
	503: {"Loading, stopped, shutting down or stuck", "unhealthy", "healthcheck"},
	529: {"Loading, stopped, shutting down or stuck", "unhealthy", "healthcheck"},
	507: {"There is not enough memory or disk", "not enough memory: the model needs 2 bytes, 1 are free",
		"insufficient_memory"},
}

// operation spells c out for a route at path, which needs a key or not.
func (c *call) operation(path string, keyed bool) *Operation {
	o := &Operation{
		Tags: []string{c.tag}, Summary: c.summary, OperationID: operationID(c.method, path),
		Parameters: pathParameters(path), Responses: c.successes(),
	}
	if keyed {
		o.Parameters = append(o.Parameters, c.query...)
	}
	if c.reads != "" {
		o.RequestBody = &RequestBody{Required: !c.optional,
			Content: map[string]Media{cmp.Or(c.body, mediaJSON): {Schema: ref(c.reads)}}}
		if !slices.Contains([]string{tagModels, tagPlain, tagAnthropic, tagResponses, tagOllama, tagBatches}, c.tag) {
			o.Parameters = append(o.Parameters, Parameter{
				Name: dialect.Header, In: "header", Schema: words("", dialect.Names()...),
				Description: "Whose bytes the reply has; without it the server's own setting.",
			})
		}
	}
	for _, status := range c.fails {
		o.Responses[strconv.Itoa(status)] = c.failure(status)
	}
	if !keyed {
		o.Security = &[]map[string][]string{}
		return o
	}
	o.Responses["401"] = Response{Description: "The key is missing or wrong"}
	forbidden := Response{Description: "The key opens other routes, or is for other models or plugins",
		Content: media(map[string]*Schema{mediaJSON: c.forbidden()}, nil)}
	if c.tag == tagPlain {
		forbidden.Content[mediaText] = Media{Schema: text("")}
	}
	o.Responses["403"] = forbidden
	return o
}

// successes are the responses to requests that are taken.
func (c *call) successes() map[string]Response {
	status := "200"
	if c.only != 0 {
		status = strconv.Itoa(c.only)
	}
	ok := Response{Description: c.summary, Content: media(c.replies, nil)}
	if c.timed {
		ok.Headers = timings()
	}
	out := map[string]Response{status: ok}
	for status, about := range c.also {
		out[strconv.Itoa(status)] = Response{Description: about, Content: media(c.replies, nil)}
	}
	return out
}

// failure is the response with a status to requests that are refused.
func (c *call) failure(status int) Response {
	f := failures[status]
	r := Response{Description: f.about}
	switch c.tag {
	case tagPlain:
		r.Content = map[string]Media{mediaText: {Schema: text("")}}
	case tagModels, tagAnthropic, tagResponses, tagOllama, tagBatches:
		r.Content = media(map[string]*Schema{mediaJSON: c.shape()}, nil)
	default:
		kinds := map[string]*Schema{mediaJSON: c.shape()}
		if _, ok := c.replies[mediaEvents]; ok {
			// A stream whose header was sent reports its errors as events.
			kinds[mediaEvents] = c.shape()
		}
		r.Content = media(kinds, map[string]any{"error": f.text, "error_type": f.kind})
	}
	if status == http.StatusServiceUnavailable || status == http.StatusTooManyRequests {
		r.Headers = map[string]Header{
			"retry-after": {Description: "Seconds until it is worth asking again.",
				Schema: whole("", "")}}
	}
	return r
}

// shape is that of an error.
func (c *call) shape() *Schema {
	switch c.tag {
	case tagModels:
		return ref("ModelsError")
	case tagAnthropic:
		return ref("AnthropicError")
	case tagResponses, tagBatches:
		return ref("OpenAIError")
	case tagOllama:
		return ref("OllamaError")
	case tagOpenAI:
		return anyOf("", ref("OpenAIError"), ref("ErrorResponse"))
	}
	if c.path == "/v1/rerank" || c.path == "/v2/rerank" {
		return anyOf("", ref("DocumentsError"), ref("ErrorResponse"))
	}
	return ref("ErrorResponse")
}

// forbidden is the shape of what a key does not open: what is found before the
// route's own handler has TGI's everywhere.
func (c *call) forbidden() *Schema {
	if c.tag == tagModels {
		return anyOf("", ref("ModelsError"), ref("ErrorResponse"))
	}
	return c.shape()
}

func media(kinds map[string]*Schema, example map[string]any) map[string]Media {
	if len(kinds) == 0 {
		return nil
	}
	out := map[string]Media{}
	for kind, s := range kinds {
		out[kind] = Media{Schema: s, Example: maps.Clone(example)}
	}
	return out
}

// timings are the headers of a finished generation.
func timings() map[string]Header {
	out := map[string]Header{
		"x-compute-type": {Schema: text("")}, "x-compute-time": {Description: "Seconds; milliseconds in tgi-0.6.",
			Schema: number("")},
		"x-compute-characters": {Schema: whole("", "")},
		"x-prompt-tokens":      {Description: "Not in tgi-0.6.", Schema: whole("", "")},
		"x-generated-tokens":   {Description: "Not in tgi-0.6.", Schema: whole("", "")},
	}
	for _, name := range []string{"x-total-time", "x-validation-time", "x-queue-time", "x-inference-time",
		"x-time-per-token"} {
		out[name] = Header{Description: "Milliseconds.", Schema: whole("", "")}
	}
	return out
}

// operationID names an operation: the method and the words of the path.
func operationID(method, path string) string {
	words := strings.FieldsFunc(path, func(c rune) bool { return strings.ContainsRune("/{}-.:", c) })
	return strings.Join(append([]string{strings.ToLower(method)}, words...), "_")
}

// pathParameters are the variables of path.
func pathParameters(path string) (out []Parameter) {
	for _, part := range strings.Split(path, "/") {
		if name, ok := strings.CutPrefix(part, "{"); ok {
			out = append(out, Parameter{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true,
				Schema: text("")})
		}
	}
	return out
}
