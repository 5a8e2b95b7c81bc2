package ready

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"testing/fstest"

	"tgi/models/onnx"
)

// shape describes a graph that a test builds.
type shape struct {
	ids, mask         onnx.DType
	inputs            map[string][]onnx.Dim // further ones
	batch, length     onnx.Dim
	past              []onnx.Dim
	values            onnx.DType // of the second layer's values
	logits            []onnx.Dim
	noPresent, noMask bool
	layers            int
	nodes             []onnx.Node
	attention         bool
	location          string
	ref               onnx.Ref
}

func usualShape() shape {
	return shape{ids: onnx.Int64, mask: onnx.Int64, batch: onnx.Symbolic("batch"), length: onnx.Symbolic("sequence"),
		past:   []onnx.Dim{onnx.Symbolic("batch"), onnx.Fixed(2), onnx.Symbolic("past"), onnx.Fixed(8)},
		values: onnx.Float, logits: []onnx.Dim{onnx.Symbolic("batch"), onnx.Symbolic("sequence"), onnx.Fixed(50)},
		layers: 2, location: "model.onnx_data", ref: onnx.Ref{Length: 16}}
}

// graph encodes a graph with the inputs and outputs of a decoder, which computes nothing of use.
func (s shape) graph(t testing.TB) []byte {
	t.Helper()
	g := onnx.New("g", s.location)
	g.Input("input_ids", s.ids, s.batch, s.length)
	if !s.noMask {
		g.Input("attention_mask", s.mask, s.batch, onnx.Symbolic("total"))
	}
	for name, dims := range s.inputs {
		g.Input(name, onnx.Int64, dims...)
	}
	g.External("table", onnx.Float, []int64{4}, s.ref)
	for i := range s.layers {
		for _, half := range []string{"key", "value"} {
			kind := onnx.Float
			if i == 1 && half == "value" {
				kind = s.values
			}
			past, present := fmt.Sprintf("past_key_values.%d.%s", i, half), fmt.Sprintf("present.%d.%s", i, half)
			g.Input(past, kind, s.past...)
			if !s.noPresent && !s.attention {
				g.Add(onnx.Node{Op: "Identity", Inputs: []string{past}, Outputs: []string{present}})
			}
			if !s.noPresent {
				g.Output(present, kind, s.past...)
			}
		}
		if s.attention {
			at := fmt.Sprintf("past_key_values.%d.", i)
			to := fmt.Sprintf("present.%d.", i)
			cos := g.Constant(fmt.Sprintf("cos%d", i), onnx.Float, []int64{30, 4}, make([]byte, 480))
			g.Add(onnx.Node{Op: "GroupQueryAttention", Domain: "com.microsoft",
				Inputs:  []string{"table", "", "", at + "key", at + "value", "table", "table", cos, cos},
				Outputs: []string{fmt.Sprint("out", i), to + "key", to + "value"}})
		}
	}
	for _, n := range s.nodes {
		g.Add(n)
	}
	g.Add(onnx.Node{Op: "Identity", Inputs: []string{"table"}, Outputs: []string{"logits"}})
	g.Output("logits", onnx.Float, s.logits...)
	data, err := g.Marshal("test", onnx.Opset{Version: 21})
	if err != nil {
		t.Fatal(err)
	}
	return data
}

const (
	usualConfig = `{"architectures": ["X"], "max_position_embeddings": 40, "eos_token_id": [3, 1]}`
	usualGenai  = `{"model": {"type": "x", "context_length": 40, "eos_token_id": 2, "decoder": {"filename": "model.onnx"}}}`
)

func folder(t testing.TB, s shape) fstest.MapFS {
	return fstest.MapFS{ConfigFile: {Data: []byte(usualConfig)}, "onnx/model.onnx": {Data: s.graph(t)},
		"onnx/model.onnx_data": {Data: make([]byte, 16)}}
}

func readFirst(fsys fstest.MapFS) (*Graph, error) {
	f, err := Open(fsys)
	if err != nil {
		return nil, err
	}
	if f == nil {
		return nil, errors.New("there is no graph")
	}
	return f.Read(f.Variants[0])
}

func TestRead(t *testing.T) {
	g, err := readFirst(folder(t, usualShape()))
	if err != nil {
		t.Fatal(err)
	}
	if g.Layers() != 2 || g.KVHeads != 2 || g.HeadDim != 8 || g.Vocab != 50 || g.MaxPositions != 40 || g.InPlace ||
		g.Alone || g.LastOnly || g.Half || g.Bytes <= 16 || len(g.Data) != 1 {
		t.Errorf("%+v", g)
	}
	if len(g.Notes) != 2 || !strings.Contains(g.Notes[0], "no position_ids") || !strings.Contains(g.Notes[1], "copy") {
		t.Errorf("notes: %q", g.Notes)
	}
}

// TestNotes: what a graph lacks is said, and nothing else.
func TestNotes(t *testing.T) {
	for name, c := range map[string]struct {
		change func(*shape)
		want   string
		check  func(*Graph) bool
	}{
		"in place": {func(s *shape) { s.attention = true },
			"rotary tables of 30 positions, fewer than the 40", func(g *Graph) bool {
				return g.InPlace && g.MaxPositions == 30 && len(g.Notes) == 1
			}},
		"the last logits": {func(s *shape) { s.logits[1] = onnx.Fixed(1) }, "logits of the last position alone",
			func(g *Graph) bool { return g.LastOnly }},
		"one sequence": {func(s *shape) { s.batch = onnx.Fixed(1) }, "one sequence at a time",
			func(g *Graph) bool { return g.Alone }},
		"roundings of a run": {func(s *shape) {
			s.nodes = []onnx.Node{{Op: "DynamicQuantizeLinear", Inputs: []string{"table"},
				Outputs: []string{"q", "s", "z"}}}
		}, "largest of a run (DynamicQuantizeLinear)", func(g *Graph) bool { return g.Alone }},
		"positions": {func(s *shape) {
			s.inputs = map[string][]onnx.Dim{"position_ids": {s.batch, s.length}, "num_logits_to_keep": nil}
		}, "copy", func(g *Graph) bool {
			return g.Positions == "position_ids" && g.Keep == "num_logits_to_keep" && len(g.Notes) == 1
		}},
	} {
		s := usualShape()
		c.change(&s)
		g, err := readFirst(folder(t, s))
		if err != nil || !strings.Contains(strings.Join(g.Notes, " "), c.want) || !c.check(g) {
			t.Errorf("%s: %v, %+v", name, err, g)
		}
	}
}

// TestRefusals: what cannot be served ends in one sentence that names the file and the field.
func TestRefusals(t *testing.T) {
	past := func(at int, d onnx.Dim) func(*shape) {
		return func(s *shape) { s.past[at] = d }
	}
	for want, change := range map[string]func(*shape){
		`the input "input_ids" is of the type float16, want int64`:                   func(s *shape) { s.ids = onnx.Float16 },
		`the input "attention_mask" is missing`:                                      func(s *shape) { s.noMask = true },
		`the input "past_key_values.0.key" is missing: only graphs with a cache`:     func(s *shape) { s.layers = 0 },
		`the output "present.0.key" is missing`:                                      func(s *shape) { s.noPresent = true },
		`"past_key_values.1.value" has the dimensions "[batch, 2, past, 8]" and ano`: func(s *shape) { s.values = onnx.Float16 },
		`nothing says how many heads of what size there are`:                         past(1, onnx.Symbolic("heads")),
		`"[batch, 2, 64, 8]"; caches of a fixed length are not served`:               past(2, onnx.Fixed(64)),
		`"[4, 2, past, 8]"; graphs with a fixed number of sequences`:                 past(0, onnx.Fixed(4)),
		`takes 16 tokens at a time`:                                                  func(s *shape) { s.length = onnx.Fixed(16) },
		`takes 4 sequences at a time`:                                                func(s *shape) { s.batch = onnx.Fixed(4) },
		`the output "logits" has the dimensions "[batch, 50]", want 3 of them`: func(s *shape) {
			s.logits = []onnx.Dim{onnx.Symbolic("batch"), onnx.Fixed(50)}
		},
		`says how many tokens there are (vocab_size)`: func(s *shape) { s.logits[2] = onnx.Symbolic("v") },
		`it has the input "use_cache_branch", which graphs of older exports have`: func(s *shape) {
			s.inputs = map[string][]onnx.Dim{"use_cache_branch": {onnx.Fixed(1)}}
		},
		`it has the input "inputs_embeds", so embeddings are a graph of their own`: func(s *shape) {
			s.inputs = map[string][]onnx.Dim{"inputs_embeds": {s.batch, s.length, onnx.Fixed(8)}}
		},
		`it has the input "past_conv.0", which is not known`: func(s *shape) {
			s.inputs = map[string][]onnx.Dim{"past_conv.0": {s.batch}}
		},
		`the operator "PagedAttention" is of the domain "tgi", which is not known`: func(s *shape) {
			s.nodes = []onnx.Node{{Op: "PagedAttention", Domain: "tgi", Name: "n", Inputs: []string{"table"},
				Outputs: []string{"x"}}}
		},
		`the operator Loop is not served, since it may run for ever`: func(s *shape) {
			s.nodes = []onnx.Node{{Op: "Loop", Inputs: []string{"table"}, Outputs: []string{"x"}}}
		},
		`external_data leads out of the folder: location "../secret"`:        func(s *shape) { s.location = "../secret" },
		`external_data leads out of the folder: location "/etc/passwd"`:      func(s *shape) { s.location = "/etc/passwd" },
		`tensor "table": its file of weights "onnx/other.bin" is missing`:    func(s *shape) { s.location = "other.bin" },
		`wants 16 bytes at 8 of "onnx/model.onnx_data", which has 16`:        func(s *shape) { s.ref.Offset = 8 },
		`wants 9223372036854775807 bytes at 0 of "onnx/model.onnx_data", wh`: func(s *shape) { s.ref.Length = 1<<63 - 1 },
	} {
		s := usualShape()
		change(&s)
		_, err := readFirst(folder(t, s))
		if !errors.Is(err, ErrFolder) || !strings.Contains(fmt.Sprint(err), want) ||
			!strings.HasPrefix(fmt.Sprint(err), "onnx/model.onnx: ") {
			t.Errorf("%s: got %v", want, err)
		}
	}
}

// TestConfigurations: errors of the JSON files name file and key.
func TestConfigurations(t *testing.T) {
	graph := usualShape()
	graph.location = "model.onnx.data"
	files := func(name, text string) fstest.MapFS {
		return fstest.MapFS{name: {Data: []byte(text)}, "model.onnx": {Data: graph.graph(t)},
			"model.onnx.data": {Data: make([]byte, 16)}}
	}
	g, err := readFirst(files(GenaiFile, usualGenai))
	if err != nil || g.Weights != "fp32" || g.File != "model.onnx" {
		t.Errorf("%+v, %v", g, err)
	}
	for _, c := range []struct{ file, text, want string }{
		{ConfigFile, `{`, `config.json: unusable ONNX folder: unexpected end of JSON`},
		{ConfigFile, `{"vocab_size": -1}`, `config.json: unusable ONNX folder: vocab_size must be from 1`},
		{ConfigFile, `{"eos_token_id": -1}`, `config.json`},
		{ConfigFile, `{}`, `neither config.json nor the graph says how long sequences may be (max_position_embeddings)`},
		{GenaiFile, `{}`, `genai_config.json: unusable ONNX folder: model.decoder is missing`},
		{GenaiFile, strings.Replace(usualGenai, "model.onnx", "../model.onnx", 1), `model.decoder.filename must be the name`},
		{GenaiFile, strings.Replace(usualGenai, "model.onnx", "none.onnx", 1), `there is no file "none.onnx"`},
		{GenaiFile, strings.Replace(usualGenai, `"decoder": {`, `"decoder": {"pipeline": [],`, 1),
			`model.decoder.pipeline`},
		{GenaiFile, strings.Replace(usualGenai, `"decoder"`, `"encoder": {}, "decoder"`, 1), `model.encoder`},
		{GenaiFile, strings.Replace(usualGenai, `"decoder"`, `"embedding": {}, "decoder"`, 1), `model.embedding`},
		{GenaiFile, strings.Replace(usualGenai, `"decoder": {`, `"decoder": {"inputs": {"past_key_names": "p.%s"},`, 1),
			`model.decoder.inputs.past_key_names must hold %d once, given "p.%s"`},
		{GenaiFile, strings.Replace(usualGenai, `"decoder": {`, `"decoder": {"inputs": {"input_ids": "ids"},`, 1),
			`model.onnx: unusable ONNX folder: the input "ids" is missing`},
	} {
		_, err := readFirst(files(c.file, c.text))
		if !errors.Is(err, ErrFolder) || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v", c.want, err)
		}
	}
	empty := fstest.MapFS{ConfigFile: {Data: []byte(usualConfig)}}
	if f, err := Open(empty); f != nil || err != nil || Has(empty) {
		t.Errorf("a folder without graphs: %v, %v", f, err)
	}
}

// TestCutOff: a graph that ends anywhere is an error, never a panic, and never what the whole one is.
func TestCutOff(t *testing.T) {
	whole := usualShape().graph(t)
	for n := range whole {
		files := folder(t, usualShape())
		files["onnx/model.onnx"] = &fstest.MapFile{Data: whole[:n]}
		if _, err := readFirst(files); err == nil && n < len(whole)-8 { // the last field is the operators' version
			t.Errorf("cut after %d of %d bytes: no error", n, len(whole))
		}
	}
}

func TestPick(t *testing.T) {
	list := Variants(strings.Fields("onnx/model.onnx onnx/model_quantized.onnx onnx/model_q4f16.onnx onnx/other.onnx " +
		"onnx/decoder_model_merged.onnx onnx/model_x/y.onnx config.json"))
	for asked, want := range map[string]string{"": "onnx/model.onnx", "fp32": "onnx/model.onnx",
		"int4": "onnx/model_q4f16.onnx", "q8": "onnx/model_quantized.onnx", "int8": "onnx/model_quantized.onnx"} {
		if v, err := Pick(list, asked); err != nil || v.File != want {
			t.Errorf("%q: %+v, %v", asked, v, err)
		}
	}
	want := `weights must be one of those that the folder has, fp32, q4f16, quantized, given "bf16"`
	if _, err := Pick(list, "bf16"); err == nil || err.Error() != want {
		t.Error(err)
	}
	list = Variants([]string{"decoder_model_merged_quantized.onnx"})
	if len(list) != 1 || list[0].Weights != "quantized" {
		t.Error(list)
	}
}

func FuzzRead(f *testing.F) {
	f.Add(usualShape().graph(f))
	s := usualShape()
	s.attention = true
	f.Add(s.graph(f))
	for _, name := range []string{"genai-int4/model.onnx", "hub/onnx/model_q4.onnx"} {
		data, err := os.ReadFile(filepath.Join(testdata, filepath.FromSlash(name)))
		if err != nil {
			f.Fatal(err)
		}
		f.Add(data)
	}
	f.Fuzz(func(t *testing.T, data []byte) {
		files := fstest.MapFS{ConfigFile: {Data: []byte(usualConfig)}, "onnx/model.onnx": {Data: data},
			"onnx/model.onnx_data": {Data: make([]byte, 16)}}
		g, err := readFirst(files)
		if err == nil && (g.Layers() < 1 || g.KVHeads < 1 || g.HeadDim < 1 || g.Vocab < 1 || g.MaxPositions < 1 ||
			len(g.PresentKey) != g.Layers() || len(g.PastValue) != g.Layers() || len(g.PresentValue) != g.Layers()) {
			t.Errorf("%+v", g)
		}
		if err != nil && strings.Contains(err.Error(), "\n") {
			t.Errorf("not one line: %q", err)
		}
	})
}
