package guest_test

import (
	"reflect"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
)

// asked counts how often a guest asks for the flags of a token.
type asked struct {
	guest.Vocabulary
	n *int
}

// Flags implements guest.Vocabulary.
func (a asked) Flags(id uint32) uint32 {
	*a.n++
	return a.Vocabulary.Flags(id)
}

// long is an init that asks for the flags of token 0 and counts to a million at an address, which it leaves there.
func long(at uint32) guesttest.Code {
	count := guesttest.Join(guesttest.Const(at), guesttest.Load(at), guesttest.Const(1), guesttest.Add(),
		guesttest.Put(), guesttest.Load(at), guesttest.Const(1_000_000), // i32.lt_u, br_if 0
		guesttest.Code{0x49, 0x0d, 0})
	return guesttest.Join(guesttest.Const(0), guesttest.Call(0), guesttest.Code{0x1a}, // drop
		guesttest.Code{0x03, 0x40}, count, guesttest.Code{0x0b}, guesttest.Long(0))
}

// TestKept: a guest whose init takes long is taken as it was then, unless anything differs that it can see.
func TestKept(t *testing.T) {
	const at = guesttest.Free
	e, err := sandbox.New(sandbox.Config{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	inits := 0
	load := func(c guest.Config) *guest.Guest {
		t.Helper()
		if c.Wasm == nil {
			c.Wasm = guesttest.Fake{Imports: []string{"token_flags"},
				Code: map[string]guesttest.Code{"tgi_init": long(at)}}.Wasm()
		}
		c.Name, c.Vocabulary, inits = "fake", asked{guesttest.NewWords(), &inits}, 0
		g, err := guest.Load(t.Context(), e, c)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			g.Close()
			<-g.Drained()
		}()
		s, err := g.Begin(guest.Start{Kinds: []string{"logits"}})
		if err != nil {
			t.Fatal(err)
		}
		defer s.Close()
		if b := s.Memory()[at:]; int(b[0])|int(b[1])<<8|int(b[2])<<16 != 1_000_000 {
			t.Errorf("it counted to %v", b[:4])
		}
		return g
	}
	first := load(guest.Config{Seen: "a"})
	if inits != 1 {
		t.Fatalf("%d inits of a new guest", inits)
	}
	again := load(guest.Config{Seen: "a"})
	if inits != 0 || !reflect.DeepEqual(first.Description(), again.Description()) || first.Limits() != again.Limits() {
		t.Errorf("%d inits of one that is known; described as %+v, before as %+v", inits, again.Description(),
			first.Description())
	}
	for what, c := range map[string]guest.Config{
		"nothing is said of what it sees": {},
		"it sees something else":          {Seen: "b"},
		"another configuration":           {Seen: "a", Config: []byte(`{"a":1}`)},
		"another limit":                   {Seen: "a", Limits: guest.Limits{FuelLoad: 1_000_000_000}},
		"another model":                   {Seen: "a", Model: []byte(`{"a":1}`)},
		"another module": {Seen: "a", Wasm: guesttest.Fake{Imports: []string{"token_flags"}, Pages: 17,
			Code: map[string]guesttest.Code{"tgi_init": long(at)}}.Wasm()},
	} {
		if load(c); inits != 1 {
			t.Errorf("%s: %d inits", what, inits)
		}
	}
	// of one that is quick nothing is kept
	quick := guesttest.Fake{Imports: []string{"token_flags"}, Data: map[uint32]string{at: "\x40\x42\x0f\x00"},
		Code: map[string]guesttest.Code{"tgi_init": guesttest.Join(guesttest.Const(0), guesttest.Call(0),
			guesttest.Code{0x1a}, guesttest.Long(0))}}.Wasm()
	for range 2 {
		if load(guest.Config{Seen: "a", Wasm: quick}); inits != 1 {
			t.Errorf("%d inits of a quick guest", inits)
		}
	}
}

// TestRooms: all rooms are kept.
func TestRooms(t *testing.T) {
	if n, fields := guest.RoomCount(), reflect.TypeFor[guest.Rooms]().NumField(); n != fields {
		t.Errorf("%d of %d rooms are kept", n, fields)
	}
}
