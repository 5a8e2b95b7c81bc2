package rewrite

import (
	"cmp"
	"slices"
)

// foldCap bounds what a head is charged for segments that may not run. Small bodies are charged once per head, which is
// the cheapest; in large ones (a Go guest's function is one loop around a br_table, of which an iteration runs a few
// instructions) the larger segments are charged where they begin, which keeps fuel close to what ran.
const foldCap = 64

// segment is a stretch of a body that is entered only at its beginning: the start of the function, of a loop, of a
// branch of an if, or what follows an end. Whoever runs an instruction has passed its segment's beginning.
//
// A head (function entry or loop header) is always charged, and there the slice is checked. Between two heads passed,
// each other segment runs at most once, because only loop headers are the target of a backward branch. So charging a
// segment at its own beginning or at the head of its innermost loop are both upper bounds of what runs.
type segment struct {
	off    int // where its charge goes
	cost   int64
	head   int // index of its head; its own for a head
	folded bool
	// Of a loop's head: where the loop instruction stands, and whether its body is simple: no other loop, no call. A
	// simple loop is doubled, see encoder.loop.
	loop   int
	depth  int // blocks around it, the function's included
	simple bool
}

type editKind byte

const (
	editCall    editKind = iota // replace [off, end) by op and the function's new index
	editHelper                  // replace [off, end) by a call of a helper
	editBefore                  // insert a call of a helper before the instruction
	editRefFunc                 // as editCall, for ref.func
	// branch within a loop (head): if that is doubled, labels above index are one further out
	editBranch
	editReturn // replace [off, end) by a branch to label index, where the body is wrapped
	editClose  // end of a loop (head): if that is doubled, another end follows
)

type edit struct {
	kind     editKind
	off, end int
	index    uint32 // function of the output, helper, or label
	head     int
}

// plan is what the scan of one body found.
type plan struct {
	segments []segment
	edits    []edit
	locals   int
	joins    int
	leaf     bool // no loop, call or sized operation
	calls    bool // holds a call: its depth is counted
}

func (p *plan) total() (sum int64) {
	for i := range p.segments {
		sum += p.segments[i].cost
	}
	return sum
}

// fold decides which segments are charged at their head: the smallest first, up to foldCap.
func (p *plan) fold() {
	var rest []int
	for i, s := range p.segments {
		if s.head != i {
			rest = append(rest, i)
		}
	}
	slices.SortFunc(rest, func(a, b int) int {
		return cmp.Or(cmp.Compare(p.segments[a].cost, p.segments[b].cost), cmp.Compare(a, b))
	})
	for _, i := range rest {
		s := &p.segments[i]
		if h := &p.segments[s.head]; s.cost == 0 || h.cost+s.cost <= foldCap {
			h.cost += s.cost
			s.folded = true
		}
	}
}

// scanner walks one body and fills its plan.
type scanner struct {
	m      *module
	r      *reader
	p      *plan
	leaves []int8
	heads  []int // for each open block, the head of what it contains; the function's own first
	cur    int   // segment that the next instruction belongs to
}

// scan decodes one body and plans its charges. leaves holds the cost of functions that their callers pay for; with nil
// the scan only finds out whether the body is such a leaf, and ends as soon as it is not.
func (m *module) scan(body span, leaves []int8, p *plan) error {
	s := &scanner{m: m, r: &reader{b: m.in, pos: body.start, end: body.end}, p: p, leaves: leaves,
		heads: make([]int, 1, 16)}
	m.locals(s.r, p)
	p.segments = append(p.segments[:0], segment{off: s.r.pos})
	p.edits, p.joins, p.leaf, p.calls = p.edits[:0], 0, true, false
	for s.r.ok() && len(s.heads) > 0 {
		s.instruction()
		if leaves == nil && (!p.leaf || p.total() > leafCost) {
			p.leaf = false
			return s.r.fail
		}
	}
	if s.r.ok() && s.r.pos != s.r.end {
		s.r.errorf(s.r.pos, "%d bytes behind the end of a function", s.r.end-s.r.pos)
	}
	s.r.limit(body.start, "locals times blocks", p.locals*p.joins, m.limits.LocalsByJoins)
	return s.r.fail
}

func (s *scanner) head() int { return s.heads[len(s.heads)-1] }

// begin starts a segment behind what was read. A head of -1 makes it one itself.
func (s *scanner) begin(head int) {
	s.cur = len(s.p.segments)
	if head < 0 {
		head = s.cur
	}
	s.p.segments = append(s.p.segments, segment{off: s.r.pos, head: head})
}

// calls notes that the innermost loop, and the function, hold a call.
func (s *scanner) calls() {
	s.p.leaf = false
	s.p.segments[s.head()].simple = false
}

func (s *scanner) instruction() {
	r, p := s.r, s.p
	off := r.pos
	op, sub, in := r.opcode()
	if !r.ok() {
		return
	}
	p.segments[s.cur].cost += in.cost
	switch op {
	case opBr, opBrIf, opBrTable:
		r.labels(op, len(s.heads))
		if head := s.head(); head > 0 {
			beyond := len(s.heads) - 1 - p.segments[head].depth // the loop's own label
			p.edits = append(p.edits, edit{kind: editBranch, off: off, end: r.pos, head: head, index: uint32(beyond)})
		}
		return
	case opReturn:
		p.edits = append(p.edits, edit{kind: editReturn, off: off, end: r.pos, head: s.head(),
			index: uint32(len(s.heads) - 1)})
		return
	case opCall, opRefFunc:
		s.function(op, off)
		return
	}
	s.m.immediates(r, in)
	switch op {
	case opBlock, opLoop, opIf, opElse, opEnd:
		s.structure(op, off)
	case prefixMisc:
		s.sized(sub, in, off)
	case opCallIndirect:
		s.calls()
		p.calls = true
		p.segments[s.cur].cost += indirectCallCost
	case opMemoryGrow:
		s.calls()
		p.edits = append(p.edits, edit{kind: editBefore, off: off, end: off, index: helperGrow})
	case opTableSet:
		s.m.hide(off, in.name)
	}
}

// structure follows the blocks.
func (s *scanner) structure(op byte, off int) {
	switch op {
	case opBlock:
		s.heads = append(s.heads, s.head())
	case opLoop:
		s.calls() // its tick
		s.begin(-1)
		seg := &s.p.segments[s.cur]
		seg.loop, seg.simple, seg.depth = off, true, len(s.heads)
		s.heads = append(s.heads, s.cur)
	case opIf:
		s.heads = append(s.heads, s.head())
		s.begin(s.head())
	case opElse:
		s.begin(s.head())
	case opEnd:
		closed := s.head()
		if s.heads = s.heads[:len(s.heads)-1]; len(s.heads) == 0 {
			return
		}
		if s.head() != closed {
			s.p.edits = append(s.p.edits, edit{kind: editClose, off: s.r.pos, end: s.r.pos, head: closed})
		}
		s.begin(s.head())
	}
	if op == opBlock || op == opLoop || op == opIf {
		s.p.joins++
		s.r.limit(off, "nested blocks", len(s.heads), s.m.limits.Depth)
	}
}

// function reads the index of a call or ref.func, which changes.
func (s *scanner) function(op byte, off int) {
	f := s.r.index("function", len(s.m.funcTypes))
	kind := editRefFunc
	if op == opCall {
		kind = editCall
		s.calls()
		s.p.calls = true
		if int(f) < len(s.leaves) {
			s.p.segments[s.cur].cost += int64(s.leaves[f])
		}
	}
	if to := s.m.shifted(f); to != f {
		s.p.edits = append(s.p.edits, edit{kind: kind, off: off, end: s.r.pos, index: to})
	}
}

// sized plans the charge of an operation whose work depends on an operand, and notes those that change hidden state.
func (s *scanner) sized(sub uint32, in instruction, off int) {
	end := s.r.pos
	e := edit{kind: editBefore, off: off, end: off, index: helperMemory}
	switch sub {
	case miscMemoryFill:
		e = edit{kind: editHelper, off: off, end: end, index: helperFill}
	case miscMemoryCopy:
		e = edit{kind: editHelper, off: off, end: end, index: helperCopy}
	case miscMemoryInit:
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		e.index = helperTable
		s.m.hide(off, in.name)
	case miscElemDrop, miscDataDrop:
		s.m.hide(off, in.name)
		return
	default:
		return
	}
	s.calls()
	s.p.edits = append(s.p.edits, e)
}

// labels reads the labels of a branch. They are checked here because editBranch changes them.
func (r *reader) labels(op byte, depth int) {
	n := 1
	if op == opBrTable {
		n += r.count("labels", r.end-r.pos)
	}
	for i := 0; i < n && r.ok(); i++ {
		r.index("label", depth)
	}
}

func (m *module) locals(r *reader, p *plan) {
	off := r.pos
	groups := r.count("groups of locals", m.limits.BodyBytes)
	p.locals = 0
	for i := 0; i < groups && r.ok(); i++ {
		n := int(r.u32())
		p.locals += n
		r.limit(off, "locals", p.locals, m.limits.Locals)
		r.valueType()
	}
}
