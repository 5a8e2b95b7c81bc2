package report

import (
	"encoding/binary"
	"fmt"
	"math"
	"math/rand/v2"
	"time"

	"tgi/conformance/cuda/compare"
	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// The adapters that are compared and timed.
const (
	adapterCount = 8
	adapterRank  = 16
)

// adapting is a backend whose rows all have one adapter.
type adapting struct {
	compare.Backend
	id llm.Adapter
}

// Forward runs a step with the adapter.
func (a adapting) Forward(s *llm.Step) ([]float32, error) {
	s.Adapters = nil
	for range s.Rows() {
		s.Adapters = append(s.Adapters, a.id)
	}
	return a.Backend.Forward(s)
}

// adapters compares logits of rows with low-rank adapters with the CPU's, rows with several in one step with the same
// rows alone, and times what adapters cost.
func (r *report) adapters() error {
	config, err := hf.Describe(r.o.Demo)
	if err != nil {
		return err
	}
	c := config.Config
	r.line("Relative error of a token's logits: average, worst; share of tokens with the same likeliest next one.\n")
	r.line("| model | weights | against | average | worst | likeliest | |\n|---|---|---|---|---|---|---|")
	for _, w := range r.o.Formats {
		if r.over("adapters", "%s, and what follows", w) {
			return nil
		}
		if err := r.adapted(c, w); err != nil {
			return fmt.Errorf("%s: %w", w, err)
		}
	}
	r.line("\nA decoding step by rows, without adapters in the model, then with the share of its rows that have one of "+
		"%d.\n", adapterCount)
	r.line("| weights | rows | none in the model | no row | half of the rows | all rows |\n|---|---|---|---|---|---|")
	for _, w := range r.o.Timed {
		if r.over("adapters", "times in %s, and what follows", w) {
			return nil
		}
		if err := r.adaptedTimes(c, w); err != nil {
			return fmt.Errorf("times in %s: %w", w, err)
		}
	}
	return nil
}

// randomAdapter draws an adapter, whose numbers have the size of trained ones.
func randomAdapter(d models.Device, c hf.Config, rank int, seed uint64) []ort.LowRank {
	matrices := decoder.Matrices(d, c)
	rng := rand.New(rand.NewPCG(seed, 9))
	numbers := func(n int, spread float64) (b []byte) {
		for range n {
			b = binary.LittleEndian.AppendUint16(b, uint16(math.Float32bits(float32(rng.NormFloat64()*spread))>>16))
		}
		return b
	}
	list := make([]ort.LowRank, len(matrices))
	for i, m := range matrices {
		list[i] = ort.LowRank{In: m.In, Out: m.Out, Offset: m.Offset, Rank: rank, Scale: 2, BFloat16: true,
			A: numbers(rank*m.In, 1/math.Sqrt(float64(m.In))), B: numbers(rank*m.Out, 0.02)}
	}
	return list
}

// withAdapters opens a built model on the device with some adapters, whose numbers begin at 1.
func (r *report) withAdapters(b models.Built, c hf.Config, blocks, tokens, rows int,
	graphs []int) (*ort.CUDA, error) {
	o := r.options(b, blocks, tokens, rows)
	o.ModelPath, o.Adapters, o.Graphs = b.AdaptedFile, len(decoder.Matrices(models.CUDA, c)), graphs
	m, err := ort.OpenCUDA(o)
	if err != nil {
		return nil, err
	}
	for i := range adapterCount {
		if _, err := m.AddAdapter(randomAdapter(models.CUDA, c, adapterRank<<(i%3)/2, uint64(i))); err != nil {
			m.Close()
			return nil, err
		}
	}
	return m, nil
}

// adapted compares one format.
func (r *report) adapted(c hf.Config, w models.Weights) error {
	reference, done, err := r.cpuModel(r.o.Demo, w)
	if err != nil {
		return err
	}
	defer done()
	built, err := r.build(r.o.Demo, models.CUDA, w)
	if err != nil {
		return err
	}
	length, count := min(longest, built.MaxPositions), 3
	if r.o.NoNumbers { // each of which the host computes in our kernels, for nothing
		length, count = 4, 1
	}
	sequences := compare.Sequences(built.Vocab, built.BlockSize, length, 1)
	o := cpuOptions(reference, (length/reference.BlockSize+2)*len(sequences)*2)
	o.ModelPath, o.Adapters = reference.AdaptedFile, len(decoder.Matrices(models.CPU, c))
	cpu, err := ort.Open(o)
	if err != nil {
		return err
	}
	defer cpu.Close()
	m, err := r.withAdapters(built, c, len(sequences)*(length/built.BlockSize+2)*2, length, len(sequences),
		[]int{len(sequences)})
	if err != nil {
		return err
	}
	defer m.Close()
	for i := range count {
		id, err := cpu.AddAdapter(randomAdapter(models.CPU, c, adapterRank<<(i%3)/2, uint64(i)))
		if err != nil {
			return err
		}
		want, err1 := compare.Alone(adapting{cpu, id}, sequences)
		got, err2 := compare.Alone(adapting{m, llm.Adapter(i + 1)}, sequences)
		together, err3 := compare.Decode(adapting{m, llm.Adapter(i + 1)}, sequences)
		if err := firstOf(err1, err2, err3); err != nil {
			return err
		}
		against := fmt.Sprintf("the CPU in 32 bits, adapter %d", i+1)
		if err := r.row(r.o.Demo, w, against, got, want, rounding[w]); err != nil {
			return err
		}
		if err := r.row(r.o.Demo, w, "decoding together, as graphs", together, got, batching); err != nil {
			return err
		}
	}
	return r.mixed(m, w)
}

// mixed compares rows with different adapters, and without, in one step with the same rows alone.
func (r *report) mixed(m *ort.CUDA, w models.Weights) error {
	const rows = 10
	s := decodeStep(m, rows, 0)
	for row := range rows {
		s.Adapters = append(s.Adapters, llm.Adapter(row%(adapterCount+1)))
	}
	flat, err := m.Forward(s)
	if err != nil {
		return err
	}
	vocab := m.Vocab()
	got, want := compare.Logits{}, compare.Logits{}
	flat = append([]float32(nil), flat...)
	for row := range rows {
		one := *s
		one.Tokens, one.CuSeqlens, one.PastLens = s.Tokens[row:row+1], []int32{0, 1}, s.PastLens[row:row+1]
		one.BlockTable, one.SlotMapping = s.BlockTable[row*s.MaxBlocks:][:s.MaxBlocks], s.SlotMapping[row:row+1]
		one.LogitRows, one.Adapters = []int32{0}, s.Adapters[row:row+1]
		alone, err := m.Eager(&one)
		if err != nil {
			return err
		}
		want = append(want, [][]float32{append([]float32(nil), alone...)})
		got = append(got, [][]float32{flat[row*vocab:][:vocab]})
	}
	return r.row(r.o.Demo, w, "rows with eight adapters and none, each alone", got, want, batching)
}

// adaptedTimes times decoding steps of the demo model.
func (r *report) adaptedTimes(c hf.Config, w models.Weights) error {
	built, err := r.build(r.o.Demo, models.CUDA, w)
	if err != nil {
		return err
	}
	for _, rows := range r.o.Rows {
		plain, err := r.onDevice(built, rows*2, 64, rows, []int{rows})
		if err != nil {
			return err
		}
		took := make([]time.Duration, 4)
		took[0], err = r.times(plain.Forward, decodeStep(plain, rows, 20))
		plain.Close()
		if err != nil {
			return err
		}
		m, err := r.withAdapters(built, c, rows*2, 64, rows, []int{rows})
		if err != nil {
			return err
		}
		for i, every := range []int{0, 2, 1} { // which rows have one
			s := decodeStep(m, rows, 20)
			s.Adapters = make([]llm.Adapter, rows)
			for row := range rows {
				if every > 0 && row%every == 0 {
					s.Adapters[row] = llm.Adapter(1 + row%adapterCount)
				}
			}
			if took[1+i], err = r.times(m.Forward, s); err != nil {
				break
			}
		}
		m.Close()
		if err != nil {
			return err
		}
		r.line("| %s | %d | %s | %s | %s | %s |", w, rows, took[0], took[1], took[2], took[3])
	}
	return nil
}
