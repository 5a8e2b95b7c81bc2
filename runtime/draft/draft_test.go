package draft

import (
	"math/rand/v2"
	"slices"
	"testing"
	"time"

	"tgi/runtime/llm"
)

// searched is what followed the last n tokens where they occurred last, by looking at everything.
func searched(all []llm.Token, n, room int) []llm.Token {
	for end := len(all) - 1; end >= n && len(all) > n; end-- {
		if !slices.Equal(all[end-n:end], all[len(all)-n:]) {
			continue
		}
		out := slices.Clone(all)
		for i := range room {
			out = append(out, out[end+i])
		}
		return out[len(all):]
	}
	return nil
}

func TestLookupFindsTheLastOccurrence(t *testing.T) {
	found, lost := 0, 0
	for seed := range uint64(60) {
		r := rand.New(rand.NewPCG(seed, 1))
		kinds := 2 + r.IntN(30)
		var h llm.History
		l := new(Lookup)
		for range 1 + r.IntN(40) {
			h.Prompt = append(h.Prompt, llm.Token(r.IntN(kinds)))
		}
		for range 60 {
			var ahead, room [3]llm.Token
			n := r.IntN(3)
			for i := range n {
				ahead[i] = llm.Token(r.IntN(kinds))
			}
			got := l.Draft(h, ahead[:n], room[:])
			all := slices.Concat(h.Prompt, h.Output, ahead[:n])
			three, two := searched(all, 3, len(room)), searched(all, 2, len(room))
			want := three
			if want == nil {
				want = two
			}
			switch { // what ends in the guesses is not findable, and hashes may be equal
			case slices.Equal(room[:got], want):
			case n > 0 && (got == 0 || two != nil), got == 0, slices.Equal(room[:got], two):
				if n == 0 {
					lost++
				}
			default:
				t.Fatalf("seed %d: behind %v: %v, want %v or %v", seed, all, room[:got], three, two)
			}
			found += got
			for range r.IntN(4) {
				h.Output = append(h.Output, llm.Token(r.IntN(kinds)))
			}
			if r.IntN(10) == 0 { // truncated
				h.Output = h.Output[:r.IntN(len(h.Output)+1)]
			}
		}
	}
	if found < 1000 || lost > found/20 {
		t.Errorf("%d tokens were found, %d times it missed", found, lost)
	}
}

// TestLookupIsBounded: a long history takes no more memory than the bound, and its end is found.
func TestLookupIsBounded(t *testing.T) {
	var h llm.History
	r := rand.New(rand.NewPCG(1, 1))
	for range 300_000 {
		h.Prompt = append(h.Prompt, llm.Token(r.IntN(150_000)))
	}
	h.Output = slices.Clone(h.Prompt[len(h.Prompt)-5000 : len(h.Prompt)-4990])
	l := new(Lookup)
	var room [4]llm.Token
	if n := l.Draft(h, nil, room[:]); n != 4 || !slices.Equal(room[:], h.Prompt[len(h.Prompt)-4990:][:4]) {
		t.Errorf("%v", room[:n])
	}
	if len(l.three)+len(l.two) > 2*mostPlaces {
		t.Errorf("%d places", len(l.three)+len(l.two))
	}
	seen := l.seen
	h.Output = append(h.Output, 7)
	if l.Draft(h, nil, room[:]); l.seen != seen+1 {
		t.Errorf("a token made it look at %d", l.seen-seen)
	}
}

func TestPrediction(t *testing.T) {
	text := []llm.Token{10, 11, 12, 13, 14, 15, 16, 17, 18, 19}
	for _, c := range []struct {
		name          string
		output, ahead []llm.Token
		want          []llm.Token
	}{
		{"at its beginning", nil, nil, []llm.Token{10, 11, 12}},
		{"follows", []llm.Token{10, 11}, nil, []llm.Token{12, 13, 14}},
		{"behind a guess", []llm.Token{10, 11}, []llm.Token{12}, []llm.Token{13, 14, 15}},
		{"behind another guess", []llm.Token{10, 11}, []llm.Token{99}, nil},
		{"at its end", text[:9], nil, []llm.Token{19}},
		{"behind its end", text, nil, nil},
		{"left", []llm.Token{10, 99}, nil, nil},
		{"a token in another's place", []llm.Token{10, 99, 12, 13}, nil, []llm.Token{14, 15, 16}},
		{"some left out", []llm.Token{10, 14, 15}, nil, []llm.Token{16, 17, 18}},
		{"some put in", []llm.Token{10, 11, 90, 91, 92, 12, 13}, nil, []llm.Token{14, 15, 16}},
		{"back", []llm.Token{10, 11, 12, 13, 14, 90, 11, 12}, nil, []llm.Token{13, 14, 15}},
	} {
		p := NewPrediction(text)
		var room [3]llm.Token
		got := []llm.Token(nil)
		for n := range len(c.output) + 1 { // asked after every token
			p.Draft(llm.History{Prompt: []llm.Token{1}, Output: c.output[:n]}, nil, room[:])
		}
		h := llm.History{Prompt: []llm.Token{1}, Output: c.output}
		got = room[:p.Draft(h, c.ahead, room[:])]
		once := NewPrediction(text)
		var other [3]llm.Token
		if n := once.Draft(h, c.ahead, other[:]); !slices.Equal(got, c.want) || !slices.Equal(other[:n], c.want) {
			t.Errorf("%s: %v, asked once %v, want %v", c.name, got, other[:n], c.want)
		}
	}
}

// fixed always guesses the same.
type fixed []llm.Token

func (f fixed) Draft(_ llm.History, _, room []llm.Token) int { return copy(room, f) }

// TestChancesAreLearned from guesses that nobody computed.
func TestChancesAreLearned(t *testing.T) {
	q := NewSequence(Settings{Tokens: 4}, [Sources]Drafter{Repeated: fixed{1, 2, 3, 4}})
	var h llm.History
	if g := q.Guess(h, 9); len(g) != 4 || q.Worth(4) != 0 {
		t.Fatalf("%v are worth %v before any was seen", g, q.Worth(4))
	}
	for range 12 { // two of four are right each time
		h.Output = append(h.Output, 1, 2, 9, 9)
		q.Guess(h, 4)
	}
	if w := q.Worth(1); w < 0.8 || w > 1 {
		t.Errorf("one token is worth %v", w)
	}
	if w := q.Worth(4); w < 1.6 || w > 2 {
		t.Errorf("four are worth %v", w)
	}
	for range 12 {
		h.Output = append(h.Output, 9)
		q.Guess(h, 4)
	}
	if w := q.Worth(4); w > 0.4 {
		t.Errorf("four wrong ones are worth %v", w)
	}
	q.Guess(llm.History{}, 4) // truncated
	if got := q.Guess(h, 2); len(got) != 2 {
		t.Errorf("%d guesses, at most 2 are wanted", len(got))
	}
}

// TestSourcesFollowEachOther: where one has no more to say, the next goes on.
func TestSourcesFollowEachOther(t *testing.T) {
	all := [Sources]Drafter{Forced: fixed{1, 2}, Predicted: fixed{3}, Repeated: fixed{4, 5, 6}}
	q := NewSequence(Settings{Tokens: 5}, all)
	if g := q.Guess(llm.History{}, 9); !slices.Equal(g, []llm.Token{1, 2, 3, 4, 5}) {
		t.Errorf("guesses %v", g)
	}
	accepted, rejected := q.Count(4, 3)
	if accepted != [Sources]int{Forced: 2, Predicted: 1} || rejected != [Sources]int{Repeated: 1} {
		t.Errorf("accepted %v, rejected %v", accepted, rejected)
	}
	q = NewSequence(Settings{Tokens: 5, Off: [Sources]bool{Forced: true, Repeated: true}}, all)
	if g := q.Guess(llm.History{}, 9); !slices.Equal(g, []llm.Token{3}) {
		t.Errorf("guesses %v", g)
	}
}

// TestBudget: what steps took decides what is granted.
func TestBudget(t *testing.T) {
	one := func(chance float64) func(int) float64 {
		return func(i int) float64 {
			sum, p := 0.0, 1.0
			for range i {
				p *= chance
				sum += p
			}
			return sum
		}
	}
	for _, c := range []struct {
		name  string
		took  map[int]float64 // milliseconds by tokens
		rows  int
		worth []float64 // chances of the sequences' tokens
		want  []int
	}{
		{"nothing is known", nil, 1, []float64{1}, []int{0}},
		{"one row, tokens are cheap", map[int]float64{1: 100, 9: 120}, 1, []float64{0.95}, []int{8}},
		{"one row, tokens cost as much as rows", map[int]float64{1: 100, 9: 900}, 1, []float64{0.95}, []int{0}},
		{"never seen: tried", map[int]float64{1: 100}, 1, []float64{0.95}, []int{8}},
		{"small chances", map[int]float64{1: 100, 9: 200}, 1, []float64{0.1}, []int{0}},
		{"a step at four", map[int]float64{1: 100, 4: 130, 5: 400, 9: 600}, 1, []float64{0.9}, []int{3}},
		{"sixteen rows, saturated", map[int]float64{16: 400, 24: 600}, 16, []float64{0.95, 0.95}, []int{0, 0}},
		{"sixteen rows, nothing was measured", map[int]float64{16: 400}, 16, []float64{0.5, 0.5}, []int{0, 0}},
		{"sixteen rows, by chance fast", map[int]float64{16: 400, 17: 390}, 16, []float64{0.1}, []int{0}},
		{"four rows, cheap", map[int]float64{4: 100, 12: 120, 20: 150}, 4, []float64{0.9, 0}, []int{8, 0}},
	} {
		var costs Costs
		for n, ms := range c.took {
			costs.Observe(n, time.Duration(ms*float64(time.Millisecond)))
		}
		b := costs.Budget(c.rows)
		for i, chance := range c.worth {
			if sure := b; b.Grants(8) != (sure.Grant(8, one(1)) > 0) {
				t.Errorf("%s: Grants says %v for sequence %d", c.name, b.Grants(8), i)
			}
			if got := b.Grant(8, one(chance)); got != c.want[i] {
				t.Errorf("%s: sequence %d gets %d, want %d", c.name, i, got, c.want[i])
			}
		}
	}
}

// TestCostsForgetOutliers: a step that was held up once does not decide.
func TestCostsForgetOutliers(t *testing.T) {
	var c Costs
	for range 20 {
		c.Observe(2, 10*time.Millisecond)
	}
	c.Observe(2, time.Minute)
	if s, ok := c.estimate(2); !ok || s > 0.013 {
		t.Errorf("a step takes %v s", s)
	}
	c.Observe(0, time.Second)
	c.Observe(100_000, time.Second)
	if s, _ := c.estimate(50_000); s != 1 {
		t.Errorf("a huge step takes %v s", s)
	}
}

// TestCostsAreTriedAgain: a size of step that was slow by chance, when nobody knew it, is not given up for good.
func TestCostsAreTriedAgain(t *testing.T) {
	var c Costs
	for range 10 {
		c.Observe(1, 10*time.Millisecond)
	}
	c.Observe(8, 90*time.Millisecond)
	granted := 0
	for range 1000 {
		b := c.Budget(1)
		n := b.Grant(7, func(i int) float64 { return float64(i) * 0.8 })
		c.Observe(1+n, 10*time.Millisecond+time.Duration(n)*time.Millisecond)
		granted += n
	}
	if granted < 4000 {
		t.Errorf("%d guesses were granted in 1000 steps", granted)
	}
}
