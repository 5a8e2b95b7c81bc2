package chat

// Editor reads what is typed at a terminal.
type Editor interface {
	// Read shows a prompt and returns what was typed, without the end of its last line. Errors: ErrInterrupted,
	// beside which it returns what was typed so far, io.EOF and those of reading. One Read runs at a time.
	Read(Request) (string, error)
}

// Request asks an Editor for an entry.
type Request struct {
	// Prompt stands before the first line, More before each further one.
	Prompt, More string
	// Open says that text goes on with a further line. It is nil for an answer of one line, which the history
	// does not keep.
	Open func(text string) bool
	// Complete returns what the last word of the text before the cursor may become; nil completes nothing.
	Complete func(text string) []Candidate
}

// Candidate is a word that an Editor may complete to.
type Candidate struct{ Text, Help string }
