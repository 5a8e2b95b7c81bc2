package rewrite

import "bytes"

// Section ids of the binary format, in the order in which sections must stand (the data count before the code).
const (
	secCustom    = 0
	secType      = 1
	secImport    = 2
	secFunction  = 3
	secTable     = 4
	secMemory    = 5
	secGlobal    = 6
	secExport    = 7
	secStart     = 8
	secElement   = 9
	secCode      = 10
	secData      = 11
	secDataCount = 12
	secTag       = 13
)

// rank gives each section's place; 0 for those that core 2.0 does not have.
var rank = [...]int{secType: 1, secImport: 2, secFunction: 3, secTable: 4, secMemory: 5, secGlobal: 6, secExport: 7,
	secStart: 8, secElement: 9, secDataCount: 10, secCode: 11, secData: 12}

// vector is the elements of a section, already in the form of the output, without their count.
type vector struct {
	n    int
	body []byte
}

// span is a range of the input.
type span struct{ start, end int }

type globalType struct {
	t       ValueType
	mutable bool
}

type export struct {
	name  string
	kind  Kind
	index uint32
	off   int
}

// module is the input, decoded. Sections that name functions are kept with the indices of the output.
type module struct {
	in     []byte
	limits Limits

	types     []Signature
	typeBody  vector
	imports   []Import
	impBody   vector
	impFuncs  int
	funcTypes []uint32 // of all functions, imported ones first
	funcBody  vector
	tables    int
	elements  int // declared in all tables
	tabBody   vector
	memories  int
	memMin    uint32
	memMax    uint32
	memBody   vector
	globals   []globalType // imported ones first
	impGlob   int
	globBody  vector
	exports   []export
	expBody   vector
	start     int // function index of the input, -1 without
	elemBody  vector
	dataCount int // -1 without
	bodies    []span
	dataBody  vector
	names     span

	hidden string // see Info.HiddenState
}

func decode(wasm []byte, limits Limits) (*module, error) {
	m := &module{in: wasm, limits: limits.WithDefaults(), start: -1, dataCount: -1, memMax: 65536}
	r := &reader{b: wasm, end: len(wasm)}
	if !r.limit(0, "bytes of module", len(wasm), m.limits.ModuleBytes) {
		return nil, r.fail
	}
	if !bytes.HasPrefix(wasm, []byte("\x00asm")) {
		return nil, &Error{Text: "not a WebAssembly binary: it must begin with \\0asm"}
	}
	r.pos = 4
	switch v := r.bytes(4); {
	case r.ok() && v[2] == 1:
		return nil, &Error{Offset: 4, Text: "this is a WebAssembly component; a plugin is a core module: " +
			"build for the target wasm32-wasip1 or wasm32-unknown-unknown (not wasm32-wasip2), and leave out what wraps the module (wasm-tools component new, cargo component, jco componentize)"}
	case r.ok() && !bytes.Equal(v, []byte{1, 0, 0, 0}):
		return nil, &Error{Offset: 4, Text: "version of the binary format is not 1"}
	}
	last := 0
	for r.ok() && r.pos < r.end {
		off := r.pos
		id := r.u8()
		size := r.u32()
		if uint64(size) > uint64(r.end-r.pos) {
			r.errorf(off, "section %d of %d bytes, %d left", id, size, r.end-r.pos)
			break
		}
		s := r.sub(int(size))
		if id == secCustom {
			m.custom(s)
		} else {
			m.section(s, id, off, &last)
		}
		if s.fail != nil {
			r.fail = s.fail
		}
	}
	if r.ok() && len(m.bodies) != len(m.funcTypes)-m.impFuncs {
		r.errorf(r.end, "%d function bodies for %d functions", len(m.bodies), len(m.funcTypes)-m.impFuncs)
	}
	if r.ok() && m.dataCount >= 0 && m.dataCount != m.dataBody.n {
		r.errorf(r.end, "%d data segments, the data count section says %d", m.dataBody.n, m.dataCount)
	}
	if !r.ok() {
		return nil, r.fail
	}
	return m, nil
}

func (m *module) section(s *reader, id byte, off int, last *int) {
	if id == secTag {
		s.errorf(off, "the section of tags (exceptions) is not part of WebAssembly core 2.0")
		return
	}
	if int(id) >= len(rank) {
		s.errorf(off, "unknown section %d", id)
		return
	}
	if rank[id] <= *last {
		s.errorf(off, "section %d out of order", id)
		return
	}
	*last = rank[id]
	switch id {
	case secType:
		m.typeSection(s)
	case secImport:
		m.importSection(s)
	case secFunction:
		m.functionSection(s)
	case secTable:
		m.tableSection(s)
	case secMemory:
		m.memorySection(s)
	case secGlobal:
		m.globalSection(s)
	case secExport:
		m.exportSection(s)
	case secStart:
		m.start = int(s.index("function", len(m.funcTypes)))
	case secElement:
		m.elementSection(s)
	case secDataCount:
		m.dataCount = s.count0("data segments", m.limits.Segments)
	case secCode:
		m.codeSection(s)
	case secData:
		m.dataSection(s)
	}
	if s.ok() && s.pos != s.end {
		s.errorf(s.pos, "%d bytes left over in section %d", s.end-s.pos, id)
	}
}

// custom remembers the name section and drops all others: debug information would be off by what is injected.
func (m *module) custom(s *reader) {
	name := s.name("custom section", m.limits.ModuleBytes)
	if s.ok() && name == "name" {
		m.names = span{s.pos, s.end}
	}
}

func (m *module) info() *Info {
	in := &Info{
		Imports: m.imports, Start: m.start >= 0, HasMemory: m.memories > 0, MemoryMin: m.memMin, MemoryMax: m.memMax,
		HiddenState: m.hidden, Functions: len(m.funcTypes) - m.impFuncs,
	}
	for _, e := range m.exports {
		x := Export{Name: e.name, Kind: e.kind}
		if e.kind == KindFunc {
			x.Sig = m.types[m.funcTypes[e.index]]
		}
		in.Exports = append(in.Exports, x)
	}
	for i, g := range m.globals {
		if g.mutable {
			x := Global{Name: numbered(globalPrefix, i), Type: g.t}
			if g.t == V128 {
				x.Get, x.Set = numbered(getV128Prefix, i), numbered(setV128Prefix, i)
			}
			in.Globals = append(in.Globals, x)
		}
	}
	return in
}

// hide notes state that a snapshot can't hold; the first place is kept.
func (m *module) hide(off int, what string) {
	if m.hidden == "" {
		m.hidden = (&Error{Offset: off, Text: what}).Error()
	}
}

// shifted returns the output's index of a function of the input.
func (m *module) shifted(f uint32) uint32 {
	if int(f) >= m.impFuncs {
		return f + 1 // behind the tick import
	}
	return f
}
