// Package visiontest reads the goldens of models that read images, for tests: what
// models/testdata/make_vision_goldens.py wrote. It draws their pictures, and others.
package visiontest

import (
	"bytes"
	"encoding/json"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math/rand/v2"
	"os"
	"path/filepath"

	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/models/vision"
)

// Names are the goldens.
var Names = []string{"smolvlm", "smolvlm2", "llava", "llava-full", "llava-next", "qwen2-5-vl", "gemma3"}

// Run is one conversation.
type Run struct {
	// Pictures are the arguments of Picture.
	Pictures [][3]int `json:"pictures"`
	// Messages is the conversation, Prompt what the chat template makes of it, and Text what the processor makes of
	// that.
	Messages json.RawMessage `json:"messages"`
	Prompt   string          `json:"prompt"`
	Text     string          `json:"text"`
	// IDs are the tokens of Text, Greedy those that follow.
	IDs    []uint32 `json:"ids"`
	Greedy []uint32 `json:"greedy"`
	// Tiles and Tokens count those of each picture.
	Tiles  []int `json:"tiles"`
	Tokens []int `json:"tokens"`
}

// Golden is what transformers computes for a checkpoint.
type Golden struct {
	Dir  string
	Runs []Run `json:"runs"`
	set  *tensors.Set
}

// Read reads a golden. Its tensors stay mapped until the process ends.
func Read(name string) (Golden, error) {
	root, err := os.Getwd() // of the test, which is somewhere in the module
	for err == nil {
		if _, err := os.Stat(filepath.Join(root, "go.mod")); err == nil || root == filepath.Dir(root) {
			break
		}
		root = filepath.Dir(root)
	}
	g := Golden{Dir: filepath.Join(root, "models/testdata/vision", name)}
	data, err := os.ReadFile(filepath.Join(g.Dir, "golden.json"))
	if err == nil {
		err = json.Unmarshal(data, &g)
	}
	if err == nil {
		g.set, err = safetensors.OpenFile(filepath.Join(g.Dir, "golden.safetensors"))
	}
	return g, err
}

// Tiles returns the pixels of picture j of a run as the processor cut them, [tiles, 3, side, side]. Tiles of Qwen2.5-VL
// are patches.
func (g Golden) Tiles(run, j int) []byte {
	t, err := g.set.Tensor(fmt.Sprintf("tiles.%d.%d", run, j))
	if err != nil {
		panic(err)
	}
	return t.Bytes()
}

// Features returns the embeddings of picture j of a run, [rows, width].
func (g Golden) Features(run, j int) []float32 {
	return g.floats(fmt.Sprintf("features.%d.%d", run, j))
}

// Logits returns those of the last positions of a run's prompt, [positions, vocab].
func (g Golden) Logits(run int) []float32 { return g.floats(fmt.Sprintf("logits.%d", run)) }

func (g Golden) floats(name string) []float32 {
	t, err := g.set.Tensor(name)
	if err != nil {
		panic(err)
	}
	x := make([]float32, t.Len())
	if err := t.Floats(x, 0); err != nil {
		panic(err)
	}
	return x
}

// Picture draws the picture of a number.
func Picture(width, height, number int) vision.Image {
	p := vision.Image{Width: width, Height: height, Pix: make([]byte, 0, 3*width*height)}
	for y := range height {
		for x := range width {
			p.Pix = append(p.Pix, byte(x*7+y*3+number*50), byte(x*y+number*11), byte(((x/5)^(y/3))*37+number*5))
		}
	}
	return p
}

// PNG is the file of the picture of a number.
func PNG(width, height, number int) ([]byte, error) {
	p := Picture(width, height, number)
	m := image.NewNRGBA(image.Rect(0, 0, width, height))
	for i := range width * height {
		m.SetNRGBA(i%width, i/width, color.NRGBA{p.Pix[3*i], p.Pix[3*i+1], p.Pix[3*i+2], 255})
	}
	var file bytes.Buffer
	err := png.Encode(&file, m)
	return file.Bytes(), err
}

// Noise is the file of a picture, a PNG, that is at least so many bytes large: nothing of it can be packed.
func Noise(size int) ([]byte, error) {
	const width = 500
	m := image.NewGray(image.Rect(0, 0, width, (size+width-1)/width))
	r := rand.New(rand.NewPCG(1, 2))
	for i := range m.Pix {
		m.Pix[i] = uint8(r.Uint32())
	}
	var file bytes.Buffer
	err := png.Encode(&file, m)
	return file.Bytes(), err
}
