package plugins

import (
	"fmt"
	"hash/fnv"
	"math"
	"math/rand/v2"
	"slices"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/runtime/llm"
)

// looped are the plugins of the token loop, with parameters that make them do something.
var looped = map[string]string{
	"no-repeat-ngram": `{"n":2}`, "dry": `{"multiplier":2,"allowed_length":1}`,
	"xtc":      `{"probability":0.6,"threshold":0.01}`,
	"mirostat": `{"tau":4,"eta":0.5}`, "banned-words": `{"words":["ab","cd"]}`, "watermark": `{"bias":3}`,
	"thinking-budget": `{"open":"a","close":"b","min":3,"budget":8,"message":"cdefg"}`,
}

// walk is one sequence of a plugin that is walked through a text.
type walk struct {
	t    *testing.T
	seq  Sequence
	h    llm.History
	cuts []int // that are left, in their order
}

// beginWalk begins the plugin for two sequences beside a guard that rewinds, and returns the second, a copy of the
// first.
func beginWalk(t *testing.T, set *Set, name string) *walk {
	t.Helper()
	b, err := set.Bind(t.Context(), []Call{{Name: name, Params: []byte(looped[name])},
		{Name: "banned-strings"}})
	if err != nil {
		t.Fatal(err)
	}
	w := &walk{t: t, h: llm.History{Prompt: []uint32{'a', 'b', 'a'}}}
	if err := b.Begin(t.Context(), w.h.Prompt, 2000, []uint64{3, 4}); err != nil {
		t.Fatal(err)
	}
	w.seq = b.Sequence(1)
	b.Close()
	t.Cleanup(w.seq.Release)
	return w
}

// step asks the plugin about the next position. It returns what it did, and the token that it leads to.
func (w *walk) step() (did string, token uint32) {
	f := fnv.New64a()
	fmt.Fprint(f, w.h.Output)
	r := rand.New(rand.NewPCG(f.Sum64(), 1))
	p := llm.Position{Logits: make([]float32, 259), Temperature: float32(math.NaN()), Force: -1}
	for i := range p.Logits {
		p.Logits[i] = float32(r.NormFloat64())
	}
	for _, x := range w.seq.Processors {
		if err := x.Process(w.h, &p); err != nil {
			w.t.Fatal(err)
		}
	}
	ids := make([]uint32, len(p.Logits))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortStableFunc(ids, func(a, b uint32) int {
		return int(math.Copysign(1, float64(p.Logits[b]-p.Logits[a])))
	})
	choice := 0
	if s := w.seq.Sampler; s != nil {
		var list []llm.Candidate
		sum := 0.0
		for _, x := range p.Logits {
			sum += math.Exp(float64(x))
		}
		for _, id := range ids {
			list = append(list, llm.Candidate{Token: id, Logit: p.Logits[id],
				Logprob: p.Logits[id] - float32(math.Log(sum))})
		}
		var err error
		if choice, err = s.Sample(w.h, list); err != nil {
			w.t.Fatal(err)
		}
	}
	token = ids[choice]
	if p.Force >= 0 {
		token = uint32(p.Force)
	}
	return fmt.Sprint(p.Logits, p.Force, p.Stop, choice), token
}

// back takes the plugin back.
func (w *walk) back(n int) {
	w.h.Output = slices.Clone(w.h.Output[:n])
	w.cuts = append(slices.DeleteFunc(w.cuts, func(c int) bool { return c > n }), n)
	for _, x := range w.seq.Processors {
		if err := x.CanRewind(); err != nil {
			w.t.Fatal(err)
		}
		if err := x.Rewind(w.h); err != nil {
			w.t.Fatal(err)
		}
	}
	if s := w.seq.Sampler; s != nil {
		if err := s.Rewind(w.h); err != nil {
			w.t.Fatal(err)
		}
	}
}

// reseed gives the plugin the random numbers of its n-th rewind, and does nothing else of one.
func (w *walk) reseed(n int) {
	for _, r := range w.seq.sequence.runs {
		if r.past != nil {
			r.session.Reseed(r.past.seed(n))
		}
	}
}

// rewound is the kit's vocabulary: all bytes, then " the", "<s>" and "</s>".
type rewound struct{ *kit.World }

func (w rewound) Size() int                    { return int(w.VocabSize()) }
func (w rewound) Bytes(id uint32) []byte       { b, _ := w.TokenBytes(id); return b }
func (w rewound) Flags(id uint32) uint32       { f, _ := w.TokenFlags(id); return f }
func (w rewound) Encode(s string) []uint32     { ids, _ := w.World.Encode(s); return ids }
func (w rewound) EncodeData(s string) []uint32 { return w.Encode(s) }

// TestTakenBackAsNeverAsked: a plugin that was taken back, by replay or from images, does what a fresh one does that
// was only ever asked about the text that is left, with the random numbers of as many tries.
func TestTakenBackAsNeverAsked(t *testing.T) {
	specs := []Spec{{Name: "banned-strings", Source: Builtin + "banned-strings"}}
	for name := range looped {
		specs = append(specs, Spec{Name: name, Source: Builtin + name})
	}
	set, err := Open(t.Context(), Options{Specs: specs, Builtin: std.FS(),
		Vocabulary: rewound{kit.NewWorld()}, CacheDir: testcache.Dir(), MaxInstances: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	for name := range looped {
		t.Run(name, func(t *testing.T) {
			r := rand.New(rand.NewPCG(7, 7))
			w := beginWalk(t, set, name)
			rewinds, floor := 0, 0
			for range 1300 {
				if len(w.h.Output) > 0 && r.IntN(40) == 0 {
					far := 12
					if r.IntN(24) == 0 {
						far = llm.MaxHold - 1
					}
					// what went out stays: no guard holds more than so many tokens
					floor = max(floor, len(w.h.Output)-llm.MaxHold)
					w.back(max(len(w.h.Output)-1-r.IntN(far), floor))
					if rewinds++; rewinds%6 == 0 {
						w.compare(set, name)
						continue
					}
				}
				_, token := w.step()
				if r.IntN(6) == 0 { // as a sampler behind it, or a draw, may pick
					token = uint32('a' + r.IntN(4))
				}
				w.h.Output = append(w.h.Output, token)
			}
			if floor < 2*llm.MaxHold || rewinds < 20 { // so that there were images
				t.Errorf("%d tokens after %d rewinds", len(w.h.Output), rewinds)
			}
		})
	}
}

// TestTakenBackOverForcedTokens: a plugin that was not asked about some tokens, since something forced them, and that
// is taken back once, to behind an image, does what a fresh one does that was asked about the same ones.
func TestTakenBackOverForcedTokens(t *testing.T) {
	set, err := Open(t.Context(), Options{Specs: []Spec{{Name: "banned-strings", Source: Builtin + "banned-strings"},
		{Name: "mirostat", Source: Builtin + "mirostat"}}, Builtin: std.FS(), Vocabulary: rewound{kit.NewWorld()},
		CacheDir: testcache.Dir(), MaxInstances: 64})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(set.Close)
	const back = 10
	for _, n := range []int{100, 2*imageEvery + 60} {
		walk := func(w *walk, until int) {
			for k := len(w.h.Output); k < until; k++ {
				token := uint32('a' + k%5)
				if k%7 != 3 {
					_, token = w.step()
				}
				w.h.Output = append(w.h.Output, token)
			}
		}
		w := beginWalk(t, set, "mirostat")
		walk(w, n)
		if images := len(w.seq.sequence.runs[0].past.images); (images == 2) != (n > 2*imageEvery) {
			t.Errorf("%d images after %d tokens", images, n)
		}
		w.back(n - back)
		twin := beginWalk(t, set, "mirostat")
		walk(twin, n-back)
		if !slices.Equal(twin.h.Output, w.h.Output) {
			t.Fatalf("%d tokens: the walks differ", n)
		}
		twin.reseed(1)
		for k := range 2 * back {
			a, x := w.step()
			if b, _ := twin.step(); a != b {
				t.Fatalf("%d tokens: the answer %d behind the rewind differs", n, k)
			}
			w.h.Output, twin.h.Output = append(w.h.Output, x), append(twin.h.Output, x)
		}
	}
}

// compare asks about the next position, and has a fresh sequence that is walked there asked too.
func (w *walk) compare(set *Set, name string) {
	w.t.Helper()
	twin := beginWalk(w.t, set, name)
	cuts := slices.Clone(w.cuts)
	for k := 0; ; k++ {
		for i, c := range cuts {
			if c == k {
				twin.reseed(i + 1)
			}
		}
		if k == len(w.h.Output) {
			break
		}
		twin.step()
		twin.h.Output = append(twin.h.Output, w.h.Output[k])
	}
	want, _ := twin.step()
	twin.seq.Release()
	got, token := w.step()
	if got != want {
		w.t.Fatalf("%s: behind %d tokens, taken back to %v: other answers", name, len(w.h.Output), w.cuts)
	}
	w.h.Output = append(w.h.Output, token)
}
