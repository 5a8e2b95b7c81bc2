package plugins

import (
	"context"
	"errors"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
)

// declares is a guest whose description declares a schema. It traps when it is asked about parameters of {"n":99}.
func declares(schema string) []byte {
	return guesttest.Fake{
		Description: strings.TrimSuffix(guesttest.Ahead, "}") + `,"params":` + schema + "}",
		Code: map[string]guesttest.Code{
			"tgi_validate": guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(`{"n":99}`))),
				guesttest.Equal(), guesttest.When(guesttest.Trap()), guesttest.Long(0)),
		},
	}.Wasm()
}

// TestSchema: parameters that break the schema of the description are refused before the guest sees them.
func TestSchema(t *testing.T) {
	const properties = `"additionalProperties":false,"properties":{"n":{"type":"integer","maximum":64}}`
	s := open(t, Options{Specs: []Spec{
		spec(t, "free", declares(`{`+properties+`}`)),
		spec(t, "strict", declares(`{`+properties+`,"required":["n"]}`)),
		spec(t, "plain", bias(1).Wasm()), // declares none
	}})
	calls := func() (n uint64) {
		for _, p := range s.List() {
			n += p.Stats.Calls
		}
		return n
	}
	for _, c := range []struct{ name, params, want string }{
		{"free", `{"n":99}`, "n is 99, above the maximum, 64"},
		{"free", `{"m":1}`, `unknown parameter "m": the plugin has n`},
		{"strict", `{}`, "n is missing"},
		{"strict", ``, "n is missing"},
	} {
		before := calls()
		got := refusal(t, s, Call{Name: c.name, Params: []byte(c.params)})
		if got.Text != c.want || !errors.Is(got, ErrParams) {
			t.Errorf("%s %s: %q (%v), want %q", c.name, c.params, got.Text, got.Err, c.want)
		}
		if n := calls() - before; n != 0 {
			t.Errorf("%s %s: the guest was called %d times", c.name, c.params, n)
		}
	}
	var wrong *Misnamed
	if err := refusal(t, s, Call{Name: "free", Params: []byte(`{"m":1}`)}); !errors.As(err, &wrong) ||
		wrong.Name != "m" || wrong.Known[0] != "n" {
		t.Errorf("no suggestion can be made: %+v", wrong)
	}
	for _, c := range []Call{{Name: "free", Params: []byte(`{"n":1}`)}, {Name: "strict", Params: []byte(`{"n":1}`)},
		{Name: "free"}, {Name: "plain", Params: []byte(`{"anything":1}`)}} {
		bind(t, s, 1, c).Close()
	}
}

// TestBadSchema: a module whose schema cannot be checked is refused when it is loaded.
func TestBadSchema(t *testing.T) {
	s := open(t, Options{})
	for schema, want := range map[string]string{
		`[1]`: "params, the JSON Schema of the parameters: [1] is not a JSON object",
		`{"properties":{"n":{"$ref":"https://example.com"}}}`: `#/properties/n: keyword "$ref"`,
		`{"properties":{"n":{"minimum":"low"}}}`:              "#/properties/n/minimum: got string, want number",
	} {
		_, err := s.Put(t.Context(), "x", declares(schema), Upload{})
		if err == nil || !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", schema, err, want)
		}
	}
}

// TestLongParametersTakeTurns: parameters that take long to check against a schema wait for a processor, short ones do
// not.
func TestLongParametersTakeTurns(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "free", declares(`{"additionalProperties":false,"properties":{}}`))}})
	for s.turns.free > 0 {
		w := s.turns.Begin("other")
		defer w.End()
		w.Take(t.Context())
	}
	gone := errors.New("gone")
	ctx, cancel := context.WithCancelCause(t.Context())
	cancel(gone)
	short := Call{Name: "free", Params: []byte(`{"m":1}`)}
	if _, err := s.Bind(ctx, []Call{short}); !errors.Is(err, ErrParams) {
		t.Errorf("short parameters: %v", err)
	}
	long := Call{Name: "free", Params: []byte(`{"m":"` + strings.Repeat("x", longParams) + `"}`)}
	if _, err := s.Bind(ctx, []Call{long}); !errors.Is(err, gone) {
		t.Errorf("long parameters: %v", err)
	}
}
