package plugins

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"math/rand/v2"
	"runtime"
	"slices"
	"strings"
	"sync"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/runtime/llm"
)

// byName gives requests the names of their contexts.
func byName(ctx context.Context) string {
	id, _ := ctx.Value(requestKey{}).(string)
	return id
}

// shadowOf begins a shadow of all requests, and returns what it counts.
func shadowOf(t testing.TB, s *Set, name string, wasm []byte, o CanaryOptions) *Canary {
	t.Helper()
	o.Percent, o.Shadow = 100, true
	o.Faults = max(o.Faults, 1000)
	p, err := s.Prepare(t.Context(), name, wasm, Upload{Shadow: true})
	if err != nil {
		t.Fatal(err)
	}
	c := NewCanary(o)
	if _, err := p.Canary(t.Context(), c); err != nil {
		t.Fatal(err)
	}
	return c
}

// withShadow is a set with an upload "a" and a shadow of it.
func withShadow(t testing.TB, serving, fresh []byte, o CanaryOptions) (*Set, *Canary) {
	t.Helper()
	s := open(t, Options{Request: byName})
	if _, err := s.Put(t.Context(), "a", serving, Upload{}); err != nil {
		t.Fatal(err)
	}
	return s, shadowOf(t, s, "a", fresh, o)
}

// quiet waits until the shadow of a plugin has seen what there is.
func quiet(s *Set, name string) {
	s.mu.RLock()
	w := s.names[name].canary.shadow
	s.mu.RUnlock()
	for {
		w.mu.Lock()
		busy := w.running
		w.mu.Unlock()
		if !busy {
			return
		}
		runtime.Gosched()
	}
}

// TestShadowFollows: a shadow that is the serving version itself answers everything as that does, over seeds, rewinds
// and forced tokens, and what the serving version answers is what it is without a shadow.
func TestShadowFollows(t *testing.T) {
	open := func(name string) *Set {
		set, err := Open(t.Context(), Options{
			Specs: []Spec{{Name: "banned-strings", Source: Builtin + "banned-strings"}}, Builtin: std.FS(),
			Vocabulary: rewound{kit.NewWorld()}, CacheDir: testcache.Dir(), MaxInstances: 64,
			Request: func(context.Context) string { return "all" }})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(set.Close)
		if _, err := set.Put(t.Context(), name, builtinModule(t, name), Upload{}); err != nil {
			t.Fatal(err)
		}
		return set
	}
	for name := range looped {
		t.Run(name, func(t *testing.T) {
			alone, set := open(name), open(name)
			c := shadowOf(t, set, name, builtinModule(t, name), CanaryOptions{})
			one, two := beginWalk(t, alone, name), beginWalk(t, set, name)
			r, answers := rand.New(rand.NewPCG(5, 5)), 0
			for range 400 {
				if n := len(one.h.Output); n > 0 && r.IntN(30) == 0 {
					to := max(n-1-r.IntN(10), n-llm.MaxHold, 0)
					one.back(to)
					two.back(to)
				}
				want, token := one.step()
				got, _ := two.step()
				if want != got {
					t.Fatalf("after %d tokens the answer is another one than without a shadow", len(one.h.Output))
				}
				answers++
				if r.IntN(6) == 0 {
					token = uint32('a' + r.IntN(4))
				}
				one.h.Output, two.h.Output = append(one.h.Output, token), append(two.h.Output, token)
			}
			quiet(set, name)
			if st := c.Stats(); st.Answers < uint64(answers) || st.Differing+st.Faulty+st.Dropped != 0 {
				t.Errorf("%d steps: %+v", answers, st)
			}
		})
	}
}

func builtinModule(t testing.TB, name string) []byte {
	t.Helper()
	wasm, err := fs.ReadFile(std.FS(), name+".wasm")
	if err != nil {
		t.Fatal(err)
	}
	return wasm
}

// TestShadowForks: forks are followed from where they begin, forced tokens included.
func TestShadowForks(t *testing.T) {
	for _, name := range []string{"thinking-budget", "no-repeat-ngram", "dry"} {
		set, err := Open(t.Context(), Options{Builtin: std.FS(), Vocabulary: rewound{kit.NewWorld()},
			CacheDir: testcache.Dir(), Request: byName})
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(set.Close)
		if _, err := set.Put(t.Context(), name, builtinModule(t, name), Upload{}); err != nil {
			t.Fatal(err)
		}
		c := shadowOf(t, set, name, builtinModule(t, name), CanaryOptions{})
		ctx := named(t.Context(), "x")
		b, err := set.Bind(ctx, []Call{{Name: name, Params: []byte(looped[name])}})
		if err != nil {
			t.Fatal(err)
		}
		h := llm.History{Prompt: []uint32{'a', 'b', 'a'}}
		if err := b.Begin(ctx, h.Prompt, 2000, []uint64{3}); err != nil {
			t.Fatal(err)
		}
		beams := []*walk{{t: t, seq: b.Sequence(0), h: h}}
		b.Close()
		r := rand.New(rand.NewPCG(9, 9))
		for i := range 60 {
			if i%10 == 9 { // one goes, another is made of one that stays
				from := beams[r.IntN(len(beams))]
				twin, err := from.seq.Fork(uint64(i))
				if err != nil {
					t.Fatal(err)
				}
				beams = append(beams, &walk{t: t, seq: twin, h: llm.History{Prompt: h.Prompt,
					Output: slices.Clone(from.h.Output)}})
				if len(beams) > 3 {
					beams[0].seq.Release()
					beams = beams[1:]
				}
			}
			for _, w := range beams {
				_, token := w.step()
				w.h.Output = append(w.h.Output, token)
			}
		}
		for _, w := range beams {
			w.seq.Release()
		}
		quiet(set, name)
		if st := c.Stats(); st.Answers < 100 || st.Differing+st.Faulty+st.Dropped != 0 || st.Finished != 1 {
			t.Errorf("%s: %+v", name, st)
		}
	}
}

// TestShadowDiffers: what is answered differently is counted by answers and by requests, and shown without texts.
func TestShadowDiffers(t *testing.T) {
	s, c := withShadow(t, bias(1).Wasm(), bias(2).Wasm(), CanaryOptions{})
	for i := range MaxSamples + 3 {
		if x, err := request(t, s, fmt.Sprint("r", i), ""); x != 1 || err != nil {
			t.Fatal(x, err)
		}
		quiet(s, "a") // else they are more sequences than are followed
	}
	const n = MaxSamples + 3
	st := c.Stats()
	if st.Bound != n || st.Answers != n || st.Differing != n || st.Different != n || st.Finished != n ||
		st.Faulty+st.Fallbacks+st.Dropped != 0 || len(c.Samples()) != MaxSamples || st.Aborted != "" {
		t.Errorf("%+v", st)
	}
	if d := c.Samples()[0]; d.Request != "r3" || d.Kind != "logits" || d.Step != 0 || d.Texts != "" ||
		d.What != "denies 0 tokens more and 0 fewer, and 1 other logits differ" {
		t.Errorf("%+v", d)
	}
	if old, used, ok := s.CanaryUse("a"); !ok || old.Calls == 0 || used.Calls == 0 {
		t.Errorf("%+v %+v", old, used)
	}
	if x, err := request(t, s, "", ""); x != 1 || err != nil {
		t.Error(x, err)
	}
}

// TestShadowHostile: whatever a shadow does, no request fails or changes, and it is counted.
func TestShadowHostile(t *testing.T) {
	pages := make([]guesttest.Code, 0, 64)
	for i := range uint32(64) { // touches memory that it asks for
		pages = append(pages, guesttest.Grow(1), guesttest.Store(1<<20+i<<16, 1))
	}
	for name, wasm := range map[string][]byte{
		"trap":   bias(1, given(len(doTrap), guesttest.Trap())).Wasm(),
		"loop":   bias(1, given(len(doTrap), guesttest.Spin())).Wasm(),
		"begin":  trapsAtBegin(),
		"memory": bias(1, given(len(doTrap), guesttest.Join(append(pages, guesttest.Trap())...))).Wasm(),
		"result": bias(1, given(len(doTrap), guesttest.Join(
			guesttest.Store(guesttest.StepAt, 0xfffffff0), guesttest.Const(77), guesttest.Code{0x0f}))).Wasm(),
	} {
		s, c := withShadow(t, bias(1).Wasm(), wasm, CanaryOptions{})
		for i := range 5 {
			if x, err := request(t, s, fmt.Sprint(name, i), doTrap); x != 1 || err != nil {
				t.Fatal(name, x, err)
			}
		}
		quiet(s, "a")
		if st := c.Stats(); st.Faulty != 5 || st.Finished != 0 || st.Different != 0 {
			t.Errorf("%s: %+v", name, st)
		}
		if list := s.List(); list[0].Stats.Faults["trap"]+list[0].Stats.Faults["fuel"] != 0 ||
			list[0].State != StateActive {
			t.Errorf("%s: the serving version has its faults: %+v", name, list[0])
		}
	}
}

// TestShadowAborts: too many faults abort a shadow, and so do too many differences where it would be promoted.
func TestShadowAborts(t *testing.T) {
	s := open(t, Options{Request: byName})
	if _, err := s.Put(t.Context(), "a", bias(1).Wasm(), Upload{}); err != nil {
		t.Fatal(err)
	}
	begin := func(wasm []byte, o CanaryOptions) *Canary {
		p, err := s.Prepare(t.Context(), "a", wasm, Upload{Shadow: true})
		if err != nil {
			t.Fatal(err)
		}
		o.Percent, o.Shadow = 100, true
		c := NewCanary(o)
		if _, err := p.Canary(t.Context(), c); err != nil {
			t.Fatal(err)
		}
		return c
	}
	ask := func(n int, params string) {
		for i := range n {
			if x, err := request(t, s, fmt.Sprint("r", i), params); x != 1 || err != nil {
				t.Fatal(x, err)
			}
			quiet(s, "a")
		}
	}
	c := begin(faulty(), CanaryOptions{Faults: 2})
	ask(4, doTrap)
	if st := c.Stats(); st.Faulty != 2 || st.Bound != 2 || !strings.Contains(st.Aborted, "2 requests were faulty") {
		t.Errorf("%+v", st)
	}
	<-c.Over()
	c = begin(bias(2).Wasm(), CanaryOptions{Faults: 2, After: 10, Differences: 1})
	ask(4, "")
	if st := c.Stats(); st.Different != 2 || !strings.Contains(st.Aborted, "2 requests were answered differently") {
		t.Errorf("%+v", st)
	}
	<-c.Over()
	c = begin(bias(1).Wasm(), CanaryOptions{Faults: 2, After: 3})
	ask(3, "")
	<-c.Ready()
	if st := c.Stats(); st.Aborted != "" || st.Finished != 3 {
		t.Errorf("%+v", st)
	}
}

// TestShadowHasNoRoom: what finds no room is dropped and counted, and the request goes on.
func TestShadowHasNoRoom(t *testing.T) {
	s, c := withShadow(t, bias(1).Wasm(), bias(2).Wasm(), CanaryOptions{})
	w := s.names["a"].canary.shadow
	w.mu.Lock()
	w.bytes += shadowBytes
	w.mu.Unlock()
	if x, err := request(t, s, "r", ""); x != 1 || err != nil {
		t.Fatal(x, err)
	}
	w.mu.Lock()
	w.bytes -= shadowBytes
	w.mu.Unlock()
	quiet(s, "a")
	if st := c.Stats(); st.Dropped != 1 || st.Finished+st.Different+st.Faulty != 0 {
		t.Errorf("%+v", st)
	}
	if w.sequences != 0 {
		t.Errorf("%d sequences are left", w.sequences)
	}
	ctx := named(t.Context(), "many")
	b, err := s.Bind(ctx, []Call{{Name: "a"}})
	if err != nil {
		t.Fatal(err)
	}
	if err := b.Begin(ctx, prompt, 16, make([]uint64, shadowSequences+1)); err != nil {
		t.Fatal(err)
	}
	b.Close()
	if st := c.Stats(); st.Dropped != 2 {
		t.Errorf("%+v", st)
	}
}

// TestShadowOfChats: templates and parsers have shadows, which see whole requests.
func TestShadowOfChats(t *testing.T) {
	s := open(t, Options{Request: byName})
	for name, wasm := range map[string][]byte{"t": renderer("hello").Wasm(), "p": parser("hi").Wasm()} {
		if _, err := s.Put(t.Context(), name, wasm, Upload{}); err != nil {
			t.Fatal(err)
		}
	}
	ask := func(id string, calls ...Call) {
		t.Helper()
		b, _, err := s.BindChat(named(t.Context(), id), calls, chatDefaults)
		if err != nil {
			t.Fatal(err)
		}
		defer b.Close()
		r, err := b.Render(ctx, []byte(renderRequest))
		if err != nil || r.Text != "hello" {
			t.Fatal(r, err)
		}
		p, err := b.Parser(ctx, []byte(parseRequest), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer p.Close()
		if e, err := p.Feed("x", false); err != nil || len(e) != 1 || e[0].Text != "hi" {
			t.Fatal(e, err)
		}
		if _, err := p.Finish(false); err != nil {
			t.Fatal(err)
		}
	}
	same := map[string]*Canary{"t": shadowOf(t, s, "t", renderer("hello").Wasm(), CanaryOptions{}),
		"p": shadowOf(t, s, "p", parser("hi").Wasm(), CanaryOptions{})}
	ask("one")
	for name, c := range same {
		quiet(s, name)
		if st := c.Stats(); st.Answers != 1 || st.Finished != 1 || st.Different+st.Faulty+st.Dropped != 0 {
			t.Errorf("%s: %+v", name, st)
		}
	}
	other := map[string]*Canary{"t": shadowOf(t, s, "t", renderer("help").Wasm(), CanaryOptions{Texts: true}),
		"p": shadowOf(t, s, "p", parser("ho").Wasm(), CanaryOptions{})}
	ask("two")
	for name, says := range map[string][2]string{
		"t": {"writes another text from byte 3 on: 4 bytes instead of 5", `"p" instead of "lo"`},
		"p": {"part 1 of the answer differs", ""}} {
		quiet(s, name)
		st, list := other[name].Stats(), other[name].Samples()
		if st.Different != 1 || len(list) != 1 || list[0].What != says[0] || list[0].Texts != says[1] {
			t.Errorf("%s: %+v %+v", name, st, list)
		}
	}
}

// TestShadowRefusals: what can be no shadow is refused by name, and changes nothing.
func TestShadowRefusals(t *testing.T) {
	s := open(t, Options{Request: byName})
	few := guesttest.Fake{Description: strings.Replace(guesttest.Both, `"candidates":8`, `"candidates":4`, 1)}.Wasm()
	for name, wasm := range map[string][]byte{"few": few, "a": bias(1).Wasm()} {
		if _, err := s.Put(t.Context(), name, wasm, Upload{}); err != nil {
			t.Fatal(err)
		}
	}
	refused := func(name string, wasm []byte, u Upload, says string) {
		t.Helper()
		u.Shadow = true
		p, err := s.Prepare(t.Context(), name, wasm, u)
		if err == nil {
			_, err = p.Canary(t.Context(), NewCanary(CanaryOptions{Percent: 1, Faults: 1, Shadow: true}))
		}
		if err == nil || !strings.Contains(err.Error(), says) {
			t.Errorf("%s: %v, want %s", name, err, says)
		}
	}
	refused("few", guesttest.Fake{Description: guesttest.Both}.Wasm(), Upload{}, "candidates is 8 and was 4")
	refused("a", guesttest.Fake{Description: guesttest.Both}.Wasm(), Upload{}, "has the kinds")
	refused("a", bias(1).Wasm(), Upload{Apply: ApplyAlways}, "has the apply")
	refused("a", []byte("no module"), Upload{}, "")
	refused("b", bias(1).Wasm(), Upload{}, "nothing serves as b")
	refused("a", builtinModule(t, "vote"), Upload{}, "a program writes the text itself")
}

// TestShadowUnderLoad: shadows come and go, also with the plugin, while requests run; none fails, and nothing is left.
func TestShadowUnderLoad(t *testing.T) {
	s, _ := withShadow(t, bias(1).Wasm(), bias(2).Wasm(), CanaryOptions{})
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() {
			for j := range 60 {
				if x, err := request(t, s, fmt.Sprint(i, "-", j), ""); err != nil || x != 1 {
					t.Error(x, err)
				}
			}
		})
	}
	for i := range 6 {
		var err error
		switch i % 3 {
		case 0:
			err = s.EndCanary(t.Context(), "a")
		case 1:
			_, err = s.Put(t.Context(), "a", bias(1).Wasm(), Upload{})
		case 2:
			_, err = s.Reload(t.Context(), nil)
		}
		if err != nil {
			t.Error(err)
		}
		shadowOf(t, s, "a", slices.Clone(faulty()), CanaryOptions{})
	}
	wg.Wait()
	v := s.names["a"].current
	s.Close()
	if n := v.refs.Load(); n != 0 {
		t.Errorf("%d references are left", n)
	}
	if _, err := s.Bind(ctx, nil); !errors.Is(err, ErrClosed) {
		t.Error(err)
	}
}

// TestShadowOfGrammars: what a source is compiled to is compared, and of a grammar by steps each mask.
func TestShadowOfGrammars(t *testing.T) {
	s := open(t, Options{Request: byName})
	for name, wasm := range map[string][]byte{"c": compiler("az").Wasm(), "s": stepper().Wasm()} {
		if _, err := s.Put(t.Context(), name, wasm, Upload{}); err != nil {
			t.Fatal(err)
		}
	}
	compile := func(id string, c GrammarCall) *Grammar {
		t.Helper()
		g, err := s.Compile(named(t.Context(), id), c)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(g.Close)
		return g
	}
	check := func(name string, c *Canary, answers, different uint64, says string) {
		t.Helper()
		quiet(s, name)
		st := c.Stats()
		if st.Answers != answers || st.Different != different || st.Faulty+st.Dropped != 0 || st.Finished != st.Bound ||
			different > 0 && c.Samples()[0].What != says {
			t.Errorf("%+v, want %d and %d %s", st, answers, different, says)
		}
	}
	source := GrammarCall{Language: "mine", Source: []byte(theSource)}
	c := shadowOf(t, s, "c", compiler("az").Wasm(), CanaryOptions{})
	compile("a", source).Close()
	compile("b", source).Close() // which finds what the first compiled
	check("c", c, 2, 0, "")
	c = shadowOf(t, s, "c", compiler("ay").Wasm(), CanaryOptions{})
	compile("c", source).Close()
	check("c", c, 1, 1, "compiles a source to another form")

	steps := func(id string) {
		t.Helper()
		g := compile(id, GrammarCall{Language: "count", Source: []byte("x")})
		one, err := g.Sequence(named(t.Context(), id), 1)
		if err != nil {
			t.Fatal(err)
		}
		bits := make([]uint32, 9)
		mask := func(c *Constraint) {
			t.Helper()
			if _, err := c.Mask(bits); err != nil {
				t.Fatal(err)
			}
		}
		mask(one)
		if err := one.Accept('a'); err != nil {
			t.Fatal(err)
		}
		mask(one)
		two, err := one.Clone()
		if err != nil {
			t.Fatal(err)
		}
		if err := one.Rollback(1); err != nil {
			t.Fatal(err)
		}
		mask(one)
		mask(two)
		two.Close()
		one.Close()
		g.Close()
	}
	c = shadowOf(t, s, "s", stepper().Wasm(), CanaryOptions{})
	steps("a")
	check("s", c, 4, 0, "")
	other := stepper()
	bits := make([]uint32, 9)
	for _, id := range []uint32{'a', 's', 't', 258} {
		bits[id/32] |= 1 << (id % 32)
	}
	other.Data = map[uint32]string{encodedAt: guesttest.Bytes(bits...)}
	c = shadowOf(t, s, "s", other.Wasm(), CanaryOptions{})
	steps("b")
	check("s", c, 4, 1, "denies 1 tokens more and 0 fewer")
	if st := c.Stats(); st.Differing != 4 {
		t.Errorf("%+v", st)
	}
}
