package guest

import (
	"encoding/binary"
	"fmt"
	"slices"
	"unicode/utf8"

	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Fuel that the imports charge for work that grows with an argument, beside what every import costs.
const (
	copyFuel   = 1    // per byte that is copied or printed
	findFuel   = 500  // to find a token: in a large vocabulary it is rarely in the processor's cache
	beginFuel  = 2000 // to begin with a text: splitting it and room for its tokens
	encodeFuel = 250  // per byte of text: about 50 ns, what a tokenizer needs at its worst
)

// none is the answer "no such token" and "not UTF-8": -1.
const none = uint64(^uint32(0))

// Imports makes the functions of module "tgi" over a vocabulary.
func Imports(v Vocabulary) []sandbox.HostFunc {
	answers := map[string]func(in *sandbox.Instance, stack []uint64){
		"log": func(in *sandbox.Instance, s []uint64) {
			text := view(in, "text to log", s[1], s[2])
			text = text[:min(len(text), abi.MaxText)]
			in.Charge(int64(len(text)) * copyFuel)
			in.Print(int(min(uint32(s[0]), abi.LevelError)), text)
		},
		"vocab_size":  func(_ *sandbox.Instance, s []uint64) { s[0] = uint64(v.Size()) },
		"rand_u64":    func(in *sandbox.Instance, s []uint64) { s[0] = in.Uint64() },
		"token_bytes": func(in *sandbox.Instance, s []uint64) { s[0] = tokenBytes(in, v, s) },
		"token_flags": func(in *sandbox.Instance, s []uint64) {
			in.Charge(findFuel)
			if id := uint32(s[0]); !exists(v, id) {
				s[0] = none
			} else {
				s[0] = uint64(v.Flags(id))
			}
		},
		"encode": func(in *sandbox.Instance, s []uint64) { s[0] = encode(in, v, s) },
	}
	var out []sandbox.HostFunc
	for _, f := range abi.Imports {
		out = append(out, sandbox.HostFunc{Module: abi.ImportModule, Name: f.Name, Sig: Signature(f),
			Func: answers[f.Name]})
	}
	return out
}

// hostOf returns what a plugin may import.
func hostOf(c Config) []sandbox.HostFunc {
	list := Imports(c.Vocabulary)
	if slices.Contains(Kinds(c.Wasm), abi.KindProgram) {
		list = append(list, c.Program...)
	}
	return list
}

func exists(v Vocabulary, id uint32) bool { return uint64(id) < uint64(v.Size()) && v.Bytes(id) != nil }

// tokenBytes is token_bytes(id, to, room).
func tokenBytes(in *sandbox.Instance, v Vocabulary, s []uint64) uint64 {
	in.Charge(findFuel)
	id := uint32(s[0])
	if !exists(v, id) {
		return none
	}
	b := v.Bytes(id)
	in.Charge(int64(len(b)) * copyFuel)
	if uint64(len(b)) <= s[2] {
		copy(view(in, "room for a token's bytes", s[1], uint64(len(b))), b)
	}
	return uint64(len(b))
}

// encode is encode(text, bytes, to, room).
func encode(in *sandbox.Instance, v Vocabulary, s []uint64) uint64 {
	text := view(in, "text to encode", s[0], s[1])
	in.Charge(beginFuel + int64(len(text))*encodeFuel)
	if !utf8.Valid(text) {
		return none
	}
	ids := v.Encode(string(text))
	if uint64(len(ids)) <= s[3] {
		room := view(in, "room for a text's tokens", s[2], uint64(len(ids))*4)
		for i, id := range ids {
			binary.LittleEndian.PutUint32(room[4*i:], id)
		}
	}
	return uint64(len(ids))
}

// view returns a part of the guest's memory. A part outside of the memory ends the guest's call.
func view(in *sandbox.Instance, what string, ptr, n uint64) []byte {
	m := in.Memory()
	if n == 0 {
		return nil
	}
	if n > uint64(len(m)) || ptr > uint64(len(m))-n {
		in.Fail(fmt.Errorf("%w: %s: %d bytes at 0x%x, the memory has %d", sandbox.ErrAccess, what, n, ptr, len(m)))
	}
	return m[ptr : ptr+n]
}
