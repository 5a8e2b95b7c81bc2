package tower_test

import (
	"bytes"
	"encoding/json"
	"errors"
	"math"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"tgi/models/hf"
	"tgi/models/onnx"
	"tgi/models/vision"
	"tgi/models/vision/tower"
	"tgi/models/vision/visiontest"
	"tgi/runtime/ort"
)

// tolerance on features, whose size is about 1.
const tolerance = 1e-3

// build builds the tower of a golden and opens it.
func build(t *testing.T, ck *hf.Checkpoint) *ort.Encoder {
	t.Helper()
	path, err := ort.Locate("")
	if err == nil {
		err = ort.Init(path)
	}
	if err != nil {
		t.Fatal(err)
	}
	var data bytes.Buffer
	w := onnx.NewDataWriter(&data)
	model, err := tower.Build(ck, "data", w)
	if err == nil {
		err = w.Close()
	}
	if err != nil {
		t.Fatal(err)
	}
	dir := t.TempDir()
	for name, content := range map[string][]byte{tower.File: model, "data": data.Bytes()} {
		if err := os.WriteFile(filepath.Join(dir, name), content, 0o644); err != nil {
			t.Fatal(err)
		}
	}
	e, err := ort.OpenEncoder(ort.EncoderOptions{ModelPath: filepath.Join(dir, tower.File),
		Output: tower.FeaturesOutput,
		Width:  ck.Config.Hidden})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(e.Close)
	return e
}

// normalisation reads the means and deviations of a checkpoint's image processor.
func normalisation(t *testing.T, dir string) (mean, std [3]float64) {
	t.Helper()
	data, err := os.ReadFile(filepath.Join(dir, "processor_config.json"))
	if err != nil {
		t.Fatal(err)
	}
	var p struct {
		Image struct {
			Mean [3]float64 `json:"image_mean"`
			Std  [3]float64 `json:"image_std"`
		} `json:"image_processor"`
	}
	if err := json.Unmarshal(data, &p); err != nil {
		t.Fatal(err)
	}
	return p.Image.Mean, p.Image.Std
}

// compareWhole compares the features of whole pictures, as package vision prepares them, with those of transformers.
func compareWhole(t *testing.T, g visiontest.Golden, e *ort.Encoder, v hf.Vision) {
	t.Helper()
	processor, err := vision.Open(os.DirFS(g.Dir), v)
	if err != nil {
		t.Fatal(err)
	}
	most := 0.0
	for i, run := range g.Runs {
		for j, size := range run.Pictures {
			inputs, err := processor.Inputs(visiontest.Picture(size[0], size[1], size[2]))
			if err != nil {
				t.Fatal(err)
			}
			var tensors []ort.Tensor
			for _, in := range inputs {
				tensors = append(tensors, ort.Tensor(in))
			}
			got, err := e.Run(t.Context(), tensors, run.Tokens[j])
			if err != nil {
				t.Fatal(err)
			}
			for p, x := range g.Features(i, j) {
				most = max(most, math.Abs(float64(got[p]-x)))
			}
		}
	}
	if !(most < tolerance) {
		t.Errorf("features differ by %g", most)
	}
	t.Logf("largest difference: %g", most)
}

// TestFeaturesOfTransformers: the features of each tile are those of transformers. Those of LLaVA-NeXT are compared for
// the first tile, whose rows come first and whole.
func TestFeaturesOfTransformers(t *testing.T) {
	for _, name := range visiontest.Names {
		t.Run(name, func(t *testing.T) {
			g, err := visiontest.Read(name)
			if err != nil {
				t.Fatal(err)
			}
			ck, err := hf.Open(g.Dir)
			if err != nil {
				t.Fatal(err)
			}
			defer ck.Close()
			e, v := build(t, ck), ck.Config.Vision
			if v.Kind == hf.QwenVL {
				compareWhole(t, g, e, *v)
				return
			}
			mean, std := normalisation(t, g.Dir)
			rows := make([]int64, v.TileRows())
			for i := range rows {
				rows[i] = int64(i)
			}
			side := int64(v.Side)
			most := 0.0
			for i, run := range g.Runs {
				for j := range run.Pictures {
					tiles, want := g.Tiles(i, j), g.Features(i, j)
					size := int(3 * side * side)
					for k := range len(tiles) / size {
						pixels := make([]float32, size)
						for p := range pixels {
							channel := p / int(side*side)
							pixels[p] = float32((float64(tiles[k*size+p])/255 - mean[channel]) / std[channel])
						}
						got, err := e.Run(t.Context(), []ort.Tensor{
							{Name: tower.TilesInput, Shape: []int64{1, 3, side, side}, Floats: pixels},
							{Name: tower.RowsInput, Shape: []int64{int64(len(rows))}, Ints: rows},
						}, len(rows))
						if err != nil {
							t.Fatal(err)
						}
						if v.Kind == hf.LLaVANext && k > 0 {
							break
						}
						for p, x := range got {
							most = max(most, math.Abs(float64(x-want[k*len(got)+p])))
						}
					}
				}
			}
			if !(most < tolerance) {
				t.Errorf("features differ by %g", most)
			}
			t.Logf("largest difference: %g", most)
		})
	}
}

// TestRefusals: tensors that are missing, of another shape or left over are named.
func TestRefusals(t *testing.T) {
	g, err := visiontest.Read("smolvlm")
	if err != nil {
		t.Fatal(err)
	}
	for want, change := range map[string]func(*hf.Checkpoint){
		`tensor "vision.encoder.layers.2.layer_norm1.weight"`: func(ck *hf.Checkpoint) { ck.Config.Vision.Layers = 3 },
		`tensor "model.vision_model.encoder.layers.0.mlp.fc1.weight" has shape [80 48], want [81 48]`: func(ck *hf.Checkpoint) {
			ck.Config.Vision.Intermediate = 81
		},
		`19 patches in a line`: func(ck *hf.Checkpoint) {
			ck.Config.Vision.Side = 19 * ck.Config.Vision.Patch
		},
		`is not part of the vision tower`: func(ck *hf.Checkpoint) { ck.Config.Vision.Layers = 1 },
	} {
		ck, err := hf.Open(g.Dir)
		if err != nil {
			t.Fatal(err)
		}
		change(ck)
		_, err = tower.Build(ck, "data", onnx.NewDataWriter(new(bytes.Buffer)))
		if err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("got %v, want %s", err, want)
		}
		ck.Close()
	}
	broken := onnx.NewDataWriter(failing{})
	ck, err := hf.Open(g.Dir)
	if err != nil {
		t.Fatal(err)
	}
	defer ck.Close()
	if _, err := tower.Build(ck, "data", broken); err == nil {
		err = broken.Close()
		if !errors.Is(err, errFull) {
			t.Errorf("a full disk: %v", err)
		}
	}
}

var errFull = errors.New("no space left")

type failing struct{}

func (failing) Write([]byte) (int, error) { return 0, errFull }
