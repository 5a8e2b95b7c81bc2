package onnx

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
)

// DType is ONNX's TensorProto.DataType.
type DType int32

// The element types that the builder uses.
const (
	Float    DType = 1
	Uint8    DType = 2
	Int32    DType = 6
	Int64    DType = 7
	Float16  DType = 10
	BFloat16 DType = 16
)

// Dim is one dimension of a graph input or output: a size, or a name when Size is 0.
type Dim struct {
	Size int64
	Name string
}

// Fixed is a dimension of known size.
func Fixed(n int) Dim { return Dim{Size: int64(n)} }

// Symbolic is a dimension of unknown size, known by name.
func Symbolic(name string) Dim { return Dim{Name: name} }

// Attr is a node's attribute; Value is an int, a float32, a string or a list of ints.
type Attr struct {
	Name  string
	Value any
}

// Node is one operator. An empty name in Inputs or Outputs stands for an
// optional one that is absent.
type Node struct {
	Op, Domain, Name string
	Inputs, Outputs  []string
	Attrs            []Attr
}

// Ref is the position of an initializer's data in the external file.
type Ref struct{ Offset, Length int64 }

type value struct {
	name string
	typ  DType
	dims []Dim
}

type initializer struct {
	name string
	typ  DType
	dims []int64
	raw  []byte
	ref  *Ref
}

// Graph builds one model. Create it with New. It is not safe for concurrent use.
type Graph struct {
	name    string
	data    string
	nodes   []Node
	inits   []initializer
	inputs  []value
	outputs []value
	defined map[string]bool // the names that inputs, initializers and nodes produce
	err     error
}

// New starts a graph. data is the external file's name relative to the
// model's folder; ONNX Runtime refuses paths that leave it.
func New(name, data string) *Graph {
	return &Graph{name: name, data: data, defined: map[string]bool{}}
}

func (g *Graph) define(name string) {
	if g.defined[name] && g.err == nil {
		g.err = fmt.Errorf("onnx: %q is produced twice", name)
	}
	g.defined[name] = true
}

// Input declares a graph input and returns its name.
func (g *Graph) Input(name string, typ DType, dims ...Dim) string {
	g.define(name)
	g.inputs = append(g.inputs, value{name, typ, dims})
	return name
}

// Output declares that the named value is a result of the graph.
func (g *Graph) Output(name string, typ DType, dims ...Dim) {
	g.outputs = append(g.outputs, value{name, typ, dims})
}

// Add appends a node. Nodes must be added after those that produce their inputs.
func (g *Graph) Add(n Node) {
	for _, in := range n.Inputs {
		if in != "" && !g.defined[in] && g.err == nil {
			g.err = fmt.Errorf("onnx: node %q reads %q, which nothing before it produces", n.Name, in)
		}
	}
	for _, out := range n.Outputs {
		if out != "" {
			g.define(out)
		}
	}
	g.nodes = append(g.nodes, n)
}

// Clone returns a copy that can be changed by itself.
func (g *Graph) Clone() *Graph {
	c := *g
	c.nodes, c.inits = slices.Clone(g.nodes), slices.Clone(g.inits)
	c.inputs, c.outputs = slices.Clone(g.inputs), slices.Clone(g.outputs)
	c.defined = maps.Clone(g.defined)
	return &c
}

// Prepend puts a node that reads only inputs and initializers before all others.
func (g *Graph) Prepend(n Node) {
	last := len(g.nodes)
	g.Add(n)
	g.nodes = slices.Insert(g.nodes[:last], 0, n)
}

// Interpose renames the output name of the node that produces it to inner, and puts n, which reads inner and produces
// name, behind that node.
func (g *Graph) Interpose(name, inner string, n Node) {
	i := slices.IndexFunc(g.nodes, func(n Node) bool { return slices.Contains(n.Outputs, name) })
	if i < 0 {
		g.err = cmp.Or(g.err, fmt.Errorf("onnx: no node produces %q", name))
		return
	}
	before := &g.nodes[i]
	before.Outputs = slices.Clone(before.Outputs)
	before.Outputs[slices.Index(before.Outputs, name)] = inner
	delete(g.defined, name)
	g.define(inner)
	last := len(g.nodes)
	g.Add(n)
	g.nodes = slices.Insert(g.nodes[:last], i+1, n)
}

// Fuse puts one node in the place of two neighbours, where the second reads only what the first produces, nothing else
// reads that, and join makes one of them.
func (g *Graph) Fuse(join func(first, second Node) (Node, bool)) {
	readers := map[string]int{}
	for _, n := range g.nodes {
		for _, in := range n.Inputs {
			readers[in]++
		}
	}
	for _, out := range g.outputs {
		readers[out.name]++
	}
	kept := g.nodes[:0:0]
	for _, n := range g.nodes {
		if last := len(kept) - 1; last >= 0 && slices.Equal(kept[last].Outputs, n.Inputs) && len(n.Inputs) == 1 &&
			readers[n.Inputs[0]] == 1 {
			if one, ok := join(kept[last], n); ok {
				delete(g.defined, n.Inputs[0])
				kept[last] = one
				continue
			}
		}
		kept = append(kept, n)
	}
	g.nodes = kept
}

// Constant adds a small initializer whose little-endian data is stored in the model, and returns
// its name.
func (g *Graph) Constant(name string, typ DType, dims []int64, raw []byte) string {
	g.define(name)
	g.inits = append(g.inits, initializer{name: name, typ: typ, dims: dims, raw: raw})
	return name
}

// External adds an initializer whose data is in the external file, and returns its name. Two
// initializers may share one Ref.
func (g *Graph) External(name string, typ DType, dims []int64, ref Ref) string {
	g.define(name)
	g.inits = append(g.inits, initializer{name: name, typ: typ, dims: dims, ref: &ref})
	return name
}

// Opset is a domain with the version of its operators.
type Opset struct {
	Domain  string
	Version int64
}

const irVersion = 10

// Marshal returns the ModelProto. It fails if a name is produced twice, read before it is
// produced, or declared as an output but never produced.
func (g *Graph) Marshal(producer string, opsets ...Opset) ([]byte, error) {
	for _, o := range g.outputs {
		if !g.defined[o.name] && g.err == nil {
			g.err = fmt.Errorf("onnx: nothing produces output %q", o.name)
		}
	}
	if g.err != nil {
		return nil, g.err
	}
	graph, err := g.marshal()
	if err != nil {
		return nil, err
	}
	var m message
	m.int(1, irVersion)
	m.string(2, producer)
	m.bytes(7, graph)
	for _, o := range opsets {
		var w message
		w.string(1, o.Domain)
		w.int(2, o.Version)
		m.bytes(8, w)
	}
	return m, nil
}

func (g *Graph) marshal() ([]byte, error) {
	var w message
	for _, n := range g.nodes {
		b, err := n.marshal()
		if err != nil {
			return nil, err
		}
		w.bytes(1, b)
	}
	w.string(2, g.name)
	for _, t := range g.inits {
		w.bytes(5, t.marshal(g.data))
	}
	for _, v := range g.inputs {
		w.bytes(11, v.marshal())
	}
	for _, v := range g.outputs {
		w.bytes(12, v.marshal())
	}
	return w, nil
}

func (n Node) marshal() ([]byte, error) {
	var w message
	for _, s := range n.Inputs {
		w.string(1, s)
	}
	for _, s := range n.Outputs {
		w.string(2, s)
	}
	w.string(3, n.Name)
	w.string(4, n.Op)
	for _, a := range n.Attrs {
		b, err := a.marshal()
		if err != nil {
			return nil, fmt.Errorf("onnx: node %q: %w", n.Name, err)
		}
		w.bytes(5, b)
	}
	if n.Domain != "" {
		w.string(7, n.Domain)
	}
	return w, nil
}

// AttributeProto.AttributeType
const (
	attrFloat  = 1
	attrInt    = 2
	attrString = 3
	attrInts   = 7
)

func (a Attr) marshal() ([]byte, error) {
	var w message
	w.string(1, a.Name)
	switch v := a.Value.(type) {
	case int:
		w.int(3, int64(v))
		w.int(20, attrInt)
	case float32:
		w.float(2, v)
		w.int(20, attrFloat)
	case string:
		w.string(4, v)
		w.int(20, attrString)
	case []int:
		for _, n := range v {
			w.int(8, int64(n))
		}
		w.int(20, attrInts)
	default:
		return nil, fmt.Errorf("attribute %q has a value of type %T", a.Name, a.Value)
	}
	return w, nil
}

func (v value) marshal() []byte {
	var shape message
	for _, d := range v.dims {
		var dim message
		if d.Name != "" {
			dim.string(2, d.Name)
		} else {
			dim.int(1, d.Size)
		}
		shape.bytes(1, dim)
	}
	var tensor, typ, w message
	tensor.int(1, int64(v.typ))
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	w.string(1, v.name)
	w.bytes(2, typ)
	return w
}

// dataExternal is TensorProto.DataLocation.EXTERNAL.
const dataExternal = 1

func (t initializer) marshal(data string) []byte {
	var w message
	for _, d := range t.dims {
		w.int(1, d)
	}
	w.int(2, int64(t.typ))
	w.string(8, t.name)
	if t.ref == nil {
		w.bytes(9, t.raw)
		return w
	}
	for _, kv := range [][2]string{
		{"location", data},
		{"offset", fmt.Sprint(t.ref.Offset)},
		{"length", fmt.Sprint(t.ref.Length)},
	} {
		var e message
		e.string(1, kv[0])
		e.string(2, kv[1])
		w.bytes(13, e)
	}
	w.int(14, dataExternal)
	return w
}
