package abi

// Tools lists the further exports of kind "tools", which splits the model's text into content, reasoning and tool
// calls.
//
//	tgi_tools_begin(request, request bytes) -> packed error text, 0 = accepted
//	tgi_tools_feed(piece, bytes, flags) -> packed pointer to events and their
//	    count (not bytes), [EventSize] bytes each, aligned to 4; 0 = none. The
//	    piece is UTF-8, cut where the tokens are; flags see [PieceSpecial].
//	    The events and their texts must stay readable until the next call. The
//	    piece lies in room that is used again by the next call.
//	tgi_tools_finish(reason) -> as tgi_tools_feed; reason is [FinishEnd] or
//	    [FinishCut]. The last call.
//
// The same text gives the same events however it is split into pieces, except that consecutive events of one kind and
// call may be split differently: joined they are equal.
//
// The configuration holds "model", as that of [Template] does. The request is
// a JSON object:
//
//	"tools"                array as in OpenAI's API, absent when none are offered;
//	                       "strict" of a function says that its arguments must
//	                       validate
//	"tool_choice"          "auto", "none", "required", or {"name": NAME}
//	"parallel_tool_calls"  boolean: more than one call is allowed
//	"prompt_end"           the last 1024 bytes, or fewer, of the prompt's text
//	"answer"               of tgi_tools_constraint: what a text that is no call is
//	                       to be, an object of "language", "source" and "params" as
//	                       in [Grammar]; absent where it may be anything
//	"params"               the request's parameters for this plugin, or {}
var Tools = []Func{
	{Name: "tgi_tools_begin", Params: []Type{I32, I32}, Results: []Type{I64}},
	{Name: "tgi_tools_feed", Params: []Type{I32, I32, I32}, Results: []Type{I64}},
	{Name: "tgi_tools_finish", Params: []Type{I32}, Results: []Type{I64}},
}

// ToolsOptional lists the export that a guest of kind "tools" may have beside
// those of [Tools]: a constraint on the text that makes calls valid as they are generated.
//
//	tgi_tools_constraint(request, request bytes) -> pointer to [CompiledSize]
//	    bytes, aligned to 4, that stay readable until the next call. The request
//	    is that of tgi_tools_begin. Called once in an instance, in which nothing
//	    else is called, before the first token of a request that demands a call,
//	    offers a tool whose function is strict, or has an "answer".
//
// The result is laid out as that of tgi_grammar_compile. After [StatusFailed] text is why the forced calls can't be
// constrained; it goes to the client. After [StatusOK] the notes are as there, with pointers into the request, and text
// is empty if there is no constraint, or a JSON object of at most [MaxConstraint] bytes, which a plugin of kind
// [KindGrammar] compiles:
//
//	"language"  that of source, mostly "structural_tag"
//	"source"    string, the grammar of all that the model writes: free text,
//	            reasoning, and calls
//	"params"    object for the grammar's plugin; absent is {}
//	"optional"  boolean: the request goes on without the grammar, and with a
//	            note, where none can be made of it; absent is false
//	"answer"    boolean: the grammar holds a text that is no call to the request's
//	            "answer", whose place is "#/answer"; absent is false, and such a
//	            request is refused
//	"reasoning" object: reasoning that may come first and has to end, with "open",
//	            boolean: the text begins inside it, "begin", array of the texts
//	            that begin it at the text's start, and "end", array of those that
//	            end it. The grammar takes the first of "end" anywhere in it: the
//	            server writes that where the reasoning has taken half of the
//	            tokens that the text may have. At most [MaxMarks] in an array,
//	            each of 1 to [MaxName] bytes; absent where there is none
//	"places"    array of objects that say what a place of the source comes from,
//	            for the client: "at" and "pointer", JSON pointers that begin with
//	            "#/" into source and request, and "tool", the name of the tool.
//	            At most [MaxPlaces].
var ToolsOptional = []Func{
	{Name: "tgi_tools_constraint", Params: []Type{I32, I32}, Results: []Type{I32}},
}

// Optional returns the exports that a guest of a kind may have beside those of
// [Exports], nil for none.
func Optional(kind string) []Func {
	if kind == KindTools {
		return ToolsOptional
	}
	return nil
}

// Limits of [ToolsOptional].
const (
	// MaxConstraint is the maximum size of the text of tgi_tools_constraint, in bytes, and MaxPlaces the maximum number
	// of its places.
	MaxConstraint = 8 << 20
	MaxPlaces     = 4096
	// MaxMarks is the maximum number of texts that begin or end reasoning.
	MaxMarks = 64
)
