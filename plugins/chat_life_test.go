package plugins

import (
	"errors"
	"strings"
	"testing"
	"time"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// TestChatBreaker: a template that keeps failing is switched off, and tried again by one request; a refusal is no
// fault.
func TestChatBreaker(t *testing.T) {
	for _, name := range []string{"t", "p"} {
		s := chatSet(t, Options{Breaker: Breaker{Faults: 2, Pause: time.Hour}})
		bad, no := Call{Name: name, Params: []byte(doTrap)}, Call{Name: name, Params: []byte(doRefuse)}
		run := func(calls ...Call) {
			for _, c := range calls {
				_, _, _ = converse(s, chatDefaults, c)
			}
		}
		run(bad, Call{Name: name}, bad) // what works between begins the row anew
		if name == "t" {
			run(no, bad) // so does a conversation that the template refuses
		}
		if st, _ := s.Get(name); st.OffClients != 0 {
			t.Errorf("%s: %s", name, st.Error)
		}
		run(bad)
		if st, _ := s.Get(name); st.OffClients != 1 {
			t.Errorf("%s is on", name)
		}
		_, _, err := converse(s, chatDefaults)
		if !errors.Is(err, ErrOff) || !strings.Contains(err.Error(), "after 2 faulty requests in a row") {
			t.Errorf("%s, off: %v", name, err)
		}
		expire := func() {
			v := s.names[name].current
			v.breakers.mu.Lock()
			v.breakers.byClient[""].until = time.Time{}
			v.breakers.mu.Unlock()
		}
		expire()
		b := bindChat(t, s, chatDefaults) // tries nothing
		if _, _, err := converse(s, chatDefaults); !errors.Is(err, ErrOff) {
			t.Errorf("%s: a second request beside the one that tries: %v", name, err)
		}
		b.Close()
		if _, _, err := converse(s, chatDefaults, bad); !errors.Is(err, ErrFault) {
			t.Errorf("%s, tried: %v", name, err)
		}
		if _, _, err := converse(s, chatDefaults); !errors.Is(err, ErrOff) {
			t.Errorf("%s, tried in vain: %v", name, err)
		}
		expire()
		if _, _, err := converse(s, chatDefaults); err != nil {
			t.Errorf("%s, tried with success: %v", name, err)
		}
		if st, _ := s.Get(name); st.OffClients != 0 {
			t.Errorf("%s: %s", name, st.Error)
		}
	}
}

// TestChatBreakerShared: a plugin that also serves the token loop is tried there, too, in the same trial.
func TestChatBreakerShared(t *testing.T) {
	f := parser("hi")
	f.Description = `{"name":"mixed","kinds":["tools","logits"]}`
	s := open(t, Options{Specs: []Spec{spec(t, "mixed", f.Wasm())}, Breaker: Breaker{Faults: 1, Pause: time.Hour},
		Request: requestOf})
	v := s.names["mixed"].current
	if v.breakers.fault(time.Now(), "", "made up", trial{}) == "" {
		t.Fatal("not switched off")
	}
	v.breakers.byClient[""].until = time.Time{} // to be tried
	other := named(ctx, "other")
	ctx := named(ctx, "mine")
	b, rest, err := s.BindChat(ctx, []Call{{Name: "mixed"}}, ChatPlugins{})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	loop, err := s.Bind(ctx, rest)
	if err != nil {
		t.Fatal("the sequence's own trial: ", err)
	}
	defer loop.Close()
	if loop.parts[0].trial == (trial{}) {
		t.Error("the sequence tries nothing")
	}
	if _, _, err := s.BindChat(other, []Call{{Name: "mixed"}}, ChatPlugins{}); !errors.Is(err, ErrOff) {
		t.Errorf("beside the trial: %v", err)
	}
}

// TestChatSettings: settings that make no sense for a plugin of conversations are refused with a reason, where the kind
// is known; the model reaches its configuration.
func TestChatSettings(t *testing.T) {
	tools := parser("hi").Wasm()
	always, skip := spec(t, "always", tools), spec(t, "skip", tools)
	always.Apply, skip.OnError = ApplyAlways, OnErrorSkip
	_, err := Open(ctx, options(t, Options{Specs: []Spec{always, skip}}))
	for _, want := range []string{`always: apply is "always", but a plugin of kind ["tools"] is chosen for a model`,
		`skip: on_error is "skip", but no chat request can go on`} {
		if !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	always.Kind, skip.Kind = abi.KindTools, abi.KindTemplate
	if _, err = Open(ctx, options(t, Options{Specs: []Spec{always, skip}})); !errors.Is(err, ErrSpec) ||
		errors.Is(err, ErrLoad) {
		t.Errorf("with kinds: %v", err)
	}
	s := open(t, Options{})
	if _, err := s.Put(ctx, "up", tools, Upload{OnError: OnErrorSkip}); !errors.Is(err, ErrLoad) {
		t.Errorf("upload: %v", err)
	}
	mixed := parser("hi")
	mixed.Description = `{"name":"mixed","kinds":["tools","logits"]}`
	if _, err := s.Put(ctx, "up", mixed.Wasm(), Upload{OnError: OnErrorSkip, Apply: ApplyAlways}); err != nil {
		t.Errorf("one that serves the token loop too: %v", err)
	}
	if _, err := Open(ctx, options(t, Options{Model: []byte("[]")})); !errors.Is(err, ErrSpec) {
		t.Errorf("model: %v", err)
	}
	// init refuses what is not as long as it is to be.
	picky := parser("not so")
	picky.Code["tgi_init"] = guesttest.Join(guesttest.Arg(1),
		guesttest.Const(uint32(len(`{"a":1,"model":{"name":"m"}}`))), guesttest.Sub(),
		guesttest.When(guesttest.Join(guesttest.Long(abi.Pack(saysAt, 6)), guesttest.Code{0x0f})), guesttest.Long(0))
	sp := spec(t, "picky", picky.Wasm())
	sp.Config = []byte(`{"a":1}`)
	open(t, Options{Specs: []Spec{sp}, Model: []byte(`{"name":"m"}`)})
	if _, err := Open(ctx, options(t, Options{Specs: []Spec{sp}})); err == nil ||
		!strings.Contains(err.Error(), "not so") {
		t.Errorf("without a model: %v", err)
	}
}

// TestChatSelfTest: a version that fails with a small conversation never serves; one that refuses it does.
func TestChatSelfTest(t *testing.T) {
	with := func(f guesttest.Fake, export string, code guesttest.Code) []byte {
		f.Code[export] = code
		return f.Wasm()
	}
	noText := renderer("x")
	noText.Data[guesttest.Free] = guesttest.Bytes(9)
	for want, wasm := range map[string][]byte{
		"first steps: a: tgi_template_render: trap": with(renderer("x"),
			"tgi_template_render", guesttest.Trap()),
		"first steps: a: tgi_template_render: unusable result: status 9":      noText.Wasm(),
		"first steps: a: tgi_template_render: unusable result: span 0 from 1": renderer("").Wasm(),
		"first steps: a: tgi_tools_begin: trap": with(parser("x"), "tgi_tools_begin",
			guesttest.Trap()),
		"first steps: a: tgi_tools_feed: out of fuel": with(parser("x"), "tgi_tools_feed",
			guesttest.Spin()),
		"first steps: a: tgi_tools_feed: unusable result: event 0: text of 1 byt": parser("\xff").Wasm(),
		"first steps: a: tgi_tools_finish: trap": with(parser("x"), "tgi_tools_finish",
			guesttest.Trap()),
		"first steps: a: tgi_validate: trap": with(parser("x"), "tgi_validate",
			guesttest.Trap()),
	} {
		s, err := Open(ctx, options(t, Options{Specs: []Spec{spec(t, "a", wasm)}}))
		if err == nil {
			s.Close()
		}
		if !errors.Is(err, ErrLoad) || !strings.Contains(err.Error(), want) {
			t.Errorf("%v, want %q", err, want)
		}
	}
	refusing := renderer("no")
	refusing.Data = result(abi.StatusFailed, "no")
	strict := with(parser("no"), "tgi_tools_begin", guesttest.Long(abi.Pack(saysAt, 2)))
	s := open(t, Options{Specs: []Spec{spec(t, "t", refusing.Wasm()), spec(t, "p", strict)}})
	for _, st := range s.List() {
		if st.State != StateActive || st.Stats.Refusals != 0 {
			t.Errorf("%+v", st)
		}
	}
}
