package grammar

import (
	"errors"
	"strings"
	"testing"

	"tgi/sdk/go/internal/registry"
)

// echo compiles a source to itself.
type echo struct{}

func (echo) Compile(r Request) (Compiled, error) {
	if r.Source == "" {
		return Compiled{}, errors.New("nothing to compile")
	}
	return Compiled{Form: []byte(r.Language + " " + r.Source + " " + string(r.Params)),
		Dropped: []Dropped{{"#/a", "not", "\"é\""}, {}}}, nil
}

func (echo) Validate(params []byte) error {
	if string(params) == `{"bad":1}` {
		return errors.New("bad")
	}
	return nil
}

func TestCompile(t *testing.T) {
	Register([]string{"one", "two"}, func([]byte) (Plugin, error) { return echo{}, nil })
	if err := registry.Init([]byte(`{}`)); err != nil {
		t.Fatal(err)
	}
	if d := string(registry.Description()); !strings.Contains(d,
		`"kinds":["grammar"],"modes":[],"needs":[],"languages":["one","two"]`) {
		t.Errorf("described as %s", d)
	}
	if err := registry.Begin([]byte(`{"bad":1}`), nil); err == nil || err.Error() != "bad" {
		t.Errorf("got %v", err)
	}
	c, err := compile([]byte(`{"source":"a\n","params":{"n":1},"language":"one"}`))
	if err != nil || string(c.Form) != "one a\n {\"n\":1}" {
		t.Errorf("got %q, %v", c.Form, err)
	}
	if got, want := string(notes(c.Dropped)),
		`[{"pointer":"#/a","keyword":"not","reason":"\"é\""},{"pointer":"","keyword":"","reason":""}]`; got != want {
		t.Errorf("got %s", got)
	}
	if notes(nil) != nil {
		t.Error("nothing was dropped")
	}
	if _, err := compile([]byte(`{"language":"one","source":""}`)); err == nil || err.Error() != "nothing to compile" {
		t.Errorf("got %v", err)
	}
	if _, err := compile([]byte(`{"language":1}`)); err == nil {
		t.Error("a request that is none was taken")
	}
}
