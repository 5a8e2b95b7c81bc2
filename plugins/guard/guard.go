// Package guard is the host's side of the plugin kind "guard": it shows a guest what of a sequence is held back, and
// reads its verdict. What verdicts do is the business of the engine.
//
// A checker is used by one goroutine at a time; the package starts none. Its caller is package plugins.
package guard

import (
	"encoding/binary"
	"fmt"
	"math"
	"strings"
	"unicode/utf8"

	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Fuel for the host's work on what a guest returns.
const (
	biasFuel = 20  // per bias
	textFuel = 250 // per byte of text, whose tokens are looked up
	editFuel = 200 // per edit
)

// Checker asks a guest of kind "guard" about one sequence.
//
// Its errors are a [*sandbox.Fault] that names plugin, export, what went wrong and what the guest printed last; after
// one of them every call fails.
type Checker struct {
	s      *guest.Session
	entry  *guest.Entry
	rooms  guest.Rooms
	d      guest.Guard
	prompt int
	seen   []uint32 // tokens of the last call, behind the prompt
	text   uint32   // room for the text
	size   int      // of that room
	biases []llm.Bias
}

// NewChecker returns the checker of a session that was begun with abi.KindGuard. Closing the session ends it.
func NewChecker(s *guest.Session) *Checker {
	r := s.Rooms()
	return &Checker{s: s, entry: s.Entry(guest.GuardCheck), rooms: r, d: s.Guest().Description().Guard,
		prompt: s.Prompt(), text: r.Text, size: guest.TextRoom}
}

// Check asks the guest. The result is valid until the next call; its positions count tokens of the output.
func (c *Checker) Check(v *llm.GuardView) (llm.Verdict, error) {
	same := 0
	for n := min(len(c.seen), len(v.Output)-v.New); same < n && c.seen[same] == v.Output[same]; {
		same++
	}
	fresh := len(v.Output) - same
	for range max(1, min(fresh, guest.Burst)) {
		c.entry.Next()
	}
	if err := c.write(v, same); err != nil {
		return llm.Verdict{}, err
	}
	c.seen = append(c.seen[:same], v.Output[same:]...)
	status, err := c.entry.Call(uint64(c.rooms.Guard))
	if err != nil {
		return llm.Verdict{}, err
	}
	out, err := c.read(v, uint32(status))
	if err != nil {
		return llm.Verdict{}, c.s.Break(guest.GuardCheck, err.Error())
	}
	return out, nil
}

// reasons are the contract's.
var reasons = [...]uint32{llm.FinishNone: abi.ReasonNone, llm.FinishEOS: abi.ReasonEOS,
	llm.FinishLength: abi.ReasonLength, llm.FinishStop: abi.ReasonStop,
	llm.FinishGuard: abi.ReasonGuard}

// write fills the guest's memory. The first `same` tokens of the output are there already.
func (c *Checker) write(v *llm.GuardView, same int) error {
	c.entry.Rewind(c.prompt + same)
	tokens, err := c.entry.Tokens(v.Prompt, v.Output)
	if err != nil {
		return err
	}
	if len(v.Text) > c.size {
		if c.text, err = c.entry.Room(2 * len(v.Text)); err != nil {
			return err
		}
		c.size = 2 * len(v.Text)
	}
	if len(v.Ends) > guest.GuardRoom {
		return fmt.Errorf("BUG: %d tokens are held, there is room for %d", len(v.Ends), guest.GuardRoom)
	}
	memory := c.s.Memory()
	copy(memory[c.text:], v.Text)
	for i, end := range v.Ends {
		binary.LittleEndian.PutUint32(memory[int(c.rooms.Ends)+4*i:], end)
	}
	step := memory[c.rooms.Guard:][:abi.GuardSize]
	for i, x := range [...]uint32{abi.GuardSize, tokens, uint32(c.prompt + len(v.Output)), uint32(c.prompt),
		uint32(len(v.Output) - same), uint32(c.prompt + v.Released), c.text, uint32(len(v.Text)), uint32(v.Context),
		c.rooms.Ends, reasons[v.Reason], 0, 0, 0, 0, 0} {
		binary.LittleEndian.PutUint32(step[4*i:], x)
	}
	return nil
}

// read reads the guest's verdict. The error names the rule and the value that breaks it.
func (c *Checker) read(v *llm.GuardView, status uint32) (llm.Verdict, error) {
	memory := c.s.Memory()
	step := memory[c.rooms.Guard:][:abi.GuardSize]
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(step[at:]) }
	verdict, position, flags := field(abi.GuardVerdict), field(abi.GuardPosition), field(abi.GuardFlags)
	out := array{memory, field(abi.GuardOut), field(abi.GuardOutCount)}
	switch {
	case status == abi.StatusFailed:
		text, err := out.bytes("error text", abi.MaxText)
		if err != nil || len(text) == 0 {
			return llm.Verdict{}, fmt.Errorf("the guest failed without a text")
		}
		return llm.Verdict{}, fmt.Errorf("the guest failed: %s", guest.ErrorText(text))
	case status != abi.StatusOK:
		return llm.Verdict{}, fmt.Errorf("status %d: there are %d and %d", int32(status), abi.StatusOK,
			abi.StatusFailed)
	case verdict >= uint32(len(abi.VerdictNames)):
		return llm.Verdict{}, fmt.Errorf("verdict %d: the last is %d", verdict, len(abi.VerdictNames)-1)
	case !c.d.Gives(verdict):
		return llm.Verdict{}, fmt.Errorf("verdict %s: the description does not declare it", abi.VerdictNames[verdict])
	case flags&^(abi.FlagDone|abi.FlagEdits) != 0:
		return llm.Verdict{}, fmt.Errorf("flags 0x%x: there are 1 (done) and 2 (edits)", flags)
	case flags&abi.FlagEdits != 0 && verdict != abi.VerdictReplace:
		return llm.Verdict{}, fmt.Errorf("verdict %s: flag 2 (edits) is for replace", abi.VerdictNames[verdict])
	}
	x := llm.Verdict{Kind: llm.VerdictKind(verdict), Position: int(position) - c.prompt, Done: flags&abi.FlagDone != 0}
	if err := c.checkPosition(v, x); err != nil {
		return x, err
	}
	if flags&abi.FlagEdits != 0 {
		if err := c.readEdits(v, &x, out); err != nil {
			return x, err
		}
		return x, c.readText(&x)
	}
	return x, c.readOut(&x, out)
}

// checkPosition checks where a verdict applies.
func (c *Checker) checkPosition(v *llm.GuardView, x llm.Verdict) error {
	n := len(v.Output)
	least, most := v.Released, n
	switch {
	case x.Kind == llm.VerdictRelease && v.Reason != llm.FinishNone:
		least = n
	case x.Kind == llm.VerdictRewind:
		most = n - 1
	case x.Kind == llm.VerdictReplace:
		least++
	}
	if x.Position < least || x.Position > most {
		return fmt.Errorf("verdict %s: position %d, want %d to %d", x.Kind, c.prompt+x.Position, c.prompt+least,
			c.prompt+most)
	}
	return nil
}

// readOut reads what a verdict calls for.
func (c *Checker) readOut(x *llm.Verdict, out array) error {
	switch x.Kind {
	case llm.VerdictRelease:
		return nil
	case llm.VerdictRewind:
		return c.readBiases(x, out)
	}
	most := abi.MaxGuardText
	if x.Kind == llm.VerdictStop {
		most = abi.MaxReason
	}
	text, err := out.bytes("verdict "+x.Kind.String(), most)
	if err != nil {
		return err
	}
	if !utf8.Valid(text) {
		return fmt.Errorf("verdict %s: the text is not UTF-8", x.Kind)
	}
	if x.Kind == llm.VerdictStop {
		x.Why = string(text)
		return nil
	}
	x.Text = string(text)
	return c.readText(x)
}

// readEdits reads what a replacement changes, and makes its text.
func (c *Checker) readEdits(v *llm.GuardView, x *llm.Verdict, out array) error {
	if out.count > abi.MaxEdits {
		return fmt.Errorf("verdict replace: %d edits, the limit is %d", out.count, abi.MaxEdits)
	}
	if err := out.check("edits", abi.EditSize); err != nil {
		return err
	}
	if err := c.entry.Charge(int64(out.count) * editFuel); err != nil {
		return err
	}
	end := v.Ends[x.Position-v.Released-1]
	done := uint32(v.Context)
	x.Edits = make([]llm.TextEdit, 0, out.count)
	var text strings.Builder
	for i := range out.count {
		at := out.memory[out.at+i*abi.EditSize:]
		from, to := binary.LittleEndian.Uint32(at), binary.LittleEndian.Uint32(at[4:])
		if from < done || to < from || to > end {
			return fmt.Errorf("verdict replace: edit %d takes bytes %d to %d, want them in order from %d to %d", i, from, to,
				done, end)
		}
		if inside(v.Text, from) || inside(v.Text, to) {
			return fmt.Errorf("verdict replace: edit %d takes bytes %d to %d, which are no whole characters", i, from, to)
		}
		words, err := array{out.memory, binary.LittleEndian.Uint32(at[8:]), binary.LittleEndian.Uint32(at[12:])}.
			bytes("verdict replace", abi.MaxGuardText)
		if err != nil {
			return err
		}
		if !utf8.Valid(words) {
			return fmt.Errorf("verdict replace: the words of edit %d are not UTF-8", i)
		}
		text.Write(v.Text[done:from])
		text.Write(words)
		if text.Len() > abi.MaxGuardText {
			return fmt.Errorf("verdict replace: a text of more than %d bytes", abi.MaxGuardText)
		}
		if done = to; from < to || len(words) > 0 { // one that changes nothing is none
			x.Edits = append(x.Edits, llm.TextEdit{From: int(from) - v.Context, To: int(to) - v.Context,
				Words: string(words)})
		}
	}
	text.Write(v.Text[done:end])
	if text.Len() > abi.MaxGuardText {
		return fmt.Errorf("verdict replace: a text of %d bytes, the limit is %d", text.Len(), abi.MaxGuardText)
	}
	x.Text = text.String()
	return nil
}

// inside reports whether a place lies inside a character of a text.
func inside(text []byte, at uint32) bool { return int(at) < len(text) && !utf8.RuneStart(text[at]) }

// readText looks up the tokens of a verdict's text. What is inserted may have special tokens, but for those that end a
// sequence. What a client gets instead of the model's words is text, whatever it spells: the model's own words in it,
// and those of a client's parameters, may spell such tokens.
func (c *Checker) readText(x *llm.Verdict) error {
	if err := c.entry.Charge(int64(len(x.Text)) * textFuel); err != nil {
		return err
	}
	vocab := c.s.Guest().Vocabulary()
	if x.Kind == llm.VerdictReplace {
		x.Tokens = vocab.EncodeData(x.Text)
		return nil
	}
	x.Tokens = vocab.Encode(x.Text)
	for _, id := range x.Tokens {
		if vocab.Flags(id)&abi.TokenEnd != 0 {
			return fmt.Errorf("verdict %s: the text holds token %d, which ends a sequence", x.Kind, id)
		}
	}
	if len(x.Tokens) == 0 {
		return fmt.Errorf("verdict insert: there is nothing to insert")
	}
	return nil
}

// readBiases reads the entries of a rewind.
func (c *Checker) readBiases(x *llm.Verdict, out array) error {
	if out.count > abi.MaxBiases {
		return fmt.Errorf("verdict rewind: %d biases, the limit is %d", out.count, abi.MaxBiases)
	}
	if err := out.check("biases", abi.SparseEntrySize); err != nil {
		return err
	}
	if err := c.entry.Charge(int64(out.count) * biasFuel); err != nil {
		return err
	}
	c.biases = c.biases[:0]
	vocab := uint32(c.s.Guest().Vocabulary().Size())
	for i := range out.count {
		at := out.memory[out.at+i*abi.SparseEntrySize:]
		b := llm.Bias{Token: binary.LittleEndian.Uint32(at),
			Add: math.Float32frombits(binary.LittleEndian.Uint32(at[4:]))}
		if b.Token >= vocab {
			return fmt.Errorf("verdict rewind: bias %d of token %d, the vocabulary has %d", i, b.Token, vocab)
		}
		if b.Add != b.Add || b.Add > llm.MaxBias {
			return fmt.Errorf("verdict rewind: bias %d of token %d is %v, the most is %g", i, b.Token, b.Add, llm.MaxBias)
		}
		c.biases = append(c.biases, b)
	}
	x.Biases = c.biases
	return nil
}

// array is what a guest points to.
type array struct {
	memory    []byte
	at, count uint32
}

// check checks that the array lies in memory and is aligned.
func (a array) check(what string, size uint64) error {
	if size > 1 && a.at%4 != 0 {
		return fmt.Errorf("%s: address 0x%x is not aligned to 4", what, a.at)
	}
	if uint64(a.at)+uint64(a.count)*size > uint64(len(a.memory)) {
		return fmt.Errorf("%s: %d entries of %d bytes at 0x%x, the memory has %d bytes", what, a.count, size, a.at,
			len(a.memory))
	}
	return nil
}

// bytes returns a text as a view.
func (a array) bytes(what string, most int) ([]byte, error) {
	if a.count > uint32(most) {
		return nil, fmt.Errorf("%s: a text of %d bytes, the limit is %d", what, a.count, most)
	}
	if err := a.check(what, 1); err != nil {
		return nil, err
	}
	return a.memory[a.at : a.at+a.count], nil
}
