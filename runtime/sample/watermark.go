package sample

import "tgi/runtime/llm"

// watermark implements Processor: it raises the logits of a pseudo-random
// "green" share of the vocabulary, keyed by the previous token, so that a text
// can later be tested for holding too many green tokens (Kirchenbauer et al.
// 2023, "A Watermark for Large Language Models").
//
// The choice of green tokens differs from TGI's, which takes a prefix of torch.randperm: its order depends on torch's
// version and device and cannot be reproduced elsewhere. Here token t after token p is green when the t%4-th 16-bit
// lane of splitMix(splitMix(hashKey*p) + t/4) is below gamma*65536. The list needs no permutation, is the same on every
// machine, and holds gamma of the vocabulary up to chance.
type watermark struct {
	limit uint64 // gamma in 1/65536
	add   [2]float32
}

// hashKey is the multiplier that TGI and the paper's code key the list with.
const hashKey = 15485863

func newWatermark(gamma, delta float32) watermark {
	return watermark{limit: uint64(gamma * 65536), add: [2]float32{0, delta}}
}

func (w watermark) Process(h History, s *Step) error {
	logits := s.Logits
	prev, ok := lastOf(h)
	if !ok {
		return nil // nothing to key the list with
	}
	key := splitMix(hashKey * uint64(prev))
	for i := 0; i < len(logits); i += 4 {
		lanes := splitMix(key + uint64(i/4))
		for j := i; j < min(i+4, len(logits)); j++ {
			logits[j] += w.add[below(lanes&0xffff, w.limit)]
			lanes >>= 16
		}
	}
	return nil
}

// below returns 1 when a < b, 0 otherwise, without a branch: half of all tokens
// are green, so a branch would be mispredicted half the time.
func below(a, b uint64) uint64 { return (a - b) >> 63 }

// lastOf returns the token before the one to be picked; ok is false at the start.
func lastOf(h History) (t llm.Token, ok bool) {
	if n := len(h.Output); n > 0 {
		return h.Output[n-1], true
	}
	if n := len(h.Prompt); n > 0 {
		return h.Prompt[n-1], true
	}
	return 0, false
}
