package library

import (
	"context"
	"errors"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/models"
	"tgi/models/ready"
)

func TestChooseONNX(t *testing.T) {
	const several = "README.md config.json tokenizer.json onnx/model.onnx onnx/model.onnx_data onnx/model.onnx_data_1 " +
		"onnx/model_q4.onnx onnx/model_q4.onnx_data onnx/model_q4f16.onnx onnx/model_q4f16.onnx_data onnx/model_quantized.onnx"
	for name, c := range map[string]struct{ have, file, want string }{
		"4 bits if there is no other wish": {several, "",
			"config.json onnx/model_q4.onnx onnx/model_q4.onnx_data tokenizer.json"},
		"the one of full precision": {several, "fp32",
			"config.json onnx/model.onnx onnx/model.onnx_data onnx/model.onnx_data_1 tokenizer.json"},
		"by its weights":        {several, "q4f16", "config.json onnx/model_q4f16.onnx onnx/model_q4f16.onnx_data tokenizer.json"},
		"by its file":           {several, "model_quantized.onnx", "config.json onnx/model_quantized.onnx tokenizer.json"},
		"by another name of it": {several, "int8", "config.json onnx/model_quantized.onnx tokenizer.json"},
		"safetensors":           {"model.safetensors " + several, "", "config.json model.safetensors tokenizer.json"},
		"in spite of them": {"model.safetensors " + several, "q4f16",
			"config.json onnx/model_q4f16.onnx onnx/model_q4f16.onnx_data tokenizer.json"},
		"before GGUF": {"m.gguf config.json onnx/model.onnx", "", "config.json onnx/model.onnx"},
		"genai": {"config.json genai_config.json model.onnx model.onnx.data", "",
			"config.json genai_config.json model.onnx model.onnx.data"},
		"genai alone": {"genai_config.json model.onnx model.onnx.data", "", "genai_config.json model.onnx model.onnx.data"},
	} {
		got, err := Choose(strings.Fields(c.have), c.file, nil)
		if err != nil || strings.Join(got, " ") != c.want {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
	for name, c := range map[string]struct{ have, file, want string }{
		"none":             {several, "q5", `there is no file "q5" in the GGUF format, and no such ONNX graph`},
		"no configuration": {"onnx/model.onnx", "", "config.json is missing"},
	} {
		if got, err := Choose(strings.Fields(c.have), c.file, nil); !errors.Is(err, ErrUnusable) ||
			!strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: %v, %v; want %s", name, got, err, c.want)
		}
	}
}

// TestImportONNX: of a folder with several graphs one is copied, and what is said of the model is what the graph says.
func TestImportONNX(t *testing.T) {
	l := opened(t, Options{})
	if _, err := l.Import(context.Background(), "m", filepath.Join("..", "testdata", "onnx", "hub"),
		ImportOptions{}); err != nil {
		t.Fatal(err)
	}
	info, err := l.Describe("m")
	if err != nil {
		t.Fatal(err)
	}
	want := []Choice{{models.CPU, "q4", info.Graphs[0].Bytes}}
	if info.Format != ONNX || !slices.Equal(info.Choices, want) || info.Context != 160 || info.KVHeads != 2 ||
		info.HeadDim != 16 || info.Layers != 2 || info.Vocab != 272 || !info.Tokenizer {
		t.Errorf("%+v", info)
	}
	half := Info{}
	f, err := ready.Open(os.DirFS(filepath.Join("..", "testdata", "onnx", "community")))
	if err == nil {
		err = half.addGraphs(f)
	}
	if err != nil || half.Choices[1].Weights != "fp16" || half.Choices[1].Bytes != 2*half.Graphs[1].Bytes {
		t.Errorf("16-bit floats: %+v, %v", half.Choices, err)
	}
	if _, err := fs.Stat(info.FS, "onnx/model.onnx_data"); !errors.Is(err, fs.ErrNotExist) {
		t.Errorf("the data of another graph was copied: %v", err)
	}
}
