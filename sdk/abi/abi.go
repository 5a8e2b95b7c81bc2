// Package abi is version 1 of the contract between the server and its plugins:
// names, signatures, layouts and limits. It imports nothing, so that host and
// guests in Go share it; the SDKs of the other languages repeat its
// numbers, and a test compares them. README.md in this folder explains it with worked examples.
//
// # Form
//
// A plugin is a WebAssembly core 2.0 module (with SIMD). Memory is little-endian, pointers are u32 offsets into the
// memory exported as "memory". Structured, rarely used data (configuration, parameters) is JSON in UTF-8; data needed
// per token is plain arrays.
//
// Text that a guest returns is one i64, see [Pack]. Text and tokens that the host passes are in buffers that the host
// got from tgi_alloc.
//
// # Life
//
//  1. The module is instantiated; "_initialize" is called if exported.
//  2. tgi_describe; the host checks kinds, modes and signatures.
//  3. tgi_alloc for the rooms used at every step: view, row, candidates.
//  4. tgi_init with the configuration. Text returned here refuses the plugin.
//  5. The host takes a snapshot. From now on every instance starts from it.
//  6. At admission of a request: tgi_validate in an instance that is thrown
//     away afterwards. Text returned here refuses the request.
//  7. For each sequence, in an instance of its own: begin of each kind, then
//     process or sample at every step, or feed with every piece of text. When
//     the sequence ends the memory goes back to the snapshot; nothing is called.
//     A template renders one conversation in an instance, and that is all, and
//     a grammar compiles one source.
//
// So a guest's globals are the state of one sequence; it never sees another. A clone (best_of) starts as a copy of
// memory and globals.
//
// # Faults
//
// A trap, a pointer outside memory, used-up fuel, or an output that breaks a
// rule of this file ends the sequence (or, where the operator chose so, the
// plugin's part in it) and never anything else. The fault names the plugin,
// the export and the rule.
package abi

// Version of the contract. A module declares that it follows this version by exporting [Marker].
const Version = 1

// Revision counts what was added to the version since: modules of earlier revisions work as before. 1 has the kinds
// logits, sampler, template, tools and grammar; 2 has the kinds that came later, and the field state of descriptions. A
// description may name the revision that its module needs.
const Revision = 2

// Names that are not functions of a kind.
const (
	// Marker is exported by every guest, () -> (). It is never called.
	Marker = MarkerPrefix + "1"
	// MarkerPrefix is what the markers of all versions begin with; the number of the version follows.
	MarkerPrefix = "tgi_abi_v"
	// Memory is the name under which the guest exports its memory.
	Memory = "memory"
	// Initialize is called first where it is exported, () -> (). Go and
	// AssemblyScript set up their runtimes there.
	Initialize = "_initialize"
	// ImportModule is the module name of the imports listed in [Imports].
	ImportModule = "tgi"
	// WASIModule may be imported too, for runtimes that cannot do without:
	// its random numbers are seeded, file descriptors 1 and 2 go to the log,
	// there are no arguments and no environment, sched_yield and poll_oneoff
	// (with which Go's collector sleeps) return at once, the clock moves by such
	// sleeps alone, proc_exit traps, everything else answers ENOSYS (52).
	WASIModule = "wasi_snapshot_preview1"
	// ReservedPrefix marks names of this contract. An export with this prefix that is not in this file is refused at
	// load, since it is probably misspelt.
	ReservedPrefix = "tgi_"
)

// Kinds of plugins in this version, in addition to [KindGrammar], [KindGuard] and [KindDraft].
const (
	KindLogits   = "logits"
	KindSampler  = "sampler"
	KindTemplate = "template"
	KindTools    = "tools"
)

// Type is the type of a parameter or result, with the encoding that
// WebAssembly's binary format uses.
type Type byte

// The value types that signatures of this contract use.
const (
	I32 Type = 0x7f
	I64 Type = 0x7e
	F32 Type = 0x7d
	F64 Type = 0x7c
)

// String names the type as WebAssembly's text format does.
func (t Type) String() string {
	switch t {
	case I32:
		return "i32"
	case I64:
		return "i64"
	case F32:
		return "f32"
	case F64:
		return "f64"
	}
	return "unknown type"
}

// Func is an export or import with its expected signature.
type Func struct {
	Name            string
	Params, Results []Type
}

// String returns name and signature as error texts show them, for example
// "tgi_init(i32, i32) -> i64" or "tgi_abi_v1() -> ()".
func (f Func) String() string { return f.Name + Signature(f.Params, f.Results) }

// Signature returns only a signature: "(i32, i32) -> i64".
func Signature(params, results []Type) string {
	s := "(" + list(params) + ") -> "
	if len(results) == 1 {
		return s + results[0].String()
	}
	return s + "(" + list(results) + ")"
}

func list(ts []Type) string {
	var s string
	for i, t := range ts {
		if i > 0 {
			s += ", "
		}
		s += t.String()
	}
	return s
}

// Common lists the exports of every guest.
//
//	tgi_abi_v1() -> ()
//	    marker, never called
//	tgi_alloc(size) -> pointer
//	    room of size bytes, aligned to 16, for the host to write to; 0 = none
//	    left. It stays the host's for the life of the instance; nobody frees
//	    it. Size 0 gives any pointer but 0.
//	tgi_describe() -> packed JSON object: "name", "version", "doc" (strings),
//	    "kinds" (array of [KindLogits] ...), "modes" (array of
//	    [ModeNames] and [NameStop] ...), "needs" (array, see [NeedsTopK]),
//	    "candidates" (number, of a sampler), "languages" (array, see [Grammar]), "params" (JSON Schema, see [MaxSchema]).
//	    "guard" (object, see [Guard]), "state" (string, see [StateNone]).
//	    "config" (boolean: the guest reads its configuration; without it the server refuses one).
//	    name and kinds must be there; unknown members are ignored.
//	tgi_init(config pointer, config bytes) -> packed error text, 0 = accepted
//	    config is the JSON object of [plugin.config], {} where there is none. A
//	    guest of the kinds template or tools finds a member "model" in it, see
//	    [Template], the server's unless the operator gave one. The vocabulary can be asked for. Called once, before the
//	    snapshot.
//	tgi_validate(params pointer, params bytes) -> packed error text, 0 = accepted
//	    params is the JSON object of the request, {} where there is none.
var Common = []Func{
	{Name: Marker},
	{Name: "tgi_alloc", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "tgi_describe", Results: []Type{I64}},
	{Name: "tgi_init", Params: []Type{I32, I32}, Results: []Type{I64}},
	{Name: "tgi_validate", Params: []Type{I32, I32}, Results: []Type{I64}},
}

// Logits lists the further exports of kind "logits".
//
//	tgi_logits_step() -> pointer
//	    the guest's static room for the step struct, [StepSize] bytes, aligned
//	    to 16. Called once, before the snapshot; the address must not change.
//	tgi_logits_begin(params, params bytes, prompt, prompt count) -> packed error text
//	    prompt is u32 token ids and stays readable for the life of the instance.
//	tgi_logits_process(step) -> status, see [StatusOK]
//	    step is what tgi_logits_step returned, filled as [StepSize] describes.
var Logits = []Func{
	{Name: "tgi_logits_step", Results: []Type{I32}},
	{Name: "tgi_logits_begin", Params: []Type{I32, I32, I32, I32}, Results: []Type{I64}},
	{Name: "tgi_logits_process", Params: []Type{I32}, Results: []Type{I32}},
}

// Sampler lists the further exports of kind "sampler".
//
//	tgi_sampler_begin(params, params bytes, prompt, prompt count) -> packed error text
//	tgi_sampler_sample(candidates, n) -> index of the chosen one, 0 <= index < n
//	    candidates is n >= 1 entries of [CandidateSize] bytes, most likely
//	    first. The host hands over at most as many as the description's
//	    "candidates" asks for. A negative result is a failure; its cause is
//	    what the guest logged last.
var Sampler = []Func{
	{Name: "tgi_sampler_begin", Params: []Type{I32, I32, I32, I32}, Results: []Type{I64}},
	{Name: "tgi_sampler_sample", Params: []Type{I32, I32}, Results: []Type{I32}},
}

// Template lists the further exports of kind "template", which renders the conversation of a chat request into the
// prompt.
//
//	tgi_template_render(request, request bytes) -> pointer to [RenderedSize]
//	    bytes, aligned to 4, that stay readable until the next call. Called
//	    once in an instance.
//
// The configuration holds "model": an object with "name", "tokens" (an object
// of the texts of special tokens by their names in Hugging Face's files, such
// as "bos_token" and "eos_token") and "templates" (an object of the Jinja
// sources that the model brings, by name, mostly one of "default").
//
// The request is a JSON object:
//
//	"messages"                array of objects as OpenAI's API has them, but
//	                          that "arguments" of a call are an object where they
//	                          are text of one; "arguments_text" is the text then
//	"tools"                   array, absent when none are offered
//	"documents"               array, absent when there are none
//	"add_generation_prompt"   boolean: end where the assistant's turn begins
//	"continue_final_message"  boolean: end where the last message ends
//	"kwargs"                  object, absent or the request's chat_template_kwargs
//	"template"                name of one of several templates, or absent
//	"now"                     time of the request, RFC 3339 with its zone
//	"params"                  the request's parameters for this plugin, or {}
var Template = []Func{
	{Name: "tgi_template_render", Params: []Type{I32, I32}, Results: []Type{I32}},
}

// Exports returns the further exports of a kind, nil for an unknown kind.
func Exports(kind string) []Func {
	switch kind {
	case KindLogits:
		return Logits
	case KindSampler:
		return Sampler
	case KindTemplate:
		return Template
	case KindTools:
		return Tools
	case KindGrammar:
		return Grammar
	case KindGuard:
		return Guard
	case KindProgram:
		return Program
	case KindDraft:
		return Draft
	}
	return nil
}

// Imports lists what a guest may import from [ImportModule]. A pointer that
// leaves memory traps.
//
//	log(level, text, bytes)
//	    text for the server's log, see [LevelDebug]
//	vocab_size() -> count
//	    token ids are 0 to count-1; a row has count logits
//	token_bytes(id, to, room) -> bytes
//	    the bytes that the token stands for (a special token: its text). They
//	    are written only if room suffices; the result is their number either
//	    way, -1 where there is no such token.
//	token_flags(id) -> flags, see [TokenSpecial]; -1 where there is no such token
//	encode(text, bytes, to, room) -> count
//	    u32 token ids of the text, special tokens in it recognised, none
//	    added. They are written only if room (counted in ids) suffices; the
//	    result is their number either way, -1 where the text is not UTF-8.
//	rand_u64() -> 64 random bits
//	    the same for the same seed of the request, sequence, plugin and count
//	    of calls. Before the snapshot it is seeded by a constant.
var Imports = []Func{
	{Name: "log", Params: []Type{I32, I32, I32}},
	{Name: "vocab_size", Results: []Type{I32}},
	{Name: "token_bytes", Params: []Type{I32, I32, I32}, Results: []Type{I32}},
	{Name: "token_flags", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "encode", Params: []Type{I32, I32, I32, I32}, Results: []Type{I32}},
	{Name: "rand_u64", Results: []Type{I64}},
}

// Levels of the import log.
const (
	LevelDebug = 0
	LevelInfo  = 1
	LevelWarn  = 2
	LevelError = 3
)

// Bits of the import token_flags.
const (
	// TokenSpecial: the token is markup of the model and not text.
	TokenSpecial = 1
	// TokenEnd: choosing the token ends the sequence.
	TokenEnd = 2
)

// Pack makes one result of pointer and length: pointer<<32 | length.
//
//	nothing, or "accepted"           0x0000000000000000
//	12 bytes at 0x00010450           0x000104500000000c  (286216620605452)
//	5 bytes at 0x00000400            0x0000040000000005  (4398046511109)
//	1 byte at 0x80000000, as signed  0x8000000000000001  (-9223372036854775807)
//
// A length of 0 means nothing, whatever the pointer. The text must stay
// readable until the next call into the instance.
func Pack(ptr, length uint32) uint64 { return uint64(ptr)<<32 | uint64(length) }

// Unpack reverses [Pack].
func Unpack(v uint64) (ptr, length uint32) { return uint32(v >> 32), uint32(v) }

// The step struct, all fields u32 or f32 of four bytes, at the address that
// tgi_logits_step gave. Before each call the host writes all of it: inputs as
// described, outputs as 0 except Temperature, which is NaN. After the call it
// reads the outputs. The guest may read and write views only during the call; the host ignores writes to Tokens.
//
// A step in numbers: prompt of 5 tokens, 2 generated, a view of 3 asked for,
// vocabulary of 32000. The guest denies the tokens 17 and 99, whose ids it has
// at 0x2000, and asks for temperature 0.5:
//
//	offset  0  40 00 00 00  size         64
//	offset  4  00 10 00 00  tokens       0x1000: 5 + 2 ids
//	offset  8  07 00 00 00  token count  7: the token at position 7 is chosen next
//	offset 12  05 00 00 00  prompt count 5
//	offset 16  01 00 00 00  new count    1: only the last is new to the guest
//	offset 20  00 18 00 00  view         0x1800: 3 * 8 bytes
//	offset 24  03 00 00 00  view count   3
//	offset 28  00 00 00 00  row          none: the description does not need it
//	offset 32  00 00 00 00  row count    0
//	offset 36  02 00 00 00  mode         2: deny
//	offset 40  00 20 00 00  out          0x2000: 11 00 00 00 63 00 00 00
//	offset 44  02 00 00 00  out count    2
//	offset 48  00 00 00 00  flags        none
//	offset 52  00 00 00 3f  temperature  0.5
//	offset 56  00 00 00 00  force        none
//	offset 60  00 00 00 00  force count  0
const (
	// StepSize is the size of the struct and the value of its first field.
	// A later minor version may append fields; a guest reads those below the
	// size that it finds.
	StepSize = 64

	// StepBytes: input, StepSize of the host.
	StepBytes = 0
	// StepTokens: input, pointer to the u32 ids of the whole sequence, prompt
	// and then output. It may move from one call to the next.
	StepTokens = 4
	// StepTokenCount: input, number of those ids, which is the position of the
	// token to be chosen.
	StepTokenCount = 8
	// StepPromptCount: input, how many of them are the prompt.
	StepPromptCount = 12
	// StepNewCount: input, how many of them, at the end, are new since the last call, or stand where others were taken
	// back (StateNone). 0 in the first call, then 1, more after forced tokens, never more than MaxForced.
	StepNewCount = 16
	// StepView: input, pointer to the most likely tokens, [ViewEntrySize]
	// bytes each, by falling logit, ties by rising id; 0 unless the
	// description needs "topk:N".
	StepView = 20
	// StepViewCount: input, number of entries, min(N, vocab_size).
	StepViewCount = 24
	// StepRow: input, pointer to vocab_size f32 logits; 0 unless the
	// description needs "row". Logits are those before temperature, after the
	// request's penalties and the plugins before this one. A token forbidden
	// so far has -Inf.
	StepRow = 28
	// StepRowCount: input, vocab_size, or 0 when there is no row.
	StepRowCount = 32

	// StepMode: output, one of [ModePass] to [ModeRow].
	StepMode = 36
	// StepOut: output, pointer to the array of the mode, aligned to 4. After StatusFailed: pointer to the error text.
	StepOut = 40
	// StepOutCount: output, number of entries (not bytes). After StatusFailed:
	// bytes of the text.
	StepOutCount = 44
	// StepFlags: output, [FlagOnly] and [FlagStop].
	StepFlags = 48
	// StepTemperature: output, f32 temperature of this step alone; NaN leaves
	// the request's, 0 takes the most likely token. Negative or infinite is a
	// fault.
	StepTemperature = 52
	// StepForce: output, pointer to u32 ids: the token at this position and
	// those after it. The guest is called again when the last of them is in
	// the sequence. They override mode and temperature; a token that a grammar forbids is a fault.
	StepForce = 56
	// StepForceCount: output, number of ids, at most [MaxForced]; 0 = none.
	StepForceCount = 60
)

// Modes of a step's result, cheapest first. A mode that the description does
// not list is a fault, as is any id >= vocab_size, a NaN, a +Inf, or a result
// that leaves no token of a row in which all are allowed.
const (
	// ModePass changes nothing. Needs no declaration.
	ModePass = 0
	// ModeAllow: out is u32 ids; all others are denied. Two ids 5 and 258:
	//
	//	05 00 00 00 02 01 00 00   out count 2
	ModeAllow = 1
	// ModeDeny: out is u32 ids, which are denied.
	ModeDeny = 2
	// ModeSparse: out is entries of u32 id and f32 bias, [SparseEntrySize]
	// bytes each; the bias is added to the logit, -Inf denies. Entries of the
	// same id add up. Token 5 by +1.5 and token 258 denied:
	//
	//	05 00 00 00 00 00 c0 3f 02 01 00 00 00 00 80 ff   out count 2
	ModeSparse = 3
	// ModeBitmask: out is u32 words, as many as [MaskWords] of the vocabulary; token t is denied unless bit t%32 of
	// word t/32 is 1. Bits past the vocabulary are ignored. Tokens 0, 5 and 33 of a vocabulary of 40:
	//
	//	21 00 00 00 02 00 00 00   out count 2
	ModeBitmask = 4
	// ModeView: out is entries as in the view, usually the view itself edited in place: each id's logit is set to the
	// entry's, -Inf denies. Each id occurs at most once. Needs "topk:N". Token 9 set to 2.0:
	//
	//	09 00 00 00 00 00 00 40   out count 1
	ModeView = 5
	// ModeRow: out is the row, edited in place: out count is the row's.
	// Needs "row".
	ModeRow = 6
)

// Flags of a step's result.
const (
	// FlagOnly, with ModeSparse and ModeView: tokens not named by an entry are
	// denied. With any other mode it is a fault.
	FlagOnly = 1
	// FlagStop: the sequence ends at this position, whatever the other outputs
	// say. The host may do so by choosing a token that ends it.
	FlagStop = 2
)

// What a guest of the kinds logits and sampler keeps of its sequence, as the description's "state" says. Guards take
// tokens back: then the host brings the guest to where it was.
const (
	// StateNone: nothing. It answers what a fresh instance would.
	StateNone = "none"
	// StateTokens: what follows from the tokens, and from nothing else that it was shown: a fresh instance is begun,
	// and asked at each position as before. The default of a guest of kind logits without view and row.
	StateTokens = "tokens"
	// StateLogits: what it saw of logits or candidates too. The default of all others.
	StateLogits = "logits"
)

// Results of tgi_logits_process.
const (
	// StatusOK: the outputs are valid.
	StatusOK = 0
	// StatusFailed: the guest cannot continue; StepOut and StepOutCount are the error text and its bytes. Any other
	// value is a fault too.
	StatusFailed = 1
)

// The result of tgi_template_render, five u32. After [StatusFailed] text is
// why the conversation can't be rendered; it goes to the client.
//
// Spans say which of the text is data: pairs of u32, aligned to 4, from and to
// as offsets in bytes, rising and not overlapping, on the borders of
// characters; an empty one says nothing. No special
// token is recognised in what touches data, so that a user's text can't forge
// one. "<|user|>Hi</s>" at 0x2000, whose "Hi" is data, with its span at 0x3000:
//
//	offset  0  00 00 00 00  status      ok
//	offset  4  00 20 00 00  text        0x2000
//	offset  8  0e 00 00 00  text bytes  14
//	offset 12  00 30 00 00  spans       0x3000: 08 00 00 00 0a 00 00 00
//	offset 16  01 00 00 00  span count  1
const (
	RenderedSize      = 20
	RenderedStatus    = 0
	RenderedText      = 4
	RenderedTextBytes = 8
	RenderedSpans     = 12
	RenderedSpanCount = 16
	// SpanSize is the size of one span.
	SpanSize = 8
)

// An event of a tool parser, nine u32. Fields that a kind does not use are 0. Calls are numbered from 0 in the order in
// which they begin, and one is open at a time: EventBegin, any number of EventArguments, then EventEnd or EventFailed,
// with nothing in between; tgi_tools_finish leaves none open. Name and id are not empty. The pieces of the arguments of
// a call that ended are together a JSON object. Events whose text is empty say nothing. The event "call 0 is get_time,
// its id is c1" with both texts at 0x2000:
//
//	offset  0  02 00 00 00  kind        begin
//	offset  4  00 00 00 00  index       0
//	offset  8  00 00 00 00  text        none
//	offset 12  00 00 00 00  text bytes
//	offset 16  00 20 00 00  name        0x2000: get_time
//	offset 20  08 00 00 00  name bytes  8
//	offset 24  08 20 00 00  id          0x2008: c1
//	offset 28  02 00 00 00  id bytes    2
//	offset 32  00 00 00 00  reason      none
const (
	EventSize      = 36
	EventKind      = 0
	EventIndex     = 4 // of the call; of EventFailed 0xffffffff where none had begun
	EventText      = 8
	EventTextBytes = 12
	EventName      = 16
	EventNameBytes = 20
	EventID        = 24
	EventIDBytes   = 28
	EventReason    = 32
)

// Kinds of events.
const (
	EventContent   = 0 // text: a part of the answer
	EventReasoning = 1 // text: a part of what the model thinks
	EventBegin     = 2 // name and id: a call begins
	EventArguments = 3 // text: the next part of the open call's arguments
	EventEnd       = 4 // the open call is complete and may be executed
	EventFailed    = 5 // reason; text: what the model wrote of a call that can't be used
)

// Reasons of EventFailed.
const (
	FailedIncomplete = 0 // the text ended inside the call
	FailedUnknown    = 1 // the tool was not offered, or another was demanded
	FailedMalformed  = 2 // not what the format demands, or no JSON object
	FailedTooLong    = 3 // longer or deeper than the parser takes
	FailedTooMany    = 4 // more calls than are allowed
)

// Arguments of tgi_tools_feed and tgi_tools_finish.
const (
	// PieceSpecial: the piece is the text of one special token.
	PieceSpecial = 1
	// FinishEnd: the model ended the text, or a stop string did.
	FinishEnd = 0
	// FinishCut: the length limit truncated it.
	FinishCut = 1
)

// Layouts of arrays, in bytes.
const (
	// ViewEntrySize: u32 id, f32 logit.
	ViewEntrySize = 8
	// SparseEntrySize: u32 id, f32 bias.
	SparseEntrySize = 8
	// CandidateSize: u32 id, f32 logit, f32 logprob (natural logarithm of the probability among the candidates before
	// truncation to the requested number). Token 258 with logit 1.5 and probability 1/2:
	//
	//	02 01 00 00 00 00 c0 3f 18 72 31 bf
	CandidateSize = 12
	// CandidateID, CandidateLogit and CandidateLogprob are offsets in it.
	CandidateID      = 0
	CandidateLogit   = 4
	CandidateLogprob = 8
)

// Limits that the host enforces.
const (
	// MaxForced is the maximum number of forced tokens of one step.
	MaxForced = 256
	// MaxView is the maximum N of "topk:N".
	MaxView = 4096
	// MaxCandidates is the maximum of a sampler's "candidates", and DefaultCandidates its default.
	MaxCandidates     = 65536
	DefaultCandidates = 1024
	// MaxDescription is the maximum size of a description, in bytes.
	MaxDescription = 65536
	// MaxSchema is the maximum size of the JSON Schema that a description declares for the parameters, in bytes. The
	// host checks parameters against it before the guest sees them, and refuses a module whose schema it can't check.
	MaxSchema = 16384
	// MaxText is the length, in bytes, to which error and log texts, and a template's reason for failing, are
	// truncated.
	MaxText = 4096
	// MaxRendered is the maximum size of a template's text, in bytes, and MaxSpans the maximum number of its spans.
	MaxRendered = 16 << 20
	MaxSpans    = 1 << 18
	// MaxEvents is the maximum number of events of one call, and MaxEventText the maximum sum of their texts, in bytes;
	// it also bounds the arguments of one tool call. Over a sequence the texts may have that much plus MaxEcho times
	// the text fed.
	MaxEvents    = 4096
	MaxEventText = 8 << 20
	MaxEcho      = 4
	// MaxName is the maximum length of a tool call's name or id, in bytes.
	MaxName = 256
	// Alignment of what tgi_alloc and tgi_logits_step return, in bytes.
	Alignment = 16
)

// Names of "modes" in the description. ModeNames is indexed by mode; stop, force and temperature are outputs in
// addition to the mode and are declared too.
const (
	NameStop        = "stop"
	NameForce       = "force"
	NameTemperature = "temperature"
)

// ModeNames are the names of modes in the description, by mode.
var ModeNames = [...]string{"pass", "allow", "deny", "sparse", "bitmask", "topk", "row"}

// Values in "needs" of the description. NeedsTopK is followed by a number
// from 1 to [MaxView], as in "topk:64". A guest that needs neither may run
// while the model still computes the logits.
const (
	NeedsTopK = "topk:"
	NeedsRow  = "row"
)

// MaskWords is the number of u32 words of a bitmask over vocab tokens:
// 32 -> 1, 33 -> 2, 128256 -> 4008.
func MaskWords(vocab uint32) uint32 { return uint32((uint64(vocab) + 31) / 32) }
