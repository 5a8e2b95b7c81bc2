package guest_test

import (
	"encoding/binary"
	"errors"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
)

// kept is code that writes its arguments, n of them, to Free.
func kept(n uint32, result guesttest.Code) guesttest.Code {
	for i := range n {
		result = guesttest.Join(guesttest.Const(guesttest.Free+4*i), guesttest.Arg(i), guesttest.Put(), result)
	}
	return result
}

// handed reads the text whose address and length lie at Free.
func handed(s *guest.Session) string {
	m := s.Memory()
	at, n := binary.LittleEndian.Uint32(m[guesttest.Free:]), binary.LittleEndian.Uint32(m[guesttest.Free+4:])
	return string(m[at:][:n])
}

// TestModelInConfiguration checks that only guests of the conversation kinds get the model, unless their configuration
// has one.
func TestModelInConfiguration(t *testing.T) {
	const model = `{"name":"m"}`
	for _, c := range []struct{ description, config, model, want string }{
		{guesttest.Template, ``, model, `{"model":{"name":"m"}}`},
		{guesttest.Tools, `{"format":"x"}`, model, `{"format":"x","model":{"name":"m"}}`},
		{guesttest.Tools, ` { "a" : {} } `, model, ` { "a" : {} ,"model":{"name":"m"}}`},
		{guesttest.Tools, "{\n}", ``, "{\n" + `"model":{}}`},
		{guesttest.Template, `{"model":{"name":"mine"}}`, model, `{"model":{"name":"mine"}}`},
		{guesttest.Template, `[1`, model, `[1`},
		{`{"name":"x","kinds":["logits"]}`, ``, model, `{}`},
		{`{"name":"x","kinds":["logits","tools"]}`, ``, model, `{"model":{"name":"m"}}`},
	} {
		f := guesttest.Fake{Description: c.description, Code: map[string]guesttest.Code{"tgi_init": kept(2,
			guesttest.Long(0))}}
		g, err := loadWith(t, guest.Config{Wasm: f.Wasm(), Config: []byte(c.config), Model: []byte(c.model)})
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Open(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		if got := handed(s); got != c.want {
			t.Errorf("configuration %q and model %q: %q, want %q", c.config, c.model, got, c.want)
		}
		s.Close()
	}
}

// TestUnreadConfiguration checks that a configuration for a guest that reads none is refused, with its first
// member and the remedy.
func TestUnreadConfiguration(t *testing.T) {
	for _, c := range []struct{ description, config, want string }{
		{`{"name":"x","kinds":["logits"]}`, `{}`, ""},
		{`{"name":"x","kinds":["logits"]}`, ``, ""},
		{`{"name":"x","kinds":["logits"],"config":true}`, `{"a":1}`, ""},
		{`{"name":"x","kinds":["logits"],"config":false}`, `{"b":1,"a":1}`,
			`configuration: the plugin reads none, and is given "a"; if it does read it, its description must say "config": true`},
		{`{"name":"x","kinds":["logits"]}`, `{"model":{}}`, `is given "model"`},
		{`{"name":"x","kinds":["template"]}`, `{"model":{}}`, ""},
		{`{"name":"x","kinds":["tools"]}`, `{"model":{},"word":"X"}`, `is given "word"`},
	} {
		_, err := loadWith(t, guest.Config{Wasm: guesttest.Fake{Description: c.description}.Wasm(),
			Config: []byte(c.config), Model: []byte(`{}`)})
		if c.want == "" && err != nil || c.want != "" && (err == nil || !strings.Contains(err.Error(), c.want)) {
			t.Errorf("%s with %s: %v, want %q", c.description, c.config, err, c.want)
		}
	}
}

// TestRequest checks that a conversation of any size reaches the guest unchanged, and that refusals and faults are
// distinguished.
func TestRequest(t *testing.T) {
	f := guesttest.Fake{Description: guesttest.Tools, Code: map[string]guesttest.Code{"tgi_tools_begin": kept(2,
		guesttest.Long(0))}}
	for _, n := range []int{0, 1, 1 << 18, 1<<18 + 1, 1 << 20} {
		f.Pages = 32
		g, err := load(t, f)
		if err != nil {
			t.Fatal(err)
		}
		s, err := g.Open(1, nil)
		if err != nil {
			t.Fatal(err)
		}
		text := strings.Repeat("x", n)
		if err := s.Begin("tgi_tools_begin", []byte(text)); err != nil || handed(s) != text {
			t.Errorf("%d bytes: %v, the guest has %d", n, err, len(handed(s)))
		}
		s.Close()
		s.Close()
		if err := s.Begin("tgi_tools_begin", nil); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("begin after Close: %v", err)
		}
		if _, err := s.Call("tgi_tools_finish"); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("call after Close: %v", err)
		}
		if _, err := s.Room(1); !errors.Is(err, sandbox.ErrClosed) {
			t.Errorf("room after Close: %v", err)
		}
	}
	small := f
	small.Pages = 16
	g, err := load(t, small)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Open(1, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if err := s.Begin("tgi_tools_begin", make([]byte, 8<<20)); !errors.Is(err, sandbox.ErrResult) ||
		g.Stats().Faults.Result != 1 {
		t.Errorf("more than the memory: %v, %+v", err, g.Stats())
	}
}

// TestKindsBeginSeparately checks that kinds that begin with a prompt and conversation kinds cannot be begun in the
// other way.
func TestKindsBeginSeparately(t *testing.T) {
	g, err := load(t, guesttest.Fake{Description: `{"name":"x","kinds":["logits","tools"]}`,
		Code: map[string]guesttest.Code{
			"tgi_tools_begin": guesttest.Trap(),
		}})
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Begin(guest.Start{})
	if err != nil {
		t.Fatal("all kinds that begin with a prompt: ", err)
	}
	s.Close()
	if _, err := g.Begin(guest.Start{Kinds: []string{"tools"}}); err == nil || g.Stats().Faults.All() != 0 {
		t.Errorf("kind tools was begun with a prompt: %v", err)
	}
	pure, err := load(t, guesttest.Fake{Description: guesttest.Template})
	if err != nil {
		t.Fatal(err)
	}
	if _, err := pure.Begin(guest.Start{}); err == nil {
		t.Error("a template began with a prompt")
	}
}

// TestLoadOfConversationKinds checks signatures and descriptions of the conversation kinds.
func TestLoadOfConversationKinds(t *testing.T) {
	for _, c := range []struct {
		f    guesttest.Fake
		want string
	}{
		{guesttest.Fake{Description: guesttest.Tools, Drop: []string{"tgi_tools_finish"}},
			`"tgi_tools_finish" is missing, a function (i32) -> (i64) wanted`},
		{guesttest.Fake{Description: guesttest.Template, Drop: []string{"tgi_template_render"}},
			`kind "template" is described and not registered`},
		{guesttest.Fake{Description: guesttest.Tools,
			Code: map[string]guesttest.Code{"tgi_template_render": guesttest.Const(0)}},
			`tgi_template_render is exported, but kinds lacks "template"`},
		{guesttest.Fake{Description: guesttest.Template,
			Code: map[string]guesttest.Code{"tgi_alloc": guesttest.Const(0)}}, "no room of 12 bytes"},
	} {
		if _, err := load(t, c.f); err == nil || !strings.Contains(err.Error(), c.want) {
			t.Errorf("%v, want %q", err, c.want)
		}
	}
}
