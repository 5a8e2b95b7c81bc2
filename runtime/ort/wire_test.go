package ort

import (
	"encoding/binary"
	"math"
	"os"
	"path/filepath"
	"testing"
)

// A minimal writer of ONNX models for the tests of this package.

// message is a protobuf message under construction.
type message []byte

func (m *message) varint(field int, v int64) {
	*m = binary.AppendUvarint(*m, uint64(field<<3))
	*m = binary.AppendUvarint(*m, uint64(v))
}

func (m *message) bytes(field int, b []byte) {
	*m = binary.AppendUvarint(*m, uint64(field<<3|2))
	*m = binary.AppendUvarint(*m, uint64(len(b)))
	*m = append(*m, b...)
}

func (m *message) string(field int, s string) { m.bytes(field, []byte(s)) }

func (m *message) float(field int, f float32) {
	*m = binary.AppendUvarint(*m, uint64(field<<3|5))
	*m = binary.LittleEndian.AppendUint32(*m, math.Float32bits(f))
}

type graph struct {
	body message
}

type attrs map[string]any // int or float32

func (g *graph) node(domain, op string, in []string, out string, a attrs) {
	g.nodes(domain, op, in, []string{out}, a)
}

// nodes adds a node with several outputs.
func (g *graph) nodes(domain, op string, in, out []string, a attrs) {
	var n message
	for _, s := range in {
		n.string(1, s)
	}
	for _, s := range out {
		n.string(2, s)
	}
	n.string(3, out[0]+"_node")
	n.string(4, op)
	n.string(7, domain)
	for name, v := range a {
		var m message
		m.string(1, name)
		switch v := v.(type) {
		case int:
			m.varint(3, int64(v))
			m.varint(20, 2)
		case float32:
			m.float(2, v)
			m.varint(20, 1)
		}
		n.bytes(5, m)
	}
	g.body.bytes(1, n)
}

func (g *graph) floats(name string, data []float32, dims ...int) {
	raw := make([]byte, 0, 4*len(data))
	for _, f := range data {
		raw = binary.LittleEndian.AppendUint32(raw, math.Float32bits(f))
	}
	g.constant(name, float32s, raw, dims)
}

// zeros adds a constant of zeros.
func (g *graph) zeros(name string, kind element, dims ...int) {
	size := kind.size()
	for _, d := range dims {
		size *= d
	}
	g.constant(name, kind, make([]byte, size), dims)
}

func (g *graph) constant(name string, kind element, raw []byte, dims []int) {
	var t message
	for _, d := range dims {
		t.varint(1, int64(d))
	}
	t.varint(2, int64(kind))
	t.string(8, name)
	t.bytes(9, raw)
	g.body.bytes(5, t)
}

// value declares an input or output; dims are ints or names.
func (g *graph) value(output bool, name string, kind element, dims ...any) {
	var shape message
	for _, d := range dims {
		var m message
		switch d := d.(type) {
		case int:
			m.varint(1, int64(d))
		case string:
			m.string(2, d)
		}
		shape.bytes(1, m)
	}
	var tensor, typ, v message
	tensor.varint(1, int64(kind))
	tensor.bytes(2, shape)
	typ.bytes(1, tensor)
	v.string(1, name)
	v.bytes(2, typ)
	if output {
		g.body.bytes(12, v)
	} else {
		g.body.bytes(11, v)
	}
}

// write stores the model in a file and returns its path.
func (g *graph) write(t testing.TB) string {
	t.Helper()
	g.body.string(2, "test")
	var m message
	m.varint(1, 10)
	m.bytes(7, g.body)
	for domain, version := range map[string]int64{"": 21, "com.microsoft": 1, "tgi": 1} {
		var o message
		o.string(1, domain)
		o.varint(2, version)
		m.bytes(8, o)
	}
	path := filepath.Join(t.TempDir(), "model.onnx")
	if err := os.WriteFile(path, m, 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}

// start loads the library as the server does.
func start(t testing.TB) {
	t.Helper()
	path, err := Locate("")
	if err == nil {
		err = Init(path)
	}
	if err != nil {
		t.Fatal(err)
	}
}
