package rewrite

// Subsections of the name section that are kept; locals, labels and the rest serve debuggers only.
const (
	nameModule    = 0
	nameFunctions = 1
)

// names returns the body of the output's name section: the module's name and the functions', by their new indices,
// which traps print. A malformed section is ignored, as the specification asks, in whole.
func (e *encoder) names() []byte {
	module, functions, ok := e.inputNames()
	if !ok {
		module, functions = nil, vector{}
	}
	for i, label := range e.labels {
		functions.body = appendUnsigned(functions.body, uint64(len(e.m.funcTypes)+1+i))
		functions.body = appendName(functions.body, label)
		functions.n++
	}
	var out []byte
	if module != nil {
		out = appendSection(out, nameModule, module)
	}
	return appendVector(out, nameFunctions, functions)
}

func (e *encoder) inputNames() (module []byte, functions vector, ok bool) {
	r := &reader{b: e.m.in, pos: e.m.names.start, end: e.m.names.end}
	last := -1
	for r.ok() && r.pos < r.end {
		id := r.u8()
		s := r.sub(int(r.u32()))
		if int(id) <= last {
			return nil, vector{}, false
		}
		last = int(id)
		switch id {
		case nameModule:
			start := s.pos
			if s.name("module", e.m.limits.ModuleBytes); s.ok() && s.pos == s.end {
				module = e.m.in[start:s.pos]
			}
		case nameFunctions:
			functions = e.functionNames(s)
		}
		if !s.ok() || (id == nameModule || id == nameFunctions) && s.pos != s.end {
			return nil, vector{}, false
		}
	}
	return module, functions, r.ok()
}

func (e *encoder) functionNames(s *reader) vector {
	n := s.count("names", s.end-s.pos)
	var out []byte
	next := uint64(0)
	for i := 0; i < n && s.ok(); i++ {
		f := s.u32()
		name := s.name("function", e.m.limits.ModuleBytes)
		if uint64(f) < next || int(f) >= len(e.m.funcTypes) {
			s.errorf(s.pos, "bad entry in the name section")
		}
		next = uint64(f) + 1
		out = appendUnsigned(out, uint64(e.m.shifted(f)))
		out = appendName(out, name)
	}
	return vector{n, out}
}
