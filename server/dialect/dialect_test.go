package dialect

import (
	"errors"
	"net/http"
	"net/http/httptest"
	"reflect"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

func TestFrom(t *testing.T) {
	for _, c := range []struct {
		header   string
		fallback *Dialect
		want     string
	}{
		{"", nil, TGI3}, {"", All[0], TGI06}, {"tgi-2.2", All[0], TGI22}, {"tgi-3", All[0], TGI3},
		{"tgi-0.6", nil, TGI06},
	} {
		r := httptest.NewRequest(http.MethodGet, "/", nil)
		if c.header != "" {
			r.Header.Set(Header, c.header)
		}
		if d, err := From(r, c.fallback); err != nil || d.Name() != c.want {
			t.Errorf("%q: got %v, %v, want %s", c.header, d, err, c.want)
		}
	}
	r := httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Set(Header, "TGI-3\x80"+strings.Repeat("x", 100))
	_, err := From(r, nil)
	if want := "`X-TGI-Dialect` must be one of tgi-0.6, tgi-2.2, tgi-3. Given: \"TGI-3\\x80" + strings.Repeat("x", 26) +
		`"`; err == nil || err.Error() != want || !errors.Is(err, llm.ErrInvalid) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
	r = httptest.NewRequest(http.MethodGet, "/", nil)
	r.Header.Add(Header, "tgi-3")
	r.Header.Add(Header, "tgi-3")
	if d, err := From(r, nil); err != nil || d.Name() != TGI3 {
		t.Errorf("the same twice: %v, %v", d, err)
	}
	r.Header.Add(Header, "tgi-0.6")
	const want = "`X-TGI-Dialect` must name one dialect. Given: \"tgi-3, tgi-3, tgi-0.6\""
	if _, err := From(r, nil); err == nil || err.Error() != want || !errors.Is(err, llm.ErrInvalid) {
		t.Errorf("got  %v\nwant %s", err, want)
	}
}

// TestEveryFieldDiffers: a field that has one value in all dialects is none of
// the table's, and each says who reads it.
func TestEveryFieldDiffers(t *testing.T) {
	kind := reflect.TypeFor[Dialect]()
	for i := range kind.NumField() {
		f := kind.Field(i)
		values := map[any]bool{}
		for _, d := range All {
			switch v := reflect.ValueOf(d).Elem().Field(i); v.Kind() {
			case reflect.Bool:
				values[v.Bool()] = true
			case reflect.String:
				values[v.String()] = true
			default:
				values[v.Uint()] = true
			}
		}
		if len(values) < 2 {
			t.Errorf("%s is the same in all dialects", f.Name)
		}
		if f.IsExported() && f.Tag.Get("of") == "" {
			t.Errorf("%s does not say which package reads it", f.Name)
		}
	}
}

// TestWriter: only the beginning of a write is replaced, and the connection
// stays in reach for deadlines and flushes.
func TestWriter(t *testing.T) {
	for _, d := range All {
		rec := httptest.NewRecorder()
		w := d.Writer(rec)
		for _, s := range []string{"data: {\"a\":\"data: \"}\n\n", ":\n\n", "data: [DONE]\n\n"} {
			if n, err := w.Write([]byte(s)); n != len(s) || err != nil {
				t.Errorf("%s: wrote %d of %d, %v", d.Name(), n, len(s), err)
			}
		}
		if err := http.NewResponseController(w).Flush(); err != nil || !rec.Flushed {
			t.Errorf("%s: not flushed: %v", d.Name(), err)
		}
		want := d.EventPrefix + "{\"a\":\"data: \"}\n\n:\n\n" + d.EventPrefix + "[DONE]\n\n"
		if got := rec.Body.String(); got != want {
			t.Errorf("%s\n got %q\nwant %q", d.Name(), got, want)
		}
	}
}
