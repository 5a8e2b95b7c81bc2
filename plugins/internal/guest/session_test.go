package guest_test

import (
	"encoding/binary"
	"errors"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/sandbox"
	"tgi/sdk/abi"
)

// begin loads a guest and begins a sequence.
func begin(t *testing.T, f guesttest.Fake, start guest.Start) *guest.Session {
	t.Helper()
	return beginWith(t, guest.Config{Wasm: f.Wasm()}, start)
}

func beginWith(t *testing.T, c guest.Config, start guest.Start) *guest.Session {
	t.Helper()
	g, err := loadWith(t, c)
	if err != nil {
		t.Fatal(err)
	}
	s, err := g.Begin(start)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(s.Close)
	return s
}

// counted returns consecutive tokens from first.
func counted(first, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = uint32(first + i)
	}
	return out
}

// inRoom reads n tokens of the guest's memory.
func inRoom(s *guest.Session, at uint32, n int) []uint32 {
	out := make([]uint32, n)
	for i := range out {
		out[i] = binary.LittleEndian.Uint32(s.Memory()[int(at)+4*i:])
	}
	return out
}

// TestBeginHandsOver checks that the guest gets parameters and prompt, large ones too, and that a prompt stays readable
// when the sequence outgrows its buffer.
func TestBeginHandsOver(t *testing.T) {
	// begin keeps its arguments at Free.
	keep := guesttest.Long(0)
	for i := range uint32(4) {
		keep = guesttest.Join(guesttest.Const(guesttest.Free+4*i), guesttest.Arg(i), guesttest.Put(), keep)
	}
	for _, n := range []int{0, 1, 4096, 4097, 10_000} {
		params := `{"x":"` + strings.Repeat("y", n) + `"}`
		s := begin(t, fake("tgi_logits_begin", keep), guest.Start{Params: []byte(params), Prompt: counted(7, n)})
		args := inRoom(s, guesttest.Free, 4)
		if got := string(s.Memory()[args[0]:][:args[1]]); got != params {
			t.Fatalf("params %.40q of %d bytes", got, len(got))
		}
		if got := inRoom(s, args[2], int(args[3])); !slices.Equal(got, counted(7, n)) {
			t.Fatalf("prompt of %d tokens: %d", n, len(got))
		}
		e := s.Entry(guest.Process)
		var output []uint32
		for _, more := range []int{1, 1, 300, 4096, 20_000} {
			output = append(output, counted(1_000_000+len(output), more)...)
			at, err := e.Tokens(counted(7, n), output)
			if err != nil {
				t.Fatal(err)
			}
			if got := inRoom(s, at, n+len(output)); !slices.Equal(got, slices.Concat(counted(7, n), output)) {
				t.Fatalf("sequence of %d and %d tokens is not in its room", n, len(output))
			}
		}
		if got := inRoom(s, args[2], n); !slices.Equal(got, counted(7, n)) {
			t.Error("the prompt passed to begin is no longer readable")
		}
	}
}

// TestBeginOfEachKind checks that Begin begins the given kinds in one instance, and all kinds if none are given.
func TestBeginOfEachKind(t *testing.T) {
	mark := func(at uint32) guesttest.Code { return guesttest.Join(guesttest.Store(at, 1), guesttest.Long(0)) }
	g, err := load(t, guesttest.Fake{Description: guesttest.Both, Code: map[string]guesttest.Code{
		"tgi_logits_begin": mark(guesttest.Free), "tgi_sampler_begin": mark(guesttest.Free + 4)}})
	if err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		kinds []string
		want  []uint32
	}{
		{nil, []uint32{1, 1}},
		{[]string{abi.KindLogits}, []uint32{1, 0}},
		{[]string{abi.KindSampler}, []uint32{0, 1}},
		{[]string{abi.KindSampler, abi.KindLogits}, []uint32{1, 1}},
	} {
		s, err := g.Begin(guest.Start{Kinds: c.kinds})
		if err != nil {
			t.Fatal(err)
		}
		if got := inRoom(s, guesttest.Free, 2); !slices.Equal(got, c.want) {
			t.Errorf("kinds %q: begun %d, want %d", c.kinds, got, c.want)
		}
		s.Close()
	}
}

// TestMaxTokensMakesRoomOnce checks that nothing is allocated after begin.
func TestMaxTokensMakesRoomOnce(t *testing.T) {
	s := begin(t, guesttest.Fake{}, guest.Start{Prompt: counted(0, 10), MaxTokens: 20_000})
	e := s.Entry(guest.Process)
	first, err := e.Tokens(counted(0, 10), nil)
	if err != nil {
		t.Fatal(err)
	}
	calls := s.Guest().Stats().Calls
	if last, err := e.Tokens(counted(0, 10), counted(0, 19_990)); err != nil || last != first ||
		s.Guest().Stats().Calls != calls {
		t.Errorf("room at %#x, then %#x, %v", first, last, err)
	}
}

func TestInvalidTokens(t *testing.T) {
	s := begin(t, guesttest.Fake{}, guest.Start{Prompt: counted(0, 10)})
	e := s.Entry(guest.Process)
	if _, err := e.Tokens(counted(0, 11), nil); err == nil || !strings.HasPrefix(err.Error(), "BUG: ") {
		t.Error(err)
	}
	if _, err := e.Tokens(counted(0, 10), counted(0, 5)); err != nil {
		t.Error(err)
	}
	if _, err := e.Tokens(counted(0, 10), counted(0, 4)); err == nil || !strings.HasPrefix(err.Error(), "BUG: ") {
		t.Error(err)
	}
}

// TestNoRoomForTokens checks that the sequence fails if the guest can't allocate a buffer.
func TestNoRoomForTokens(t *testing.T) {
	// Allocation succeeds three times (params, tokens, config), then fails.
	few := guesttest.Join(
		guesttest.Const(guesttest.Free), guesttest.Load(guesttest.Free), guesttest.Const(1), guesttest.Add(),
		guesttest.Put(),
		guesttest.Load(guesttest.Free), guesttest.Const(0x8000), guesttest.Code{0x6c}, // times
		guesttest.Load(guesttest.Free), guesttest.Const(4), guesttest.Code{0x49, 0x6c}, // times (count < 4)
	)
	f := fake("tgi_alloc", few)
	f.Description = guesttest.Ahead
	g, err := load(t, f)
	if err != nil {
		t.Fatal(err)
	}
	var fault *sandbox.Fault
	_, err = g.Begin(guest.Start{Prompt: counted(0, 5000)})
	if !errors.As(err, &fault) || fault.Func != "tgi_alloc" ||
		!strings.Contains(err.Error(), "no room of 20000 bytes") {
		t.Error(err)
	}
	s, err := g.Begin(guest.Start{})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	if _, err := s.Entry(guest.Process).Tokens(nil, counted(0, 5000)); !errors.As(err, &fault) ||
		fault.Func != "tgi_alloc" {
		t.Error(err)
	}
	if _, err := s.Entry(guest.Process).Call(0, 0); !errors.Is(err, sandbox.ErrBroken) {
		t.Error(err)
	}
}

// rolls is a guest whose process answers with random bits.
var rolls = guesttest.Fake{
	Description: guesttest.Ahead, Imports: []string{"rand_u64"},
	Code: map[string]guesttest.Code{guest.Process: guesttest.Join(guesttest.Call(0), guesttest.Code{0xa7})}, // to i32
}

func draw(t *testing.T, s *guest.Session, n int) (out []uint32) {
	t.Helper()
	e := s.Entry(guest.Process)
	for range n {
		v, err := e.Call(0, 0)
		if err != nil {
			t.Fatal(err)
		}
		out = append(out, uint32(v))
	}
	return out
}

func TestRandomNumbersFollowTheSeed(t *testing.T) {
	g, err := load(t, rolls)
	if err != nil {
		t.Fatal(err)
	}
	sequence := func(seed uint64) *guest.Session {
		s, err := g.Begin(guest.Start{Seed: seed})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(s.Close)
		return s
	}
	want := draw(t, sequence(5), 10)
	if got := draw(t, sequence(5), 10); !slices.Equal(got, want) {
		t.Errorf("the same seed gives %x, then %x", want, got)
	}
	if got := draw(t, sequence(6), 10); slices.Equal(got, want) {
		t.Error("another seed gives the same numbers")
	}
	s := sequence(6)
	draw(t, s, 3)
	twin, err := s.Clone(5, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	if got := draw(t, twin, 10); !slices.Equal(got, want) {
		t.Errorf("a clone of seed 5 gives %x, want %x", got, want)
	}
}

// TestCloneIsIndependent checks that a clone and its original are independent.
func TestCloneIsIndependent(t *testing.T) {
	// process counts and answers with the count.
	count := guesttest.Join(guesttest.Const(guesttest.Free), guesttest.Load(guesttest.Free), guesttest.Const(1),
		guesttest.Add(),
		guesttest.Put(), guesttest.Load(guesttest.Free))
	s := begin(t, fake(guest.Process, count), guest.Start{Prompt: counted(0, 3)})
	draw(t, s, 2)
	twin, err := s.Clone(0, nil)
	if err != nil {
		t.Fatal(err)
	}
	defer twin.Close()
	if a, b := draw(t, s, 3), draw(t, twin, 1); !slices.Equal(a, []uint32{3, 4, 5}) || !slices.Equal(b, []uint32{3}) {
		t.Errorf("original %d, clone %d", a, b)
	}
	at, err := twin.Entry(guest.Process).Tokens(counted(0, 3), counted(50, 2))
	if err != nil {
		t.Fatal(err)
	}
	if got := inRoom(twin, at, 5); !slices.Equal(got, []uint32{0, 1, 2, 50, 51}) {
		t.Errorf("tokens of the clone %d", got)
	}
	s.Close()
	if got := draw(t, twin, 1); got[0] != 4 {
		t.Errorf("%d after the original's end", got)
	}
}

// TestFuelIsSaved checks that a sequence begins with one step's fuel saved, and saves up to Burst.
func TestFuelIsSaved(t *testing.T) {
	const per = 1000
	// process loops argument times.
	loop := guesttest.Code{0x03, 0x40, 0x20, 0, 0x41, 1, 0x6b, 0x22, 0, 0x0d, 0, 0x0b, 0x41, 0}
	c := guest.Config{Wasm: fake(guest.Process, loop).Wasm(), Limits: guest.Limits{FuelPerStep: per}}
	s := beginWith(t, c, guest.Start{})
	if _, err := beginWith(t, c, guest.Start{}).Entry(guest.Process).Call(1000, 0); !errors.Is(err, sandbox.ErrFuel) {
		t.Errorf("1000 rounds at first: %v", err)
	}
	e := s.Entry(guest.Process)
	e.Next()
	used := func(rounds uint64) uint64 {
		before := s.Guest().Stats().Fuel
		if _, err := e.Call(rounds, 0); err != nil {
			t.Fatal(err)
		}
		return s.Guest().Stats().Fuel - before
	}
	round := used(101) - used(1)
	if round < 100 {
		t.Fatalf("100 rounds cost %d", round)
	}
	rounds := uint64(6*per) * 100 / round
	for range 20 {
		e.Next()
	}
	used(rounds)
	e.Next()
	if _, err := e.Call(rounds, 0); !errors.Is(err, sandbox.ErrFuel) {
		t.Errorf("%d rounds after one step: %v", rounds, err)
	}
}

func TestChargeEnds(t *testing.T) {
	s := beginWith(t, guest.Config{Wasm: guesttest.Fake{}.Wasm(), Limits: guest.Limits{FuelPerStep: 1000}},
		guest.Start{})
	e := s.Entry(guest.Process)
	if err := e.Charge(1000); err != nil {
		t.Error(err)
	}
	if err := e.Charge(10); err == nil || err.Error() !=
		"the host's work on it needs 10 fuel: budget 1000, used 1010 with it" {
		t.Error(err)
	}
}

// TestImports calls each import, from the guest's process, with usual and unusual arguments.
func TestImports(t *testing.T) {
	store := func(text string) map[uint32]string { return map[uint32]string{guesttest.Free: text} }
	call := func(args ...uint32) (code guesttest.Code) {
		for _, a := range args {
			code = guesttest.Join(code, guesttest.Const(a))
		}
		return guesttest.Join(code, guesttest.Call(0))
	}
	const to, far, minus = guesttest.Free + 0x100, 0xffff0000, 1<<32 - 1
	for _, c := range []struct {
		name, data string
		args       []uint32
		want       uint32
		wrote      string
		fault      string
	}{
		{name: "vocab_size", want: 259},
		{name: "token_bytes", args: []uint32{256, to, 100}, want: 4, wrote: " the"},
		{name: "token_bytes", args: []uint32{256, to, 4}, want: 4, wrote: " the"},
		{name: "token_bytes", args: []uint32{256, to, 3}, want: 4, wrote: "\x00"},
		{name: "token_bytes", args: []uint32{258, to, 9}, want: 4, wrote: "</s>"},
		{name: "token_bytes", args: []uint32{259, to, 9}, want: minus},
		{name: "token_bytes", args: []uint32{minus, to, 9}, want: minus},
		{name: "token_bytes", args: []uint32{256, far, 3}, want: 4},
		{name: "token_bytes", args: []uint32{256, far, 4}, fault: "room for a token's bytes: 4 bytes at 0xffff0000"},
		{name: "token_flags", args: []uint32{'a'}, want: 0},
		{name: "token_flags", args: []uint32{257}, want: abi.TokenSpecial},
		{name: "token_flags", args: []uint32{258}, want: abi.TokenSpecial | abi.TokenEnd},
		{name: "token_flags", args: []uint32{259}, want: minus},
		{name: "encode", data: "a the", args: []uint32{guesttest.Free, 5, to, 2}, want: 2,
			wrote: "a\x00\x00\x00\x00\x01\x00\x00"},
		{name: "encode", data: "a the", args: []uint32{guesttest.Free, 5, to, 1}, want: 2, wrote: "\x00"},
		{name: "encode", data: "caf\xe9", args: []uint32{guesttest.Free, 4, to, 9}, want: minus},
		{name: "encode", args: []uint32{guesttest.Free, 0, far, 0}, want: 0},
		{name: "encode", data: "ab", args: []uint32{guesttest.Free, 2, far, 9},
			fault: "room for a text's tokens: 8 bytes at 0xffff0000"},
		{name: "encode", args: []uint32{far, 9, to, 9}, fault: "text to encode: 9 bytes at 0xffff0000"},
		{name: "encode", args: []uint32{0, 0x100000, to, 9}, fault: "out of fuel"},
		{name: "log", args: []uint32{0, far, 9}, fault: "text to log: 9 bytes at 0xffff0000"},
	} {
		f := guesttest.Fake{Imports: []string{c.name}, Data: store(c.data),
			Code: map[string]guesttest.Code{guest.Process: call(c.args...)}}
		if c.name == "log" {
			f.Code[guest.Process] = guesttest.Join(f.Code[guest.Process], guesttest.Const(0))
		}
		s := begin(t, f, guest.Start{})
		got, err := s.Entry(guest.Process).Call(0, 0)
		switch {
		case c.fault != "":
			if err == nil || !strings.Contains(err.Error(), c.fault) {
				t.Errorf("%s%d: %v, want %q", c.name, c.args, err, c.fault)
			}
		case err != nil:
			t.Errorf("%s%d: %v", c.name, c.args, err)
		case uint32(got) != c.want:
			t.Errorf("%s%d: %d, want %d", c.name, c.args, uint32(got), c.want)
		default:
			if wrote := string(s.Memory()[to : to+len(c.wrote)]); wrote != c.wrote {
				t.Errorf("%s%d wrote %q, want %q", c.name, c.args, wrote, c.wrote)
			}
		}
	}
}

// TestImportNotOffered checks that one error names the import, its signature, and all wrong exports.
func TestImportNotOffered(t *testing.T) {
	f := guesttest.Fake{Drop: []string{"tgi_init"}, Foreign: []abi.Func{
		{Name: "sleep", Params: []abi.Type{abi.I64}},
		{Name: "log", Params: []abi.Type{abi.I32}},
	}}
	_, err := load(t, f)
	if !errors.Is(err, sandbox.ErrImport) || !errors.Is(err, sandbox.ErrExport) {
		t.Fatal(err)
	}
	for _, want := range []string{`"sleep"`, "is not offered",
		`import "tgi" "log" is a function (i32) -> (), (i32 i32 i32) -> () wanted`, `"tgi_init" is missing`} {
		if !strings.Contains(err.Error(), want) {
			t.Errorf("%q lacks %q", err, want)
		}
	}
}

func TestLog(t *testing.T) {
	type line struct {
		level int
		text  string
	}
	var lines []line
	long := strings.Repeat("x", 400) + "\n"
	data := map[uint32]string{guesttest.Free: "hello", guesttest.Free + 0x100: strings.Repeat(long, 20)}
	say := func(level, at, n uint32) guesttest.Code {
		return guesttest.Join(guesttest.Const(level), guesttest.Const(at), guesttest.Const(n), guesttest.Call(0))
	}
	f := guesttest.Fake{Imports: []string{"log"}, Data: data, Code: map[string]guesttest.Code{
		"tgi_init":    guesttest.Join(say(abi.LevelWarn, guesttest.Free, 5), guesttest.Long(0)),
		guest.Process: guesttest.Join(say(77, guesttest.Free+0x100, 20*401), guesttest.Trap()),
	}}
	s := beginWith(t, guest.Config{Wasm: f.Wasm(), Log: func(level int, text string) {
		lines = append(lines, line{level, text})
	}}, guest.Start{})
	_, err := s.Entry(guest.Process).Call(0, 0)
	var fault *sandbox.Fault
	if !errors.As(err, &fault) || len(fault.Log) != 11 || !strings.Contains(err.Error(), `last printed: "xxx`) {
		t.Errorf("%.200v", err)
	}
	if len(lines) != 12 || lines[0] != (line{abi.LevelWarn, "hello"}) ||
		lines[1] != (line{abi.LevelError, long[:400]}) {
		t.Fatalf("%d lines, %.200v", len(lines), lines)
	}
	if last := lines[11].text; len(last) != abi.MaxText-10*401 {
		t.Errorf("last line of %d bytes: texts are cut at %d", len(last), abi.MaxText)
	}
}
