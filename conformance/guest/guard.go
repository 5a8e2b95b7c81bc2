package guest

import (
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// watched feeds a guard as a server does: a text goes on, and what the guard takes back is written anew.
type watched struct {
	*sequence
	at, text, ends uint32 // rooms
	released, seen int    // tokens that went out, and bytes of the text of these and of what was replaced
	known          []uint32
}

// guardTexts are what is written: a text that repeats itself, holds addresses, and words of the vocabulary's own.
var guardTexts = []string{
	"Well then. Well then. Well then. Well then, delve into abc@d.example, then 4111 1111 1111 1111 and on",
	"é€ \xf0\x9f\x98\x80 the the the the the the the the the the the the the the the end",
}

// guards plays each of the texts.
func (p *prepared) guards(prompt []uint32) (answers []Answer, ok bool) {
	for _, text := range guardTexts {
		q, ok := p.begin()
		if !ok {
			return nil, false
		}
		p.world.Seed = seed
		ids, _ := p.world.Encode(text)
		w := &watched{sequence: &sequence{prepared: q, kind: abi.KindGuard, tokens: slices.Clone(prompt),
			prompt: uint32(len(prompt))}, released: len(prompt), known: slices.Clone(prompt)}
		a, ok := w.play(ids)
		w.Close()
		if !ok {
			return nil, false
		}
		answers = append(answers, a...)
	}
	return answers, true
}

// play writes the tokens, each again where it is taken back, up to a bound.
func (w *watched) play(ids []uint32) (answers []Answer, ok bool) {
	fault, ok := w.start()
	if !ok {
		return nil, false
	}
	if refused := w.run.now.Refused; fault != "" != refused {
		w.run.report("begin", "%s", answerText("tgi_guard_begin", fault))
		return nil, false
	}
	if fault != "" || !w.rooms() {
		return nil, fault != ""
	}
	for i := range 2 * len(ids) {
		n := len(w.tokens) - int(w.prompt)
		reason := uint32(abi.ReasonNone)
		if w.tokens = append(w.tokens, ids[min(n, len(ids)-1)]); n+1 >= len(ids) || i+1 == 2*len(ids) {
			reason = abi.ReasonLength
		}
		for again := true; again; {
			a, ok := w.check(reason)
			if !ok {
				return nil, false
			}
			answers = append(answers, a)
			if a.Fault != "" || a.Mode == abi.VerdictStop || a.Flags&abi.FlagDone != 0 {
				return answers, true
			}
			again = a.Mode == abi.VerdictReplace && w.released < len(w.tokens)
		}
		if reason != abi.ReasonNone && w.released == len(w.tokens) {
			break
		}
	}
	return answers, true
}

// rooms gets the rooms of a guard.
func (w *watched) rooms() bool {
	v, ok := w.call("tgi_guard_step")
	w.at = uint32(v)
	if _, inside := w.read(w.at, abi.GuardSize); !ok || w.at == 0 || w.at%abi.Alignment != 0 || !inside {
		w.run.report("step-room", "%#x, memory ends at %#x", w.at, len(w.Memory()))
		return false
	}
	if w.text, ok = w.alloc(4 * abi.MaxContext); ok {
		w.ends, ok = w.alloc(4 * abi.MaxHold)
	}
	return ok
}

// check asks the guard and applies what it says.
func (w *watched) check(reason uint32) (a Answer, ok bool) {
	var text []byte
	var ends []uint32
	for i, id := range w.tokens[w.prompt:] {
		b, _ := w.world.TokenBytes(id)
		text = append(text, b...)
		if i+int(w.prompt) >= w.released {
			ends = append(ends, uint32(len(text)))
		}
	}
	same := 0
	for same < min(len(w.known), len(w.tokens)) && w.known[same] == w.tokens[same] {
		same++
	}
	w.known = slices.Clone(w.tokens)
	m, n := w.Memory(), uint32(len(w.tokens))
	copy(m[w.room:], words(w.tokens...))
	copy(m[w.text:], text)
	copy(m[w.ends:], words(ends...))
	copy(m[w.at:], words(abi.GuardSize, w.room, n, w.prompt, n-uint32(same), uint32(w.released), w.text,
		uint32(len(text)), uint32(w.seen), w.ends, reason, 0, 0, 0, 0, 0))
	v, ok := w.call(guardCheck, uint64(w.at))
	if !ok {
		return a, false
	}
	w.checkGuards(guardCheck)
	found := len(w.run.found)
	a = w.verdict(uint32(v), reason, text, ends)
	if len(w.run.found) > found || a.Fault != "" {
		return a, len(w.run.found) == found
	}
	switch a.Mode {
	case abi.VerdictRewind, abi.VerdictInsert:
		w.tokens = w.tokens[:a.Index]
	default:
		if k := a.Index - w.released; k > 0 {
			w.seen = int(ends[k-1])
		}
		w.released = a.Index
	}
	return a, true
}

const guardCheck = "tgi_guard_check"

// verdict reads what the guard says, and checks it.
func (w *watched) verdict(status, reason uint32, shown []byte, ends []uint32) Answer {
	b, _ := w.read(w.at, abi.GuardSize)
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	a := Answer{Kind: abi.KindGuard, Mode: field(abi.GuardVerdict), Index: int(field(abi.GuardPosition)),
		Flags: field(abi.GuardFlags)}
	at, count := field(abi.GuardOut), field(abi.GuardOutCount)
	report := func(rule, format string, args ...any) Answer { w.run.report(rule, format, args...); return a }
	if status != abi.StatusOK {
		text, inside := w.read(at, count)
		if status != abi.StatusFailed || !inside || count == 0 {
			return report("status", "%d with a text of %d bytes at %#x", int32(status), count, at)
		}
		a.Fault = string(text)
		return a
	}
	n := len(w.tokens)
	least, most := w.released, n
	switch a.Mode {
	case abi.VerdictRelease:
		if reason != abi.ReasonNone {
			least = n
		}
		if n-a.Index > w.d.Guard.Hold {
			return report("hold", "%d of %d tokens are held, the description says %d", n-a.Index, len(ends), w.d.Guard.Hold)
		}
	case abi.VerdictRewind:
		most = n - 1
	case abi.VerdictReplace:
		least++
	}
	switch {
	case a.Mode >= uint32(len(abi.VerdictNames)):
		return report("verdict", "%d, the last is %d", a.Mode, len(abi.VerdictNames)-1)
	case a.Mode != abi.VerdictRelease && !slices.Contains(w.d.Guard.Verdicts, abi.VerdictNames[a.Mode]):
		return report("verdict", "%s was not declared", abi.VerdictNames[a.Mode])
	case a.Flags&^(abi.FlagDone|abi.FlagEdits) != 0 || a.Flags&abi.FlagEdits != 0 && a.Mode != abi.VerdictReplace:
		return report("verdict", "%s with flags %#x", abi.VerdictNames[a.Mode], a.Flags)
	case a.Index < least || a.Index > most:
		return report("position", "%s at %d, want %d to %d", abi.VerdictNames[a.Mode], a.Index, least, most)
	case a.Mode == abi.VerdictRelease:
		return a
	case a.Mode == abi.VerdictRewind:
		return w.biases(a, at, count)
	case a.Flags&abi.FlagEdits != 0:
		return w.edits(a, shown, int(ends[a.Index-w.released-1]), at, count)
	}
	limit := uint32(abi.MaxGuardText)
	if a.Mode == abi.VerdictStop {
		limit = abi.MaxReason
	}
	text, inside := w.read(at, count)
	if !inside || count > limit || !utf8.Valid(text) {
		return report("text", "%s: %d bytes at %#x: %q", abi.VerdictNames[a.Mode], count, at, text)
	}
	a.Text = string(text)
	return a
}

// edits makes the text of a replacement from its edits, and checks them.
func (w *watched) edits(a Answer, shown []byte, end int, at, count uint32) Answer {
	list, ok := w.read(at, count*abi.EditSize)
	if !ok || count > abi.MaxEdits || at%4 != 0 {
		w.run.report("edits", "%d at %#x, memory ends at %#x", count, at, len(w.Memory()))
		return a
	}
	done, whole := w.seen, utf8.Valid(shown) // which a server's is
	inside := func(at int) bool { return whole && at < len(shown) && !utf8.RuneStart(shown[at]) }
	var text []byte
	for i := range count {
		field := func(k uint32) uint32 { return binary.LittleEndian.Uint32(list[abi.EditSize*i+4*k:]) }
		from, to := int(field(0)), int(field(1))
		words, ok := w.read(field(2), field(3))
		switch {
		case from < done || to < from || to > end:
			w.run.report("edits", "%d takes bytes %d to %d, want them in order from %d to %d", i, from, to, done, end)
		case inside(from) || inside(to):
			w.run.report("edits", "%d takes bytes %d to %d, which are no whole characters", i, from, to)
		case !ok || !utf8.Valid(words):
			w.run.report("edits", "%d has %d bytes at %#x for words: %q", i, field(3), field(2), words)
		default:
			text, done = append(append(text, shown[done:from]...), words...), to
			continue
		}
		return a
	}
	if text = append(text, shown[done:end]...); len(text) > abi.MaxGuardText {
		w.run.report("text", "%s: %d bytes", abi.VerdictNames[a.Mode], len(text))
	}
	a.Text = string(text)
	return a
}

// biases reads those of a rewind.
func (w *watched) biases(a Answer, at, count uint32) Answer {
	if count > abi.MaxBiases || at%4 != 0 && count > 0 {
		w.run.report("out", "rewind: %d biases at %#x", count, at)
		return a
	}
	out, inside := w.read(at, count*abi.SparseEntrySize)
	if !inside {
		w.run.report("out", "rewind: %d biases at %#x", count, at)
		return a
	}
	a.Out = slices.Clone(out)
	for i := range int(count) {
		id, bias := binary.LittleEndian.Uint32(out[8*i:]), math.Float32frombits(binary.LittleEndian.Uint32(out[8*i+4:]))
		if id >= w.world.VocabSize() {
			w.run.report("id", "rewind: %d", id)
		} else if bias != bias || bias > math.MaxFloat32 {
			w.run.report("number", "rewind: %v for token %d", bias, id)
		}
	}
	return a
}

// guardText is an Answer of a guard as text.
func guardText(a Answer) string {
	return fmt.Sprintf("guard %s at %d flags %d out % x text %q", abi.VerdictNames[a.Mode], a.Index, a.Flags, a.Out,
		a.Text)
}
