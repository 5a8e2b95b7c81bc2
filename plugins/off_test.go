package plugins

import (
	"context"
	"errors"
	"strings"
	"testing"
	"time"

	"tgi/plugins/internal/guest/guesttest"
)

// switchOff has plugin a fail for a client as often as it takes.
func switchOff(t *testing.T, s *Set, client string) {
	t.Helper()
	if s.names["a"].current.breakers.fault(time.Now(), client, "made up", trial{}) == "" {
		t.Fatal("not switched off")
	}
}

// waysOfUse are the ways in which a request gets plugin a in the token loop.
var waysOfUse = map[string]struct {
	apply   Apply
	clients []string
	bind    func(context.Context, *Set) (*Bound, error)
}{
	"named":            {ApplyRequest, nil, bindNamed},
	"always":           {ApplyAlways, nil, bindBare},
	"always and named": {ApplyAlways, nil, bindNamed},
	"by key":           {ApplyAlways, []string{"mine", "other"}, bindBare},
	"by another key":   {ApplyAlways, []string{"nobody"}, bindNamed},
	"a program's":      {ApplyRequest, nil, bindRun},
}

func bindNamed(ctx context.Context, s *Set) (*Bound, error) { return s.Bind(ctx, []Call{{Name: "a"}}) }

func bindBare(ctx context.Context, s *Set) (*Bound, error) { return s.Bind(ctx, nil) }

// bindRun binds a run of a program that has the plugins of its request; of a guard, which reads what the program emits,
// the request itself.
func bindRun(ctx context.Context, s *Set) (*Bound, error) {
	calls := []Call{{Name: "a"}}
	guards, others, err := s.BindOuter(ctx, calls)
	if err != nil || others == nil {
		return guards, err
	}
	defer others.Close()
	return s.BindInner(ctx, s.InnerCalls(calls), others)
}

// TestOffIsSkipped: while a plugin is off for a client, its requests go on without it and say so where on_error is
// "skip", and where it only guesses; else they are refused, a guard above all. That holds for all kinds of the token
// loop and however the request came to the plugin. Others have it, and so has the request that tries it.
func TestOffIsSkipped(t *testing.T) {
	modules := map[string][]byte{"logits": bias(1).Wasm(), "guard": judging(), "draft": drafting(),
		"sampler": guesttest.Fake{Description: guesttest.Both}.Wasm()}
	for kind, module := range modules {
		for _, onError := range []OnError{OnErrorFail, OnErrorSkip, OnErrorStop} {
			if onError == OnErrorStop && kind != "guard" {
				continue
			}
			for way, use := range waysOfUse {
				t.Run(kind+", "+string(onError)+", "+way, func(t *testing.T) {
					sp := spec(t, "a", module)
					sp.OnError, sp.Apply, sp.Clients = onError, use.apply, use.clients
					s := open(t, Options{Specs: []Spec{sp}, Breaker: Breaker{Faults: 1, Pause: time.Hour},
						Client: clientOf, Request: clientOf})
					switchOff(t, s, "mine")
					serves := func(client string) {
						t.Helper()
						b, err := use.bind(fromClient(client), s)
						if err != nil {
							t.Fatal(client, ": ", err)
						}
						defer b.Close()
						if got := b.Skipped(); len(got) != 0 || len(b.Used()) == 0 {
							t.Errorf("%s: used %v, skipped %v", client, b.Used(), got)
						}
					}
					serves("other")
					b, err := use.bind(fromClient("mine"), s)
					if onError != OnErrorSkip && kind != "draft" {
						if !errors.Is(err, ErrOff) {
							t.Errorf("%v, want %v", err, ErrOff)
						}
						return
					}
					if err != nil {
						t.Fatal(err)
					}
					if got := b.Skipped(); len(got) != 1 || got[0].Plugin != "a" || len(b.Used()) != 0 ||
						!strings.HasPrefix(got[0].Reason, "switched off for this client at ") {
						t.Errorf("used %v, skipped %v", b.Used(), got)
					}
					if err := b.Begin(t.Context(), prompt, 4, []uint64{1}); err != nil {
						t.Fatal(err)
					}
					if q := b.Sequence(0); len(q.Processors)+len(q.Guards)+len(q.Drafters) != 0 || q.Sampler != nil {
						t.Errorf("the sequence has %+v", q)
					}
					b.Release(0)
					b.Close()
					s.names["a"].current.breakers.byClient["mine"].until = time.Time{} // the pause is over
					serves("mine")
				})
			}
		}
	}
}

// TestOffIsRefused: what no request can go on without is refused while it is off, whatever on_error says of what the
// same plugin does in the token loop, which is skipped.
func TestOffIsRefused(t *testing.T) {
	program := guesttest.SDK(t, "think-then-answer")["c"]
	call := []Call{{Name: "a"}}
	for kind, c := range map[string]struct {
		module  []byte
		onError OnError
		use     func(*Set) error
	}{
		"template": {mixed(renderer("hello"), "template"), OnErrorSkip, func(s *Set) error {
			_, _, err := s.BindChat(ctx, call, ChatPlugins{})
			return err
		}},
		"a model's template": {mixed(renderer("hello"), "template"), OnErrorSkip, func(s *Set) error {
			_, _, err := s.BindChat(ctx, nil, ChatPlugins{Template: "a"})
			return err
		}},
		"tools": {mixed(parser("hi"), "tools"), OnErrorSkip, func(s *Set) error {
			_, _, err := s.BindChat(ctx, call, ChatPlugins{})
			return err
		}},
		"grammar": {mixed(compiler("ab"), "grammar"), OnErrorSkip, func(s *Set) error {
			_, err := s.Compile(ctx, GrammarCall{Plugin: "a"})
			return err
		}},
		"program": {program, OnErrorFail, func(s *Set) error {
			_, _, err := s.BindProgram(ctx, call)
			return err
		}},
	} {
		t.Run(kind, func(t *testing.T) {
			sp := spec(t, "a", c.module)
			sp.OnError = c.onError
			s := open(t, Options{Specs: []Spec{sp}, Breaker: Breaker{Faults: 1, Pause: time.Hour}})
			switchOff(t, s, "")
			err := c.use(s)
			if !errors.Is(err, ErrOff) || !strings.Contains(err.Error(), "switched off for this client") {
				t.Errorf("%v, want %v", err, ErrOff)
			}
			if c.onError != OnErrorSkip {
				return
			}
			b, err := s.Bind(ctx, call)
			if err != nil {
				t.Fatal(err)
			}
			defer b.Close()
			if got := b.Skipped(); len(got) != 1 {
				t.Errorf("the token loop skips %v", got)
			}
		})
	}
}

// mixed is a module that serves a kind, and kind "logits" besides.
func mixed(f guesttest.Fake, kind string) []byte {
	f.Description = `{"name":"a","kinds":["` + kind + `","logits"]}`
	if kind == "grammar" {
		f.Description = `{"name":"a","kinds":["grammar","logits"],"languages":["x"]}`
	}
	return f.Wasm()
}

// TestDraftFailsEarly: what only guesses is skipped, whatever on_error says, also where it fails before the first
// token.
func TestDraftFailsEarly(t *testing.T) {
	for _, export := range []string{"tgi_validate", "tgi_draft_begin"} {
		code := map[string]guesttest.Code{"tgi_draft_propose": guesttest.Const(0), export: guesttest.Join(
			guesttest.Arg(1), guesttest.Const(uint32(len(doTrap))), guesttest.Equal(),
			guesttest.When(guesttest.Trap()), guesttest.Long(0))}
		wasm := guesttest.Fake{Description: `{"name":"a","version":"1","kinds":["draft"]}`, Code: code}.Wasm()
		s := open(t, Options{Specs: []Spec{spec(t, "a", wasm)}})
		b := bind(t, s, 1, Call{Name: "a", Params: []byte(doTrap)})
		if got := b.Skipped(); len(got) != 1 || !strings.HasPrefix(got[0].Reason, export+": trap") {
			t.Errorf("%s: skipped %v", export, got)
		}
		if len(b.Sequence(0).Drafters) != 0 {
			t.Errorf("%s: it guesses", export)
		}
		b.Release(0)
		b.Close()
	}
}
