// Package logits is for plugins that edit the logits at each step: they deny,
// favour or force tokens, end the sequence, or set the temperature.
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory; build large tables there. Each sequence
// starts from that snapshot with Begin, and Process is called at every step.
package logits

import (
	"math"
	"strconv"

	"tgi/sdk/abi"
	"tgi/sdk/go/internal/registry"
	_ "tgi/sdk/go/plugin" // exports what every guest exports
)

// Plugin starts sequences. The function given to [Register] makes it.
type Plugin interface {
	// Begin starts a sequence. params is the JSON object in the request, {} if
	// it has none. When a request is admitted, Begin also runs in a separate
	// instance with an empty prompt; an error there refuses the request, so
	// errors about params must not depend on the prompt. Begin must not write
	// to the slices; it may keep prompt, but not params.
	Begin(params []byte, prompt []uint32) (Processor, error)
}

// Processor serves one sequence.
type Processor interface {
	// Process reads the step and calls the methods of s that set its result.
	// If it calls none, nothing changes. It must not keep s or its slices. An
	// error ends the sequence.
	Process(s *Step) error
}

// Mode names an output that the plugin uses.
type Mode string

// The modes. The server refuses a result in a mode that was not declared.
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

// Uses declares the modes that a plugin uses and the logits that it reads.
type Uses struct {
	// Modes are the modes of its results.
	Modes []Mode
	// View is how many of the most likely tokens Step.View has: 0 to 4096.
	// With 0 there is no view.
	View int
	// Row is true if the plugin reads Step.Row. The server then copies the
	// whole row at every step.
	Row bool
}

// Register makes the guest a logits plugin. Call it from an init function. The
// server calls open once with the JSON object of the plugin's configuration, {}
// if it has none. open must not keep config. Its error refuses the plugin.
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

// Entry is a token with a logit (in the view) or with a bias (in Step.Bias).
type Entry struct {
	ID    uint32
	Value float32
}

// Step is one position of the sequence, for which a token will be chosen. Its
// slices are valid during the call of Process.
type Step struct {
	// Tokens is the sequence so far, the prompt first.
	Tokens []uint32
	// Prompt is the number of Tokens, from the first, that are the prompt.
	Prompt int
	// New is the number of Tokens, at the end, that were added since the last
	// call: 0 in the first call, then 1, or more after forced tokens.
	New int
	// View has the most likely tokens, in order of falling logit, if declared.
	View []Entry
	// Row has the logits of all tokens by id, if declared.
	Row []float32

	result Result
}

// Result is the result of a step. The zero value with Temperature NaN changes
// nothing.
type Result struct {
	// Mode is one of abi.ModePass to abi.ModeRow. Of the four slices below only
	// the one of the mode is set.
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

// Result returns the result as set so far.
func (s *Step) Result() Result { return s.result }

// Reset clears the result. The SDK and plugintest call it before each step.
func (s *Step) Reset() { s.result = Result{Temperature: float32(math.NaN())} }

// Allow denies every token except these. The slice must not change until the
// next step. This also applies to the slices of the methods below.
func (s *Step) Allow(ids []uint32) { s.set(Result{Mode: abi.ModeAllow, IDs: ids}) }

// Deny denies these tokens.
func (s *Step) Deny(ids []uint32) { s.set(Result{Mode: abi.ModeDeny, IDs: ids}) }

// Bias adds each entry's value to its token's logit; -Inf denies the token. If
// a token has several entries, their values are added.
func (s *Step) Bias(entries []Entry) { s.set(Result{Mode: abi.ModeSparse, Entries: entries}) }

// Mask denies every token t whose bit t%32 in words[t/32] is 0. words must have
// abi.MaskWords(plugin.VocabSize()) words.
func (s *Step) Mask(words []uint32) { s.set(Result{Mode: abi.ModeBitmask, Words: words}) }

// SetView sets the logit of each entry's token to its value; -Inf denies the
// token. entries is usually the edited Step.View. A token may occur only once.
func (s *Step) SetView(entries []Entry) { s.set(Result{Mode: abi.ModeView, Entries: entries}) }

// SetRow makes the edited Step.Row the logits of this step.
func (s *Step) SetRow() { s.set(Result{Mode: abi.ModeRow, Row: s.Row}) }

// Only makes Bias or SetView also deny the tokens that have no entry.
func (s *Step) Only() { s.result.Only = true }

// Stop ends the sequence at this position.
func (s *Step) Stop() { s.result.Stop = true }

// Force makes ids, at most 256 tokens, the next tokens from this position on.
// Process is called again when they are in the sequence.
func (s *Step) Force(ids []uint32) { s.result.Force = ids }

// Temperature sets the temperature of this step. With 0 the most likely token is chosen.
func (s *Step) Temperature(t float32) { s.result.Temperature = t }

// set replaces the mode and its slices and keeps the other fields.
func (s *Step) set(r Result) {
	r.Only, r.Stop, r.Temperature, r.Force = s.result.Only, s.result.Stop, s.result.Temperature, s.result.Force
	s.result = r
}
