package onnx

import (
	"errors"
	"fmt"
	"io"
	"strconv"

	"google.golang.org/protobuf/encoding/protowire"
)

// ErrFormat says that a file is not an ONNX model, or not a whole one.
var ErrFormat = errors.New("damaged ONNX file")

// File is what the file of a model says of its graph, without the numbers of tensors.
type File struct {
	Opsets []Opset
	// Inputs and Outputs are the graph's; models before version 4 list initialisers among the inputs.
	Inputs, Outputs []Value
	// Nodes are all of the file, those of subgraphs and functions too.
	Nodes []Op
	// Tensors are initialisers and constants, those of subgraphs too.
	Tensors []TensorInfo
	// Functions are the operators that the file defines, as domain and name.
	Functions [][2]string
}

// Value is an input or output of a graph.
type Value struct {
	Name string
	// Type is 0 if the value is not a tensor.
	Type DType
	// Dims are empty for a scalar. Open says that the file does not tell them.
	Dims []Dim
	Open bool
}

// Op is a node of a file.
type Op struct {
	Type, Domain, Name string
	// Inputs and Outputs are names of values; "" for one that is left out.
	Inputs, Outputs []string
	// Ints and Strings are the attributes of these types.
	Ints    map[string]int64
	Strings map[string]string
	// Depth is 0 for a node of the graph itself, more in subgraphs and functions.
	Depth int
}

// TensorInfo describes an initialiser or a constant.
type TensorInfo struct {
	Name string
	Type DType
	Dims []int64
	// Location names the file beside the model that holds the numbers; "" if the model itself does. Length is -1 if it
	// is not said.
	Location       string
	Offset, Length int64
}

// Bounds of a file. The largest models known have tens of thousands of nodes, and names of a hundred bytes.
const (
	maxNodes   = 1 << 19
	maxTensors = 1 << 18
	maxText    = 1 << 12  // bytes of a name
	maxTexts   = 64 << 20 // of all names
	maxLists   = 1 << 22  // entries of all lists
	maxDepth   = 8
	maxRank    = 16
)

// Read reads the structure of a model of so many bytes. It does not read the numbers of tensors, so that it takes no
// more time and memory for a file of gigabytes. Its errors wrap ErrFormat, or are r's, and name the field.
func Read(r io.ReaderAt, size int64) (*File, error) {
	p := &reader{r: r, end: size}
	if err := p.model(); err != nil {
		return nil, err
	}
	if !p.graph {
		return nil, fmt.Errorf("%w: it has no graph", ErrFormat)
	}
	return &p.file, nil
}

// reader reads protobuf messages.
type reader struct {
	r        io.ReaderAt
	at, end  int64 // end of the innermost message
	window   []byte
	from     int64 // where window lies in the file
	file     File
	graph    bool
	depth    int
	texts    int
	lists    int
	building []byte
}

const windowSize = 64 << 10

// fail returns an error about the place.
func (p *reader) fail(format string, a ...any) error {
	return fmt.Errorf("%w: at byte %d: %s", ErrFormat, p.at, fmt.Sprintf(format, a...))
}

// byte returns the next byte.
func (p *reader) byte() (byte, error) {
	if p.at >= p.end {
		return 0, p.fail("it ends within a field")
	}
	if i := p.at - p.from; i >= 0 && i < int64(len(p.window)) {
		p.at++
		return p.window[i], nil
	}
	if p.window == nil {
		p.window = make([]byte, windowSize)
	}
	p.window = p.window[:cap(p.window)]
	n, err := p.r.ReadAt(p.window, p.at)
	p.window, p.from = p.window[:n], p.at
	if n == 0 {
		if err == io.EOF {
			return 0, p.fail("it ends within a field")
		}
		return 0, err
	}
	p.at++
	return p.window[0], nil
}

func (p *reader) varint() (uint64, error) {
	p.building = p.building[:0]
	for {
		b, err := p.byte()
		if err != nil {
			return 0, err
		}
		p.building = append(p.building, b)
		if b < 0x80 || len(p.building) == 10 {
			break
		}
	}
	v, n := protowire.ConsumeVarint(p.building)
	if n < 0 {
		return 0, p.fail("a number has too many bytes")
	}
	return v, nil
}

// length reads the length of what follows, which is inside the message.
func (p *reader) length() (int64, error) {
	n, err := p.varint()
	if err == nil && n > uint64(p.end-p.at) {
		err = p.fail("a field has %d bytes, %d are left", n, p.end-p.at)
	}
	return int64(n), err
}

// text reads a name.
func (p *reader) text() (string, error) {
	n, err := p.length()
	if err != nil {
		return "", err
	}
	if p.texts += int(min(n, maxText+1)); n > maxText || p.texts > maxTexts {
		return "", p.fail("a name has %d bytes, at most %d are allowed, and %d in all", n, maxText, maxTexts)
	}
	b := make([]byte, n)
	for i := range b {
		if b[i], err = p.byte(); err != nil {
			return "", err
		}
	}
	return string(b), nil
}

// skip passes over a field's value.
func (p *reader) skip(kind protowire.Type) error {
	n := int64(0)
	var err error
	switch kind {
	case protowire.VarintType:
		_, err = p.varint()
	case protowire.Fixed32Type:
		n = 4
	case protowire.Fixed64Type:
		n = 8
	case protowire.BytesType:
		n, err = p.length()
	default:
		err = p.fail("a field has the type %d", kind)
	}
	if err == nil && n > p.end-p.at {
		err = p.fail("it ends within a field")
	}
	p.at += n
	return err
}

// fields calls f for each field of the message that reaches to p.end. f reads the field's value and returns true, or
// leaves it.
func (p *reader) fields(f func(field protowire.Number, kind protowire.Type) (bool, error)) error {
	for p.at < p.end {
		tag, err := p.varint()
		if err != nil {
			return err
		}
		number, kind := protowire.DecodeTag(tag)
		if number < 1 {
			return p.fail("a field has the number %d", number)
		}
		done, err := f(number, kind)
		if err == nil && !done {
			err = p.skip(kind)
		}
		if err != nil {
			return err
		}
	}
	return nil
}

// message reads the length of a message and its fields.
func (p *reader) message(what string, f func(field protowire.Number, kind protowire.Type) (bool, error)) error {
	n, err := p.length()
	if err != nil {
		return err
	}
	outer := p.end
	p.end = p.at + n
	if err := p.fields(f); err != nil {
		if what != "" {
			return fmt.Errorf("%s: %w", what, err)
		}
		return err
	}
	p.end = outer
	return nil
}

// count checks the entries of all lists, so that a file cannot claim more memory than a small multiple of its size.
func (p *reader) count() error {
	if p.lists++; p.lists > maxLists {
		return p.fail("there are more than %d names and attributes", maxLists)
	}
	return nil
}

// addText appends a name.
func (p *reader) addText(to *[]string) error {
	s, err := p.text()
	if err == nil {
		err = p.count()
	}
	*to = append(*to, s)
	return err
}

// setText reads a name.
func (p *reader) setText(to *string) (err error) {
	*to, err = p.text()
	return err
}

// The types of fields of which more than one are read.
const (
	varintType = protowire.VarintType
	bytesType  = protowire.BytesType
)

// model reads a ModelProto.
func (p *reader) model() error {
	return p.fields(func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case kind != bytesType:
			return false, nil
		case field == 7:
			p.graph = true
			return true, p.message("graph", p.graphField)
		case field == 8:
			var o Opset
			err := p.opset(&o)
			p.file.Opsets = append(p.file.Opsets, o)
			return true, errors.Join(err, p.count())
		case field == 25:
			return true, p.function()
		}
		return false, nil
	})
}

func (p *reader) opset(o *Opset) error {
	return p.message("opset_import", func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case field == 1 && kind == bytesType:
			return true, p.setText(&o.Domain)
		case field == 2 && kind == varintType:
			v, err := p.varint()
			o.Version = int64(v)
			return true, err
		}
		return false, nil
	})
}

// function reads a FunctionProto.
func (p *reader) function() error {
	var name, domain string
	p.depth++
	err := p.message("functions", func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case kind != bytesType:
			return false, nil
		case field == 1:
			return true, p.setText(&name)
		case field == 7:
			return true, p.node()
		case field == 10:
			return true, p.setText(&domain)
		}
		return false, nil
	})
	p.depth--
	p.file.Functions = append(p.file.Functions, [2]string{domain, name})
	return errors.Join(err, p.count())
}

// graphField reads a field of a GraphProto.
func (p *reader) graphField(field protowire.Number, kind protowire.Type) (bool, error) {
	if kind != bytesType {
		return false, nil
	}
	switch field {
	case 1:
		return true, p.node()
	case 5:
		return true, p.tensor()
	case 11, 12:
		if p.depth > 0 { // of a subgraph
			return false, nil
		}
		to := &p.file.Inputs
		if field == 12 {
			to = &p.file.Outputs
		}
		v, err := p.value()
		*to = append(*to, v)
		return true, errors.Join(err, p.count())
	case 15:
		return true, p.fail("sparse_initializer: sparse tensors are not read")
	}
	return false, nil
}

// node reads a NodeProto.
func (p *reader) node() error {
	if len(p.file.Nodes) >= maxNodes {
		return p.fail("there are more than %d nodes", maxNodes)
	}
	at := len(p.file.Nodes)
	p.file.Nodes = append(p.file.Nodes, Op{}) // before those of its subgraphs
	n := Op{Depth: p.depth}
	err := p.message("node "+strconv.Itoa(at), func(field protowire.Number, kind protowire.Type) (bool, error) {
		if kind != bytesType {
			return false, nil
		}
		switch field {
		case 1:
			return true, p.addText(&n.Inputs)
		case 2:
			return true, p.addText(&n.Outputs)
		case 3:
			return true, p.setText(&n.Name)
		case 4:
			return true, p.setText(&n.Type)
		case 5:
			return true, p.attribute(&n)
		case 7:
			return true, p.setText(&n.Domain)
		}
		return false, nil
	})
	p.file.Nodes[at] = n
	return err
}

// attribute reads an AttributeProto.
func (p *reader) attribute(n *Op) error {
	var name, text string
	var number int64
	kind := uint64(0)
	err := p.message("attribute", func(field protowire.Number, wire protowire.Type) (_ bool, err error) {
		switch {
		case field == 1 && wire == bytesType:
			return true, p.setText(&name)
		case field == 3 && wire == varintType:
			v, err := p.varint()
			number = int64(v)
			return true, err
		case field == 4 && wire == bytesType:
			before := p.at
			size, err := p.length()
			if err != nil || size > maxText { // not a name
				p.at += size
				return true, err
			}
			p.at = before
			return true, p.setText(&text)
		case (field == 5 || field == 10) && wire == bytesType:
			return true, p.tensor()
		case (field == 6 || field == 11) && wire == bytesType:
			if p.depth++; p.depth > maxDepth {
				return true, p.fail("subgraphs lie %d deep in each other, at most %d are allowed", p.depth, maxDepth)
			}
			defer func() { p.depth-- }()
			return true, p.message("subgraph", p.graphField)
		case field == 20 && wire == varintType:
			kind, err = p.varint()
			return true, err
		case field == 22 || field == 23:
			return true, p.fail("sparse tensors are not read")
		}
		return false, nil
	})
	switch kind {
	case attrInt:
		if n.Ints == nil {
			n.Ints = map[string]int64{}
		}
		n.Ints[name] = number
	case attrString:
		if n.Strings == nil {
			n.Strings = map[string]string{}
		}
		n.Strings[name] = text
	}
	return errors.Join(err, p.count())
}

// value reads a ValueInfoProto.
func (p *reader) value() (Value, error) {
	v := Value{Open: true}
	dims := func(field protowire.Number, kind protowire.Type) (bool, error) {
		if field != 1 || kind != bytesType {
			return false, nil
		}
		d := Dim{}
		err := p.message("dim", func(field protowire.Number, kind protowire.Type) (bool, error) {
			switch {
			case field == 1 && kind == varintType:
				n, err := p.varint()
				d.Size = int64(n)
				return true, err
			case field == 2 && kind == bytesType:
				return true, p.setText(&d.Name)
			}
			return false, nil
		})
		if v.Dims = append(v.Dims, d); len(v.Dims) > maxRank {
			return true, p.fail("a tensor has more than %d dimensions", maxRank)
		}
		return true, err
	}
	tensor := func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case field == 1 && kind == varintType:
			n, err := p.varint()
			v.Type = DType(n)
			return true, err
		case field == 2 && kind == bytesType:
			v.Open = false
			return true, p.message("shape", dims)
		}
		return false, nil
	}
	err := p.message("value", func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case field == 1 && kind == bytesType:
			return true, p.setText(&v.Name)
		case field == 2 && kind == bytesType:
			return true, p.message("type", func(field protowire.Number, kind protowire.Type) (bool, error) {
				if field == 1 && kind == bytesType {
					return true, p.message("tensor_type", tensor)
				}
				return false, nil
			})
		}
		return false, nil
	})
	return v, err
}

// tensor reads a TensorProto.
func (p *reader) tensor() error {
	if len(p.file.Tensors) >= maxTensors {
		return p.fail("there are more than %d tensors", maxTensors)
	}
	t := TensorInfo{Length: -1}
	external := false
	entries := map[string]string{}
	name := "tensor " + strconv.Itoa(len(p.file.Tensors))
	err := p.message(name, func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case field == 1:
			return true, p.dimensions(&t, kind)
		case field == 2 && kind == varintType:
			v, err := p.varint()
			t.Type = DType(v)
			return true, err
		case field == 8 && kind == bytesType:
			return true, p.setText(&t.Name)
		case field == 13 && kind == bytesType:
			return true, p.entry(entries)
		case field == 14 && kind == varintType:
			v, err := p.varint()
			external = v == dataExternal
			return true, err
		}
		return false, nil
	})
	if err != nil {
		return err
	}
	if external {
		err = t.place(entries)
	}
	p.file.Tensors = append(p.file.Tensors, t)
	return err
}

// dimensions reads one or, packed, several dimensions.
func (p *reader) dimensions(t *TensorInfo, kind protowire.Type) error {
	add := func() error {
		v, err := p.varint()
		if t.Dims = append(t.Dims, int64(v)); err == nil && len(t.Dims) > maxRank {
			err = p.fail("a tensor has more than %d dimensions", maxRank)
		}
		return err
	}
	switch kind {
	case varintType:
		return add()
	case bytesType:
		n, err := p.length()
		for end := p.at + n; err == nil && p.at < end; {
			err = add()
		}
		return err
	}
	return p.fail("dims: the type %d", kind)
}

// entry reads a StringStringEntryProto.
func (p *reader) entry(to map[string]string) error {
	var key, value string
	err := p.message("external_data", func(field protowire.Number, kind protowire.Type) (bool, error) {
		switch {
		case field == 1 && kind == bytesType:
			return true, p.setText(&key)
		case field == 2 && kind == bytesType:
			return true, p.setText(&value)
		}
		return false, nil
	})
	to[key] = value
	return errors.Join(err, p.count())
}

// place reads where an external tensor lies.
func (t *TensorInfo) place(entries map[string]string) error {
	t.Location = entries["location"]
	if t.Location == "" {
		return fmt.Errorf("%w: tensor %q: external_data has no location", ErrFormat, t.Name)
	}
	for _, f := range []struct {
		key string
		to  *int64
	}{{"offset", &t.Offset}, {"length", &t.Length}} {
		text, ok := entries[f.key]
		if !ok {
			continue
		}
		n, err := strconv.ParseInt(text, 10, 64)
		if err != nil || n < 0 {
			return fmt.Errorf("%w: tensor %q: external_data has the %s %q", ErrFormat, t.Name, f.key, text)
		}
		*f.to = n
	}
	return nil
}
