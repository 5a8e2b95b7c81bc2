package abi

// KindDraft is the kind of plugins that guess the tokens that come next, so that a step may compute several.
const KindDraft = "draft"

// Draft lists the further exports of kind "draft". A module that serves it serves no other kind of the token loop:
// what it does changes no text.
//
//	tgi_draft_begin(params, params bytes, prompt, prompt count) -> packed error text
//	    prompt is u32 token ids and stays readable for the life of the instance.
//	tgi_draft_propose(tokens, count, new, to, room) -> count, negative = failed
//	    tokens are the u32 ids of the whole sequence, the prompt first; the last
//	    new of them are others than in the last call. The guest writes the ids that
//	    it expects to follow, first the next one, to the room for [MaxDraft] ids
//	    at to, at most room of them, and returns their number; 0 is no guess.
//	    It is not called at each step, and runs beside steps.
//
// A guess in numbers: 3 tokens of prompt and one that is new, and the guest expects 7 and then 9:
//
//	tgi_draft_propose(0x1000, 4, 1, 0x2000, 7) -> 2
//	0x2000  07 00 00 00 09 00 00 00
//
// An instance is not taken back with the sequence: new may count tokens that replace others.
var Draft = []Func{
	{Name: "tgi_draft_begin", Params: []Type{I32, I32, I32, I32}, Results: []Type{I64}},
	{Name: "tgi_draft_propose", Params: []Type{I32, I32, I32, I32, I32}, Results: []Type{I32}},
}

// MaxDraft is the most tokens that a guest guesses at a time.
const MaxDraft = 32
