package host

import (
	"context"
	"math/rand/v2"
	"slices"
	"sync"
	"testing"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/generate"
	"tgi/server/host/bridge"
)

// guesser guesses tokens for the sequences of requests, beside the plugins that these have, as the runs of programs
// too: what they generated before, or something else. Requests are asked one after the other.
type guesser struct {
	mu    sync.Mutex
	play  *guessWay     // nil: nothing is guessed
	most  int           // tokens of a guess
	learn bool          // what is generated is kept, and nothing guessed
	texts [][]llm.Token // what was generated, by sequences in the order in which they began
	begun int
	r     *rand.Rand
	vocab int
	end   llm.Token
}

// guessWay is a way to guess: future is what is known to come.
type guessWay struct {
	name  string
	guess func(g *guesser, future, room []llm.Token) int
}

// guessWays are those that are right, that are wrong, and that are a nuisance.
var guessWays = []guessWay{
	{"right", func(_ *guesser, future, room []llm.Token) int { return copy(room, future) }},
	{"random", func(g *guesser, _, room []llm.Token) int {
		for i := range room {
			room[i] = llm.Token(g.r.IntN(g.vocab))
		}
		return len(room)
	}},
	{"mostly right", func(g *guesser, future, room []llm.Token) int {
		n := copy(room, future)
		for i := range n {
			if g.r.IntN(4) == 0 {
				room[i] = llm.Token(g.r.IntN(g.vocab))
			}
		}
		return n
	}},
	{"right but the last", func(g *guesser, future, room []llm.Token) int {
		n := copy(room, future)
		if n > 0 {
			room[n-1] = (room[n-1] + 1) % llm.Token(g.vocab)
		}
		return n
	}},
	{"beyond the end", func(g *guesser, future, room []llm.Token) int {
		for i := copy(room, future); i < len(room); i++ {
			room[i] = g.end
		}
		return len(room)
	}},
	{"no tokens", func(g *guesser, future, room []llm.Token) int {
		n := copy(room, future)
		for i := range room {
			if i >= n || g.r.IntN(3) == 0 {
				room[i] = llm.Token(g.vocab + g.r.IntN(1<<20))
			}
		}
		return len(room)
	}},
}

// guessFor has a server's sequences guess as the result says, which guesses nothing yet. Nobody has asked it before.
func guessFor(t testing.TB, p *plugged) *guesser {
	t.Helper()
	m := p.defaultModel()
	g := &guesser{r: rand.New(rand.NewPCG(5, 7)), vocab: m.built.Vocab, end: m.eos[0]}
	draftBy(t, p, g.begin)
	return g
}

// draftBy has begin say who guesses for each sequence that begins, nil for nobody. Nobody has asked the server before.
func draftBy(t testing.TB, p *plugged, begin func() draft.Drafter) {
	t.Helper()
	m := p.defaultModel()
	code, ok := bridge.UserCode(m.control.set, m.control, m.encode, false).(generate.ProgramCode)
	if !ok {
		t.Fatal("user code without programs")
	}
	m.model.Service.WithUserCode(guessedCode{code, begin})
}

// next says what is guessed for the sequences that begin from now on.
func (g *guesser) next(learn bool, play *guessWay, most int) {
	g.mu.Lock()
	defer g.mu.Unlock()
	if g.learn, g.play, g.most, g.begun = learn, play, most, 0; learn {
		g.texts = nil
	}
}

// begin returns what guesses for a sequence; nil for nothing.
func (g *guesser) begin() draft.Drafter {
	g.mu.Lock()
	defer g.mu.Unlock()
	if !g.learn && g.play == nil {
		return nil
	}
	if g.begun++; g.learn {
		g.texts = append(g.texts, nil)
	}
	return guessed{g, g.begun - 1}
}

// guessed guesses for one sequence.
type guessed struct {
	g  *guesser
	at int // in texts
}

// Draft implements draft.Drafter.
func (d guessed) Draft(h llm.History, ahead, room []llm.Token) int {
	g := d.g
	g.mu.Lock()
	defer g.mu.Unlock()
	var future []llm.Token
	switch {
	case g.learn && d.at < len(g.texts):
		g.texts[d.at] = slices.Clone(h.Output) // the last time, all but the last token
	case g.learn || g.play == nil || len(ahead) > 0:
		return 0
	case d.at < len(g.texts):
		future = g.texts[d.at][min(len(h.Output), len(g.texts[d.at])):]
	}
	if g.learn {
		return 0
	}
	return g.play.guess(g, future, room[:min(g.most, len(room))])
}

// guessedCode is a model's user code whose sequences have the guesses.
type guessedCode struct {
	generate.ProgramCode
	begin func() draft.Drafter
}

// Bind implements generate.UserCode.
func (c guessedCode) Bind(ctx context.Context, calls []generate.PluginCall, of *generate.Conversation, now time.Time) (
	generate.BoundCode, generate.Rendered, error) {
	code, rendered, err := c.ProgramCode.Bind(ctx, calls, of, now)
	if err != nil {
		return nil, rendered, err
	}
	return guessedBound{code, code.(generate.BoundProgram), c.begin}, rendered, nil
}

// guessedBound is that of one request, or of a run of a program.
type guessedBound struct {
	generate.BoundCode
	generate.BoundProgram
	begin func() draft.Drafter
}

// BindRun implements generate.BoundProgram.
func (b guessedBound) BindRun(calls []generate.PluginCall) generate.BoundCode {
	return guessedBound{b.BoundProgram.BindRun(calls), b.BoundProgram, b.begin}
}

// Begin implements generate.BoundCode.
func (b guessedBound) Begin(ctx context.Context, w *generate.Wanted) (generate.Begun, error) {
	begun, err := b.BoundCode.Begin(ctx, w)
	if err != nil || w.Outer {
		return begun, err
	}
	of := begun.Sequence
	begun.Sequence = func(i int) (p sample.Plugins) {
		if of != nil {
			p = of(i)
		}
		if d := b.begin(); d != nil {
			p.Drafter = d
		}
		return p
	}
	return begun, nil
}
