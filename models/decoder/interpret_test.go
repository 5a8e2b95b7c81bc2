package decoder

import (
	"cmp"
	"encoding/binary"
	"math"
	"slices"
	"strings"
	"testing"

	"tgi/models/onnx"
	"tgi/models/tensors"
	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
)

// interpreter computes a graph for CUDA as the operators are described, node by node and one number at a time. It
// stands in for a GPU where there is none: it shows that the graph says the right thing, not that the device does it.
type interpreter struct {
	t      testing.TB
	f      *file
	values map[string]array
	// round is applied to every result that has 16 bits on the device; nil computes in 32 bits.
	round func(float32) float32
	// coded says that what meets a quantised matrix is rounded to 8 bits first, as on the CPU; of heads all but the
	// last tail numbers.
	coded bool
	tail  int
	// wide are the values that have 32 bits.
	wide map[string]bool
	// picked are the columns that nodes chose in rows; with pinned they take those of another computation.
	picked, pinned map[pick][]int
	// adapters are those that the numbers of tokens stand for.
	adapters [][]lowrank.Matrix
}

// asCodes returns rows whose blocks of 32 numbers, but for the last tail, are codes of 8 bits times a scale, if coded.
func (m *interpreter) asCodes(a array, tail int) array {
	if !m.coded {
		return a
	}
	a.floats = slices.Clone(a.floats)
	for i := range a.rows() {
		for block := range slices.Chunk(a.row(i)[:a.width-tail], 32) {
			most := float32(0)
			for _, x := range block {
				most = max(most, x, -x)
			}
			for j, x := range block {
				if most > 0 {
					block[j] = float32(math.RoundToEven(float64(x*(127/most)))) * (most / 127)
				}
			}
		}
	}
	return a
}

// pick is what a node chooses in a row.
type pick struct {
	node string
	row  int
}

// choose returns the columns of the k largest numbers of a row, or those of the computation that is followed.
func (m *interpreter) choose(n readNode, row int, x []float32, k int) []int {
	at, order := pick{n.name, row}, make([]int, len(x))
	if m.pinned != nil {
		return m.pinned[at]
	}
	for i := range order {
		order[i] = i
	}
	slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(x[b], x[a]) })
	m.picked[at] = order[:k]
	return order[:k]
}

// array is a tensor, of floats or of integers. Dimensions but the last are one, except where mid is the second of
// three.
type array struct {
	width, mid int
	floats     []float32
	ints       []int
}

// row returns row i.
func (a array) row(i int) []float32 { return a.floats[i*a.width : (i+1)*a.width] }

func (a array) rows() int { return len(a.floats) / a.width }

// interpret returns the interpreter of f with its weights. tables, if set, holds rotary tables to take instead.
func interpret(t testing.TB, f *file, tables *file) *interpreter {
	m := &interpreter{t: t, f: f, values: map[string]array{}, wide: map[string]bool{},
		picked: map[pick][]int{}}
	for name, tensor := range f.inits {
		m.wide[name] = tensor.typ == onnx.Float
		if tables != nil && (strings.HasPrefix(name, "cos_cache") || strings.HasPrefix(name, "sin_cache")) {
			tensor = tables.inits[name]
		}
		m.values[name] = decoded(tensor)
	}
	return m
}

func decoded(tensor readTensor) array {
	a := array{width: 1}
	if n := len(tensor.dims); n > 0 {
		a.width = tensor.dims[n-1]
		if n == 3 {
			a.mid = tensor.dims[1]
		}
	}
	for i := range tensor.len() {
		switch tensor.typ {
		case onnx.Float:
			a.floats = append(a.floats, math.Float32frombits(binary.LittleEndian.Uint32(tensor.data[4*i:])))
		case onnx.BFloat16:
			a.floats = append(a.floats, value(tensors.BF16, binary.LittleEndian.Uint16(tensor.data[2*i:])))
		case onnx.Float16:
			a.floats = append(a.floats, value(tensors.F16, binary.LittleEndian.Uint16(tensor.data[2*i:])))
		case onnx.Uint8:
			a.ints = append(a.ints, int(tensor.data[i]))
		case onnx.Int64:
			a.ints = append(a.ints, int(binary.LittleEndian.Uint64(tensor.data[8*i:])))
		}
	}
	return a
}

// logits computes a step of whole prompts and returns the logits of all their tokens.
func (m *interpreter) logits(prompts ...[]llm.Token) [][]float32 {
	var ids, rows array
	starts, places := array{ints: []int{0}}, array{width: placesPerToken}
	for _, p := range prompts {
		for at, token := range p {
			places.ints = append(places.ints, at, at, at)
			rows.ints = append(rows.ints, len(ids.ints))
			ids.ints = append(ids.ints, int(token))
		}
		starts.ints = append(starts.ints, len(ids.ints))
	}
	m.values["input_ids"], m.values["logit_rows"], m.values["cu_seqlens"] = ids, rows, starts
	m.values[placesInput] = places
	for _, n := range m.f.nodes {
		m.node(n)
	}
	out := m.values["logits"]
	return slices.Collect(slices.Chunk(out.floats, out.width))
}

// node computes one node.
func (m *interpreter) node(n readNode) {
	in := make([]array, len(n.in))
	for i, name := range n.in {
		in[i] = m.values[name]
	}
	for _, name := range n.out {
		m.wide[name] = m.wide[n.in[0]]
	}
	out := array{width: in[0].width, mid: in[0].mid}
	pair := func(f func(a, b float32) float32) {
		for i, x := range in[0].floats {
			at := i % len(in[1].floats)
			if in[1].width == 1 && in[1].rows() == in[0].rows() { // a number for each row
				at = i / in[0].width
			}
			out.floats = append(out.floats, f(x, in[1].floats[at]))
		}
	}
	each := func(f func(x float64) float64) {
		for _, x := range in[0].floats {
			out.floats = append(out.floats, float32(f(float64(x))))
		}
	}
	switch n.domain + ":" + n.op {
	case ":Gather":
		if n.ints["axis"] == 1 { // of places
			for i := in[1].ints[0]; i < len(in[0].ints); i += in[0].width {
				out.ints = append(out.ints, in[0].ints[i])
			}
			break
		}
		for _, i := range in[1].ints {
			if in[0].ints != nil {
				out.ints = append(out.ints, in[0].ints[i])
			} else {
				out.floats = append(out.floats, in[0].row(i)...)
			}
		}
	case "tgi:LoRA":
		out.floats = m.lora(n, in)
	case ":Slice":
		from, to := in[1].ints[0], in[2].ints[0]
		out.width = to - from
		for i := range in[0].rows() {
			out.floats = append(out.floats, in[0].row(i)[from:to]...)
		}
	case ":Reshape":
		dims := in[1].ints
		out.width, out.mid, out.floats = dims[len(dims)-1], 0, in[0].floats
		if len(dims) == 3 {
			out.mid = dims[1]
		}
	case ":Split":
		from := 0
		for i, width := range in[1].ints {
			part := array{width: width, mid: in[0].mid}
			for r := range in[0].rows() {
				part.floats = append(part.floats, in[0].row(r)[from:from+width]...)
			}
			from += width
			m.set(n.out[i], part)
		}
		return
	case ":SimplifiedLayerNormalization":
		out.floats = normalised(in[0], in[1].floats, n.floats["epsilon"])
	case ":LayerNormalization":
		out.floats = layerNormalised(in[0], in[1:], n.floats["epsilon"])
	case "com.microsoft:SkipSimplifiedLayerNormalization", "com.microsoft:SkipLayerNormalization":
		pair(func(a, b float32) float32 { return a + b })
		m.set(n.out[3], out)
		if out = m.values[n.out[3]]; n.op == "SkipLayerNormalization" {
			out.floats = layerNormalised(out, in[2:], n.floats["epsilon"])
		} else {
			out.floats = normalised(out, in[2].floats, n.floats["epsilon"])
		}
	case ":Gemm":
		w := in[1]
		if n.ints["transB"] == 0 {
			w = array{width: w.rows(), floats: transpose(w.floats, w.rows(), w.width)}
		}
		out = product(in[0], w)
		if len(in) > 2 { // one row, or as many
			for i := range out.floats {
				out.floats[i] += in[2].floats[i%len(in[2].floats)]
			}
		}
	case "com.microsoft:MatMulNBits":
		zero := 1 << (n.ints["bits"] - 1)
		if fused := n.ints["K"]%64 == 0; fused != (len(in) == 3) {
			m.t.Fatalf("node %s has %d inputs: fused kernels take rows of multiples of 64 without zero points", n.name,
				len(in))
		} else if !fused {
			zero = m.zero(n, in[3], in[2])
		}
		w := m.dequantised(n, in[1], in[2], n.ints["K"], zero)
		out = product(m.asCodes(in[0], 0), w)
	case "com.microsoft:GatherBlockQuantized":
		zero := 0 // which CUDA takes where no zero points are named
		if len(in) > 3 {
			zero = m.zero(n, in[3], in[2])
		}
		w := m.dequantised(n, in[0], in[2], in[2].width*n.ints["block_size"], zero)
		out.width = w.width
		for _, i := range in[1].ints {
			out.floats = append(out.floats, w.row(i)...)
		}
	case ":Add":
		pair(func(a, b float32) float32 { return a + b })
	case ":Sub":
		pair(func(a, b float32) float32 { return a - b })
	case ":Min":
		pair(func(a, b float32) float32 { return min(a, b) })
	case ":Exp":
		each(math.Exp)
	case ":Mul":
		pair(func(a, b float32) float32 { return a * b })
	case "com.microsoft:Gelu":
		each(func(x float64) float64 { return x / 2 * (1 + math.Erf(x/math.Sqrt2)) })
	case "com.microsoft:FastGelu":
		each(func(x float64) float64 {
			return x / 2 * (1 + math.Tanh(math.Sqrt(2/math.Pi)*(x+0.044715*x*x*x)))
		})
	case ":Clip":
		each(func(x float64) float64 {
			return min(max(x, float64(in[1].floats[0])), float64(in[2].floats[0]))
		})
	case ":Relu":
		each(func(x float64) float64 { return max(x, 0) })
	case ":Sigmoid":
		each(func(x float64) float64 { return 1 / (1 + math.Exp(-x)) })
	case ":Tanh":
		each(math.Tanh)
	case "com.microsoft:QuickGelu":
		alpha := float64(n.floats["alpha"])
		each(func(x float64) float64 { return x / (1 + math.Exp(-alpha*x)) })
	case ":Cast":
		out.floats = in[0].floats
		m.wide[n.out[0]] = n.ints["to"] == int(onnx.Float)
	case "tgi:PagedAttention", "com.microsoft:PagedAttention":
		out = m.attention(n, in)
	default:
		if !m.more(n, in, &out) {
			m.t.Fatalf("node %s is %s of %q", n.name, n.op, n.domain)
		}
	}
	m.set(n.out[0], out)
}

func (m *interpreter) set(name string, a array) {
	if m.round != nil && !m.wide[name] {
		a.floats = slices.Clone(a.floats)
		for i, x := range a.floats {
			a.floats[i] = m.round(x)
		}
	}
	m.values[name] = a
}

func normalised(a array, weight []float32, epsilon float32) (out []float32) {
	for i := range a.rows() {
		sum := 0.0
		for _, x := range a.row(i) {
			sum += float64(x) * float64(x)
		}
		scale := 1 / math.Sqrt(sum/float64(a.width)+float64(epsilon))
		for j, x := range a.row(i) {
			out = append(out, float32(float64(x)*scale*float64(weight[j])))
		}
	}
	return out
}

// layerNormalised also takes the mean away, and adds a bias if there is one behind the weight.
func layerNormalised(a array, weights []array, epsilon float32) (out []float32) {
	for i := range a.rows() {
		mean, square := 0.0, 0.0
		for _, x := range a.row(i) {
			mean += float64(x) / float64(a.width)
		}
		for _, x := range a.row(i) {
			square += (float64(x) - mean) * (float64(x) - mean)
		}
		scale := 1 / math.Sqrt(square/float64(a.width)+float64(epsilon))
		for j, x := range a.row(i) {
			y := (float64(x) - mean) * scale * float64(weights[0].floats[j])
			if len(weights) > 1 {
				y += float64(weights[1].floats[j])
			}
			out = append(out, float32(y))
		}
	}
	return out
}

// product is a * w transposed.
func product(a, w array) array {
	out := array{width: w.rows()}
	for i := range a.rows() {
		for j := range w.rows() {
			out.floats = append(out.floats, float32(dot(a.row(i), w.row(j))))
		}
	}
	return out
}

func dot(a, b []float32) (sum float64) {
	for i, x := range a {
		sum += float64(x) * float64(b[i])
	}
	return sum
}

// zero is the zero point of all blocks, which must be one for each scale.
func (m *interpreter) zero(n readNode, points, scales array) int {
	bits, rows := n.ints["bits"], len(scales.floats)/scales.width
	if points.width != (scales.width*bits+7)/8 || len(points.ints) != rows*points.width {
		m.t.Fatalf("node %s: zero points of width %d, scales of %d", n.name, points.width, scales.width)
	}
	for _, p := range points.ints {
		if p != points.ints[0] || bits == 4 && p>>4 != p&15 {
			m.t.Fatalf("node %s: zero points %#x and %#x", n.name, points.ints[0], p)
		}
	}
	return points.ints[0] & (1<<bits - 1)
}

// dequantised is the matrix, of k columns, that codes and scales stand for.
func (m *interpreter) dequantised(n readNode, codes, scales array, k, zero int) array {
	bits, block, out := n.ints["bits"], n.ints["block_size"], array{width: k}
	perRow := scales.width * block
	for row := range len(scales.floats) / scales.width {
		for col := range k {
			at := row*perRow + col
			code := codes.ints[at*bits/8]
			if bits == 4 {
				code = code >> (4 * (at % 2)) & 15
			}
			scale := scales.floats[row*scales.width+col/block]
			out.floats = append(out.floats, float32(code-zero)*scale)
		}
	}
	return out
}

// attention is PagedAttention of rows that begin with this step. Of the caches and of the tables of blocks only the
// device knows.
func (m *interpreter) attention(n readNode, in []array) array {
	heads, kv := n.ints["num_heads"], n.ints["kv_num_heads"]
	dim := in[0].width / (heads + 2*kv)
	separate, latent := n.in[1] != "", n.ints["v_head_size"] // 0 where values are no parts of keys
	if separate {
		dim = in[0].width / heads
	}
	width := dim // of a value
	if latent > 0 {
		width = latent
	}
	window, limit := n.ints["local_window_size"], float64(n.floats["softcap"])
	out := array{width: heads * width, floats: make([]float32, in[0].rows()*heads*width)}
	if rotary := n.ints["do_rotary"] == 1; rotary != (n.in[8] != "") || rotary != (n.in[9] != "") ||
		n.in[16] != "attention_metadata" ||
		n.in[5] != "cu_seqlens" || n.in[6] != "past_lens" || n.in[7] != "block_table" || n.in[10] != "slot_mapping" {
		m.t.Fatalf("node %s: inputs %q, attributes %v", n.name, n.in, n.ints)
	}
	starts := in[5].ints
	head := func(token, i int) []float32 {
		from := 0 // which input it is in
		if separate && i >= heads {
			from, i = 1+(i-heads)/kv, (i-heads)%kv
		}
		if latent > 0 {
			from = min(from, 1)
		}
		return in[from].row(token)[i*dim : (i+1)*dim]
	}
	for s := range len(starts) - 1 {
		first := starts[s]
		var keys [][][]float32 // [position][kv head]
		for token := first; token < starts[s+1]; token++ {
			position := token - first
			var k [][]float32
			for g := range kv {
				k = append(k, m.turned(n, in, 13, head(token, heads+g), position))
			}
			keys = append(keys, k)
			from := 0
			if window > 0 {
				from = max(0, position+1-window)
			}
			for h := range heads {
				q := m.turned(n, in, 12, head(token, h), position)
				weights, most := make([]float64, position+1), math.Inf(-1)
				if n.in[11] != "" {
					most = float64(in[11].floats[h])
				}
				for p := from; p <= position; p++ {
					weights[p] = dot(q, keys[p][h*kv/heads]) * float64(n.floats["scale"])
					if limit != 0 {
						weights[p] = limit * math.Tanh(weights[p]/limit)
					}
					most = max(most, weights[p])
				}
				sum := 0.0
				if n.in[11] != "" { // a sink takes a share of its own
					sum = math.Exp(float64(in[11].floats[h]) - most)
				}
				for p := from; p <= position; p++ {
					weights[p] = math.Exp(weights[p] - most)
					sum += weights[p]
				}
				for d := range width {
					x := 0.0
					for p := from; p <= position; p++ {
						x += weights[p] / sum * float64(head(first+p, heads+kv+h*kv/heads)[d])
					}
					out.row(token)[h*width+d] = float32(x)
				}
			}
		}
	}
	return out
}

// turned normalises a head, if the node has a weight for that as input norm, and applies the rotary embedding.
func (m *interpreter) turned(n readNode, in []array, norm int, x []float32, position int) []float32 {
	if n.in[norm] != "" {
		x = normalised(array{width: len(x), floats: x}, in[norm].floats, n.floats["qk_norm_epsilon"])
	}
	out := slices.Clone(x) // all of it, or behind what is rotated
	if n.ints["do_rotary"] == 0 {
		return out
	}
	from := n.ints["rotary_offset"]
	copy(out[from:], rotatedBy(x[from:], in[8].row(position), in[9].row(position), n.ints["rotary_interleaved"] == 1))
	return out
}

// rotatedBy applies the rotary embedding to the first numbers of x.
func rotatedBy(x, cos, sin []float32, interleaved bool) []float32 {
	out := slices.Clone(x)
	for i := range cos {
		a, b := i, len(cos)+i
		if interleaved {
			a, b = 2*i, 2*i+1
		}
		out[a], out[b] = x[a]*cos[i]-x[b]*sin[i], x[b]*cos[i]+x[a]*sin[i]
	}
	return out
}
