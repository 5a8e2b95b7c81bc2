package kind

import (
	"encoding/json"
	"errors"
	"reflect"
	"strings"
	"testing"

	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// Addresses that the fake guests of these tests use.
const (
	resultAt = guesttest.Free
	listAt   = guesttest.Free + 0x40
	maskAt   = guesttest.Free + 0x200
	textAt   = guesttest.Free + 0x400
	notesAt  = guesttest.Free + 0x800
)

// open loads a guest and acquires an instance.
func open(t testing.TB, f guesttest.Fake) *guest.Session {
	t.Helper()
	return guesttest.Open(t, f, guest.Limits{}, nil)
}

// letters is a grammar of one to three of the letters a and b.
func letters() *ir.Grammar {
	var b irtest.Builder
	rule := b.Declare("start")
	b.Define(rule, b.Term(b.Repeat(b.Bytes("ab"), 1, 3)))
	b.G.Start = rule
	return &b.G
}

// answers is a guest that returns a fixed result for any request.
func answers(status uint32, text, notes string) guesttest.Fake {
	return guesttest.Fake{
		Description: guesttest.Grammar,
		Data: map[uint32]string{
			resultAt: guesttest.Bytes(status, textAt, uint32(len(text)), notesAt, uint32(len(notes))), textAt: text,
			notesAt: notes,
		},
		Code: map[string]guesttest.Code{compile: guesttest.Const(resultAt)},
	}
}

func TestCompile(t *testing.T) {
	encoded := string(letters().Append(nil))
	out, err := Compile(open(t, answers(abi.StatusOK, encoded,
		`[{"pointer":"#/a","keyword":"not","reason":"é"},{"other":1}]`)), Call{Language: "mine"})
	if err != nil {
		t.Fatal(err)
	}
	want := Compiled{Grammar: letters(), Size: len(encoded),
		Dropped: []Dropped{{Pointer: "#/a", Keyword: "not", Reason: "é"}, {}}}
	if again := string(out.Grammar.Append(nil)); again != encoded {
		t.Errorf("grammar %x, want %x", again, encoded)
	}
	if out.Size != want.Size || !reflect.DeepEqual(out.Dropped, want.Dropped) {
		t.Errorf("got %d bytes and %+v", out.Size, out.Dropped)
	}
	if out, err = Compile(open(t, answers(abi.StatusOK, encoded, "")), Call{}); err != nil || out.Dropped != nil {
		t.Errorf("without notes: %+v, %v", out.Dropped, err)
	}
	var no *guest.Refusal
	if _, err = Compile(open(t, answers(abi.StatusFailed, "#/a: no", "")), Call{}); !errors.As(err, &no) ||
		no.Text != "#/a: no" {
		t.Errorf("refused: %v", err)
	}
}

// TestRequest checks that the guest receives exactly what the caller passed, for any content.
func TestRequest(t *testing.T) {
	echo := guesttest.Fake{
		Description: guesttest.Grammar, Data: map[uint32]string{resultAt: guesttest.Bytes(abi.StatusFailed)},
		Code: map[string]guesttest.Code{compile: guesttest.Join(
			guesttest.Const(resultAt+abi.CompiledText), guesttest.Arg(0), guesttest.Put(),
			guesttest.Const(resultAt+abi.CompiledTextBytes), guesttest.Arg(1), guesttest.Put(),
			guesttest.Const(resultAt))},
	}
	ask := func(c Call) (got struct {
		Language, Source string
		Params           json.RawMessage
	}) {
		t.Helper()
		_, err := Compile(open(t, echo), c)
		var no *guest.Refusal
		if !errors.As(err, &no) {
			t.Fatal(err)
		}
		if err := json.Unmarshal([]byte(no.Text), &got); err != nil {
			t.Fatalf("%s: %v", no.Text, err)
		}
		return got
	}
	if got := ask(Call{Language: "regex", Source: []byte("a<b>\"\\\u2028é\x00"),
		Params: []byte(`{"n": 1}`)}); got.Language != "regex" ||
		got.Source != "a<b>\"\\\u2028é\x00" || string(got.Params) != `{"n": 1}` {
		t.Errorf("got %+v", got)
	}
	if got := ask(Call{Language: "mine"}); got.Source != "" || string(got.Params) != `{}` {
		t.Errorf("got %+v", got)
	}
	for _, c := range []struct{ source, text string }{
		{"a\xff", "the source is not UTF-8"},
		{strings.Repeat("a", abi.MaxSource+1), "the source has 4194305 bytes, the limit is 4194304"},
	} {
		_, err := Compile(open(t, echo), Call{Source: []byte(c.source)})
		var no *guest.Refusal
		if !errors.As(err, &no) || no.Text != c.text {
			t.Errorf("got %.100v, want %s", err, c.text)
		}
	}
}

// TestCompileTooLarge: a grammar with something that is too large is refused, and no fault: the source asks for it.
func TestCompileTooLarge(t *testing.T) {
	var b irtest.Builder
	rule := b.Declare("start")
	b.Define(rule, b.Text(strings.Repeat("a", ir.MaxLiteral+1)))
	b.G.Start = rule
	s := open(t, answers(abi.StatusOK, string(b.G.Append(nil)), ""))
	_, err := Compile(s, Call{Language: "mine"})
	var no *guest.Refusal
	if !errors.As(err, &no) || no.Text != "grammar limit exceeded: bytes of a literal: at most 65536, got 65537" {
		t.Errorf("got %v", err)
	}
	if n := s.Guest().Stats(); n.Faults.Result != 0 || n.Refusals != 1 {
		t.Errorf("counted %+v", n)
	}
}

// TestResultRules checks that a result which breaks a rule is a fault that names the rule, and that the instance takes
// no further calls.
func TestResultRules(t *testing.T) {
	encoded := string(letters().Append(nil))
	at := func(f guesttest.Fake, fields ...uint32) guesttest.Fake {
		f.Data[resultAt] = guesttest.Bytes(fields...)
		return f
	}
	elsewhere := func(to uint32) guesttest.Fake {
		f := answers(abi.StatusOK, encoded, "")
		f.Code[compile] = guesttest.Const(to)
		return f
	}
	good := func() guesttest.Fake { return answers(abi.StatusOK, encoded, "[]") }
	for name, c := range map[string]struct {
		guest guesttest.Fake
		want  string
	}{
		"unaligned": {elsewhere(resultAt + 2), "result of 20 bytes at 0x4002: it is to be aligned to 4"},
		"outside":   {elsewhere(0xfffffff0), "result of 20 bytes at 0xfffffff0"},
		"status":    {answers(7, encoded, ""), "status 7 is neither 0 nor 1"},
		"no reason": {answers(abi.StatusFailed, "", ""), "status 1 without a text that says why"},
		"text outside": {at(good(), 0, 0xfffffff0, 64, 0, 0),
			"text of 64 bytes at 0xfffffff0, the memory has 1048576"},
		"notes outside": {at(good(), 0, textAt, uint32(len(encoded)), 0x100000, 1), "notes of 1 bytes at 0x100000"},
		"no grammar":    {answers(abi.StatusOK, "", ""), "malformed grammar"},
		"bad grammar":   {answers(abi.StatusOK, encoded[:len(encoded)-1], ""), "malformed grammar"},
		"bad version":   {answers(abi.StatusOK, "tgir\x09", ""), "unknown version of the grammar form"},
		"notes no JSON": {answers(abi.StatusOK, encoded, "{}"),
			"notes of 2 bytes are not a JSON array of objects of strings"},
		"notes bytes": {answers(abi.StatusOK, encoded, "[{\"reason\":\"\xff\"}]"),
			"notes of 16 bytes are not a JSON array of objects of strings"},
		"trap": {guesttest.Fake{Description: guesttest.Grammar,
			Code: map[string]guesttest.Code{compile: guesttest.Trap()}}, "unreachable"},
	} {
		s := open(t, c.guest)
		_, err := Compile(s, Call{Language: "mine"})
		var fault *sandbox.Fault
		if !errors.As(err, &fault) || fault.Func != compile || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%s: got %v, want a fault of %s: %s", name, err, compile, c.want)
		}
		if _, err := Compile(s, Call{}); !errors.Is(err, sandbox.ErrBroken) {
			t.Errorf("%s: called again: %v", name, err)
		}
	}
}
