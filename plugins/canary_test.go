package plugins

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// requestKey is the key of the name of a request in these tests.
type requestKey struct{}

func named(ctx context.Context, id string) context.Context {
	return context.WithValue(ctx, requestKey{}, id)
}

func requestOf(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// withCanary is a set with the plugin "a", which adds 1, and a canary of it.
func withCanary(t *testing.T, wasm []byte, percent, faults int, u Upload) (*Set, *Canary) {
	t.Helper()
	s := open(t, Options{Request: requestOf})
	if _, err := s.Put(t.Context(), "a", bias(1).Wasm(), u); err != nil {
		t.Fatal(err)
	}
	return s, canaryOf(t, s, wasm, percent, faults, u)
}

func canaryOf(t *testing.T, s *Set, wasm []byte, percent, faults int, u Upload) *Canary {
	t.Helper()
	p, err := s.Prepare(t.Context(), "a", wasm, u)
	if err != nil {
		t.Fatal(err)
	}
	c := NewCanary(CanaryOptions{Percent: percent, Faults: faults})
	if _, err := p.Canary(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// request runs one step of a request and returns what its plugin added.
func request(t *testing.T, s *Set, id, params string) (float32, error) {
	t.Helper()
	ctx := named(t.Context(), id)
	b, err := s.Bind(ctx, []Call{{Name: "a", Params: []byte(params)}})
	if err != nil {
		return 0, err
	}
	defer b.Close()
	if err := b.Begin(ctx, prompt, 16, []uint64{1}); err != nil {
		return 0, err
	}
	defer b.Release(0)
	x := row()
	for _, p := range b.Sequence(0).Processors {
		if _, err := p.Run(prompt, nil, x); err != nil {
			return 0, err
		}
	}
	return x[5], nil
}

// TestCanaryShare: the share of requests is about what was asked for, a request always gets the same version, and one
// without a name the version that serves.
func TestCanaryShare(t *testing.T) {
	s, c := withCanary(t, bias(2).Wasm(), 25, 3, Upload{})
	const n = 400
	got := map[string]float32{}
	for i := range n {
		id := fmt.Sprintf("request-%d", i)
		x, err := request(t, s, id, "")
		if err != nil {
			t.Fatal(err)
		}
		got[id] = x
	}
	fresh := 0
	for id, x := range got {
		if x == 2 {
			fresh++
		}
		if again, err := request(t, s, id, ""); again != x || err != nil {
			t.Fatalf("%s: %v, then %v %v", id, x, again, err)
		}
	}
	if fresh < n/8 || fresh > n*3/8 {
		t.Errorf("%d of %d requests got the canary", fresh, n)
	}
	if x, err := request(t, s, "", ""); x != 1 || err != nil {
		t.Errorf("a request without a name: %v %v", x, err)
	}
	if st := c.Stats(); st.Bound != uint64(2*fresh) || st.Faulty != 0 || st.Aborted != "" {
		t.Errorf("%+v", st)
	}
	old, used, ok := s.CanaryUse("a")
	if !ok || used.Calls == 0 || old.Calls <= used.Calls {
		t.Errorf("%t %+v %+v", ok, old, used)
	}
}

// TestCanaryCountsItself: what a canary does is counted as its own, and not as the plugin's.
func TestCanaryCountsItself(t *testing.T) {
	s, _ := withCanary(t, faulty(), 100, 9, Upload{})
	stats := func() Stats {
		st, _ := s.Get("a")
		return st.Stats
	}
	before := stats()
	for i, params := range []string{"", doTrap} {
		if _, err := request(t, s, fmt.Sprint(i), params); (err != nil) != (params == doTrap) {
			t.Fatal(err)
		}
	}
	_, used, ok := s.CanaryUse("a")
	if now := stats(); now.Calls != before.Calls || now.Fuel != before.Fuel || now.Faults["trap"] != 0 ||
		now.Loads != 1 || !ok || used.Calls == 0 || used.Fuel == 0 || used.Faults["trap"] != 1 {
		t.Errorf("the plugin: %+v\nthe canary: %+v", now, used)
	}
}

// trapsAtBegin is a guest that fails when a sequence with parameters begins.
func trapsAtBegin() []byte {
	f := bias(2)
	f.Code["tgi_logits_begin"] = guesttest.Join(guesttest.Arg(1), guesttest.Const(uint32(len(doTrap))),
		guesttest.Equal(), guesttest.When(guesttest.Trap()), f.Code["tgi_logits_begin"])
	return f.Wasm()
}

// TestCanaryFaults: a fault before the sequence goes on with the version that serves, one at a step is as always; both
// count, and too many abort the canary.
func TestCanaryFaults(t *testing.T) {
	for _, onError := range []OnError{OnErrorFail, OnErrorSkip} {
		s, c := withCanary(t, trapsAtBegin(), 100, 2, Upload{OnError: onError})
		if x, err := request(t, s, "a", ""); x != 2 || err != nil {
			t.Fatalf("%s: %v %v", onError, x, err)
		}
		for range 2 {
			if x, err := request(t, s, "a", doTrap); x != 1 || err != nil {
				t.Fatalf("%s: a fault at the begin: %v %v", onError, x, err)
			}
		}
		st := c.Stats()
		if st.Faulty != 2 || st.Fallbacks != 2 || !strings.Contains(st.Aborted, "2 requests were faulty, the last: ") {
			t.Errorf("%s: %+v", onError, st)
		}
		if x, err := request(t, s, "a", ""); x != 1 || err != nil {
			t.Errorf("%s: after the abort: %v %v", onError, x, err)
		}
	}
	s, c := withCanary(t, faulty(), 100, 2, Upload{})
	for range 2 {
		if _, err := request(t, s, "a", doTrap); err == nil || !strings.Contains(err.Error(), "trap") {
			t.Fatalf("a fault at a step: %v", err)
		}
	}
	if st := c.Stats(); st.Faulty != 2 || st.Fallbacks != 0 || st.Aborted == "" {
		t.Errorf("%+v", st)
	}
	if x, err := request(t, s, "a", doTrap); x != 1 || err != nil {
		t.Errorf("after the abort: %v %v", x, err)
	}
}

// TestTrialsLog: lines of a version that is tried can be told from those of the one that serves: what it prints, and
// what the server says of it.
func TestTrialsLog(t *testing.T) {
	const at = guesttest.Free + 128
	says := func(by float32, word string, before ...guesttest.Code) []byte {
		f := bias(by, append([]guesttest.Code{guesttest.Join(guesttest.Const(abi.LevelWarn), guesttest.Const(at),
			guesttest.Const(uint32(len(word))), guesttest.Call(0))}, before...)...)
		f.Imports, f.Data[at] = []string{"log"}, word
		return f.Wasm()
	}
	broken := says(2, "new", given(len(doTrap), guesttest.Trap()))
	for _, trial := range []string{TrialCanary, TrialShadow} {
		s := open(t, Options{Request: byName, Logs: NewLogs()})
		if _, err := s.Put(t.Context(), "a", says(1, "old"), Upload{}); err != nil {
			t.Fatal(err)
		}
		for _, params := range []string{"", doTrap} { // before the trial, and so that the shadow is shown it
			_, _ = request(t, s, "before", params)
		}
		if trial == TrialShadow {
			shadowOf(t, s, "a", broken, CanaryOptions{Faults: 1})
		} else {
			canaryOf(t, s, broken, 100, 1, Upload{Canary: true})
		}
		_, _ = request(t, s, "a", doTrap)
		if trial == TrialShadow {
			quiet(s, "a")
		}
		host, old, fresh := 0, 0, 0
		for _, line := range s.o.Logs.Lines("a", 0) {
			switch {
			case line.Of == "guest" && line.Text == "old" && line.Trial == "":
				old++
			case line.Of == "guest" && line.Text == "new" && line.Trial == trial:
				fresh++
			case line.Of == "host" && line.Trial == trial:
				host++
			case line.Of == "guest" || !strings.HasPrefix(line.Text, "loaded, sha256 "):
				t.Errorf("%s: %+v", trial, line)
			}
		}
		if old == 0 || fresh == 0 || host < 2 { // it was loaded, and failed
			t.Errorf("%s: %d lines of the old version, %d of the new one, %d of the host", trial, old, fresh, host)
		}
	}
}

// TestCanaryEnds: the end of a canary, the plugin's replacement and its removal free the version, while requests that
// have it finish with it.
func TestCanaryEnds(t *testing.T) {
	for what, end := range map[string]func(*Set) error{
		"ended":    func(s *Set) error { return s.EndCanary(t.Context(), "a") },
		"deleted":  func(s *Set) error { return s.Delete("a") },
		"replaced": func(s *Set) error { _, err := s.Put(t.Context(), "a", bias(3).Wasm(), Upload{}); return err },
		"another": func(s *Set) error {
			canaryOf(t, s, bias(4).Wasm(), 100, 1, Upload{})
			return nil
		},
	} {
		s, _ := withCanary(t, bias(2).Wasm(), 100, 3, Upload{})
		v := s.names["a"].canary.version
		ctx := named(t.Context(), "running")
		b, err := s.Bind(ctx, []Call{{Name: "a"}})
		if err != nil {
			t.Fatal(err)
		}
		if err := b.Begin(ctx, prompt, 16, []uint64{1}); err != nil {
			t.Fatal(err)
		}
		if err := end(s); err != nil {
			t.Fatal(what, err)
		}
		x := row()
		if _, err := b.Sequence(0).Processors[0].Run(prompt, nil, x); err != nil || x[5] != 2 {
			t.Errorf("%s: the running request: %v %v", what, x[5], err)
		}
		b.Release(0)
		b.Close()
		if n := v.refs.Load(); n != 0 {
			t.Errorf("%s: %d references are left", what, n)
		}
		want := map[string]float32{"ended": 1, "replaced": 3, "another": 4}[what]
		if x, err := request(t, s, "later", ""); x != want || (err == nil) != (what != "deleted") {
			t.Errorf("%s: %v %v", what, x, err)
		}
	}
}

// TestCanaryRefusals: what can be no canary changes nothing.
func TestCanaryRefusals(t *testing.T) {
	s, _ := withCanary(t, bias(2).Wasm(), 100, 3, Upload{})
	both := guesttest.Fake{Description: guesttest.Both}.Wasm()
	for _, c := range []struct {
		name, says string
		wasm       []byte
		u          Upload
	}{
		{"b", "nothing serves as b", bias(3).Wasm(), Upload{}},
		{"a", "has the kinds", both, Upload{}},
		{"a", "has the apply", bias(3).Wasm(), Upload{Apply: ApplyAlways}},
	} {
		p, err := s.Prepare(t.Context(), c.name, c.wasm, c.u)
		if err != nil {
			t.Fatal(err)
		}
		if _, err := p.Canary(t.Context(), NewCanary(CanaryOptions{Percent: 1, Faults: 1})); !errors.Is(err, ErrSpec) ||
			!strings.Contains(err.Error(), c.says) {
			t.Errorf("%s: %v", c.says, err)
		}
	}
	if x, err := request(t, s, "a", ""); x != 2 || err != nil {
		t.Errorf("%v %v", x, err)
	}
}

// TestCanaryRefused: what serves refuses a request that the canary failed: that is the client's mistake, whatever
// on_error says.
func TestCanaryRefused(t *testing.T) {
	for _, onError := range []OnError{OnErrorFail, OnErrorSkip} {
		u := Upload{OnError: onError}
		s, _ := withCanary(t, bias(2).Wasm(), 1, 1, u)
		if _, err := s.Put(t.Context(), "a", declares(`{"additionalProperties":false,"properties":{"n":{}}}`),
			u); err != nil {
			t.Fatal(err)
		}
		c := canaryOf(t, s, trapsAtBegin(), 100, 3, u)
		var no *BindError
		if _, err := request(t, s, "a", doTrap); !errors.As(err, &no) || !errors.Is(err, ErrParams) ||
			no.Text != `unknown parameter "a": the plugin has n` {
			t.Errorf("%s: %v", onError, err)
		}
		if st := c.Stats(); st.Faulty != 1 || st.Fallbacks != 1 {
			t.Errorf("%s: %+v", onError, st)
		}
	}
}

// TestCanaryCountsRefusals: what the schema of a canary refuses counts as its refusal.
func TestCanaryCountsRefusals(t *testing.T) {
	s, _ := withCanary(t, declares(`{"required":["n"],"properties":{"n":{"maximum":3}}}`), 100, 3, Upload{})
	for i, params := range []string{`{"n":4}`, `{}`, ``} {
		if _, err := request(t, s, "a", params); !errors.Is(err, ErrParams) {
			t.Errorf("%s: %v", params, err)
		}
		old, used, ok := s.CanaryUse("a")
		if !ok || old.Refusals != 0 || used.Refusals != uint64(i+1) {
			t.Errorf("%s: %t, %d refusals of what serves, %d of the canary", params, ok, old.Refusals, used.Refusals)
		}
	}
}

// TestCanaryBound: a request counts once, however many parts of it look for the plugin.
func TestCanaryBound(t *testing.T) {
	s, c := withCanary(t, bias(2).Wasm(), 100, 3, Upload{})
	ctx := named(t.Context(), "a")
	guards, others, err := s.BindOuter(ctx, []Call{{Name: "a"}})
	if err != nil || guards != nil || others == nil {
		t.Fatal(guards, others, err)
	}
	others.Close()
	if _, err := s.Bind(ctx, []Call{{Name: "a"}, {Name: "none"}}); err == nil {
		t.Error("a plugin that is not there is bound")
	}
	if n := c.Stats().Bound; n != 1 {
		t.Errorf("bound %d times, not once", n)
	}
}

// TestCanaryLosesItsName: settings that take the name of an upload end its canary, whether their module loads or not.
func TestCanaryLosesItsName(t *testing.T) {
	for what, wasm := range map[string][]byte{"loads": bias(3).Wasm(), "fails": []byte("\x00asm")} {
		s, _ := withCanary(t, bias(2).Wasm(), 100, 3, Upload{})
		v := s.names["a"].canary.version
		if _, err := s.Reload(t.Context(), []Spec{spec(t, "a", wasm)}); err != nil {
			t.Fatal(err)
		}
		if _, _, ok := s.CanaryUse("a"); ok || v.refs.Load() != 0 {
			t.Errorf("%s: a canary is there: %t, references %d", what, ok, v.refs.Load())
		}
	}
}

// TestCanaryOff: while a canary is switched off for a client its share gets what serves.
func TestCanaryOff(t *testing.T) {
	type clientKey struct{}
	s := open(t, Options{Breaker: Breaker{Faults: 1, Pause: time.Hour}, Request: func(context.Context) string {
		return "a"
	}, Client: func(ctx context.Context) string { return ctx.Value(clientKey{}).(string) }})
	if _, err := s.Put(t.Context(), "a", renderer("old").Wasm(), Upload{}); err != nil {
		t.Fatal(err)
	}
	canaryOf(t, s, renderer("new").Wasm(), 100, 10, Upload{})
	for _, c := range []struct{ client, params, want string }{
		{"me", "", "new"}, {"me", doTrap, ""}, {"me", "", "old"}, {"you", "", "new"},
	} {
		ctx := context.WithValue(t.Context(), clientKey{}, c.client)
		b, _, err := s.BindChat(ctx, []Call{{Name: "a", Params: []byte(c.params)}}, ChatPlugins{})
		if err != nil {
			t.Fatal(err)
		}
		if r, err := b.Render(ctx, []byte(renderRequest)); r.Text != c.want || (err == nil) != (c.want != "") {
			t.Errorf("%s %s: %q, %v, want %q", c.client, c.params, r.Text, err, c.want)
		}
		b.Close()
	}
}

// TestCanaryFaultsLate: what a request does behind the end of its canary does not count.
func TestCanaryFaultsLate(t *testing.T) {
	s, c := withCanary(t, faulty(), 100, 1, Upload{})
	ctx := named(t.Context(), "a")
	b, err := s.Bind(ctx, []Call{{Name: "a", Params: []byte(doTrap)}})
	if err != nil {
		t.Fatal(err)
	}
	defer b.Close()
	if err := b.Begin(ctx, prompt, 16, []uint64{1}); err != nil {
		t.Fatal(err)
	}
	if err := s.EndCanary(t.Context(), "a"); err != nil {
		t.Fatal(err)
	}
	if _, err := b.Sequence(0).Processors[0].Run(prompt, nil, row()); err == nil {
		t.Error("no fault")
	}
	b.Release(0)
	if st := c.Stats(); st.Faulty != 0 || st.Aborted != "" {
		t.Errorf("%+v", st)
	}
}

// TestCanaryLanguages: a canary that does not read a language of what serves is refused.
func TestCanaryLanguages(t *testing.T) {
	s := open(t, Options{})
	if _, err := s.Put(t.Context(), "a", compiler("ab").Wasm(), Upload{}); err != nil {
		t.Fatal(err)
	}
	other := compiler("ab")
	other.Description = strings.Replace(other.Description, `"mine"`, `"theirs"`, 1)
	p, err := s.Prepare(t.Context(), "a", other.Wasm(), Upload{})
	if err != nil {
		t.Fatal(err)
	}
	_, err = p.Canary(t.Context(), NewCanary(CanaryOptions{Percent: 1, Faults: 1}))
	if err == nil || !strings.Contains(err.Error(),
		`reads the languages of what serves, "mine" is missing: given ["theirs"`) {
		t.Error(err)
	}
}

// TestCanaryUnderLoad: canaries come and go while requests run, and none of these fails.
func TestCanaryUnderLoad(t *testing.T) {
	s, _ := withCanary(t, bias(2).Wasm(), 50, 3, Upload{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 50 {
				if x, err := request(t, s, fmt.Sprint(i, "-", j), ""); err != nil || x != 1 && x != 2 {
					t.Error(x, err)
				}
			}
		})
	}
	for range 5 {
		if err := s.EndCanary(t.Context(), "a"); err != nil {
			t.Error(err)
		}
		canaryOf(t, s, bias(2).Wasm(), 50, 3, Upload{})
		if _, err := s.Reload(t.Context(), nil); err != nil {
			t.Error(err)
		}
	}
	wg.Wait()
}
