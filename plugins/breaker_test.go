package plugins

import (
	"context"
	"errors"
	"fmt"
	"math"
	"strings"
	"testing"
	"testing/synctest"
	"time"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/runtime/llm"
)

// TestBreaker runs stories of a breaker that opens after 2 faults for a minute. Letters: a a request is admitted, A it
// is one that tries, B it is of the request "b" and tries, x it is refused; f F a sequence of it was faulty, g G it was
// good (capitals: of the last trial), H of the first trial, O the last trial is given back, P that of b; + half a
// minute passes. Upper and lower case f and g count alike where nothing is off.
func TestBreaker(t *testing.T) {
	for _, story := range []string{
		"a a f a",                     // one fault is nothing
		"a f g f a",                   // a good sequence starts the count anew
		"a f f x + x + A x",           // two in a row; then one tries
		"a f f + + A G a f a",         // the trial was good: on, and the count begins anew
		"a f f + + A F x + x + A",     // the trial failed: off for the whole pause again
		"a f f + + A O A",             // a trial that shows nothing is given back
		"a a f f g x + + f g A g x",   // sequences from before tell nothing of it being off
		"a f f + + A F G x + + A G",   // what a failed trial's other sequence did comes too late
		"a f f + + A G F a F x",       // what a good trial's others do counts as usual
		"a f f + + B B x B",           // all of a request is one trial
		"a f f + + B B P x P A",       // which ends with the last of it
		"a f f + + B B F x P x",       // a fault in it voids all of it, so what comes later waits like others
		"a f f + + B B G a",           // and a success is that of all
		"a f f + + A x + x + A x + x", // a trial that takes longer than the pause keeps nobody off
		"a f f + + A + + A H a",       // its success counts,
		"a f f + + A + + A F H x",     // unless the plugin failed since
		"a f f + + A + + A O x",       // and one beside it that is given back lets the next wait
	} {
		b := &breaker{limit: 2, pause: time.Minute}
		now := time.Unix(0, 0)
		var trial uint64
		for i, step := range strings.ReplaceAll(story, " ", "") {
			bad := false
			switch step {
			case 'a', 'A', 'B', 'x':
				request := ""
				if step == 'B' {
					request = "b"
				}
				got, refused := b.admit(now, request)
				bad = (refused != "") != (step == 'x') || (got != 0) != (step == 'A' || step == 'B')
				if got != 0 {
					trial = got
				}
			case 'f':
				b.fault(now, "why", 0)
			case 'F':
				b.fault(now, "why", trial)
			case 'g':
				b.success(0)
			case 'G':
				b.success(trial)
			case 'H':
				b.success(1)
			case 'O':
				b.cancelTrial(trial, "")
			case 'P':
				b.cancelTrial(trial, "b")
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
		never.fault(time.Unix(0, 0), "why", 0)
	}
	if _, refused := never.admit(time.Unix(0, 0), ""); refused != "" {
		t.Error("a breaker of 0 faults refused a request")
	}
}

// TestBreakerOfRequests: a plugin that keeps failing is switched off, says so, is tried by one request, and comes back.
func TestBreakerOfRequests(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		log := &logLines{}
		s := open(t, Options{Specs: []Spec{spec(t, "a", faulty())}, Breaker: Breaker{Faults: 3, Pause: time.Minute},
			Log: logger(log)})
		off := func(want int) Status {
			t.Helper()
			st, _ := s.Get("a")
			if st.OffClients != want || st.State != StateActive {
				t.Errorf("off for %d, want %d; state %s", st.OffClients, want, st.State)
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
			off(0)
		}
		if err := call(doTrap); err == nil || errors.Is(err, ErrOff) {
			t.Fatal(err)
		}
		if st := off(1); !strings.Contains(st.Error, "the last: tgi_logits_process: trap") {
			t.Errorf("error %q", st.Error)
		}
		err := call("{}")
		if !errors.Is(err, ErrOff) || !strings.Contains(err.Error(), "switched off for this client at "+
			"2000-01-01T00:00:00Z for 1m0s after 3 faulty requests in a row, the last: tgi_logits_process: trap") {
			t.Errorf("refused with %v", err)
		}
		time.Sleep(time.Minute)
		off(0) // its pause is over: the next request tries it
		trial := bind(t, s, 1, Call{Name: "a"})
		if err := call("{}"); !errors.Is(err, ErrOff) {
			t.Errorf("two requests try the plugin: %v", err)
		}
		off(1)        // until the one that tries it has ended
		trial.Close() // without a step
		if err := call(doTrap); err == nil || errors.Is(err, ErrOff) {
			t.Errorf("the next try: %v", err)
		}
		off(1)
		time.Sleep(time.Minute)
		if err := call("{}"); err != nil {
			t.Errorf("the last try: %v", err)
		}
		off(0)
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
				!strings.HasPrefix(got[0].Reason, "switched off for this client at ") {
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

// TestDeadEndIsNoFault: a plugin that forbids the only token that others leave has not failed: it is not skipped,
// nothing is counted, and the plugin is not switched off.
func TestDeadEndIsNoFault(t *testing.T) {
	sp := spec(t, "a", bias(float32(math.Inf(-1))).Wasm()) // denies token 5
	sp.OnError = OnErrorSkip
	s := open(t, Options{Specs: []Spec{sp}, Breaker: Breaker{Faults: 1, Pause: time.Hour}})
	narrow := row()
	for i := range narrow {
		if i != 5 {
			narrow[i] = float32(math.Inf(-1))
		}
	}
	for range 2 {
		b := bind(t, s, 1, Call{Name: "a"})
		p := b.Sequence(0).Processors[0]
		if _, err := p.Run(prompt, nil, row()); err != nil {
			t.Fatal(err)
		}
		for range 2 { // it comes again
			if _, err := p.Run(prompt, []uint32{1}, narrow); !errors.Is(err, llm.ErrDeadEnd) {
				t.Errorf("got %v", err)
			}
		}
		b.Release(0)
		b.Close()
		if got := b.Skipped(); len(got) != 0 {
			t.Errorf("skipped: %v", got)
		}
	}
	if st, _ := s.Get("a"); st.OffClients != 0 || st.Stats.Faults["result"] != 0 {
		t.Errorf("%+v", st)
	}
}

// TestBreakerCountsSequences: a sequence that goes well for some steps and then fails is a faulty one.
func TestBreakerCountsSequences(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", guesttest.SDK(t, "every-mode")["c"])}, Breaker: Breaker{Faults: 2,
		Pause: time.Hour}})
	for i := range 2 {
		b := bind(t, s, 1, Call{Name: "a", Params: []byte(`{"trap_at":1}`)})
		p := b.Sequence(0).Processors[0]
		for step := range 2 {
			if _, err := p.Run(prompt, make([]uint32, step), row()); (err != nil) != (step == 1) {
				t.Fatal(err)
			}
		}
		b.Release(0)
		b.Close()
		if st, _ := s.Get("a"); st.OffClients != i {
			t.Errorf("after %d: off for %d, want %d", i+1, st.OffClients, i)
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

// runAs runs one step of plugin a for a request of ctx.
func runAs(ctx context.Context, s *Set, params string) error {
	b, err := s.Bind(ctx, []Call{{Name: "a", Params: []byte(params)}})
	if err != nil {
		return err
	}
	defer b.Close()
	if err := b.Begin(ctx, prompt, 1, []uint64{1}); err != nil {
		return err
	}
	defer b.Release(0)
	_, err = b.Sequence(0).Processors[0].Run(prompt, nil, row())
	return err
}

// TestBreakerOfClients: the faults of clients, whatever their parameters and however many they are, switch a plugin off
// for themselves alone. Those without a name are one client.
func TestBreakerOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		const limit = 6
		log := &logLines{}
		s := open(t, Options{Specs: []Spec{spec(t, "a", faulty())}, Breaker: Breaker{Faults: limit, Pause: time.Minute},
			Client: clientOf, Log: logger(log)})
		call := func(client, params string) error { return runAs(fromClient(client), s, params) }
		fails := func(client string, n int) {
			t.Helper()
			for i := range n {
				if err := call(client, []string{doTrap, doRogue}[i%2]); err == nil || errors.Is(err, ErrOff) {
					t.Fatalf("%s, fault %d: %v", client, i, err)
				}
			}
		}
		status := func(off int, text string) {
			t.Helper()
			if st, _ := s.Get("a"); st.State != StateActive || st.OffClients != off ||
				!strings.Contains(st.Error, text) || (text == "") != (st.Error == "") {
				t.Errorf("status %s, off for %d, %q; want %d, %q", st.State, st.OffClients, st.Error, off, text)
			}
		}
		status(0, "")
		rogues := []string{"rogue", "rascal", "scamp", "", "knave"}
		for i, client := range rogues {
			fails(client, limit)
			status(i+1, fmt.Sprintf("switched off for %d of its clients, whose own requests were faulty; the last: "+
				"tgi_logits_process: ", i+1))
		}
		for _, client := range rogues {
			if err := call(client, "{}"); !errors.Is(err, ErrOff) || !strings.Contains(err.Error(),
				"switched off for this client at 2000-01-01T00:00:00Z for 1m0s after 6 faulty requests in a row") {
				t.Errorf("a client with the faults: %v", err)
			}
		}
		fails("unlucky", limit-1)
		for _, client := range []string{"unlucky", "honest"} {
			if err := call(client, "{}"); err != nil {
				t.Errorf("%s: %v", client, err)
			}
		}
		time.Sleep(time.Minute)
		for _, client := range rogues {
			if err := call(client, "{}"); err != nil {
				t.Errorf("%q, after the pause: %v", client, err)
			}
		}
		status(0, "")
		if n := len(s.names["a"].current.breakers.byClient); n != 0 {
			t.Errorf("%d clients are remembered", n)
		}
		if !strings.Contains(log.String(), "client=rogue") {
			t.Error("not logged: the client")
		}
	})
}

// TestTrialOfRequest: all that a request binds is one trial, so that none of it is refused for another: the request and
// the runs of its program, several prompts, the texts of a grammar that a guest follows.
func TestTrialOfRequest(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := open(t, Options{Specs: []Spec{spec(t, "a", faulty()), spec(t, "g", stepper().Wasm())},
			Breaker: Breaker{Faults: 1, Pause: time.Minute}, Request: requestOf})
		mine, other := named(ctx, "mine"), named(ctx, "other")
		calls := []Call{{Name: "a", Params: []byte("{}")}}
		off := func() {
			t.Helper()
			if err := runAs(named(ctx, "bad"), s, doTrap); err == nil || errors.Is(err, ErrOff) {
				t.Fatal(err)
			}
			time.Sleep(time.Minute)
		}

		off()
		_, others, err := s.BindOuter(mine, calls)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := s.Bind(other, calls); !errors.Is(err, ErrOff) {
			t.Errorf("another request beside the trial: %v", err)
		}
		var runs []*Bound
		for range 3 { // of a program, at the same time
			r, err := s.BindInner(mine, calls, others)
			if err != nil {
				t.Fatal("a run of the request that tries the plugin: ", err)
			}
			runs = append(runs, r)
		}
		for _, r := range runs {
			r.Close()
		}
		if _, err := s.Bind(other, calls); !errors.Is(err, ErrOff) {
			t.Errorf("the trial ended with runs that showed nothing: %v", err)
		}
		r, err := s.BindInner(mine, calls, others)
		if err != nil {
			t.Fatal(err)
		}
		if err := r.Begin(mine, prompt, 1, []uint64{1}); err != nil {
			t.Fatal(err)
		}
		if _, err := r.Sequence(0).Processors[0].Run(prompt, nil, row()); err != nil {
			t.Fatal(err)
		}
		r.Release(0)
		r.Close()
		if st, _ := s.Get("a"); st.OffClients != 0 {
			t.Errorf("a good run did not switch the plugin on: %s", st.Error)
		}
		others.Close()
		if err := runAs(other, s, "{}"); err != nil {
			t.Error(err)
		}

		off()
		if _, others, err = s.BindOuter(mine, calls); err != nil {
			t.Fatal(err)
		}
		defer others.Close()
		if err := runAs(mine, s, doTrap); err == nil || errors.Is(err, ErrOff) {
			t.Error(err)
		}
		if _, err := s.BindInner(mine, calls, others); !errors.Is(err, ErrOff) {
			t.Errorf("a run behind one that failed: %v", err)
		}

		v := s.names["g"].current
		if v.breakers.fault(time.Now(), "", "made up", trial{}) == "" {
			t.Fatal("not switched off")
		}
		time.Sleep(time.Minute)
		g, err := s.Compile(mine, GrammarCall{Plugin: "g"})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		for i := range 2 {
			c, err := g.Sequence(mine, uint64(i))
			if err != nil {
				t.Fatalf("text %d: %v", i, err)
			}
			defer c.Close()
		}
		if st, _ := s.Get("g"); st.OffClients != 1 {
			t.Error("nobody tries the grammar")
		}
	})
}

// TestBreakersBounded: clients come and go without an end.
func TestBreakersBounded(t *testing.T) {
	b := &breakers{limit: 10, pause: time.Minute}
	now := time.Unix(0, 0)
	for i := range 2 * maxBreakers {
		now = now.Add(time.Second)
		b.fault(now, fmt.Sprint(i), "why", trial{})
	}
	if len(b.byClient) != maxBreakers || b.byClient[fmt.Sprint(maxBreakers-1)] != nil ||
		b.byClient[fmt.Sprint(maxBreakers)] == nil {
		t.Errorf("%d clients are remembered", len(b.byClient))
	}
}
