package plugins

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tgi/plugins/grammar/ir/irtest"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
)

// padded is a request that reaches a guest with n bytes, which has the members given.
func padded(members string, n int) string {
	request := "{" + members + "}"
	missing := n - len(guest.WithMember([]byte(request), "params", nil))
	return "{" + members + strings.Repeat(" ", missing) + "}"
}

// TestTooCostly: a plugin that runs out of a limit over a large conversation or over a client's variables is no faulty
// plugin; one that does so over nothing is.
func TestTooCostly(t *testing.T) {
	const small, large, greedy = 100, 5000, 6000
	when := func(n uint32, code guesttest.Code) guesttest.Code {
		return guesttest.Join(guesttest.Arg(1), guesttest.Const(n), guesttest.Equal(), guesttest.When(code))
	}
	out := guesttest.Join(when(small, guesttest.Spin()), when(large, guesttest.Spin()),
		when(greedy, guesttest.Join(guesttest.Grow(20), guesttest.Trap())))
	renders, parses := renderer("hello"), parser("hi")
	renders.Code["tgi_template_render"] = guesttest.Join(out, guesttest.Const(guesttest.Free))
	parses.Code["tgi_tools_begin"] = guesttest.Join(out, guesttest.Long(0))
	rs, ps := spec(t, "renders", renders.Wasm()), spec(t, "parses", parses.Wasm())
	rs.Limits, ps.Limits = Limits{FuelPerRequest: 5_000_000, Memory: 2 << 20}, Limits{FuelPerRequest: 6_000_000}
	s := open(t, Options{Breaker: Breaker{Faults: 1, Pause: time.Hour}, Specs: []Spec{rs, ps}})
	b := bindChat(t, s, ChatPlugins{Template: "renders", Tools: "parses"})
	defer b.Close()
	render := func(request string) error {
		_, err := b.Render(ctx, []byte(request))
		return err
	}
	begin := func(request string) error {
		_, err := b.Parser(ctx, []byte(request), 1)
		return err
	}
	for _, c := range []struct {
		plugin   string
		ask      func(string) error
		request  string
		setting  string // that the client's request passes; "" where the plugin is at fault
		bound    string
		goesWell bool
	}{
		{"renders", render, padded("", 5001), "", "", true},
		{"renders", render, padded("", large), "fuel_per_request", "5000000", false},
		{"renders", render, padded(`"kwargs":{"n":1}`, small), "fuel_per_request", "5000000", false},
		{"renders", render, padded("", greedy), "memory", "2097152", false},
		{"renders", render, padded(`"kwargs":{}`, small), "", "", false},
		{"parses", begin, padded("", large), "fuel_per_request", "6000000", false},
		{"parses", begin, padded("", small), "", "", false},
	} {
		err := c.ask(c.request)
		var costly *TooCostly
		switch got := errors.As(err, &costly); {
		case (err == nil) != c.goesWell, got != (c.setting != ""), !got && !c.goesWell && !errors.Is(err, ErrFault):
			t.Errorf("%s %.40s: %v", c.plugin, c.request, err)
		case got && (costly.Setting != c.setting || costly.Bound != c.bound || costly.Bytes != len(c.request) ||
			!errors.Is(err, ErrParams)):
			t.Errorf("%s %.40s: %+v", c.plugin, c.request, costly)
		}
		if st, _ := s.Get(c.plugin); (st.OffClients > 0) != errors.Is(err, ErrFault) {
			t.Errorf("%s %.40s: off for %d after %v", c.plugin, c.request, st.OffClients, err)
		}
	}
}

// TestTooCostlyParams: a plugin whose check of parameters runs out of its limits was given too much.
func TestTooCostlyParams(t *testing.T) {
	f := bias(1)
	f.Code["tgi_validate"] = guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(doSpin))), guesttest.Equal(),
		guesttest.When(guesttest.Spin()), guesttest.Long(0))
	s := open(t, Options{Breaker: Breaker{Faults: 1, Pause: time.Hour}, Specs: []Spec{spec(t, "a", f.Wasm())}})
	for range 2 {
		_, err := s.Bind(ctx, []Call{{Name: "a", Params: []byte(doSpin)}})
		want := "plugin a: takes more than fuel_per_request = 50000000 allows to begin with its parameters. Given: 8 bytes"
		if err == nil || err.Error() != want || !errors.Is(err, ErrParams) {
			t.Errorf("got %v, want %s", err, want)
		}
	}
}

// TestTooCostlyToFollow: a grammar that takes too much on the way is the client's fault, whatever call finds out.
func TestTooCostlyToFollow(t *testing.T) {
	var b irtest.Builder
	x := b.Bytes("aa")
	for range 5 {
		x = b.Repeat(b.Concat(x, b.Repeat(b.Bytes("bb"), 0, 1)), 1, 100)
	}
	b.G.Start = b.Declare("start")
	b.Define(b.G.Start, b.Term(x))
	s := grammarSet(t, Options{Specs: []Spec{spec(t, "counts", compiles(&b.G).Wasm())}})
	g, err := s.Compile(ctx, GrammarCall{Plugin: "counts", Source: []byte(theSource)})
	if err != nil {
		t.Fatal(err)
	}
	defer g.Close()
	c, err := g.Sequence(ctx, 1)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	bits, a := make([]uint32, (guesttest.NewWords().Size()+31)/32), guesttest.NewWords().Encode("a")[0]
	for range 500 {
		if _, err = c.Mask(bits); err == nil {
			err = c.Accept(a)
		}
		if err != nil {
			break
		}
	}
	var no *BindError
	if !errors.As(err, &no) || !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), "at most") {
		t.Errorf("got %v", err)
	}
}
