package lora

import (
	"bytes"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// adapterCopy returns a copy of an adapter for the tiny Llama 2.
func adapterCopy(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(t.TempDir(), "a")
	if err := os.CopyFS(dir, os.DirFS(folders(t)[0])); err != nil {
		t.Fatal(err)
	}
	return dir
}

// TestFileCutShort: a file that is cut short while it is read is an error, and not the end of the process.
func TestFileCutShort(t *testing.T) {
	dir := adapterCopy(t)
	file := filepath.Join(dir, hf.AdapterFile)
	base, err := hf.Open("../testdata/golden/llama2")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	config, err := os.ReadFile(filepath.Join(dir, hf.AdapterConfigFile))
	if err != nil {
		t.Fatal(err)
	}
	settings, err := hf.ParseAdapterConfig(config)
	if err != nil {
		t.Fatal(err)
	}
	set, err := safetensors.OpenFile(file)
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	if err := os.Truncate(file, 0); err != nil {
		t.Fatal(err)
	}
	_, err = newReader(settings, set, base).read(models.CPU)
	if err == nil || !strings.Contains(err.Error(), "changes while it is read") {
		t.Errorf("got %v", err)
	}
}

// TestFoldersThatAreNone: what is no adapter is refused, and a pipe is not waited for.
func TestFoldersThatAreNone(t *testing.T) {
	base, err := hf.Open("../testdata/golden/llama2")
	if err != nil {
		t.Fatal(err)
	}
	defer base.Close()
	pipe := func(name string) func(dir string) error {
		return func(dir string) error {
			file := filepath.Join(dir, name)
			if err := os.Remove(file); err != nil {
				return err
			}
			return syscall.Mkfifo(file, 0o600)
		}
	}
	for want, change := range map[string]func(dir string) error{
		"there is no adapter_config.json": func(dir string) error {
			return os.Remove(filepath.Join(dir, hf.AdapterConfigFile))
		},
		"adapter_config.json is not a file":       pipe(hf.AdapterConfigFile),
		"adapter_model.safetensors is not a file": pipe(hf.AdapterFile),
		"adapter_model.bin can run code": func(dir string) error {
			return os.Rename(filepath.Join(dir, hf.AdapterFile), filepath.Join(dir, hf.AdapterPickle))
		},
		"adapter_config.json has 1048577 bytes, at most 1048576 are read": func(dir string) error {
			return os.Truncate(filepath.Join(dir, hf.AdapterConfigFile), MaxConfig+1)
		},
		"it is truncated": func(dir string) error {
			return os.Truncate(filepath.Join(dir, hf.AdapterFile), 9000)
		},
	} {
		dir := adapterCopy(t)
		if err := change(dir); err != nil {
			t.Fatal(err)
		}
		if _, err := Open(dir, base, models.CPU); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		_, _ = EstimateBytes(dir) // which waits for nobody either
	}
}

// TestRefusedByReason: adapters of what no operator adds to are refused by what it is.
func TestRefusedByReason(t *testing.T) {
	for _, c := range []struct{ base, tensor, want string }{
		{"golden/mixtral", "model.layers.0.block_sparse_moe.experts.1.w1.lora_A.weight", "adapters of experts"},
		{"golden/qwen3-moe", "model.layers.0.mlp.gate.lora_A.weight", "adapters of routers"},
		{"golden/llama2", "model.embed_tokens.lora_embedding_A", "adapters of embeddings"},
		{"golden/llama2", "model.layers.7.self_attn.q_proj.lora_A.weight", "it is not a low-rank matrix"},
		{"vision/llava", "model.vision_tower.encoder.layers.0.self_attn.q_proj.lora_A.weight",
			"adapters of the language model alone"},
		{"vision/smolvlm", "model.connector.modality_projection.proj.lora_A.weight",
			"adapters of the language model alone"},
	} {
		base, err := hf.Open("../testdata/" + c.base)
		if err != nil {
			t.Fatal(err)
		}
		defer base.Close()
		dir := t.TempDir()
		var file bytes.Buffer
		spec := safetensors.Spec{Name: prefix + c.tensor, DType: tensors.F32, Shape: []int64{1, 1}}
		if err := safetensors.WriteHeader(&file, []safetensors.Spec{spec}); err != nil {
			t.Fatal(err)
		}
		file.Write(make([]byte, 4))
		for name, data := range map[string][]byte{hf.AdapterFile: file.Bytes(),
			hf.AdapterConfigFile: []byte(`{"peft_type":"LORA","r":1,"target_modules":"all-linear"}`)} {
			if err := os.WriteFile(filepath.Join(dir, name), data, 0o600); err != nil {
				t.Fatal(err)
			}
		}
		if _, err := Open(dir, base, models.CPU); err == nil || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), c.tensor) {
			t.Errorf("%s: %v, want %s", c.tensor, err, c.want)
		}
	}
}
