package wire

import (
	"errors"
	"fmt"
	"slices"
	"strconv"
	"strings"

	"tgi/runtime/llm"
)

// maxDepth is the depth of arrays and objects that is refused, serde_json's own limit.
const maxDepth = 128

// Kinds of refusal, which every Error wraps one of.
var (
	// ErrSyntax: the bytes are not JSON.
	ErrSyntax = errors.New("not JSON")
	// ErrShape: they are JSON of another shape than the target's.
	ErrShape = errors.New("wrong JSON")
)

// Error is why a body was refused.
type Error struct {
	// Kind is ErrSyntax or ErrShape.
	Kind error
	// Path leads to the value, as in parameters.stop[0]; empty at the root.
	Path string
	// Msg is serde's sentence.
	Msg string
	// Line and Column count from 1 and 0: the bytes read of the line.
	Line, Column int
}

// Error returns the text that clients see: "path: message at line L column C".
func (e *Error) Error() string {
	s := fmt.Sprintf("%s at line %d column %d", e.Msg, e.Line, e.Column)
	if e.Path != "" {
		s = e.Path + ": " + s
	}
	return s
}

// Unwrap returns Kind.
func (e *Error) Unwrap() error { return e.Kind }

// under puts one step in front of the error's path.
func under(err error, step string) error {
	e, ok := err.(*Error)
	if !ok {
		return err
	}
	if e.Path != "" && e.Path[0] != '[' {
		step += "."
	}
	e.Path = step + e.Path
	return e
}

// Reader walks one JSON text. Its methods read the next value; after an error
// it must not be used further. It belongs to one goroutine.
type Reader struct {
	buf   []byte
	at    int
	depth int
	// notes, where it is not nil, gets the names of members that Object does not know, of the value at the depth base
	// and of its objects.
	notes *Notes
	base  int
	// member is that of the value which is being read.
	member string
}

// Decode calls read for the one value that body must hold. Errors are *Error.
func Decode(body []byte, read func(*Reader) error) error {
	r := &Reader{buf: body}
	if err := read(r); err != nil {
		if e, ok := err.(*Error); ok {
			e.Path = shortPath(e.Path)
		}
		return err
	}
	if r.space(); r.at < len(r.buf) {
		return r.syntaxNext("trailing characters")
	}
	return nil
}

// Notes are names of members that mean nothing: the first few, each once, as errors repeat them.
type Notes []string

// maxNotes is how many names are noted.
const maxNotes = 16

// Add notes the member name of the object within, "" for the body itself.
func (n *Notes) Add(within, name string) {
	if len(*n) == maxNotes {
		return
	}
	if name = llm.Shorten(name); within != "" {
		name = within + "." + name
	}
	if !slices.Contains(*n, name) {
		*n = append(*n, name)
	}
}

// DecodeNoting is Decode for an object with fields, which want names in errors. It also returns the names of members
// that it does not know: those of the body, and those of its objects, such as parameters.max_tokens. There may be more
// of them than it returns.
func DecodeNoting(body []byte, want string, fields []Field) (unknown []string, err error) {
	err = Decode(body, func(r *Reader) (err error) {
		unknown, err = r.Noting(func(r *Reader) error { return r.Object(want, fields) })
		return err
	})
	return unknown, err
}

// Noting calls read for the next value, and returns the names of members that are not known: those of the value, and
// those of its objects.
func (r *Reader) Noting(read func(*Reader) error) (unknown []string, err error) {
	outer := *r
	var notes Notes
	r.notes, r.base = &notes, r.depth
	err = read(r)
	r.notes, r.base, r.member = outer.notes, outer.base, outer.member
	return notes, err
}

// note notes a member that is not known. Those of deeper objects are left out: clients send back what they got.
func (r *Reader) note(name string) {
	switch {
	case r.notes == nil:
	case r.depth == r.base+1:
		r.notes.Add("", name)
	case r.depth == r.base+2:
		r.notes.Add(r.member, name)
	}
}

// Unused returns f for a place where it has no effect: it is read as ever, and noted in notes, but for values that ask
// for nothing, which are idle as they are written.
func (f Field) Unused(notes *Notes, idle ...string) Field {
	return Field{Name: f.Name, Required: f.Required, Read: func(r *Reader) error {
		start := *r
		if err := f.Read(r); err != nil {
			return err
		}
		if !slices.Contains(idle, string(r.Since(start))) {
			notes.Add("", f.Name)
		}
		return nil
	}}
}

// maxPath is how much of a path an error shows at each end, in bytes.
const maxPath = 100

// shortPath leaves out the middle of a long path: its keys are the client's.
func shortPath(path string) string {
	if len(path) <= 3*maxPath {
		return path
	}
	return strings.ToValidUTF8(path[:maxPath], "") + "…" + strings.ToValidUTF8(path[len(path)-maxPath:], "")
}

// Field is one member of an object.
type Field struct {
	// Name is the key.
	Name string
	// Required members must be there.
	Required bool
	// Read reads the value and stores it.
	Read func(*Reader) error
}

// Object reads an object whose known members are fields; want is how an error
// calls it, such as "struct GenerateRequest". Unknown members are skipped,
// a known one that comes twice is an error.
func (r *Reader) Object(want string, fields []Field) error {
	return r.object(want, fields, func(key string) error {
		r.note(key)
		if err := r.colon(); err != nil {
			return err
		}
		return under(r.Skip(), key)
	})
}

// StrictObject is Object, but unknown members are errors.
func (r *Reader) StrictObject(want string, fields []Field) error {
	return r.object(want, fields, func(key string) error {
		return r.data("unknown field `" + llm.Shorten(key) + "`, expected " + choice(fields))
	})
}

// choice lists the names of fields as serde does.
func choice(fields []Field) string {
	names := make([]string, len(fields))
	for i := range fields {
		names[i] = "`" + fields[i].Name + "`"
	}
	switch len(names) {
	case 1:
		return names[0]
	case 2:
		return names[0] + " or " + names[1]
	}
	return "one of " + strings.Join(names, ", ")
}

// object reads an object. unknown is called for members that fields does not
// have, with the cursor before the colon.
func (r *Reader) object(want string, fields []Field, unknown func(key string) error) error {
	if c, ok := r.peek(); !ok {
		return r.syntax("EOF while parsing a value")
	} else if c != '{' {
		return r.mismatch(want)
	}
	seen := make([]bool, len(fields))
	err := r.members(func(key string) error {
		for i := range fields {
			if fields[i].Name != key {
				continue
			}
			if seen[i] {
				return r.data("duplicate field `" + key + "`")
			}
			seen[i] = true
			if err := r.colon(); err != nil {
				return err
			}
			if r.depth == r.base+1 {
				r.member = key
			}
			return under(fields[i].Read(r), key)
		}
		return unknown(key)
	})
	if err != nil {
		return err
	}
	for i := range fields {
		if fields[i].Required && !seen[i] {
			return r.data("missing field `" + fields[i].Name + "`")
		}
	}
	return nil
}

// Map reads an object with keys of any name; want names it in errors. member
// must read the value.
func (r *Reader) Map(want string, member func(key string) error) error {
	if c, ok := r.peek(); !ok {
		return r.syntax("EOF while parsing a value")
	} else if c != '{' {
		return r.mismatch(want)
	}
	return r.members(func(key string) error {
		if err := r.colon(); err != nil {
			return err
		}
		return under(member(key), key)
	})
}

// members walks the object at the cursor. member is called with the cursor
// before the colon.
func (r *Reader) members(member func(key string) error) error {
	if err := r.enter(); err != nil {
		return err
	}
	for first := true; ; first = false {
		c, ok := r.peek()
		switch {
		case !ok:
			return r.syntax("EOF while parsing an object")
		case c == '}':
			r.leave()
			return nil
		case !first && c != ',':
			return r.syntaxNext("expected `,` or `}`")
		case !first:
			r.at++
			if c, ok = r.peek(); !ok {
				return r.syntax("EOF while parsing a value")
			} else if c == '}' {
				return r.syntaxNext("trailing comma")
			}
		}
		if c != '"' {
			return r.syntaxNext("key must be a string")
		}
		key, err := r.text()
		if err != nil {
			return err
		}
		if err := member(key); err != nil {
			return err
		}
	}
}

// colon reads the colon between key and value.
func (r *Reader) colon() error {
	if c, ok := r.peek(); !ok {
		return r.syntax("EOF while parsing an object")
	} else if c != ':' {
		return r.syntaxNext("expected `:`")
	}
	r.at++
	return nil
}

// Array reads an array; elem must read the i-th element.
func (r *Reader) Array(elem func(i int) error) error {
	if c, ok := r.peek(); !ok {
		return r.syntax("EOF while parsing a value")
	} else if c != '[' {
		return r.mismatch("a sequence")
	}
	if err := r.enter(); err != nil {
		return err
	}
	for i := 0; ; i++ {
		c, ok := r.peek()
		switch {
		case !ok:
			return r.syntax("EOF while parsing a list")
		case c == ']':
			r.leave()
			return nil
		case i > 0 && c != ',':
			return r.syntaxNext("expected `,` or `]`")
		case i > 0:
			r.at++
			if c, ok := r.peek(); ok && c == ']' {
				return r.syntaxNext("trailing comma")
			}
		}
		if err := elem(i); err != nil {
			return under(err, "["+strconv.Itoa(i)+"]")
		}
	}
}

// Skip reads a value of any kind and forgets it.
func (r *Reader) Skip() error {
	c, ok := r.peek()
	switch {
	case !ok:
		return r.syntax("EOF while parsing a value")
	case c == '{':
		return r.members(func(string) error {
			if err := r.colon(); err != nil {
				return err
			}
			return r.Skip()
		})
	case c == '[':
		return r.Array(func(int) error { return r.Skip() })
	case c == '"':
		_, err := r.quoted(false)
		return err
	}
	_, err := r.scalar()
	return err
}

// Null reads a null when there is one, and says whether there was.
func (r *Reader) Null() (bool, error) {
	if c, ok := r.peek(); !ok || c != 'n' {
		return false, nil
	}
	return true, r.word("null")
}

// enter passes an opening bracket.
func (r *Reader) enter() error {
	if r.depth++; r.depth >= maxDepth {
		return r.syntaxNext("recursion limit exceeded")
	}
	r.at++
	return nil
}

// leave passes a closing bracket.
func (r *Reader) leave() {
	r.depth--
	r.at++
}

// space passes white space.
func (r *Reader) space() {
	for r.at < len(r.buf) {
		switch r.buf[r.at] {
		case ' ', '\n', '\t', '\r':
			r.at++
		default:
			return
		}
	}
}

// peek passes white space and returns the byte after it.
func (r *Reader) peek() (byte, bool) {
	r.space()
	if r.at == len(r.buf) {
		return 0, false
	}
	return r.buf[r.at], true
}

// syntax is an error at the cursor: the bytes are not JSON.
func (r *Reader) syntax(msg string) error { return r.fail(ErrSyntax, msg, r.at) }

// syntaxNext is an error about the byte after the cursor.
func (r *Reader) syntaxNext(msg string) error {
	return r.fail(ErrSyntax, msg, min(r.at+1, len(r.buf)))
}

// data is an error at the cursor: the value has the wrong shape.
func (r *Reader) data(msg string) error { return r.fail(ErrShape, msg, r.at) }

func (r *Reader) fail(kind error, msg string, at int) error {
	e := &Error{Kind: kind, Msg: msg, Line: 1}
	start := 0
	for i, c := range r.buf[:at] {
		if c == '\n' {
			e.Line++
			start = i + 1
		}
	}
	e.Column = at - start
	return e
}

// mismatch reads the value at the cursor, which is not what was wanted, and
// says so.
func (r *Reader) mismatch(want string) error {
	found := ""
	switch c, ok := r.peek(); {
	case !ok:
		return r.syntax("EOF while parsing a value")
	case c == '{':
		found = "map"
	case c == '[':
		found = "sequence"
	default:
		v, err := r.scalar()
		if err != nil {
			return err
		}
		found = v.describe()
	}
	return r.data("invalid type: " + found + ", expected " + want)
}

func quote(s string) string {
	return strconv.Quote(strings.ToValidUTF8(llm.Shorten(s), "\uFFFD"))
}
