package grammar_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"sync"
	"testing"
	"time"

	"tgi/plugins/grammar"
	"tgi/plugins/grammar/ir"
	"tgi/plugins/grammar/ir/irtest"
	"tgi/sdk/abi"
)

func compile(t testing.TB, v *grammar.Vocab, g *ir.Grammar, l grammar.Limits) *grammar.Grammar {
	t.Helper()
	c, err := v.Compile(context.Background(), g, l)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

func maskOf(t testing.TB, s *grammar.State) []uint32 {
	t.Helper()
	bits := make([]uint32, (large().Size()+31)/32)
	if err := s.Mask(bits); err != nil {
		t.Fatal(err)
	}
	return bits
}

// TestRollbackEqualsReplay goes back and forth along texts, also beyond the states that are kept, and compares with a
// new state at the same position.
func TestRollbackEqualsReplay(t *testing.T) {
	r := rand.New(rand.NewPCG(3, 3))
	for _, wl := range workloads(true, "") {
		g, other := compile(t, largeVocab(), wl.g, grammar.Limits{}), compile(t, largeVocab(), wl.g, grammar.Limits{})
		text := wl.texts[0]
		if wl.name == "json" { // a long one
			text = "[" + strings.Repeat(text+", ", 12) + text + "]"
		}
		tokens := longest()(text)
		s := g.Start()
		for range 60 {
			if n := r.IntN(s.Len() + 1); r.IntN(2) == 0 {
				if err := s.Rollback(n); err != nil {
					t.Fatal(err)
				}
			}
			for _, id := range tokens[s.Len() : s.Len()+r.IntN(len(tokens)-s.Len()+1)] {
				if err := s.Accept(id); err != nil {
					t.Fatal(err)
				}
			}
			fresh := other.Start()
			for _, id := range tokens[:s.Len()] {
				if err := fresh.Accept(id); err != nil {
					t.Fatal(err)
				}
			}
			if s.Key() != fresh.Key() {
				t.Fatalf("%s: after %d tokens the keys differ", wl.name, s.Len())
			}
			if !slices.Equal(maskOf(t, s), maskOf(t, fresh)) {
				t.Fatalf("%s: after %d tokens the masks differ", wl.name, s.Len())
			}
		}
		if err := s.Rollback(s.Len() + 1); err == nil {
			t.Error("rolled back more than was accepted")
		}
	}
}

// TestFollow: a text that is followed, in parts, goes as far as it can byte by byte, also where a byte of it is wrong,
// and what is known already takes no work.
func TestFollow(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 19))
	for _, wl := range workloads(true, "") {
		g := compile(t, largeVocab(), wl.g, grammar.Limits{})
		for i, whole := range wl.texts {
			text := []byte(whole)
			if i%2 == 1 {
				text[r.IntN(len(text))] = byte(r.IntN(256))
			}
			s, n := g.Start(), 0
			for n < len(text) && s.AcceptBytes(text[n:n+1]) == nil {
				n++
			}
			for range 2 {
				f, read, work := g.Start(), 0, int64(0)
				for read < len(text) {
					part := text[read:min(read+1+r.IntN(20), len(text))]
					k, units := f.Follow(t.Context(), grammar.Effort{}, part)
					if read, work = read+k, work+units; k < len(part) {
						break
					}
				}
				if read != n || f.Key() != s.Key() {
					t.Errorf("%s: %q: it follows %d bytes to %x, byte by byte %d to %x", wl.name, text, read, f.Key(), n, s.Key())
				}
				if known := n == len(text); known && work > 0 {
					t.Errorf("%s: %q: %d units for what is known", wl.name, text, work)
				}
			}
		}
	}
}

// TestLongRollback rolls back far beyond the states that are kept, over text that was not split into tokens.
func TestLongRollback(t *testing.T) {
	s := newSchema(false)
	g := compile(t, largeVocab(), s.done(s.Rule(s.value)), grammar.Limits{})
	a := g.Start()
	var keys []grammar.Key
	for i := range 1000 {
		keys = append(keys, a.Key())
		if i%7 == 3 {
			if err := a.AcceptBytes([]byte("[[")); err != nil {
				t.Fatal(err)
			}
		} else if err := a.Accept('['); err != nil {
			t.Fatal(err)
		}
	}
	b := a.Clone()
	for _, n := range []int{1, 100, 300, 3, 500} {
		if err := b.Rollback(n); err != nil {
			t.Fatal(err)
		}
		if b.Key() != keys[b.Len()] {
			t.Fatalf("after a rollback of %d steps the state differs", n)
		}
	}
	if a.Len() != 1000 || b.Len() != 96 {
		t.Errorf("lengths are %d and %d", a.Len(), b.Len())
	}
}

func TestClonesAreIndependent(t *testing.T) {
	wl := workloads(false, "")[1]
	g := compile(t, largeVocab(), wl.g, grammar.Limits{})
	tokens := [2][]uint32{longest()(wl.texts[0]), longest()(wl.texts[1])}
	same := 0
	for tokens[0][same] == tokens[1][same] {
		same++
	}
	a := g.Start()
	for _, id := range tokens[0][:same] {
		if err := a.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	b, key := a.Clone(), a.Key()
	for _, id := range tokens[1][same:] {
		if err := b.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	if a.Key() != key || a.Len() != same {
		t.Error("tokens accepted by a clone changed the original state")
	}
	for _, id := range tokens[0][same:] {
		if err := a.Accept(id); err != nil {
			t.Fatal(err)
		}
	}
	if !a.CanEnd() || !b.CanEnd() {
		t.Error("one of them did not reach its end")
	}
}

// TestManyGoroutines shares grammars, a vocabulary and caches that are too small between goroutines, and expects the
// results of a single one.
func TestManyGoroutines(t *testing.T) {
	v := grammar.NewVocab(large(), 300_000)
	all := workloads(true, "")
	var gs []*grammar.Grammar
	want := map[string][][]uint32{}
	for _, wl := range all {
		gs = append(gs, compile(t, v, wl.g, grammar.Limits{Memory: 100_000}))
		s := compile(t, largeVocab(), wl.g, grammar.Limits{}).Start()
		for _, id := range longest()(wl.texts[0]) {
			want[wl.name] = append(want[wl.name], maskOf(t, s))
			if err := s.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
	}
	var wg sync.WaitGroup
	for n := range 8 {
		wg.Go(func() {
			for k := range all {
				wl := all[(k+n)%len(all)]
				s := gs[(k+n)%len(all)].Start()
				for i, id := range longest()(wl.texts[0]) {
					if !slices.Equal(maskOf(t, s), want[wl.name][i]) {
						t.Errorf("%s: mask %d differs", wl.name, i)
						return
					}
					if err := s.Accept(id); err != nil {
						t.Error(err)
						return
					}
				}
			}
		})
	}
	wg.Wait()
	if st := v.CacheStats(); st.Bytes > 300_000 || st.Entries == 0 {
		t.Errorf("the cache holds %d masks of %d bytes", st.Entries, st.Bytes)
	}
}

// TestForcedTokensAreTheTokenizersOwn checks that the forced tokens at each position of a tokenized text are those of
// the tokenizer.
func TestForcedTokensAreTheTokenizersOwn(t *testing.T) {
	forced, total := 0, 0
	for _, flexible := range []bool{false, true} {
		for _, wl := range workloads(flexible, "") {
			g := compile(t, largeVocab(), wl.g, grammar.Limits{})
			for _, text := range wl.texts {
				tokens := longest()(text)
				s := g.Start()
				for i, id := range tokens {
					f, err := s.Forced(t.Context(), grammar.Effort{}, 4096, nil, longest())
					if err != nil {
						t.Fatal(err)
					}
					if !slices.Equal(f, tokens[i:min(i+len(f), len(tokens))]) {
						t.Fatalf("%s: after %d tokens %v is forced, the tokenizer has %v", wl.name, i, f, tokens[i:])
					}
					if total++; len(f) > 0 {
						forced++
					}
					if err := s.Accept(id); err != nil {
						t.Fatal(err)
					}
				}
			}
		}
	}
	t.Logf("%d of %d tokens are forced", forced, total)
	if forced*10 < total {
		t.Errorf("only %d of %d tokens are forced", forced, total)
	}
}

// TestLikelySavesSteps: a model that writes ordinary JSON needs few steps for what a schema says, if each step may
// check seven likely tokens; and none of these is forbidden.
func TestLikelySavesSteps(t *testing.T) {
	for _, flexible := range []bool{false, true} {
		steps, total := 0, 0
		for _, wl := range workloads(flexible, "") {
			g := compile(t, largeVocab(), wl.g, grammar.Limits{})
			for _, text := range wl.texts {
				tokens := longest()(text)
				s := g.Start()
				for at := 0; at < len(tokens); steps++ {
					likely, err := s.Likely(t.Context(), grammar.Effort{}, 7*16, nil, longest())
					if err != nil {
						t.Fatal(err)
					}
					ahead := s.Clone()
					for _, id := range likely {
						if err := ahead.Accept(id); err != nil {
							t.Fatalf("%s: %d of %v cannot come: %v", wl.name, id, likely, err)
						}
					}
					right := 0
					for right < min(len(likely), 7, len(tokens)-at-1) && likely[right] == tokens[at+right] {
						right++
					}
					for _, id := range tokens[at : at+right+1] {
						if err := s.Accept(id); err != nil {
							t.Fatal(err)
						}
					}
					at += right + 1
				}
				total += len(tokens)
			}
		}
		t.Logf("white space %v: %d steps for %d tokens", flexible, steps, total)
		if 10*steps > 8*total {
			t.Errorf("white space %v: %d steps for %d tokens", flexible, steps, total)
		}
	}
}

// TestLikelyKeepsItsTime: what follows a literal may be dear to follow, and the text of the literal's last token the
// beginning of many others. Finding out which may come is part of the call.
func TestLikelyKeepsItsTime(t *testing.T) {
	v := largeVocab()
	common := []string{"i", "o", "r", "t", "n", "s"}
	for i, end := range []string{"t", "in"} {
		text, least := longest()("<§>"+end), time.Hour
		for try := range 3 { // other work on the machine may hold one up
			var b irtest.Builder
			all := b.Repeat(b.Bytes("\x00\xff"), 0, ir.Unbounded)
			var parts []uint32
			for n := range 12 { // others in each grammar: they share what is known of their terms
				parts = append(parts, b.Concat(all, b.Lit(string("eariotnslcud"[n])+common[3*i+try]), all))
			}
			b.Define(b.Declare("start"), b.Seq(b.Text("<§>"+end), b.Term(b.And(parts...))))
			s := compile(t, v, &b.G, grammar.Limits{}).Start()
			began := time.Now()
			likely, err := s.Likely(t.Context(), grammar.Effort{Time: time.Millisecond}, 100, nil, longest())
			least = min(least, time.Since(began))
			if err != nil || len(likely) == 0 || !slices.Equal(likely, text[:len(likely)]) {
				t.Errorf("%q: %v is likely (%v), want the first of %v", end, likely, err, text)
			}
		}
		if least > 25*time.Millisecond {
			t.Errorf("%q: %v for a call of a millisecond", end, least)
		}
	}
}

func TestForcedBytes(t *testing.T) {
	var b irtest.Builder
	b.Define(b.Declare("start"), b.Seq(b.Text("abc"), b.Choice(b.Text("dex"), b.Text("dey")), b.Times(b.Text("éz"), 0,
		1)))
	g := compile(t, largeVocab(), &b.G, grammar.Limits{})
	for _, c := range []struct{ before, want string }{{"", "abcde"}, {"ab", "cde"}, {"abcde", ""}, {"abcdex", ""},
		{"abcdex\xc3", "\xa9z"}, {"abcdexéz", ""}} {
		s := g.Start()
		if err := s.AcceptBytes([]byte(c.before)); err != nil {
			t.Fatal(err)
		}
		if got, err := s.ForcedBytes(100); string(got) != c.want || err != nil {
			t.Errorf("after %q: %q is forced (%v), want %q", c.before, got, err, c.want)
		}
	}
	if got, _ := g.Start().ForcedBytes(2); string(got) != "ab" {
		t.Errorf("at most 2 bytes: got %q", got)
	}
}

// TestForcedLeavesOpenWhatMayGrow: "ab" is forced, but if "abc" is in the vocabulary and c may follow, the tokens of
// "ab" may not be the tokenizer's.
func TestForcedLeavesOpenWhatMayGrow(t *testing.T) {
	w := words{{"a", 0}, {"b", 0}, {"c", 0}, {"ab", 0}, {"abc", 0}, {"d", 0}, {"x", 0}, {"<e>", abi.TokenEnd}, {"é", 0},
		{"\xc3", 0}, {"\xa9", 0}, {"\xa8", 0}}
	v := grammar.NewVocab(w, 0)
	encode := func(text string) (out []uint32) {
		for text != "" {
			for _, id := range []uint32{4, 3, 8, 0, 1, 2, 5, 6, 9, 10, 11} {
				if rest, ok := strings.CutPrefix(text, w[id].text); ok {
					out, text = append(out, id), rest
					break
				}
			}
		}
		return out
	}
	for _, c := range []struct {
		regex func(b *irtest.Builder) uint32
		tail  []uint32
		want  []uint32
	}{
		{func(b *irtest.Builder) uint32 { return b.Concat(b.Lit("xab"), b.Bytes("cd")) }, nil, []uint32{6}},
		{func(b *irtest.Builder) uint32 { return b.Concat(b.Lit("xab"), b.Bytes("dx")) }, nil, []uint32{6, 3}},
		{func(b *irtest.Builder) uint32 { return b.Concat(b.Lit("xabd")) }, nil, []uint32{6, 3, 5}},
		{func(b *irtest.Builder) uint32 { return b.Lit("bx") }, []uint32{6}, []uint32{1, 6}},
		{func(b *irtest.Builder) uint32 { return b.Lit("bx") }, []uint32{6, 0}, nil},
		{func(b *irtest.Builder) uint32 { return b.Lit("bx") }, []uint32{6, 0, 7}, []uint32{1, 6}},
		{func(b *irtest.Builder) uint32 { return b.Concat(b.Lit("xx\xc3"), b.Bytes("\xa8\xa9")) }, nil, []uint32{}},
	} {
		var b irtest.Builder
		body := b.Term(c.regex(&b))
		b.Define(b.Declare("start"), body)
		got, err := compile(t, v, &b.G, grammar.Limits{}).Start().Forced(t.Context(),
			grammar.Effort{}, 4096, c.tail, encode)
		if !slices.Equal(got, c.want) || err != nil {
			t.Errorf("%+v after %v: %v is forced (%v), want %v", b.G.Regexes, c.tail, got, err, c.want)
		}
	}
}

func TestTokensByName(t *testing.T) {
	w := words{{"a", 0}, {"<tool>", abi.TokenSpecial}, {"<end>", abi.TokenSpecial | abi.TokenEnd}, {"<", 0}, {"b", 0}}
	v := grammar.NewVocab(w, 0)
	var b irtest.Builder
	b.Define(b.Declare("start"), b.Seq(b.Text("a"), b.TokenText("<tool>"), b.Token(true, ir.Range{Lo: 4, Hi: 4})))
	s := compile(t, v, &b.G, grammar.Limits{}).Start()
	mask := make([]uint32, v.Words())
	for _, step := range []struct{ mask, token uint32 }{{0b00001, 0}, {0b00010, 1}, {0b01001, 3}, {0b00100, 2},
		{0b00100, 2}} {
		if err := s.Mask(mask); err != nil || mask[0] != step.mask {
			t.Fatalf("got %05b (%v), want %05b", mask[0], err, step.mask)
		}
		if err := s.Accept(step.token); err != nil {
			t.Fatal(err)
		}
	}
	if err := s.Accept(1); !errors.Is(err, grammar.ErrRejected) || !s.Ended() {
		t.Errorf("after the end: %v", err)
	}
	var c irtest.Builder
	c.Define(c.Declare("start"), c.TokenText("<nosuch>"))
	if _, err := v.Compile(context.Background(), &c.G, grammar.Limits{}); !errors.Is(err, grammar.ErrToken) ||
		!strings.Contains(err.Error(), `exprs[0]: no such token: "<nosuch>"`) {
		t.Errorf("got %v, want ErrToken", err)
	}
}

func TestStuck(t *testing.T) {
	v := grammar.NewVocab(words{{"a", 0}, {"<end>", abi.TokenEnd}}, 0)
	var b irtest.Builder
	b.Define(b.Declare("start"), b.Text("ab"))
	s := compile(t, v, &b.G, grammar.Limits{}).Start()
	if err := s.Accept(0); err != nil {
		t.Fatal(err)
	}
	if err := s.Mask(make([]uint32, 1)); !errors.Is(err, grammar.ErrStuck) {
		t.Errorf("no token begins with b, got %v", err)
	}
	var c irtest.Builder // all tokens except the only one
	any := c.Bytes("\x00\xff")
	c.Define(c.Declare("start"), c.Term(c.Concat(c.And(any, c.Not(c.Lit("a"))), any)))
	if err := compile(t, v, &c.G, grammar.Limits{}).Start().Mask(make([]uint32, 1)); !errors.Is(err, grammar.ErrStuck) {
		t.Errorf("the vocabulary has only the excluded token, got %v", err)
	}
}

// TestLimits checks that exceeding a limit is an error that names it, and that the state stays usable.
func TestLimits(t *testing.T) {
	s := newSchema(true)
	g := s.done(s.Rule(s.value))
	for what, l := range map[string]grammar.Limits{
		"work of one call: at most 1000 units":           {CompileWork: 1000},
		"ways to read the text so far: at most 2, got 3": {Threads: 2},
	} {
		if _, err := largeVocab().Compile(context.Background(), g, l); !errors.Is(err, grammar.ErrLimit) ||
			!strings.Contains(err.Error(), what) {
			t.Errorf("got %v, want ErrLimit with %q", err, what)
		}
	}
	c := compile(t, grammar.NewVocab(large(), 0), g, grammar.Limits{StepWork: 300})
	st := c.Start()
	if err := st.Mask(make([]uint32, c.Words())); !errors.Is(err, grammar.ErrLimit) {
		t.Errorf("got %v, want ErrLimit", err)
	}
	if err := st.Accept('"'); err != nil {
		t.Errorf("a cheaper step after that: %v", err)
	}
	var b irtest.Builder
	ab := b.Bytes("ab")
	all := b.Repeat(ab, 0, ir.Unbounded)
	b.Define(b.Declare("start"), b.Term(b.And(b.Concat(all, b.Lit("a"), b.Repeat(ab, 9, 9)), b.Concat(all, b.Lit("b"),
		b.Repeat(ab, 9, 9)))))
	if _, err := largeVocab().Compile(context.Background(), &b.G, grammar.Limits{Search: 100}); !errors.Is(err,
		grammar.ErrLimit) || !strings.Contains(err.Error(), "at most 100, got 101") {
		t.Errorf("got %v, want ErrLimit of the search", err)
	}
	if _, err := largeVocab().Compile(context.Background(), &b.G, grammar.Limits{}); !errors.Is(err, grammar.ErrEmpty) {
		t.Errorf("got %v, want ErrEmpty", err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	cancel()
	var h irtest.Builder
	h.Define(h.Declare("start"), hostile[1].g(&h))
	if _, err := largeVocab().Compile(ctx, &h.G, grammar.Limits{}); !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want context.Canceled", err)
	}
}

// TestEqualGrammarsShareMasks checks that the same grammar compiled again reuses its masks, and that another grammar
// with an equal terminal reuses that terminal's.
func TestEqualGrammarsShareMasks(t *testing.T) {
	v := grammar.NewVocab(large(), 0)
	wl := workloads(false, "")[1]
	follow := func(g *grammar.Grammar, text string) (misses int64) {
		before := v.CacheStats().Misses
		s := g.Start()
		for _, id := range longest()(text) {
			maskOf(t, s)
			if err := s.Accept(id); err != nil {
				t.Fatal(err)
			}
		}
		return v.CacheStats().Misses - before
	}
	first := follow(compile(t, v, wl.g, grammar.Limits{}), wl.texts[0])
	if again := follow(compile(t, v, wl.g, grammar.Limits{}), wl.texts[0]); first == 0 || again != 0 {
		t.Errorf("the first time %d masks are made, the second time %d", first, again)
	}
	s := newSchema(false)
	other := compile(t, v, s.done(s.object(property{"zz", s.str, false})), grammar.Limits{})
	st := other.Start()
	if err := st.AcceptBytes([]byte(`{"zz":"a`)); err != nil {
		t.Fatal(err)
	}
	before := v.CacheStats()
	maskOf(t, st)
	if after := v.CacheStats(); after.Misses != before.Misses+1 || after.Hits != before.Hits+1 {
		t.Errorf("inside a string: %+v, then %+v; want a hit for its terminal and a miss for its set", before, after)
	}
}

func ExampleState_Forced() {
	w := words{{"{", 0}, {`"`, 0}, {"name", 0}, {`":`, 0}, {"na", 0}, {"<end>", abi.TokenEnd}, {"1", 0}, {"}", 0}}
	var b irtest.Builder
	b.Define(b.Declare("start"), b.Seq(b.Text(`{"name":`), b.Term(b.Bytes("09")), b.Text("}")))
	g, err := grammar.NewVocab(w, 0).Compile(context.Background(), &b.G, grammar.Limits{})
	if err != nil {
		fmt.Println(err)
		return
	}
	encode := func(string) []uint32 { return []uint32{0, 1, 2, 3} }
	fmt.Println(g.Start().Forced(context.Background(), grammar.Effort{}, 100, nil, encode))
	// Output: [0 1 2 3] <nil>
}
