package guest_test

import (
	"crypto/sha256"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"reflect"
	"slices"
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

// TestKeptRooms: rooms that are kept are checked as those that a guest gives.
func TestKeptRooms(t *testing.T) {
	var told []string
	dir := t.TempDir()
	e, err := sandbox.New(sandbox.Config{CacheDir: dir, Warn: func(what, _ string, why error) {
		told = append(told, what+": "+why.Error())
	}})
	if err != nil {
		t.Fatal(err)
	}
	inits := 0
	load := func() {
		t.Helper()
		inits = 0
		g, err := guest.Load(t.Context(), e, guest.Config{Name: "fake", Seen: "a", Wasm: guesttest.Fake{
			Imports: []string{"token_flags"}, Code: map[string]guesttest.Code{"tgi_init": long(guesttest.Free)}}.Wasm(),
			Vocabulary: asked{guesttest.NewWords(), &inits}})
		if err != nil {
			t.Fatal(err)
		}
		g.Close()
		<-g.Drained()
	}
	load()
	none := map[int]bool{} // places of rooms that this guest does not need
	for i, at := range keptRooms(t, dir, nil) {
		none[i] = at == 0
	}
	const memory = 16 << 16 // what a guest of guesttest has
	for what, change := range map[string]func(rooms []uint32){
		"as they were": func([]uint32) {},
		"not needed": func(rooms []uint32) {
			for i := range rooms {
				if none[i] {
					rooms[i] = 64
				}
			}
		},
		"missing":     func(rooms []uint32) { clear(rooms) },
		"not aligned": func(rooms []uint32) { rooms[0]++ },
		"outside":     func(rooms []uint32) { rooms[0] = memory - 16 },
		"one for two": func(rooms []uint32) {
			for i := range rooms {
				if !none[i] {
					rooms[i] = rooms[0]
				}
			}
		},
	} {
		told = nil
		keptRooms(t, dir, change)
		load()
		if fine := what == "as they were"; (inits == 0) != fine || (len(told) == 0) != fine {
			t.Errorf("%s: %d inits, told %q", what, inits, told)
		}
		load()
		if inits != 0 {
			t.Errorf("%s: the state was not kept anew", what)
		}
	}
}

// keptRooms changes the rooms of the one state in a cache, and what names it, and returns what they were.
func keptRooms(t *testing.T, dir string, change func(rooms []uint32)) (was []uint32) {
	t.Helper()
	list, err := filepath.Glob(filepath.Join(dir, "*", "state-*"))
	if err != nil || len(list) != 1 {
		t.Fatalf("states %v, %v", list, err)
	}
	read := func(name string, to any) {
		t.Helper()
		text, err := os.ReadFile(filepath.Join(list[0], name))
		if err == nil {
			err = json.Unmarshal(text, to)
		}
		if err != nil {
			t.Fatal(err)
		}
	}
	write := func(name string, from any) []byte {
		t.Helper()
		text, err := json.Marshal(from)
		if err == nil {
			err = os.WriteFile(filepath.Join(list[0], name), text, 0o600)
		}
		if err != nil {
			t.Fatal(err)
		}
		return text
	}
	state, note := map[string]json.RawMessage{}, map[string]json.RawMessage{}
	files := map[string]map[string]any{}
	read("state.json", &state)
	read("manifest.json", &files)
	var rooms []uint32
	var text []byte
	if err := errors.Join(json.Unmarshal(state["note"], &text), json.Unmarshal(text, &note),
		json.Unmarshal(note["rooms"], &rooms)); err != nil {
		t.Fatal(err)
	}
	was = slices.Clone(rooms)
	if change == nil {
		return was
	}
	change(rooms)
	changed, err := json.Marshal(rooms)
	if err != nil {
		t.Fatal(err)
	}
	note["rooms"] = changed
	if text, err = json.Marshal(note); err == nil {
		state["note"], err = json.Marshal(text)
	}
	if err != nil {
		t.Fatal(err)
	}
	text = write("state.json", state)
	files["state.json"] = map[string]any{"bytes": len(text), "sha256": fmt.Sprintf("%x", sha256.Sum256(text))}
	write("manifest.json", files)
	return was
}

// TestRooms: all rooms are kept, and checked.
func TestRooms(t *testing.T) {
	if n, fields := guest.RoomCount(), reflect.TypeFor[guest.Rooms]().NumField(); n != fields {
		t.Errorf("%d of %d rooms are kept", n, fields)
	}
}
