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
	// Reason is why it ended; FinishNone if nothing was generated yet, or Denied.
	Reason Reason
	// End is the token that ended it, where Reason is FinishEOS.
	End Token
	// Denied says that none of the tokens might be the first that the run was not denied. Count is 0.
	Denied bool
	// Logprob is the sum of the tokens' log-probabilities.
	Logprob float64
}
