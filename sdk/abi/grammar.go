package abi

// KindGrammar is the kind whose guests define the allowed tokens by a grammar of the request.
const KindGrammar = "grammar"

// NameSteps among the "modes" of the description: the guest has the exports of
// [GrammarSteps] in place of those of [Grammar].
const NameSteps = "steps"

// Grammar lists the further export of a guest of kind "grammar" that compiles: the server runs the result without the
// guest.
//
//	tgi_grammar_compile(request, request bytes) -> pointer to [CompiledSize]
//	    bytes, aligned to 4, that stay readable until the next call. Called
//	    once in an instance.
//
// The description has "languages": an array of the names that requests have for
// what the guest reads, 1 to [MaxLanguages]. Some names have a meaning that routes rely on:
//
//	"json_schema"     source is a JSON Schema
//	"json_object"     any JSON object; source is empty
//	"regex"           source is a regular expression that the whole text matches
//	"choice"          source is a JSON array of texts
//	"gbnf", "lark"    source is a grammar in the notation of llama.cpp, of Lark
//	"structural_tag"  source is the JSON object that XGrammar defines
//
// The request is a JSON object:
//
//	"language"  one of the description's
//	"source"    string
//	"params"    the request's parameters for this plugin, or {}. Routes set
//	            "lenient" for "json_schema" where a client said whether it is
//	            strict, and "whitespace": "compact" where it wants none.
//
// Package plugins/grammar/ir defines the encoding of the result.
var Grammar = []Func{
	{Name: "tgi_grammar_compile", Params: []Type{I32, I32}, Results: []Type{I32}},
}

// GrammarSteps lists the further exports of a guest of kind "grammar" that computes masks itself, for what no compiled
// grammar can express. It has an instance for each sequence.
//
//	tgi_grammar_begin(request, request bytes) -> packed error text, 0 = accepted
//	    the request of [Grammar]
//	tgi_grammar_accept(tokens, count) -> status: [StatusOK], [StatusFailed] when
//	    they may not come here; then the instance is not used again. One token at
//	    a time, but where a text is taken up again.
//	tgi_grammar_mask(words) -> status: [StatusOK] when all [MaskWords] words at
//	    that address are written, bit t%32 of word t/32 being 1 where token t may
//	    come next, [MaskAll] when every token may, [StatusFailed] when the guest
//	    cannot go on. Tokens that end the sequence are to be among them where
//	    the text may end. A mask without any token is a fault.
//	tgi_grammar_forced() -> packed pointer to u32 ids and their count (not
//	    bytes), at most [MaxForced], aligned to 4; 0 = none. They come next,
//	    whatever the model says, and until they have the guest is not asked again.
//	tgi_grammar_key() -> name of the state, 0 = none. States of the same request
//	    that have the same key have the same mask and the same forced tokens: the
//	    server remembers masks by it.
//
// At each step the host calls accept (except at the first), then forced, then key, and mask unless it is cached.
var GrammarSteps = []Func{
	{Name: "tgi_grammar_begin", Params: []Type{I32, I32}, Results: []Type{I64}},
	{Name: "tgi_grammar_accept", Params: []Type{I32, I32}, Results: []Type{I32}},
	{Name: "tgi_grammar_mask", Params: []Type{I32}, Results: []Type{I32}},
	{Name: "tgi_grammar_forced", Results: []Type{I64}},
	{Name: "tgi_grammar_key", Results: []Type{I64}},
}

// Forms returns the sets of further exports of which a guest of a kind must have one, nil for an unknown kind.
func Forms(kind string) [][]Func {
	switch {
	case kind == KindGrammar:
		return [][]Func{Grammar, GrammarSteps}
	case Exports(kind) != nil:
		return [][]Func{Exports(kind)}
	}
	return nil
}

// MaskAll as the result of tgi_grammar_mask: every token may come next.
const MaskAll = 2

// The result of tgi_grammar_compile, five u32. After [StatusFailed] the first text is why the source can't be compiled,
// preferably with the position in it; it goes to the client. After [StatusOK] it is the grammar, and the notes are a
// JSON array of what the guest left out because it can't be enforced: objects of the strings "pointer" (the place in
// the source), "keyword" and "reason"; no bytes for none. 28 bytes of a grammar at 0x2000, nothing left out:
//
//	offset  0  00 00 00 00  status      ok
//	offset  4  00 20 00 00  text        0x2000
//	offset  8  1c 00 00 00  text bytes  28
//	offset 12  00 00 00 00  notes       none
//	offset 16  00 00 00 00  note bytes  0
const (
	CompiledSize      = 20
	CompiledStatus    = 0
	CompiledText      = 4
	CompiledTextBytes = 8
	CompiledNotes     = 12
	CompiledNoteBytes = 16
)

// Limits of kind "grammar".
const (
	// MaxGrammar is the maximum size of a grammar, in bytes; its encoding has further limits.
	MaxGrammar = 16 << 20
	// MaxNotes is the maximum size of notes, in bytes.
	MaxNotes = 1 << 20
	// MaxSource is the maximum size of a source, in bytes.
	MaxSource = 4 << 20
	// MaxLanguages is the maximum number of languages, and MaxLanguage the maximum length of a name, in bytes.
	MaxLanguages = 64
	MaxLanguage  = 64
)
