package jinja

import (
	"strings"
	"time"

	"tgi/plugins/std/jinja/interp"
	"tgi/plugins/std/jinja/syntax"
	"tgi/plugins/std/jinja/value"
)

// Template is a parsed template. It is immutable: any number of goroutines may
// render it at once.
type Template struct {
	name    string
	source  string
	program *interp.Program
}

// maxSource bounds a template's source in bytes; the largest known is below 64 KiB.
const maxSource = 1 << 20

// Parse reads a template. name is for error texts only. The error is a
// *SyntaxError with line and column, for what jinja2 refuses when it compiles.
func Parse(name, source string) (*Template, error) {
	t, _, err := parse(name, source)
	return t, err
}

// parse gives the tree of the template too.
func parse(name, source string) (*Template, *syntax.Template, error) {
	if len(source) > maxSource {
		return nil, nil, syntax.Errorf(name, "", 0, "the template has %d bytes, more than %d", len(source), maxSource)
	}
	tree, err := syntax.Parse(name, source)
	if err != nil {
		return nil, nil, err
	}
	program, err := interp.Compile(name, tree)
	if err != nil {
		return nil, nil, err
	}
	return &Template{name: name, source: source, program: program}, tree, nil
}

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

// InSandbox are limits that end most hostile renderings in a guest, with an error that names the line, before the
// server's sandbox ends the guest at 5e9 fuel, 256 MiB of memory or 2 MiB of stack. A step costs some 5,000 fuel there;
// one full of calls costs up to 20,000, and meets the sandbox's limit first. Conversations of a megabyte stay far below
// all of them.
var InSandbox = Limits{Steps: 500_000, Output: 16 << 20, Memory: 32 << 20, Depth: 100}

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
	vars, err := value.DecodeObject(in.JSON, in.origin)
	if err != nil {
		return nil, err
	}
	out, _, err := t.program.Run(vars, in.Now, l)
	if err != nil {
		return nil, err
	}
	return segments(out), nil
}

func (in *Input) origin(name string) value.Origin {
	for _, t := range in.Trusted {
		if t == name {
			return value.FromTemplate
		}
	}
	return value.FromData
}

// render adds the steps that it took to spent.
func (t *Template) render(vars *value.Dict, now time.Time, l Limits, spent *int64) (*value.Str, error) {
	out, steps, err := t.program.Run(vars, now, l)
	*spent += steps
	return out, err
}

// segments gives the stretches of a string.
func segments(x *value.Str) []Segment {
	var out []Segment
	x.Runs(func(part string, data bool) {
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
