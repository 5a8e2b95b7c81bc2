package guest_test

import (
	"encoding/binary"
	"slices"
	"testing"

	"tgi/conformance/guest"
	"tgi/sdk/abi"
)

// drafting is a guest without a fault that guesses its last token again, as often as there is room.
func drafting() *fake {
	f := sound()
	f.exports = slices.Concat(abi.Common, abi.Draft)
	f.description = `{"name":"again","version":"1","kinds":["draft"]}`
	f.code["tgi_draft_begin"] = func(m *machine, args []uint64) uint64 { return m.refuses(args) }
	f.code["tgi_draft_propose"] = func(m *machine, args []uint64) uint64 { return m.guess(args, int(args[4]), 0) }
	return f
}

// guess writes n tokens, each the last one and more.
func (m *machine) guess(args []uint64, n int, more uint32) uint64 {
	last := binary.LittleEndian.Uint32(m.mem[args[0]+4*(args[1]-1):]) + more
	for i := range n {
		binary.LittleEndian.PutUint32(m.mem[args[3]+4*uint64(i):], last)
	}
	return uint64(n)
}

func TestSoundDraft(t *testing.T) {
	for _, v := range guest.Run(drafting(), guest.Case{}, guest.Case{Params: `{"bad":1}`, Refused: true}) {
		t.Error(v)
	}
}

func TestBrokenDrafts(t *testing.T) {
	for rule, list := range brokenDrafts() {
		for i, f := range list {
			found := guest.Run(f)
			if !slices.ContainsFunc(found, func(v guest.Violation) bool { return v.ID == rule }) {
				t.Errorf("%s, guest %d: reported %v", rule, i, found)
			}
		}
	}
	seen := uint32(0)
	forgetful := func(m *machine, args []uint64) uint64 { seen++; return m.guess(args, int(seen%2), 0) }
	found := guest.Run(drafting().with("tgi_draft_propose", forgetful))
	if !slices.ContainsFunc(found, func(v guest.Violation) bool {
		return v.ID == "deterministic" || v.ID == "clone"
	}) {
		t.Errorf("a guest that remembers other sequences: %v", found)
	}
}

// brokenDrafts are guests that break rules.
func brokenDrafts() map[string][]*fake {
	proposing := func(f func(m *machine, args []uint64) uint64) *fake { return drafting().with("tgi_draft_propose", f) }
	shared := drafting()
	shared.description = `{"name":"again","version":"1","kinds":["draft","sampler"]}`
	shared.exports = slices.Concat(shared.exports, abi.Sampler)
	return map[string][]*fake{
		"guess": {
			proposing(func(m *machine, args []uint64) uint64 { return 0xffffffff }),
			proposing(func(m *machine, args []uint64) uint64 { return args[4] + 1 }),
			proposing(func(m *machine, args []uint64) uint64 { return m.guess(args, 1, 1<<20) }),
		},
		"overrun": {proposing(func(m *machine, args []uint64) uint64 {
			m.guess(args, int(args[4])+1, 0)
			return 0
		})},
		"describe-values": {shared},
	}
}
