package llm

// EarlyStopping decides when a beam search that has as many finished sequences as
// beams ends before the length limit.
type EarlyStopping uint8

// The values of transformers' early_stopping, with transformers' names.
const (
	// StopUnlikely (false) ends when the best open beam, if it finished now, would
	// not beat the worst finished sequence.
	StopUnlikely EarlyStopping = iota
	// StopFull (true) ends at once.
	StopFull
	// StopNever ("never") is StopUnlikely if LengthPenalty is 0 or less. Otherwise it
	// ends when the best open beam could not win even if it ran to MaxNewTokens with
	// its present sum of scores.
	StopNever
)

// String returns transformers' name: false, true, never.
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
