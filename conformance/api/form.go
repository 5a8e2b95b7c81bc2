package api

// Source names of rules. The numbers are TGI's releases.
const (
	ofRoutes   = "TGI 3.3, router/src/server.rs, routes"
	ofRequest  = "TGI 3.3, router/src/lib.rs, GenerateRequest"
	ofResponse = "TGI 3.3, router/src/lib.rs, GenerateResponse"
	ofStream   = "TGI 3.3, router/src/lib.rs, StreamResponse"
	ofHeaders  = "TGI 3.3, router/src/server.rs, headers of generate"
	ofChecks   = "TGI 3.3, router/src/validation.rs, validate"
	ofErrors   = "TGI 3.3, router/src/infer/mod.rs, InferError"
	ofSampling = "TGI 3.3, server/utils/tokens.py"
	ofBodies   = "TGI 3.3, axum's Json extractor"
	ofSSE      = "TGI 3.3, axum's Sse response"
	ofMetrics  = "TGI 3.3, docs/source/reference/metrics.md and router/src/server.rs"
	ofChat     = "TGI 3.3, router/src/chat.rs and OpenAI's API reference, chat/create"
	ofClouds   = "TGI 3.3, router/src/{vertex,sagemaker,kserve}.rs"
	ofOpenAI   = "OpenAI's API reference"
	ofClients  = "huggingface_hub, openai-python: what their parsers need"
	ofShared   = "DataCrunch (Verda), shared inference endpoint: POST /v1/completions/generate"
	ofJan      = "Jan, docs/openapi/specs/models.yaml, and cortex.cpp's routes"
	ofServer   = "this server's README and OpenAPI document"
)

// form is what differs between the dialects, and between this server and TGI
// itself, in which it keeps OpenAI's rules where TGI broke OpenAI's clients.
type form struct {
	name string
	// this is false for TGI itself.
	this bool

	eventPrefix    string
	index          bool // of stream events
	inputLength    bool // in the details of streams
	prefillAlways  bool
	tokenHeaders   bool
	computeSeconds bool
	infoLimits     bool
	maxNewTokens   int  // 0 is the rest of the context
	draws          bool // without parameters
	nullLength     bool
	invocationsAny bool
	vertexChat     bool
	latestMetrics  bool

	finishEOS, finishStop, finishTools string
	argumentsText                      bool // calls have their arguments as text, streams a list of calls
	keepStop                           bool
	uniqueIDs                          bool
	roleFirst                          bool
	echoModel                          bool
	usageChunk                         bool // on request
	usageAlways                        bool // null in chunks of streams that did not ask
	completionEnd                      bool
	emptyReason                        bool // completions' chunks have "" where others have null
	errorObject                        bool // replies
	eventErrorObject                   bool
	eagerErrors                        bool // streams that cannot begin get a status
}

// lengthZero is the text about a max_tokens of 0 on OpenAI's routes. TGI's has its own name for the field.
func (f form) lengthZero() string {
	if f.errorObject {
		return "`max_tokens` must be strictly positive"
	}
	return "`max_new_tokens` must be strictly positive"
}

// formOf returns what a server of that kind must do in the dialect.
func formOf(name string, this bool) (form, bool) {
	f := form{
		name: name, this: this, index: true, tokenHeaders: true, computeSeconds: true, infoLimits: true,
		nullLength: true, latestMetrics: true,
		eventPrefix: "data: ", finishEOS: "eos_token", finishStop: "stop_sequence", finishTools: "eos_token",
		keepStop: true, emptyReason: true,
	}
	switch name {
	case TGI06:
		f.eventPrefix, f.index, f.tokenHeaders, f.computeSeconds, f.infoLimits, f.nullLength = "data:", false, false,
			false, false, false
		f.prefillAlways, f.maxNewTokens, f.latestMetrics = true, 20, this
	case TGI22:
		f.maxNewTokens, f.draws = 100, true
	case TGI3:
		f.draws, f.inputLength, f.invocationsAny, f.vertexChat = true, true, true, true
		f.finishEOS, f.echoModel, f.usageChunk, f.completionEnd, f.eventErrorObject = "stop", true, true, true, true
		f.usageAlways = !this
		if this {
			f.finishTools, f.argumentsText = "tool_calls", true
			f.finishStop, f.keepStop, f.uniqueIDs, f.roleFirst, f.emptyReason, f.errorObject, f.eagerErrors = "stop",
				false, true, true, false, true, true
		}
	default:
		return form{}, false
	}
	return f, true
}
