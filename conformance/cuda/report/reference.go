package report

import (
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"tgi/conformance/cuda/compare"
	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/quant"
	"tgi/models/safetensors"
	"tgi/models/tensors"
	"tgi/runtime/llm"
)

// played is what sequences come to elsewhere.
type played struct {
	sequences [][]llm.Token
	want      compare.Logits
}

// reference plays random sequences on the CPU in 32 bits, for caches of a block size. It is kept for the formats that
// have the checkpoint's own weights.
func (r *report) reference(folder string, w models.Weights, blockSize, length int) (*played, error) {
	if p := r.references[folder]; p != nil && !w.Quantised() {
		return p, nil
	}
	b, done, err := r.cpuModel(folder, w)
	if err != nil {
		return nil, err
	}
	defer done()
	p := &played{sequences: compare.Sequences(b.Vocab, blockSize, length, 1)}
	cpu, err := onCPU(b, (length/b.BlockSize+2)*len(p.sequences)*2)
	if err != nil {
		return nil, err
	}
	defer cpu.Close()
	if p.want, err = compare.Alone(cpu, p.sequences); err != nil {
		return nil, err
	}
	if r.references == nil {
		r.references = map[string]*played{}
	}
	if !w.Quantised() {
		r.references[folder] = p
	}
	return p, nil
}

// Files of reference data in a checkpoint's folder.
const (
	promptsFile = "golden.json"
	logitsFile  = "golden.safetensors"
)

// theirs returns prompts of at most so many tokens that lie beside a checkpoint, and the logits that transformers
// computes for them in 32 bits; none if there are none.
func theirs(folder string, longest, vocab int) (*played, error) {
	text, err := os.ReadFile(filepath.Join(folder, promptsFile))
	if errors.Is(err, fs.ErrNotExist) {
		return &played{}, nil
	}
	var golden struct {
		Prompts [][]llm.Token `json:"prompts"`
	}
	if err := cmp.Or(err, json.Unmarshal(text, &golden)); err != nil {
		return nil, err
	}
	set, err := safetensors.OpenFile(filepath.Join(folder, logitsFile))
	if err != nil {
		return nil, err
	}
	defer set.Close()
	p := &played{}
	for i, prompt := range golden.Prompts {
		if len(prompt) > longest {
			continue
		}
		t, err := set.Tensor(fmt.Sprintf("logits.%d", i))
		if err != nil {
			return nil, err
		}
		x := make([]float32, t.Len())
		if len(x) != len(prompt)*vocab {
			return nil, fmt.Errorf("%s: %s has %d numbers for %d tokens", logitsFile, t.Name, len(x), len(prompt))
		}
		if err := t.Floats(x, 0); err != nil {
			return nil, err
		}
		p.sequences = append(p.sequences, prompt)
		p.want = append(p.want, slices.Collect(slices.Chunk(x, vocab)))
	}
	return p, nil
}

// cpuModel builds a checkpoint for the CPU in 32 bits. Where the device's matrices are integers, those of the built
// model are what its codes and scales stand for, so that both compute with the same weights. done removes its files.
func (r *report) cpuModel(folder string, w models.Weights) (b models.Built, done func(), err error) {
	if !w.Quantised() {
		b, err = r.build(folder, models.CPU, models.FP32)
		return b, func() {}, err
	}
	ck, err := hf.Open(folder)
	if err != nil {
		return b, nil, err
	}
	defer ck.Close()
	if err := roundMatrices(ck, w); err != nil {
		return b, nil, err
	}
	dir, err := os.MkdirTemp("", "tgi-cuda-rounded-")
	if err != nil {
		return b, nil, err
	}
	done = func() { os.RemoveAll(dir) }
	defer func() {
		if err != nil {
			done()
		}
	}()
	data, err := os.Create(filepath.Join(dir, decoder.DataFile))
	if err != nil {
		return b, nil, err
	}
	defer data.Close()
	built, err := decoder.Build(ck, data, decoder.Options{Weights: models.FP32})
	if err != nil {
		return b, nil, err
	}
	b = models.Built{Arch: built.Arch, Layout: built.Layout, Weights: models.FP32, Dir: dir,
		ModelFile: filepath.Join(dir, decoder.ModelFile)}
	err = errors.Join(data.Close(), os.WriteFile(b.ModelFile, built.Model, 0o600))
	if built.Adapted != nil {
		b.AdaptedFile = filepath.Join(dir, decoder.AdaptedFile)
		err = errors.Join(err, os.WriteFile(b.AdaptedFile, built.Adapted, 0o600))
	}
	return b, done, err
}

// roundMatrices puts in the place of each matrix that the device has as integers what these stand for. Routers, and
// the matrices of each head of latent attention, are none of them.
func roundMatrices(ck *hf.Checkpoint, w models.Weights) (err error) {
	defer tensors.Guard(&err)()
	c, t := &ck.Config, ck.Config.Tensors
	bits := map[models.Weights]int{models.Int8: 8, models.Int4: 4}[w]
	known := map[string]bool{}
	round := func(bits, k int, parts ...hf.Slice) {
		f := quant.Format{Form: tensors.Form{Bits: bits}, Block: models.QuantBlock, RoundScale: tensors.RoundHalf}
		for _, p := range parts {
			if !p.Bare {
				p.Tensor += ".weight"
			}
			if !known[p.Tensor] && err == nil {
				known[p.Tensor] = true
				err = roundMatrix(ck.Tensors, f, p, k)
			}
		}
	}
	table := bits
	if !c.Tied {
		round(bits, c.Hidden, hf.Slice{Tensor: t.Head})
		table = 8
	}
	round(table, c.Hidden, hf.Slice{Tensor: t.Whole(t.Embed)})
	for i := range c.Layers {
		round(bits, c.OutWidth(), c.Out(i))
		if c.Latent.Rank == 0 {
			round(bits, c.Hidden, c.QKV(i)...)
		} else {
			q, kv := c.LatentDown(i)
			round(bits, c.Hidden, q, kv)
			if up, _ := c.LatentUp(i); c.Latent.QRank != 0 {
				round(bits, c.Latent.QRank, up)
			}
		}
		if !c.HasExperts(i) {
			round(bits, c.Hidden, c.GateUp(i)...)
			round(bits, c.Intermediate, c.Down(i))
			continue
		}
		round(bits, c.Hidden, c.ExpertGateUp(i)...)
		round(bits, c.Experts.Intermediate, c.ExpertDown(i)...)
		if c.Experts.Shared > 0 {
			gate, up, down := c.SharedExpert(i)
			round(bits, c.Hidden, gate, up)
			round(bits, c.Experts.Shared, down)
		}
	}
	return err
}

// roundMatrix rounds the tensor that holds a part, whose rows have k numbers.
func roundMatrix(set *tensors.Set, f quant.Format, p hf.Slice, k int) error {
	t, err := set.Tensor(p.Tensor)
	if err != nil {
		return err
	}
	x := make([]float32, t.Len())
	if err := t.Floats(x, 0); err != nil {
		return err
	}
	for own := range slices.Chunk(x, len(x)/max(p.Outer, 1)) {
		if !p.Transposed {
			roundRows(f, own, k)
			continue
		}
		n := len(own) / k
		rows := make([]float32, len(own))
		for i, v := range own {
			rows[i%n*k+i/n] = v
		}
		roundRows(f, rows, k)
		for i := range own {
			own[i] = rows[i%n*k+i/n]
		}
	}
	data, err := tensors.F32.AppendFloats(nil, x)
	set.Put(p.Tensor, tensors.New(t.Name, tensors.F32, t.Shape, t.File, data))
	return err
}

// roundRows rounds rows of k numbers.
func roundRows(f quant.Format, x []float32, k int) {
	rows := len(x) / k
	codes, scales := make([]byte, rows*f.RowBytes(k)), make([]float32, rows*f.Blocks(k))
	f.Rows(codes, scales, x, k)
	for i := range x {
		row, column := i/k, i%k
		at := column * f.Bits
		code := int(codes[row*f.RowBytes(k)+at/8]>>(at%8)) & (1<<f.Bits - 1)
		x[i] = float32(code-1<<(f.Bits-1)) * scales[row*f.Blocks(k)+column/f.Block]
	}
}
