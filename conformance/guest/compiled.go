package guest

import (
	"encoding/binary"
	"encoding/json"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// compiled reads the struct of abi.CompiledSize bytes and reports what is wrong with
// it, under a rule or that of notes: a text of at most so many bytes with what was
// left out, or else why there is none. text and notes lie in the guest's memory.
func (p *prepared) compiled(rule string, at uint32, most int) (text, notes []byte, fault string, ok bool) {
	b, inside := p.read(at, abi.CompiledSize)
	if !inside || at%4 != 0 {
		p.run.report(rule, "result at %#x, memory ends at %#x", at, len(p.Memory()))
		return nil, nil, "", false
	}
	field := func(at int) uint32 { return binary.LittleEndian.Uint32(b[at:]) }
	status := field(abi.CompiledStatus)
	text, inside = p.read(field(abi.CompiledText), field(abi.CompiledTextBytes))
	switch {
	case status > abi.StatusFailed:
		p.run.report(rule, "status %d", status)
	case !inside:
		p.run.report(rule, "text of %d bytes at %#x, memory ends at %#x", field(abi.CompiledTextBytes),
			field(abi.CompiledText), len(p.Memory()))
	case status == abi.StatusFailed && (len(text) == 0 || !utf8.Valid(text)):
		p.run.report(rule, "failed with the text %q", text)
	case status == abi.StatusFailed:
		return nil, nil, string(text), true
	case len(text) > most:
		p.run.report(rule, "text of %d bytes, more than %d", len(text), most)
	default:
		notes, ok = p.notes(field(abi.CompiledNotes), field(abi.CompiledNoteBytes))
		return text, notes, "", ok
	}
	return nil, nil, "", false
}

// notes reads what was left out.
func (p *prepared) notes(at, n uint32) (notes []byte, ok bool) {
	notes, ok = p.read(at, n)
	if !ok || len(notes) > abi.MaxNotes {
		p.run.report("notes", "%d bytes at %#x, memory ends at %#x", n, at, len(p.Memory()))
		return nil, false
	}
	var list []struct{ Pointer, Keyword, Reason string }
	if err := json.Unmarshal(notes, &list); len(notes) > 0 && (err != nil || !utf8.Valid(notes)) {
		p.run.report("notes", "%v in %q", err, notes)
	}
	return notes, true
}
