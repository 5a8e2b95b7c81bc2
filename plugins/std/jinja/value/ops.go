package value

// Op is an arithmetic operator.
type Op uint8

// The arithmetic operators.
const (
	Add Op = iota
	Sub
	Mul
	Div
	FloorDiv
	Mod
	Pow
)

// String is the operator as it is written.
func (op Op) String() string { return [...]string{"+", "-", "*", "/", "//", "%", "**"}[op] }

// CompareOp is a comparison operator.
type CompareOp uint8

// The comparison operators.
const (
	Eq CompareOp = iota
	Ne
	Lt
	Le
	Gt
	Ge
	In
	NotIn
)
