package sandbox

import (
	"errors"
	"sync/atomic"
	"testing"
	"time"
)

// TestBucket checks that a budget allows its burst, then its share, and that its debt is bounded by the burst.
func TestBucket(t *testing.T) {
	const ms = time.Millisecond
	b := bucket{cores: 0.25, saves: burst, quantum: quantum}
	now := time.Hour
	if b.take(now, burst) {
		t.Error("the burst is too much")
	}
	if !b.take(now, ms) || b.until(now) != 4*(ms+quantum) {
		t.Errorf("a millisecond above it: %v until there is a quantum", b.until(now))
	}
	if now += 4 * (ms + quantum); b.until(now) != 0 || b.take(now, quantum) {
		t.Error("nothing was saved")
	}
	b.take(now, time.Hour)
	if b.until(now) != 4*(burst+quantum) {
		t.Errorf("an hour too much: %v until there is a quantum", b.until(now))
	}
	if now += time.Hour; b.take(now, burst) || !b.take(now, 1) {
		t.Error("an hour of rest saves more or less than the burst")
	}
	// In the long run the share is kept.
	ran := time.Duration(0)
	for began := now; now < began+10*time.Second; now += ms {
		if b.until(now) <= 0 {
			b.take(now, ms)
			ran += ms
		}
	}
	if ran < 2400*ms || ran > 2600*ms {
		t.Errorf("%v of 10 s with a share of a quarter", ran)
	}
}

// TestSteadyShare: a guest that runs while steps do has the same share in the long run, in parts of a quantum: after a
// long rest as little as ever, and after a long call of the host, which it pays for, nothing for as long as others.
func TestSteadyShare(t *testing.T) {
	const slice = 50 * time.Microsecond // between ticks
	a := NewGovernor(func() bool { return true }).Account(AccountConfig{Cores: 0.25, Steady: true})
	var ran, part, longest time.Duration
	now, paused := time.Hour, false
	for end := now + 10*time.Second; now < end; now += slice {
		if paused = paused && a.own.until(now) > 0; paused {
			part = 0
			continue
		}
		paused = a.charge(now, slice)
		ran, part = ran+slice, part+slice
		longest = max(longest, part)
	}
	if ran < 2400*time.Millisecond || ran > 2600*time.Millisecond {
		t.Errorf("%v of 10 s with a share of a quarter", ran)
	}
	// It fills while it runs, too.
	if most := steadyBurst * 4 / 3; longest > most+2*slice {
		t.Errorf("it ran for %v at once, more than %v", longest, most)
	}
	if now += time.Hour; a.own.take(now, steadyBurst) || !a.own.take(now, 1) {
		t.Error("an hour of rest saves more or less than its burst")
	}
	a.own.take(now, time.Hour)
	if wait := a.own.until(now); wait != 4*(burst+steadyQuantum) {
		t.Errorf("an hour too much: %v until there is a quantum", wait)
	}
}

// greedy is a budget with the maximum debt.
func greedy(g *Governor, cores float64) *Account {
	a := g.Account(AccountConfig{Cores: cores, Trusted: true})
	a.own.take(clock(), time.Hour)
	return a
}

// TestPauses checks that a long call of a guest over budget pauses only while others need the processors, and a short
// one never.
func TestPauses(t *testing.T) {
	var busy atomic.Bool
	told := 0
	g := NewGovernor(busy.Load)
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	in, err := m.fresh(Lease{}, g.Account(AccountConfig{Cores: 0.1, Trusted: true, OnPause: func() { told++ }}))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	spin := func(rounds uint64) Use {
		t.Helper()
		in.account.own.take(clock(), time.Hour)
		began := time.Now()
		use, err := in.Run(in.Func("spin"), []uint64{rounds}, Budget{Fuel: plenty, Time: time.Hour})
		if all := time.Since(began); err != nil || use.Ran+use.Paused > all {
			t.Fatalf("%+v of %v, %v", use, all, err)
		}
		return use
	}
	const long, short = 10_000_000, 30_000
	if use := spin(long); use.Paused != 0 || told != 0 {
		t.Errorf("nobody needs the processors: %+v, %d callbacks", use, told)
	}
	busy.Store(true)
	if use := spin(long); use.Paused < burst || told == 0 {
		t.Errorf("somebody needs the processors: %+v, %d callbacks", use, told)
	}
	told = 0
	for range 100 {
		if use := spin(short); use.Paused != 0 && use.Ran < shortCall {
			t.Errorf("a short call: %+v", use)
		}
	}
	if (*Governor)(nil).Account(AccountConfig{Cores: 1}) != nil {
		t.Error("a budget exists without a governor")
	}
}

// TestPauseEnds checks that a pause ends with its cause, with its request, and when the budget allows.
func TestPauseEnds(t *testing.T) {
	var busy atomic.Bool
	g := NewGovernor(busy.Load)
	paused := func(a *Account, cancel chan struct{}) chan bool {
		done := make(chan bool, 1)
		go func() { done <- a.pause(cancel) }()
		return done
	}
	busy.Store(true)
	a := greedy(g, 1e-6) // half a day
	cancel := make(chan struct{})
	first := paused(a, cancel)
	for len(a.waiter) == 0 {
		time.Sleep(time.Millisecond)
	}
	second := paused(a, nil)
	select {
	case <-first:
		t.Error("the pause did not last")
	case <-second:
		t.Error("the second pause did not last")
	case <-time.After(20 * time.Millisecond):
	}
	close(cancel)
	if <-first {
		t.Error("the pause lasts after cancellation")
	}
	if late := paused(a, cancel); <-late {
		t.Error("the pause lasts although it was cancelled before")
	}
	busy.Store(false)
	if !<-second {
		t.Error("the pause ended without cancellation")
	}

	// A guest that is paused ends with its request.
	busy.Store(true)
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	stop := make(chan struct{})
	in, err := m.fresh(Lease{Cancel: stop}, greedy(g, 1e-6))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	ended := make(chan error)
	go func() {
		_, err := in.Call(in.Func("spin"), []uint64{1<<32 - 1}, plenty)
		ended <- err
	}()
	for len(in.account.waiter) == 0 {
		time.Sleep(time.Millisecond)
	}
	close(stop)
	if err := <-ended; !errors.Is(err, ErrCancelled) {
		t.Errorf("%v, cancelled wanted", err)
	}
}

// TestPausesInOrder checks that the calls of a guest resume in the order in which they were paused.
func TestPausesInOrder(t *testing.T) {
	free := make(chan bool) // each lets one call go
	a := greedy(NewGovernor(func() bool {
		select {
		case <-free:
			return false
		default:
			return true
		}
	}), 1e-6)
	order := make(chan int)
	const calls = 8
	for i := range calls {
		entered := make(chan struct{})
		go func() {
			close(entered)
			a.pause(nil)
			order <- i
		}()
		<-entered
		time.Sleep(20 * time.Millisecond) // until it stands in line
	}
	for i := range calls {
		free <- true
		if got := <-order; got != i {
			t.Errorf("call %d resumed after %d others", got, i)
		}
	}
}

// TestTogether checks that untrusted guests together get half of the cores, whatever the share of each.
func TestTogether(t *testing.T) {
	g := NewGovernor(func() bool { return true })
	g.all.cores = 1
	now := time.Hour
	one, two := g.Account(AccountConfig{Cores: 100}), g.Account(AccountConfig{Cores: 100})
	trusted := g.Account(AccountConfig{Cores: 100, Trusted: true})
	if one.charge(now, burst/2) || two.charge(now, burst/2) {
		t.Error("both together have not used up the burst")
	}
	if !one.charge(now, 1) || !two.charge(now, 1) {
		t.Error("one guest's use does not count for the other")
	}
	if trusted.charge(now, burst) {
		t.Error("a trusted guest is limited by what others used")
	}
}

// fakeTurn counts its calls.
type fakeTurn struct {
	has                   bool
	takes, yields, misses int
	gone                  bool
}

func (f *fakeTurn) Take() bool {
	if !f.has {
		f.takes++
	}
	f.has = !f.gone
	return f.has
}

func (f *fakeTurn) Yield() (waited, on bool) {
	f.yields++
	if !f.has {
		f.misses++
	}
	return false, true
}

func (f *fakeTurn) Release() { f.has = false }

// TestTurnOfPause: a call runs by its turn, which a yield that does not wait is no pause of, and gives it up while the
// governor pauses it.
func TestTurnOfPause(t *testing.T) {
	var busy atomic.Bool
	var turn fakeTurn
	g := NewGovernor(busy.Load)
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	held := false
	in, err := m.fresh(Lease{}, g.Account(AccountConfig{Cores: 0.1, Trusted: true,
		OnPause: func() { held = held || turn.has }}))
	if err != nil {
		t.Fatal(err)
	}
	defer in.Close()
	in.lease.Turn = &turn
	spin := func() (Use, error) {
		in.account.own.take(clock(), time.Hour)
		return in.Run(in.Func("spin"), []uint64{10_000_000}, Budget{Fuel: plenty, Time: time.Hour})
	}
	use, err := spin()
	if err != nil || use.Paused != 0 || turn.takes != 1 || turn.yields == 0 || turn.misses != 0 {
		t.Errorf("alone: %+v, %+v, %v", use, turn, err)
	}
	busy.Store(true)
	use, err = spin()
	if err != nil || use.Paused == 0 || turn.takes < 2 || turn.misses != 0 || held || !turn.has {
		t.Errorf("paused: %+v, %+v, held %v, %v", use, turn, held, err)
	}
	in.EndTurn()
	if turn.has || in.lease.Turn != nil {
		t.Errorf("at its end: %+v", turn)
	}
	turn.gone, in.lease.Turn = true, &turn
	if _, err := spin(); !errors.Is(err, ErrCancelled) {
		t.Errorf("cancelled before it ran: %v", err)
	}
}

// TestAwait: whoever asks before a call waits while the guest is over its budget and others need the processors, and
// what guests of a governor apart use is not taken from others.
func TestAwait(t *testing.T) {
	var busy atomic.Bool
	g := NewGovernor(busy.Load)
	a := greedy(g, 0.001)
	if !a.Await(nil) {
		t.Error("it waits while nobody needs the processors")
	}
	busy.Store(true)
	cancel := make(chan struct{})
	close(cancel)
	if greedy(g, 0.001).Await(cancel) {
		t.Error("a cancelled wait ended well")
	}
	waited := make(chan bool)
	go func() { waited <- greedy(g, 0.001).Await(nil) }()
	select {
	case <-waited:
		t.Error("it does not wait")
	case <-time.After(20 * time.Millisecond):
	}
	busy.Store(false)
	if !<-waited || !(*Account)(nil).Await(nil) {
		t.Error("it waits on")
	}
	busy.Store(true)
	apart := g.Apart().Account(AccountConfig{Cores: 1})
	for range 100 {
		apart.charge(clock(), time.Second)
	}
	if g.Account(AccountConfig{Cores: 1}).charge(clock(), time.Millisecond) || (*Governor)(nil).Apart() != nil {
		t.Error("guests of a governor apart use what others have")
	}
}
