package decoder

import (
	"testing"

	"tgi/models"
	"tgi/models/hf"
)

// TestMatricesOfSeparateGates: where no operator computes the activation, gate and up are products of their own, and an
// adapter of a tensor that stacks them is cut.
func TestMatricesOfSeparateGates(t *testing.T) {
	for _, c := range []struct {
		name       string
		activation hf.Activation
		gate, up   Matrix
		one        bool
	}{
		{name: "llama2", activation: hf.ReLU2, gate: Matrix{Module: "model.layers.0.mlp.gate_proj", Out: 200},
			up: Matrix{Module: "model.layers.0.mlp.up_proj", Out: 200}},
		{name: "llama2", activation: hf.SiLU, gate: Matrix{Module: "model.layers.0.mlp.gate_proj", Out: 200},
			up: Matrix{Module: "model.layers.0.mlp.up_proj", Out: 200, Offset: 200}},
		{name: "phi3", activation: hf.ReLU2, gate: Matrix{Module: "model.layers.0.mlp.gate_up_proj", Out: 40},
			up: Matrix{Module: "model.layers.0.mlp.gate_up_proj", Out: 40}},
		{name: "phi3", activation: hf.SiLU, one: true,
			gate: Matrix{Module: "model.layers.0.mlp.gate_up_proj", Out: 80}},
	} {
		ck, _ := readGolden(t, c.name)
		ck.Config.Activation = c.activation
		list := Matrices(models.CPU, ck.Config)
		at := 2 // behind the attention's, of a tensor that stacks queries, keys and values
		if c.name == "llama2" {
			at = 4
		}
		want := []Matrix{c.gate}
		if !c.one {
			want = append(want, c.up)
		}
		for i, w := range want {
			m := list[at+i]
			if m.Module != w.Module || m.Out != w.Out || m.Offset != w.Offset {
				t.Errorf("%s, %s: %+v, want %+v", c.name, c.activation, m, w)
			}
			if cut := m.ModuleRows() != m.Out; cut != (c.name == "phi3" && !c.one) {
				t.Errorf("%s, %s: %d rows of %d", c.name, c.activation, m.Out, m.ModuleRows())
			}
		}
		if order := list[at+len(want)-1].Order(); c.name == "phi3" && !c.one && (len(order) != 40 || order[0] != 40) {
			t.Errorf("rows %v", order)
		}
	}
}
