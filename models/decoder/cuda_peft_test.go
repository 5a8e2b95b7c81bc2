package decoder_test

import (
	"encoding/json"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/lora"
	"tgi/models/safetensors"
	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
)

// peft is an adapter, and what Python's peft computed with it.
type peft struct {
	name       string
	Checkpoint string      `json:"checkpoint"`
	Prompt     []llm.Token `json:"prompt"`
	logits     []float32
}

// readPEFT reads the reference data of package lora by checkpoint.
func readPEFT(t *testing.T) map[string][]peft {
	t.Helper()
	files, err := filepath.Glob("../testdata/adapters/*/golden.json")
	if err != nil || len(files) < 8 {
		t.Fatal(files, err)
	}
	out := map[string][]peft{}
	for _, file := range files {
		p := peft{name: filepath.Base(filepath.Dir(file))}
		data, err := os.ReadFile(file)
		if err == nil {
			err = json.Unmarshal(data, &p)
		}
		if err != nil {
			t.Fatal(err)
		}
		set, err := safetensors.OpenFile(filepath.Join(filepath.Dir(file), "golden.safetensors"))
		if err != nil {
			t.Fatal(err)
		}
		logits, err := set.Tensor("logits")
		if err != nil {
			t.Fatal(err)
		}
		p.logits = make([]float32, logits.Len())
		if err := logits.Floats(p.logits, 0); err != nil {
			t.Fatal(err)
		}
		set.Close()
		out[p.Checkpoint] = append(out[p.Checkpoint], p)
	}
	return out
}

// TestCUDAAdaptersComputeTheLogitsOfPEFT interprets the graph with adapters, in 32 bits: rows with all adapters of a
// checkpoint, and one without, in one step, have each the logits that PEFT computed, or that the row has alone.
func TestCUDAAdaptersComputeTheLogitsOfPEFT(t *testing.T) {
	const tolerance = 1e-3
	seen := 0
	for name, list := range readPEFT(t) {
		if strings.HasPrefix(name, "..") { // checkpoints that read images
			continue
		}
		ck, err := hf.Open(filepath.Join("../testdata/golden", name))
		if err != nil {
			t.Fatal(err)
		}
		defer ck.Close()
		err = decoder.Check(models.CUDA, models.BF16, ck.Config)
		if err != nil && !strings.Contains(err.Error(), "size") && !strings.Contains(err.Error(), "head_dim") {
			continue
		}
		prompts, numbers := [][]llm.Token{list[0].Prompt}, []int{0}
		var adapters [][]lowrank.Matrix
		for i, p := range list {
			a, err := lora.Open(filepath.Join("../testdata/adapters", p.name), ck, models.CUDA)
			if err != nil {
				t.Fatal(err)
			}
			var matrices []lowrank.Matrix
			for _, m := range a.Matrices {
				matrices = append(matrices, lowrank.Matrix{In: m.In, Out: m.Out, Offset: m.Offset, Rank: m.Rank,
					Scale: m.Scale, BFloat16: m.BFloat16, A: m.A, B: m.B})
			}
			adapters, prompts, numbers = append(adapters, matrices), append(prompts, p.Prompt), append(numbers, i+1)
		}
		got, ok := decoder.InterpretAdapted(t, ck, adapters, prompts, numbers)
		if !ok {
			continue
		}
		alone, _ := decoder.InterpretAdapted(t, ck, nil, prompts[:1], numbers[:1])
		compare := func(what string, want []float32, n int) {
			most := 0.0
			for i, row := range got[:n] {
				for j, x := range row {
					most = max(most, math.Abs(float64(x-want[i*len(row)+j])))
				}
			}
			got = got[n:]
			if most > tolerance || most != most {
				t.Errorf("%s: logits differ by %g", what, most)
			}
		}
		var flat []float32
		for _, row := range alone {
			flat = append(flat, row...)
		}
		compare(name+" without an adapter", flat, len(alone))
		for _, p := range list {
			seen++
			compare(p.name, p.logits, len(p.Prompt))
		}
	}
	t.Logf("%d adapters were compared", seen)
	if seen < 30 {
		t.Errorf("only %d adapters were compared", seen)
	}
}
