package value

// Objects of other packages implement these interfaces for what they can do beyond
// printing their type.
type (
	// Callable can be called.
	Callable interface {
		Value
		Call(th *Thread, a Args) (Value, error)
	}
	// Attributed has attributes: nil stands for one that it lacks.
	Attributed interface {
		Value
		Attr(th *Thread, name string) (Value, error)
	}
	// Iterable can be iterated over.
	Iterable interface {
		Value
		Iterate() Iterator
	}
	// Sized has a len(), and is true if that is not 0.
	Sized interface {
		Value
		Length(th *Thread) (int64, error)
	}
	// Printable has a repr of its own.
	Printable interface {
		Value
		Repr(w *Writer) error
	}
	// Qualified has another name of its type in errors about attributes, the one
	// that jinja2's object_type_repr returns.
	Qualified interface {
		Value
		QualifiedType() string
	}
)
