package decoder

import (
	"bytes"
	"math"
	"strconv"
	"testing"

	"google.golang.org/protobuf/encoding/protowire"

	"tgi/models"
	"tgi/models/hf"
	"tgi/models/onnx"
)

// file is a built model as a reader of its two files sees it. The reader knows onnx.proto's field numbers, and nothing
// of the writer.
type file struct {
	nodes           []readNode
	inits           map[string]readTensor
	inputs, outputs map[string]readTensor // without data; a symbolic dimension is 0
	order           []string              // of the outputs
	domains         []string
}

type readNode struct {
	op, domain, name string
	in, out          []string
	ints             map[string]int
	floats           map[string]float32
}

type readTensor struct {
	typ  onnx.DType
	dims []int
	data []byte
}

// len is the number of elements.
func (t readTensor) len() int {
	n := 1
	for _, d := range t.dims {
		n *= d
	}
	return n
}

// each calls do with every field of a message: n holds a number, or the bits of a float, and b everything else.
func each(t testing.TB, message []byte, do func(field int, n uint64, b []byte)) {
	t.Helper()
	for len(message) > 0 {
		num, typ, size := protowire.ConsumeTag(message)
		if size < 0 {
			t.Fatal("the model is no protobuf message")
		}
		message = message[size:]
		var n uint64
		var b []byte
		switch typ {
		case protowire.VarintType:
			n, size = protowire.ConsumeVarint(message)
		case protowire.Fixed32Type:
			var x uint32
			x, size = protowire.ConsumeFixed32(message)
			n = uint64(x)
		default:
			b, size = protowire.ConsumeBytes(message)
		}
		if size < 0 {
			t.Fatal("the model is no protobuf message")
		}
		message = message[size:]
		do(int(num), n, b)
	}
}

// built builds a checkpoint and reads the files.
func built(t testing.TB, ck *hf.Checkpoint, opt Options) *file {
	t.Helper()
	var data bytes.Buffer
	r, err := Build(ck, &data, opt)
	if err != nil {
		t.Fatal(err)
	}
	if want := models.LayoutOf(opt.Device, opt.Weights, ck.Config.HeadDim); opt.Device != "" && r.Layout != want {
		t.Errorf("layout %+v, want %+v", r.Layout, want)
	}
	return read(t, r.Model, data.Bytes())
}

// builtAdapted is built for the graph with adapters.
func builtAdapted(t testing.TB, ck *hf.Checkpoint, opt Options) *file {
	t.Helper()
	var data bytes.Buffer
	r, err := Build(ck, &data, opt)
	if err != nil {
		t.Fatal(err)
	}
	return read(t, r.Adapted, data.Bytes())
}

// read reads a graph and its data.
func read(t testing.TB, model, data []byte) *file {
	t.Helper()
	f := &file{inits: map[string]readTensor{}, inputs: map[string]readTensor{}, outputs: map[string]readTensor{}}
	each(t, model, func(field int, _ uint64, b []byte) {
		switch field {
		case 7:
			f.graph(t, b, data)
		case 8:
			domain := ""
			each(t, b, func(field int, _ uint64, b []byte) {
				if field == 1 {
					domain = string(b)
				}
			})
			f.domains = append(f.domains, domain)
		}
	})
	return f
}

func (f *file) graph(t testing.TB, graph, data []byte) {
	each(t, graph, func(field int, _ uint64, b []byte) {
		switch field {
		case 1:
			f.nodes = append(f.nodes, parseNode(t, b))
		case 5:
			name, tensor := parseInit(t, b, data)
			f.inits[name] = tensor
		case 11, 12:
			name, tensor := parseValue(t, b)
			if field == 11 {
				f.inputs[name] = tensor
				return
			}
			f.outputs[name] = tensor
			f.order = append(f.order, name)
		}
	})
}

func parseNode(t testing.TB, message []byte) readNode {
	n := readNode{ints: map[string]int{}, floats: map[string]float32{}}
	each(t, message, func(field int, _ uint64, b []byte) {
		switch field {
		case 1:
			n.in = append(n.in, string(b))
		case 2:
			n.out = append(n.out, string(b))
		case 3:
			n.name = string(b)
		case 4:
			n.op = string(b)
		case 5:
			name := ""
			each(t, b, func(field int, x uint64, b []byte) {
				switch field {
				case 1:
					name = string(b)
				case 2:
					n.floats[name] = math.Float32frombits(uint32(x))
				case 3:
					n.ints[name] = int(int64(x))
				}
			})
		case 7:
			n.domain = string(b)
		}
	})
	return n
}

func parseInit(t testing.TB, message, data []byte) (name string, out readTensor) {
	place := map[string]int{}
	each(t, message, func(field int, n uint64, b []byte) {
		switch field {
		case 1:
			out.dims = append(out.dims, int(n))
		case 2:
			out.typ = onnx.DType(n)
		case 8:
			name = string(b)
		case 9:
			out.data = b
		case 13:
			var entry [3]string
			each(t, b, func(field int, _ uint64, b []byte) { entry[field] = string(b) })
			place[entry[1]], _ = strconv.Atoi(entry[2]) // the location is no number
		}
	})
	if out.data == nil {
		out.data = data[place["offset"] : place["offset"]+place["length"]]
	}
	return name, out
}

func parseValue(t testing.TB, message []byte) (name string, out readTensor) {
	var tensor, shape []byte
	each(t, message, func(field int, _ uint64, b []byte) {
		if field == 1 {
			name = string(b)
			return
		}
		each(t, b, func(_ int, _ uint64, b []byte) { tensor = b })
	})
	each(t, tensor, func(field int, n uint64, b []byte) {
		if field == 1 {
			out.typ = onnx.DType(n)
		} else {
			shape = b
		}
	})
	each(t, shape, func(_ int, _ uint64, b []byte) {
		size := 0
		each(t, b, func(field int, n uint64, _ []byte) {
			if field == 1 {
				size = int(n)
			}
		})
		out.dims = append(out.dims, size)
	})
	return name, out
}
