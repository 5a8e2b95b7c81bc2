package host

// Program has the functions of the server that only programs can call. Package program documents them. Results below 0
// are a status of the binary interface; slices are then nil.
type Program interface {
	Fork(c int32) int32
	Drop(c int32) int32
	Append(c int32, text string, flags uint32) int32
	Push(c int32, ids []uint32) int32
	Len(c int32) int32
	Rewind(c, n int32) int32
	ReadIDs(c, from int32) ([]uint32, int32)
	ReadText(c, from int32) []byte
	Start(c int32, settings string) int32
	Wait(list []uint32, flags uint32) int32
	Span(c int32) (Span, int32)
	Top(c, k int32) ([]Candidate, int32)
	Row(c int32) ([]float32, int32)
	Entropy(c int32) (float64, int32)
	Score(c int32, ids []uint32) ([]float32, int32)
	Ask(c int32, ids []uint32) int32
	Emit(c, from, count int32) int32
	EmitText(text string) int32
	Render(request string) int32
	GrammarPrefix(grammar, text string) int32
	Calls(c int32) int32
	Why() string
}

// Span is laid out as the binary interface has it.
type Span struct {
	From, Count, Reason, End uint32
	Logprob                  float64
}

// Candidate is laid out as the binary interface has it.
type Candidate struct {
	ID             uint32
	Logit, Logprob float32
}
