package abi

// KindGuard is the kind of plugins that decide which of the generated tokens go out.
const KindGuard = "guard"

// Guard lists the further exports of kind "guard". A module that serves it serves neither "logits" nor "sampler".
//
//	tgi_guard_begin(params, params bytes, prompt, prompt count) -> packed error text
//	    prompt is u32 token ids and stays readable for the life of the instance.
//	tgi_guard_step() -> pointer
//	    the guest's static room for the guard's struct, [GuardSize] bytes,
//	    aligned to 16. Called once, before the snapshot; the address must not change.
//	tgi_guard_check(step) -> status, see [StatusOK]
//	    step is what tgi_guard_step returned, filled as [GuardSize] describes.
//	    Called behind a token that was chosen, where the number of generated
//	    tokens is divisible by "every", and when the sequence is about to end.
//
// The description has a member "guard", an object:
//
//	"hold"      number, 1 to [MaxHold]: how many tokens it may hold back
//	"every"     number, 1 to hold; without it 1
//	"verdicts"  array of [VerdictNames] that it gives beside "release"
//
// An instance is not taken back with the sequence: what a guard knows, it keeps.
var Guard = []Func{
	{Name: "tgi_guard_step", Results: []Type{I32}},
	{Name: "tgi_guard_begin", Params: []Type{I32, I32, I32, I32}, Results: []Type{I64}},
	{Name: "tgi_guard_check", Params: []Type{I32}, Results: []Type{I32}},
}

// The guard's struct, all fields u32 of four bytes, at the address that tgi_guard_step gave. Before each call the host
// writes all of it, outputs as 0, and afterwards it reads the outputs. Positions count tokens of the sequence, the
// prompt's included.
//
// A check in numbers: 5 tokens of prompt, 4 generated, the first of which went out. "ab" is the text of that one,
// and " c", "" (a character is not complete) and "dé" are those of the three that are held back. The guest lets two of
// them go:
//
//	offset  0  40 00 00 00  size          64
//	offset  4  00 10 00 00  tokens        0x1000: 5 + 4 ids
//	offset  8  09 00 00 00  token count   9
//	offset 12  05 00 00 00  prompt count  5
//	offset 16  01 00 00 00  new count     1: only the last is new to the guest
//	offset 20  06 00 00 00  released      6: the prompt and one more are final
//	offset 24  00 20 00 00  text          0x2000: 61 62 20 63 64 c3 a9
//	offset 28  07 00 00 00  text bytes    7
//	offset 32  02 00 00 00  context       2: "ab" is released
//	offset 36  00 30 00 00  ends          0x3000: 04 00 00 00 04 00 00 00 07 00 00 00
//	offset 40  00 00 00 00  reason        0: the sequence goes on
//	offset 44  00 00 00 00  verdict       0: release
//	offset 48  08 00 00 00  position      8: what is before it
//	offset 52  00 00 00 00  out           none
//	offset 56  00 00 00 00  out count     0
//	offset 60  00 00 00 00  flags         none
const (
	// GuardSize is the size of the struct and the value of its first field.
	GuardSize = 64

	// GuardBytes: input, GuardSize of the host.
	GuardBytes = 0
	// GuardTokens: input, pointer to the u32 ids of the whole sequence, prompt and then output.
	GuardTokens = 4
	// GuardTokenCount: input, number of those ids.
	GuardTokenCount = 8
	// GuardPromptCount: input, how many of them are the prompt.
	GuardPromptCount = 12
	// GuardNewCount: input, how many of them, at the end, are others than in the last call, because they were chosen
	// since, or chosen anew behind a rewind.
	GuardNewCount = 16
	// GuardReleased: input, how many of them are final: the prompt, and what went out.
	GuardReleased = 20
	// GuardText: input, pointer to UTF-8: the model's text, also where a client got another: that of the last released
	// tokens, at most [MaxContext] bytes, and then that of the tokens held back. Special tokens have none.
	GuardText = 24
	// GuardTextBytes: input, its bytes.
	GuardTextBytes = 28
	// GuardContext: input, how many of them are of released tokens. A character at the front may be cut.
	GuardContext = 32
	// GuardEnds: input, pointer to a u32 for each token that is held back: where its text ends in the text.
	GuardEnds = 36
	// GuardReason: input, one of [ReasonNone] to [ReasonGuard].
	GuardReason = 40

	// GuardVerdict: output, one of [VerdictRelease] to [VerdictStop].
	GuardVerdict = 44
	// GuardPosition: output, released <= position <= token count.
	GuardPosition = 48
	// GuardOut: output, pointer to what the verdict calls for; after StatusFailed to the error text.
	GuardOut = 52
	// GuardOutCount: output, number of entries, or bytes of a text.
	GuardOutCount = 56
	// GuardFlags: output, [FlagDone] and [FlagEdits] together.
	GuardFlags = 60
)

// FlagDone: the guard is not asked again in this sequence, unless what it saw is taken back, and holds nothing back any
// more.
const FlagDone = 1

// FlagEdits: out of [VerdictReplace] is edits, and not a text. The client gets the text of the tokens before position
// with them made. An edit has four fields u32 of four bytes, [EditSize] bytes: from and to, the bytes of the text that
// it takes, and the pointer and the number of bytes of the UTF-8 that stands there instead. Edits are in the order of
// the text, of whole characters, and do not overlap: context <= from <= to, and from is not before the to of the edit
// in front. There are at most [MaxEdits], or none, and the text that they make has at most [MaxGuardText] bytes. Where
// guards replace together, edits tell exactly what each one takes; of a text that can only be guessed, and more may go.
const FlagEdits = 2

// EditSize is the size of an edit.
const EditSize = 16

// Why a sequence is about to end. The last token is then the one that ends it.
const (
	// ReasonNone: it goes on.
	ReasonNone = 0
	// ReasonEOS: the model ends it.
	ReasonEOS = 1
	// ReasonLength: it has as many tokens as it may have.
	ReasonLength = 2
	// ReasonStop: the last token completes a stop string, behind which the text is cut.
	ReasonStop = 3
	// ReasonGuard: another guard ends it there. What that one wanted not to go out is gone.
	ReasonGuard = 4
)

// Verdicts. One that the description does not list is a fault, but for release.
const (
	// VerdictRelease lets the tokens before position go out and holds the others back. At the end of a sequence all
	// have to go.
	VerdictRelease = 0
	// VerdictRewind takes back all tokens from position on, position < token count. out is entries of u32 id and f32
	// bias, [SparseEntrySize] bytes each, at most [MaxBiases]: they are added to the logits of the token at position
	// whenever the same tokens are before it; -Inf forbids. Without entries the token that was there is forbidden.
	VerdictRewind = 1
	// VerdictInsert takes back all tokens from position on. out is UTF-8, at most [MaxGuardText] bytes, with whose
	// tokens the model goes on; special ones in it are recognised, and one that ends a sequence is a fault. If the
	// sequence was about to end, the token that ended it goes too.
	VerdictInsert = 2
	// VerdictReplace gives the client a text instead of the tokens before position, released < position. out is UTF-8,
	// at most [MaxGuardText] bytes, or none, or with [FlagEdits] edits; it is text, whatever special tokens it spells.
	// The model goes on from its own.
	VerdictReplace = 3
	// VerdictStop lets the tokens before position go out and ends the sequence. out is UTF-8, at most [MaxReason]
	// bytes: why, for the client.
	VerdictStop = 4
)

// VerdictNames are the verdicts as descriptions and metrics name them.
var VerdictNames = [...]string{"release", "rewind", "insert", "replace", "stop"}

// Limits of kind "guard".
const (
	MaxHold      = 256
	MaxContext   = 4096
	MaxBiases    = 4096
	MaxGuardText = 4096
	MaxEdits     = 4096
	MaxReason    = 256
)
