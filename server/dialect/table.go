package dialect

// Names of the dialects.
const (
	TGI06 = "tgi-0.6"
	TGI22 = "tgi-2.2"
	TGI3  = "tgi-3"
)

// Dialect is one column of the table. The values of All must not be changed;
// copies may be. The tag "of" names the packages below server that read a
// field.
//
// The number at the end of a field's comment is the version of TGI that changed
// it, as read from router/src of its repository at the tags. TGI 0.6 had no
// OpenAI routes: there its column repeats that of 2.2.
type Dialect struct {
	name string

	// MaxNewTokens is the length of a generation on TGI's routes when the body
	// does not have the field; 0 is the rest of the context. 1.x: 20 became 100,
	// 3.0.0: the rest.
	MaxNewTokens uint32 `of:"tgi"`
	// NullMaxNewTokens lets max_new_tokens be null, which is the rest of the
	// context, also where the field's absence is a number. 1.x: it was a plain u32.
	NullMaxNewTokens bool `of:"tgi"`
	// SampleByDefault draws when the body has no parameters at all; empty
	// parameters never do. 1.4.0.
	SampleByDefault bool `of:"tgi"`
	// PrefillAlways puts the prompt's tokens into every details of a whole reply;
	// without it decoder_input_details asks for them. 0.9.0.
	PrefillAlways bool `of:"tgi"`
	// StreamIndex puts index before the token of an event. 1.4.0.
	StreamIndex bool `of:"tgi"`
	// StreamInputLength puts input_length into the details of the last event. 2.3.0.
	StreamInputLength bool `of:"tgi"`
	// EventPrefix begins the lines of events, with or without a space. 2.1.0,
	// with axum 0.7. OpenAI's routes came later, and their clients look for the
	// space.
	EventPrefix string `of:"tgi"`
	// TokenHeaders sends x-prompt-tokens and x-generated-tokens. 1.4.0.
	TokenHeaders bool `of:"tgi"`
	// ComputeSeconds counts x-compute-time in seconds with a fraction; before,
	// in whole milliseconds. After 0.6.
	ComputeSeconds bool `of:"tgi"`
	// InfoLimits puts the router's name and limits into /info. After 0.6.
	InfoLimits bool `of:"tgi"`
	// InvocationsAny lets POST /invocations take the bodies of /, of chat and of
	// completions, told apart by inputs, messages and prompt; before, a switch of
	// the launcher chose between the first two. 2.4.0.
	InvocationsAny bool `of:"tgi"`
	// VertexChat lets an instance of POST /vertex be a conversation. 2.3.0.
	VertexChat bool `of:"tgi"`

	// ChatMaxTokens is the length of a generation on OpenAI's routes when the
	// body does not have the field or has null; 0 is the rest of the context. 3.0.0.
	ChatMaxTokens uint32 `of:"openai"`
	// FinishEOS is the finish_reason for the model's own end. 2.3.0.
	FinishEOS string `of:"openai"`
	// FinishStop is the finish_reason for a stop string. TGI never changed it;
	// tgi-3 says what OpenAI's clients know.
	FinishStop string `of:"openai"`
	// FinishTools is the finish_reason of tool calls. As FinishStop.
	FinishTools string `of:"openai"`
	// KeepStop leaves the stop string at the end of the text. As FinishStop.
	KeepStop bool `of:"openai"`
	// UniqueIDs gives every reply an id of its own; before, it was the empty
	// string. As FinishStop.
	UniqueIDs bool `of:"openai"`
	// RoleFirst begins a chat stream with a chunk of the role alone; before, every
	// chunk repeated the role. As FinishStop.
	RoleFirst bool `of:"openai"`
	// EchoModel replies to chat with the model that the request named, unless
	// it means the default; before, with the served one. 3.0.0.
	EchoModel bool `of:"openai"`
	// ChunkUsage puts usage, null in all chunks but the one that was asked for,
	// into the chunks of a chat stream. 2.3.0.
	ChunkUsage bool `of:"openai"`
	// CompletionEnd ends each prompt of a completions stream with a chunk that
	// has a finish_reason and usage; before, the reason stayed empty. 2.3.0.
	CompletionEnd bool `of:"openai"`
	// StreamErrorObject makes error an object with message and http_status_code
	// in the events of OpenAI's routes; before, it was the text beside
	// error_type. 2.4.1.
	StreamErrorObject bool `of:"openai"`
	// ReplyErrorObject makes error an object of OpenAI's shape in replies that
	// are no streams. As FinishStop.
	ReplyErrorObject bool `of:"openai"`
	// ToolDeltaArray makes delta.tool_calls an array of what is new; before, one
	// object with all members and an empty id. 3.2.0.
	ToolDeltaArray bool `of:"openai"`
	// AnswerOrCalls lets a request have tools and a response_format: its reply is
	// of one of them; before, such requests were refused. As FinishStop.
	AnswerOrCalls bool `of:"openai"`
	// ToolArgumentsText makes a tool call's arguments JSON in a string, beside a
	// content that may be null; before, they were an object beside a description,
	// null, and there was no content where nothing was said. 3.2.0, where the
	// description was still there; tgi-3 says what OpenAI's clients know.
	ToolArgumentsText bool `of:"openai"`
}

// All are the dialects, the oldest first.
var All = []*Dialect{
	{
		name:         TGI06,
		MaxNewTokens: 20, PrefillAlways: true, EventPrefix: "data:",
		ChatMaxTokens: 100, FinishEOS: "eos_token", FinishStop: "stop_sequence", FinishTools: "eos_token",
		KeepStop: true,
	},
	{
		name:         TGI22,
		MaxNewTokens: 100, NullMaxNewTokens: true, SampleByDefault: true, StreamIndex: true, EventPrefix: "data: ",
		TokenHeaders: true, ComputeSeconds: true, InfoLimits: true,
		ChatMaxTokens: 100, FinishEOS: "eos_token", FinishStop: "stop_sequence", FinishTools: "eos_token",
		KeepStop: true,
	},
	{
		name:             TGI3,
		NullMaxNewTokens: true, SampleByDefault: true, StreamIndex: true, StreamInputLength: true,
		EventPrefix:  "data: ",
		TokenHeaders: true, ComputeSeconds: true, InfoLimits: true, InvocationsAny: true, VertexChat: true,
		FinishEOS: "stop", FinishStop: "stop", FinishTools: "tool_calls", UniqueIDs: true, RoleFirst: true,
		EchoModel: true, ChunkUsage: true, CompletionEnd: true, StreamErrorObject: true, ReplyErrorObject: true,
		ToolDeltaArray: true, AnswerOrCalls: true, ToolArgumentsText: true,
	},
}
