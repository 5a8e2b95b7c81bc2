package sample

import (
	"encoding/binary"
	"errors"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"

	"tgi/runtime/llm"
)

// memory is user code that depends on all it has seen: a masker, processor and sampler that forbids, raises and prefers
// tokens by those before, which it keeps for itself.
type memory struct{ seen *[]llm.Token }

func (m memory) Mask(bits []uint32) (bool, error) {
	for i := range bits {
		bits[i] = ^uint32(0)
	}
	for _, t := range *m.seen {
		bits[t/32] &^= 1 << (t % 32)
	}
	return len(*m.seen) < 20, nil
}

func (m memory) Accept(t llm.Token) error {
	*m.seen = append(*m.seen, t)
	return nil
}

func (m memory) Rewind(h History) error {
	*m.seen = slices.Clone((*m.seen)[:len(h.Output)])
	return nil
}

// watcher is a processor of that kind; it counts what it was shown.
type watcher struct{ sum, calls int }

func (w *watcher) Process(h History, s *Step) error {
	for _, t := range h.Output[w.calls:] {
		w.sum += int(t) + 1
		w.calls++
	}
	s.Logits[w.sum%len(s.Logits)] += 3
	return nil
}

func (w *watcher) Rewind(h History) error {
	*w = watcher{}
	return nil
}

// TestRewindIsAsNeverGenerated: after any number of rewinds a chain picks what a fresh one picks that was led to the
// same history.
func TestRewindIsAsNeverGenerated(t *testing.T) {
	const vocab = 200
	rng := rand.New(rand.NewPCG(31, 7))
	for round := range 300 {
		var b [8]byte
		binary.LittleEndian.PutUint64(b[:], rng.Uint64())
		p := settings(b)
		prompt := []llm.Token{3, 4, 4, 5}
		fresh := func() *Chain {
			plug := Plugins{}
			if round%2 == 0 {
				plug.Masker = memory{new([]llm.Token)}
			}
			if round%3 == 0 {
				plug.Processors = []Processor{&watcher{}}
			}
			c, err := New(p, vocab, nil, plug)
			if err != nil {
				t.Fatal(err)
			}
			if err := c.CanRewind(); err != nil {
				t.Fatal(err)
			}
			return c
		}
		row := func(h History) []float32 {
			r := rand.New(rand.NewPCG(uint64(len(h.Output)), uint64(round)))
			for _, t := range h.Output {
				r = rand.New(rand.NewPCG(r.Uint64(), uint64(t)))
			}
			return normals(r, vocab, 2)
		}
		pick := func(c *Chain, h History) Pick {
			got, err := c.Pick(h, row(h))
			if err != nil {
				t.Fatal(err)
			}
			got.Top = slices.Clone(got.Top)
			return got
		}
		c, h := fresh(), History{Prompt: prompt}
		for step := range 30 {
			got := pick(c, h)
			if step%5 == 4 { // the same as a chain that was never anywhere else
				twin, way := fresh(), History{Prompt: prompt}
				for _, id := range h.Output {
					if p := pick(twin, way); p.Token != id {
						t.Fatalf("round %d: %d follows %v, want %d", round, p.Token, way.Output, id)
					}
					way.Output = append(way.Output, id)
				}
				if want := pick(twin, way); !reflect.DeepEqual(got, want) {
					t.Fatalf("round %d: %+v after rewinds, %+v without", round, got, want)
				}
			}
			h.Output = append(slices.Clone(h.Output), got.Token)
			if rng.IntN(3) == 0 {
				h.Output = h.Output[:rng.IntN(len(h.Output)+1)]
				if round%4 == 0 && rng.IntN(2) == 0 { // the next pick is prepared already
					_ = c.Prepare(h)
				}
				if err := c.Rewind(h); err != nil {
					t.Fatal(err)
				}
			}
		}
	}
}

func TestCanRewind(t *testing.T) {
	for name, plug := range map[string]Plugins{
		"grammar":   {Masker: &script{}},
		"processor": {Processors: []Processor{processorFunc(nil)}},
		"sampler":   {Sampler: samplerFunc(nil)},
	} {
		c, err := New(off(), 10, nil, plug)
		if err != nil {
			t.Fatal(err)
		}
		if err := c.CanRewind(); err == nil || !strings.Contains(err.Error(), "taken back from a "+name) {
			t.Errorf("%s: %v", name, err)
		}
	}
	broken := errors.New("no way back")
	c, err := New(off(), 10, nil, Plugins{Processors: []Processor{stuck{broken}}})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Rewind(History{}); !errors.Is(err, llm.ErrPlugin) || !errors.Is(err, broken) {
		t.Errorf("got %v", err)
	}
	if _, err := c.Pick(History{}, make([]float32, 10)); !errors.Is(err, broken) {
		t.Errorf("a pick behind it: %v", err)
	}
}

// stuck is a processor that cannot rewind in the end.
type stuck struct{ err error }

func (stuck) Process(History, *Step) error { return nil }
func (s stuck) Rewind(History) error       { return s.err }

// TestBan: what is forbidden at a place is forbidden there and nowhere else; from there on the draws are new ones, and
// those before stay.
func TestBan(t *testing.T) {
	p := off()
	p.Sample, p.Seed = true, 5
	c, err := New(p, 8, nil, Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	at := func(out ...llm.Token) History { return History{Prompt: []llm.Token{1}, Output: out} }
	pick := func(h History) llm.Token {
		got, err := c.Pick(h, make([]float32, 8))
		if err != nil {
			t.Fatal(err)
		}
		return got.Token
	}
	ban := func(h History, ids ...llm.Token) {
		if err := c.Rewind(h); err != nil {
			t.Fatal(err)
		}
		var list []llm.Bias
		for _, id := range ids {
			list = append(list, llm.Bias{Token: id, Add: negInf})
		}
		c.Ban(h.Output, nil)
		c.Bias(h.Output, list, Banner{})
	}
	var old, again [3]llm.Token
	for i := range old {
		old[i] = pick(at(make([]llm.Token, i)...))
	}
	ban(at(0), 0, 1, 2, 3)
	for range 4 { // several bans at one place add up
		if got := pick(at(0)); got < 4 {
			t.Errorf("%d is forbidden", got)
		}
		ban(at(0), 4)
	}
	if got := pick(at(0)); got < 5 {
		t.Errorf("%d is forbidden", got)
	}
	free, _ := New(p, 8, nil, Plugins{})
	for _, x := range c.rewound.gone.cuts {
		free.Ban(x.output[:x.from], nil)
	}
	seen := map[llm.Token]bool{}
	for try := range 20 {
		want, _ := free.Pick(at(llm.Token(1+try%7)), make([]float32, 8))
		if got := pick(at(llm.Token(1 + try%7))); got != want.Token {
			t.Errorf("another place of the same length: %d, %d without bans", got, want.Token)
		}
		ban(at(0))
		free.Ban([]llm.Token{0}, nil)
	}
	for try := range 40 {
		ban(at(3), llm.Token(try%2)+6)
		seen[pick(at(3, 3))] = true
	}
	if len(seen) < 4 {
		t.Errorf("draws behind 40 rewinds: %v", seen)
	}
	if again[0] = pick(at()); again[0] != old[0] {
		t.Errorf("before all rewinds %d, it was %d", again[0], old[0])
	}
	ban(at(0), 0, 1, 2, 3, 4, 5, 6, 7)
	if _, err := c.Pick(at(0), make([]float32, 8)); !errors.Is(err, ErrBanned) || !errors.Is(err, ErrNoToken) {
		t.Errorf("all is forbidden: %v", err)
	}
}

// TestInsert: what is inserted comes next whatever the logits are, and a rewind forgets the rest.
func TestInsert(t *testing.T) {
	c, err := New(off(), 8, nil, Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	c.Insert([]llm.Token{6, 5, 4}, "guard")
	var h History
	for _, want := range []llm.Token{6, 5} {
		room := make([]llm.Token, 4)
		if n := c.Inserted().Draft(h, nil, room); n == 0 || room[0] != want {
			t.Errorf("drafts %v", room[:n])
		}
		got, err := c.Pick(h, make([]float32, 8))
		if err != nil || got.Token != want {
			t.Errorf("%+v (%v), want %d", got, err, want)
		}
		h.Output = append(h.Output, got.Token)
	}
	if err := c.Rewind(History{}); err != nil {
		t.Fatal(err)
	}
	if got, _ := c.Pick(History{}, make([]float32, 8)); got.Token != 0 {
		t.Errorf("%d behind a rewind", got.Token)
	}
}

// TestForbiddenIsNotShown: what a rewind takes back or forbids is neither among the likeliest tokens, of the model's
// distribution or the processed one, nor in explanations, also those of what comes before the guard, however the token
// in its place is picked: by its logit, by a sampler, forced, inserted, as an end. At other places it is shown, and
// where it is picked again.
func TestForbiddenIsNotShown(t *testing.T) {
	end, first := stepFunc(func(s *Step) { s.Stop = true }), stepFunc(func(s *Step) { s.Force = 6 })
	type ban struct {
		biases   []llm.Bias
		inserted []llm.Token
	}
	forbids := ban{biases: []llm.Bias{{Token: 7, Add: negInf}}}
	weakens := ban{biases: []llm.Bias{{Token: 7, Add: -1}}} // it stays among the best
	inserts := ban{inserted: []llm.Token{6}}
	strong := ban{biases: []llm.Bias{{Token: 7, Add: 3}}} // it is picked again
	for name, c := range map[string]struct {
		change func(*llm.Params)
		plug   Plugins
		ban
		picked llm.Token
	}{
		"forbidden":          {nil, Plugins{}, forbids, 6},
		"weakened":           {nil, Plugins{}, weakens, 6},
		"weakened, top_k":    {func(p *llm.Params) { p.TopK = 4 }, Plugins{}, weakens, 6},
		"weakened, warm":     {func(p *llm.Params) { p.Temperature = 2 }, Plugins{}, weakens, 6},
		"weakened, sampler":  {nil, Plugins{Sampler: samplerOf(6)}, weakens, 6},
		"sampler, top_k":     {func(p *llm.Params) { p.TopK = 4 }, Plugins{Sampler: samplerOf(6)}, weakens, 6},
		"inserted":           {nil, Plugins{}, inserts, 6},
		"inserted, top_p":    {func(p *llm.Params) { p.TopP = .9 }, Plugins{}, inserts, 6},
		"forced":             {nil, Plugins{Processors: []Processor{first}}, ban{}, 6},
		"ended":              {nil, Plugins{Processors: []Processor{end}}, ban{}, 6},
		"picked again":       {nil, Plugins{}, strong, 7},
		"picked as inserted": {nil, Plugins{}, ban{inserted: []llm.Token{7}}, 7},
	} {
		for _, raw := range []bool{false, true} {
			p := off()
			p.RawLogprobs, p.TopN, p.Explain = raw, 2, llm.Explain{Tokens: 9, Top: 2}
			p.LogitBias = []llm.Bias{{Token: 7, Add: 1}, {Token: 6, Add: 1.5}, {Token: 5, Add: 1}}
			if c.change != nil {
				c.change(&p)
			}
			chain, err := New(p, 8, []llm.Token{6}, c.plug)
			if err != nil {
				t.Fatal(err)
			}
			var got Pick
			shown := func(output ...llm.Token) (list []llm.Token) {
				if got, err = chain.Pick(History{Output: output}, []float32{0, 1, 2, 3, 4, 5, 6, 7}); err != nil {
					t.Fatal(err)
				}
				if len(got.Top) != 2 {
					t.Errorf("%s, raw %v: top tokens %v, want 2", name, raw, got.Top)
				}
				return named7(got)
			}
			if list := shown(2); !slices.Contains(list, 7) {
				t.Errorf("%s, raw %v: %v before the rewind, want 7 in it", name, raw, list)
			}
			// 7, 7 was taken back behind 2: the first of them is not shown there, the second not behind the first.
			chain.Ban([]llm.Token{2}, []llm.Token{7, 7})
			chain.Bias([]llm.Token{2}, c.biases, Banner{})
			chain.Insert(c.inserted, "guard")
			list := shown(2)
			if got.Token != c.picked || slices.Contains(list, 7) != (c.picked == 7) || !slices.Contains(list, 6) ||
				c.picked != 7 && got.Explained.Rank != 0 {
				t.Errorf("%s, raw %v: picked %d, shown %v, rank %d; want %d, 6 in it, and 7 only where it is picked", name,
					raw, got.Token, list, got.Explained.Rank, c.picked)
			}
			if list := shown(1); !slices.Contains(list, 7) {
				t.Errorf("%s, raw %v: %v elsewhere, want 7 in it", name, raw, list)
			}
			chain.Insert([]llm.Token{6}, "guard")
			if list := shown(2, 7); slices.Contains(list, 7) || !slices.Contains(list, 6) {
				t.Errorf("%s, raw %v: %v behind the same token, want 6 and no 7", name, raw, list)
			}
			if list := shown(2, 7, 7); !slices.Contains(list, 7) {
				t.Errorf("%s, raw %v: %v behind what was taken back, want 7 in it", name, raw, list)
			}
		}
	}
}

// TestGuardsAreNamed: an explanation names those whose biases hold where its token was picked, each once, and who
// inserted the token.
func TestGuardsAreNamed(t *testing.T) {
	p := off()
	p.Explain = llm.Explain{Tokens: 9, Top: 2}
	c, err := New(p, 4, []llm.Token{3}, Plugins{})
	if err != nil {
		t.Fatal(err)
	}
	first, second, third := Banner{By: 0, Name: "a"}, Banner{By: 1, Name: "b", Yields: true}, Banner{By: 2, Name: "c"}
	c.Bias(nil, []llm.Bias{{Token: 0, Add: negInf}}, second)
	c.Bias(nil, []llm.Bias{{Token: 1, Add: -1}, {Token: 2, Add: negInf}}, first)
	c.Bias(nil, []llm.Bias{{Token: 1, Add: -1}}, second)
	c.Bias([]llm.Token{1}, []llm.Bias{{Token: 0, Add: negInf}}, third)
	names := func(output ...llm.Token) (list []string, by string) {
		got, err := c.Pick(History{Output: output}, []float32{3, 2, 1, 0})
		if err != nil {
			t.Fatal(err)
		}
		for _, x := range got.Explained.Changes {
			if x.Kind != llm.ChangeGuard {
				t.Errorf("%+v", x)
			}
			list = append(list, x.Name)
		}
		return list, got.Explained.By
	}
	if list, by := names(); !slices.Equal(list, []string{"b, a"}) || by != "" {
		t.Errorf("two guards: %q by %q", list, by)
	}
	c.Insert([]llm.Token{2}, "d")
	if list, by := names(1); !slices.Equal(list, []string{"c", "d"}) || by != "d" {
		t.Errorf("inserted: %q by %q", list, by)
	}
	if list, by := names(2, 2); len(list) > 0 || by != "" {
		t.Errorf("elsewhere: %q by %q", list, by)
	}
	c.Bias(nil, []llm.Bias{{Token: 1, Add: negInf}, {Token: 3, Add: negInf}}, first)
	if list, _ := names(); !slices.Equal(list, []string{"a"}) {
		t.Errorf("one that yields: %q", list)
	}
}

// named7 lists the tokens that a pick names, in any place.
func named7(p Pick) (list []llm.Token) {
	for _, x := range p.Top {
		list = append(list, x.Token)
	}
	for _, x := range p.Explained.Candidates {
		list = append(list, x.Token)
	}
	for _, x := range p.Explained.Changes {
		list = append(list, x.Best.Token)
		for _, m := range x.Moved {
			list = append(list, m.Token)
		}
		if x.Forced >= 0 {
			list = append(list, llm.Token(x.Forced))
		}
	}
	return list
}

// samplerOf is a sampler that picks a token where it can.
func samplerOf(want llm.Token) Sampler {
	return samplerFunc(func(_ History, list []Candidate) (int, error) {
		return max(slices.IndexFunc(list, func(c Candidate) bool { return c.Token == want }), 0), nil
	})
}

// TestBansThatYield: where biases leave no token, those that yield do so, the first that can and no more than it takes;
// others fail the pick and say whose they are. What the mask leaves none of is nobody's fault.
func TestBansThatYield(t *testing.T) {
	type banned struct {
		by     Banner
		tokens []llm.Token
	}
	type bans []banned
	strict, first, second := Banner{By: 1}, Banner{By: 2, Yields: true}, Banner{By: 3, Yields: true}
	for name, c := range map[string]struct {
		list    bans
		allowed int // tokens 0 to below this one
		want    int // -1 for an error
		lifted  []int
		by      int
	}{
		"something is left":        {bans{{first, []llm.Token{3, 2}}}, 4, 1, nil, 0},
		"one yields":               {bans{{first, []llm.Token{3, 2, 1, 0}}}, 4, 3, []int{2}, 0},
		"forbidden twice":          {bans{{first, []llm.Token{3, 3, 3}}}, 4, 2, nil, 0},
		"the first yields":         {bans{{first, []llm.Token{3, 2}}, {second, []llm.Token{1, 0}}}, 4, 3, []int{2}, 0},
		"the second too":           {bans{{first, []llm.Token{1}}, {second, []llm.Token{3, 2, 1, 0}}}, 4, 3, []int{2, 3}, 0},
		"beside one that does not": {bans{{strict, []llm.Token{3, 2}}, {first, []llm.Token{1, 0}}}, 4, 1, []int{2}, 0},
		"one that does not":        {bans{{first, []llm.Token{0}}, {strict, []llm.Token{3, 2, 1, 0}}}, 4, -1, nil, 1},
		"of what the mask leaves":  {bans{{first, []llm.Token{0}}}, 1, 0, []int{2}, 0},
		"nothing was left before":  {bans{{first, []llm.Token{0}}}, 0, -2, nil, 0},
	} {
		for _, drawn := range []bool{false, true} {
			p := off()
			p.Sample, p.Seed = drawn, 9
			chain, err := New(p, 8, nil, Plugins{Masker: firstTokens(c.allowed)})
			if err != nil {
				t.Fatal(err)
			}
			h := History{Output: []llm.Token{5}}
			for _, b := range c.list {
				var list []llm.Bias
				for _, id := range b.tokens {
					list = append(list, llm.Bias{Token: id, Add: negInf})
				}
				chain.Bias(h.Output, list, b.by)
			}
			got, err := chain.Pick(h, []float32{0, 20, 40, 60, 80, 90, 99, 99})
			switch {
			case c.want == -1 && errors.Is(err, ErrBanned) && chain.BannedBy() == c.by:
			case c.want == -2 && errors.Is(err, ErrNoToken) && !errors.Is(err, ErrBanned):
			case c.want < 0 || err != nil || int(got.Token) != c.want || !slices.Equal(chain.Lifted(), c.lifted):
				t.Errorf("%s, drawn %v: %+v (%v), lifted %v, by %d; want %+v", name, drawn, got, err, chain.Lifted(),
					chain.BannedBy(), c)
			}
		}
	}
}

// firstTokens is a mask of so many tokens.
type firstTokens int

func (b firstTokens) Mask(bits []uint32) (bool, error) {
	bits[0] = 1<<b - 1
	return true, nil
}

func (firstTokens) Accept(llm.Token) error { return nil }
func (firstTokens) Rewind(History) error   { return nil }
