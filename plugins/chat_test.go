package plugins

import (
	"context"
	"errors"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/template"
	"tgi/sdk/abi"
)

func TestConverse(t *testing.T) {
	s := chatSet(t, Options{})
	b := bindChat(t, s, chatDefaults)
	defer b.Close()
	r, err := b.Render(ctx, []byte(renderRequest))
	if err != nil || r.Text != "hello" || !slices.Equal(r.Data, []template.Span{{Start: 1, End: 2}}) {
		t.Errorf("%+v, %v", r, err)
	}
	p, err := b.Parser(ctx, []byte(parseRequest), 1)
	if err != nil {
		t.Fatal(err)
	}
	if events, err := p.Feed("x", true); err != nil ||
		!slices.Equal(events, []Event{{Kind: abi.EventContent, Text: "hi"}}) {
		t.Errorf("%+v, %v", events, err)
	}
	if events, err := p.Finish(true); err != nil || events != nil {
		t.Errorf("%+v, %v", events, err)
	}
	p.Close()
	p.Close()
	for name, calls := range map[string]uint64{"t": 1, "p": 3} {
		if st, _ := s.Get(name); st.Stats.Calls != calls || st.Stats.InstancesOut != 0 || st.Stats.Fuel == 0 {
			t.Errorf("%s: %+v", name, st.Stats)
		}
	}
	if st, _ := s.Get("t"); !slices.Equal(st.Kinds, []string{abi.KindTemplate}) || st.State != StateActive {
		t.Errorf("%+v", st)
	}
}

// TestBindChatPicks: who renders and who parses, with which parameters, and which calls are left for the token loop.
func TestBindChatPicks(t *testing.T) {
	both := renderer("both")
	both.Description = `{"name":"both","kinds":["template","tools"]}`
	mixed := renderer("mixed")
	mixed.Description = `{"name":"mixed","kinds":["template","logits"]}`
	s := chatSet(t, Options{Specs: []Spec{spec(t, "both", both.Wasm()), spec(t, "mixed", mixed.Wasm()),
		spec(t, "t2", renderer("two").Wasm())}})
	named := func(p *part) string {
		if p == nil {
			return ""
		}
		return p.name + string(p.params)
	}
	call := func(name string) Call { return Call{Name: name} }
	for _, c := range []struct {
		calls           []Call
		d               ChatPlugins
		template, tools string
		rest            []string
	}{
		{nil, ChatPlugins{}, "", "", nil},
		{nil, chatDefaults, "t", "p", nil},
		{[]Call{call("l")}, chatDefaults, "t", "p", []string{"l"}},
		{[]Call{call("t2")}, chatDefaults, "t2", "p", nil},
		{[]Call{{Name: "t", Params: []byte(`{"x":1}`)}, call("l")}, chatDefaults, `t{"x":1}`, "p", []string{"l"}},
		{[]Call{call("both")}, chatDefaults, "both", "both", nil},
		{nil, ChatPlugins{Template: "both", Tools: "both"}, "both", "both", nil},
		{nil, ChatPlugins{Template: "both", Tools: "p"}, "both", "p", nil},
		{[]Call{{Name: "p", Params: []byte(`{"x":1}`)}}, ChatPlugins{Template: "both", Tools: "both"},
			"both", `p{"x":1}`, nil},
		{[]Call{call("l"), call("mixed"), call("p")}, chatDefaults, "mixed", "p", []string{"l", "mixed"}},
	} {
		b, rest, err := s.BindChat(ctx, c.calls, c.d)
		if err != nil {
			t.Errorf("%q, %+v: %v", c.calls, c.d, err)
			continue
		}
		var left []string
		for _, r := range rest {
			left = append(left, r.Name)
		}
		if named(b.template) != c.template || named(b.tools) != c.tools || !slices.Equal(left, c.rest) {
			t.Errorf("%q, %+v: template %q, tools %q, rest %q", c.calls, c.d, named(b.template), named(b.tools), left)
		}
		if len(rest) > 0 {
			loop, err := s.Bind(ctx, rest)
			if err != nil {
				t.Fatal(err)
			}
			if err := loop.Begin(ctx, prompt, 4, []uint64{1}); err != nil {
				t.Error(err)
			}
			loop.Close()
		}
		b.Close()
		b.Close()
	}
	for _, e := range s.order {
		if n := e.current.refs.Load(); n != 1 {
			t.Errorf("%s: %d references", e.name, n)
		}
	}
}

func TestBindChatRefusals(t *testing.T) {
	bad := spec(t, "bad", renderer("xx").Wasm())
	s := chatSet(t, Options{Specs: []Spec{spec(t, "t2", renderer("two").Wasm()), spec(t, "p2", parser("two").Wasm()),
		bad}})
	s.names["bad"].current.unref()
	s.names["bad"].current = nil
	for _, c := range []struct {
		calls        []Call
		d            ChatPlugins
		plugin, text string
		kind         error
	}{
		{[]Call{{Name: "x"}}, chatDefaults, "x", "there is no plugin of this name", ErrUnknown},
		{nil, ChatPlugins{Template: "x"}, "x", "there is no plugin of this name", ErrUnknown},
		{nil, ChatPlugins{Tools: "bad"}, "bad", "could not be loaded", ErrOff},
		{[]Call{{Name: "bad"}}, chatDefaults, "bad", "could not be loaded", ErrOff},
		{[]Call{{Name: "l"}, {Name: "l"}}, chatDefaults, "l", "is named twice", ErrParams},
		{[]Call{{Name: "t"}, {Name: "t2"}}, chatDefaults, "t2",
			`cannot take part beside t: both are of kind "template", and a request has one`, ErrParams},
		{[]Call{{Name: "p2"}, {Name: "p"}}, chatDefaults, "p", `cannot take part beside p2: both are of kind "tools", and a request has one`,
			ErrParams},
		{nil, ChatPlugins{Template: "p"}, "p", `serves ["tools"], kind "template" is wanted`, ErrParams},
		{nil, ChatPlugins{Tools: "l"}, "l", `serves ["logits"], kind "tools" is wanted`, ErrParams},
		{[]Call{{Name: "t", Params: []byte("[]")}}, chatDefaults, "t", "params is not a JSON object", ErrParams},
	} {
		b, rest, err := s.BindChat(ctx, c.calls, c.d)
		var be *BindError
		if !errors.As(err, &be) || be.Plugin != c.plugin || be.Text != c.text || !errors.Is(err, c.kind) || b != nil ||
			rest != nil {
			t.Errorf("%q, %+v: %v, want %s: %s", c.calls, c.d, err, c.plugin, c.text)
		}
	}
	for _, name := range []string{"t", "p"} {
		if err := refusal(t, s, Call{Name: name}); !errors.Is(err, ErrParams) ||
			err.Text != "works on conversations: only chat requests can name it" {
			t.Errorf("%s in the token loop: %v", name, err)
		}
	}
	for _, e := range s.order {
		if v := e.current; v != nil && v.refs.Load() != 1 {
			t.Errorf("%s: %d references", e.name, v.refs.Load())
		}
	}
	s.Close()
	if _, _, err := s.BindChat(ctx, nil, chatDefaults); !errors.Is(err, ErrClosed) {
		t.Errorf("closed: %v", err)
	}
}

// TestChatWithoutPlugins: without a template nothing can be rendered, without a parser the text is the content.
func TestChatWithoutPlugins(t *testing.T) {
	b := bindChat(t, chatSet(t, Options{}), ChatPlugins{})
	defer b.Close()
	if _, err := b.Render(ctx, []byte(renderRequest)); !errors.Is(err, ErrNoTemplate) {
		t.Errorf("render: %v", err)
	}
	if p, err := b.Parser(ctx, []byte(parseRequest), 1); p != nil || err != nil {
		t.Errorf("parser: %v, %v", p, err)
	}
}

// TestChatErrors: what a guest answers other than well, by what it is told to do.
func TestChatErrors(t *testing.T) {
	s := chatSet(t, Options{})
	for _, c := range []struct {
		call Call
		kind error
		text string
	}{
		{Call{Name: "t", Params: []byte(doRefuse)}, ErrRefused, "plugin t: hello"},
		{Call{Name: "t", Params: []byte(doTrap)}, ErrFault, "plugin t: tgi_template_render: trap: unreachable"},
		{Call{Name: "t", Params: []byte(doSpin)}, ErrParams,
			"plugin t: takes more than fuel_per_request = 5000000000 allows to render. Given: 23 bytes"},
		{Call{Name: "t", Params: []byte(doRogue)}, ErrFault,
			"plugin t: tgi_template_render: unusable result: result of 20 bytes at 0xfffffff0"},
		{Call{Name: "p", Params: []byte(doRefuse)}, ErrParams, "plugin p: hi"},
		{Call{Name: "p", Params: []byte(doTrap)}, ErrFault, "plugin p: tgi_tools_begin: trap: unreachable"},
		{Call{Name: "p", Params: []byte(doSpin)}, ErrParams,
			"plugin p: takes more than fuel_per_request = 500000000 allows to begin a text. Given: 20 bytes"},
		{Call{Name: "p", Params: []byte(doRogue)}, ErrFault,
			"plugin failed: plugin p: tgi_tools_feed: unusable result: 1 events at 0xfffffff0"},
	} {
		_, _, err := converse(s, chatDefaults, c.call)
		if !errors.Is(err, c.kind) || !strings.HasPrefix(err.Error(), c.text) {
			t.Errorf("%s with %s: %v, want %q", c.call.Name, c.call.Params, err, c.text)
		}
		if c.kind == ErrFault && c.call.Name == "t" && !strings.Contains(err.Error(), `last printed: "he"`) {
			t.Errorf("%v does not tell what was printed last", err)
		}
		var no *RenderRefusal
		if errors.As(err, &no) != (c.kind == ErrRefused) || no != nil && (no.Plugin != "t" || no.Text != "hello") {
			t.Errorf("%v: %+v", err, no)
		}
	}
	for name, want := range map[string][4]uint64{"t": {1, 1, 1, 1}, "p": {1, 1, 1, 1}} {
		st, _ := s.Get(name)
		if got := [4]uint64{st.Stats.Refusals, st.Stats.Faults["trap"], st.Stats.Faults["fuel"],
			st.Stats.Faults["result"]}; got != want || st.Stats.InstancesOut != 0 {
			t.Errorf("%s: %v, %+v", name, got, st.Stats)
		}
	}
}

// TestParserStaysBroken: the first error of a parser is its last word.
func TestParserStaysBroken(t *testing.T) {
	s := chatSet(t, Options{})
	b := bindChat(t, s, chatDefaults, Call{Name: "p", Params: []byte(doRogue)})
	p, err := b.Parser(ctx, []byte(parseRequest), 1)
	if err != nil {
		t.Fatal(err)
	}
	b.Close()
	_, first := p.Feed("x", false)
	_, again := p.Feed("x", false)
	_, last := p.Finish(false)
	if first == nil || again != first || last != first {
		t.Errorf("%v, then %v and %v", first, again, last)
	}
	p.Close()
	if st, _ := s.Get("p"); st.Stats.Faults["result"] != 1 || st.Stats.InstancesOut != 0 {
		t.Errorf("%+v", st.Stats)
	}
	if n := s.names["p"].current.refs.Load(); n != 1 {
		t.Errorf("%d references", n)
	}
}

// TestChatCancelled: a request's end ends a render, a begin and a feed that run, and is no fault.
func TestChatCancelled(t *testing.T) {
	slow := parser("hi")
	slow.Code["tgi_tools_feed"] = guesttest.Join(guesttest.Load(countAt), guesttest.When(guesttest.Spin()),
		guesttest.Long(0))
	t1, p1 := spec(t, "t", renderer("xx").Wasm()), spec(t, "p", slow.Wasm())
	for _, sp := range []*Spec{&t1, &p1} {
		sp.Limits.FuelPerRequest, sp.Limits.FuelPerStep = 1<<49, 1<<40
	}
	s := open(t, Options{Specs: []Spec{t1, p1}, Breaker: Breaker{Faults: 1}})
	why := errors.New("the client left")
	gone := func() context.Context {
		c, cancel := context.WithCancelCause(ctx)
		cancel(why)
		return c
	}
	b := bindChat(t, s, chatDefaults, Call{Name: "t", Params: []byte(doSpin)}, Call{Name: "p", Params: []byte(doSpin)})
	if _, err := b.Render(gone(), []byte(renderRequest)); !errors.Is(err, why) {
		t.Errorf("render: %v", err)
	}
	if _, err := b.Parser(gone(), []byte(parseRequest), 1); !errors.Is(err, why) {
		t.Errorf("parser: %v", err)
	}
	b.Close()
	b = bindChat(t, s, chatDefaults, Call{Name: "p", Params: []byte(doRogue)})
	c, cancel := context.WithCancelCause(ctx)
	p, err := b.Parser(c, []byte(parseRequest), 1)
	if err != nil {
		t.Fatal(err)
	}
	cancel(why)
	if _, err := p.Feed("x", false); !errors.Is(err, why) {
		t.Errorf("feed: %v", err)
	}
	p.Close()
	b.Close()
	for name, n := range map[string]uint64{"t": 1, "p": 2} {
		if st, _ := s.Get(name); st.State != StateActive || st.Stats.Cancelled != n || st.Stats.InstancesOut != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestChatBusy: an instance is taken for the call alone, by a parser for its life.
func TestChatBusy(t *testing.T) {
	s := chatSet(t, Options{MaxInstances: 1})
	settle(t, s, 1)
	b := bindChat(t, s, chatDefaults)
	defer b.Close()
	p, err := b.Parser(ctx, []byte(parseRequest), 1)
	if err != nil {
		t.Fatal(err)
	}
	if _, err := b.Parser(ctx, []byte(parseRequest), 2); !errors.Is(err, ErrBusy) {
		t.Errorf("a second parser: %v", err)
	}
	p.Close()
	if p, err = b.Parser(ctx, []byte(parseRequest), 2); err != nil {
		t.Fatal(err)
	}
	p.Close()
	for range 3 {
		if _, err := b.Render(ctx, []byte(renderRequest)); err != nil {
			t.Error(err)
		}
	}
}
