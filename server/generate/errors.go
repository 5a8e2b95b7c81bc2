package generate

import (
	"errors"
	"fmt"
	"time"

	"tgi/runtime/llm"
)

// ErrIncomplete: the engine's stream ended before the sequence did.
var ErrIncomplete = errors.New("incomplete generation")

// ErrToolServer: a server whose tools a request asks for cannot be used.
var ErrToolServer = errors.New("the tools of a server are not to be had")

// ErrTool: a call of a tool that was demanded was not made, or not right.
var ErrTool = errors.New("tool error")

// ErrCall: the model is to blame for an ErrTool, and not the request.
var ErrCall = errors.New("no call as demanded")

// ToolError says what is wrong with the tools of a request, or the calls of a
// reply. It wraps ErrTool and llm.ErrInvalid.
type ToolError struct {
	// Msg is for the client.
	Msg string
	// Plain is Msg for APIs whose clients do not know TGI's words; empty for Msg.
	Plain string
	// Field is the one that is to blame; empty for tool_choice.
	Field string
	// Err is a further error that it wraps, or nil.
	Err error
}

// Error returns Msg.
func (e *ToolError) Error() string { return e.Msg }

// Unwrap returns ErrTool, llm.ErrInvalid and Err.
func (e *ToolError) Unwrap() []error {
	all := []error{ErrTool, llm.ErrInvalid}
	if e.Err != nil {
		all = append(all, e.Err)
	}
	return all
}

// AnswerOrCalls is TGI's answer to a request with a grammar, in a field, and tools, where the model's format of calls
// can't be told from an answer, or its parser's plugin knows no more than calls.
func AnswerOrCalls(field string) error {
	return &ToolError{Msg: "Grammar and tools are mutually exclusive", Field: field,
		Plain: fmt.Sprintf("`%s` and `tools` exclude each other", field)}
}

// Invalid is a request that broke a rule. It wraps llm.ErrInvalid.
type Invalid struct {
	// Msg names the field, the bound and, where it is a number, the value.
	Msg string
	// Field is the name of Draft's own field on TGI's routes; empty where a rule
	// is about none.
	Field string
	// Outline is Msg without what plugins may have put into it; empty where there is no such text.
	Outline string
	// TooLong says that prompt and output do not fit.
	TooLong bool
}

// Error returns Msg.
func (e *Invalid) Error() string { return e.Msg }

// Unwrap returns llm.ErrInvalid.
func (e *Invalid) Unwrap() error { return llm.ErrInvalid }

func invalid(field, format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...), Field: field}
}

func tooLong(format string, args ...any) error {
	return &Invalid{Msg: fmt.Sprintf(format, args...), Field: "inputs", TooLong: true}
}

// Overloaded is a request that found no room. It wraps llm.ErrOverloaded.
type Overloaded struct {
	// RetryAfter is when room is likely.
	RetryAfter time.Duration
	// Reason says what is used up, for the client, where that is not the number of
	// requests; else it is empty.
	Reason string
}

// Error returns the text of llm.ErrOverloaded, and the reason.
func (e *Overloaded) Error() string {
	if e.Reason == "" {
		return llm.ErrOverloaded.Error()
	}
	return llm.ErrOverloaded.Error() + e.Detail()
}

// Detail is what texts about it end with.
func (e *Overloaded) Detail() string {
	if e.Reason == "" {
		return ""
	}
	return ": " + e.Reason
}

// Unwrap returns llm.ErrOverloaded.
func (e *Overloaded) Unwrap() error { return llm.ErrOverloaded }
