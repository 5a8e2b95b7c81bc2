package plugins

import (
	"sync/atomic"

	"tgi/plugins/guard"
	"tgi/runtime/llm"
	"tgi/sdk/abi"
)

// GuardEnd says what becomes of a sequence whose guard may hold or take back no more.
type GuardEnd string

// Values of GuardEnd; "" means GuardStop.
const (
	GuardStop    GuardEnd = "stop"    // it ends with what went out
	GuardRelease GuardEnd = "release" // it goes on, and what is held goes out
)

// Guard is a plugin of kind "guard" in one sequence, as the engine's sample.Guard. It is used by one goroutine at a
// time. Its errors are those of Processor. A fault is none where the plugin's OnError is skip, which releases all that
// comes, or stop, which ends the sequence with what went out.
type Guard struct {
	r     *run
	inner *guard.Checker
	rules llm.GuardRules
}

func newGuard(r *run) *Guard {
	d, s := r.session.Guest().Description().Guard, r.part.version.settings
	end := map[GuardEnd]llm.GuardEnd{GuardStop: llm.GuardStops, GuardRelease: llm.GuardReleases}
	return &Guard{r: r, inner: guard.NewChecker(r.session), rules: llm.GuardRules{Name: r.part.name,
		Hold: d.Hold, Every: d.Every,
		Rewinds: d.Gives(abi.VerdictRewind) || d.Gives(abi.VerdictInsert), Stops: d.Gives(abi.VerdictStop),
		OnFull: end[s.onFull], OnExhausted: end[s.onExhausted]}}
}

// Rules implements sample.Guard.
func (g *Guard) Rules() llm.GuardRules { return g.rules }

// Check implements sample.Guard.
func (g *Guard) Check(v *llm.GuardView) (llm.Verdict, error) {
	all := llm.Verdict{Position: len(v.Output), Done: true}
	if g.r.stopped {
		return all, g.r.err
	}
	g.r.step = len(v.Output)
	g.r.part.version.totals.guards.held.Add(uint64(len(v.Output) - v.Released))
	out, err := g.inner.Check(v)
	if err == nil {
		g.r.succeeded = true
		g.r.follower.checked(v, out)
		return out, nil
	}
	err = g.r.handleError(err)
	if err != nil && g.r.faulty && g.r.part.version.settings.onError == OnErrorStop {
		return llm.Verdict{Kind: llm.VerdictStop, Position: v.Released, Why: "the guard failed"}, nil
	}
	return all, err
}

// Applied implements sample.Guard.
func (g *Guard) Applied(kind llm.VerdictKind, tokens int) {
	t := &g.r.part.version.totals.guards
	t.verdicts[kind].Add(1)
	if kind == llm.VerdictRewind || kind == llm.VerdictInsert {
		t.rewound.Add(uint64(tokens))
	}
}

// guardTotals count what guards of one name did.
type guardTotals struct {
	verdicts      [llm.Verdicts]atomic.Uint64
	held, rewound atomic.Uint64
}

// GuardStats counts what a plugin of kind "guard" did.
type GuardStats struct {
	Verdicts map[string]uint64 // that were applied, by name
	Held     uint64            // tokens that it was shown, each as often as it was shown
	Rewound  uint64            // tokens that it took back
}

// Plus adds up the counts of two sets.
func (s GuardStats) Plus(other GuardStats) GuardStats {
	return GuardStats{AddCounts(s.Verdicts, other.Verdicts), s.Held + other.Held, s.Rewound + other.Rewound}
}

func (t *guardTotals) stats() GuardStats {
	s := GuardStats{Verdicts: map[string]uint64{}, Held: t.held.Load(), Rewound: t.rewound.Load()}
	for kind := range llm.Verdicts {
		s.Verdicts[kind.String()] = t.verdicts[kind].Load()
	}
	return s
}
