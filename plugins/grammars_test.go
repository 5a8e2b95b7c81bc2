package plugins

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"reflect"
	"runtime"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/plugins/internal/guest/guesttest"
)

const end = 258 // the token that ends a text

func TestCompileGrammar(t *testing.T) {
	s := grammarSet(t, Options{})
	g := compiled(t, s, "c", "")
	defer g.Close()
	if want := []Dropped{{Pointer: "#", Keyword: "format", Reason: "unknown"}}; !reflect.DeepEqual(g.Dropped(), want) {
		t.Errorf("dropped %+v", g.Dropped())
	}
	c := constraint(t, g)
	if !c.Native() || c.Plugin() != "" {
		t.Errorf("a grammar that the host runs: native %v, of plugin %q", c.Native(), c.Plugin())
	}
	if got := allowed(t, c); !reflect.DeepEqual(got, []uint32{'a', 'b'}) {
		t.Errorf("first: %v", got)
	}
	accept(t, c, 'a', 'b')
	twin, err := c.Clone()
	if err != nil {
		t.Fatal(err)
	}
	accept(t, c, 'b')
	if got := allowed(t, c); !reflect.DeepEqual(got, []uint32{end}) {
		t.Errorf("after three: %v", got)
	}
	if err := c.Accept('a'); err == nil {
		t.Error("a fourth letter was accepted")
	}
	if got := allowed(t, twin); !reflect.DeepEqual(got, []uint32{'a', 'b', end}) {
		t.Errorf("the clone: %v", got)
	}
	if err := c.Rollback(3); err != nil || len(allowed(t, c)) != 2 {
		t.Errorf("rolled back: %v, %v", err, allowed(t, c))
	}
	c.Close()
	twin.Close()
	if st, _ := s.Get("c"); !reflect.DeepEqual(st.Kinds, []string{"grammar"}) || st.Stats.InstancesOut != 0 ||
		st.Stats.Calls != 1 {
		t.Errorf("status %+v", st)
	}
}

func TestCompilePicks(t *testing.T) {
	s := grammarSet(t, Options{Specs: []Spec{spec(t, "first", compiler("xy").Wasm()), spec(t, "l", bias(1).Wasm())}})
	for _, c := range []struct {
		call GrammarCall
		want uint32 // the first token that is allowed
		text string
		err  error
	}{
		{GrammarCall{Language: "mine"}, 'x', "", nil},
		{GrammarCall{Language: "yours", Plugin: "c"}, 'a', "", nil},
		{GrammarCall{Plugin: "c"}, 'a', "", nil},
		{GrammarCall{Language: "count"}, 'a', "", nil},
		{GrammarCall{Language: "klingon"}, 0,
			`plugins: none of those installed knows grammars in the language "klingon", but in ["count" "mine" "yours"]`,
			ErrUnknown},
		{GrammarCall{}, 0, `plugins: none of those installed knows grammars in the language "", but in ["count" "mine" "yours"]`,
			ErrUnknown},
		{GrammarCall{Plugin: "none"}, 0, "plugin none: there is no plugin of this name", ErrUnknown},
		{GrammarCall{Plugin: "l"}, 0, `plugin l: serves ["logits"], kind "grammar" is wanted`, ErrParams},
		{GrammarCall{Plugin: "c", Language: "count"}, 0,
			`plugin c: does not know grammars in the language "count", but in ["mine" "yours"]`, ErrParams},
		{GrammarCall{Plugin: "c", Params: []byte("[]")}, 0, "plugin c: params is not a JSON object", ErrParams},
		{GrammarCall{Plugin: "c", Source: []byte("\xff")}, 0, "plugin c: the source is not UTF-8", ErrParams},
	} {
		g, err := s.Compile(ctx, c.call)
		if c.err != nil {
			if !errors.Is(err, c.err) || err.Error() != c.text {
				t.Errorf("%+v: got %v, want %s", c.call, err, c.text)
			}
			continue
		}
		if err != nil {
			t.Errorf("%+v: %v", c.call, err)
			continue
		}
		q := constraint(t, g)
		if got := allowed(t, q); got[0] != c.want {
			t.Errorf("%+v: allows %v", c.call, got)
		}
		q.Close()
		g.Close()
	}
	no := refusal(t, s, Call{Name: "c"})
	if want := "plugin c: compiles grammars: a request names it beside its grammar"; no.Error() != want ||
		!errors.Is(no, ErrParams) {
		t.Errorf("in the token loop: %v", no)
	}
	if _, _, err := s.BindChat(ctx, []Call{{Name: "c"}}, ChatPlugins{}); !errors.Is(err, ErrParams) {
		t.Errorf("in a conversation: %v", err)
	}
}

// TestCompileErrors: what is wrong with a grammar or a compiler is one request's alone, and is not remembered.
func TestCompileErrors(t *testing.T) {
	var b irtest.Builder
	none := b.Declare("start")
	b.Define(none, b.Choice())
	b.G.Start = none
	s := grammarSet(t, Options{Breaker: Breaker{Faults: 4, Pause: time.Hour}, Specs: []Spec{
		{Name: "slow", Source: file(t, "slow", compiler("ab").Wasm()), Limits: Limits{FuelPerRequest: 10_000_000}},
		spec(t, "empty", compiles(&b.G).Wasm()),
	}})
	for _, c := range []struct {
		plugin, params, text string
		err                  error
	}{
		{"c", doRefuse, `plugin c: [{"pointer"`, ErrParams},
		{"empty", "", "plugin empty: the grammar admits no text", ErrParams},
		{"c", doTrap, "plugin c: tgi_grammar_compile: trap", ErrFault},
		{"c", doRogue, "plugin c: tgi_grammar_compile: unusable result", ErrFault},
		{"slow", doSpin,
			"plugin slow: takes more than fuel_per_request = 10000000 allows to compile. Given: 9 bytes",
			ErrParams},
	} {
		for range 2 {
			g, err := s.Compile(ctx, GrammarCall{Plugin: c.plugin, Language: "mine", Source: []byte(theSource),
				Params: []byte(c.params)})
			if g != nil || !errors.Is(err, c.err) || !strings.HasPrefix(err.Error(), c.text) {
				t.Errorf("%s %s: got %v, want %s", c.plugin, c.params, err, c.text)
			}
		}
	}
	if _, err := s.Compile(ctx, GrammarCall{Plugin: "c"}); !errors.Is(err, ErrOff) {
		t.Errorf("after four faults in a row: %v", err)
	}
	if st, _ := s.Get("c"); st.Stats.Faults["trap"] != 2 || st.Stats.Faults["result"] != 2 || st.Stats.Refusals != 2 ||
		st.OffClients != 1 {
		t.Errorf("status %+v", st)
	}
	for range 4 { // a client's sources that are too dear do not switch the plugin off
		_, _ = s.Compile(ctx, GrammarCall{Plugin: "slow", Language: "mine", Source: []byte(theSource),
			Params: []byte(doSpin)})
	}
	if st, _ := s.Get("slow"); st.OffClients != 0 {
		t.Errorf("after sources that take too much: %+v", st)
	}
	if got := s.GrammarStats(); got.Compiled != 15 || got.Kept != 0 {
		t.Errorf("counted %+v", got)
	}
}

// TestCompileOnce: requests that want the same wait for one compilation, or find it.
func TestCompileOnce(t *testing.T) {
	s := grammarSet(t, Options{})
	const requests = 50
	var all sync.WaitGroup
	for range requests {
		all.Go(func() {
			g, err := s.Compile(ctx, GrammarCall{Plugin: "c", Language: "mine", Source: []byte(theSource)})
			if err != nil {
				t.Error(err)
				return
			}
			defer g.Close()
			c := constraint(t, g)
			defer c.Close()
			accept(t, c, 'a', 'b', end)
		})
	}
	all.Wait()
	if got := s.GrammarStats(); got.Compiled != 1 || got.Found+got.Shared != requests-1 || got.Kept != 1 {
		t.Errorf("counted %+v", got)
	}
	for _, other := range []GrammarCall{
		{Plugin: "c", Language: "yours", Source: []byte(theSource)}, {Plugin: "c", Language: "mine",
			Source: []byte("y")},
		{Plugin: "c", Language: "mine", Source: []byte(theSource), Params: []byte(`{ }`)},
	} {
		if g, err := s.Compile(ctx, other); err != nil {
			t.Error(err)
		} else {
			g.Close()
		}
	}
	if got := s.GrammarStats(); got.Compiled != 4 {
		t.Errorf("counted %+v", got)
	}
	if v := s.names["c"].current; v.refs.Load() != 1 {
		t.Errorf("%d references are held", v.refs.Load())
	}
}

// signal is a log that tells when the guest prints.
type signal struct {
	slog.Handler
	printed chan struct{}
}

func (h signal) WithAttrs([]slog.Attr) slog.Handler { return h }
func (h signal) Handle(context.Context, slog.Record) error {
	select {
	case h.printed <- struct{}{}:
	default:
	}
	return nil
}

// TestCompileCancelled: a compilation ends when the last request that waits for it does, and not before.
func TestCompileCancelled(t *testing.T) {
	h := signal{slog.NewTextHandler(t.Output(), nil), make(chan struct{}, 1)}
	s := grammarSet(t, Options{Log: slog.New(h), Specs: []Spec{
		{Name: "slow", Source: file(t, "slow", compiler("ab").Wasm()), Limits: Limits{FuelPerRequest: 1 << 49}},
	}})
	for len(h.printed) > 0 {
		<-h.printed
	}
	why := [2]error{errors.New("the first left"), errors.New("the second left")}
	var cancel [2]context.CancelCauseFunc
	var got [2]chan error
	for i := range 2 {
		var c context.Context
		c, cancel[i] = context.WithCancelCause(ctx)
		got[i] = make(chan error, 1)
		go func() {
			_, err := s.Compile(c, GrammarCall{Plugin: "slow", Language: "mine", Source: []byte(theSource),
				Params: []byte(doSpin)})
			got[i] <- err
		}()
		if i == 0 {
			<-h.printed
		}
	}
	for s.GrammarStats().Shared == 0 {
		runtime.Gosched() // until the second waits too
	}
	cancel[0](why[0])
	if err := <-got[0]; !errors.Is(err, why[0]) {
		t.Errorf("first: %v", err)
	}
	s.grammars.mu.Lock()
	flights := len(s.grammars.flights)
	s.grammars.mu.Unlock()
	if st, _ := s.Get("slow"); st.Stats.InstancesOut != 1 || flights != 1 {
		t.Error("the compilation ended with the first request")
	}
	cancel[1](why[1])
	if err := <-got[1]; !errors.Is(err, why[1]) {
		t.Errorf("second: %v", err)
	}
	for st, _ := s.Get("slow"); st.Stats.Cancelled != 1; st, _ = s.Get("slow") {
		runtime.Gosched()
	}
	g := compiled(t, s, "slow", "") // it goes on
	g.Close()
	if st, _ := s.Get("slow"); st.State != StateActive {
		t.Errorf("status %+v", st)
	}
}

// cachedPart is a client's plugin that is there without being loaded.
func cachedPart(client string) *part {
	v := &version{}
	v.ref()
	return &part{version: v, client: client}
}

// TestGrammarsOfClients: who wants a grammar that another client has compiled waits neither behind that one's other
// compilations nor for an error that is that one's alone; and a compilation holds its plugin.
func TestGrammarsOfClients(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		var c grammarCache
		c.open(NewTurns(), NewMemory(MemoryConfig{}), grammarsBytes)
		c.limit = grammarsBytes
		crowd, crowded := context.WithCancel(t.Context())
		defer c.compiling.Wait()
		defer crowded()
		for i := range clientTurns {
			go func() {
				_, _ = c.get(crowd, cachedPart("crowd"), [32]byte{1, byte(i)},
					func(ctx context.Context, _ *turn) (*preparedGrammar, error) {
						<-ctx.Done()
						return nil, ctx.Err()
					})
			}()
		}
		synctest.Wait()
		made := &preparedGrammar{}
		get := func(ctx context.Context, p *part, build buildGrammar) (*preparedGrammar, error) {
			return c.get(ctx, p, [32]byte{2}, build)
		}
		go func() {
			_, _ = get(crowd, cachedPart("crowd"), func(context.Context, *turn) (*preparedGrammar, error) {
				return made, nil
			})
		}()
		synctest.Wait()
		limited, end := context.WithTimeout(t.Context(), time.Second)
		defer end()
		m, err := get(limited, cachedPart("other"), func(context.Context, *turn) (*preparedGrammar, error) {
			return nil, errors.New("it is compiled already")
		})
		if m != made || err != nil {
			t.Errorf("behind another client's compilations: %v, %v", m, err)
		}

		off, fail := cachedPart("off"), make(chan struct{})
		go func() {
			_, err := c.get(t.Context(), off, [32]byte{3}, func(context.Context, *turn) (*preparedGrammar, error) {
				<-fail
				if n := off.version.refs.Load(); n != 2 {
					t.Errorf("%d references to the plugin of a compilation, want 2", n)
				}
				return nil, ErrOff
			})
			if err != ErrOff {
				t.Errorf("the client itself got %v", err)
			}
		}()
		synctest.Wait()
		time.AfterFunc(time.Millisecond, func() { close(fail) })
		own := func(context.Context, *turn) (*preparedGrammar, error) { return made, nil }
		m, err = c.get(limited, cachedPart("other"), [32]byte{3}, own)
		if m != made || err != nil {
			t.Errorf("another client got %v, %v", m, err)
		}
	})
}

// TestGrammarsForgotten: the latest used are kept within the limit, and a grammar in use is not harmed.
func TestGrammarsForgotten(t *testing.T) {
	var c grammarCache
	c.open(NewTurns(), NewMemory(MemoryConfig{}), grammarsBytes)
	c.limit = grammarsBytes
	get := func(key byte) *preparedGrammar {
		m, err := c.get(ctx, cachedPart(""), [32]byte{key}, func(context.Context, *turn) (*preparedGrammar, error) {
			return &preparedGrammar{baseBytes: grammarsBytes / 2}, nil
		})
		if err != nil {
			t.Fatal(err)
		}
		return m
	}
	one := get(1)
	get(2)
	if get(1) != one { // the latest used now
		t.Error("made again")
	}
	get(3)
	if get(1) != one {
		t.Error("the latest used was forgotten")
	}
	if got := c.stats; got.Compiled != 3 || got.Found != 2 || c.order.Len() != 2 || c.size() != grammarsBytes {
		t.Errorf("counted %+v, %d bytes", got, c.size())
	}
	get(2)
	if c.stats.Compiled != 4 {
		t.Error("what was used longest ago was kept")
	}
	two := get(2)
	two.masks = &maskMemory{bytes: 1} // it has grown
	if get(2) != two || c.order.Len() != 1 {
		t.Errorf("%d grammars of %d bytes are kept", c.order.Len(), c.size())
	}
}

// TestMasksCounted: those of all sequences, clones among them, and where no token goes on.
func TestMasksCounted(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "c", compiler("ab").Wasm())}})
	s.Prepared()
	c := constraint(t, compiled(t, s, "c", ""))
	allowed(t, c)
	twin, err := c.Clone()
	if err != nil {
		t.Fatal(err)
	}
	allowed(t, twin)
	var b irtest.Builder // a word that no token of a vocabulary without letters begins
	b.Define(b.Declare("start"), b.Text("no"))
	g, err := grammar.NewVocab(digits{}, 0).Compile(ctx, &b.G, grammar.Limits{})
	if err != nil {
		t.Fatal(err)
	}
	stuck := &Constraint{state: g.Start(), counts: c.counts, turns: s.turns, quick: quickMask, ctx: ctx,
		spent: &maskTime{}}
	if _, done, err := stuck.TryMask(make([]uint32, 1)); !done || !errors.Is(err, grammar.ErrStuck) {
		t.Errorf("got %v, %v", done, err)
	}
	if _, err := stuck.Mask(nil); errors.Is(err, grammar.ErrStuck) || err == nil {
		t.Errorf("without room: %v", err)
	}
	if got := s.GrammarStats(); got.Asked != 4 || got.DeadEnds != 1 || got.MaskSeconds <= 0 || got.Seconds <= 0 ||
		got.Bytes <= 0 {
		t.Errorf("counted %+v", got)
	}
}

// TestGrammarTime: the masks of a request's texts share what they may take, clones among them, and those of another
// request do not.
func TestGrammarTime(t *testing.T) {
	s := open(t, Options{Specs: []Spec{spec(t, "c", compiler("ab").Wasm())}, GrammarTime: time.Nanosecond})
	g := compiled(t, s, "c", "")
	c, other, late := constraint(t, g), constraint(t, g), constraint(t, compiled(t, s, "c", ""))
	twin, err := c.Clone()
	if err != nil {
		t.Fatal(err)
	}
	allowed(t, c) // spends it
	allowed(t, late)
	bits := make([]uint32, 9)
	for _, c := range []*Constraint{c, other, twin, late} {
		_, done, quick := c.TryMask(bits)
		_, slow := c.Mask(bits)
		for _, err := range []error{quick, slow} {
			if !errors.Is(err, ErrParams) || !strings.Contains(err.Error(), "plugins.grammar_time): at most 1ns, got ") {
				t.Errorf("got %v", err)
			}
		}
		if !done {
			t.Error("a slow mask may come")
		}
	}
}

// TestCompilerSwap: a grammar outlives the version that compiled it, and the next request gets the newer one's.
func TestCompilerSwap(t *testing.T) {
	sp := spec(t, "c", compiler("ab").Wasm())
	s := open(t, Options{Specs: []Spec{sp}})
	g := compiled(t, s, "c", "")
	old := s.names["c"].current
	write(t, sp.Source, compiler("xy").Wasm())
	reload(t, s, []Spec{sp}, []string{"c"}, nil, nil, nil)
	<-old.guest.Drained()
	c := constraint(t, g)
	if got := allowed(t, c); got[0] != 'a' {
		t.Errorf("the old: %v", got)
	}
	fresh := compiled(t, s, "c", "")
	if got := allowed(t, constraint(t, fresh)); got[0] != 'x' {
		t.Errorf("the new: %v", got)
	}
}

func TestGrammarSettings(t *testing.T) {
	for _, c := range []struct {
		change func(*Spec)
		want   string
	}{
		{func(s *Spec) { s.OnError = OnErrorSkip }, `on_error is "skip", but no request can go on without its grammar`},
		{func(s *Spec) { s.Apply = ApplyAlways },
			`apply is "always", but a plugin of kind ["grammar"] serves requests that bring a grammar`},
	} {
		for _, kind := range []string{"", "grammar"} {
			sp := spec(t, "c", compiler("ab").Wasm())
			sp.Kind = kind
			c.change(&sp)
			_, err := Open(ctx, options(t, Options{Specs: []Spec{sp}}))
			if err == nil || !strings.Contains(err.Error(), c.want) {
				t.Errorf("got %v, want %s", err, c.want)
			}
		}
	}
	rogue := compiler("ab")
	rogue.Code["tgi_grammar_compile"] = guesttest.Trap()
	if _, err := Open(ctx, options(t, Options{Specs: []Spec{spec(t, "c", rogue.Wasm())}})); !errors.Is(err, ErrLoad) {
		t.Errorf("a compiler that traps: %v", err)
	}
}

// digits is a vocabulary of the ten digits.
type digits struct{}

func (digits) Size() int              { return 10 }
func (digits) Bytes(id uint32) []byte { return []byte{'0' + byte(id)} }
func (digits) Flags(uint32) uint32    { return 0 }

// TestCompileFair: sources that take seconds do not keep a short one waiting.
func TestCompileFair(t *testing.T) {
	s := grammarSet(t, Options{Specs: []Spec{
		{Name: "slow", Source: file(t, "slow", compiler("ab").Wasm()), Limits: Limits{FuelPerRequest: 1 << 49,
			TimePerRequest: time.Hour}},
	}})
	s.Prepared()
	c, cancel := context.WithCancel(ctx)
	var slow sync.WaitGroup
	defer slow.Wait()
	defer cancel()
	for i := range 6 {
		slow.Go(func() {
			g, err := s.Compile(c, GrammarCall{Plugin: "slow", Language: "mine", Source: []byte(theSource),
				Params: fmt.Appendf(nil, `{"aa":%d}`, i)})
			if err == nil {
				g.Close()
				t.Error("an endless source was compiled")
			}
		})
	}
	for st, _ := s.Get("slow"); st.Stats.InstancesOut < 6; st, _ = s.Get("slow") {
		time.Sleep(time.Millisecond)
	}
	done := make(chan struct{})
	go func() {
		defer close(done)
		g, err := s.Compile(ctx, GrammarCall{Plugin: "c", Language: "mine", Source: []byte(theSource)})
		if err != nil {
			t.Error(err)
			return
		}
		g.Close()
	}()
	select {
	case <-done:
	case <-time.After(30 * time.Second):
		t.Error("a short compilation waits for endless ones")
		cancel()
		<-done
	}
}

// TestLooksAhead: what may follow, and what must, is told without moving on; and tokens are taken back.
func TestLooksAhead(t *testing.T) {
	s := grammarSet(t, Options{})
	g, guest := compiled(t, s, "c", ""), compiled(t, s, "s", "")
	defer g.Close()
	defer guest.Close()
	c := constraint(t, g) // up to three of a and b
	for _, x := range []struct {
		tokens []uint32
		want   int
	}{{nil, 0}, {[]uint32{'a', 'b', 'b', end}, 4}, {[]uint32{'a', 'c', 'b'}, 1}, {[]uint32{'b', 'b', 'b', 'b'}, 3},
		{[]uint32{end}, 0}} {
		if got := c.Admits(x.tokens); got != x.want {
			t.Errorf("%v: %d may follow, want %d", x.tokens, got, x.want)
		}
	}
	for _, x := range []uint32{'a', 'b'} {
		if err := c.AcceptLater(x); err != nil {
			t.Fatal(err)
		}
	}
	if got := c.Admits([]uint32{'a', 'a'}); got != 1 {
		t.Errorf("%d may follow two letters", got)
	}
	if err := c.AcceptLater('b'); err != nil {
		t.Fatal(err)
	}
	for _, n := range []int{3, 2, 2, 1, 0} {
		if err := c.Rewind(n); err != nil {
			t.Fatal(err)
		}
		if got := c.Admits([]uint32{'a', 'a', 'a', 'a'}); got != 3-n {
			t.Errorf("%d may follow %d letters", got, n)
		}
	}
	stepping := constraint(t, guest)
	room := make([]uint32, 4)
	if n := stepping.Admits([]uint32{1, 2}); n != 2 || stepping.Forced(nil, nil, room) != 0 {
		t.Errorf("a guest's: %d", n)
	}
	stepping.Close()
	c.Close()
}
