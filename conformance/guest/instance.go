package guest

import (
	"bytes"
	"encoding/binary"
	"unicode/utf8"

	"tgi/sdk/abi"
)

// instance is an Instance with the kit's hands on it: every breach met on the
// way is reported, and ok is false where there is nothing to go on with.
type instance struct {
	Instance
	run   *run
	world *World
	rooms []span
}

// span is a piece of memory.
type span struct{ at, size uint32 }

func (r *run) load() (*instance, bool) {
	w := NewWorld()
	in, err := r.guest.Load(w)
	if err != nil {
		r.report("trap", "instantiation: %v", err)
		return nil, false
	}
	if in.Memory() == nil {
		r.report("memory", "there is none")
		in.Close()
		return nil, false
	}
	return &instance{Instance: in, run: r, world: w}, true
}

func (in *instance) fork() (*instance, bool) {
	f, err := in.Fork()
	if err != nil {
		in.run.report("trap", "fork: %v", err)
		return nil, false
	}
	return &instance{Instance: f, run: in.run, world: in.world, rooms: append([]span(nil), in.rooms...)}, true
}

func (in *instance) call(name string, args ...uint64) (uint64, bool) {
	v, err := in.Call(name, args...)
	if err != nil {
		in.run.report("trap", "%s: %v", name, err)
		return 0, false
	}
	return v, true
}

// read copies memory.
func (in *instance) read(at, size uint32) ([]byte, bool) {
	m := in.Memory()
	if uint64(at)+uint64(size) > uint64(len(m)) {
		return nil, false
	}
	return bytes.Clone(m[at : at+size]), true
}

// text calls an export that returns a packed text.
func (in *instance) text(name string, most int, args ...uint64) (string, bool) {
	v, ok := in.call(name, args...)
	if !ok {
		return "", false
	}
	at, size := abi.Unpack(v)
	if size == 0 {
		return "", true
	}
	b, ok := in.read(at, size)
	switch {
	case !ok:
		in.run.report("text", "%s: %d bytes at %#x, memory ends at %#x", name, size, at, len(in.Memory()))
	case len(b) > most:
		in.run.report("text", "%s: %d bytes, more than %d", name, len(b), most)
	case !utf8.Valid(b):
		in.run.report("text", "%s: not UTF-8: %q", name, b)
	default:
		return string(b), true
	}
	return "", false
}

// alloc gets room for the kit to write to.
func (in *instance) alloc(size uint32) (uint32, bool) {
	v, ok := in.call("tgi_alloc", uint64(size))
	at := uint32(v)
	if !ok {
		return 0, false
	}
	if _, inside := in.read(at, size); at == 0 || at%abi.Alignment != 0 || !inside {
		in.run.report("alloc", "%d bytes at %#x, memory ends at %#x", size, at, len(in.Memory()))
		return 0, false
	}
	for _, s := range in.rooms {
		if size > 0 && uint64(at) < uint64(s.at)+uint64(s.size) && uint64(s.at) < uint64(at)+uint64(size) {
			in.run.report("alloc", "%d bytes at %#x lie in the %d bytes at %#x", size, at, s.size, s.at)
			return 0, false
		}
	}
	in.rooms = append(in.rooms, span{at, size})
	return at, true
}

// hand allocates room for b and copies it there. The pointer and length are
// the arguments of an export.
func (in *instance) hand(b []byte) (at, size uint64, ok bool) {
	p, ok := in.alloc(uint32(len(b)))
	if !ok {
		return 0, 0, false
	}
	copy(in.Memory()[p:], b)
	return uint64(p), uint64(len(b)), true
}

// handed calls an export that takes one JSON text and returns an error text.
func (in *instance) handed(name, text string) (fault string, ok bool) {
	at, size, ok := in.hand([]byte(text))
	if !ok {
		return "", false
	}
	return in.text(name, abi.MaxText, at, size)
}

// room checks tgi_alloc beyond what the other checks do with it.
func (r *run) room() {
	in, ok := r.load()
	if !ok {
		return
	}
	defer in.Close()
	for _, size := range []uint32{0, 1, 15, 16, 17, 4096, 0, 100_000} {
		at, ok := in.alloc(size)
		if !ok {
			return
		}
		clear(in.Memory()[at : at+size])
	}
	if v, ok := in.call("tgi_alloc", 0xfffffff0); ok && uint32(v) != 0 {
		r.report("alloc-none", "4294967280 bytes at %#x", uint32(v))
	}
}

// anyBytes: no bytes make init or validate trap.
func (r *run) anyBytes(d *Description, config string) {
	for _, text := range []string{"", "{", "[]", "null", "0", `"`, `{"`, `{"a":`, `{"":{}}`, "\xff\x00", "{}{}",
		string(bytes.Repeat([]byte("["), 10_000))} {
		in, ok := r.load()
		if !ok {
			return
		}
		in.handed("tgi_init", text)
		in.Close()
		if p, ok := r.ready(d, config); ok {
			p.handed("tgi_validate", text)
			p.Close()
		}
	}
}

func words(ws ...uint32) []byte {
	b := make([]byte, 0, 4*len(ws))
	for _, w := range ws {
		b = binary.LittleEndian.AppendUint32(b, w)
	}
	return b
}
