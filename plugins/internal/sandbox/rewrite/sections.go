package rewrite

import (
	"math"
	"strconv"
	"unicode/utf8"
)

func numbered(prefix string, i int) string { return prefix + strconv.Itoa(i) }

// count0 reads a number that is a count but precedes no elements.
func (r *reader) count0(what string, limit int) int {
	off := r.pos
	n := int(r.u32())
	r.limit(off, what, n, limit)
	return n
}

func (r *reader) valueType() ValueType {
	off := r.pos
	t := ValueType(r.u8())
	if r.ok() && !isValueType(t) {
		r.errorf(off, "value type 0x%02x%s is not of WebAssembly core 2.0", byte(t), laterType(byte(t)))
	}
	return t
}

// laterType names the proposal that adds a type, in parentheses, "" where none is known.
func laterType(t byte) string {
	switch {
	case t == 0x69 || t == 0x74:
		return " (exceptions)"
	case t == 0x63 || t == 0x64:
		return " (typed function references)"
	case t >= 0x6a && t <= 0x6e || t >= 0x71 && t <= 0x73 || t == 0x77 || t == 0x78:
		return " (GC)"
	}
	return ""
}

// laterForm names the proposal that adds a form of types, in parentheses.
func laterForm(form byte) string {
	switch form {
	case 0x4e, 0x4f, 0x50, 0x5e, 0x5f:
		return " (GC)"
	case 0x5d:
		return " (stack switching)"
	}
	return ""
}

func isValueType(t ValueType) bool { return t >= V128 && t <= I32 || t == FuncRef || t == ExternRef }

func (r *reader) refType() ValueType {
	off := r.pos
	t := r.valueType()
	if r.ok() && t != FuncRef && t != ExternRef {
		r.errorf(off, "%s is not a reference type", t)
	}
	return t
}

func (r *reader) name(what string, limit int) string {
	off := r.pos
	n := int(r.u32())
	if !r.limit(off, "bytes in a name ("+what+")", n, limit) {
		return ""
	}
	b := r.bytes(n)
	if !utf8.Valid(b) {
		r.errorf(off, "name (%s) is not valid UTF-8", what)
	}
	return string(b)
}

func (m *module) typeSection(s *reader) {
	n := s.count("types", m.limits.Types)
	start := s.pos
	for i := 0; i < n && s.ok(); i++ {
		off := s.pos
		if form := s.u8(); s.ok() && form != 0x60 {
			s.errorf(off, "type form 0x%02x%s is not of WebAssembly core 2.0", form, laterForm(form))
		}
		m.types = append(m.types, Signature{Params: m.valueTypes(s, "parameters"), Results: m.valueTypes(s, "results")})
	}
	m.typeBody = vector{n, m.in[start:s.pos]}
}

func (m *module) valueTypes(s *reader, what string) []ValueType {
	n := s.count(what, m.limits.Params)
	ts := make([]ValueType, 0, n)
	for i := 0; i < n && s.ok(); i++ {
		ts = append(ts, s.valueType())
	}
	return ts
}

func (m *module) importSection(s *reader) {
	n := s.count("imports", m.limits.Imports)
	start := s.pos
	for i := 0; i < n && s.ok(); i++ {
		im := Import{Module: s.name("import", m.limits.NameBytes), Name: s.name("import", m.limits.NameBytes)}
		off := s.pos
		im.Kind = Kind(s.u8())
		switch im.Kind {
		case KindFunc:
			t := s.index("type", len(m.types))
			if s.ok() {
				im.Sig = m.types[t]
				m.funcTypes = append(m.funcTypes, t)
				m.impFuncs++
			}
		case KindTable:
			m.tableType(s)
		case KindMemory:
			m.memoryType(s)
		case KindGlobal:
			m.globals = append(m.globals, m.globalTypeOf(s))
			m.impGlob++
		case kindTag:
			s.errorf(off, "import of a tag (exceptions) is not of WebAssembly core 2.0")
		default:
			s.errorf(off, "import of kind %d is not of WebAssembly core 2.0", im.Kind)
		}
		m.imports = append(m.imports, im)
	}
	m.impBody = vector{n, m.in[start:s.pos]}
}

func (m *module) functionSection(s *reader) {
	off := s.pos
	n := s.count("functions", m.limits.Functions)
	if !s.limit(off, "functions", n+m.impFuncs, m.limits.Functions) {
		return
	}
	start := s.pos
	for i := 0; i < n && s.ok(); i++ {
		m.funcTypes = append(m.funcTypes, s.index("type", len(m.types)))
	}
	m.funcBody = vector{n, m.in[start:s.pos]}
}

// limitsOf reads the limits of a table or memory; most is used when no maximum is declared.
func (s *reader) limitsOf(what string, most uint32) (low, high uint32, declared bool) {
	off := s.pos
	switch flag := s.u8(); {
	case !s.ok():
	case flag == 0:
		return s.u32(), most, false
	case flag == 1:
		low, high = s.u32(), s.u32()
		if s.ok() && low > high {
			s.errorf(off, "%s: minimum %d above maximum %d", what, low, high)
		}
		return low, high, true
	case flag == 2 || flag == 3:
		s.errorf(off, "shared %s (threads) is not part of WebAssembly core 2.0", what)
	case flag >= 4 && flag <= 7:
		s.errorf(off, "64-bit %s (memory64) is not part of WebAssembly core 2.0", what)
	case flag >= 8 && flag <= 15:
		s.errorf(off, "%s with a page size of its own (custom page sizes) is not part of WebAssembly core 2.0", what)
	default:
		s.errorf(off, "%s: limits flag 0x%02x", what, flag)
	}
	return 0, 0, false
}

// tableType reads a table's type and gives it with its maximum lowered to the limit: table.grow fails beyond, which the
// specification allows at any size.
func (m *module) tableType(s *reader) []byte {
	off := s.pos
	if off < s.end && m.in[off] == 0x40 {
		s.errorf(off, "a table with a first value (typed function references) is not part of WebAssembly core 2.0")
		return nil
	}
	t := s.refType()
	low, high, _ := s.limitsOf("table", math.MaxUint32)
	m.tables++
	if !s.limit(off, "tables", m.tables, m.limits.Tables) {
		return nil
	}
	m.elements += int(low)
	if !s.limit(off, "elements of tables", m.elements, m.limits.TableElements) || int(high) <= m.limits.TableElements {
		return m.in[off:s.pos]
	}
	out := appendUnsigned([]byte{byte(t), 1}, uint64(low))
	return appendUnsigned(out, uint64(m.limits.TableElements))
}

func (m *module) memoryType(s *reader) {
	off := s.pos
	low, high, _ := s.limitsOf("memory", 65536)
	if m.memories++; m.memories > 1 {
		s.errorf(off, "a second memory (multi-memory) is not part of WebAssembly core 2.0")
	}
	if s.ok() && high > 65536 {
		s.errorf(off, "memory of %d pages, the format's limit is 65536", high)
	}
	s.limit(off, PagesOfMemory, int(low), m.limits.MemoryPages)
	m.memMin, m.memMax = low, high
}

func (m *module) globalTypeOf(s *reader) globalType {
	if !s.limit(s.pos, "globals", len(m.globals)+1, m.limits.Globals) {
		return globalType{}
	}
	off := s.pos
	t := s.valueType()
	flag := s.u8()
	if s.ok() && flag > 1 {
		s.errorf(off, "global: mutability 0x%02x", flag)
	}
	if flag == 1 && (t == FuncRef || t == ExternRef) {
		m.hide(off, "mutable global of type "+t.String())
	}
	return globalType{t, flag == 1}
}

func (m *module) tableSection(s *reader) {
	n := s.count("tables", m.limits.Tables)
	var out []byte
	for i := 0; i < n && s.ok(); i++ {
		out = append(out, m.tableType(s)...)
	}
	m.tabBody = vector{n, out}
}

func (m *module) memorySection(s *reader) {
	n := s.count0("memories", 1<<30)
	start := s.pos
	for i := 0; i < n && s.ok(); i++ {
		m.memoryType(s)
	}
	m.memBody = vector{n, m.in[start:s.pos]}
}

func (m *module) globalSection(s *reader) {
	n := s.count("globals", m.limits.Globals)
	var out []byte
	for i := 0; i < n && s.ok(); i++ {
		start := s.pos
		g := m.globalTypeOf(s)
		out = append(out, m.in[start:s.pos]...)
		out = m.constant(s, out)
		m.globals = append(m.globals, g)
	}
	m.globBody = vector{n, out}
}

func (m *module) exportSection(s *reader) {
	n := s.count("exports", m.limits.Exports)
	var out []byte
	seen := make(map[string]bool, n)
	for i := 0; i < n && s.ok(); i++ {
		e := export{off: s.pos, name: s.name("export", m.limits.NameBytes)}
		e.kind = Kind(s.u8())
		mapped := uint32(0)
		switch e.kind {
		case KindFunc:
			e.index = s.index("function", len(m.funcTypes))
			mapped = m.shifted(e.index)
		case KindTable:
			e.index = s.index("table", m.tables)
			mapped = e.index
		case KindMemory:
			e.index = s.index("memory", m.memories)
			mapped = e.index
		case KindGlobal:
			e.index = s.index("global", len(m.globals))
			mapped = e.index
		case kindTag:
			s.errorf(e.off, "export %q of a tag (exceptions) is not of WebAssembly core 2.0", e.name)
		default:
			s.errorf(e.off, "export %q of kind %d is not of WebAssembly core 2.0", e.name, e.kind)
		}
		if len(e.name) >= len(ReservedPrefix) && e.name[:len(ReservedPrefix)] == ReservedPrefix {
			s.errorf(e.off, "export %q: names that start with %q are reserved", e.name, ReservedPrefix)
		}
		if seen[e.name] {
			s.errorf(e.off, "two exports named %q", e.name)
		}
		seen[e.name] = true
		out = append(appendName(out, e.name), byte(e.kind))
		out = appendUnsigned(out, uint64(mapped))
		m.exports = append(m.exports, e)
	}
	m.expBody = vector{n, out}
}
