package abi

// KindProgram is a plugin that generates the texts of a request itself: it forks, rewinds and scores contexts of the
// model, and says what the client gets.
const KindProgram = "program"

// Program lists the further export of kind "program".
//
//	tgi_program_run(request, request bytes) -> packed error text, 0 = done
//	    Called once in an instance, for each text of the reply. What was emitted when it returns is the text; an error
//	    fails it. The imports of [ProgramImports] are legal in it alone.
//
// The description's "contexts" is how many contexts run at once, from 1 to [MaxContexts]; absent is [DefaultContexts].
// So many places the request takes for each text.
//
// The request is a JSON object:
//
//	"params"        the request's parameters for this plugin, or {}
//	"settings"      object, the request's own of those that ctx_start reads; "grammar" is true where it has one
//	"prompt_count"  number of tokens of context 0, the request's prompt
//	"messages"      array as in [Template], absent where the prompt is no conversation
//	"limits"        object: "handles", "forks", "tokens" (the purse) and "max_new_tokens" (the most that is emitted)
var Program = []Func{
	{Name: "tgi_program_run", Params: []Type{I32, I32}, Results: []Type{I64}},
}

// ProgramImports lists what a guest of kind "program" may import from [ImportModule] beside [Imports].
//
// A context is a text of tokens. Context 0 is there at the beginning: the request's prompt. A context rests, or it runs
// from ctx_start to its end, see wait. Only one that rests can be forked, changed, started and looked at. Results below
// 0 are a status, see [ProgramArgument].
//
//	ctx_fork(ctx) -> new ctx of the same tokens, which share what is computed
//	ctx_drop(ctx) -> 0: ends it, also while it runs. Its number may be used again
//	ctx_append(ctx, text, bytes, flags) -> count of tokens that were appended; flags see [AppendSpecial]
//	ctx_push(ctx, ids, count) -> 0: appends tokens
//	ctx_len(ctx) -> count of tokens
//	ctx_rewind(ctx, position) -> 0: leaves the first tokens
//	ctx_read(ctx, from, what, to, room) -> count: u32 ids of the tokens from there on, or the bytes of their text,
//	    see [ReadIDs]; written only if room, in ids or bytes, suffices
//	ctx_start(ctx, settings, bytes) -> 0: generates until the model ends the text or the settings do; returns at once.
//	    settings is a JSON object, see below
//	wait(list, count, flags) -> place in the list of a context that has ended its run; flags see [WaitAll]. A context
//	    that rests counts as ended
//	span(ctx, to) -> 0: writes [SpanBytes] bytes about its last run
//	ctx_top(ctx, k, to) -> count: the likeliest next tokens, up to k entries of [CandidateSize] bytes, of the model's
//	    own distribution: its logit, and its log-probability among all
//	ctx_row(ctx, to) -> count: all raw logits of the next token, vocab_size f32
//	ctx_entropy(ctx, to) -> 0: writes the entropy of the next token in nats, f64
//	ctx_score(ctx, ids, count, to) -> 0: writes a log-probability, f32, for each of the tokens if they came next, one
//	    after the other. The context stays as it is
//	ctx_ask(ctx, ids, count) -> 0: begins to compute what ctx_score of these tokens tells, or without any, and of one,
//	    what ctx_top, ctx_row, ctx_entropy and ctx_score of one tell; returns at once. The context runs until it is
//	    known, see wait; those functions answer at once then, until the context changes. So a step of the model
//	    computes the answers of many contexts together
//	emit(ctx, from, count) -> 0: gives tokens of a context to the client. Where the model ended its last run and nothing
//	    changed since, there is one more behind them, the end: emitted, it ends the text, as the program's end does, but
//	    a guard may refuse it as any other. Nothing can be emitted behind it
//	emit_text(text, bytes) -> 0: gives it a text
//	render(request, bytes) -> new ctx: a conversation through the model's template; the request is that of
//	    tgi_template_render without params
//	grammar_prefix(grammar, bytes, text, bytes) -> count of bytes of the text that a text of the grammar can begin
//	    with. grammar is an object of "language", "source" and, if need be, "plugin" and "params"; of no bytes it is
//	    the request's
//	ctx_calls(ctx) -> what the text behind the prompt has of calls of tools, see [CallsNone]; as the parser of the
//	    reply reads it
//	why(to, room) -> bytes of the reason of the last status below 0, written only if room suffices
//
// The settings of ctx_start, each absent where the request's is to hold:
//
//	"max_tokens"    most tokens of the run
//	"temperature", "top_p", "top_k", "min_p"   0 as a temperature takes the most likely token
//	"stop"          array of texts that end the run; they are part of the context
//	"grammar"       object as for grammar_prefix, or null for none
//	"grammar_from"  number of a token: the grammar holds for the context's tokens from there on too
//	                (but for ends of the model's that the request has runs without a grammar ignore)
//	"plugins"       array of objects of "name" and "params": the plugins of the run, instead of the request's
//	"deny"          array of at most [MaxDenied] tokens, none of which is the run's first, whatever grammar and plugins
//	                say: it is picked among the others, and where there is none the run ends, see [RunDenied]
//	"emit"          boolean: each token goes to the client as soon as it is there
//
// Each run has the next of the seeds that follow from the request's, in the order of ctx_start: the same request gives
// the same reply, unless the program lets it depend on which of two runs ends first.
var ProgramImports = []Func{
	{Name: "ctx_fork", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "ctx_drop", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "ctx_append", Params: []Type{I32, I32, I32, I32}, Results: []Type{I32}},
	{Name: "ctx_push", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "ctx_len", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "ctx_rewind", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "ctx_read", Params: []Type{I32, I32, I32, I32, I32}, Results: []Type{I32}},
	{Name: "ctx_start", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "wait", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "span", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "ctx_top", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "ctx_row", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "ctx_entropy", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "ctx_score", Params: []Type{I32, I32, I32, I32}, Results: []Type{I32}},
	{Name: "ctx_ask", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "emit", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "emit_text", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "render", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "grammar_prefix", Params: []Type{I32, I32, I32, I32}, Results: []Type{I32}},
	{Name: "ctx_calls", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "why", Params: []Type{I32, I32}, Results: []Type{I32}},
}

// Statuses of the functions of [ProgramImports].
const (
	// ProgramArgument: an argument is out of bounds, or the context is not in the state for it.
	ProgramArgument = -1
	// ProgramPurse: the program has had all tokens that it may have computed, or all forks.
	ProgramPurse = -2
	// ProgramRoom: there are as many contexts as may be, or the text would be too long for the model.
	ProgramRoom = -3
	// ProgramGrammar: the grammar cannot be compiled, or does not admit what grammar_from names.
	ProgramGrammar = -4
	// ProgramRefused: a guard takes back what was emitted, or wants another text there. The emission did not go out, or
	// of more than 128 tokens a beginning alone. wait gives it for a run that emits, which emits no more then.
	ProgramRefused = -5
	// ProgramPlugin: a plugin of the run failed, or is not there.
	ProgramPlugin = -6
)

// Flags and modes of the functions of [ProgramImports].
const (
	// AppendSpecial recognises special tokens in the text of ctx_append.
	AppendSpecial = 1
	// ReadIDs and ReadBytes are what ctx_read reads.
	ReadIDs   = 0
	ReadBytes = 1
	// WaitAll waits for all of the list, and returns 0; WaitAny for the first of it.
	WaitAll = 0
	WaitAny = 1
)

// What span writes, little-endian: tokens 30 to 35 with an end by the model, of log-probabilities that sum up to -2.5.
// The end is the token that ended it, 0 where another reason did:
//
//	offset  0  1e 00 00 00              from     30
//	offset  4  06 00 00 00              count    6
//	offset  8  02 00 00 00              reason   2: the model ended it
//	offset 12  02 00 00 00              end      token 2
//	offset 16  00 00 00 00 00 00 04 c0  logprob  -2.5
const (
	SpanBytes   = 24
	SpanFrom    = 0
	SpanCount   = 4
	SpanReason  = 8
	SpanEnd     = 12
	SpanLogprob = 16
)

// Reasons why a run ended.
const (
	// RunNone: the context has not run yet.
	RunNone = 0
	// RunLength: it has max_tokens.
	RunLength = 1
	// RunEnd: the model ended the text. The token that did is no part of the context.
	RunEnd = 2
	// RunStop: the text has one of the stop strings.
	RunStop = 3
	// RunDenied: its first token could only be one that it was denied. It has none.
	RunDenied = 4
)

// What ctx_calls answers.
const (
	// CallsNone: no call; always, where the request offers no tools, or the context does not begin with the prompt.
	CallsNone = 0
	// CallsOpen: it ends inside a call, or with what may begin one. What is appended becomes a part of that.
	CallsOpen = 1
	// CallsMade: it has calls, and does not end inside one.
	CallsMade = 2
	// CallsBroken: it has something of a call that the request's strict tools do not allow. Runs that go on from there
	// are not held to these.
	CallsBroken = 3
)

// Limits of programs.
const (
	// MaxContexts is the maximum of a description's "contexts", DefaultContexts its default.
	MaxContexts     = 64
	DefaultContexts = 4
	// MaxHandles is how many contexts a program may have at a time, MaxForks how often it may fork or render.
	MaxHandles = 64
	MaxForks   = 1024
	// MaxTop is the maximum k of ctx_top, MaxScored the maximum count of ctx_score and ctx_ask.
	MaxTop    = 4096
	MaxScored = 4096
	// MaxDenied is how many tokens "deny" may have.
	MaxDenied = 1024
)
