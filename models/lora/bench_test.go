package lora_test

import (
	"maps"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/synth"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
)

// BenchmarkSixteenRows reports how fast a decoding step of 16 rows is with adapters, in percent of the graph without
// adapters in the same turns, by the clock and by the time that processors spend: the second graph where no row has an
// adapter ("none"), where one row has one ("one"), where half of the rows share one ("half"), and where all rows have
// one of 8 ("all"), of rank 16 on all linear layers of each block. The model has 135 million parameters in int4.
func BenchmarkSixteenRows(b *testing.B) {
	dir := b.TempDir()
	if err := synth.Write(dir, "smollm2-135m", 1); err != nil {
		b.Fatal(err)
	}
	ck, err := hf.Open(dir)
	if err != nil {
		b.Fatal(err)
	}
	defer ck.Close()
	data, err := os.Create(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		b.Fatal(err)
	}
	built, err := decoder.Build(ck, data, decoder.Options{Weights: models.Int4})
	if err != nil {
		b.Fatal(err)
	}
	if err := data.Close(); err != nil {
		b.Fatal(err)
	}
	matrices := decoder.Matrices(models.CPU, ck.Config)
	open := func(name string, graph []byte, adapters int) *ort.Paged {
		file := filepath.Join(dir, name)
		if err := os.WriteFile(file, graph, 0o600); err != nil {
			b.Fatal(err)
		}
		p, err := ort.Open(ort.Options{ModelPath: file, Layers: built.Arch.Layers, KVHeads: built.Arch.KVHeads,
			HeadDim: built.Arch.HeadDim, Cache: ort.CacheForm(built.Layout.Cache),
			Vocab: built.Arch.Vocab, MaxLen: built.Arch.MaxPositions, Blocks: 16 * 16,
			Threads: 2, Adapters: adapters})
		if err != nil {
			b.Fatal(err)
		}
		b.Cleanup(p.Close)
		return p
	}
	path, err := ort.Locate("")
	if err == nil {
		err = ort.Init(path)
	}
	if err != nil {
		b.Fatal(err)
	}
	base := open("base.onnx", built.Model, 0)
	adapted := open("adapted.onnx", built.Adapted, len(matrices))
	ids := make([]llm.Adapter, 8)
	for i := range ids {
		if ids[i], err = adapted.AddAdapter(randomSites(b, matrices, 16, uint64(i))); err != nil {
			b.Fatal(err)
		}
	}
	rows := func(of func(row int) llm.Adapter) (list []llm.Adapter) {
		for i := range 16 {
			list = append(list, of(i))
		}
		return list
	}
	cases := map[string][]llm.Adapter{
		"none": rows(func(int) llm.Adapter { return 0 }),
		"one":  rows(func(i int) llm.Adapter { return ids[0] * llm.Adapter((i+1)/16) }),
		"half": rows(func(i int) llm.Adapter { return ids[0] * llm.Adapter(i%2) }),
		"all":  rows(func(i int) llm.Adapter { return ids[i%8] }),
	}
	took, used := map[string][]float64{}, map[string][]float64{}
	step := func(name string, p *ort.Paged, adapters []llm.Adapter) {
		s := decodeStep(16, 128, adapters)
		begin, cpu := time.Now(), processorTime(b)
		if _, err := p.Forward(s); err != nil {
			b.Fatal(err)
		}
		took[name] = append(took[name], time.Since(begin).Seconds())
		used[name] = append(used[name], processorTime(b)-cpu)
	}
	names := slices.Sorted(maps.Keys(cases))
	for b.Loop() {
		step("base", base, nil)
		for _, name := range names {
			step(name, adapted, cases[name])
		}
	}
	median := func(list []float64) float64 {
		slices.Sort(list)
		return list[len(list)/2]
	}
	for _, name := range names {
		b.ReportMetric(100*median(took["base"])/median(took[name]), "%speed:"+name)
		b.ReportMetric(100*median(used["base"])/median(used[name]), "%cpu:"+name)
	}
	b.ReportMetric(16/median(took["base"]), "tok/s")
}

// randomSites is an adapter of random numbers for all matrices.
func randomSites(tb testing.TB, matrices []decoder.Matrix, rank int, seed uint64) (out []ort.LowRank) {
	tb.Helper()
	r := rand.New(rand.NewPCG(seed, 1))
	numbers := func(n int) []byte {
		data := make([]byte, 2*n)
		for i := 0; i < len(data); i += 2 { // bfloat16 of about 0.01, either sign
			data[i], data[i+1] = byte(r.Uint32()), 0x3c|byte(r.Uint32())&0x80
		}
		return data
	}
	for _, m := range matrices {
		if m.Module == "lm_head" {
			out = append(out, ort.LowRank{In: m.In, Out: m.Out, Offset: m.Offset})
			continue
		}
		out = append(out, ort.LowRank{In: m.In, Out: m.Out, Offset: m.Offset, Rank: rank, Scale: 1, BFloat16: true,
			A: numbers(rank * m.In), B: numbers(rank * m.Out)})
	}
	return out
}

// decodeStep is a step of one token for each of some rows, behind past tokens.
func decodeStep(rows, past int, adapters []llm.Adapter) *llm.Step {
	const blocks = 16
	s := &llm.Step{CuSeqlens: []int32{0}, MaxBlocks: blocks, Adapters: adapters}
	for i := range rows {
		s.Tokens = append(s.Tokens, llm.Token(i+1))
		s.PastLens = append(s.PastLens, int32(past))
		s.CuSeqlens = append(s.CuSeqlens, int32(i+1))
		s.SlotMapping = append(s.SlotMapping, int32(i*blocks*16+past))
		s.LogitRows = append(s.LogitRows, int32(i))
		for b := range blocks {
			s.BlockTable = append(s.BlockTable, int32(i*blocks+b))
		}
	}
	return s
}
