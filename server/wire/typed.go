package wire

import "math"

// Get is a read of one typed value, such as (*Reader).String.
type Get[T any] func(*Reader) (T, error)

// Into returns a Field.Read that stores what get reads.
func Into[T any](dst *T, get Get[T]) func(*Reader) error {
	return func(r *Reader) error {
		v, err := get(r)
		if err == nil {
			*dst = v
		}
		return err
	}
}

// Optional is like Into and takes null for "not given".
func Optional[T any](dst **T, get Get[T]) func(*Reader) error {
	return func(r *Reader) error {
		if none, err := r.Null(); none {
			return err
		}
		v, err := get(r)
		if err == nil {
			*dst = &v
		}
		return err
	}
}

// String reads a string.
func (r *Reader) String() (string, error) {
	if c, ok := r.peek(); !ok || c != '"' {
		return "", r.mismatch("a string")
	}
	return r.text()
}

// RawObject reads an object of any shape and returns its bytes, a view of the
// body.
func (r *Reader) RawObject() ([]byte, error) {
	if c, ok := r.peek(); !ok || c != '{' {
		return nil, r.mismatch("a map")
	}
	start := r.at
	err := r.Skip()
	return r.buf[start:r.at:r.at], err
}

// Raw reads any value and returns it as it was written, a view of the text.
func (r *Reader) Raw() ([]byte, error) {
	r.space()
	start := r.at
	err := r.Skip()
	return r.buf[start:r.at:r.at], err
}

// Since returns the value that was read since start, a copy of r from before it, as it
// was written: a view of the text.
func (r *Reader) Since(start Reader) []byte {
	start.space()
	return r.buf[start.at:r.at:r.at]
}

// Strings reads an array of strings, never nil.
func (r *Reader) Strings() ([]string, error) {
	out := []string{}
	err := r.Array(func(int) error {
		s, err := r.String()
		out = append(out, s)
		return err
	})
	return out, err
}

// Bool reads true or false.
func (r *Reader) Bool() (bool, error) {
	if c, ok := r.peek(); !ok || c != 't' && c != 'f' {
		return false, r.mismatch("a boolean")
	}
	v, err := r.scalar()
	return v.b, err
}

// Uint64 reads an integer of 0 to 2^64-1.
func (r *Reader) Uint64() (uint64, error) { return r.natural("u64", math.MaxUint64) }

// Usize reads the same and calls it usize in errors.
func (r *Reader) Usize() (uint64, error) { return r.natural("usize", math.MaxUint64) }

// Uint32 reads an integer of 0 to 2^32-1.
func (r *Reader) Uint32() (uint32, error) {
	u, err := r.natural("u32", math.MaxUint32)
	return uint32(u), err
}

// Positive32 reads an integer of 1 to 2^32-1.
func (r *Reader) Positive32() (uint32, error) {
	const want = "a nonzero u32"
	v, err := r.num(want)
	switch {
	case err != nil:
		return 0, err
	case v.kind != natural || v.u == 0 || v.u > math.MaxUint32:
		return 0, r.outside(v, want)
	}
	return uint32(v.u), nil
}

// Int32 reads an integer of -2^31 to 2^31-1.
func (r *Reader) Int32() (int32, error) {
	v, err := r.num("i32")
	switch {
	case err != nil:
		return 0, err
	case v.kind == natural && v.u <= math.MaxInt32:
		return int32(v.u), nil
	case v.kind == negative && v.i >= math.MinInt32:
		return int32(v.i), nil
	}
	return 0, r.outside(v, "i32")
}

// Float32 reads a number; one that no finite float32 is near is an error.
func (r *Reader) Float32() (float32, error) {
	v, err := r.num("f32")
	if err != nil {
		return 0, err
	}
	var f float32
	switch v.kind {
	case natural:
		f = float32(v.u)
	case negative:
		f = float32(v.i)
	default:
		f = float32(v.f)
	}
	if math.IsInf(float64(f), 0) {
		return 0, r.data("invalid value: " + v.describe() + ", expected f32")
	}
	return f, nil
}

// natural reads an integer of 0 to limit.
func (r *Reader) natural(want string, limit uint64) (uint64, error) {
	v, err := r.num(want)
	if err != nil {
		return 0, err
	}
	if v.kind != natural || v.u > limit {
		return 0, r.outside(v, want)
	}
	return v.u, nil
}

// num reads a number of any kind.
func (r *Reader) num(want string) (value, error) {
	if c, ok := r.peek(); !ok || c != '-' && (c < '0' || c > '9') {
		return value{}, r.mismatch(want)
	}
	return r.number()
}

// outside is the error about a number that an integer type cannot hold.
func (r *Reader) outside(v value, want string) error {
	what := "value"
	if v.kind == float {
		what = "type"
	}
	return r.data("invalid " + what + ": " + v.describe() + ", expected " + want)
}

// Refuse is an error at the value that was read last, for what a type alone
// does not say. msg is in serde's form, "invalid value: …, expected …".
func (r *Reader) Refuse(msg string) error { return r.data(msg) }
