package demo

import (
	"bufio"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"io/fs"
	"math"
	"os"
	"strings"
	"testing"
)

// maxBytes is what the demo model may take in the repository.
const maxBytes = 16 << 20

type config struct {
	Architectures []string `json:"architectures"`
	Vocab         int      `json:"vocab_size"`
	Hidden        int      `json:"hidden_size"`
	Inner         int      `json:"intermediate_size"`
	Layers        int      `json:"num_hidden_layers"`
	Heads         int      `json:"num_attention_heads"`
	KVHeads       int      `json:"num_key_value_heads"`
	HeadDim       int      `json:"head_dim"`
	Positions     int      `json:"max_position_embeddings"`
	Tied          bool     `json:"tie_word_embeddings"`
	EOS           int      `json:"eos_token_id"`
}

func read(t *testing.T, name string) []byte {
	t.Helper()
	b, err := fs.ReadFile(Checkpoint(), name)
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func parse(t *testing.T, name string, into any) {
	t.Helper()
	if err := json.Unmarshal(read(t, name), into); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

func TestSize(t *testing.T) {
	var sum int64
	err := fs.WalkDir(FS, ".", func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		if info.Size() == 0 {
			t.Errorf("%s is empty", path)
		}
		sum += info.Size()
		return nil
	})
	if err != nil {
		t.Fatal(err)
	}
	if sum > maxBytes {
		t.Errorf("embedded files have %d bytes, at most %d are allowed", sum, maxBytes)
	}
}

// The int4 builder works in blocks of 128 inputs, the attention in whole heads.
func TestConfigFitsTheBuilder(t *testing.T) {
	var c config
	parse(t, "config.json", &c)
	if len(c.Architectures) != 1 || c.Architectures[0] != "LlamaForCausalLM" {
		t.Errorf("architectures = %v, want LlamaForCausalLM", c.Architectures)
	}
	for name, n := range map[string]int{"hidden_size": c.Hidden, "intermediate_size": c.Inner,
		"heads * head_dim": c.Heads * c.HeadDim} {
		if n == 0 || n%128 != 0 {
			t.Errorf("%s = %d, want a multiple of 128", name, n)
		}
	}
	if c.HeadDim%16 != 0 || c.KVHeads == 0 || c.Heads%c.KVHeads != 0 {
		t.Errorf("head_dim %d, heads %d, key-value heads %d do not fit together", c.HeadDim, c.Heads, c.KVHeads)
	}
	if c.Positions < 512 {
		t.Errorf("max_position_embeddings = %d, want at least 512", c.Positions)
	}
}

func TestTokenizer(t *testing.T) {
	var c config
	parse(t, "config.json", &c)
	var tok struct {
		AddedTokens []struct {
			ID      int    `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
		Model struct {
			Type  string         `json:"type"`
			Vocab map[string]int `json:"vocab"`
		} `json:"model"`
	}
	parse(t, "tokenizer.json", &tok)
	if tok.Model.Type != "BPE" || len(tok.Model.Vocab) != c.Vocab {
		t.Errorf("model %s with %d entries, want BPE with vocab_size = %d", tok.Model.Type, len(tok.Model.Vocab),
			c.Vocab)
	}
	want := []string{"<|endoftext|>", "<|im_start|>", "<|im_end|>"}
	if len(tok.AddedTokens) != len(want) {
		t.Fatalf("%d added tokens, want %d", len(tok.AddedTokens), len(want))
	}
	for i, a := range tok.AddedTokens {
		if a.ID != i || a.Content != want[i] || !a.Special {
			t.Errorf("added token %d is %+v, want special %s", i, a, want[i])
		}
	}
	if c.EOS != 2 {
		t.Errorf("eos_token_id = %d, want that of <|im_end|>", c.EOS)
	}
	var tc struct {
		Template string `json:"chat_template"`
		EOS      string `json:"eos_token"`
	}
	parse(t, "tokenizer_config.json", &tc)
	if tc.Template == "" || tc.EOS != "<|im_end|>" {
		t.Errorf("chat template of %d bytes, eos %q", len(tc.Template), tc.EOS)
	}
}

// Every weight is there in the shape that config.json says, bf16 and finite.
func TestWeights(t *testing.T) {
	var c config
	parse(t, "config.json", &c)
	b := read(t, "model.safetensors")
	n := binary.LittleEndian.Uint64(b)
	if n > uint64(len(b)-8) {
		t.Fatalf("header of %d bytes in a file of %d", n, len(b))
	}
	header := map[string]json.RawMessage{}
	if err := json.Unmarshal(b[8:8+n], &header); err != nil {
		t.Fatal(err)
	}
	delete(header, "__metadata__")
	data := b[8+n:]
	want := shapes(c)
	if len(header) != len(want) {
		t.Errorf("%d tensors, want %d", len(header), len(want))
	}
	for name, shape := range want {
		var h struct {
			DType   string `json:"dtype"`
			Shape   []int  `json:"shape"`
			Offsets [2]int `json:"data_offsets"`
		}
		if err := json.Unmarshal(header[name], &h); err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		if h.DType != "BF16" || fmt.Sprint(h.Shape) != fmt.Sprint(shape) {
			t.Errorf("%s is %s %v, want BF16 %v", name, h.DType, h.Shape, shape)
			continue
		}
		if bad := notFinite(data[h.Offsets[0]:h.Offsets[1]]); bad > 0 {
			t.Errorf("%s has %d values that are not finite", name, bad)
		}
	}
}

func shapes(c config) map[string][]int {
	out := map[string][]int{
		"model.embed_tokens.weight": {c.Vocab, c.Hidden},
		"model.norm.weight":         {c.Hidden},
	}
	if !c.Tied {
		out["lm_head.weight"] = []int{c.Vocab, c.Hidden}
	}
	for i := range c.Layers {
		p := fmt.Sprintf("model.layers.%d.", i)
		out[p+"input_layernorm.weight"] = []int{c.Hidden}
		out[p+"post_attention_layernorm.weight"] = []int{c.Hidden}
		out[p+"self_attn.q_proj.weight"] = []int{c.Heads * c.HeadDim, c.Hidden}
		out[p+"self_attn.k_proj.weight"] = []int{c.KVHeads * c.HeadDim, c.Hidden}
		out[p+"self_attn.v_proj.weight"] = []int{c.KVHeads * c.HeadDim, c.Hidden}
		out[p+"self_attn.o_proj.weight"] = []int{c.Hidden, c.Heads * c.HeadDim}
		out[p+"mlp.gate_proj.weight"] = []int{c.Inner, c.Hidden}
		out[p+"mlp.up_proj.weight"] = []int{c.Inner, c.Hidden}
		out[p+"mlp.down_proj.weight"] = []int{c.Hidden, c.Inner}
	}
	return out
}

func notFinite(bf16 []byte) int {
	bad := 0
	for i := 0; i+1 < len(bf16); i += 2 {
		f := math.Float32frombits(uint32(binary.LittleEndian.Uint16(bf16[i:])) << 16)
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			bad++
		}
	}
	return bad
}

// The behaviour table of README.md is made from these prompts.
func TestHeldOutPrompts(t *testing.T) {
	f, err := os.Open("heldout.jsonl")
	if err != nil {
		t.Fatal(err)
	}
	defer f.Close()
	kinds := map[string]int{}
	lines := bufio.NewScanner(f)
	lines.Buffer(nil, 1<<20)
	for n := 1; lines.Scan(); n++ {
		var c struct {
			Kind, Prompt string
			Check        map[string]any
		}
		if err := json.Unmarshal(lines.Bytes(), &c); err != nil {
			t.Fatalf("line %d: %v", n, err)
		}
		if !strings.HasSuffix(c.Prompt, "<|im_start|>assistant\n") || len(c.Check) == 0 {
			t.Errorf("line %d: the prompt does not end where the assistant begins, or has no check", n)
		}
		kinds[c.Kind]++
	}
	if err := lines.Err(); err != nil {
		t.Fatal(err)
	}
	sum := 0
	for _, n := range kinds {
		sum += n
	}
	if sum < 100 || len(kinds) < 8 {
		t.Errorf("%d prompts of %d kinds, want at least 100 of 8", sum, len(kinds))
	}
}
