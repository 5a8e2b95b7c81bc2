// Package logits is the kind of plugin that edits the logits of each step:
// denies or favours tokens, forces them, ends the sequence, sets temperature.
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory; large tables belong there. Each sequence
// starts from that snapshot with Begin, and Process is called at every step.
package logits

import (
	"math"
	"strconv"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin is what the function given to [Register] makes.
type Plugin interface {
	// Begin starts a sequence. params is the JSON object that the request
	// gave, {} if none; prompt may be kept. An error refuses the request when
	// it is admitted: then Begin runs in an instance of its own with an empty
	// prompt, so faults of params must not depend on the prompt. Neither
	// slice may be written to, and params may not be kept.
	Begin(params []byte, prompt []uint32) (Processor, error)
}

// Processor serves one sequence.
type Processor interface {
	// Process looks at the step and calls the methods of s that set its
	// result; calling none of them changes nothing. s and its slices may not
	// be kept. An error ends the sequence.
	Process(s *Step) error
}

// Mode names an output that the plugin uses.
type Mode string

// The outputs. The server refuses a result whose mode was not declared.
const (
	Allow       Mode = "allow"
	Deny        Mode = "deny"
	Sparse      Mode = "sparse"
	Bitmask     Mode = "bitmask"
	TopK        Mode = "topk"
	Row         Mode = "row"
	Stop        Mode = abi.NameStop
	Force       Mode = abi.NameForce
	Temperature Mode = abi.NameTemperature
)

// Uses declares what a plugin answers with and what it looks at.
type Uses struct {
	// Modes are the outputs.
	Modes []Mode
	// View is how many of the most likely tokens Step.View holds; 0 for none,
	// at most 4096.
	View int
	// Row says that Step.Row is wanted. It costs a copy of the whole row at
	// every step.
	Row bool
}

// Register makes the guest a logits plugin. Call it from an init function;
// open gets the JSON object of the plugin's configuration, {} if none, which
// it may not keep. An error refuses the plugin.
func Register(u Uses, open func(config []byte) (Plugin, error)) {
	var modes, needs []string
	for _, m := range u.Modes {
		modes = append(modes, string(m))
	}
	if u.View > 0 {
		needs = append(needs, abi.NeedsTopK+strconv.Itoa(u.View))
	}
	if u.Row {
		needs = append(needs, abi.NeedsRow)
	}
	registry.Add(registry.Kind{Name: abi.KindLogits, Modes: modes, Needs: needs,
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: begin,
	})
}

// current and processor are the state of this instance: one plugin, one sequence.
var (
	current   Plugin
	processor Processor
)

func begin(params []byte, prompt []uint32) (err error) {
	processor, err = current.Begin(params, prompt)
	return err
}

// Entry is a token with a logit (in the view) or a bias (in a sparse result).
type Entry struct {
	ID    uint32
	Value float32
}

// Step is one position of the sequence for which a token is to be chosen.
// Its slices end with the call.
type Step struct {
	// Tokens is the sequence so far, the prompt first.
	Tokens []uint32
	// Prompt is how many of Tokens are the prompt.
	Prompt int
	// New is how many of Tokens, at the end, the last call did not have: 0 in
	// the first call, then 1, more after forced tokens.
	New int
	// View holds the most likely tokens, by falling logit, if declared.
	View []Entry
	// Row holds the logits of all tokens, if declared.
	Row []float32

	result Result
}

// Result is what a processor answered. The zero value with Temperature NaN
// changes nothing.
type Result struct {
	// Mode is one of abi.ModePass to abi.ModeRow. Of the slices below only the
	// one of the mode is set.
	Mode    uint32
	IDs     []uint32  // abi.ModeAllow, abi.ModeDeny
	Entries []Entry   // abi.ModeSparse, abi.ModeView
	Words   []uint32  // abi.ModeBitmask
	Row     []float32 // abi.ModeRow
	// Only, Stop: see the methods of Step.
	Only, Stop  bool
	Temperature float32
	Force       []uint32
}

// Result returns what has been set so far.
func (s *Step) Result() Result { return s.result }

// Reset clears the result. The server's side calls it before each step.
func (s *Step) Reset() { s.result = Result{Temperature: float32(math.NaN())} }

// Allow denies every token but these. The slice must not change until the
// next step; the same holds for the other results.
func (s *Step) Allow(ids []uint32) { s.set(Result{Mode: abi.ModeAllow, IDs: ids}) }

// Deny denies these tokens.
func (s *Step) Deny(ids []uint32) { s.set(Result{Mode: abi.ModeDeny, IDs: ids}) }

// Bias adds each entry's value to its token's logit; -Inf denies. Entries of
// one token add up.
func (s *Step) Bias(entries []Entry) { s.set(Result{Mode: abi.ModeSparse, Entries: entries}) }

// Mask denies every token t whose bit t%32 in words[t/32] is 0. There are as
// many words as abi.MaskWords says for the vocabulary.
func (s *Step) Mask(words []uint32) { s.set(Result{Mode: abi.ModeBitmask, Words: words}) }

// SetView sets each entry's token to its value, -Inf denies; mostly it gets
// Step.View, edited. A token stands in it once.
func (s *Step) SetView(entries []Entry) { s.set(Result{Mode: abi.ModeView, Entries: entries}) }

// SetRow says that Step.Row has been edited.
func (s *Step) SetRow() { s.set(Result{Mode: abi.ModeRow, Row: s.Row}) }

// Only makes Bias or SetView deny the tokens that have no entry.
func (s *Step) Only() { s.result.Only = true }

// Stop ends the sequence at this position.
func (s *Step) Stop() { s.result.Stop = true }

// Force makes ids, at most 256, the tokens at this position and after it.
// Process is called again when they are in the sequence.
func (s *Step) Force(ids []uint32) { s.result.Force = ids }

// Temperature sets the temperature of this step; 0 takes the most likely token.
func (s *Step) Temperature(t float32) { s.result.Temperature = t }

// set replaces mode and arrays and keeps what stands beside the mode.
func (s *Step) set(r Result) {
	r.Only, r.Stop, r.Temperature, r.Force = s.result.Only, s.result.Stop, s.result.Temperature, s.result.Force
	s.result = r
}
