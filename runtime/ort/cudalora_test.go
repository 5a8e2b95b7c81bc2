package ort

import (
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"unsafe"

	"tgi/conformance/cuda/fake"
	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
)

// adaptedCUDA is tinyCUDA with adapters: three matrices in each layer, of which the first has 128 columns.
func adaptedCUDA() CUDAOptions {
	o := tinyCUDA
	o.Adapters, o.AdapterBytes = 3*o.Layers, 1<<20
	return o
}

// tinyAdapter draws an adapter of some rank for the model of adaptedCUDA, in bfloat16 or in 32 bits.
func tinyAdapter(r *rand.Rand, rank int, narrow bool) []LowRank {
	var list []LowRank
	for range tinyCUDA.Layers {
		for i, out := range []int{128, 64, 64} {
			s := LowRank{In: 128, Out: out, Offset: []int{0, 128, 192}[i], Scale: 0.5, BFloat16: narrow}
			if i != 1 || rank > 4 { // keys are left alone by the small ones
				s.Rank = rank
				s.A, _ = numbers(normal(r, rank*128), narrow)
				s.B, _ = numbers(normal(r, rank*out), narrow)
			}
			list = append(list, s)
		}
	}
	return list
}

// narrow returns numbers of 16 bits, and what they are.
func narrow(r *rand.Rand, n int, kind element) (words []uint16, as []float32) {
	words, as = make([]uint16, n), make([]float32, n)
	for i := range words {
		// With seven bits of mantissa, and few of the exponent, a number is one of both kinds.
		f := math.Float32frombits(math.Float32bits(float32(r.NormFloat64())+4) &^ 0xffff)
		if r.IntN(2) == 0 {
			f = -f
		}
		as[i] = f
		if words[i] = uint16(math.Float32bits(f) >> 16); kind == float16s {
			b := math.Float32bits(f)
			words[i] = uint16(b>>16&0x8000 | (b&0x7fffffff-0x38000000)>>13)
		}
	}
	return words, as
}

// onDevice returns a copy in the fake device's memory.
func onDevice[T any](t *testing.T, data []T) []T {
	mem, err := newDeviceMem(0, len(data)*int(unsafe.Sizeof(data[0])))
	if err != nil {
		t.Fatal(err)
	}
	list := unsafe.Slice((*T)(mem.at), len(data))
	copy(list, data)
	return list
}

// cudaLoRA has the real provider run the operator, whose kernels the fake device computes: rows with several adapters,
// of other ranks and number types, and without one are as defined, and as they are alone. The nodes around it copy.
func cudaLoRA(t *testing.T, d *fake.Device) {
	for _, kind := range []element{bfloat16s, float16s} {
		m := openTinyCUDA(t, adaptedCUDA(), kind)
		g := &graph{}
		g.value(false, "base", kind, "t", 256)
		g.value(false, "x", kind, "t", 128)
		g.value(false, adaptersInput, int64s, "t")
		g.value(false, loraInput, int64s, 1)
		shape := binary.LittleEndian.AppendUint64(binary.LittleEndian.AppendUint64(nil, math.MaxUint64), 256)
		g.constant("wide", int64s, shape, []int{2})
		g.node("", "Reshape", []string{"base", "wide"}, "product", nil)
		g.node("tgi", "LoRA", []string{"product", "x", adaptersInput, loraInput}, "sum", attrs{"first": 3, "count": 3})
		g.node("", "Reshape", []string{"sum", "wide"}, "out", nil)
		g.value(true, "out", kind, "t", 256)
		var n *node
		m.thread.do(func() {
			n = newNode(t, g.write(t), sessionOptions{threads: 1,
				cuda: &cudaOptions{device: 0, stream: m.stream.Pointer()}})
		})
		r := rand.New(rand.NewPCG(5, uint64(kind)))
		sites := [][]LowRank{nil, tinyAdapter(r, 4, true), tinyAdapter(r, 16, false), tinyAdapter(r, 33, true)}
		for i, s := range sites[1:] {
			if id, err := m.AddAdapter(s); err != nil || int(id) != i+1 {
				t.Fatal(id, err)
			}
		}
		run := func(base, x []uint16, which []int) []uint16 {
			t.Helper()
			tokens := int64(len(which))
			data, x2, out := onDevice(t, base), onDevice(t, x), onDevice(t, make([]uint16, len(base)))
			ids := onDevice(t, make([]int64, tokens))
			defer func() { // the fake's memory is the host's
				for _, p := range []unsafe.Pointer{unsafe.Pointer(&data[0]), unsafe.Pointer(&x2[0]),
					unsafe.Pointer(&out[0]), unsafe.Pointer(&ids[0])} {
					(&deviceMem{at: p}).free()
				}
			}()
			for i, w := range which {
				if w > 0 {
					ids[i] = int64(uintptr(m.adapters.of(llm.Adapter(w)).at))
				}
			}
			m.adapters.native().used = 1
			var err error
			m.thread.do(func() {
				err = errors.Join(
					n.bindDevice(false, "base", kind, unsafe.Pointer(&data[0]), tokens, 256),
					n.bindDevice(false, "x", kind, unsafe.Pointer(&x2[0]), tokens, 128),
					n.bindDevice(false, adaptersInput, int64s, unsafe.Pointer(&ids[0]), tokens),
					n.bind(false, loraInput, int64s, m.adapters.address(m.o.Adapters), 1),
					n.bindDevice(true, "out", kind, unsafe.Pointer(&out[0]), tokens, 256), n.run())
			})
			if err != nil {
				t.Fatal(err)
			}
			return slices.Clone(out)
		}
		for _, tokens := range []int{1, 7, 64, 65, loraTokens + 9} {
			base, _ := narrow(r, tokens*256, kind)
			x, wide := narrow(r, tokens*128, kind)
			which := make([]int, tokens)
			for i := range which {
				if which[i] = r.IntN(len(sites)); i > 0 && r.IntN(3) > 0 {
					which[i] = which[i-1]
				}
			}
			before := d.Counters()
			got := run(base, x, which)
			if c, want := d.Counters().Since(before), int64(2*(1+tokens/(loraTokens+1))); c.OwnLaunches != want {
				t.Errorf("%d tokens: %d launches, want %d", tokens, c.OwnLaunches, want)
			}
			for i, w := range which {
				alone := run(base[i*256:][:256], x[i*128:][:128], which[i:i+1])
				if !slices.Equal(alone, got[i*256:][:256]) {
					t.Fatalf("token %d of %d is another one alone", i, tokens)
				}
				if w == 0 {
					if !slices.Equal(alone, base[i*256:][:256]) {
						t.Fatalf("token %d of %d, without an adapter, has changed", i, tokens)
					}
					continue
				}
				for _, s := range sites[w][3:] {
					for o, v := range s.Add(wide[i*128:][:128]) {
						at := i*256 + s.Offset + o
						is, want := wideOf(got[at], kind), wideOf(base[at], kind)+v
						if math.Abs(float64(is-want)) > math.Abs(float64(want))/256+1e-6 {
							t.Fatalf("token %d of %d, column %d: %g, want %g", i, tokens, s.Offset+o, is, want)
						}
					}
				}
				if i > 40 && tokens > 100 { // each alone would take long
					break
				}
			}
		}
		m.thread.do(n.bound.close) // before the model's thread ends
		n.bound = nil
		m.thread.do(n.session.close)
	}
}

// wideOf is a normal number of 16 bits.
func wideOf(w uint16, kind element) float32 {
	if kind == bfloat16s {
		return math.Float32frombits(uint32(w) << 16)
	}
	b := uint32(w&0x8000)<<16 | (uint32(w&0x7fff)<<13 + 0x38000000)
	if w&0x7c00 == 0 {
		return 0 // nearly
	}
	return math.Float32frombits(b)
}

// adaptedStep is decodeStep with an adapter for each row.
func adaptedStep(past int, adapters ...llm.Adapter) *llm.Step {
	s := decodeStep(tinyCUDA, len(adapters), past)
	s.Adapters = adapters
	return s
}

// cudaAdapters: steps without adapters launch none of their kernels, those with them two for each node, as graphs too,
// which are recorded for both; copies, waits and allocations stay as they are.
func cudaAdapters(t *testing.T, d *fake.Device) {
	begin := d.Counters()
	o := adaptedCUDA()
	o.Graphs = []int{1, 4}
	m := openTinyCUDA(t, o, bfloat16s)
	if got := d.Counters().Since(begin).Modules; got != 4 {
		t.Errorf("%d modules", got)
	}
	r := rand.New(rand.NewPCG(7, 8))
	for i := range 2 {
		if id, err := m.AddAdapter(tinyAdapter(r, 8, i == 0)); err != nil || int(id) != i+1 {
			t.Fatal(id, err)
		}
	}
	prompts := cudaStep()
	prompts.Adapters = []llm.Adapter{0, 2}
	for _, c := range []struct {
		name     string
		step     *llm.Step
		launches int64
		replay   bool
	}{
		{"plain graph", adaptedStep(10, 0, 0, 0), 0, true},
		{"graph", adaptedStep(10, 1, 0, 2), 0, true},
		{"graph of another length", adaptedStep(700, 2), 0, true},
		{"prompts", prompts, int64(2 * o.Layers), false},
		{"plain prompts", cudaStep(), 0, false},
		{"more rows than any graph", adaptedStep(10, 1, 1, 1, 1, 1), int64(2 * o.Layers), false},
	} {
		for run := range 3 {
			before := d.Counters()
			if _, err := m.Forward(c.step); err != nil {
				t.Fatal(c.name, err)
			}
			got := d.Counters().Since(before)
			if run > 0 && (got.OwnLaunches != c.launches || got.CopiesIn != 1 || got.CopiesOut != 1 || got.Waits != 1 ||
				got.Allocations != 0 || (got.GraphLaunches == 1) != c.replay || c.replay && got.Launches != 0) {
				t.Errorf("%s, run %d: %+v", c.name, run, got)
			}
			if run == 0 && c.replay && slices.Max(c.step.Adapters) > 0 &&
				(got.OwnLaunches == 0 || got.OwnLaunches%int64(2*o.Layers) != 0) {
				t.Errorf("%s is recorded: %+v", c.name, got)
			}
		}
	}
	if n := m.Counts(); n.Graphs != 3 || n.Replays != 6 {
		t.Errorf("%+v", n)
	}
	// What tokens name is where their adapters are.
	l := sizesOf(adaptedStep(10, 1, 1, 1, 1, 1), extras{adapters: true}).layout()
	ids := array[int64](m.step.in.host.at, l.parts[partAdapters])
	if ids[4] != int64(uintptr(m.adapters.of(1).at)) {
		t.Errorf("token 4 names %#x", ids[4])
	}
	nodes, err := m.Nodes()
	lora := 0
	for _, n := range nodes {
		if n.Operator == "LoRA" {
			lora++
		}
		if n.Provider != "CUDAExecutionProvider" || strings.HasPrefix(n.Operator, "Memcpy") {
			t.Errorf("%+v", n)
		}
	}
	if lora != o.Layers || err != nil {
		t.Errorf("%d nodes add adapters: %v", lora, err)
	}
}

// cudaAdaptersComeAndGo: adapters are loaded and freed beside steps; one that a step uses is freed behind it, and all
// their memory comes back.
func cudaAdaptersComeAndGo(t *testing.T, d *fake.Device) {
	begin := d.Counters()
	o := adaptedCUDA()
	o.Graphs = []int{1, 4}
	m := openTinyCUDA(t, o, bfloat16s)
	r := rand.New(rand.NewPCG(9, 10))
	kept, err := m.AddAdapter(tinyAdapter(r, 8, true))
	if err != nil {
		t.Fatal(err)
	}
	if _, err := m.Forward(adaptedStep(3, kept)); err != nil {
		t.Fatal(err)
	}
	sites := tinyAdapter(r, 16, false)
	before := d.Counters()
	id, err := m.AddAdapter(sites)
	if got := d.Counters().Since(before); err != nil || got.LiveBytes != m.AdapterBytes(sites) || got.Streams != 0 {
		t.Errorf("an adapter of %d bytes: %v, %+v", m.AdapterBytes(sites), err, got)
	}
	if err := m.Compute(adaptedStep(3, kept, id)); err != nil {
		t.Fatal(err)
	}
	m.RemoveAdapter(id)
	if got := d.Counters().Since(before); got.LiveBytes < m.AdapterBytes(sites) {
		t.Error("an adapter is freed below a step")
	}
	_, err = m.Forward(adaptedStep(3, id))
	if !errors.Is(err, llm.ErrBackend) || !strings.Contains(err.Error(), "not loaded") {
		t.Errorf("a step with a removed adapter: %v", err)
	}
	if err := m.Compute(adaptedStep(3, kept)); err != nil {
		t.Fatal(err)
	}
	if _, _, err := m.Fetch([]int{0}, nil); err != nil {
		t.Fatal(err)
	}
	if got := &m.adapters; len(got.gone) != 0 || got.loaded[id-1] != nil {
		t.Errorf("%d adapters wait to be freed", len(got.gone))
	}
	again, err := m.AddAdapter(sites)
	if err != nil {
		t.Fatal(err)
	}
	if err := m.Compute(adaptedStep(3, kept, again)); err != nil {
		t.Fatal(err)
	}
	m.RemoveAdapter(again)
	if _, _, err := m.Fetch([]int{99}, nil); err == nil { // which ends the step, too
		t.Error("a row that no step has was fetched")
	}
	if got := &m.adapters; len(got.gone) != 0 || got.under {
		t.Errorf("%d adapters wait after a fetch that failed", len(got.gone))
	}
	var wait sync.WaitGroup
	for g := range 2 {
		wait.Go(func() {
			r := rand.New(rand.NewPCG(11, uint64(g)))
			for range 50 {
				id, err := m.AddAdapter(tinyAdapter(r, 1+r.IntN(20), r.IntN(2) == 0))
				if err != nil || id == kept {
					t.Errorf("adapter %d: %v", id, err)
					return
				}
				m.RemoveAdapter(id)
			}
		})
	}
	for i := range 200 {
		if _, err := m.Forward(adaptedStep(3+i, kept, 0)); err != nil {
			t.Fatal(err)
		}
	}
	wait.Wait()
	if got := len(m.adapters.loaded); got > 3 {
		t.Errorf("there are %d places for three adapters", got)
	}
	m.RemoveAdapter(kept)
	m.RemoveAdapter(kept) // nothing
	m.Close()
	if got := d.Counters().Since(begin); got.Live != 0 || got.LiveBytes != 0 || got.Streams != 0 || got.Modules != 0 {
		t.Errorf("left: %+v", got)
	}
}

// cudaAdaptersFail: what does not fit the model is refused before it is on the device; a full device says so, and the
// model goes on; a device that does not take the kernels has no model with adapters; the cache leaves their memory.
func cudaAdaptersFail(t *testing.T, d *fake.Device) {
	m := openTinyCUDA(t, adaptedCUDA(), bfloat16s)
	r := rand.New(rand.NewPCG(12, 13))
	for want, spoil := range map[string]func(list []LowRank) []LowRank{
		"an adapter for 5 matrices": func(l []LowRank) []LowRank { return l[:5] },
		"matrix 2 of the adapter: rank 5000": func(l []LowRank) []LowRank {
			l[2].Rank = 5000
			return l
		},
		"matrix 3 of the adapter: 128 by 64 at column 0, the product is 256 by 128": func(l []LowRank) []LowRank {
			l[3].In, l[3].A = 64, l[3].A[:len(l[3].A)/2]
			return l
		},
		"at column 224": func(l []LowRank) []LowRank {
			l[2].Offset = 224
			return l
		},
	} {
		before := d.Counters()
		if _, err := m.AddAdapter(spoil(tinyAdapter(r, 8, true))); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("want %s, got %v", want, err)
		}
		if got := d.Counters().Since(before); got.Allocations != 0 {
			t.Errorf("%s: %+v", want, got)
		}
	}
	before := d.Counters()
	for kind, calls := range map[fake.Fault]int{fake.Allocation: 2, fake.Copy: 1, fake.Wait: 1} {
		for n := range calls {
			d.FailAt(kind, n+1, 2, false)
			if _, err := m.AddAdapter(tinyAdapter(r, 8, true)); !errors.Is(err, llm.ErrBackend) {
				t.Errorf("call %d of kind %d fails: %v", n, kind, err)
			}
			d.FailAt(0, 0, 0, false)
		}
	}
	if got := d.Counters().Since(before); got.Live != 0 || got.Streams != 0 {
		t.Errorf("left: %+v", got)
	}
	id, err := m.AddAdapter(tinyAdapter(r, 8, true))
	if err != nil {
		t.Fatal(err)
	}
	d.FailAt(fake.Launch, 1, 1, false)
	if _, err := m.Forward(adaptedStep(3, id)); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("a launch fails: %v", err)
	}
	d.FailAt(0, 0, 0, false)
	if _, err := m.Forward(adaptedStep(3, id)); err != nil {
		t.Error(err)
	}
	plain := openTinyCUDA(t, tinyCUDA, bfloat16s)
	if _, err := plain.AddAdapter(tinyAdapter(r, 8, true)); !errors.Is(err, errNoAdapters) {
		t.Error(err)
	}
	if _, err := plain.Forward(adaptedStep(3, 1)); !errors.Is(err, llm.ErrBackend) {
		t.Errorf("an adapter on a model without: %v", err)
	}
	o := adaptedCUDA()
	o.ModelPath = tinyCUDAModel(t, o, bfloat16s)
	d.NoKernels(true)
	_, err = OpenCUDA(o)
	d.NoKernels(false)
	if !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "adapters: loading the kernel "+lowrank.Shrink) {
		t.Errorf("a driver that refuses the kernels: %v", err)
	}
	o.AdapterBytes, o.MaxBlocks = 1<<37, 1<<20
	if _, err := OpenCUDA(o); !errors.Is(err, ErrModel) || !strings.Contains(err.Error(), "for the cache") {
		t.Errorf("adapters of all the memory: %v", err)
	}
	if text := fmt.Sprint(m.Reduces()); text != "<nil>" {
		t.Error(text)
	}
}
