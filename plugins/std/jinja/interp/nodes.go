package interp

import (
	"tgi/plugins/std/jinja/pylib"
	"tgi/plugins/std/jinja/value"
)

// expr is a compiled expression: its names are tied to slots.
type expr interface {
	eval(st *state) (value.Value, error)
}

// stmt is a compiled statement.
type stmt interface {
	exec(st *state) error
	line() int
}

// at is the source line of a node.
type at int

func (a at) line() int { return int(a) }

type (
	constant struct{ v value.Value }

	nameExpr struct {
		at
		name string
		ref  slotRef
		top  bool // stored at the top level, where macros and blocks see it too
	}

	// nsRef is the target ns.attr of an assignment.
	nsRef struct {
		at
		name, attr string
		ref        slotRef
	}

	tupleExpr struct {
		at
		items []expr
	}
	listExpr struct{ items []expr }
	dictExpr struct{ keys, vals []expr }

	condExpr struct {
		at
		test, yes, no expr // no may be nil
	}

	logicExpr struct {
		or          bool
		left, right expr
	}
	notExpr struct{ x expr }

	unaryExpr struct {
		at
		op value.Op
		x  expr
	}
	binaryExpr struct {
		at
		op          value.Op
		left, right expr
		negated     bool // -(left ** right)
	}
	concatExpr struct {
		at
		parts []expr
	}
	compareExpr struct {
		at
		first expr
		ops   []operand
	}

	attrExpr struct {
		at
		x    expr
		attr string
		name *value.Str
		key  bool // of a dict it is a key: dicts have no attribute of this name
	}
	itemExpr struct {
		at
		x, arg expr
	}
	sliceExpr struct {
		at
		x                 expr // nil where the slice is part of a tuple of subscripts
		start, stop, step expr // may be nil
	}

	callExpr struct {
		at
		fn   expr
		args callArgs
	}
	filterExpr struct {
		at
		x    expr // nil: the text of the block
		name string
		f    *pylib.Function // nil: there is none of this name
		args callArgs
	}
	testExpr struct {
		at
		x    expr
		name string
		f    *pylib.Function // nil: there is none of this name
		args callArgs
	}
)

type operand struct {
	op value.CompareOp
	x  expr
}

type keyword struct {
	name string
	val  expr
}

// callArgs is the arguments of a call, filter or test.
type callArgs struct {
	pos        []expr
	kw         []keyword
	star       expr // *args
	doubleStar expr // **kwargs
}

// param is a parameter of a macro.
type param struct {
	name string
	ref  slotRef
}

type (
	outputStmt struct {
		at
		parts []expr
	}
	ifStmt struct {
		at
		test  expr
		body  []stmt
		elifs []*ifStmt
		els   []stmt
	}
	forStmt struct {
		at
		target     expr
		iter       expr
		body, els  []stmt
		test       expr
		testTarget expr // target again, as the test's own function sees it
		recursive  bool
		extended   bool
		loopRef    slotRef
		bodyFrame  *frame
		elseFrame  *frame
		testFrame  *frame
		bodyFn     *function // of a recursive loop
	}
	assignStmt struct {
		at
		target expr
		val    expr
	}
	assignBlock struct {
		at
		target expr
		filter expr
		body   []stmt
		frame  *frame
	}
	macroDef struct {
		name        string
		args        []param
		defaults    []expr
		body        []stmt
		frame       *frame
		special     [3]slotRef // caller, kwargs, varargs
		usesSpecial [3]bool
	}
	macroStmt struct {
		at
		macroDef
		target *nameExpr
	}
	callBlock struct {
		at
		macroDef
		call *callExpr // nil for {% generation %}
	}
	filterBlock struct {
		at
		body   []stmt
		filter expr
		frame  *frame
	}
	withStmt struct {
		at
		targets, vals []expr
		body          []stmt
		frame         *frame
	}
	scopeStmt struct { // {% autoescape %}
		at
		option expr
		body   []stmt
		frame  *frame
	}
	blockStmt struct {
		at
		name    string
		body    []stmt
		scoped  bool
		frame   *frame
		visible map[string]slotRef // what a scoped block sees of its surroundings
	}
	loopJump struct {
		at
		leave bool // break; otherwise continue
	}
	// loadStmt is include, import, from and extends: there is nothing to load from.
	loadStmt struct {
		at
		source expr
	}
)
