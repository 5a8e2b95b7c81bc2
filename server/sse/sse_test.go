package sse

import (
	"errors"
	"io"
	"slices"
	"strings"
	"testing"
	"testing/iotest"
)

func readAll(r io.Reader) (list []string, err error) {
	events := New(r)
	for {
		data, err := events.Next()
		if err != nil {
			return list, err
		}
		list = append(list, string(data))
	}
}

func TestEvents(t *testing.T) {
	for _, c := range []struct {
		name, text string
		want       []string
	}{
		{"empty", "", nil},
		{"one", "data: a\n\n", []string{"a"}},
		{"without the space", "data:a\n\n", []string{"a"}},
		{"one space only is taken off", "data:  a\n\n", []string{" a"}},
		{"carriage returns", "data: a\r\n\r\ndata: b\r\n\r\n", []string{"a", "b"}},
		{"comments", ":\n\ndata: a\n: keep-alive\n\n:\n\n", []string{"a"}},
		{"other fields", "event: x\nid: 3\nretry: 1\ndata: a\n\nevent: y\n\n", []string{"a"}},
		{"two lines", "data: a\ndata: b\n\n", []string{"a\nb"}},
		{"empty data", "data:\n\n", []string{""}},
		{"blank lines between", "\n\ndata: a\n\n\n\ndata: b\n\n", []string{"a", "b"}},
		{"cut at the end", "data: a\n\ndata: b\n", []string{"a"}},
		{"not a field", "database: a\n\n", nil},
	} {
		got, err := readAll(strings.NewReader(c.text))
		if !errors.Is(err, io.EOF) || !slices.Equal(got, c.want) {
			t.Errorf("%s: %q and error %v, want %q and io.EOF", c.name, got, err, c.want)
		}
		got, err = readAll(iotest.OneByteReader(strings.NewReader(c.text)))
		if !errors.Is(err, io.EOF) || !slices.Equal(got, c.want) {
			t.Errorf("%s, byte by byte: %q and error %v, want %q and io.EOF", c.name, got, err, c.want)
		}
	}
}

func TestEventsFail(t *testing.T) {
	broken := errors.New("broken")
	for _, c := range []struct {
		name string
		r    io.Reader
		want error
	}{
		{"reader", io.MultiReader(strings.NewReader("data: a\n"), iotest.ErrReader(broken)), broken},
		{"long line", strings.NewReader("data: " + strings.Repeat("x", MaxEvent)), ErrTooLong},
		{"many lines", strings.NewReader(strings.Repeat("data: "+strings.Repeat("x", 100_000)+"\n", 50)), ErrTooLong},
	} {
		if got, err := readAll(c.r); !errors.Is(err, c.want) || len(got) > 0 {
			t.Errorf("%s: %d events and error %v, want none and %v", c.name, len(got), err, c.want)
		}
	}
}

func FuzzEvents(f *testing.F) {
	f.Add("data: a\n\n:\n\ndata: b\r\ndata:c\r\n\r\n")
	f.Fuzz(func(t *testing.T, text string) {
		whole, err := readAll(strings.NewReader(text))
		split, splitErr := readAll(iotest.OneByteReader(strings.NewReader(text)))
		if !slices.Equal(whole, split) || !errors.Is(err, splitErr) {
			t.Errorf("%q (%v), byte by byte %q (%v)", whole, err, split, splitErr)
		}
	})
}
