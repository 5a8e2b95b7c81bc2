package ort

import (
	"cmp"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// mixture is a mixture of experts and what its operator computes.
type mixture struct {
	experts, perToken, hidden, inner  int
	form                                   // of gates and ups; bits is 0 for floats
	second                            form // of downs; without bits it is the other one
	normalise                         bool
	alpha, limit                      float32 // of gpt-oss' activation
	sigmoid, corrected                bool
	groups, groupsPerToken, groupBest int // groups is 0 without
	scale                             float32
	correction                        []float32
	biases                            bool
	gateUpBias, downBias              []float32
	gateUp, down                      []*quantised // with bits
	gateUpFloats, downFloats          []float32    // without
}

func (m mixture) String() string {
	return fmt.Sprintf("%d of %d experts, %dx%d, %+v and %+v, normalised %v", m.perToken, m.experts,
		m.hidden, m.inner, m.form, m.ofDown(), m.normalise)
}

// ofDown is the form of the second matrices.
func (m mixture) ofDown() form {
	if m.second.bits == 0 {
		return m.form
	}
	return m.second
}

// attrs are those of the operator.
func (m mixture) attrs() attrs {
	a := attrs{"experts": m.experts, "alpha": m.alpha, "limit": m.limit, "sigmoid": map[bool]int{true: 1}[m.sigmoid],
		"groups": max(m.groups, 1), "groups_per_token": max(m.groupsPerToken, 1), "group_best": max(m.groupBest, 1),
		"scale": m.factor(), "per_token": m.perToken, "hidden": m.hidden, "inner": m.inner,
		"normalise": map[bool]int{true: 1}[m.normalise], "bits": m.bits, "block_size": m.block, "activation": 0,
		"offsets": m.form.kind(), "table": m.table}
	if down := m.ofDown(); down != m.form { // else left out, as converted models have it
		a["down_bits"], a["down_offsets"], a["down_table"] = down.bits, down.kind(), down.table
	}
	return a
}

func (m *mixture) fill(r *rand.Rand) {
	if m.corrected {
		m.correction = normal(r, m.experts)
		for i := range m.correction {
			m.correction[i] /= 4
		}
	}
	if m.biases {
		m.gateUpBias, m.downBias = normal(r, m.experts*2*m.inner), normal(r, m.experts*m.hidden)
	}
	if m.bits == 0 {
		m.gateUpFloats, m.downFloats = normal(r, m.experts*2*m.inner*m.hidden), normal(r, m.experts*m.hidden*m.inner)
		for i := range m.gateUpFloats {
			m.gateUpFloats[i] /= float32(math.Sqrt(float64(m.hidden)))
		}
		return
	}
	for range m.experts {
		m.gateUp = append(m.gateUp, newQuantised(r, 2*m.inner, m.hidden, m.form))
		m.down = append(m.down, newQuantised(r, m.hidden, m.inner, m.ofDown()))
	}
}

func openMixture(t *testing.T, m *mixture, threads int) *node {
	t.Helper()
	start(t)
	g := &graph{}
	g.value(false, "x", float32s, "t", m.hidden)
	g.value(false, "scores", float32s, "t", m.experts)
	if m.bits == 0 {
		g.floats("gate_up", m.gateUpFloats, len(m.gateUpFloats))
		g.floats("down", m.downFloats, len(m.downFloats))
	} else {
		var gateUp, down []byte
		for i := range m.experts {
			gateUp, down = append(gateUp, m.gateUp[i].packed()...), append(down, m.down[i].packed()...)
		}
		g.constant("gate_up", uint8s, gateUp, []int{len(gateUp)})
		g.constant("down", uint8s, down, []int{len(down)})
	}
	in := []string{"x", "scores", "gate_up", "down"}
	if m.biases {
		g.floats("gate_up_bias", m.gateUpBias, len(m.gateUpBias))
		g.floats("down_bias", m.downBias, len(m.downBias))
		in = append(in, "gate_up_bias", "down_bias")
	}
	if m.corrected {
		for len(in) < 6 {
			in = append(in, "")
		}
		g.floats("correction", m.correction, len(m.correction))
		in = append(in, "correction")
	}
	g.node("tgi", "Experts", in, "out", m.attrs())
	g.value(true, "out", float32s, "t", m.hidden)
	return newNode(t, g.write(t), sessionOptions{threads: threads})
}

// run computes rows of x.
func (m *mixture) run(t *testing.T, n *node, x, scores []float32) ([]float32, error) {
	t.Helper()
	tokens := int64(len(x) / m.hidden)
	put(t, n, false, "x", x, tokens, int64(m.hidden))
	put(t, n, false, "scores", scores, tokens, int64(m.experts))
	out := put(t, n, true, "out", make([]float32, len(x)), tokens, int64(m.hidden))
	return out, n.run()
}

// product multiplies a row by matrix i of a list, in float64.
func (m *mixture) product(list []*quantised, floats []float32, i, n, k int, x []float32) []float64 {
	if m.bits > 0 {
		out, _ := list[i].product(x)
		return out
	}
	out := make([]float64, n)
	for r := range out {
		for c := range k {
			out[r] += float64(x[c]) * float64(floats[(i*n+r)*k+c])
		}
	}
	return out
}

// factor is what the weights of experts are multiplied by.
func (m *mixture) factor() float32 {
	if m.scale == 0 {
		return 1
	}
	return m.scale
}

// routed returns a token's experts and the weights of all.
func (m *mixture) routed(scores []float32) (chosen []int, weights []float64) {
	shares, choice, all := make([]float64, m.experts), make([]float64, m.experts), 0.0
	for e, s := range scores {
		shares[e] = math.Exp(float64(s))
		all += shares[e]
	}
	for e, s := range scores {
		if shares[e] /= all; m.sigmoid {
			shares[e] = 1 / (1 + math.Exp(-float64(s)))
		}
		if choice[e] = shares[e]; m.corrected {
			choice[e] += float64(m.correction[e])
		}
	}
	// The first of equal numbers comes first.
	descending := func(of []float64) []int {
		order := make([]int, len(of))
		for i := range order {
			order[i] = i
		}
		slices.SortStableFunc(order, func(a, b int) int { return cmp.Compare(of[b], of[a]) })
		return order
	}
	if m.groups > 0 {
		size := m.experts / m.groups
		sums := make([]float64, m.groups)
		for g := range sums {
			own := choice[g*size:][:size]
			for _, i := range descending(own)[:m.groupBest] {
				sums[g] += own[i]
			}
		}
		for _, g := range descending(sums)[m.groupsPerToken:] {
			for i := range size {
				choice[g*size+i] = math.Inf(-1)
			}
		}
	}
	chosen = descending(choice)[:m.perToken]
	if m.normalise {
		sum := 0.0
		for _, e := range chosen {
			sum += shares[e]
		}
		for e := range shares {
			shares[e] /= sum
		}
	}
	for e := range shares {
		shares[e] *= float64(m.factor())
	}
	return chosen, shares
}

// plain is the definition, in float64 except for what the operator rounds to 32 bits before it is rounded to 8.
func (m *mixture) plain(x, scores []float32) []float64 {
	out := make([]float64, m.hidden)
	order, shares := m.routed(scores)
	for _, e := range order {
		both := m.product(m.gateUp, m.gateUpFloats, e, 2*m.inner, m.hidden, x)
		gated := make([]float32, m.inner)
		for i := range gated {
			gate, up := both[i], both[m.inner+i]
			if m.biases {
				gate += float64(m.gateUpBias[e*2*m.inner+i])
				up += float64(m.gateUpBias[e*2*m.inner+m.inner+i])
			}
			if limit := float64(m.limit); limit > 0 {
				gate, up = min(gate, limit), max(min(up, limit), -limit)
				gated[i] = float32(gate / (1 + math.Exp(-float64(m.alpha)*gate)) * (1 + up))
			} else {
				gated[i] = float32(gate / (1 + math.Exp(-gate)) * up)
			}
		}
		for i, y := range m.product(m.down, m.downFloats, e, m.hidden, m.inner, gated) {
			if m.biases {
				y += float64(m.downBias[e*m.hidden+i])
			}
			out[i] += y * shares[e]
		}
	}
	return out
}

// TestExpertsMatchDefinition compares the operator with its definition, on every kernel that this CPU has, and holds
// that a token gets the same bits whatever tokens are beside it and however many threads there are.
func TestExpertsMatchDefinition(t *testing.T) {
	for i, m := range []mixture{
		{experts: 1, perToken: 1, hidden: 8, inner: 4},
		{experts: 5, perToken: 2, hidden: 33, inner: 17, normalise: true},
		{experts: 8, perToken: 8, hidden: 160, inner: 96},
		{experts: 4, perToken: 2, hidden: 64, inner: 32, form: form{bits: 8, block: 32}, normalise: true},
		{experts: 6, perToken: 3, hidden: 100, inner: 50, form: form{bits: 4, block: 32}},
		{experts: 5, perToken: 2, hidden: 70, inner: 50, form: form{bits: 4, block: 32, offsets: true}},
		{experts: 3, perToken: 1, hidden: 130, inner: 70, form: form{bits: 4, block: 64}, normalise: true},
		{experts: 4, perToken: 2, hidden: 40, inner: 24, biases: true, alpha: 1.702, limit: 1.5, normalise: true},
		{experts: 4, perToken: 2, hidden: 40, inner: 24, form: form{bits: 8, block: 32}, biases: true, alpha: 1.7,
			limit: 7},
		{experts: 5, perToken: 2, hidden: 256, inner: 256, form: form{bits: 6, block: 32}},
		{experts: 5, perToken: 2, hidden: 70, inner: 256, form: form{bits: 4, block: 32, offsets: true},
			second: form{bits: 6, block: 32}},
		{experts: 4, perToken: 2, hidden: 70, inner: 50, form: form{bits: 4, block: 32, table: 2}, normalise: true},
		{experts: 4, perToken: 2, hidden: 256, inner: 256,
			form: form{bits: 4, block: 32, offsets: true, factors: true}},
		{experts: 4, perToken: 2, hidden: 256, inner: 512, form: form{bits: 8, block: 32, offsets: true, factors: true},
			second: form{bits: 4, block: 32, offsets: true}},
		{experts: 5, perToken: 2, hidden: 70, inner: 50, form: form{bits: 4, block: 32, table: 1},
			second: form{bits: 8, block: 32}},
		{experts: 5, perToken: 2, hidden: 70, inner: 50, form: form{bits: 4, block: 32, table: 3},
			second: form{bits: 4, block: 32, table: 2}},
		{experts: 5, perToken: 2, hidden: 70, inner: 256, form: form{bits: 8, block: 32},
			second: form{bits: 4, block: 32, offsets: true, factors: true}},
		{experts: 16, perToken: 4, hidden: 96, inner: 40, form: form{bits: 8, block: 128}},
		{experts: 6, perToken: 3, hidden: 24, inner: 16, sigmoid: true, corrected: true, normalise: true, scale: 2.5},
		{experts: 12, perToken: 4, hidden: 24, inner: 16, sigmoid: true, corrected: true, normalise: true, groups: 4,
			groupsPerToken: 2, groupBest: 2},
		{experts: 12, perToken: 4, hidden: 24, inner: 16, groups: 3, groupsPerToken: 2, groupBest: 1, scale: 3},
		{experts: 5, perToken: 2, hidden: 24, inner: 16, corrected: true, biases: true},
	} {
		r := rand.New(rand.NewPCG(uint64(i), 3))
		m.fill(r)
		const tokens = 70
		x, scores := normal(r, tokens*m.hidden), normal(r, tokens*m.experts)
		scores[0] = scores[m.experts-1] // the first of equal ones is taken
		n, alone := openMixture(t, &m, 2), openMixture(t, &m, 1)
		list, choose := kernels(t), chooseAttention
		if m.bits > 0 {
			list, choose = products(t), chooseProduct
		}
		for _, kernel := range list {
			if err := choose(kernel); err != nil {
				t.Fatal(err)
			}
			out, err := m.run(t, n, x, scores)
			if err != nil {
				t.Fatal(err)
			}
			out = slices.Clone(out)
			for token := range tokens {
				own := out[token*m.hidden:][:m.hidden]
				want := m.plain(x[token*m.hidden:][:m.hidden], scores[token*m.experts:][:m.experts])
				limit := 1e-5
				if m.bits > 0 {
					limit = 0.02 // one step of 8 bits, where a sum in 32 bits falls to the other side
				}
				if d := apart(own, want); !(d < limit) {
					t.Fatalf("%s %v: token %d differs by %.3g", kernel, m, token, d)
				}
			}
			for _, token := range []int{0, 1, 37, tokens - 1} {
				own, err := m.run(t, alone, x[token*m.hidden:][:m.hidden], scores[token*m.experts:][:m.experts])
				if err != nil {
					t.Fatal(err)
				}
				if !slices.Equal(own, out[token*m.hidden:][:m.hidden]) {
					t.Errorf("%s %v: token %d has other bits alone", kernel, m, token)
				}
			}
		}
	}
}

// TestExpertsRefuse: what does not fit the attributes is an error, and scores that are no numbers do no harm.
func TestExpertsRefuse(t *testing.T) {
	m := mixture{experts: 3, perToken: 2, hidden: 16, inner: 8}
	m.fill(rand.New(rand.NewPCG(1, 1)))
	n := openMixture(t, &m, 2)
	nan := float32(math.NaN())
	if _, err := m.run(t, n, make([]float32, 16), []float32{nan, nan, nan}); err != nil {
		t.Error(err)
	}
	if out, err := m.run(t, n, nil, nil); err != nil || len(out) != 0 {
		t.Errorf("no tokens: %v, %v", out, err)
	}
	m.downFloats = m.downFloats[1:]
	n = openMixture(t, &m, 2)
	if _, err := m.run(t, n, make([]float32, 16), make([]float32, 3)); err == nil ||
		!strings.Contains(err.Error(), "the matrices have another size or type") {
		t.Errorf("a matrix too short: %v", err)
	}
	for name, bad := range map[string]mixture{
		"groups do not fit":    {experts: 4, perToken: 3, hidden: 8, inner: 8, groups: 2, groupsPerToken: 1, groupBest: 1},
		"per_token":            {experts: 2, perToken: 3, hidden: 8, inner: 8},
		"experts":              {experts: 0, perToken: 1, hidden: 8, inner: 8},
		"bits must be 0":       {experts: 2, perToken: 1, hidden: 8, inner: 8, form: form{bits: 3, block: 32}},
		"hidden":               {experts: 2, perToken: 1, hidden: 0, inner: 8},
		"a multiple of 256":    {experts: 2, perToken: 1, hidden: 256, inner: 32, form: form{bits: 6, block: 32}},
		"block_size 32, 64 or": {experts: 2, perToken: 1, hidden: 8, inner: 8, form: form{bits: 4, block: 48}},
	} {
		if err := openExperts(t, bad.attrs()); err == nil || !strings.Contains(err.Error(), name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	for _, name := range []string{"offsets", "table", "down_bits", "down_offsets", "down_table"} {
		for bits, values := range map[int][]int{0: {1, -1, 1 << 32}, 4: {-1, 5, 1 << 32, 1<<32 + 4, math.MinInt64}} {
			for _, value := range values {
				a := mixture{experts: 2, perToken: 1, hidden: 8, inner: 8, form: form{bits: bits, block: 32}}.attrs()
				a[name] = value
				err := openExperts(t, a)
				if err == nil || !strings.Contains(err.Error(), "offsets or a table") &&
					!strings.Contains(err.Error(), fmt.Sprintf("%s (%d, want 0 to ", name, value)) {
					t.Errorf("%d bits, %s %d: %v", bits, name, value, err)
				}
			}
		}
	}
}

// openExperts returns why there is no session of the operator with such attributes.
func openExperts(t *testing.T, a attrs) error {
	t.Helper()
	g := &graph{}
	g.value(false, "x", float32s, "t", 8)
	g.value(false, "scores", float32s, "t", 2)
	g.value(false, "gate_up", float32s, "n")
	g.value(false, "down", float32s, "m")
	g.node("tgi", "Experts", []string{"x", "scores", "gate_up", "down"}, "out", a)
	g.value(true, "out", float32s, "t", 8)
	s, err := openSession(g.write(t), sessionOptions{threads: 1})
	if err == nil {
		s.close()
	}
	return err
}
