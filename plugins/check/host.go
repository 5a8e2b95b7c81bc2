package check

import (
	"encoding/binary"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/program"
	"tgi/sdk/abi"
)

// missing is how an import says that there is no such token, or that a text is not UTF-8.
const missing = uint64(^uint32(0))

// hostFuncs answers a guest's imports by the kit.Host of its lease.
func hostFuncs() []sandbox.HostFunc {
	answers := map[string]func(in *sandbox.Instance, h kit.Host, s []uint64){
		"log": func(in *sandbox.Instance, h kit.Host, s []uint64) {
			b := view(in, s[1], s[2])
			in.Print(int(int32(s[0])), b) // so that a fault tells it
			h.Log(uint32(s[0]), string(b))
		},
		"vocab_size":  func(_ *sandbox.Instance, h kit.Host, s []uint64) { s[0] = uint64(h.VocabSize()) },
		"rand_u64":    func(_ *sandbox.Instance, h kit.Host, s []uint64) { s[0] = h.Rand() },
		"token_bytes": tokenBytes,
		"token_flags": func(_ *sandbox.Instance, h kit.Host, s []uint64) {
			flags, ok := h.TokenFlags(uint32(s[0]))
			if s[0] = uint64(flags); !ok {
				s[0] = missing
			}
		},
		"encode": encode,
	}
	out := program.Functions()
	for _, f := range abi.Imports {
		answer := answers[f.Name]
		out = append(out, sandbox.HostFunc{Module: abi.ImportModule, Name: f.Name, Sig: guest.Signature(f),
			Func: func(in *sandbox.Instance, s []uint64) {
				answer(in, in.Host().(kit.Host), s)
			}})
	}
	return out
}

func tokenBytes(in *sandbox.Instance, h kit.Host, s []uint64) {
	b, ok := h.TokenBytes(uint32(s[0]))
	if !ok {
		s[0] = missing
		return
	}
	if len(b) <= int(uint32(s[2])) {
		copy(view(in, s[1], uint64(len(b))), b)
	}
	s[0] = uint64(len(b))
}

func encode(in *sandbox.Instance, h kit.Host, s []uint64) {
	ids, ok := h.Encode(string(view(in, s[0], s[1])))
	if !ok {
		s[0] = missing
		return
	}
	if len(ids) <= int(uint32(s[3])) {
		out := view(in, s[2], uint64(4*len(ids)))
		for i, id := range ids {
			binary.LittleEndian.PutUint32(out[4*i:], id)
		}
	}
	s[0] = uint64(len(ids))
}

// view is a part of a guest's memory; what lies outside of it ends the call.
func view(in *sandbox.Instance, ptr, n uint64) []byte {
	b, err := in.View("argument", uint32(ptr), uint32(n))
	if err != nil {
		in.Fail(err)
	}
	in.Charge(int64(n))
	return b
}

// lease is what an instance's imports find: the kit's host and, for programs, a made-up model.
type lease struct {
	kit.Host
	*program.Running
}

func leaseOf(h kit.Host, l Limits) lease {
	model := program.NewSynthetic(vocabulary{h}, []uint32{0, 1, 2})
	return lease{h, program.NewRunning(model, vocabulary{h}, l.FuelPerStep)}
}

// vocabulary is that of a kit's host.
type vocabulary struct{ kit.Host }

// Size implements guest.Vocabulary.
func (v vocabulary) Size() int { return int(v.VocabSize()) }

// Bytes implements guest.Vocabulary.
func (v vocabulary) Bytes(id uint32) []byte {
	b, _ := v.TokenBytes(id)
	return b
}

// Flags implements guest.Vocabulary.
func (v vocabulary) Flags(id uint32) uint32 {
	f, _ := v.TokenFlags(id)
	return f
}

// Encode implements guest.Vocabulary.
func (v vocabulary) Encode(text string) []uint32 {
	ids, _ := v.Host.Encode(text)
	return ids
}

// EncodeData implements guest.Vocabulary: of special tokens that a text spells, each character is encoded alone.
func (v vocabulary) EncodeData(text string) (ids []uint32) {
	for _, id := range v.Encode(text) {
		if v.Flags(id)&abi.TokenSpecial == 0 {
			ids = append(ids, id)
			continue
		}
		for _, r := range string(v.Bytes(id)) {
			ids = append(ids, v.Encode(string(r))...)
		}
	}
	return ids
}
