package jinja

import (
	"strings"
	"time"
)

// Template is a parsed template. It is immutable: any number of goroutines may
// render it at once.
type Template struct {
	name   string
	source string
	body   []stmt
	frame  *frame
	blocks map[string]*blockStmt
	weight int // see parser.weigh
}

// maxSource bounds a template's source in bytes; the largest known is below 64 KiB.
const maxSource = 1 << 20

// Parse reads a template. name is for error texts only. The error is a
// *SyntaxError with line and column, for what jinja2 refuses when it compiles.
func Parse(name, source string) (*Template, error) {
	if len(source) > maxSource {
		return nil, syntaxError(name, "", 0, "the template has %d bytes, more than %d", len(source), maxSource)
	}
	body, src, weight, err := parse(name, source)
	if err != nil {
		return nil, err
	}
	c := &compiler{name: name, src: src, blocks: map[string]*blockStmt{}}
	f := c.template(body)
	if c.err != nil {
		return nil, c.err
	}
	return &Template{name: name, source: source, body: body, frame: f, blocks: c.blocks, weight: weight}, nil
}

// Name is what Parse was given.
func (t *Template) Name() string { return t.name }

// Source is what Parse was given.
func (t *Template) Source() string { return t.source }

// Input is what a template is rendered with.
type Input struct {
	// JSON is an object: its names are the template's variables. The order of
	// keys is kept everywhere.
	JSON []byte
	// Trusted names the variables whose strings count as the template's own
	// text, such as bos_token and eos_token.
	Trusted []string
	// Now is the time that strftime_now tells, in the zone it carries.
	Now time.Time
}

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

	spent *int64 // the steps are added here
}

// InSandbox are limits that end a rendering in a guest before the server's
// sandbox ends the guest, which would count as a fault: before 5e9 fuel, 256 MiB
// of memory and 2 MiB of stack are used up. A step costs up to some 5,000 fuel
// there. Conversations of a megabyte stay far below them.
var InSandbox = Limits{Steps: 500_000, Output: 16 << 20, Memory: 32 << 20, Depth: 100}

func (l Limits) filled() Limits {
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

// Segment is a stretch of rendered text.
type Segment struct {
	// Text is never empty.
	Text string
	// Data is set where the text came from the request's values: no part of it
	// may be read as a special token.
	Data bool
}

// Render gives the text as segments that alternate between template and data.
// The error wraps ErrInput, or is a *RenderError with Python's class and text.
func (t *Template) Render(in Input, l Limits) ([]Segment, error) {
	vars, err := decodeObject(in.JSON, in.origin)
	if err != nil {
		return nil, err
	}
	out, err := t.render(vars, in.Now, l)
	if err != nil {
		return nil, err
	}
	return out.segments(), nil
}

func (in *Input) origin(name string) origin {
	for _, t := range in.Trusted {
		if t == name {
			return fromTemplate
		}
	}
	return fromData
}

func (t *Template) render(vars *Dict, now time.Time, l Limits) (*Str, error) {
	l = l.filled()
	l.Depth = min(l.Depth, 4000/(40+t.weight))
	st := &state{
		limits: l, out: &sbuf{}, vars: vars, exports: map[string]Value{},
		blocks: t.blocks, now: now, body: emptyStr,
	}
	err := st.activate(t.frame.fn, nil, func() error {
		st.enter(t.frame)
		return st.run(t.body)
	})
	if l.spent != nil {
		*l.spent += st.steps
	}
	if err != nil {
		return nil, err
	}
	return st.out.done(), nil
}

// segments gives the stretches of a string.
func (x *Str) segments() []Segment {
	var out []Segment
	x.runs(func(part string, data bool) {
		if part != "" {
			out = append(out, Segment{part, data})
		}
	})
	return out
}

// Text joins segments to the whole text.
func Text(segments []Segment) string {
	if len(segments) == 1 {
		return segments[0].Text
	}
	var b strings.Builder
	for _, s := range segments {
		b.WriteString(s.Text)
	}
	return b.String()
}
