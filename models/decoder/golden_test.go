package decoder

import (
	"encoding/json"
	"fmt"
	"os"
	"path/filepath"
	"slices"
	"testing"
	"testing/fstest"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/runtime/llm"
)

// parseTensors opens a safetensors file in memory.
func parseTensors(data []byte) (*tensors.Set, error) {
	return safetensors.OpenFS(fstest.MapFS{safetensors.SingleFile: {Data: data}})
}

// goldenDir holds what testdata/make_goldens.py wrote.
const goldenDir = "../testdata/golden"

// tolerance on logits in 32-bit floats, whose size is about 15.
const tolerance = 1e-3

// golden is what Python's transformers computed for a tiny checkpoint.
type golden struct {
	Prompts [][]llm.Token `json:"prompts"`
	Greedy  [][]llm.Token `json:"greedy"`
	// logits [prompt][position][vocab]
	logits [][][]float32
}

func readGolden(t testing.TB, name string) (*hf.Checkpoint, golden) {
	t.Helper()
	dir := filepath.Join(goldenDir, name)
	ck, err := hf.Open(dir)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { ck.Close() })
	return ck, readResults(t, dir, ck.Config.Vocab)
}

// readResults reads what a folder says that transformers computed.
func readResults(t testing.TB, dir string, vocab int) golden {
	t.Helper()
	var g golden
	data, err := os.ReadFile(filepath.Join(dir, "golden.json"))
	if err != nil {
		t.Fatal(err)
	}
	if err := json.Unmarshal(data, &g); err != nil {
		t.Fatal(err)
	}
	weights, err := os.ReadFile(filepath.Join(dir, "golden.safetensors"))
	if err != nil {
		t.Fatal(err)
	}
	set, err := parseTensors(weights)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	for i := range g.Prompts {
		tensor, err := set.Tensor(fmt.Sprintf("logits.%d", i))
		if err != nil {
			t.Fatal(err)
		}
		flat := make([]float32, tensor.Len())
		if err := tensor.Floats(flat, 0); err != nil {
			t.Fatal(err)
		}
		g.logits = append(g.logits, slices.Collect(slices.Chunk(flat, vocab)))
	}
	return g
}

// goldenNames lists the cases.
func goldenNames(t testing.TB) []string {
	t.Helper()
	entries, err := os.ReadDir(goldenDir)
	if err != nil || len(entries) < 10 {
		t.Fatalf("%d goldens in %s: %v", len(entries), goldenDir, err)
	}
	var names []string
	for _, e := range entries {
		names = append(names, e.Name())
	}
	return names
}

// llamaNames lists the cases whose tensors have Llama's names.
func llamaNames(t testing.TB) []string {
	t.Helper()
	return slices.DeleteFunc(goldenNames(t), func(name string) bool {
		ck, _ := readGolden(t, name)
		return !slices.Contains([]string{"LlamaForCausalLM", "MistralForCausalLM", "Qwen2ForCausalLM",
			"Qwen3ForCausalLM"},
			ck.Config.Architecture)
	})
}

// distance returns the largest difference of two sets of logits.
func distance(got, want [][]float32) float32 {
	var most float32
	for i := range want {
		for j := range want[i] {
			most = max(most, got[i][j]-want[i][j], want[i][j]-got[i][j])
		}
	}
	return most
}

func TestLogitsAndGreedyTokensOfTransformers(t *testing.T) {
	for _, name := range goldenNames(t) {
		t.Run(name, func(t *testing.T) {
			ck, g := readGolden(t, name)
			r, path := buildTo(t, ck, Options{Weights: models.FP32})
			for _, piece := range []int{0, 7, 1} {
				m := runModel(t, r, path, 64)
				seqs, last := make([]*sequence, len(g.Prompts)), make([][]float32, len(g.Prompts))
				for i, prompt := range g.Prompts {
					seqs[i] = &sequence{}
					logits := m.prefill(seqs[i], prompt, piece)
					if d := distance(logits, g.logits[i]); d > tolerance {
						t.Errorf("prompt %d in pieces of %d: logits differ by %g", i, piece, d)
					}
					last[i] = logits[len(logits)-1]
				}
				for i, got := range m.greedy(seqs, last, len(g.Greedy[0])) {
					if !slices.Equal(got, g.Greedy[i]) {
						t.Errorf("prompt %d in pieces of %d: greedy tokens\n got %v\nwant %v", i, piece, got,
							g.Greedy[i])
					}
				}
			}
		})
	}
}

func TestPromptsOfOneStepDoNotMix(t *testing.T) {
	ck, g := readGolden(t, "qwen2")
	r, path := buildTo(t, ck, Options{Weights: models.FP32})
	m := runModel(t, r, path, 64)
	seqs := make([]*sequence, len(g.Prompts))
	for i := range seqs {
		seqs[i] = &sequence{}
	}
	got := m.feed(seqs, g.Prompts)
	if d := distance(got, slices.Concat(g.logits...)); d > tolerance {
		t.Errorf("logits differ by %g", d)
	}
}

// TestGoldensSeeEverySetting holds that the goldens would notice a setting
// that the graph forgot: each change of a configuration must move the logits.
func TestGoldensSeeEverySetting(t *testing.T) {
	plain := func(c *hf.Config) {
		c.Rope = hf.Rope{Type: hf.RopeDefault, Theta: c.Rope.Theta, Attention: 1}
	}
	// Tensors that a changed configuration leaves out.
	var sharedExperts, corrections []string
	for i := range 3 {
		layer := fmt.Sprintf("model.layers.%d.", i)
		sharedExperts = append(sharedExperts, layer+"mlp.shared_experts")
		corrections = append(corrections, layer+"mlp.moe_statics", layer+"block_sparse_moe.e_score")
	}
	cases := []struct {
		golden, what string
		change       func(c *hf.Config)
	}{
		{"mistral", "window", func(c *hf.Config) { clear(c.Windows) }},
		{"mistral", "window of one key more", func(c *hf.Config) { c.Windows[1]++ }},
		{"qwen2", "windows", func(c *hf.Config) { clear(c.Windows) }},
		{"qwen2", "max_window_layers", func(c *hf.Config) { c.Windows[0] = c.Windows[1] }},
		{"qwen3-window", "layer_types", func(c *hf.Config) { c.Windows[1] = c.Windows[0] }},
		{"llama3", "llama3 rope", plain},
		{"llama3-v5", "llama3 rope", plain},
		{"llama3-v5", "llama3 ramp", func(c *hf.Config) { c.Rope.HighFreq = 4 }},
		{"llama-linear-bias", "linear rope", plain},
		{"qwen2-yarn", "yarn rope", plain},
		{"qwen2-yarn", "yarn attention factor", func(c *hf.Config) { c.Rope.Attention = 1 }},
		{"smollm2", "rope_theta", func(c *hf.Config) { c.Rope.Theta = 10000 }},
		{"llama2", "rms_norm_eps", func(c *hf.Config) { c.Norm.Eps = 0.01 }},
		{"gemma", "offset of norms", func(c *hf.Config) { c.Norm.Offset = 0 }},
		{"gemma", "scale of embeddings", func(c *hf.Config) { c.Scales.Embed = 1 }},
		{"gemma", "activation", func(c *hf.Config) { c.Activation = hf.SiLU }},
		{"gemma2", "windows", func(c *hf.Config) { clear(c.Windows) }},
		{"gemma2", "cap of scores", func(c *hf.Config) { c.AttentionCap = 0 }},
		{"gemma2", "cap of logits", func(c *hf.Config) { c.LogitCap = 0 }},
		{"gemma2", "scale of scores", func(c *hf.Config) { c.Scales.Attention = 0.25 }},
		{"gemma3", "rope of windows", func(c *hf.Config) { c.WindowRope = nil }},
		{"phi3", "share of a head", func(c *hf.Config) { c.Rope.Dim = 0 }},
		{"phi3-long", "short factors", func(c *hf.Config) { c.Rope.Short = slices.Repeat([]float64{1}, 8) }},
		{"phi3-long", "attention factor", func(c *hf.Config) { c.Rope.Attention = 1 }},
		{"phi", "parallel", func(c *hf.Config) { c.Parallel = false }},
		{"gpt-neox", "parallel", func(c *hf.Config) { c.Parallel = false }},
		{"gpt-neox-sequential", "sequential", func(c *hf.Config) { c.Parallel = true }},
		{"gpt2", "activation", func(c *hf.Config) { c.Activation = hf.ReLU }},
		{"gptj", "pairs of neighbours", func(c *hf.Config) { c.Rope.Interleaved = false }},
		{"falcon-new", "order of heads", func(c *hf.Config) { c.Tensors.QKVByHead = false }},
		{"bloom", "slopes", func(c *hf.Config) { c.ALiBi, c.NoRope = false, []bool{true, true} }},
		{"stablelm", "share of a head", func(c *hf.Config) { c.Rope.Dim = 0 }},
		{"olmo", "clip_qkv", func(c *hf.Config) { c.ClipQKV = 0 }},
		{"smollm3", "layers without rope", func(c *hf.Config) { c.NoRope = nil }},
		{"granite", "embedding_multiplier", func(c *hf.Config) { c.Scales.Embed = 1 }},
		{"granite", "residual_multiplier", func(c *hf.Config) { c.Scales.Residual = 1 }},
		{"granite", "attention_multiplier", func(c *hf.Config) { c.Scales.Attention = 1 }},
		{"granite", "logits_scaling", func(c *hf.Config) { c.Scales.Logits = 1 }},
		{"cohere2", "layers without rope", func(c *hf.Config) { c.NoRope = nil }},
		{"glm", "pairs of neighbours", func(c *hf.Config) { c.Rope.Interleaved = false }},
		{"exaone4", "layers without rope", func(c *hf.Config) { c.NoRope = nil }},
		{"nemotron", "activation", func(c *hf.Config) { c.Activation = hf.ReLU }},
		{"hunyuan", "norm after rotary", func(c *hf.Config) { c.QKNorm.AfterRotary = false }},
		{"hunyuan", "alpha", func(c *hf.Config) { c.Rope.Theta = 10000 }},
		{"mixtral", "experts of a token", func(c *hf.Config) { c.Experts.PerToken = 1 }},
		{"mixtral", "norm of weights", func(c *hf.Config) { c.Experts.Normalise = false }},
		{"qwen2-moe", "norm of weights", func(c *hf.Config) { c.Experts.Normalise = true }},
		{"qwen3-moe", "norm_topk_prob", func(c *hf.Config) { c.Experts.Normalise = false }},
		{"gpt-oss", "clamped activation", func(c *hf.Config) { c.Experts.Clamp = hf.Clamp{} }},
		{"gpt-oss", "limit", func(c *hf.Config) { c.Experts.Clamp.Limit = 7 }},
		{"gpt-oss", "rows that alternate", func(c *hf.Config) { c.Experts.Alternate = false }},
		{"gpt-oss-mxfp4", "windows", func(c *hf.Config) { c.Windows[0] = 9 }},
		{"olmoe", "clip_qkv", func(c *hf.Config) { c.ClipQKV = 0 }},
		{"glm4-moe", "sigmoids", func(c *hf.Config) { c.Experts.Sigmoid = false }},
		{"glm4-moe", "routed_scaling_factor", func(c *hf.Config) { c.Experts.Scale = 1 }},
		{"glm4-moe", "MLP of all tokens", func(c *hf.Config) { c.Experts.Shared = 0; c.Unused = sharedExperts }},
		{"solar-open", "groups", func(c *hf.Config) { c.Experts.Groups = 1 }},
		{"solar-open", "groups of a token", func(c *hf.Config) { c.Experts.GroupsPerToken = 4 }},
		{"dots1", "experts that a group counts as", func(c *hf.Config) { c.Experts.GroupBest = 1 }},
		{"exaone-moe", "layers without rope", func(c *hf.Config) { c.NoRope = nil }},
		{"ernie4-5-moe", "correction", func(c *hf.Config) { c.Experts.Corrected = false; c.Unused = corrections }},
		{"ernie4-5-moe", "norm of weights", func(c *hf.Config) { c.Experts.Normalise = false }},
		{"minimax-m2", "correction", func(c *hf.Config) { c.Experts.Corrected = false; c.Unused = corrections }},
		{"minimax-m2", "share of a head", func(c *hf.Config) { c.Rope.Dim = 0 }},
		{"hunyuan-moe", "norm after rotary", func(c *hf.Config) { c.QKNorm.AfterRotary = false }},
		{"granite-moe-shared", "norm of weights", func(c *hf.Config) { c.Experts.Normalise = false }},
		{"cwm", "windows", func(c *hf.Config) { clear(c.Windows) }},
		{"hyperclovax", "logits_scaling", func(c *hf.Config) { c.Scales.Logits = 1 }},
		{"nanochat", "direction of rope", func(c *hf.Config) { c.Rope.Backwards = false }},
		{"nanochat", "cap of logits", func(c *hf.Config) { c.LogitCap = 0 }},
		{"vaultgemma", "cap of scores", func(c *hf.Config) { c.AttentionCap = 0 }},
		{"gpt-bigcode-heads", "order of heads", func(c *hf.Config) { c.Tensors.QKVByHead = false }},
		{"gpt-neo", "windows", func(c *hf.Config) { clear(c.Windows) }},
		{"gpt-neo", "scale of scores", func(c *hf.Config) { c.Scales.Attention = 0.35 }},
		{"codegen", "groups of heads", func(c *hf.Config) { c.Tensors.QVKGroups = 2 }},
		{"mpt", "slopes", func(c *hf.Config) { c.ALiBi, c.NoRope = false, []bool{true, true} }},
		{"mpt", "clip_qkv", func(c *hf.Config) { c.ClipQKV = 0 }},
		{"biogpt", "scale of embeddings", func(c *hf.Config) { c.Scales.Embed = 1 }},
		{"deepseek-v2", "pairs of neighbours", func(c *hf.Config) { c.Rope.Interleaved = false }},
		{"deepseek-v2", "scale of scores", func(c *hf.Config) { c.Scales.Attention *= 1.2 }},
		{"deepseek-v2-groups", "groups of a token", func(c *hf.Config) { c.Experts.GroupsPerToken = 4 }},
		{"deepseek-v2-groups", "routed_scaling_factor", func(c *hf.Config) { c.Experts.Scale = 1 }},
		{"deepseek-v2-groups", "mscale_all_dim", func(c *hf.Config) {
			c.Scales.Attention /= c.Rope.ScoreScale * c.Rope.ScoreScale
		}},
		{"deepseek-v3", "experts that a group counts as", func(c *hf.Config) { c.Experts.GroupBest = 1 }},
		{"deepseek-v3", "yarn rope", func(c *hf.Config) { c.Rope.Factor = 1 }},
		{"glm4-moe-lite", "norm of weights", func(c *hf.Config) { c.Experts.Normalise = false }},
		{"ministral3", "llama_4_scaling_beta", func(c *hf.Config) { c.Stretch = hf.Stretch{} }},
	}
	for _, c := range cases {
		t.Run(c.golden+" "+c.what, func(t *testing.T) {
			ck, g := readGolden(t, c.golden)
			c.change(&ck.Config)
			r, path := buildTo(t, ck, Options{Weights: models.FP32})
			m := runModel(t, r, path, 8)
			if d := distance(m.prefill(&sequence{}, g.Prompts[2], 0), g.logits[2]); d < 10*tolerance {
				t.Errorf("logits differ by only %g", d)
			}
		})
	}
}
