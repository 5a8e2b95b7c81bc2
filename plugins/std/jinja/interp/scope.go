package interp

import "strconv"

// function is one function of the Python code that jinja2 would generate: the
// template, a block, a macro, a recursive loop, the test of a loop. Its slots
// are that function's local variables.
type function struct {
	parent *function
	slots  map[string]int
}

func newFunction(parent *function) *function {
	return &function{parent: parent, slots: map[string]int{}}
}

// slot gives the place of a local variable.
func (f *function) slot(ident string) int {
	i, ok := f.slots[ident]
	if !ok {
		i = len(f.slots)
		f.slots[ident] = i
	}
	return i
}

// varRef is a local variable of a function.
type varRef struct {
	fn   *function
	slot int
}

// slotRef is a variable seen from inside a function: up counts the functions outwards.
type slotRef struct{ up, slot int }

// from gives the way to r from inside f.
func (r varRef) from(f *function) slotRef {
	up := 0
	for f != r.fn && f.parent != nil {
		f = f.parent
		up++
	}
	return slotRef{up, r.slot}
}

// loadKind says what a variable is set to when its frame is entered.
type loadKind uint8

const (
	loadParam   loadKind = iota // set by the caller
	loadResolve                 // looked up in the context by name
	loadAlias                   // copied from an outer frame
	loadUndef                   // nothing yet
)

type load struct {
	kind  loadKind
	name  string
	alias varRef
}

// symbols is jinja2's idtracking.Symbols: what each name of a frame refers to.
type symbols struct {
	level  int
	parent *symbols
	fn     *function
	refs   map[string]varRef
	loads  map[varRef]load
	order  []varRef // of loads, by first appearance
	stores map[string]bool
}

func newSymbols(parent *symbols, f *function) *symbols {
	s := &symbols{parent: parent, fn: f, refs: map[string]varRef{}, loads: map[varRef]load{}, stores: map[string]bool{}}
	if parent != nil {
		s.level = parent.level + 1
	}
	return s
}

func (s *symbols) define(name string) varRef {
	r := varRef{s.fn, s.fn.slot(strconv.Itoa(s.level) + name)}
	s.refs[name] = r
	return r
}

func (s *symbols) setLoad(r varRef, l load) {
	if _, ok := s.loads[r]; !ok {
		s.order = append(s.order, r)
	}
	s.loads[r] = l
}

func (s *symbols) find(name string) (varRef, bool) {
	for ; s != nil; s = s.parent {
		if r, ok := s.refs[name]; ok {
			return r, true
		}
	}
	return varRef{}, false
}

func (s *symbols) store(name string) {
	s.stores[name] = true
	if _, ok := s.refs[name]; ok {
		return
	}
	if s.parent != nil {
		if outer, ok := s.parent.find(name); ok {
			s.setLoad(s.define(name), load{kind: loadAlias, alias: outer})
			return
		}
	}
	s.setLoad(s.define(name), load{kind: loadUndef})
}

func (s *symbols) param(name string) varRef {
	s.stores[name] = true
	r := s.define(name)
	s.setLoad(r, load{kind: loadParam})
	return r
}

func (s *symbols) load(name string) {
	if _, ok := s.find(name); !ok {
		s.setLoad(s.define(name), load{kind: loadResolve, name: name})
	}
}

func (s *symbols) clone() *symbols {
	c := newSymbols(nil, s.fn)
	c.level, c.parent = s.level, s.parent
	for k, v := range s.refs {
		c.refs[k] = v
	}
	for _, r := range s.order {
		c.setLoad(r, s.loads[r])
	}
	for k := range s.stores {
		c.stores[k] = true
	}
	return c
}

// merge takes over what the branches of an if did: a name that only some of
// them set is looked up outside before the if.
func (s *symbols) merge(branches ...*symbols) {
	var fresh []string
	seen := map[string]bool{}
	for _, b := range branches {
		for name := range b.stores {
			if !s.stores[name] && !seen[name] {
				seen[name] = true
				fresh = append(fresh, name)
			}
		}
	}
	for _, b := range branches {
		for k, v := range b.refs {
			s.refs[k] = v
		}
		for _, r := range b.order {
			s.setLoad(r, b.loads[r])
		}
		for name := range b.stores {
			s.stores[name] = true
		}
	}
	for _, name := range fresh {
		r, _ := s.find(name)
		if s.parent != nil {
			if outer, ok := s.parent.find(name); ok {
				s.setLoad(r, load{kind: loadAlias, alias: outer})
				continue
			}
		}
		s.setLoad(r, load{kind: loadResolve, name: name})
	}
}

// frame is what a scope does when it is entered and left.
type frame struct {
	fn    *function
	loads []frameLoad
}

type frameLoad struct {
	slot  int
	kind  loadKind
	name  string
	alias slotRef
}

// frame fixes the loads of s for running.
func (s *symbols) frame() *frame {
	f := &frame{fn: s.fn}
	for _, r := range s.order {
		l := s.loads[r]
		fl := frameLoad{slot: r.slot, kind: l.kind, name: l.name}
		if l.kind == loadAlias {
			fl.alias = l.alias.from(s.fn)
		}
		f.loads = append(f.loads, fl)
	}
	return f
}
