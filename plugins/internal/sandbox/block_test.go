package sandbox

import (
	"strings"
	"testing"
	"time"
)

// TestBlockPays: a guest pays for the time that the host works for it in a call that may wait, as far as that was
// priced, and not for the time that the call slept.
func TestBlockPays(t *testing.T) {
	const price = 200 * time.Microsecond
	var slept time.Duration
	host := hostOf(&strings.Builder{}, "ab")
	host[0].Func = func(in *Instance, _ []uint64) {
		in.Charge(1_000_000) // five for a nanosecond, as those who set prices do
		in.Block(func() time.Duration {
			for began := clock(); clock()-began < 2*price; {
			}
			return slept
		})
	}
	m := compile(t, engine(t, Config{}), calling(1), ModuleConfig{Host: host})
	for _, c := range []struct{ slept, want time.Duration }{{0, price}, {time.Hour, 0}} {
		slept = c.slept
		const cores = 1e-3 // so that nothing comes back meanwhile that counts
		a := NewGovernor(func() bool { return false }).Account(AccountConfig{Cores: cores, Trusted: true})
		in, err := m.fresh(Lease{}, a)
		if err != nil {
			t.Fatal(err)
		}
		before := clock()
		a.own.empty.Store(int64(before))
		use, err := in.Run(in.Func("one"), nil, Budget{Fuel: plenty, Time: time.Hour})
		if err != nil {
			t.Fatal(err)
		}
		in.Close()
		paid := time.Duration(float64(time.Duration(a.own.empty.Load())-before) * cores)
		if work := paid - use.Ran; (work - c.want).Abs() > time.Microsecond {
			t.Errorf("it slept %v: it pays %v of work for %v", slept, work, c.want)
		}
	}
}

// TestBlockPauses: a guest over its budget that has the host work is paused as one that computes, without its turn, and
// one that runs while steps do sooner than others.
func TestBlockPauses(t *testing.T) {
	var work time.Duration
	host := hostOf(&strings.Builder{}, "ab")
	host[0].Func = func(in *Instance, _ []uint64) {
		in.Charge(int64(work) * hostRate)
		in.Block(func() time.Duration {
			for began := clock(); clock()-began < work; {
			}
			return 0
		})
	}
	m := compile(t, engine(t, Config{}), calling(1), ModuleConfig{Host: host})
	for _, c := range []struct {
		steady bool
		work   time.Duration
		pauses bool
	}{
		{true, steadyQuantum / 4, false},
		{true, steadyQuantum, true},
		{false, steadyQuantum, false},
		{false, shortCall, true},
	} {
		work = c.work
		turn, told := fakeTurn{}, 0
		a := NewGovernor(func() bool { return true }).Account(AccountConfig{Cores: 1, Trusted: true, Steady: c.steady,
			OnPause: func() {
				if told++; turn.has {
					t.Errorf("%+v: it has its turn while it is paused", c)
				}
			}})
		in, err := m.fresh(Lease{Turn: &turn}, a)
		if err != nil {
			t.Fatal(err)
		}
		a.own.take(clock(), time.Hour)
		use, err := in.Run(in.Func("one"), nil, Budget{Fuel: plenty, Time: time.Hour})
		slow := use.Ran >= a.short-c.work // the machine stopped it: what is short is paused, too
		if paused := told > 0; err != nil || paused != c.pauses && !(paused && slow) || !turn.has {
			t.Errorf("%+v: %d pauses, %+v, %v", c, told, use, err)
		}
		in.Close()
	}
}
