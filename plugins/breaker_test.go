package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/plugins/internal/guest/guesttest"
)

// TestBreaker runs stories of a breaker that opens after 2 faults for a minute. Letters: a a request is admitted, A it
// is the one that tries, x it is refused; f F a sequence of it was faulty, g G it was good (capitals: of the last
// trial), O the trial is given back; + half a minute passes. Upper and lower case f and g count alike where nothing is
// off.
func TestBreaker(t *testing.T) {
	for _, story := range []string{
		"a a f a",                   // one fault is nothing
		"a f g f a",                 // a good sequence starts the count anew
		"a f f x + x + A x",         // two in a row; then one tries
		"a f f + + A G a f a",       // the trial was good: on, and the count begins anew
		"a f f + + A F x + x + A",   // the trial failed: off for the whole pause again
		"a f f + + A O A",           // a trial that shows nothing is given back
		"a a f f g x + + f g A g x", // sequences from before tell nothing of it being off
		"a f f + + A F G x + + A G", // what a failed trial's other sequence did comes too late
		"a f f + + A G F a F x",     // what a good trial's others do counts as usual
	} {
		b := &breaker{limit: 2, pause: time.Minute}
		now := time.Unix(0, 0)
		var trial uint64
		for i, step := range strings.ReplaceAll(story, " ", "") {
			bad := false
			switch step {
			case 'a', 'A', 'x':
				got, refused := b.admit(now)
				bad = (refused != "") != (step == 'x') || (got != 0) != (step == 'A')
				if got != 0 {
					trial = got
				}
			case 'f':
				b.fault(now, "why", "", 0)
			case 'F':
				b.fault(now, "why", "", trial)
			case 'g':
				b.success(0)
			case 'G':
				b.success(trial)
			case 'O':
				b.cancelTrial(trial)
			case '+':
				now = now.Add(30 * time.Second)
			}
			if bad {
				t.Errorf("%s: step %d", story, i)
			}
		}
	}
	never := &breaker{}
	for range 100 {
		never.fault(time.Unix(0, 0), "why", "", 0)
	}
	if _, refused := never.admit(time.Unix(0, 0)); refused != "" {
		t.Error("a breaker of 0 faults refused a request")
	}
}

// TestBreakerOfRequests: a plugin that keeps failing is switched off, says so, is tried by one request, and comes back.
func TestBreakerOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logLines{}
		s := open(t, Options{Specs: []Spec{spec(t, "a", faulty())}, Breaker: Breaker{Faults: 3, Pause: time.Minute},
			Log: logger(log)})
		state := func(want State) Status {
			t.Helper()
			st, _ := s.Get("a")
			if st.State != want {
				t.Errorf("state %s, want %s", st.State, want)
			}
			return st
		}
		call := func(params string) error {
			_, err := once(s, Call{Name: "a", Params: []byte(params)})
			return err
		}
		for _, params := range []string{doTrap, doTrap, "{}", doSpin, doRogue} {
			if err := call(params); (err == nil) != (params == "{}") {
				t.Fatalf("%s: %v", params, err)
			}
			state(StateActive)
		}
		if err := call(doTrap); err == nil || errors.Is(err, ErrOff) {
			t.Fatal(err)
		}
		if st := state(StateOff); !strings.Contains(st.Error,
			"after 3 faulty requests in a row, the last: tgi_logits_process: trap") {
			t.Errorf("error %q", st.Error)
		}
		err := call("{}")
		if !errors.Is(err, ErrOff) || !strings.Contains(err.Error(), "switched off at 2000-01-01T00:00:00Z for 1m0s") {
			t.Errorf("refused with %v", err)
		}
		time.Sleep(time.Minute)
		state(StateActive) // its pause is over: the next request tries it
		trial := bind(t, s, 1, Call{Name: "a"})
		if err := call("{}"); !errors.Is(err, ErrOff) {
			t.Errorf("two requests try the plugin: %v", err)
		}
		state(StateOff) // until the one that tries it has ended
		trial.Close()   // without a step
		if err := call(doTrap); err == nil || errors.Is(err, ErrOff) {
			t.Errorf("the next try: %v", err)
		}
		state(StateOff)
		time.Sleep(time.Minute)
		if err := call("{}"); err != nil {
			t.Errorf("the last try: %v", err)
		}
		state(StateActive)
		if err := call("{}"); err != nil {
			t.Error(err)
		}
		for _, want := range []string{"plugin switched off", "plugin switched on again"} {
			if !strings.Contains(log.String(), want) {
				t.Errorf("not logged: %s", want)
			}
		}
	})
}

// TestBreakerAlways: while a plugin is off, requests it applies to anyway go on without it, or are refused, as its
// on_error says. Refusals of parameters and reloads: the former never switch it off, the latter switch it on.
func TestBreakerAlways(t *testing.T) {
	for _, onError := range []OnError{OnErrorFail, OnErrorSkip} {
		sp := spec(t, "a", faulty())
		sp.Apply, sp.OnError = ApplyAlways, onError
		s := open(t, Options{Specs: []Spec{sp, spec(t, "b", bias(1).Wasm())}, Breaker: Breaker{Faults: 1,
			Pause: time.Hour}})
		if _, err := once(s, Call{Name: "a", Params: []byte(doTrap)}); (err == nil) != (onError == OnErrorSkip) {
			t.Errorf("%s: %v", onError, err)
		}
		b, err := s.Bind(t.Context(), []Call{{Name: "b"}})
		switch {
		case onError == OnErrorFail:
			if !errors.Is(err, ErrOff) {
				t.Errorf("fail: %v", err)
			}
		case err != nil:
			t.Fatal(err)
		default:
			if got := b.Skipped(); len(got) != 1 || got[0].Plugin != "a" ||
				!strings.HasPrefix(got[0].Reason, "switched off at ") {
				t.Errorf("skipped %q", got)
			}
			if err := b.Begin(t.Context(), prompt, 0, []uint64{1}); err != nil {
				t.Fatal(err)
			}
			if seq := b.Sequence(0); len(seq.Processors) != 1 {
				t.Errorf("%d processors", len(seq.Processors))
			}
			b.Release(0)
			b.Close()
		}
		write(t, sp.Source, bias(3).Wasm())
		if r, err := s.Reload(t.Context(), []Spec{sp}); err != nil || len(r.Loaded) != 1 {
			t.Fatalf("%+v, %v", r, err)
		}
		if x, err := once(s); err != nil || x[5] != 3 {
			t.Errorf("%s: a new version: %v", onError, err)
		}
	}
}

func TestBreakerIgnoresRefusals(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", obligatory())}, Breaker: Breaker{Faults: 1, Pause: time.Hour}})
	for range 3 {
		if _, err := once(s, Call{Name: "a"}); !errors.Is(err, ErrParams) {
			t.Fatal(err)
		}
	}
	if _, err := once(s, Call{Name: "a", Params: []byte(`{"x":1}`)}); err != nil {
		t.Error(err)
	}
}

// TestBreakerCountsSequences: a sequence that goes well for some steps and then fails is a faulty one.
func TestBreakerCountsSequences(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", guesttest.SDK(t, "every-mode")["c"])}, Breaker: Breaker{Faults: 2,
		Pause: time.Hour}})
	for i, want := range []State{StateActive, StateOff} {
		b := bind(t, s, 1, Call{Name: "a", Params: []byte(`{"trap_at":1}`)})
		p := b.Sequence(0).Processors[0]
		for step := range 2 {
			if _, err := p.Run(prompt, make([]uint32, step), row()); (err != nil) != (step == 1) {
				t.Fatal(err)
			}
		}
		b.Release(0)
		b.Close()
		if st, _ := s.Get("a"); st.State != want {
			t.Errorf("after %d: %s, want %s", i+1, st.State, want)
		}
	}
}

// from names the client of a test's request.
type from struct{}

func fromClient(name string) context.Context { return context.WithValue(ctx, from{}, name) }

func clientOf(c context.Context) string {
	name, _ := c.Value(from{}).(string)
	return name
}

// TestBreakerOfClients: one client's faults, whatever its parameters, switch a plugin off for that client alone; it is
// off for all when it fails for several in a row.
func TestBreakerOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 6
		log := &logLines{}
		s := open(t, Options{Specs: []Spec{spec(t, "a", faulty())}, Breaker: Breaker{Faults: limit, Pause: time.Minute},
			Client: clientOf, Log: logger(log)})
		call := func(client, params string) error {
			b, err := s.Bind(fromClient(client), []Call{{Name: "a", Params: []byte(params)}})
			if err != nil {
				return err
			}
			defer b.Close()
			if err := b.Begin(fromClient(client), prompt, 1, []uint64{1}); err != nil {
				return err
			}
			defer b.Release(0)
			_, err = b.Sequence(0).Processors[0].Run(prompt, nil, row())
			return err
		}
		fails := func(client string, n int) {
			t.Helper()
			for i := range n {
				if err := call(client, []string{doTrap, doRogue}[i%2]); err == nil || errors.Is(err, ErrOff) {
					t.Fatalf("%s, fault %d: %v", client, i, err)
				}
			}
		}
		status := func(want State, text string) {
			t.Helper()
			if st, _ := s.Get("a"); st.State != want || !strings.Contains(st.Error, text) ||
				(text == "") != (st.Error == "") {
				t.Errorf("status %s, %q; want %s, %q", st.State, st.Error, want, text)
			}
		}
		fails("rogue", limit)
		if err := call("rogue", "{}"); !errors.Is(err, ErrOff) ||
			!strings.Contains(err.Error(),
				"switched off for this client at 2000-01-01T00:00:00Z for 1m0s after 6 faulty requests in a row") {
			t.Errorf("the client with the faults: %v", err)
		}
		status(StateActive,
			"switched off for 1 of its clients, whose sequences alone were faulty; the last: tgi_logits_process: ")
		fails("unlucky", limit-1) // beside rogue's it is not off for all
		if err := call("unlucky", "{}"); err != nil {
			t.Errorf("a client with fewer faults: %v", err)
		}
		if err := call("honest", "{}"); err != nil {
			t.Errorf("a client without faults: %v", err)
		}
		time.Sleep(time.Minute)
		if err := call("rogue", "{}"); err != nil {
			t.Errorf("after the pause: %v", err)
		}
		status(StateActive, "")
		if n := len(s.names["a"].current.breakers.byClient); n != 0 {
			t.Errorf("%d clients are remembered", n)
		}
		for _, client := range []string{"one", "two", "three"} {
			status(StateActive, "")
			fails(client, limit/sharedClients)
		}
		if err := call("honest", "{}"); !errors.Is(err, ErrOff) ||
			!strings.Contains(err.Error(), "switched off at 2000-01-01T00:01:00Z") {
			t.Errorf("a plugin that fails for all: %v", err)
		}
		status(StateOff, "after 6 faulty requests in a row")
		time.Sleep(time.Minute)
		if err := call("honest", "{}"); err != nil {
			t.Error(err)
		}
		status(StateActive, "")
		if !strings.Contains(log.String(), "client=rogue") {
			t.Error("not logged: the client")
		}
	})
}

// TestBreakersBounded: clients come and go without an end.
func TestBreakersBounded(t *testing.T) {
	b := &breakers{all: breaker{limit: 10, pause: time.Minute}}
	now := time.Unix(0, 0)
	for i := range 2 * maxBreakers {
		now = now.Add(time.Second)
		b.fault(now, fmt.Sprint(i), "why", trial{})
	}
	if len(b.byClient) != maxBreakers || b.forClient(fmt.Sprint(maxBreakers-1)) != nil ||
		b.forClient(fmt.Sprint(maxBreakers)) == nil || len(b.all.clients) > 20 {
		t.Errorf("%d clients are remembered, for all %d", len(b.byClient), len(b.all.clients))
	}
}
