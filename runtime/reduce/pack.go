package reduce

import (
	_ "embed" // the kernel
	"encoding/binary"
	"math"

	"tgi/runtime/llm"
)

// Kernel is the kernel for CUDA devices of compute capability 8.0 and above, as PTX, which the driver compiles. Its
// function KernelName has the parameters: logits [rows, vocab], the request, scratch memory [scratch rows, vocab],
// the answers (all of them addresses on the device, of 8 bytes), and vocab (4 bytes). A block of Threads threads
// answers a question; the grid has as many blocks as there are questions.
//
//go:embed reduce.ptx
var Kernel string

const (
	// KernelName is the function of Kernel.
	KernelName = "tgi_reduce"
	// Threads is how many threads a block of the kernel has.
	Threads = 1024
	// AnswerBytes is the size of an answer.
	AnswerBytes = headBytes + llm.MaxCandidates*tokenBytes
)

// The layout of reduce.cu.
const (
	questionWords = 10
	editsWords    = 3
	headBytes     = 48
	tokenBytes    = 12
	none          = math.MaxUint32
)

// AppendRequest appends to words what the kernel reads for list, whose vocabulary has vocab tokens: the questions, then
// their edits and masks. words must be empty, and lie at a multiple of 8 bytes on the device. rows is how many rows of
// scratch memory the kernel needs.
func AppendRequest(words []uint32, list []llm.Reduction, vocab int) (_ []uint32, rows int) {
	words = append(words, make([]uint32, len(list)*questionWords)...)
	for i := range list {
		q := &list[i]
		edits := uint32(len(words))
		words = appendEdits(words, q.Edits)
		mask := uint32(none)
		if q.Mask != nil {
			mask = uint32(len(words))
			words = append(words, q.Mask[:(vocab+31)/32]...)
		}
		scratch := uint32(none)
		if len(q.Edits) > 0 || q.Mask != nil {
			scratch = uint32(rows)
			rows++
		}
		var draw uint64
		draws := uint32(0)
		if q.Draw >= 0 {
			draw, draws = uint64(q.Draw*(1<<64)), 1
		}
		raw := uint32(0)
		if q.Raw {
			raw = 1
		}
		copy(words[i*questionWords:], []uint32{uint32(draw), uint32(draw >> 32), uint32(q.Row),
			math.Float32bits(q.Scale), draws, raw, edits, uint32(len(q.Edits)), mask, scratch})
	}
	return words, rows
}

// appendEdits appends the heads of all edits, then their pairs.
func appendEdits(words []uint32, list []llm.Edits) []uint32 {
	at := len(words)
	words = append(words, make([]uint32, len(list)*editsWords)...)
	for i, e := range list {
		copy(words[at+i*editsWords:], []uint32{uint32(e.Kind), uint32(len(words)), uint32(len(e.Pairs))})
		for _, p := range e.Pairs {
			words = append(words, p.Token, math.Float32bits(p.Value))
		}
	}
	return words
}

// Answers is the memory of a step's answers. The zero value is ready to use.
type Answers struct {
	list   []llm.Reduced
	tokens []llm.ReducedToken
}

// Read returns the answers that the kernel wrote. They are valid until the next Read.
func (a *Answers) Read(data []byte) []llm.Reduced {
	n := len(data) / AnswerBytes
	a.list = a.list[:0]
	if need := n * llm.MaxCandidates; len(a.tokens) < need {
		a.tokens = make([]llm.ReducedToken, need)
	}
	for i := range n {
		d := data[i*AnswerBytes : (i+1)*AnswerBytes]
		word := func(at int) uint32 { return binary.LittleEndian.Uint32(d[at:]) }
		r := llm.Reduced{
			Sum:    float64(binary.LittleEndian.Uint64(d)) / unit,
			RawSum: float64(binary.LittleEndian.Uint64(d[8:])) / unit,
			Top:    math.Float32frombits(word(16)), RawTop: math.Float32frombits(word(20)),
			Count: int(word(24)), Ties: int(word(28)), Drawn: readToken(d[32:]),
		}
		r.Candidates = a.tokens[i*llm.MaxCandidates:][:min(r.Count, llm.MaxCandidates)]
		for j := range r.Candidates {
			r.Candidates[j] = readToken(d[headBytes+j*tokenBytes:])
		}
		a.list = append(a.list, r)
	}
	return a.list
}

func readToken(d []byte) llm.ReducedToken {
	return llm.ReducedToken{
		Token: binary.LittleEndian.Uint32(d),
		Logit: math.Float32frombits(binary.LittleEndian.Uint32(d[4:])),
		Raw:   math.Float32frombits(binary.LittleEndian.Uint32(d[8:])),
	}
}
