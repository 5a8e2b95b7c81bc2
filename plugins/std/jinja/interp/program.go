package interp

import (
	"time"

	"tgi/plugins/std/jinja/syntax"
	"tgi/plugins/std/jinja/value"
)

// Limits bound one rendering. A zero field means its default.
type Limits struct {
	// Steps counts statements, loop iterations, calls and items touched;
	// default 10 million, about a second.
	Steps int64
	// Output is the most bytes a rendering or one captured block may write; default 16 MiB.
	Output int64
	// Memory is the sum of all strings and lists made on the way, in bytes,
	// whether or not they are still in use; default 256 MiB.
	Memory int64
	// Depth is how deep macros, recursive loops and blocks may call each other;
	// default 100. Each level costs some KiB of stack, and more where expressions
	// are long or nested: the limit is at most 4000/(40+n), where n is the number of
	// operators in a tag and 4 for each level of nesting, at their greatest.
	Depth int
}

// Filled gives the limits with defaults in place of zeros.
func (l Limits) Filled() Limits {
	if l.Steps == 0 {
		l.Steps = 10_000_000
	}
	if l.Output == 0 {
		l.Output = 16 << 20
	}
	if l.Memory == 0 {
		l.Memory = 256 << 20
	}
	if l.Depth == 0 {
		l.Depth = 100
	}
	return l
}

// Program is a template that is ready to run. It is immutable: any number of
// goroutines may run it at once.
type Program struct {
	body   []stmt
	frame  *frame
	blocks map[string]*blockStmt
	weight int // see syntax.Template
}

// Compile ties the names of a template to variables, filters and tests. name is for
// error texts. The error is a *syntax.Error, for what jinja2 refuses when it
// compiles.
func Compile(name string, t *syntax.Template) (*Program, error) {
	c := &compiler{name: name, src: t.Source, blocks: map[string]*blockStmt{}}
	p := c.template(t.Body)
	if c.err != nil {
		return nil, c.err
	}
	p.weight = t.Weight
	return p, nil
}

// Run renders with the variables of vars, and tells how many steps it took, also
// where it fails. The error is a *RenderError with Python's class and text.
func (p *Program) Run(vars *value.Dict, now time.Time, l Limits) (out *value.Str, steps int64, err error) {
	l = l.Filled()
	l.Depth = min(l.Depth, 4000/(40+p.weight))
	st := &state{
		Thread: value.NewThread(l.Steps, l.Memory, now), limits: l,
		out: &value.Buffer{}, vars: vars, exports: map[string]value.Value{}, blocks: p.blocks, body: value.Empty,
	}
	st.self = &blocksObject{st}
	err = st.callFunction(p.frame.fn, nil, func() error {
		st.enter(p.frame)
		return st.run(p.body)
	})
	if err != nil {
		return nil, st.Spent(), err
	}
	return st.out.Done(), st.Spent(), nil
}
