package rewrite

import (
	"cmp"
	"slices"
)

// foldCap bounds what a head is charged for segments that may not run. Small bodies are charged once per head, which is
// the cheapest; in large ones (a Go guest's function is one loop around a br_table, of which an iteration runs a few
// instructions) the larger segments are charged where they begin, which keeps fuel close to what ran.
const foldCap = 256

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
	simple bool
}

type editKind byte

const (
	editCall    editKind = iota // replace [off, end) by op and the function's new index
	editHelper                  // replace [off, end) by a call of a helper
	editBefore                  // insert a call of a helper before the instruction
	editRefFunc                 // as editCall, for ref.func
	editBranch                  // branch within a loop (head): if that is doubled, labels above index are one further out
	editClose                   // end of a loop (head): if that is doubled, another end follows
)

type edit struct {
	kind     editKind
	off, end int
	index    uint32 // function of the output, helper, or label
	head     int
}

// plan is what the scan of one body found.
type plan struct {
	code     int // offset behind the locals
	segments []segment
	edits    []edit
	locals   int
	joins    int
	leaf     bool // no loop, call or sized operation
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

// scan decodes one body and plans its charges. leaves holds the cost of functions that their callers pay for; with nil
// the scan only finds out whether the body is such a leaf, and ends as soon as it is not.
func (m *module) scan(body span, leaves []int8, p *plan) error {
	r := &reader{b: m.in, pos: body.start, end: body.end}
	m.locals(r, p)
	p.code = r.pos
	p.segments = append(p.segments[:0], segment{off: r.pos})
	p.edits, p.joins, p.leaf = p.edits[:0], 0, true
	stack := make([]int, 1, 16) // for each open block, the head of what it contains
	cur := 0
	begin := func(head int) {
		cur = len(p.segments)
		if head < 0 {
			head = cur
		}
		p.segments = append(p.segments, segment{off: r.pos, head: head})
	}
	for r.ok() {
		off := r.pos
		op, sub, in := r.opcode()
		if !r.ok() {
			break
		}
		p.segments[cur].cost++
		switch op {
		case opCall, opRefFunc:
			f := r.index("function", len(m.funcTypes))
			p.call(m, op, f, off, r.pos, leaves, cur)
			if op == opCall {
				p.segments[stack[len(stack)-1]].simple = false
			}
			continue
		case prefixMisc:
			m.immediates(r, in)
			if m.sized(p, sub, in, off, r.pos) {
				p.segments[stack[len(stack)-1]].simple = false
			}
			continue
		case opBr, opBrIf, opBrTable:
			r.labels(op, len(stack))
			if head := stack[len(stack)-1]; head > 0 {
				own := slices.Index(stack, head) // the loop itself; what it contains follows
				p.edits = append(p.edits, edit{kind: editBranch, off: off, end: r.pos, head: head, index: uint32(len(stack) - 1 - own)})
			}
			continue
		}
		m.immediates(r, in)
		switch op {
		case opBlock:
			stack = append(stack, stack[len(stack)-1])
		case opLoop:
			p.leaf = false
			p.segments[stack[len(stack)-1]].simple = false
			begin(-1)
			p.segments[cur].loop, p.segments[cur].simple = off, true
			stack = append(stack, cur)
		case opIf:
			stack = append(stack, stack[len(stack)-1])
			begin(stack[len(stack)-1])
		case opElse:
			begin(stack[len(stack)-1])
		case opEnd:
			closed := stack[len(stack)-1]
			stack = stack[:len(stack)-1]
			if len(stack) == 0 {
				if r.pos != r.end {
					r.errorf(r.pos, "%d bytes behind the end of a function", r.end-r.pos)
				}
				return m.joinsOf(r, p, body)
			}
			if stack[len(stack)-1] != closed {
				p.edits = append(p.edits, edit{kind: editClose, off: r.pos, end: r.pos, head: closed})
			}
			begin(stack[len(stack)-1])
		case opCallIndirect:
			p.leaf = false
			p.segments[stack[len(stack)-1]].simple = false
			p.segments[cur].cost += indirectCallCost
		case opMemoryGrow:
			p.leaf = false
			p.segments[stack[len(stack)-1]].simple = false
			p.edits = append(p.edits, edit{kind: editBefore, off: off, end: off, index: helperGrow})
		case opTableSet:
			m.hide(off, in.name)
		}
		if op == opBlock || op == opLoop || op == opIf {
			p.joins++
			r.limit(off, "nested blocks", len(stack), m.limits.Depth)
		}
		if leaves == nil && (!p.leaf || p.total() > leafCost) {
			p.leaf = false
			return nil
		}
	}
	return r.fail
}

func (p *plan) call(m *module, op byte, f uint32, off, end int, leaves []int8, cur int) {
	kind := editRefFunc
	if op == opCall {
		kind, p.leaf = editCall, false
		if leaves != nil && int(f) < len(leaves) {
			p.segments[cur].cost += int64(leaves[f])
		}
	}
	if s := m.shifted(f); s != f {
		p.edits = append(p.edits, edit{kind: kind, off: off, end: end, index: s})
	}
}

// sized plans the charge of an operation whose work depends on an operand, and notes those that change hidden state.
// It reports whether the operation now calls a helper.
func (m *module) sized(p *plan, sub uint32, in instruction, off, end int) bool {
	e := edit{kind: editBefore, off: off, end: off, index: helperMemory}
	switch sub {
	case miscMemoryFill:
		e = edit{kind: editHelper, off: off, end: end, index: helperFill}
	case miscMemoryCopy:
		e = edit{kind: editHelper, off: off, end: end, index: helperCopy}
	case miscMemoryInit:
	case miscTableInit, miscTableCopy, miscTableGrow, miscTableFill:
		e.index = helperTable
		m.hide(off, in.name)
	case miscElemDrop, miscDataDrop:
		m.hide(off, in.name)
		return false
	default:
		return false
	}
	p.leaf = false
	p.edits = append(p.edits, e)
	return true
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

func (m *module) joinsOf(r *reader, p *plan, body span) error {
	r.limit(body.start, "locals times blocks", p.locals*p.joins, m.limits.LocalsByJoins)
	return r.fail
}
