package plugins

import (
	"context"
	"time"

	"tgi/plugins/internal/sandbox"
)

// hostCores is the part of the processors of [Turns] that the host's work on grammars has while others wait for
// tokens. The rest is in pauses, one for each quarter of a millisecond or so: a goroutine that computes keeps its
// processor for 10 ms, though what a step started waits for one.
const hostCores = 0.75

// hostAccount is what the host's work on the grammars of a set is charged to.
func hostAccount(g *Governor) *sandbox.Account {
	return g.Account(sandbox.AccountConfig{Cores: hostCores * float64(turnProcessors()), Trusted: true, Steady: true})
}

// pacer has work of the host, which has a turn, leave the processors to those who wait for tokens.
type pacer struct {
	account *sandbox.Account
	turn    *turn
	since   time.Time // when it went on
}

func pace(a *sandbox.Account, t *turn) *pacer { return &pacer{a, t, time.Now()} }

// yield is called often by the work, and waits if others have priority. When ctx ends it may have no turn any more.
func (p *pacer) yield(ctx context.Context) {
	if p.charge() {
		p.turn.release()
		if p.account.Await(ctx.Done()) {
			p.turn.take(ctx)
		}
	} else {
		p.turn.yield(ctx)
	}
	p.since = time.Now()
}

// charge takes the time that the work ran off the account, and reports whether it is to wait. It is called once more
// when the work is done.
func (p *pacer) charge() (wait bool) { return p.account.Spend(time.Since(p.since)) }
