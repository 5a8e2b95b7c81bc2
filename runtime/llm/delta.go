package llm

import "fmt"

// DeltaKind says what a Delta adds.
type DeltaKind uint8

// Calls are numbered from 0 in the order in which they begin, and one is open at
// a time. The numbers are those of the plugins' contract.
const (
	// DeltaContent: Text is a part of the answer.
	DeltaContent DeltaKind = iota
	// DeltaReasoning: Text is a part of what the model thinks.
	DeltaReasoning
	// DeltaBegin: a call of Name begins; ID may be empty.
	DeltaBegin
	// DeltaArguments: Text is the next part of the open call's arguments.
	DeltaArguments
	// DeltaEnd: the open call is complete and may be executed.
	DeltaEnd
	// DeltaFailed: what the model wrote, Text, is a call that can't be used, for
	// the reason Failed. Index is negative where it had not begun.
	DeltaFailed
)

// CallFailure says why a call can't be used.
type CallFailure uint8

// The numbers are those of the plugins' contract.
const (
	// FailedIncomplete: the text ended inside the call.
	FailedIncomplete CallFailure = iota
	// FailedUnknown: the tool was not offered, or another was demanded.
	FailedUnknown
	// FailedMalformed: it is not what the format demands, or no JSON object.
	FailedMalformed
	// FailedTooLong: it is longer or deeper than the parser takes.
	FailedTooLong
	// FailedTooMany: there are more calls than are allowed.
	FailedTooMany
)

// Delta is what a piece of text adds to a reply: content, reasoning, or a step of a tool call. Fields that
// its kind does not use are zero.
type Delta struct {
	Kind DeltaKind
	// Index is the number of the call.
	Index int
	// Text, Name and ID are those of the kind.
	Text, Name, ID string
	// Failed is the reason of DeltaFailed.
	Failed CallFailure
}

// String says what is wrong with the call.
func (f CallFailure) String() string {
	switch f {
	case FailedIncomplete:
		return "is incomplete"
	case FailedUnknown:
		return "is of a tool that was not offered or not demanded"
	case FailedMalformed:
		return "is not what the format demands"
	case FailedTooLong:
		return "is too long or too deep"
	case FailedTooMany:
		return "is one more than is allowed"
	}
	return fmt.Sprintf("failed for reason %d", uint8(f))
}
