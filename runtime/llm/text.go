package llm

// Span is a part of a text: from the byte Start up to the byte End.
type Span struct{ Start, End int }

// Rendered is the prompt that a conversation becomes.
type Rendered struct {
	// Text holds the special tokens that the model expects.
	Text string
	// Data are the parts of Text that came from the request: rising, not overlapping, on
	// the borders of characters, none empty. No special token is recognised in them.
	Data []Span
}

// Piece is a token of a text.
type Piece struct {
	ID Token
	// Text is the part of the input that the token covers: its characters [Start, End). It
	// is empty for a token that the post-processor added. A character that is spread over
	// several tokens is the text of each of them.
	Text string
	// Start and End count characters (Unicode scalar values) of the input.
	Start, End int
}

// Encoding says how a prompt is encoded, and how far.
type Encoding struct {
	// Special adds the tokens that the model expects around a prompt.
	Special bool
	// Data are the parts in which no special token is recognised, as in Rendered.
	Data []Span
	// Keep returns the last tokens alone, 0 all.
	Keep int
	// Most ends the work once the text is known to have more tokens; 0 never does. A few more may be counted, so that
	// their number can be told.
	Most int
	// Pause is called now and then while a long text is encoded; it may wait. Its error ends the work. nil is none.
	Pause func() error
}

// Encoded is the tokens of a prompt.
type Encoded struct {
	// Tokens are nil where the text has too many.
	Tokens []Token
	// Count is how many the text has, be they kept or not.
	Count int
	// AtLeast says that the text has Count tokens or more: the work ended before they were known.
	AtLeast bool
}
