package dialect

import (
	"bytes"
	"fmt"
	"net/http"
	"strings"

	"tgi/runtime/llm"
)

// Header is the request header that names the dialect of one request.
const Header = "X-TGI-Dialect"

// Name returns the dialect's name, one of the constants.
func (d *Dialect) Name() string { return d.name }

// Of returns the dialect of that name.
func Of(name string) (*Dialect, bool) {
	for _, d := range All {
		if d.name == name {
			return d, true
		}
	}
	return nil, false
}

// Default returns the dialect that is spoken when nobody chose one.
func Default() *Dialect { return All[len(All)-1] }

// Names returns the names of All, for messages.
func Names() []string {
	names := make([]string, len(All))
	for i, d := range All {
		names[i] = d.name
	}
	return names
}

// From returns the dialect that r asks for, or else fallback, or else Default.
// An unknown name is an error that wraps llm.ErrInvalid, and so are two that differ.
func From(r *http.Request, fallback *Dialect) (*Dialect, error) {
	name, all := r.Header.Get(Header), r.Header.Values(Header)
	for _, other := range all {
		if other != name {
			return nil, several(all)
		}
	}
	if name == "" {
		if fallback == nil {
			return Default(), nil
		}
		return fallback, nil
	}
	if d, ok := Of(name); ok {
		return d, nil
	}
	return nil, unknown(name)
}

// unknown is the name of a dialect that does not exist.
type unknown string

// Error returns the text that clients see.
func (u unknown) Error() string {
	return fmt.Sprintf("`%s` must be one of %s. Given: %.32q", Header, strings.Join(Names(), ", "), string(u))
}

// Unwrap returns llm.ErrInvalid.
func (u unknown) Unwrap() error { return llm.ErrInvalid }

// several are the names of a request that asks for more than one dialect.
type several []string

// Error returns the text that clients see.
func (s several) Error() string {
	return fmt.Sprintf("`%s` must name one dialect. Given: %.80q", Header, strings.Join(s, ", "))
}

// Unwrap returns llm.ErrInvalid.
func (s several) Unwrap() error { return llm.ErrInvalid }

// prefix is how package server begins the lines of events.
const prefix = "data: "

// Writer returns what an event stream of the dialect is written to: w, or a
// writer that puts EventPrefix in the place of "data: ". An event must be
// written by one call of Write.
func (d *Dialect) Writer(w http.ResponseWriter) http.ResponseWriter {
	if d.EventPrefix == prefix {
		return w
	}
	return &rewriter{ResponseWriter: w, prefix: d.EventPrefix}
}

// rewriter replaces the prefix of events.
type rewriter struct {
	http.ResponseWriter
	prefix string
	buf    []byte
}

// Write implements io.Writer.
func (w *rewriter) Write(b []byte) (int, error) {
	rest, ok := bytes.CutPrefix(b, []byte(prefix))
	if !ok {
		return w.ResponseWriter.Write(b)
	}
	w.buf = append(append(w.buf[:0], w.prefix...), rest...)
	if _, err := w.ResponseWriter.Write(w.buf); err != nil {
		return 0, err
	}
	return len(b), nil
}

// Unwrap is for http.ResponseController.
func (w *rewriter) Unwrap() http.ResponseWriter { return w.ResponseWriter }
