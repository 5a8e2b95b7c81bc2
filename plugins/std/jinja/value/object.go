package value

// What an object of another package can do, beyond printing its type, it tells by its
// methods.
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
	// Iterable can be walked.
	Iterable interface {
		Value
		Iterate() Iterator
	}
	// Sized has a len(), and is true where that is not 0.
	Sized interface {
		Value
		Length(th *Thread) (int64, error)
	}
	// Printable has a repr of its own.
	Printable interface {
		Value
		Repr(w *Writer) error
	}
	// Qualified has a type of another name in errors about attributes, as
	// jinja2's object_type_repr gives it.
	Qualified interface {
		Value
		QualifiedType() string
	}
)
