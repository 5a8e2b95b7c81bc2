package ort

import (
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"testing"
	"unsafe"

	"tgi/conformance/cuda/fake"
)

// attendCase is a node of attention of one head of keys and two of queries, and a step of two rows.
type attendCase struct {
	name        string
	apart       bool // queries, keys and values are tensors of their own
	norms       bool
	sinks       bool
	attributes  attrs
	window      int
	cap         float64
	interleaved bool
}

// cudaAttends has the real provider run the operator. Steps that decode are computed by our kernel, on the fake
// device: they are as defined, with each input and attribute. All others are ONNX Runtime's, which computes nothing
// here.
func cudaAttends(t *testing.T, d *fake.Device) {
	d.Attends(true)
	defer d.Attends(false)
	for _, kind := range []element{bfloat16s, float16s} {
		for _, c := range []attendCase{
			{name: "plain", attributes: attrs{}},
			{name: "apart", apart: true, attributes: attrs{}},
			{name: "interleaved", interleaved: true, attributes: attrs{"rotary_interleaved": 1}},
			{name: "norms and sinks", norms: true, sinks: true, attributes: attrs{"qk_norm_epsilon": float32(0.25)}},
			{name: "window", window: 4, attributes: attrs{"local_window_size": 4}},
			{name: "cap", cap: 2, attributes: attrs{"softcap": float32(2)}},
		} {
			t.Run(fmt.Sprintf("%s %d", c.name, kind), func(t *testing.T) { c.run(t, d, kind) })
		}
	}
}

func (c attendCase) run(t *testing.T, d *fake.Device, kind element) {
	const heads, head, page, rows, blocks, turned = 2, 64, 256, 2, 3, 32
	m := openTinyCUDA(t, tinyCUDA, kind)
	c.attributes["num_heads"], c.attributes["kv_num_heads"], c.attributes["do_rotary"] = heads, 1, 1
	c.attributes["scale"] = float32(0.125)
	g, r := &graph{}, rand.New(rand.NewPCG(3, uint64(kind)))
	widths := []int{(heads + 2) * head}
	inputs := []string{"q", "", "", "keys", "values", "starts", "past", "table", "cos", "sin", "slots", "", "", "", "",
		"", "meta", attendInput}
	if c.apart {
		widths = []int{heads * head, head, head}
		inputs[1], inputs[2] = "k", "v"
	}
	words, wide := map[string][]uint16{}, map[string][]float32{}
	bind := map[string][]int64{}
	tensor := func(name string, dims ...any) {
		n, shape := 1, []int64(nil)
		for _, dim := range dims {
			size, fixed := dim.(int)
			if !fixed {
				size = rows
			}
			n *= size
			shape = append(shape, int64(size))
		}
		g.value(false, name, kind, dims...)
		words[name], wide[name] = narrow(r, n, kind)
		for i := range words[name] { // as numbers near 4 they would all be far apart
			wide[name][i] /= 4
			words[name][i] -= 0x100 * map[element]uint16{bfloat16s: 1, float16s: 8}[kind]
		}
		bind[name] = shape
	}
	for i, width := range widths {
		tensor([]string{"q", "k", "v"}[i], "t", width)
	}
	tensor("keys", blocks, page, 1, head)
	tensor("values", blocks, page, 1, head)
	tensor("cos", 600, turned/2)
	tensor("sin", 600, turned/2)
	if c.norms {
		inputs[12], inputs[13] = "q_norm", "k_norm"
		tensor("q_norm", head)
		tensor("k_norm", head)
	}
	if c.sinks {
		inputs[11] = "sinks"
		tensor("sinks", heads)
	}
	whole := map[string][]int32{"starts": {0, 1, 2}, "past": {5, 300}, "table": {2, 0, 1, 0}, "slots": {2*page + 5, 44}}
	g.value(false, "starts", int32s, "s")
	g.value(false, "past", int32s, "b")
	g.value(false, "table", int32s, "b", 2)
	g.value(false, "slots", int32s, "t")
	g.value(false, "meta", int32s, metadataSize)
	g.value(false, attendInput, int64s, 1)
	g.nodes("tgi", "PagedAttention", inputs, []string{"out", "keys_out", "values_out"}, c.attributes)
	g.value(true, "out", kind, "t", heads*head)
	g.value(true, "keys_out", kind, blocks, page, 1, head)
	g.value(true, "values_out", kind, blocks, page, 1, head)
	var host buffer
	if err := host.reserve(metadataSize * int32s.size()); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(host.free)
	meta := (*[metadataSize]int32)(host.at)
	*meta = [metadataSize]int32{1, 301, 301}
	before := map[string][]float32{"keys": wide["keys"], "values": wide["values"]}
	var n *node
	var out []uint16
	memory := map[string][]uint16{}
	m.thread.do(func() {
		n = newNode(t, g.write(t), sessionOptions{threads: 1,
			cuda: &cudaOptions{device: 0, stream: m.stream.Pointer()}})
		var errs []error
		for name, list := range words {
			memory[name] = onDevice(t, list)
			errs = append(errs, n.bindDevice(false, name, kind, unsafe.Pointer(&memory[name][0]), bind[name]...))
		}
		for name, list := range whole {
			at, shape := onDevice(t, list), []int64{int64(len(list))}
			if name == "table" {
				shape = []int64{rows, 2}
			}
			errs = append(errs, n.bindDevice(false, name, int32s, unsafe.Pointer(&at[0]), shape...))
		}
		out = onDevice(t, make([]uint16, rows*heads*head))
		cache := []int64{blocks, page, 1, head}
		errs = append(errs, n.bind(false, "meta", int32s, host.at, metadataSize),
			n.bind(false, attendInput, int64s, m.attention.address(), 1),
			n.bindDevice(true, "out", kind, unsafe.Pointer(&out[0]), rows, heads*head),
			n.bindDevice(true, "keys_out", kind, unsafe.Pointer(&memory["keys"][0]), cache...),
			n.bindDevice(true, "values_out", kind, unsafe.Pointer(&memory["values"][0]), cache...))
		if err := errors.Join(errs...); err != nil {
			t.Fatal(err)
		}
		for _, decodes := range []bool{false, true} { // a longer row is said to be there first
			meta[0] = int32(2 - flag(decodes))
			count := d.Counters()
			if err := n.run(); err != nil {
				t.Fatal(err)
			}
			got := d.Counters().Since(count)
			if got.Attentions != int64(flag(decodes)) || got.Launches == 0 || decodes && got.Launches != 1 {
				t.Errorf("decodes %v: %+v", decodes, got)
			}
		}
	})
	number := func(w uint16) float64 { return float64(wideOf(w, kind)) }
	for row := range rows {
		at := int(whole["past"][row])
		part := func(name string, i int) []float64 { // head i of the row
			list := wide[name]
			width := len(list) / rows
			return doubles(list[row*width+i*head:][:head])
		}
		var k, v []float64
		if c.apart {
			k, v = part("k", 0), part("v", 0)
		} else {
			k, v = part("q", heads), part("q", heads+1)
		}
		turn := func(x []float64, norm string) []float64 {
			if c.norms {
				sum := 0.0
				for _, v := range x {
					sum += v * v
				}
				for i := range x {
					x[i] *= float64(wide[norm][i]) / math.Sqrt(sum/head+0.25)
				}
			}
			for i := range turned / 2 {
				a, b := i, i+turned/2
				if c.interleaved {
					a, b = 2*i, 2*i+1
				}
				cos, sin := float64(wide["cos"][at*turned/2+i]), float64(wide["sin"][at*turned/2+i])
				x[a], x[b] = x[a]*cos-x[b]*sin, x[b]*cos+x[a]*sin
			}
			return x
		}
		k = turn(k, "k_norm")
		for h := range heads {
			q := turn(part("q", h), "q_norm")
			mix, sum := make([]float64, head), 0.0
			if c.sinks {
				sum = math.Exp(float64(wide["sinks"][h]))
			}
			for p := 0; p <= at; p++ {
				if c.window > 0 && p <= at-c.window {
					continue
				}
				key, value := k, v
				if p < at {
					place := (int(whole["table"][2*row+p/page])*page + p%page) * head
					key, value = doubles(before["keys"][place:][:head]), doubles(before["values"][place:][:head])
				}
				score := 0.0
				for i := range q {
					score += q[i] * key[i]
				}
				score *= 0.125
				if c.cap > 0 {
					score = c.cap * math.Tanh(score/c.cap)
				}
				sum += math.Exp(score)
				for i := range mix {
					mix[i] += math.Exp(score) * value[i]
				}
			}
			wrong, length := 0.0, 0.0
			for i, want := range mix {
				got := number(out[(row*heads+h)*head+i])
				wrong, length = wrong+(got-want/sum)*(got-want/sum), length+want/sum*want/sum
			}
			if err := math.Sqrt(wrong / length); !(err < 0.03) {
				t.Errorf("row %d, head %d: relative error %g", row, h, err)
			}
		}
		if got := memory["values"][int(whole["slots"][row])*head]; number(got) != v[0] {
			t.Errorf("row %d: the cache has value %g, want %g", row, number(got), v[0])
		}
	}
}

// doubles widens numbers.
func doubles(list []float32) []float64 {
	out := make([]float64, len(list))
	for i, v := range list {
		out[i] = float64(v)
	}
	return out
}
