package llm

// ProgramError refuses what a program asks for. The program learns of it and goes on.
type ProgramError struct {
	// Status is one of abi.ProgramArgument and those below it.
	Status int
	// Text says what is wrong.
	Text string
}

// Error returns the text.
func (e *ProgramError) Error() string { return e.Text }

// ProgramSpan is what a context of a program generated last.
type ProgramSpan struct {
	// From is the first of Count tokens.
	From, Count int
	// Reason is why it ended; FinishNone if nothing was generated yet.
	Reason Reason
	// Logprob is the sum of the tokens' log-probabilities.
	Logprob float64
}
