package onnx

import (
	"bytes"
	"crypto/sha256"
	"encoding/binary"
	"errors"
	"fmt"
	"math"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
)

// Wire types. The reader below is written by hand: it must not share its mistakes with the writer.
const (
	typeVarint = 0
	typeBytes  = 2
	typeFixed4 = 5
)

// field is one field of a message, as a plain reader of the wire form sees it.
type field struct {
	num  int
	n    uint64 // varint or fixed
	data []byte
}

// fields splits a message.
func fields(t *testing.T, b []byte) []field {
	t.Helper()
	var out []field
	for len(b) > 0 {
		key, n := binary.Uvarint(b)
		b = b[n:]
		f := field{num: int(key >> 3)}
		switch key & 7 {
		case typeVarint:
			f.n, n = binary.Uvarint(b)
		case typeBytes:
			size, head := binary.Uvarint(b)
			n = head + int(size)
			f.data = b[head:n]
		case typeFixed4:
			f.n, n = uint64(binary.LittleEndian.Uint32(b)), 4
		default:
			t.Fatalf("field %d has wire type %d", f.num, key&7)
		}
		b = b[n:]
		out = append(out, f)
	}
	return out
}

// dump renders a message by a schema: field number to a name, and for
// messages to the schema below.
type schema map[int]struct {
	name string
	sub  schema
}

func dump(t *testing.T, b []byte, s schema) string {
	t.Helper()
	var parts []string
	for _, f := range fields(t, b) {
		d, ok := s[f.num]
		switch {
		case !ok:
			parts = append(parts, fmt.Sprintf("?%d", f.num))
		case d.sub != nil:
			parts = append(parts, d.name+"{"+dump(t, f.data, d.sub)+"}")
		case f.data != nil:
			parts = append(parts, fmt.Sprintf("%s=%q", d.name, f.data))
		default:
			parts = append(parts, fmt.Sprintf("%s=%d", d.name, f.n))
		}
	}
	return strings.Join(parts, " ")
}

// model is the part of onnx.proto that the writer uses, typed off the
// published file.
var model = func() schema {
	entry := schema{1: {"key", nil}, 2: {"value", nil}}
	dim := schema{1: {"dim_value", nil}, 2: {"dim_param", nil}}
	tensorType := schema{1: {"elem_type", nil}, 2: {"shape", schema{1: {"dim", dim}}}}
	value := schema{1: {"name", nil}, 2: {"type", schema{1: {"tensor_type", tensorType}}}}
	tensor := schema{1: {"dims", nil}, 2: {"data_type", nil}, 8: {"name", nil}, 9: {"raw_data", nil},
		13: {"external_data", entry}, 14: {"data_location", nil}}
	attribute := schema{1: {"name", nil}, 2: {"f", nil}, 3: {"i", nil}, 4: {"s", nil}, 20: {"type", nil}}
	node := schema{1: {"input", nil}, 2: {"output", nil}, 3: {"name", nil}, 4: {"op_type", nil}, 5: {"attribute",
		attribute}, 7: {"domain", nil}}
	graph := schema{1: {"node", node}, 2: {"name", nil}, 5: {"initializer", tensor}, 11: {"input", value},
		12: {"output",
			value}}
	return schema{1: {"ir_version", nil}, 2: {"producer_name", nil}, 7: {"graph", graph}, 8: {"opset_import",
		schema{1: {"domain", nil}, 2: {"version", nil}}}}
}()

// modelSum is that of the model below. The writer before this one, which used no library, made the same bytes.
const modelSum = "cff22b39ef2ee096286fd4d526ae7dc05b1abd5557fe7d6a41dde1c618c85ceb"

func TestMarshalWritesTheMessage(t *testing.T) {
	g := New("net", "net.data")
	g.Input("x", Float, Symbolic("n"), Fixed(300))
	g.External("w", Uint8, []int64{2, 1}, Ref{Offset: 4096, Length: 2})
	g.Constant("c", Int64, []int64{1}, []byte{7, 0, 0, 0, 0, 0, 0, 0})
	g.Add(Node{Op: "Op", Domain: "d", Name: "n1", Inputs: []string{"x", "", "w"}, Outputs: []string{"y"},
		Attrs: []Attr{{"i", -1}, {"f", float32(0.5)}, {"s", "text"}}})
	g.Output("y", Int32, Symbolic("n"))
	got, err := g.Marshal("me", Opset{"", 21}, Opset{"d", 1})
	if err != nil {
		t.Fatal(err)
	}
	want := strings.Join([]string{
		`ir_version=10 producer_name="me" graph{`,
		`node{input="x" input="" input="w" output="y" name="n1" op_type="Op" `,
		`attribute{name="i" i=18446744073709551615 type=2} attribute{name="f" f=1056964608 type=1} attribute{name="s" s="text" type=3} domain="d"} `,
		`name="net" `,
		`initializer{dims=2 dims=1 data_type=2 name="w" external_data{key="location" value="net.data"} external_data{key="offset" value="4096"} external_data{key="length" value="2"} data_location=1} `,
		`initializer{dims=1 data_type=7 name="c" raw_data="\a\x00\x00\x00\x00\x00\x00\x00"} `,
		`input{name="x" type{tensor_type{elem_type=1 shape{dim{dim_param="n"} dim{dim_value=300}}}}} `,
		`output{name="y" type{tensor_type{elem_type=6 shape{dim{dim_param="n"}}}}}} `,
		`opset_import{domain="" version=21} opset_import{domain="d" version=1}`,
	}, "")
	if d := dump(t, got, model); d != want {
		t.Errorf("model\n got %s\nwant %s", d, want)
	}
	// The same graph must always give the same file.
	if sum := fmt.Sprintf("%x", sha256.Sum256(got)); sum != modelSum {
		t.Errorf("the model's bytes changed: sha256 %s", sum)
	}
	if math.Float32frombits(1056964608) != 0.5 {
		t.Error("the expected bits of 0.5 are wrong")
	}
}

func TestMarshalRefusesGraphsThatCannotRun(t *testing.T) {
	cases := []struct {
		name  string
		build func(g *Graph)
		want  string
	}{
		{"twice", func(g *Graph) { g.Input("x", Float); g.Input("x", Float) }, `"x" is produced twice`},
		{"output twice", func(g *Graph) { g.Input("x", Float); g.Add(Node{Name: "n", Outputs: []string{"x"}}) },
			`"x" is produced twice`},
		{"unknown input", func(g *Graph) { g.Add(Node{Name: "n", Inputs: []string{"x"}, Outputs: []string{"y"}}) },
			`node "n" reads "x", which nothing before it produces`},
		{"unknown output", func(g *Graph) { g.Output("y", Float) }, `nothing produces output "y"`},
		{"attribute", func(g *Graph) { g.Add(Node{Name: "n", Attrs: []Attr{{"a", 1.5}}}) },
			`node "n": attribute "a" has a value of type float64`},
	}
	for _, c := range cases {
		g := New("net", "net.data")
		c.build(g)
		if _, err := g.Marshal("me"); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s gave %v, want %s", c.name, err, c.want)
		}
	}
}

func TestFuse(t *testing.T) {
	g := New("fuse", "data")
	g.Input("x", Float, Symbolic("n"))
	node := func(op, in, out string) { g.Add(Node{Op: op, Name: out, Inputs: []string{in}, Outputs: []string{out}}) }
	node("A", "x", "a1")
	node("B", "a1", "b1") // fits
	node("A", "b1", "a2")
	node("B", "a2", "b2") // not alone in reading a2
	node("C", "a2", "c")
	node("A", "c", "a3")
	node("C", "b2", "d")
	node("B", "a3", "b3") // not beside it
	node("A", "b3", "a4")
	node("B", "a4", "b4") // refused
	node("A", "b4", "a5")
	node("B", "a5", "b5") // a5 is a result
	g.Output("b5", Float, Symbolic("n"))
	g.Output("a5", Float, Symbolic("n"))
	before := g.Clone()
	g.Fuse(func(a, b Node) (Node, bool) {
		a.Op, a.Outputs = a.Op+b.Op, b.Outputs
		return a, a.Op == "AB" && b.Name != "b4"
	})
	list := func(g *Graph) (out []string) {
		for _, n := range g.nodes {
			out = append(out, n.Op+":"+n.Inputs[0]+">"+n.Outputs[0])
		}
		return out
	}
	want := strings.Fields("AB:x>b1 A:b1>a2 B:a2>b2 C:a2>c A:c>a3 C:b2>d B:a3>b3 A:b3>a4 B:a4>b4 A:b4>a5 B:a5>b5")
	if got := list(g); !slices.Equal(got, want) {
		t.Errorf("%q, want %q", got, want)
	}
	if got := list(before); len(got) != 12 {
		t.Errorf("the clone has %q", got)
	}
	if g.defined["a1"] || !before.defined["a1"] {
		t.Error("a1 is defined where no node produces it, or the clone lost it")
	}
}

func TestDataWriterAlignsTensors(t *testing.T) {
	var out bytes.Buffer
	d := NewDataWriter(&out)
	a := d.Tensor([]byte("abc"))
	d.Begin()
	d.Write([]byte("de"))
	d.Write([]byte("f"))
	b := d.End()
	if d.Size() != 4099 || d.Close() != nil {
		t.Fatalf("%d bytes", d.Size())
	}
	if want := []Ref{{0, 3}, {4096, 3}}; !slices.Equal([]Ref{a, b}, want) {
		t.Errorf("tensors at %v, want %v", []Ref{a, b}, want)
	}
	if got := out.Bytes(); string(got[:3]) != "abc" || string(got[4096:]) != "def" || len(bytes.Trim(got[3:4096],
		"\x00")) != 0 {
		t.Error("the file does not hold the tensors")
	}
}

// pieces keeps what is written at once.
type pieces [][]byte

func (p *pieces) Write(b []byte) (int, error) {
	*p = append(*p, slices.Clone(b))
	return len(b), nil
}

// TestDataWriterWritesLargePages: whatever the tensors, all but the last piece are large pages, at multiples of them.
func TestDataWriterWritesLargePages(t *testing.T) {
	var to pieces
	var want []byte
	d, r := NewDataWriter(&to), rand.New(rand.NewPCG(1, 1))
	for range 60 {
		tensor := make([]byte, r.IntN(1+r.IntN(3*largePage)))
		for i := range tensor {
			tensor[i] = byte(r.Uint32())
		}
		d.Begin()
		want = append(want, make([]byte, int(d.Size())-len(want))...)
		for left := tensor; len(left) > 0; {
			n := 1 + r.IntN(len(left))
			if got, err := d.Write(left[:n]); got != n || err != nil {
				t.Fatalf("%d of %d bytes, %v", got, n, err)
			}
			left = left[n:]
		}
		d.End()
		want = append(want, tensor...)
	}
	if err := d.Close(); err != nil {
		t.Fatal(err)
	}
	for i, p := range to[:len(to)-1] {
		if len(p) != largePage {
			t.Errorf("piece %d has %d bytes", i, len(p))
		}
	}
	if !bytes.Equal(slices.Concat(to...), want) {
		t.Error("other bytes were written")
	}
}

// full is a disk without room.
type full struct{}

var errFull = errors.New("no space left")

func (full) Write([]byte) (int, error) { return 0, errFull }

func TestDataWriterKeepsTheFirstError(t *testing.T) {
	d := NewDataWriter(full{})
	d.Tensor(make([]byte, 3<<20))
	d.Tensor([]byte("x"))
	if err := d.Close(); !errors.Is(err, errFull) {
		t.Errorf("Close gave %v", err)
	}
	d = NewDataWriter(&bytes.Buffer{})
	d.Begin()
	d.Begin()
	if err := d.Close(); err == nil || !strings.Contains(err.Error(), "Begin before End") {
		t.Errorf("Close gave %v", err)
	}
}
