package interp

import (
	"fmt"

	"tgi/plugins/std/jinja/value"
)

// loopContext is the variable loop.
type loopContext struct {
	next     value.Iterator
	iterable value.Value
	index0   int64
	len      int64       // -1: not known yet
	after    value.Value // looked ahead
	ended    bool        // looked ahead and found nothing
	current  value.Value
	before   value.Value
	changed  *value.Tuple
	depth0   int64
	recurse  func(iterable value.Value, depth int64) (value.Value, error)
}

// Type implements Value.
func (*loopContext) Type() string { return "LoopContext" }

// QualifiedType implements value.Qualified.
func (*loopContext) QualifiedType() string { return "jinja2.runtime.LoopContext" }

// Repr implements value.Printable.
func (l *loopContext) Repr(w *value.Writer) error {
	n, err := l.Length(w.Thread)
	if err != nil {
		return err
	}
	w.Text(fmt.Sprintf("<LoopContext %d/%d>", l.index0+1, n))
	return nil
}

// Iterate gives pairs of an item and the loop.
func (l *loopContext) Iterate() value.Iterator {
	return func() (value.Value, bool, error) {
		item, ok, err := l.step()
		if !ok || err != nil {
			return nil, false, err
		}
		return &value.Tuple{Items: []value.Value{item, l}}, true, nil
	}
}

// step gives the next item of the loop.
func (l *loopContext) step() (value.Value, bool, error) {
	var v value.Value
	if l.after != nil {
		v, l.after = l.after, nil
	} else {
		if l.ended {
			return nil, false, nil
		}
		var ok bool
		var err error
		if v, ok, err = l.next(); !ok || err != nil {
			return nil, false, err
		}
	}
	l.index0++
	l.before, l.current = l.current, v
	return v, true, nil
}

// peek looks one item ahead: nil at the end.
func (l *loopContext) peek() (value.Value, error) {
	if l.after != nil || l.ended {
		return l.after, nil
	}
	v, ok, err := l.next()
	if err != nil {
		return nil, err
	}
	if !ok {
		l.ended = true
		return nil, nil
	}
	l.after = v
	return v, nil
}

// Length counts the items; those of a generator are read ahead for it.
func (l *loopContext) Length(th *value.Thread) (int64, error) {
	if l.len >= 0 {
		return l.len, nil
	}
	if n, err := th.Length(l.iterable); err == nil {
		l.len = n
		return n, nil
	}
	var rest []value.Value
	for {
		v, ok, err := l.next()
		if err != nil {
			return 0, err
		}
		if !ok {
			break
		}
		if err := th.GrowItems(1); err != nil {
			return 0, err
		}
		rest = append(rest, v)
	}
	l.next = value.IterateSlice(rest)
	l.len = int64(len(rest)) + l.index0 + 1
	if l.after != nil {
		l.len++
	}
	return l.len, nil
}

func (l *loopContext) Call(_ *value.Thread, a value.Args) (value.Value, error) {
	if len(a.Pos) != 1 {
		return nil, value.TypeError("LoopContext.__call__() missing 1 required positional argument: 'iterable'")
	}
	if l.recurse == nil {
		return nil, value.TypeError("The loop must have the 'recursive' marker to be called recursively.")
	}
	return l.recurse(a.Pos[0], l.depth0+1)
}

// Attr implements value.Attributed.
func (l *loopContext) Attr(th *value.Thread, name string) (value.Value, error) {
	switch name {
	case "index":
		return value.Int(l.index0 + 1), nil
	case "index0":
		return value.Int(l.index0), nil
	case "first":
		return value.Bool(l.index0 == 0), nil
	case "last":
		v, err := l.peek()
		return value.Bool(v == nil), err
	case "length":
		n, err := l.Length(th)
		return value.Int(n), err
	case "revindex":
		n, err := l.Length(th)
		return value.Int(n - l.index0), err
	case "revindex0":
		n, err := l.Length(th)
		return value.Int(n - l.index0 - 1), err
	case "depth":
		return value.Int(l.depth0 + 1), nil
	case "depth0":
		return value.Int(l.depth0), nil
	case "previtem":
		if l.index0 == 0 {
			return &value.Undefined{Hint: "there is no previous item"}, nil
		}
		return l.before, nil
	case "nextitem":
		v, err := l.peek()
		if v == nil && err == nil {
			return &value.Undefined{Hint: "there is no next item"}, nil
		}
		return v, err
	case "cycle":
		return &value.Func{Name: "cycle", Self: l, Do: l.cycle}, nil
	case "changed":
		return &value.Func{Name: "changed", Self: l, Do: l.isChanged}, nil
	}
	return nil, nil
}

func (l *loopContext) cycle(_ *value.Thread, a value.Args) (value.Value, error) {
	if len(a.Pos) == 0 {
		return nil, value.TypeError("no items for cycling given")
	}
	return a.Pos[l.index0%int64(len(a.Pos))], nil
}

func (l *loopContext) isChanged(th *value.Thread, a value.Args) (value.Value, error) {
	now := &value.Tuple{Items: a.Pos}
	if l.changed != nil {
		same, err := th.Equal(l.changed, now, 0)
		if same || err != nil {
			return value.Bool(false), err
		}
	}
	l.changed = now
	return value.Bool(true), nil
}
