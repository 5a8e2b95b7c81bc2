package logits

import (
	"encoding/binary"
	"fmt"
	"math"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

// Sampler runs a guest of kind "sampler" for one sequence. It is used by one goroutine at a time. Its errors are those
// of [Processor].
type Sampler struct {
	s     *guest.Session
	entry *guest.Entry
	room  uint32
	most  int
}

// NewSampler returns the sampler of a session that was begun with abi.KindSampler. Closing the session ends it.
func NewSampler(s *guest.Session) *Sampler {
	return &Sampler{s: s, entry: s.Entry(guest.Sample), room: s.Rooms().Candidates,
		most: s.Guest().Description().Candidates}
}

// Candidates is the maximum number of candidates that the guest reads.
func (p *Sampler) Candidates() int { return p.most }

// Sample lets the guest choose one of the candidates, the most likely first, and returns its index. The slices are
// equally long, not empty, and not retained; of more than Candidates the guest gets the first.
func (p *Sampler) Sample(ids []uint32, logits, logprobs []float32) (int, error) {
	n := min(len(ids), p.most)
	if n == 0 || len(logits) != len(ids) || len(logprobs) != len(ids) {
		return 0, fmt.Errorf("BUG: %s: candidates: %d ids, %d logits, %d logprobs", p.s.Guest().Name(), len(ids),
			len(logits), len(logprobs))
	}
	if !p.s.Closed() {
		b := p.s.Memory()[p.room:]
		for i, id := range ids[:n] {
			c := b[abi.CandidateSize*i:][:abi.CandidateSize]
			binary.LittleEndian.PutUint32(c[abi.CandidateID:], id)
			binary.LittleEndian.PutUint32(c[abi.CandidateLogit:], math.Float32bits(logits[i]))
			binary.LittleEndian.PutUint32(c[abi.CandidateLogprob:], math.Float32bits(logprobs[i]))
		}
	}
	p.entry.Next()
	result, err := p.entry.Call(uint64(p.room), uint64(n))
	if err != nil {
		return 0, err
	}
	switch index := int32(result); {
	case index < 0:
		return 0, p.s.Break(guest.Sample, fmt.Sprintf("index %d: the guest failed", index))
	case int(index) >= n:
		return 0, p.s.Break(guest.Sample, fmt.Sprintf("index %d of %d candidates", index, n))
	default:
		return int(index), nil
	}
}
