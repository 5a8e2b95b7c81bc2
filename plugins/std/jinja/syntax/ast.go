package syntax

// Expr is an expression of a template: a pointer to one of this package's nodes.
type Expr interface{ expr() }

// Stmt is a statement of a template: a pointer to one of this package's nodes.
type Stmt interface {
	stmt()
	// Pos is the line of the source that the statement begins in.
	Pos() int
}

// Line is the source line of a node, from 1.
type Line int

// Pos is the line.
func (l Line) Pos() int { return int(l) }

// Use says what a name is used for, which decides its scope.
type Use uint8

// The uses of a name.
const (
	Load Use = iota
	Store
	Param
)

// The expressions. Unless a comment says otherwise, no field of type Expr is nil.
type (
	// Const is a literal: a string, a *big.Int, a float64, a bool, or nil for none.
	Const struct{ Value any }

	// Name is a variable. Offset is its place in the source, in bytes.
	Name struct {
		Line
		Offset int
		Name   string
		Use    Use
	}

	// NamespaceAttr is the target ns.attr of an assignment.
	NamespaceAttr struct {
		Line
		Name, Attr string
	}

	// Tuple is a, b or (a, b), as a value or as a target.
	Tuple struct {
		Line
		Items []Expr
	}

	// List is [a, b].
	List struct{ Items []Expr }

	// Dict is {key: value}.
	Dict struct{ Keys, Values []Expr }

	// Cond is yes if test else no; No may be nil.
	Cond struct {
		Line
		Test, Yes, No Expr
	}

	// Logic is left or right, or left and right.
	Logic struct {
		Or          bool
		Left, Right Expr
	}

	// Not is not x.
	Not struct{ X Expr }

	// Unary is -x or +x: Op is Sub or Add.
	Unary struct {
		Line
		Op Op
		X  Expr
	}

	// Binary is arithmetic.
	Binary struct {
		Line
		Op          Op
		Left, Right Expr
	}

	// Concat is a ~ b ~ c.
	Concat struct {
		Line
		Parts []Expr
	}

	// Compare is a < b < c.
	Compare struct {
		Line
		First Expr
		Rest  []Operand
	}

	// Attr is x.attr.
	Attr struct {
		Line
		X    Expr
		Attr string
	}

	// Item is x[arg], and x.0.
	Item struct {
		Line
		X, Arg Expr
	}

	// Slice is x[start:stop:step]. X is nil where it is part of a tuple of
	// subscripts; the others may be nil.
	Slice struct {
		Line
		X                 Expr
		Start, Stop, Step Expr
	}

	// Call is fn(args).
	Call struct {
		Line
		Fn   Expr
		Args Args
	}

	// Filter is x|name(args); X is nil where it stands for the text of a block.
	Filter struct {
		Line
		Offset int
		X      Expr
		Name   string
		Args   Args
	}

	// Test is x is name(args).
	Test struct {
		Line
		Offset int
		X      Expr
		Name   string
		Args   Args
	}
)

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

// Operand is an operator of a comparison and what follows it.
type Operand struct {
	Op CompareOp
	X  Expr
}

// Keyword is a keyword argument.
type Keyword struct {
	Name  string
	Value Expr
}

// Args is the arguments of a call, filter or test. Star and StarStar may be nil.
type Args struct {
	Pos      []Expr
	Keywords []Keyword
	Star     Expr // *args
	StarStar Expr // **kwargs
}

// The statements.
type (
	// Output is text and {{ expressions }}.
	Output struct {
		Line
		Parts []Expr
	}

	// If is {% if %}.
	If struct {
		Line
		Test  Expr
		Body  []Stmt
		Elifs []*If
		Else  []Stmt
	}

	// For is {% for %}; Test may be nil.
	For struct {
		Line
		Target     Expr
		Iter       Expr
		Body, Else []Stmt
		Test       Expr
		Recursive  bool
	}

	// Set is {% set target = value %}.
	Set struct {
		Line
		Target, Value Expr
	}

	// SetBlock is {% set target %}...{% endset %}; Filter may be nil.
	SetBlock struct {
		Line
		Target, Filter Expr
		Body           []Stmt
	}

	// Signature is what macros and call blocks are made of. Defaults belong to the
	// last parameters.
	Signature struct {
		Name     string
		Params   []*Name
		Defaults []Expr
		Body     []Stmt
	}

	// Macro is {% macro %}.
	Macro struct {
		Line
		Signature
		Target *Name
	}

	// CallBlock is {% call %}; Call is nil for {% generation %}.
	CallBlock struct {
		Line
		Signature
		Call *Call
	}

	// FilterBlock is {% filter %}.
	FilterBlock struct {
		Line
		Body   []Stmt
		Filter Expr
	}

	// With is {% with %}.
	With struct {
		Line
		Targets, Values []Expr
		Body            []Stmt
	}

	// Autoescape is {% autoescape %}.
	Autoescape struct {
		Line
		Option Expr
		Body   []Stmt
	}

	// Block is {% block %}.
	Block struct {
		Line
		Name   string
		Body   []Stmt
		Scoped bool
	}

	// Jump is {% break %} or {% continue %}.
	Jump struct {
		Line
		Offset int
		Break  bool
	}

	// LoadTemplate is include, import, from and extends: there is nothing to load from.
	LoadTemplate struct {
		Line
		Source  Expr
		Targets []*Name
	}
)

func (*Const) expr()         {}
func (*Name) expr()          {}
func (*NamespaceAttr) expr() {}
func (*Tuple) expr()         {}
func (*List) expr()          {}
func (*Dict) expr()          {}
func (*Cond) expr()          {}
func (*Logic) expr()         {}
func (*Not) expr()           {}
func (*Unary) expr()         {}
func (*Binary) expr()        {}
func (*Concat) expr()        {}
func (*Compare) expr()       {}
func (*Attr) expr()          {}
func (*Item) expr()          {}
func (*Slice) expr()         {}
func (*Call) expr()          {}
func (*Filter) expr()        {}
func (*Test) expr()          {}

func (*Output) stmt()       {}
func (*If) stmt()           {}
func (*For) stmt()          {}
func (*Set) stmt()          {}
func (*SetBlock) stmt()     {}
func (*Macro) stmt()        {}
func (*CallBlock) stmt()    {}
func (*FilterBlock) stmt()  {}
func (*With) stmt()         {}
func (*Autoescape) stmt()   {}
func (*Block) stmt()        {}
func (*Jump) stmt()         {}
func (*LoadTemplate) stmt() {}
