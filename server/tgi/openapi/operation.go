package openapi

import (
	"maps"
	"net/http"
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
	// replies maps media types to the schemas of a 200; none is an empty reply.
	replies map[string]*Schema
	// fails lists the statuses of generation beside those that every route has.
	fails []int
	// whole replies have the headers of a finished generation.
	timed bool
}

const (
	tagTGI    = "Text Generation Inference"
	tagOpenAI = "OpenAI"
	tagCloud  = "SageMaker, Vertex AI, KServe"
	tagServer = "Server"
)

// generating are the statuses of routes that generate.
var generating = []int{422, 424, 429, 500, 400, 413, 415, 503}

// parsing are those of routes that read a body and generate nothing.
var parsing = []int{422, 400, 413, 415}

// calls are all operations that have a description.
func calls() []call {
	body := func(s *Schema) map[string]*Schema { return map[string]*Schema{mediaJSON: s} }
	both := func(whole, event *Schema) map[string]*Schema {
		return map[string]*Schema{mediaJSON: whole, mediaEvents: event}
	}
	const version = "/v2/models/{model_name}/versions/{model_version}"
	return []call{
		{http.MethodPost, "/", tagTGI, "Generate tokens, or stream them if `stream` is set", "CompatGenerateRequest", both(list(ref("GenerateResponse")), ref("StreamResponse")), generating, true},
		{http.MethodPost, "/generate", tagTGI, "Generate tokens", "GenerateRequest", body(ref("GenerateResponse")), generating, true},
		{http.MethodPost, "/generate_stream", tagTGI, "Generate a stream of tokens", "GenerateRequest", map[string]*Schema{mediaEvents: ref("StreamResponse")}, generating, false},
		{http.MethodPost, "/tokenize", tagTGI, "Tokenize inputs", "GenerateRequest", body(ref("TokenizeResponse")), parsing, false},
		{http.MethodPost, "/chat_tokenize", tagTGI, "Render a conversation and tokenize it", "ChatRequest", body(ref("ChatTokenizeResponse")), parsing, false},
		{http.MethodGet, "/info", tagTGI, "What is served", "", body(ref("Info")), nil, false},
		{http.MethodPost, "/v1/chat/completions", tagOpenAI, "Answer a conversation", "ChatRequest", both(ref("ChatCompletion"), ref("ChatCompletionChunk")), generating, true},
		{http.MethodPost, "/v1/completions", tagOpenAI, "Continue one or several prompts", "CompletionRequest", both(ref("CompletionFinal"), ref("Chunk")), generating, false},
		{http.MethodGet, "/v1/models", tagOpenAI, "The served model", "", body(ref("ModelsInfo")), nil, false},
		{http.MethodGet, "/v1/models/{id}", tagOpenAI, "A served model", "", body(ref("ModelInfo")), []int{404}, false},
		{http.MethodPost, "/invocations", tagCloud, "Generate tokens from a SageMaker request", "SagemakerRequest",
			both(anyOf("", list(ref("GenerateResponse")), ref("ChatCompletion"), ref("CompletionFinal")), anyOf("", ref("StreamResponse"), ref("ChatCompletionChunk"), ref("Chunk"))), generating, true},
		{http.MethodPost, "/vertex", tagCloud, "Generate tokens from a Vertex request", "VertexRequest", body(ref("VertexResponse")), generating, false},
		{http.MethodGet, "/v2", tagCloud, "The server", "", body(ref("MetadataServerResponse")), nil, false},
		{http.MethodGet, "/v2/health/live", tagCloud, "Whether the process answers", "", body(ref("LiveResponse")), nil, false},
		{http.MethodGet, "/v2/health/ready", tagCloud, "Whether requests are accepted", "", body(ref("ReadyResponse")), []int{503}, false},
		{http.MethodGet, version, tagCloud, "A version of a model", "", body(ref("MetadataServerResponse")), nil, false},
		{http.MethodGet, version + "/ready", tagCloud, "Whether requests are accepted", "", body(ref("ReadyResponse")), []int{503}, false},
		{http.MethodPost, version + "/infer", tagCloud, "Generate a text per input", "InferenceRequest", body(ref("InferenceOutput")), generating, false},
		{http.MethodGet, "/health", tagServer, "Whether requests are accepted", "", nil, []int{503}, false},
		{http.MethodGet, "/ping", tagServer, "Whether requests are accepted, for SageMaker", "", nil, []int{503}, false},
		{http.MethodGet, "/", tagServer, "Whether requests are accepted", "", nil, []int{503}, false},
		{http.MethodGet, "/readyz", tagServer, "Whether requests are accepted", "", nil, []int{503}, false},
		{http.MethodGet, "/livez", tagServer, "Whether restarting would help", "", nil, []int{503}, false},
		{http.MethodGet, "/startupz", tagServer, "Whether the model is loaded", "", nil, []int{503}, false},
		{http.MethodGet, "/metrics", tagServer, "Prometheus metrics", "", map[string]*Schema{mediaText: {Type: "string"}}, nil, false},
		{http.MethodGet, "/docs", tagServer, "This document as a page", "", map[string]*Schema{"text/html": {Type: "string"}}, nil, false},
		{http.MethodGet, "/api-doc/openapi.json", tagServer, "This document", "", body(anyObject("")), nil, false},
	}
}

// failures are what clients see of each status.
var failures = map[int]struct{ about, text, kind string }{
	400: {"The body is not JSON", "Failed to parse the request body as JSON: EOF while parsing a value at line 1 column 0", "bad_request"},
	404: {"No model has the name", "The model `x` does not exist", "model_not_found"},
	413: {"The body is too large", "Failed to buffer the request body: length limit exceeded", "payload_too_large"},
	415: {"The body does not say that it is JSON", "Expected request with `Content-Type: application/json`", "unsupported_media_type"},
	422: {"Input validation error", "Input validation error: `inputs` cannot be empty", "validation"},
	424: {"Generation Error", "Request failed during generation: forward pass failed", "generation"},
	429: {"Model is overloaded", "Model is overloaded", "overloaded"},
	500: {"Incomplete generation", "Incomplete generation", "incomplete_generation"},
	503: {"Loading, shutting down or stuck", "unhealthy", "healthcheck"},
}

// operation spells c out for a route at path, which needs a key or not.
func (c *call) operation(path string, keyed bool) *Operation {
	o := &Operation{
		Tags: []string{c.tag}, Summary: c.summary, OperationID: operationID(c.method, path),
		Parameters: pathParameters(path), Responses: map[string]Response{"200": {Description: c.summary, Content: media(c.replies, nil)}},
	}
	if c.reads != "" {
		o.RequestBody = &RequestBody{Required: true, Content: map[string]Media{mediaJSON: {Schema: ref(c.reads)}}}
		o.Parameters = append(o.Parameters, Parameter{
			Name: dialect.Header, In: "header", Schema: words("", dialect.Names()...),
			Description: "Whose bytes the reply has; without it the server's own setting.",
		})
	}
	if c.timed {
		ok := o.Responses["200"]
		ok.Headers = timings()
		o.Responses["200"] = ok
	}
	for _, status := range c.fails {
		f := failures[status]
		shape := ref("ErrorResponse")
		if c.tag == tagOpenAI {
			shape = anyOf("", ref("OpenAIError"), ref("ErrorResponse"))
		}
		kinds := map[string]*Schema{mediaJSON: shape}
		if _, ok := c.replies[mediaEvents]; ok {
			// A stream whose header is out tells its errors as events.
			kinds[mediaEvents] = shape
		}
		o.Responses[strconv.Itoa(status)] = Response{
			Description: f.about, Content: media(kinds, map[string]any{"error": f.text, "error_type": f.kind}),
		}
	}
	if !keyed {
		o.Security = &[]map[string][]string{}
		return o
	}
	o.Responses["401"] = Response{Description: "The key is missing or wrong"}
	o.Responses["403"] = Response{Description: "The key opens other routes", Content: media(map[string]*Schema{mediaJSON: ref("ErrorResponse")}, nil)}
	return o
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
		"x-compute-type": {Schema: text("")}, "x-compute-time": {Description: "Seconds; milliseconds in tgi-0.6.", Schema: number("")},
		"x-compute-characters": {Schema: whole("", "")},
		"x-prompt-tokens":      {Description: "Not in tgi-0.6.", Schema: whole("", "")},
		"x-generated-tokens":   {Description: "Not in tgi-0.6.", Schema: whole("", "")},
	}
	for _, name := range []string{"x-total-time", "x-validation-time", "x-queue-time", "x-inference-time", "x-time-per-token"} {
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
			out = append(out, Parameter{Name: strings.TrimSuffix(name, "}"), In: "path", Required: true, Schema: text("")})
		}
	}
	return out
}
