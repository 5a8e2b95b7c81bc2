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
