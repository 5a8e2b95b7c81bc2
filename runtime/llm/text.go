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
