package rewrite

// constant copies a constant expression to out, function indices shifted. Its type is the engine's to check.
func (m *module) constant(s *reader, out []byte) []byte {
	for s.ok() {
		start := s.pos
		op, sub, in := s.opcode()
		if !s.ok() {
			break
		}
		switch {
		case op == opEnd:
			return append(out, opEnd)
		case op == opRefFunc:
			out = append(out, opRefFunc)
			out = appendUnsigned(out, uint64(m.shifted(s.index("function", len(m.funcTypes)))))
			continue
		case op == opGlobalGet:
			s.index("global", len(m.globals))
		case op == opI32Const, op == opI64Const, op == opF32Const, op == opF64Const, op == opRefNull,
			op == prefixSIMD && sub == simdV128Const:
			m.immediates(s, in)
		default:
			s.errorf(start, "%s in a constant expression (extended constants are not part of WebAssembly core 2.0)",
				in.name)
		}
		if s.ok() {
			out = append(out, m.in[start:s.pos]...)
		}
	}
	return out
}

func (m *module) elementSection(s *reader) {
	n := s.count("element segments", m.limits.Segments)
	var out []byte
	for i := 0; i < n && s.ok(); i++ {
		out = m.element(s, out)
	}
	m.elemBody = vector{n, out}
}

// element copies one element segment. The low bits of its flag say: 1 passive or declarative, 2 explicit table or
// declarative, 4 expressions in place of function indices.
func (m *module) element(s *reader, out []byte) []byte {
	off := s.pos
	flag := s.u32()
	if s.ok() && flag > 7 {
		s.errorf(off, "element segment of kind %d", flag)
		return out
	}
	out = appendUnsigned(out, uint64(flag))
	if flag&1 == 0 {
		if flag&2 != 0 {
			out = appendUnsigned(out, uint64(s.u32()))
		}
		out = m.constant(s, out)
	}
	if flag&3 != 0 {
		at := s.pos
		kind := s.u8()
		out = append(out, kind)
		if flag&4 == 0 && s.ok() && kind != 0 {
			s.errorf(at, "element kind 0x%02x", kind)
		}
		if flag&4 != 0 && s.ok() && ValueType(kind) != FuncRef && ValueType(kind) != ExternRef {
			s.errorf(at, "element type 0x%02x%s is not of WebAssembly core 2.0", kind, laterType(kind))
		}
	}
	count := s.count("elements of a segment", m.limits.TableElements)
	out = appendUnsigned(out, uint64(count))
	for j := 0; j < count && s.ok(); j++ {
		if flag&4 != 0 {
			out = m.constant(s, out)
		} else {
			out = appendUnsigned(out, uint64(m.shifted(s.index("function", len(m.funcTypes)))))
		}
	}
	return out
}

func (m *module) dataSection(s *reader) {
	n := s.count("data segments", m.limits.Segments)
	var out []byte
	for i := 0; i < n && s.ok(); i++ {
		off := s.pos
		flag := s.u32()
		out = appendUnsigned(out, uint64(flag))
		switch flag {
		case 0:
			out = m.constant(s, out)
		case 1:
		case 2:
			if mem := s.u32(); s.ok() && mem != 0 {
				s.errorf(off, "data segment for memory %d (multi-memory) is not part of WebAssembly core 2.0", mem)
			}
			out = append(out, 0)
			out = m.constant(s, out)
		default:
			s.errorf(off, "data segment of kind %d", flag)
		}
		size := int(s.u32())
		out = appendUnsigned(out, uint64(size))
		out = append(out, s.bytes(size)...)
	}
	m.dataBody = vector{n, out}
}

func (m *module) codeSection(s *reader) {
	n := s.count("function bodies", m.limits.Functions)
	if defined := len(m.funcTypes) - m.impFuncs; s.ok() && n != defined {
		s.errorf(s.pos, "%d function bodies for %d functions", n, defined)
	}
	m.bodies = make([]span, 0, n)
	for i := 0; i < n && s.ok(); i++ {
		off := s.pos
		size := int(s.u32())
		if !s.limit(off, "bytes of function body", size, m.limits.BodyBytes) {
			return
		}
		start := s.pos
		s.bytes(size)
		m.bodies = append(m.bodies, span{start, s.pos})
	}
}
