// Package lora reads low-rank adapters (LoRA) as PEFT saves them: it checks them against the model that they are for,
// and brings their matrices into the order and the layout that a backend adds them in.
//
// Callers: the model manager, and the command that checks settings. A folder is read once; nothing stays open. The
// package starts no goroutines.
package lora

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math"
	"os"
	"path/filepath"
	"runtime"
	"runtime/debug"
	"slices"
	"strings"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/hf"
	"tgi/models/safetensors"
	"tgi/models/tensors"
)

// ErrAdapter is wrapped by errors that say that a folder holds no adapter for the model.
var ErrAdapter = errors.New("cannot use adapter")

// Matrix is what an adapter adds to one matrix of the model: Scale * B(A x).
type Matrix struct {
	decoder.Matrix
	// Rank is 0 where the adapter leaves the matrix alone; A and B are nil then.
	Rank  int
	Scale float32
	// BFloat16 says that A and B hold bfloat16 numbers, as the file does, and not 32-bit floats. Bytes are
	// little-endian.
	BFloat16 bool
	// A [Rank, In] and B [Rank, Out], which is transposed.
	A, B []byte
}

// Adapter is one adapter.
type Adapter struct {
	// Matrices has an entry for each matrix of the model, in decoder.Matrices' order.
	Matrices []Matrix
	// Modules are the names of what it changes, such as q_proj, ascending; Rank is the highest rank.
	Modules []string
	Rank    int
	// Bytes is the size of its numbers.
	Bytes int64
	// Sum is a checksum, in hex, of all that decides what it computes.
	Sum string
}

// MaxFile and MaxConfig are the sizes up to which an adapter's two files are read.
const (
	MaxFile   = 8 << 30
	MaxConfig = 1 << 20
)

// prefix begins the names of tensors in an adapter's file.
const prefix = "base_model.model."

// Ends of the names of an adapter's two matrices of a module: A [rank, in] and B [out, rank].
const (
	suffixA = ".lora_A.weight"
	suffixB = ".lora_B.weight"
)

// Open reads the adapter in dir for the model of an open checkpoint on a device. Errors wrap ErrAdapter and name file,
// key or tensor, and the reason.
func Open(dir string, base *hf.Checkpoint, d models.Device) (*Adapter, error) {
	a, err := open(os.DirFS(dir), dir, base, d)
	if err != nil {
		return nil, fmt.Errorf("%w: %s: %w", ErrAdapter, dir, err)
	}
	return a, nil
}

func open(fsys fs.FS, dir string, base *hf.Checkpoint, d models.Device) (*Adapter, error) {
	err := checkFile(fsys, hf.AdapterConfigFile, MaxConfig)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, fmt.Errorf("there is no %s: an adapter is a folder as PEFT saves it", hf.AdapterConfigFile)
	}
	if err != nil {
		return nil, err
	}
	config, err := fs.ReadFile(fsys, hf.AdapterConfigFile)
	if err != nil {
		return nil, err
	}
	settings, err := hf.ParseAdapterConfig(config)
	if err != nil {
		return nil, err
	}
	err = checkFile(fsys, hf.AdapterFile, MaxFile)
	if errors.Is(err, fs.ErrNotExist) {
		if _, old := fs.Stat(fsys, hf.AdapterPickle); old == nil {
			return nil, fmt.Errorf("%s can run code when it is read and is not read; save the adapter as %s",
				hf.AdapterPickle, hf.AdapterFile)
		}
		return nil, fmt.Errorf("there is no %s", hf.AdapterFile)
	}
	if err != nil {
		return nil, err
	}
	set, err := safetensors.OpenFile(filepath.Join(dir, hf.AdapterFile))
	if err != nil {
		return nil, err
	}
	defer set.Close()
	return newReader(settings, set, base).read(d)
}

// read reads the adapter. Its file is mapped: where somebody else cuts it short meanwhile, reading it would end the
// process.
func (r *reader) read(d models.Device) (a *Adapter, err error) {
	defer debug.SetPanicOnFault(debug.SetPanicOnFault(true))
	defer func() {
		switch p := recover().(type) {
		case nil:
		case interface { // a fault of the memory
			runtime.Error
			Addr() uintptr
		}:
			a, err = nil, fmt.Errorf("%s changes while it is read: %w", hf.AdapterFile, p)
		default:
			panic(p)
		}
	}()
	if a, err = r.adapter(decoder.Matrices(d, r.base.Config)); err != nil {
		return nil, err
	}
	a.Sum = sum(a)
	return a, nil
}

// EstimateBytes returns about what the adapter in dir takes in memory at most, from the header of its file. Where gate
// and up are one tensor in the checkpoint and two products, the first matrix of an adapter is there twice.
func EstimateBytes(dir string) (int64, error) {
	err := checkFile(os.DirFS(dir), hf.AdapterFile, MaxFile)
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrAdapter, dir, err)
	}
	set, err := safetensors.OpenFile(filepath.Join(dir, hf.AdapterFile))
	if err != nil {
		return 0, fmt.Errorf("%w: %s: %w", ErrAdapter, dir, err)
	}
	defer set.Close()
	var total int64
	for _, name := range set.Names() {
		t, err := set.Tensor(name)
		if err != nil {
			return 0, err
		}
		if len(t.Shape) != 2 {
			continue // the load says why it is none
		}
		rank, columns := t.Shape[0], t.Shape[1]
		if strings.HasSuffix(name, suffixB) {
			rank, columns = columns, rank
		}
		size := int64(4)
		if t.DType == tensors.BF16 {
			size = 2
		}
		bytes := size*roundUp(rank, paddedRank)*roundUp(columns, paddedColumns) + perTensor
		if strings.Contains(name, "gate_up") && strings.HasSuffix(name, suffixA) {
			bytes *= 2
		}
		total += bytes
	}
	return total, nil
}

func roundUp(n, to int64) int64 { return (n + to - 1) / to * to }

// perTensor bounds what a tensor takes in memory beside its numbers. Backends pad ranks and columns to multiples of
// paddedRank and paddedColumns.
const (
	perTensor                 = 256
	paddedRank, paddedColumns = 4, 32
)

// checkFile refuses what is not a file of at most some bytes: reading a pipe would wait for its writer.
func checkFile(fsys fs.FS, name string, most int64) error {
	st, err := fs.Stat(fsys, name)
	switch {
	case err != nil:
		return err
	case !st.Mode().IsRegular():
		return fmt.Errorf("%s is not a file", name)
	case st.Size() > most:
		return fmt.Errorf("%s has %d bytes, at most %d are read", name, st.Size(), most)
	}
	return nil
}

// reader reads one adapter.
type reader struct {
	settings hf.AdapterConfig
	set      *tensors.Set
	base     *hf.Checkpoint
	used     map[string]bool // tensors
	modules  map[string]bool // their last names
	// names leads from the modules of the model, as the builders name them, to those of the file.
	names map[string]string
}

func newReader(settings hf.AdapterConfig, set *tensors.Set, base *hf.Checkpoint) *reader {
	r := &reader{settings: settings, set: set, base: base, used: map[string]bool{}, modules: map[string]bool{},
		names: map[string]string{}}
	for _, name := range set.Names() {
		if own, ok := strings.CutPrefix(name, prefix); ok {
			own = strings.TrimSuffix(strings.TrimSuffix(own, suffixA), suffixB)
			r.names[r.canonical(own)] = own
		}
	}
	return r
}

// canonical returns the name that the builders know for a module of the file. transformers calls every head lm_head by
// now, whatever it is called in checkpoints.
func (r *reader) canonical(module string) string {
	if module == "lm_head" {
		return r.base.Config.Tensors.Head
	}
	return r.base.Config.Renamed(module)
}

func (r *reader) adapter(matrices []decoder.Matrix) (*Adapter, error) {
	a := &Adapter{Matrices: make([]Matrix, len(matrices))}
	for i, m := range matrices {
		var err error
		if a.Matrices[i], err = r.matrix(m); err != nil {
			return nil, err
		}
		a.Rank = max(a.Rank, a.Matrices[i].Rank)
		a.Bytes += int64(len(a.Matrices[i].A) + len(a.Matrices[i].B))
	}
	for _, name := range r.set.Names() {
		if r.used[name] {
			continue
		}
		if err := r.baseCopy(name); err != nil {
			return nil, err
		}
	}
	if len(r.used) == 0 {
		return nil, fmt.Errorf("%s holds no low-rank matrices", hf.AdapterFile)
	}
	for m := range r.modules {
		a.Modules = append(a.Modules, m)
	}
	slices.Sort(a.Modules)
	return a, nil
}

// matrix reads the two tensors of one matrix, if the file has them.
func (r *reader) matrix(m decoder.Matrix) (Matrix, error) {
	out := Matrix{Matrix: m}
	module, ok := r.names[m.Module]
	if !ok {
		return out, nil
	}
	nameA, nameB := prefix+module+suffixA, prefix+module+suffixB
	if !r.set.Has(nameA) && !r.set.Has(nameB) {
		return out, nil
	}
	if !r.settings.Selects(module) {
		return out, fmt.Errorf("%s: tensor %q: %s does not select %s, which the file has nevertheless", hf.AdapterFile, nameA,
			hf.AdapterConfigFile, module)
	}
	rank, scale := r.settings.Of(module)
	a, err := r.tensor(nameA, rank, m.In)
	if err != nil {
		return out, err
	}
	b, err := r.tensor(nameB, m.ModuleRows(), rank)
	if err != nil {
		return out, err
	}
	out.Rank, out.Scale = rank, float32(scale)
	out.BFloat16 = a.DType == tensors.BF16 && b.DType == tensors.BF16
	wideA, wideB := make([]float32, a.Len()), make([]float32, b.Len())
	if err := errors.Join(a.Floats(wideA, 0), b.Floats(wideB, 0)); err != nil {
		return out, err
	}
	if out.A, err = out.numbers(nameA, wideA); err != nil {
		return out, err
	}
	if out.B, err = out.numbers(nameB, transposed(wideB, m.ModuleRows(), rank, m.Order())); err != nil {
		return out, err
	}
	r.modules[m.Module[strings.LastIndexByte(m.Module, '.')+1:]] = true
	return out, nil
}

// baseCopy refuses a tensor, unless it is the head of the base model, or its bias: PEFT saves these beside an adapter
// for it.
func (r *reader) baseCopy(name string) error {
	t, err := r.set.Tensor(name)
	if err != nil {
		return err
	}
	module, part, _ := strings.Cut(strings.TrimPrefix(name, prefix), ".base_layer.")
	c := &r.base.Config
	isBias := part == "bias" && c.HeadBias
	if r.canonical(module) != c.Tensors.Head || part != "weight" && !isBias {
		return fmt.Errorf("%s: tensor %q: %s", t.File, name, r.unfit(name))
	}
	head, err := decoder.Head(r.base, isBias)
	if err != nil {
		return err
	}
	same := slices.Equal(t.Shape, head.Shape)
	const chunk = 1 << 16
	a, b := make([]float32, chunk), make([]float32, chunk)
	for at := 0; same && at < t.Len(); at += chunk {
		n := min(chunk, t.Len()-at)
		if err := errors.Join(t.Floats(a[:n], at), head.Floats(b[:n], at)); err != nil {
			return err
		}
		same = slices.Equal(a[:n], b[:n])
	}
	if !same {
		return fmt.Errorf("%s: tensor %q differs from the model's: adapters with a head of their own are not supported",
			t.File, name)
	}
	return nil
}

// unfit says why a tensor of the file is not used.
func (r *reader) unfit(name string) string {
	c := &r.base.Config
	own := c.Renamed(strings.TrimPrefix(name, prefix))
	for _, kind := range []struct {
		is   bool
		text string
	}{
		{c.Vision != nil && strings.HasPrefix(own, hf.VisionPrefix), "adapters of the language model alone are computed, " +
			"not of what reads pictures"},
		{c.Experts.N > 0 && strings.Contains(own, ".experts."), "adapters of experts are not supported"},
		{c.Experts.N > 0 && c.Tensors.Router != "" && strings.Contains(own, "."+c.Tensors.Router+"."),
			"adapters of routers are not supported"},
		{strings.Contains(own, ".lora_embedding_"), "adapters of embeddings are not supported"},
	} {
		if kind.is {
			return kind.text
		}
	}
	return "it is not a low-rank matrix of a linear layer of this model"
}

// tensor returns a tensor of a shape.
func (r *reader) tensor(name string, rows, columns int) (*tensors.Tensor, error) {
	t, err := r.set.Tensor(name)
	if err != nil {
		return nil, err
	}
	r.used[name] = true
	if want := []int64{int64(rows), int64(columns)}; !slices.Equal(t.Shape, want) {
		return nil, fmt.Errorf("%s: tensor %q has shape %v, want %v for this model and the rank in %s", t.File, name,
			t.Shape, want, hf.AdapterConfigFile)
	}
	return t, nil
}

// transposed turns [rows, columns] into [columns, rows], with the rows of the given order alone, if there is one.
func transposed(x []float32, rows, columns int, order []int) []float32 {
	if order == nil {
		order = make([]int, rows)
		for i := range order {
			order[i] = i
		}
	}
	out := make([]float32, len(order)*columns)
	for i, row := range order {
		for j := range columns {
			out[j*len(order)+i] = x[row*columns+j]
		}
	}
	return out
}

// numbers returns floats in the form that BFloat16 says. Those that came from bfloat16 lose nothing.
func (m *Matrix) numbers(name string, x []float32) ([]byte, error) {
	for _, f := range x {
		if math.IsNaN(float64(f)) || math.IsInf(float64(f), 0) {
			return nil, fmt.Errorf("%s: tensor %q holds %g", hf.AdapterFile, name, f)
		}
	}
	if m.BFloat16 {
		return tensors.BF16.AppendFloats(make([]byte, 0, 2*len(x)), x)
	}
	return tensors.F32.AppendFloats(make([]byte, 0, 4*len(x)), x)
}

// sum returns the checksum of an adapter.
func sum(a *Adapter) string {
	h := sha256.New()
	for _, m := range a.Matrices {
		fmt.Fprintln(h, m.Module, m.In, m.Out, m.Rank, m.Scale, m.BFloat16)
		h.Write(m.A)
		h.Write(m.B)
	}
	return hex.EncodeToString(h.Sum(nil))
}
