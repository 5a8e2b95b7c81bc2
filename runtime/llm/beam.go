package llm

// EarlyStopping says when a beam search that has as many finished sequences as
// beams ends, before the length limit.
type EarlyStopping uint8

// The three values that Python's transformers knows, with what it calls them.
const (
	// StopUnlikely (false) ends when the best open beam, were it finished now,
	// would not be better than the worst finished sequence.
	StopUnlikely EarlyStopping = iota
	// StopFull (true) ends at once.
	StopFull
	// StopNever ("never") is StopUnlikely for a LengthPenalty of 0 and less. With
	// a greater one it ends when the best open beam could not be better even if it
	// ran to MaxNewTokens without losing anything.
	StopNever
)

// String returns what transformers calls it: false, true, never.
func (s EarlyStopping) String() string {
	switch s {
	case StopFull:
		return "true"
	case StopNever:
		return "never"
	}
	return "false"
}

// BeamSearch reports whether the settings ask for a beam search.
func (p *Params) BeamSearch() bool { return p.NumBeams > 1 }
