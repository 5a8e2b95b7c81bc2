package rewrite

// The helpers: functions appended behind the input's, each present only if a body calls it. They charge for work whose
// size is an operand, and leave the operands as they found them.
const (
	helperMemory = iota // (n i32) -> n: charges n bytes
	helperTable         // (n i32) -> n: charges n elements
	helperGrow          // (n i32) -> n: charges n pages
	helperFill          // (d, v, n i32): memory.fill, in pieces
	helperCopy          // (d, s, n i32): memory.copy, in pieces
	helperCount
)

var helperNames = [helperCount]string{"tgi.charge_memory", "tgi.charge_table", "tgi.charge_grow", "memory.fill",
	"memory.copy"}

// Opcodes that only injected code needs.
const (
	opI32GtU     = 0x4b
	opI32LeU     = 0x4d
	opI64LtS     = 0x53
	opI64GtU     = 0x56
	opI32Add     = 0x6a
	opI32Sub     = 0x6b
	opI32Or      = 0x72
	opI64Add     = 0x7c
	opI64Sub     = 0x7d
	opI64Shl     = 0x86
	opI64ShrU    = 0x88
	opI64ExtendU = 0xad
	blockVoid    = 0x40
)

// asm writes instructions of the output.
type asm struct {
	b     []byte
	fuel  uint64 // index of the fuel global
	depth uint64 // index of the depth global
	tick  uint64 // index of the tick import
}

func (a *asm) op(ops ...byte)          { a.b = append(a.b, ops...) }
func (a *asm) at(op byte, i uint64)    { a.b = appendUnsigned(append(a.b, op), i) }
func (a *asm) i32(v int32)             { a.b = appendSigned(append(a.b, opI32Const), int64(v)) }
func (a *asm) i64(v int64)             { a.b = appendSigned(append(a.b, opI64Const), v) }
func (a *asm) get(local byte)          { a.op(opLocalGet, local) }
func (a *asm) wide(local byte)         { a.op(opLocalGet, local, opI64ExtendU) }
func (a *asm) set(local byte)          { a.op(opLocalSet, local) }
func (a *asm) bulk(sub byte, n int)    { a.op(prefixMisc, sub); a.b = append(a.b, make([]byte, n)...) }
func (a *asm) block(op byte)           { a.op(op, blockVoid) }
func (a *asm) branchIf(depth byte)     { a.op(opBrIf, depth) }
func (a *asm) add(local byte, n int32) { a.get(local); a.i32(n); a.op(opI32Add); a.set(local) }

// deduct takes a constant from the slice without a look at what is left.
func (a *asm) deduct(cost int64) {
	a.at(opGlobalGet, a.fuel)
	a.i64(cost)
	a.op(opI64Sub)
	a.at(opGlobalSet, a.fuel)
}

// below pushes whether less than cost is left.
func (a *asm) below(cost int64) {
	a.at(opGlobalGet, a.fuel)
	a.i64(cost)
	a.op(opI64LtS)
}

// check calls tick when the slice is used up.
func (a *asm) check() {
	a.below(0)
	a.block(opIf)
	a.at(opCall, a.tick)
	a.op(opEnd)
}

// deepen adds to the depth.
func (a *asm) deepen(by int) {
	a.at(opGlobalGet, a.depth)
	a.i32(int32(by))
	a.op(opI32Add)
	a.at(opGlobalSet, a.depth)
}

// enter begins a body that calls: it charges cost, counts the frame, calls tick when the slice is used up or the stack
// is too deep, and opens a block of the function's results (its type in the binary form), which takes the place of the
// function's own label. leave ends it.
func (a *asm) enter(cost int64, frame int, results []byte) {
	a.deduct(cost)
	a.deepen(frame)
	a.below(0)
	a.at(opGlobalGet, a.depth)
	a.i32(StackBytes)
	a.op(opI32GtU, opI32Or)
	a.block(opIf)
	a.at(opCall, a.tick)
	a.op(opEnd, opBlock)
	a.b = append(a.b, results...)
}

// leave follows the end of the block that enter opened.
func (a *asm) leave(frame int) {
	a.deepen(-frame)
	a.op(opEnd)
}

// deductLocal takes what local (an i32) holds, shifted right (or, when negative, left), and checks.
func (a *asm) deductLocal(local byte, shift int64) {
	a.at(opGlobalGet, a.fuel)
	a.wide(local)
	if shift >= 0 {
		a.i64(shift)
		a.op(opI64ShrU)
	} else {
		a.i64(-shift)
		a.op(opI64Shl)
	}
	a.op(opI64Sub)
	a.at(opGlobalSet, a.fuel)
	a.check()
}

// helper returns the body of a helper: locals and code, without its size. memMax is the most pages memory.grow can
// reach.
func (a *asm) helper(which int, memMax uint32) {
	a.op(0) // no locals beyond the parameters
	switch which {
	case helperMemory:
		a.deductLocal(0, memoryShift)
		a.get(0)
	case helperTable:
		a.deductLocal(0, tableShift)
		a.get(0)
	case helperGrow:
		// What must fail (and return -1) costs nothing.
		a.get(0)
		a.i32(int32(memMax))
		a.op(opI32LeU)
		a.block(opIf)
		a.deductLocal(0, -growShift)
		a.op(opEnd)
		a.get(0)
	case helperFill:
		a.fill()
	case helperCopy:
		a.copy()
	}
	a.op(opEnd)
}

// outside leaves the inner block, uncharged, when local + n passes the memory's end: the instruction itself must trap
// there before it writes anything.
func (a *asm) outside(local byte) {
	a.wide(local)
	a.wide(2)
	a.op(opI64Add, opMemorySize, 0, opI64ExtendU)
	a.i64(16)
	a.op(opI64Shl, opI64GtU)
	a.branchIf(0)
}

// more repeats the loop while n is above one piece.
func (a *asm) more() {
	a.get(2)
	a.i32(pieceBytes)
	a.op(opI32GtU)
	a.branchIf(0)
}

func (a *asm) piece() {
	a.deduct(pieceBytes >> memoryShift)
	a.check()
}

func (a *asm) triple() { a.get(0); a.get(1); a.get(2) }

// begin opens two blocks: the inner is left (or ends) where the instruction will trap, the outer, by a branch to depth
// 1, for the last or only piece. end closes them.
func (a *asm) begin() {
	a.block(opBlock)
	a.block(opBlock)
}

func (a *asm) single() {
	a.get(2)
	a.i32(pieceBytes)
	a.op(opI32LeU)
	a.branchIf(1)
}

func (a *asm) end(sub byte, zeros int) {
	a.op(opEnd)
	a.triple()
	a.bulk(sub, zeros)
	a.op(opReturn)
	a.op(opEnd)
	a.deductLocal(2, memoryShift)
	a.triple()
	a.bulk(sub, zeros)
}

// fill: locals 0 destination, 1 value, 2 length.
func (a *asm) fill() {
	a.begin()
	a.outside(0)
	a.single()
	a.block(opLoop)
	a.piece()
	a.get(0)
	a.get(1)
	a.i32(pieceBytes)
	a.bulk(miscMemoryFill, 1)
	a.add(0, pieceBytes)
	a.add(2, -pieceBytes)
	a.more()
	a.op(opEnd)
	a.op(opBr, 1)
	a.end(miscMemoryFill, 1)
}

// copy: locals 0 destination, 1 source, 2 length. Pieces run upwards when the destination is below the source and
// downwards otherwise, so that overlapping ranges come out as from one copy.
func (a *asm) copy() {
	a.begin()
	a.outside(0)
	a.outside(1)
	a.single()
	a.block(opBlock)
	a.op(opLocalGet, 0, opLocalGet, 1, opI32GtU)
	a.branchIf(0)
	a.block(opLoop)
	a.piece()
	a.get(0)
	a.get(1)
	a.i32(pieceBytes)
	a.bulk(miscMemoryCopy, 2)
	a.add(0, pieceBytes)
	a.add(1, pieceBytes)
	a.add(2, -pieceBytes)
	a.more()
	a.op(opEnd)
	a.op(opBr, 2)
	a.op(opEnd)
	a.block(opLoop)
	a.piece()
	a.add(2, -pieceBytes)
	a.op(opLocalGet, 0, opLocalGet, 2, opI32Add, opLocalGet, 1, opLocalGet, 2, opI32Add)
	a.i32(pieceBytes)
	a.bulk(miscMemoryCopy, 2)
	a.more()
	a.op(opEnd)
	a.op(opBr, 1)
	a.end(miscMemoryCopy, 2)
}
