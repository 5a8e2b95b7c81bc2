package guest

import (
	"encoding/binary"
	"encoding/json"
	"errors"
	"fmt"
	"unicode/utf8"

	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// Dropped is part of a request that the guest's result does not enforce.
type Dropped = llm.Dropped

// Compiled calls an export that takes a request and answers with the struct of abi.CompiledSize bytes. read gets the
// text that the struct points to, limited in bytes, in the guest's memory; its error says which rule the text breaks.
// If the guest refuses, or the result is TooLarge, the error is a *Refusal with the text; other errors are a
// *sandbox.Fault or the pool's.
func (s *Session) Compiled(export string, request []byte, most int, read func(text []byte) error) ([]Dropped, error) {
	at, n, err := s.Request(request)
	if err != nil {
		return nil, err
	}
	result, err := s.Call(export, at, n)
	if err != nil {
		return nil, err
	}
	dropped, refused, err := ReadCompiled(s.Memory(), uint32(result), most, read)
	var large *TooLarge
	switch {
	case errors.As(err, &large):
		return nil, s.Refuse([]byte(err.Error()))
	case err != nil:
		return nil, s.Break(export, err.Error())
	case refused != nil:
		return nil, s.Refuse(refused)
	}
	return dropped, nil
}

// TooLarge says that a result passes a bound. Whoever wrote what it was compiled from asks for too much then; the guest
// has broken no rule.
type TooLarge struct{ Err error }

// Error names what is too large, the bound and the value.
func (e *TooLarge) Error() string { return e.Err.Error() }

// Unwrap returns the error with that text.
func (e *TooLarge) Unwrap() error { return e.Err }

// ReadCompiled reads the struct at an address of a guest's memory, as Compiled does, or returns the text of a refusal,
// in the guest's memory. The error says which rule is broken.
func ReadCompiled(memory []byte, at uint32, most int, read func(text []byte) error) (dropped []Dropped, refused []byte,
	err error) {
	if at%4 != 0 || uint64(at)+abi.CompiledSize > uint64(len(memory)) {
		return nil, nil, fmt.Errorf("result of %d bytes at 0x%x: it is to be aligned to 4, the memory has %d",
			abi.CompiledSize, at, len(memory))
	}
	field := func(i uint32) uint32 { return binary.LittleEndian.Uint32(memory[at+i:]) }
	status := field(abi.CompiledStatus)
	text, err := part(memory, "text", field(abi.CompiledText), field(abi.CompiledTextBytes), most)
	switch {
	case err != nil:
		return nil, nil, err
	case status != abi.StatusOK && status != abi.StatusFailed:
		return nil, nil, fmt.Errorf("status %d is neither %d nor %d", status, abi.StatusOK, abi.StatusFailed)
	case status == abi.StatusFailed && len(text) == 0:
		return nil, nil, fmt.Errorf("status %d without a text that says why", status)
	case status == abi.StatusFailed:
		return nil, text, nil
	}
	notes, err := part(memory, "notes", field(abi.CompiledNotes), field(abi.CompiledNoteBytes), abi.MaxNotes)
	if err != nil {
		return nil, nil, err
	}
	if len(notes) > 0 {
		if err := json.Unmarshal(notes, &dropped); err != nil || !utf8.Valid(notes) {
			return nil, nil, fmt.Errorf("notes of %d bytes are not a JSON array of objects of strings", len(notes))
		}
	}
	return dropped, nil, read(text)
}

// part is a text in a guest's memory.
func part(memory []byte, what string, at, n uint32, most int) ([]byte, error) {
	switch {
	case n == 0:
		return nil, nil
	case uint64(at)+uint64(n) > uint64(len(memory)):
		return nil, fmt.Errorf("%s of %d bytes at 0x%x, the memory has %d", what, n, at, len(memory))
	case int64(n) > int64(most):
		return nil, &TooLarge{fmt.Errorf("compiled, it has %s of %d bytes, the limit is %d", what, n, most)}
	}
	return memory[at:][:n], nil
}
