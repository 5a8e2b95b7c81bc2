package decoder

import (
	"math"
	"slices"
	"strings"
)

// more computes nodes that few graphs have, of floats whose last dimension is width.
func (m *interpreter) more(n readNode, in []array, out *array) bool {
	pair := func(f func(a, b float32) float32) {
		for i, x := range in[0].floats {
			at := i % len(in[1].floats)
			if in[1].width == 1 && in[1].rows() == in[0].rows() {
				at = i / in[0].width
			}
			out.floats = append(out.floats, f(x, in[1].floats[at]))
		}
	}
	switch n.domain + ":" + n.op {
	case "com.microsoft:MoE":
		out.floats = m.experts(n, in)
	case "com.microsoft:QMoE": // a matrix and its scales, where MoE has a matrix
		if n.ints["weights_prepacked"] != 0 || len(in) != 8 {
			m.t.Fatalf("node %s: attributes %v, inputs %q", n.name, n.ints, n.in)
		}
		n.ints["bits"] = n.ints["expert_weight_bits"]
		plain := append(slices.Clone(in[:2]), array{}, in[4], array{}, in[7])
		names := append(slices.Clone(n.in[:2]), n.in[2], n.in[4], n.in[5], n.in[7])
		inner := in[3].rows() / in[1].width / 2
		for i, k := range map[int]int{2: in[0].width, 4: inner} { // and where it is in
			from := i + i/4
			plain[i] = m.dequantised(n, in[from], in[from+1], k, 1<<(n.ints["bits"]-1))
		}
		n.in = names
		out.floats = m.experts(n, plain)
	case "com.microsoft:RotaryEmbedding":
		dim := in[0].width / n.ints["num_heads"]
		for i, position := range in[1].ints {
			for head := range slices.Chunk(in[0].row(i), dim) {
				if n.ints["rotary_embedding_dim"] != 2*in[2].width {
					m.t.Fatalf("node %s: attributes %v", n.name, n.ints)
				}
				out.floats = append(out.floats,
					rotatedBy(head, in[2].row(position), in[3].row(position), n.ints["interleaved"] == 1)...)
			}
		}
	case ":Max":
		pair(func(a, b float32) float32 { return max(a, b) })
	case ":Div":
		pair(func(a, b float32) float32 { return a / b })
	case ":Log":
		for _, x := range in[0].floats {
			out.floats = append(out.floats, float32(math.Log(float64(x))))
		}
	case ":Softmax":
		for i := range in[0].rows() {
			sum, most := 0.0, float64(slices.Max(in[0].row(i)))
			for _, x := range in[0].row(i) {
				sum += math.Exp(float64(x) - most)
			}
			for _, x := range in[0].row(i) {
				out.floats = append(out.floats, float32(math.Exp(float64(x)-most)/sum))
			}
		}
	case ":ReduceSum": // over the last dimension, which stays
		out.width = 1
		for i := range in[0].rows() {
			sum := 0.0
			for _, x := range in[0].row(i) {
				sum += float64(x)
			}
			out.floats = append(out.floats, float32(sum))
		}
	case ":TopK":
		k := in[1].ints[0]
		columns := array{width: k, mid: in[0].mid}
		out.width = k
		for i := range in[0].rows() {
			row := in[0].row(i)
			for _, j := range m.choose(n, i, row, k) {
				columns.ints, out.floats = append(columns.ints, j), append(out.floats, row[j])
			}
		}
		m.set(n.out[1], columns)
	case ":GatherElements":
		out.width = in[1].width
		for i, column := range in[1].ints {
			out.floats = append(out.floats, in[0].row(i / in[1].width)[column])
		}
	case ":ScatterElements":
		out.floats = slices.Clone(in[0].floats)
		for i, column := range in[1].ints {
			out.row(i / in[1].width)[column] = in[2].floats[i]
		}
	case ":Concat": // of rows
		out.width = 0
		for _, a := range in {
			out.width += a.width
		}
		for i := range in[0].rows() {
			for _, a := range in {
				out.floats = append(out.floats, a.row(i)...)
			}
		}
	case ":Transpose": // of the first two of three dimensions
		out.mid = in[0].rows() / in[0].mid
		for j := range in[0].mid {
			for i := range out.mid {
				out.floats = append(out.floats, in[0].row(i*in[0].mid+j)...)
			}
		}
	case ":MatMul": // of stacks of matrices
		k, width := in[0].width, in[1].width
		out.width = width
		if strings.Contains(n.name, "q_latent") {
			in[0] = m.asCodes(in[0], m.tail)
		} else {
			in[0] = m.asCodes(in[0], 0)
		}
		for i := range in[0].rows() {
			w := in[1].floats[i/in[0].mid*k*width:]
			for j := range width {
				sum := 0.0
				for l, x := range in[0].row(i) {
					sum += float64(x) * float64(w[l*width+j])
				}
				out.floats = append(out.floats, float32(sum))
			}
		}
	default:
		return false
	}
	return true
}

// experts is MoE with gates and ups in turns, or in two halves of the first matrices. By ONNX Runtime's description of
// the operator.
func (m *interpreter) experts(n readNode, in []array) (out []float32) {
	fusion := n.ints["swiglu_fusion"]
	if fusion != 1 && fusion != 2 || len(in) < 6 {
		m.t.Fatalf("node %s: attributes %v", n.name, n.ints)
	}
	count, hidden, inner := in[1].width, in[0].width, in[4].width
	matrix := func(a array, e, rows, k int) array {
		return array{width: k, floats: a.floats[e*rows*k : (e+1)*rows*k]}
	}
	bias := func(i, e, row, rows int) float64 {
		if n.in[i] == "" {
			return 0
		}
		return float64(in[i].floats[e*rows+row])
	}
	alpha, beta := float64(n.floats["activation_alpha"]), float64(n.floats["activation_beta"])
	limit, limited := n.floats["swiglu_limit"]
	for t := range in[0].rows() {
		shares, sum := make([]float64, count), 0.0
		for e, score := range in[1].row(t) {
			shares[e] = math.Exp(float64(score - slices.Max(in[1].row(t))))
			sum += shares[e]
		}
		x := m.asCodes(array{width: hidden, floats: in[0].row(t)}, 0).floats
		order := m.choose(n, t, in[1].row(t), n.ints["k"])
		if n.ints["normalize_routing_weights"] == 1 {
			sum = 0
			for _, e := range order {
				sum += shares[e]
			}
		}
		y := make([]float64, hidden)
		for _, e := range order {
			up, down := matrix(in[2], e, 2*inner, hidden), matrix(in[4], e, hidden, inner)
			z := make([]float32, inner)
			for j := range z {
				at, other := j, inner+j
				if fusion == 1 {
					at, other = 2*j, 2*j+1
				}
				gate := dot(x, up.row(at)) + bias(3, e, at, 2*inner)
				linear := dot(x, up.row(other)) + bias(3, e, other, 2*inner)
				if limited {
					gate, linear = min(gate, float64(limit)), min(max(linear, -float64(limit)), float64(limit))
				}
				z[j] = float32(gate / (1 + math.Exp(-alpha*gate)) * (linear + beta))
			}
			z = m.asCodes(array{width: inner, floats: z}, 0).floats
			for j := range y {
				y[j] += shares[e] / sum * (dot(z, down.row(j)) + bias(5, e, j, hidden))
			}
		}
		for _, v := range y {
			out = append(out, float32(v))
		}
	}
	return out
}
