package plugins

import (
	"context"
	"errors"
	"fmt"
	"slices"
	"testing"

	"tgi/plugins/internal/guest/guesttest"
	"tgi/sdk/abi"
)

// names returns the chain of a request.
func names(b *Bound) (out []string) {
	for _, p := range b.parts {
		out = append(out, p.name+string(p.params))
	}
	return out
}

func TestBindOrder(t *testing.T) {
	always := func(name string) Spec {
		s := spec(t, name, bias(1).Wasm())
		s.Apply = ApplyAlways
		return s
	}
	s := open(t, Options{Specs: []Spec{always("z"), spec(t, "n", bias(1).Wasm()), always("a"),
		spec(t, "m", bias(1).Wasm())}})
	for _, c := range []struct {
		calls []Call
		want  []string
	}{
		{nil, []string{"z", "a"}},
		{[]Call{{Name: "n"}, {Name: "a", Params: []byte(`{ "x":1}`)}, {Name: "m", Params: []byte("{}")}},
			[]string{"z", `a{ "x":1}`, "n", "m{}"}},
		{[]Call{{Name: "m"}, {Name: "n"}}, []string{"z", "a", "m", "n"}},
	} {
		b, err := s.Bind(t.Context(), c.calls)
		if err != nil {
			t.Fatal(err)
		}
		if got := names(b); !slices.Equal(got, c.want) {
			t.Errorf("calls %q: chain %q, want %q", c.calls, got, c.want)
		}
		b.Close()
	}
}

// refusal binds what can't be bound and gives the error.
func refusal(t *testing.T, s *Set, calls ...Call) *BindError {
	t.Helper()
	b, err := s.Bind(t.Context(), calls)
	if err == nil {
		b.Close()
		t.Fatalf("%q was bound", calls)
	}
	var be *BindError
	if !errors.As(err, &be) {
		t.Fatalf("%q: error %v is no *BindError", calls, err)
	}
	return be
}

func TestBindRefusals(t *testing.T) {
	var specs []Spec
	for lang, wasm := range guesttest.SDK(t, "banned-and-boost") {
		specs = append(specs, spec(t, "boost-"+lang, wasm))
	}
	greedy := guesttest.SDK(t, "epsilon-greedy")["c"]
	specs = append(specs, spec(t, "greedy", greedy), spec(t, "other", greedy), spec(t, "obligatory", obligatory()))
	var many []Call
	for i := range MaxPerRequest + 1 {
		specs = append(specs, spec(t, fmt.Sprintf("many-%d", i), bias(1).Wasm()))
		many = append(many, Call{Name: fmt.Sprintf("many-%d", i)})
	}
	s := open(t, Options{Specs: specs})
	check := func(got *BindError, plugin, text string, kind error) {
		t.Helper()
		if got.Plugin != plugin || got.Text != text || !errors.Is(got, kind) {
			t.Errorf("%q: %q (%v), want %q: %q (%v)", got.Plugin, got.Text, got.Err, plugin, text, kind)
		}
	}
	for _, lang := range []string{"go", "rust", "c", "assemblyscript"} {
		check(refusal(t, s, Call{Name: "boost-" + lang, Params: []byte(`{"bann":[1]}`)}), "boost-"+lang,
			`unknown parameter "bann": the plugin has ban, boost, only`, ErrParams)
	}
	check(refusal(t, s, Call{Name: "greedy", Params: []byte(`{"epsilon":2}`)}), "greedy",
		"epsilon is 2, above the maximum, 1", ErrParams)
	check(refusal(t, s, Call{Name: "greedy", Params: []byte(`[]`)}), "greedy", "params is not a JSON object", ErrParams)
	check(refusal(t, s, Call{Name: "greedy", Params: []byte(`{"a"`)}), "greedy", "params is not a JSON object",
		ErrParams)
	check(refusal(t, s, Call{Name: "obligatory"}), "obligatory", "say what", ErrParams)
	check(refusal(t, s, Call{Name: "obligatory", Params: []byte("{}")}), "obligatory", "say what", ErrParams)
	check(refusal(t, s, Call{Name: "none"}), "none", "there is no plugin of this name", ErrUnknown)
	check(refusal(t, s, Call{Name: "greedy"}, Call{Name: "greedy"}), "greedy", "is named twice", ErrParams)
	check(refusal(t, s, Call{Name: "greedy"}, Call{Name: "other"}), "other",
		"cannot take part beside greedy: both pick the token, and a request has one sampler", ErrParams)
	check(refusal(t, s, many...), "", "17 for one request, the limit is 16", ErrParams)
	b, err := s.Bind(t.Context(), many[1:])
	if err != nil {
		t.Fatal("sixteen plugins: ", err)
	}
	b.Close()
	if b, err := s.Bind(t.Context(), nil); b != nil || err != nil {
		t.Errorf("bound to nothing: %v, %v", b, err)
	}
	for _, st := range s.List() {
		if st.Stats.InstancesOut != 0 {
			t.Errorf("%s: %d instances out", st.Name, st.Stats.InstancesOut)
		}
	}
}

// TestBindKind: of a module that serves two kinds, the settings may use one.
func TestBindKind(t *testing.T) {
	wasm := guesttest.SDK(t, "every-mode")["c"]
	all, logits, sampler := spec(t, "all", wasm), spec(t, "logits", wasm), spec(t, "sampler", wasm)
	logits.Kind, sampler.Kind = abi.KindLogits, abi.KindSampler
	s := open(t, Options{Specs: []Spec{all, logits, sampler}})
	for _, c := range []struct {
		name       string
		processors int
		sampler    bool
	}{{"all", 1, true}, {"logits", 1, false}, {"sampler", 0, true}} {
		b := bind(t, s, 1, Call{Name: c.name})
		seq := b.Sequence(0)
		if len(seq.Processors) != c.processors || (seq.Sampler != nil) != c.sampler {
			t.Errorf("%s: %d processors, sampler %v", c.name, len(seq.Processors), seq.Sampler != nil)
		}
		b.Release(0)
		b.Close()
	}
	b := bind(t, s, 1, Call{Name: "logits"}, Call{Name: "sampler"})
	b.Close()
}

func TestBindBusy(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "a", bias(1).Wasm())}, MaxInstances: 3})
	settle(t, s, 3) // an instance that is being made is not there yet, but counts
	first := bind(t, s, 2, Call{Name: "a"})
	second, err := s.Bind(t.Context(), []Call{{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := second.Begin(t.Context(), prompt, 0, []uint64{1, 2}); !errors.Is(err, ErrBusy) {
		t.Errorf("four sequences where there are three instances: %v", err)
	}
	second.Close()
	if st, _ := s.Get("a"); st.Stats.InstancesOut != 2 || len(st.Stats.Faults) != 6 || st.State != StateActive {
		t.Errorf("after a busy Begin: %+v", st)
	}
	third := bind(t, s, 1, Call{Name: "a"})
	if err := refusal(t, s, Call{Name: "a", Params: []byte(`{"x":1}`)}); !errors.Is(err, ErrBusy) {
		t.Errorf("validation with no instance left: %v", err)
	}
	first.Close()
	third.Close()
	bind(t, s, 3, Call{Name: "a"}).Close()
}

// TestBindFaults: a plugin that fails while it is asked fails the request, or is passed over.
func TestBindFaults(t *testing.T) {
	fail := func(export string) []byte { // for parameters other than {}
		return guesttest.Fake{Description: guesttest.Ahead, Code: map[string]guesttest.Code{
			export: guesttest.Join(guesttest.Arg(1), guesttest.Const(2), guesttest.Sub(),
				guesttest.When(guesttest.Trap()), guesttest.Long(0)),
		}}.Wasm()
	}
	for _, export := range []string{"tgi_validate", "tgi_logits_begin"} {
		failing, skipping := spec(t, "fails", fail(export)), spec(t, "skips", fail(export))
		skipping.OnError = OnErrorSkip
		s := open(t, Options{Specs: []Spec{failing, skipping, spec(t, "a", bias(1).Wasm())}})
		other := []byte(`{"a":1}`)
		_, err := once(s, Call{Name: "fails", Params: other})
		var be *BindError
		if !errors.As(err, &be) || !errors.Is(err, ErrFault) || be.Text[:len(export)] != export {
			t.Errorf("%s: %v", export, err)
		}
		b := bind(t, s, 2, Call{Name: "skips", Params: other}, Call{Name: "a"})
		skipped := b.Skipped()
		if len(skipped) != 1 || skipped[0].Plugin != "skips" || skipped[0].Reason[:len(export)] != export {
			t.Errorf("%s: skipped %q", export, skipped)
		}
		if seq := b.Sequence(1); len(seq.Processors) != 1 {
			t.Errorf("%s: %d processors", export, len(seq.Processors))
		}
		b.Release(1)
		b.Close()
		if st, _ := s.Get("skips"); st.Stats.Skips != 1 || st.Stats.Faults["trap"] != 1 || st.Stats.InstancesOut != 0 {
			t.Errorf("%s: %+v", export, st.Stats)
		}
	}
}

// TestBindCancelled: a guest that is being asked ends with its request, and that is not its fault.
func TestBindCancelled(t *testing.T) {
	spin := guesttest.Fake{Description: guesttest.Ahead, Code: map[string]guesttest.Code{
		"tgi_validate": guesttest.Join(guesttest.Arg(1), guesttest.Const(2), guesttest.Sub(),
			guesttest.When(guesttest.Spin()), guesttest.Long(0)),
	}}
	sp := spec(t, "a", spin.Wasm())
	sp.OnError, sp.Limits.FuelPerRequest = OnErrorSkip, 1<<50
	s := open(t, Options{Specs: []Spec{sp}, Breaker: Breaker{Faults: 1}})
	ctx, cancel := context.WithCancelCause(t.Context())
	why := errors.New("the client left")
	cancel(why)
	if _, err := s.Bind(ctx, []Call{{Name: "a", Params: []byte(`{"a":1}`)}}); !errors.Is(err, why) {
		t.Errorf("error %v", err)
	}
	if st, _ := s.Get("a"); st.State != StateActive || st.Stats.Cancelled != 1 {
		t.Errorf("%+v", st)
	}
}
