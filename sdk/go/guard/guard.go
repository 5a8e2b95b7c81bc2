// Package guard is for plugins that decide which of the generated tokens go
// out: they hold them back, take them back, insert, replace, or end the text.
// No client sees a token before its guards released it.
//
// A [Plugin] is made once, from the configuration, before the server takes its
// snapshot of the guest's memory; build large tables there. Each sequence
// starts from that snapshot with Begin, and Check is called behind each token.
package guard

import (
	"strconv"
	"strings"

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
	Begin(params []byte, prompt []uint32) (Guard, error)
}

// Guard serves one sequence. It is not taken back with the sequence: it keeps what it knows.
type Guard interface {
	// Check looks at what is held back and calls one of the methods of s that
	// set the verdict. If it calls none, everything is released. It must not
	// keep s or its slices. An error ends the sequence.
	Check(s *Step) error
}

// Verdict names a verdict that the plugin gives.
type Verdict string

// The verdicts that are to be declared. The server refuses others.
const (
	Rewind  Verdict = "rewind"
	Insert  Verdict = "insert"
	Replace Verdict = "replace"
	Stop    Verdict = "stop"
)

// Uses declares what a guard does.
type Uses struct {
	// Hold is how many tokens it may hold back: 1 to 256.
	Hold int
	// Every is how often it is asked: where the number of generated tokens is
	// divisible by it, and at the end. 0 is 1.
	Every int
	// Verdicts are those that it gives beside release.
	Verdicts []Verdict
}

// Register makes the guest a guard. Call it from an init function. The server
// calls open once with the JSON object of the plugin's configuration, {} if it
// has none. open must not keep config. Its error refuses the plugin.
func Register(u Uses, open func(config []byte) (Plugin, error)) {
	b := strconv.AppendInt([]byte(`{"hold":`), int64(u.Hold), 10)
	b = strconv.AppendInt(append(b, `,"every":`...), int64(max(u.Every, 1)), 10)
	b = append(b, `,"verdicts":[`...)
	for i, v := range u.Verdicts {
		if i > 0 {
			b = append(b, ',')
		}
		b = registry.AppendString(b, string(v))
	}
	registry.Add(registry.Kind{Name: abi.KindGuard, Guard: string(append(b, "]}"...)),
		Init: func(config []byte) (err error) {
			current, err = open(config)
			return err
		},
		Begin: begin,
	})
}

// current and sequence are the state of this instance: one plugin, one sequence.
var (
	current Plugin
	//lint:ignore U1000 wasip1.go reads it
	sequence Guard
)

func begin(params []byte, prompt []uint32) (err error) {
	sequence, err = current.Begin(params, prompt)
	return err
}

// Bias is an addend for one token's logit.
type Bias struct {
	ID    uint32
	Value float32
}

// Step is what is held back behind a token. Its slices are valid during the
// call of Check. Positions count tokens of the sequence, the prompt's included.
type Step struct {
	// Tokens is the sequence so far, the prompt first.
	Tokens []uint32
	// Prompt is the number of Tokens, from the first, that are the prompt.
	Prompt int
	// New is the number of Tokens, at the end, that came since the last
	// call.
	New int
	// Released is the number of Tokens that are final: the prompt and what went
	// out.
	Released int
	// Text is the model's own, also where the client got other text for it: the end of that of the released tokens, at
	// most 4,096 bytes, and behind it that of the tokens that are held back.
	// Special tokens have none. Its first character may be cut.
	Text []byte
	// Context is how many bytes of Text are of released tokens: a search begins there.
	Context int
	// Ends holds for each token that is held back where its text ends in Text.
	Ends []uint32
	// Reason says why the sequence is about to end: abi.ReasonNone where it goes
	// on. At the end everything is to be released, or taken back.
	Reason uint32

	result Result
}

// Result is a verdict. Its positions are those of [Step].
type Result struct {
	Verdict  uint32 // one of abi.VerdictRelease to abi.VerdictStop
	Position int
	Biases   []Bias // abi.VerdictRewind
	Text     string // abi.VerdictInsert, abi.VerdictReplace, abi.VerdictStop
	Edits    []Edit // abi.VerdictReplace; nil where Text is what the client gets
	Done     bool
}

// Edit says that Words stand instead of the bytes of [Step].Text from From to To.
type Edit struct {
	From, To int
	Words    string
}

// Replacement returns what a replacement makes of text, that of the tokens
// before its position; from is where that begins in [Step].Text.
func (r Result) Replacement(text []byte, from int) string {
	if r.Edits == nil {
		return r.Text
	}
	var out strings.Builder
	at := 0
	for _, e := range r.Edits {
		out.Write(text[at : e.From-from])
		out.WriteString(e.Words)
		at = e.To - from
	}
	out.Write(text[at:])
	return out.String()
}

// Result returns the verdict as set so far.
func (s *Step) Result() Result { return s.result }

// Reset makes the verdict to release everything. The SDK and plugintest call it
// before each check.
func (s *Step) Reset() { s.result = Result{Position: len(s.Tokens)} }

// TokenAt returns the position of the token that has byte i of Text, which is
// held back.
func (s *Step) TokenAt(i int) int {
	at := s.Released
	for _, end := range s.Ends {
		if int(end) > i {
			break
		}
		at++
	}
	return min(at, len(s.Tokens))
}

// Release lets the tokens before position go out and holds the others back.
func (s *Step) Release(position int) { s.set(Result{Position: position}) }

// HoldFrom lets go what is before byte i of Text, and holds back the token that
// has it and all behind it.
func (s *Step) HoldFrom(i int) { s.Release(s.TokenAt(i)) }

// Rewind takes back all tokens from position on. The biases are added to the
// logits of the token that comes there instead; -Inf forbids. Without any, the
// token that was there is forbidden.
func (s *Step) Rewind(position int, biases ...Bias) {
	s.set(Result{Verdict: abi.VerdictRewind, Position: position, Biases: biases})
}

// Insert takes back all tokens from position on and goes on with a text.
func (s *Step) Insert(position int, text string) {
	s.set(Result{Verdict: abi.VerdictInsert, Position: position, Text: text})
}

// Replace gives the client a text instead of the tokens before position. Where
// other guards replace as well, what this one changes is guessed from the text,
// and more may go; [Step.Edit] says it.
func (s *Step) Replace(position int, text string) {
	s.set(Result{Verdict: abi.VerdictReplace, Position: position, Text: text})
}

// Edit gives the client the text of the tokens before position with other words
// instead of some bytes of Text. Edits are in the order of the text and do not
// overlap; the first is not before Context.
func (s *Step) Edit(position int, edits ...Edit) {
	s.set(Result{Verdict: abi.VerdictReplace, Position: position, Edits: append([]Edit{}, edits...)})
}

// Stop lets the tokens before position go out and ends the text; the client is
// told why.
func (s *Step) Stop(position int, why string) {
	s.set(Result{Verdict: abi.VerdictStop, Position: position, Text: why})
}

// Done says that the guard is not to be asked again: all that comes is released.
func (s *Step) Done() { s.result.Done = true }

func (s *Step) set(r Result) {
	r.Done = s.result.Done
	s.result = r
}
