package rewrite

// immediates reads what follows an opcode, for all instructions but branches. Indices that could reach what is injected
// (functions, types, globals) are checked here, as is that there is one memory only; all others are the engine's to
// check.
func (m *module) immediates(r *reader, in instruction) {
	switch in.imm {
	case immNone:
	case immBlock:
		m.blockType(r)
	case immLocal, immTable, immElem, immData:
		r.u32()
	case immFunc:
		r.index("function", len(m.funcTypes))
	case immIndirect:
		r.index("type", len(m.types))
		r.u32()
	case immGlobal:
		r.index("global", len(m.globals))
	case immMemory:
		zeroMemory(r, in)
	case immMemArg:
		memArg(r, in)
	case immMemArgLane:
		memArg(r, in)
		r.u8()
	case immI32:
		r.signed(32)
	case immI64:
		r.signed(64)
	case immF32:
		r.bytes(4)
	case immF64:
		r.bytes(8)
	case immRefType:
		r.refType()
	case immTypes:
		n := r.count("types of select", m.limits.Params)
		for i := 0; i < n && r.ok(); i++ {
			r.valueType()
		}
	case immLane:
		r.u8()
	case imm16:
		r.bytes(16)
	case immDataMem:
		r.u32()
		zeroMemory(r, in)
	case immMemMem:
		zeroMemory(r, in)
		zeroMemory(r, in)
	case immElemTable, immTableTable:
		r.u32()
		r.u32()
	}
}

func (m *module) blockType(r *reader) {
	off := r.pos
	if off < r.end && (r.b[off] == 0x40 || isValueType(ValueType(r.b[off]))) {
		r.pos++
		return
	}
	first := byte(0)
	if off < r.end {
		first = r.b[off]
	}
	t := r.signed(33)
	if r.ok() && t < 0 && laterType(first) != "" {
		r.errorf(off, "block type 0x%02x%s is not of WebAssembly core 2.0", first, laterType(first))
	}
	if r.ok() && (t < 0 || t >= int64(len(m.types))) {
		r.errorf(off, "block type %d, there are %d types", t, len(m.types))
	}
}

func zeroMemory(r *reader, in instruction) {
	off := r.pos
	if b := r.u8(); r.ok() && b != 0 {
		r.errorf(off, "%s of memory %d (multi-memory) is not part of WebAssembly core 2.0", in.name, b)
	}
}

func memArg(r *reader, in instruction) {
	off := r.pos
	align := r.u32()
	if r.ok() && align >= 32 {
		if align&^0x3f == 0x40 {
			r.errorf(off, "%s with a memory index (multi-memory) is not part of WebAssembly core 2.0", in.name)
		}
		r.errorf(off, "%s: alignment 2**%d", in.name, align)
	}
	r.u32()
}
