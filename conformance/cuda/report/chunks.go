package report

import (
	"math/rand/v2"

	"tgi/conformance/cuda/compare"
	"tgi/models"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

const (
	// longContext bounds the context that is played.
	longContext = 8192
	// tail is how many of its last tokens are played one by one.
	tail = 32
	// between is how many tokens lie between those whose logits are compared.
	between = 97
)

// chunks plays the whole context of a model in chunks, which must give what it gives in one step, and what the CPU
// gives; then it decodes up to the last position.
func (r *report) chunks() error {
	dir, err := folder(r.o.Long)
	if err != nil {
		return err
	}
	w := r.o.Formats[0]
	built, err := r.build(dir, models.CUDA, w)
	if err != nil {
		return err
	}
	length := min(longContext, built.MaxPositions)
	tokens, other := make([]llm.Token, length), make([]llm.Token, length)
	rng := rand.New(rand.NewPCG(5, 6))
	for i := range tokens {
		tokens[i], other[i] = llm.Token(rng.IntN(built.Vocab)), llm.Token(rng.IntN(built.Vocab))
	}
	var at []int
	for i := between - 1; i < length-tail; i += between {
		at = append(at, i)
	}
	for i := length - tail; i < length; i++ {
		at = append(at, i)
	}
	m, err := r.onDevice(built, length/built.BlockSize+1, length, 1, []int{1})
	if err != nil {
		return err
	}
	defer m.Close()
	play := func(b compare.Backend, tokens []llm.Token, chunk int) (compare.Logits, error) {
		logits, err := compare.Chunks(b, tokens, chunk, tail, at)
		return compare.Logits{logits}, err
	}
	whole, err := play(m, tokens, length)
	if err != nil {
		return err
	}
	if _, err := play(m, other, length); err != nil { // which leaves other keys in the cache
		return err
	}
	chunked, err := play(m, tokens, r.o.Chunk)
	if err != nil {
		return err
	}
	r.line("A context of %d tokens of which the last %d are decoded; the logits of %d tokens are compared.\n", length,
		tail,
		len(at))
	r.line("| model | weights | against | average | worst | likeliest | |\n|---|---|---|---|---|---|---|")
	if err := r.row(dir, w, "one step instead of chunks", chunked, whole, batching); err != nil {
		return err
	}
	return r.longReference(dir, w, chunked, func(b *ort.Paged) (compare.Logits, error) {
		return play(untilOver{b, r}, tokens, cpuChunk)
	}, length)
}

// cpuChunk is how many tokens of the long context the CPU plays at once.
const cpuChunk = 256

// longReference compares the long context with the CPU's, as far as the time allows.
func (r *report) longReference(dir string, w models.Weights, got compare.Logits,
	play func(*ort.Paged) (compare.Logits, error), length int) error {
	built, err := r.build(dir, models.CPU, models.FP32)
	if err != nil {
		return err
	}
	cpu, err := onCPU(built, length/built.BlockSize+1)
	if err != nil {
		return err
	}
	defer cpu.Close()
	want, err := play(cpu)
	if err != nil {
		return err
	}
	return r.row(dir, w, "the CPU in 32 bits", got, want, 2*rounding[w])
}

// untilOver is a backend that ends with the part's time.
type untilOver struct {
	*ort.Paged
	r *report
}

// Forward implements compare.Backend.
func (u untilOver) Forward(s *llm.Step) ([]float32, error) {
	if err := u.r.ctx.Err(); err != nil {
		return nil, err
	}
	return u.Paged.Forward(s)
}
