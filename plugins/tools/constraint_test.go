package tools

import (
	"errors"
	"reflect"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Where the guests of these tests keep a result, its text and its notes.
const (
	resultAt = guesttest.Free
	heldAt   = guesttest.Free + 0x100
	notesAt  = guesttest.Free + 0x800
)

// answers is a guest that gives a result of its own to whatever it is asked.
func answers(status uint32, text, notes string) guesttest.Fake {
	return guesttest.Fake{
		Description: guesttest.Tools,
		Data: map[uint32]string{
			resultAt: guesttest.Bytes(status, heldAt, uint32(len(text)), notesAt, uint32(len(notes))), heldAt: text,
			notesAt: notes,
		},
		Code: map[string]guesttest.Code{constraint: guesttest.Const(resultAt)},
	}
}

func constrain(t *testing.T, f guesttest.Fake) (Constraint, error) {
	t.Helper()
	return Constrain(guesttest.Open(t, f, guest.Limits{}, nil), []byte(`{}`), nil)
}

const heldTo = `{"language":"regex","source":"é","params":{"a":1},"optional":true,"places":[{"at":"#/a","pointer":"#/tools/0/function/parameters","tool":"f"}]}`

func TestConstrain(t *testing.T) {
	place := []Place{{"#/a", "#/tools/0/function/parameters", "f"}}
	for _, c := range []struct {
		fake guesttest.Fake
		want Constraint
	}{
		{guesttest.Fake{Description: guesttest.Tools}, Constraint{}},
		{answers(abi.StatusOK, "", ""), Constraint{}},
		{answers(abi.StatusOK, "", `[{"pointer":"#/tools/0","keyword":"strict","reason":"why"}]`),
			Constraint{Dropped: []Dropped{{Pointer: "#/tools/0", Keyword: "strict", Reason: "why"}}}},
		{answers(abi.StatusOK, heldTo, "[]"), Constraint{Language: "regex", Source: "é", Params: []byte(`{"a":1}`),
			Optional: true, Places: place, Dropped: []Dropped{}}},
		{answers(abi.StatusOK, `{"language":"regex","source":"x","params":null,"answer":true,"new":1}`, ""),
			Constraint{Language: "regex", Source: "x", Answer: true}},
	} {
		if got, err := constrain(t, c.fake); err != nil || !reflect.DeepEqual(got, c.want) {
			t.Errorf("got %+v, %v; want %+v", got, err, c.want)
		}
	}
	var no *guest.Refusal
	if _, err := constrain(t, answers(abi.StatusFailed, "can't", "")); !errors.As(err, &no) || no.Text != "can't" {
		t.Errorf("refused: %v", err)
	}
}

// TestConstrainBroken: every bound is checked, and the fault names the rule.
func TestConstrainBroken(t *testing.T) {
	at := func(address uint32) guesttest.Fake {
		return guesttest.Fake{Description: guesttest.Tools,
			Code: map[string]guesttest.Code{constraint: guesttest.Const(address)}}
	}
	fields := func(ws ...uint32) guesttest.Fake {
		f := at(resultAt)
		f.Data = map[uint32]string{resultAt: guesttest.Bytes(ws...)}
		return f
	}
	places := func(n int) string {
		return `{"language":"l","source":"x","places":[` +
			strings.TrimSuffix(strings.Repeat(`{"at":"#","pointer":"#"},`, n), ",") + `]}`
	}
	wide := guesttest.Fake{Description: guesttest.Tools, Pages: 160,
		Code: map[string]guesttest.Code{constraint: guesttest.Const(resultAt)}}
	long := func(text uint32) guesttest.Fake {
		f := wide
		f.Data = map[uint32]string{resultAt: guesttest.Bytes(0, heldAt, text, 0, 0)}
		return f
	}
	many := wide
	many.Data = map[uint32]string{resultAt: guesttest.Bytes(0, 0x10000, uint32(len(places(abi.MaxPlaces+1))), 0, 0),
		0x10000: places(abi.MaxPlaces + 1)}
	most := wide
	most.Data = map[uint32]string{resultAt: guesttest.Bytes(0, 0x10000, uint32(len(places(abi.MaxPlaces))), 0, 0),
		0x10000: places(abi.MaxPlaces)}
	for _, c := range []struct {
		fake guesttest.Fake
		want string
	}{
		{at(0xfffffff0), "result of 20 bytes at 0xfffffff0"},
		{at(resultAt + 2), "aligned to 4"},
		{answers(2, "", ""), "status 2 is neither 0 nor 1"},
		{answers(abi.StatusFailed, "", ""), "status 1 without a text"},
		{fields(0, 0x7fffffff, 1, 0, 0), "text of 1 bytes at 0x7fffffff"},
		{fields(0, 0, 0, 0x7fffffff, 1), "notes of 1 bytes at 0x7fffffff"},
		{answers(0, "\xff", ""), "is not UTF-8"},
		{answers(0, "[]", ""), "text of 2 bytes: "},
		{answers(0, `{"source":"x"}`, ""), `language "": want 1 to 64 bytes`},
		{answers(0, `{"language":"`+strings.Repeat("l", 65)+`","source":"x"}`, ""), "want 1 to 64 bytes"},
		{answers(0, `{"language":"l"}`, ""), "source of 0 bytes"},
		{answers(0, `{"language":"l","source":"x","params":[]}`, ""), "params of 2 bytes are not a JSON object"},
		{answers(0, `{"language":"l","source":"x","places":[{"at":"a","pointer":"#"}]}`, ""), `place "a" is "#"`},
		{answers(0, "", "{}"), "notes of 2 bytes are not a JSON array"},
		{guesttest.Fake{Description: guesttest.Tools, Code: map[string]guesttest.Code{constraint: guesttest.Trap()}},
			"unreachable"},
	} {
		var fault *sandbox.Fault
		if _, err := constrain(t, c.fake); !errors.As(err, &fault) || !strings.Contains(err.Error(), c.want) ||
			!strings.Contains(err.Error(), constraint) {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	// What a client asks for may be too large: that is no fault.
	for _, c := range []struct {
		fake guesttest.Fake
		want string
	}{
		{long(abi.MaxConstraint + 1), "compiled, it has text of 8388609 bytes, the limit is 8388608"},
		{many, "compiled, it has 4097 places, the limit is 4096"},
	} {
		var no *guest.Refusal
		if _, err := constrain(t, c.fake); !errors.As(err, &no) || no.Text != c.want {
			t.Errorf("got %v, want %q", err, c.want)
		}
	}
	if c, err := constrain(t, most); err != nil || len(c.Places) != abi.MaxPlaces {
		t.Errorf("%d places, %v", len(c.Places), err)
	}
}

func TestClient(t *testing.T) {
	c := Constraint{Places: []Place{{"#/a/1", "#/tools/0/function/parameters", "f"},
		{"#/a/1/b", "#/tools/1/function/parameters", "g"}}}
	for text, want := range map[string][2]string{
		"#/a/1":               {"#/tools/0/function/parameters", "f"},
		"#/a/1: not: no":      {"#/tools/0/function/parameters: not: no", "f"},
		"#/a/1/c: not: no":    {"#/tools/0/function/parameters/c: not: no", "f"},
		"#/a/1/b/c":           {"#/tools/1/function/parameters/c", "g"},
		"#/a/11: no":          {"#/a/11: no", ""},
		"the grammar is long": {"the grammar is long", ""},
	} {
		if said, tool := c.Client(text); said != want[0] || tool != want[1] {
			t.Errorf("%q gives %q, %q; want %q", text, said, tool, want)
		}
	}
}
