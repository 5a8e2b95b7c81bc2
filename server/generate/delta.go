package generate

import "tgi/runtime/llm"

// What the plugins say of a reply, under the names that dialects use.
type (
	// Delta is what a piece of text adds to a reply.
	Delta = llm.Delta
	// DeltaKind says what a Delta adds.
	DeltaKind = llm.DeltaKind
	// CallFailure says why a call can't be used.
	CallFailure = llm.CallFailure
)

// The kinds of Delta.
const (
	DeltaContent   = llm.DeltaContent
	DeltaReasoning = llm.DeltaReasoning
	DeltaBegin     = llm.DeltaBegin
	DeltaArguments = llm.DeltaArguments
	DeltaEnd       = llm.DeltaEnd
	DeltaFailed    = llm.DeltaFailed
)

// The reasons of DeltaFailed.
const (
	FailedIncomplete = llm.FailedIncomplete
	FailedUnknown    = llm.FailedUnknown
	FailedMalformed  = llm.FailedMalformed
	FailedTooLong    = llm.FailedTooLong
	FailedTooMany    = llm.FailedTooMany
)
