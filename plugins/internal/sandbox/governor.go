package sandbox

import (
	"runtime"
	"sync/atomic"
	"time"
)

// Shares of the processors, in cores.
const (
	// DefaultShare is what a plugin may use in the long run while others wait for tokens.
	DefaultShare = 0.25
	// TrustedShare is that of a plugin that is part of the program: grammars are compiled and templates rendered in
	// some.
	TrustedShare = 1.0
)

const (
	// burst is what an account saves: a plugin that was quiet may run so long before it counts as greedy. It is also
	// what an account may owe.
	burst = 20 * time.Millisecond
	// quantum is what it must have saved again after a pause: fewer and longer pauses, and few enough threads woken.
	quantum = time.Millisecond
	// steadyBurst and steadyQuantum are those of a guest that runs while steps do, such as a program. A step of a small
	// model takes a millisecond on all cores and waits for the last of them, so it should find each part of the guest's
	// share shorter than that: ten steps that take a quarter longer, not one that takes three times as long.
	steadyBurst   = time.Millisecond
	steadyQuantum = 250 * time.Microsecond
	// shortCall is what a call may run before it is paused, whatever others of its plugin used: twice what the default
	// fuel of a step takes, so that a plugin that keeps to it is never paused. Of a steady guest it is steadyQuantum:
	// what many short requests run would be as long as steps.
	shortCall = time.Millisecond
	// pollInterval is how often a paused call looks whether anybody still wants the processors.
	pollInterval = 2 * time.Millisecond
)

// Governor keeps guests from taking the processors from others. Each guest has an account, which is charged with the
// time that its calls run; a call whose account is overdrawn pauses in its tick while the processors are wanted. The
// guests that are not trusted have an account together too, of half of the cores.
//
// It is safe for concurrent use and holds nothing that needs closing. A nil Governor lets everybody run.
type Governor struct {
	busy func() bool
	all  bucket // of those that are not trusted
}

// NewGovernor makes one. busy says whether anybody else wants the processors now: it is called at ticks of greedy
// guests, from any goroutine, and must not block.
func NewGovernor(busy func() bool) *Governor {
	g := &Governor{busy: busy}
	g.all = bucket{cores: float64(runtime.GOMAXPROCS(0)) / 2, saves: burst, quantum: quantum}
	return g
}

// Apart makes a governor for guests that must take nothing from those of g.
func (g *Governor) Apart() *Governor {
	if g == nil {
		return nil
	}
	return NewGovernor(g.busy)
}

// AccountConfig is what a guest may use of the processors.
type AccountConfig struct {
	Cores   float64 // in the long run, while others want them
	Trusted bool    // it is not counted among those that are not
	Steady  bool    // it has its share evenly, and saves little: its calls run while steps do
	OnPause func()  // if not nil, called when a call is paused; it must not block
}

// Account makes one for a guest.
func (g *Governor) Account(c AccountConfig) *Account {
	if g == nil {
		return nil
	}
	a := &Account{g: g, short: shortCall, waiter: make(chan struct{}, 1), onPause: c.OnPause}
	a.own = bucket{cores: c.Cores, saves: burst, quantum: quantum}
	if c.Steady {
		a.own.saves, a.own.quantum, a.short = steadyBurst, steadyQuantum, steadyQuantum
	}
	if !c.Trusted {
		a.all = &g.all
	}
	return a
}

// Account is what one guest may use of the processors. A nil Account is not limited.
type Account struct {
	g       *Governor
	own     bucket
	all     *bucket       // of all guests that are not trusted; nil for one that is
	short   time.Duration // what a call may run, or have the host work, before it is paused
	waiter  chan struct{} // full while a call waits for the buckets; others wait for it, first come first served
	onPause func()
}

// charge takes the time that a call ran off the account, and reports whether to throttle: the account is overdrawn and
// others want the processors.
func (a *Account) charge(now, ran time.Duration) (throttle bool) {
	if a == nil {
		return false
	}
	over := a.own.take(now, ran)
	if a.all != nil && a.all.take(now, ran) {
		over = true
	}
	return over && a.g.busy()
}

// Spend takes time that the host worked for the account off it, and reports whether Await waits.
func (a *Account) Spend(worked time.Duration) (wait bool) { return a.charge(clock(), worked) }

// Await waits while the account is overdrawn and others want the processors, and reports whether that ended before
// cancel was closed.
func (a *Account) Await(cancel <-chan struct{}) bool {
	return !a.charge(clock(), 0) || a.pause(cancel)
}

// pause waits until the account has time again or nobody wants the processors any more, and reports whether that came
// before cancel was closed.
func (a *Account) pause(cancel <-chan struct{}) bool {
	if a.onPause != nil {
		a.onPause()
	}
	select {
	case a.waiter <- struct{}{}:
	case <-cancel:
		return false
	}
	defer func() { <-a.waiter }()
	timer := time.NewTimer(0)
	defer timer.Stop()
	for {
		select {
		case <-timer.C:
		case <-cancel:
			return false
		}
		now := clock()
		wait := a.own.until(now)
		if a.all != nil {
			wait = max(wait, a.all.until(now))
		}
		if wait <= 0 || !a.g.busy() {
			return true
		}
		timer.Reset(min(wait, pollInterval))
	}
}

// bucket holds time that may be used: it fills at the rate of cores, up to what it saves, and may be overdrawn by
// burst.
type bucket struct {
	cores          float64
	saves, quantum time.Duration
	// empty is the time of clock at which there was, or will be, nothing in it, if nobody takes anything until then.
	empty atomic.Int64
}

// take takes time out and reports whether the bucket is overdrawn.
func (b *bucket) take(now, ran time.Duration) (over bool) {
	for {
		was := b.empty.Load()
		empty := max(time.Duration(was), now-b.fill(b.saves)) + b.fill(ran)
		empty = min(empty, now+b.fill(burst))
		if b.empty.CompareAndSwap(was, int64(empty)) {
			return empty > now
		}
	}
}

// until is how long it takes until a quantum is in the bucket.
func (b *bucket) until(now time.Duration) time.Duration {
	return time.Duration(b.empty.Load()) + b.fill(b.quantum) - now
}

// fill is how long it takes to fill the bucket with t.
func (b *bucket) fill(t time.Duration) time.Duration { return time.Duration(float64(t) / b.cores) }
