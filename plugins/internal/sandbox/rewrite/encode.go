package rewrite

import "slices"

// encoder assembles the output.
type encoder struct {
	m       *module
	code    asm
	leaves  []int8 // cost of functions that their callers pay for, by index of the input; 0 for all others
	helpers [helperCount]uint32
	added   []uint32 // types of the functions behind the input's
	bodies  [][]byte // their bodies
	labels  []string // their names
	types   []Signature
	numbers map[string]uint32 // of types, by their text
}

func (m *module) encode() ([]byte, error) {
	e := &encoder{m: m, leaves: make([]int8, len(m.funcTypes)), numbers: map[string]uint32{}}
	e.code.fuel = uint64(len(m.globals))
	e.code.depth = e.code.fuel + 1
	e.code.tick = uint64(m.impFuncs)
	tick := e.typeIndex(Signature{})
	if err := e.findLeaves(); err != nil {
		return nil, err
	}
	// Bodies first: they decide which helpers there are.
	if err := e.functions(); err != nil {
		return nil, err
	}
	exports := e.exports()
	body := e.allBodies()

	out := []byte("\x00asm\x01\x00\x00\x00")
	out = appendVector(out, secType, e.typeSection())
	imp := append(slices.Clip(m.impBody.body), "\x03tgi\x04tick\x00"...)
	out = appendVector(out, secImport, vector{m.impBody.n + 1, appendUnsigned(imp, uint64(tick))})
	fns := slices.Clip(m.funcBody.body)
	for _, t := range e.added {
		fns = appendUnsigned(fns, uint64(t))
	}
	out = appendVector(out, secFunction, vector{m.funcBody.n + len(e.added), fns})
	out = appendVector(out, secTable, m.tabBody)
	out = appendVector(out, secMemory, m.memBody)
	globals := append(slices.Clip(m.globBody.body), byte(I64), 1, opI64Const, 0, opEnd, byte(I32), 1, opI32Const, 0,
		opEnd)
	out = appendVector(out, secGlobal, vector{m.globBody.n + 2, globals})
	out = appendVector(out, secExport, exports)
	out = appendVector(out, secElement, m.elemBody)
	if m.dataCount >= 0 {
		out = appendSection(out, secDataCount, appendUnsigned(nil, uint64(m.dataCount)))
	}
	out = appendVector(out, secCode, body)
	out = appendVector(out, secData, m.dataBody)
	if names := e.names(); names != nil {
		out = appendSection(out, secCustom, append(appendName(nil, "name"), names...))
	}
	if len(out) > m.limits.OutputBytes {
		return nil, &LimitError{What: "bytes of rewritten module", Limit: m.limits.OutputBytes, Value: len(out)}
	}
	return out, nil
}

func appendVector(out []byte, id byte, v vector) []byte {
	if v.n == 0 {
		return out
	}
	head := appendUnsigned(nil, uint64(v.n))
	out = append(out, id)
	out = appendUnsigned(out, uint64(len(head)+len(v.body)))
	out = append(out, head...)
	return append(out, v.body...)
}

// typeIndex returns the index of a type among those added behind the input's.
func (e *encoder) typeIndex(s Signature) uint32 {
	text := s.String()
	i, ok := e.numbers[text]
	if !ok {
		i = uint32(len(e.m.types) + len(e.types))
		e.types = append(e.types, s)
		e.numbers[text] = i
	}
	return i
}

func (e *encoder) typeSection() vector {
	b := slices.Clip(e.m.typeBody.body)
	for _, s := range e.types {
		b = append(b, 0x60)
		for _, list := range [][]ValueType{s.Params, s.Results} {
			b = appendUnsigned(b, uint64(len(list)))
			for _, t := range list {
				b = append(b, byte(t))
			}
		}
	}
	return vector{e.m.typeBody.n + len(e.types), b}
}

func (e *encoder) findLeaves() error {
	var p plan
	for i, body := range e.m.bodies {
		if err := e.m.scan(body, nil, &p); err != nil {
			return err
		}
		if p.leaf {
			e.leaves[e.m.impFuncs+i] = int8(p.total() + entryCost)
		}
	}
	return nil
}

// functions writes the bodies of the input, each behind its size, to e.code.
func (e *encoder) functions() error {
	var p plan
	out := asm{fuel: e.code.fuel, depth: e.code.depth, tick: e.code.tick}
	for i, body := range e.m.bodies {
		if err := e.m.scan(body, e.leaves, &p); err != nil {
			return err
		}
		p.segments[0].cost += entryCost
		p.fold()
		out.b = out.b[:0]
		e.body(&out, body, &p, e.m.impFuncs+i)
		e.code.b = appendUnsigned(e.code.b, uint64(len(out.b)))
		e.code.b = append(e.code.b, out.b...)
		if len(e.code.b) > e.m.limits.OutputBytes {
			return &LimitError{What: "bytes of rewritten code", Limit: e.m.limits.OutputBytes, Value: len(e.code.b),
				Offset: body.start}
		}
	}
	return nil
}

// body writes function f: the input's bytes with edits and charges merged in by offset.
func (e *encoder) body(out *asm, body span, p *plan, f int) {
	sig := e.m.types[e.m.funcTypes[f]]
	frame := frameBytes(len(sig.Params)+p.locals, body.end-body.start)
	at := body.start
	upTo := func(off int) {
		out.b = append(out.b, e.m.in[at:off]...)
		at = off
	}
	segs, edits := p.segments, p.edits
	if e.leaves[f] > 0 { // its callers pay
		segs = nil
	}
	for s := 0; s < len(segs) || len(edits) > 0; {
		if s < len(segs) && (len(edits) == 0 || segs[s].off < edits[0].off || segs[s].off == edits[0].off &&
			edits[0].kind != editClose) {
			if seg := &segs[s]; seg.head == s || !seg.folded {
				upTo(seg.off)
				if s == 0 && p.calls {
					out.enter(seg.cost, frame, e.blockType(sig.Results))
				} else {
					e.charge(out, seg, seg.head == s)
				}
			}
			s++
			continue
		}
		x := edits[0]
		edits = edits[1:]
		upTo(x.off)
		switch x.kind {
		case editCall:
			out.at(opCall, uint64(x.index))
		case editRefFunc:
			out.at(opRefFunc, uint64(x.index))
		case editHelper, editBefore:
			out.at(opCall, uint64(e.helperIndex(int(x.index))))
		case editBranch:
			if !p.segments[x.head].simple {
				continue
			}
			e.branch(out, x)
		case editReturn:
			if !p.calls {
				continue
			}
			if p.segments[x.head].simple { // doubled: one label more
				x.index++
			}
			out.at(opBr, uint64(x.index))
		case editClose:
			if p.segments[x.head].simple {
				out.op(opEnd)
			}
		}
		at = x.end
	}
	upTo(body.end)
	if p.calls {
		out.leave(frame)
	}
}

// blockType returns the type of a block that takes nothing and leaves results.
func (e *encoder) blockType(results []ValueType) []byte {
	switch len(results) {
	case 0:
		return []byte{blockVoid}
	case 1:
		return []byte{byte(results[0])}
	}
	return appendSigned(nil, int64(e.typeIndex(Signature{Results: results})))
}

// charge writes the charge of a segment. A simple loop is doubled:
//
//	loop t            ;; the input's, now left only to call tick
//	  (fuel < cost: fuel -= cost, tick, fuel += cost)
//	  loop t          ;; a copy of it, the target of the body's branches
//	    fuel < cost: branch to the outer loop
//	    fuel -= cost
//	    body
//	  end
//	end
//
// so that the loop that runs holds no call: around a call, the compiler would have to reload the memory's base and
// every global, and to keep nothing in most registers. (Mask walk in C: 1.4 times plain without, 1.2 with this.)
func (e *encoder) charge(out *asm, seg *segment, head bool) {
	if !seg.simple {
		out.deduct(seg.cost)
		if head {
			out.check()
		}
		return
	}
	out.below(seg.cost)
	out.block(opIf)
	out.deduct(seg.cost)
	out.at(opCall, out.tick)
	out.deduct(-seg.cost)
	out.op(opEnd)
	out.b = append(out.b, e.m.in[seg.loop:seg.off]...)
	out.below(seg.cost)
	out.branchIf(1)
	out.deduct(seg.cost)
}

// branch writes a branch that stands in a doubled loop: labels beyond the loop's own, x.index, are one further out.
func (e *encoder) branch(out *asm, x edit) {
	r := &reader{b: e.m.in, pos: x.off, end: x.end}
	op := r.u8()
	out.op(op)
	labels := 1
	if op == opBrTable {
		n := r.u32()
		out.b = appendUnsigned(out.b, uint64(n))
		labels = int(n) + 1
	}
	for range labels {
		label := r.u32()
		if label > x.index {
			label++
		}
		out.b = appendUnsigned(out.b, uint64(label))
	}
}

// helperIndex returns a helper's function index, adding it at its first use.
func (e *encoder) helperIndex(which int) uint32 {
	if e.helpers[which] == 0 {
		sig := Signature{Params: []ValueType{I32}, Results: []ValueType{I32}}
		if which == helperFill || which == helperCopy {
			sig = Signature{Params: []ValueType{I32, I32, I32}}
		}
		a := asm{fuel: e.code.fuel, tick: e.code.tick}
		a.helper(which, min(e.m.memMax, uint32(e.m.limits.MemoryPages)))
		e.helpers[which] = e.add(sig, a.b, helperNames[which])
	}
	return e.helpers[which]
}

// add appends a function and gives its index.
func (e *encoder) add(sig Signature, body []byte, label string) uint32 {
	e.added = append(e.added, e.typeIndex(sig))
	e.bodies = append(e.bodies, body)
	e.labels = append(e.labels, label)
	return uint32(len(e.m.funcTypes) + len(e.added)) // the tick import counts too
}

// exports returns the export section: the input's, the fuel global, the start function, mutable globals and accessors.
func (e *encoder) exports() vector {
	v := vector{e.m.expBody.n, slices.Clip(e.m.expBody.body)}
	put := func(name string, kind Kind, index uint32) {
		v.n++
		v.body = append(appendName(v.body, name), byte(kind))
		v.body = appendUnsigned(v.body, uint64(index))
	}
	put(FuelGlobal, KindGlobal, uint32(e.code.fuel))
	put(DepthGlobal, KindGlobal, uint32(e.code.depth))
	if e.m.start >= 0 {
		// Through a wrapper: to export the function itself would declare it for ref.func.
		a := asm{}
		a.op(0)
		a.at(opCall, uint64(e.m.shifted(uint32(e.m.start))))
		a.op(opEnd)
		put(StartFunc, KindFunc, e.add(Signature{}, a.b, StartFunc))
	}
	pair := []ValueType{I64, I64}
	for i, g := range e.m.globals {
		if !g.mutable {
			continue
		}
		put(numbered(globalPrefix, i), KindGlobal, uint32(i))
		if g.t == V128 {
			get, set := accessors(uint64(i))
			put(numbered(getV128Prefix, i), KindFunc, e.add(Signature{Results: pair}, get, numbered(getV128Prefix, i)))
			put(numbered(setV128Prefix, i), KindFunc, e.add(Signature{Params: pair}, set, numbered(setV128Prefix, i)))
		}
	}
	return v
}

// accessors returns the bodies that read and write a v128 global as two i64 lanes.
func accessors(global uint64) (get, set []byte) {
	const splat, extract, replace = 0x12, 0x1d, 0x1e // i64x2
	var g, s asm
	g.op(0)
	for lane := byte(0); lane < 2; lane++ {
		g.at(opGlobalGet, global)
		g.op(prefixSIMD, extract, lane)
	}
	g.op(opEnd)
	s.op(0, opLocalGet, 0, prefixSIMD, splat, opLocalGet, 1, prefixSIMD, replace, 1)
	s.at(opGlobalSet, global)
	s.op(opEnd)
	return g.b, s.b
}

func (e *encoder) allBodies() vector {
	b := e.code.b
	for _, x := range e.bodies {
		b = appendUnsigned(b, uint64(len(x)))
		b = append(b, x...)
	}
	return vector{len(e.m.bodies) + len(e.bodies), b}
}
