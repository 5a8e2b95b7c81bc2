package sandbox

import (
	"errors"
	"math/rand/v2"
	"runtime"
	"strings"
	"testing"
	"time"
)

// TestFuelBySlices checks that a call's fuel, result and failure do not depend on the fuel slices.
func TestFuelBySlices(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 8))
	calls := []struct {
		export string
		args   []uint64
	}{
		{"spin", []uint64{20_000}}, {"walk", []uint64{7}}, {"tree", []uint64{11}}, {"storm", []uint64{3, 900_000}},
		{"bomb", []uint64{0}},
		{"sum", []uint64{0, 50_000}}, {"init", nil},
	}
	wasm := guestFile(t, "walk.wasm")
	var modules []*Module
	for _, most := range []int64{DefaultSlice, 1, 37, 999, 20_011} {
		modules = append(modules, compile(t, engine(t, Config{Slice: most}), wasm, ModuleConfig{}))
	}
	run := func(m *Module, export string, args []uint64, fuel, size int64) (Use, uint64, error) {
		in, err := m.New(Lease{})
		if err != nil {
			t.Fatal(err)
		}
		defer in.Close()
		in.meter.pacer.size = min(size, in.meter.pacer.max)
		stack := append(append([]uint64(nil), args...), 0)
		use, err := in.Run(in.Func(export), stack, Budget{Fuel: fuel})
		return use, stack[0], err
	}
	slices := 0
	for range 60 {
		c := calls[rng.IntN(len(calls))]
		fuel := int64(1) << rng.IntN(24)
		fuel += rng.Int64N(fuel)
		want, result, wantErr := run(modules[0], c.export, c.args, fuel, DefaultSlice)
		for _, m := range modules[1:] {
			got, r, err := run(m, c.export, c.args, fuel, 1+rng.Int64N(DefaultSlice))
			if got.Fuel != want.Fuel || r != result || (err == nil) != (wantErr == nil) || err != nil &&
				err.Error() != wantErr.Error() {
				t.Errorf("%s %d, budget %d, slices of at most %d: %d fuel, %d, %v; with large ones %d fuel, %d, %v",
					c.export, c.args, fuel, m.engine.slice, got.Fuel, r, err, want.Fuel, result, wantErr)
			}
			slices += got.Slices
		}
	}
	if slices < 10_000 {
		t.Errorf("%d slices of all", slices)
	}
}

// TestPace checks that slices shrink at once when they take long, ignore a single outlier, and grow back soon.
func TestPace(t *testing.T) {
	const most = DefaultSlice
	p, now := slicePacer{size: most, max: most}, time.Second
	slice := func(nanoseconds float64, sure bool) { // of a unit
		took := time.Duration(float64(p.size) * nanoseconds)
		now += took
		p.adjust(p.size, took, sure, now)
	}
	if slice(0.2, true); p.size != most {
		t.Errorf("%d after a slice of normal duration", p.size)
	}
	for range 5 {
		if slice(10, false); p.size != most {
			t.Errorf("%d after one slow slice", p.size)
		}
		slice(0.2, true)
	}
	slice(10, false)
	if slice(10, false); p.size != minSlice {
		t.Errorf("%d after two slow slices", p.size)
	}
	p.size = most
	if slice(2, true); p.size != most/10 {
		t.Errorf("%d where a unit takes 2 ns", p.size)
	}
	if slice(1000, true); p.size != minSlice {
		t.Errorf("%d where a unit takes a microsecond", p.size)
	}
	began := now
	for n := 0; p.size < most && n < 1e6; n++ {
		slice(0.2, n%2 == 0)
	}
	if back := now - began; p.size != most || back < 50*time.Millisecond || back > 100*time.Millisecond {
		t.Errorf("slices of %d %v after the code was fast again", p.size, back)
	}
	if p.adjust(1000*most, 1000*sliceTime, true, now); p.size != most {
		t.Errorf("%d after a slow host function that was charged", p.size)
	}
	tiny := slicePacer{size: 500, max: 500}
	if tiny.adjust(500, time.Hour, true, now); tiny.size != 500 {
		t.Errorf("%d, less than the engine's slice", tiny.size)
	}
}

// TestMeterStopped checks that a guest's time limit does not count time in which its thread does not run.
func TestMeterStopped(t *testing.T) {
	const asleep = 200 * time.Millisecond
	for _, known := range []bool{true, false} {
		m := meter{sliceFuel: 1000, sliceStartCPU: -1, pacer: slicePacer{size: DefaultSlice, max: DefaultSlice}}
		if known {
			runtime.LockOSThread()
			defer runtime.UnlockOSThread()
			m.sliceStartCPU = threadTime()
		}
		from := clock()
		m.sliceStart = from
		time.Sleep(asleep)
		took, changed := m.stop(400, clock())
		if known && took > 100*time.Microsecond {
			changed = false // Go's scheduler ran on the thread meanwhile, for longer than a slice should take
		}
		if took > longSlice+600 || took != m.ran || m.sliceStart-from < asleep || m.sliceFuel != 400 || changed {
			t.Errorf("thread's time known %v: %v count for %v of %v, %+v", known, m.sliceStart-from, took, m.ran, m)
		}
		if runtime.GOOS == "linux" && known && took > asleep/4 {
			t.Errorf("a thread that slept ran for %v", took)
		}
	}
}

// TestTimeLimit checks that a call over its time limit ends with a fault that says so, and that calls can share a
// limit.
func TestTimeLimit(t *testing.T) {
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{Name: "slow"})
	for _, b := range []Budget{
		{Fuel: plenty, Time: 20 * time.Millisecond, TimeLimit: "time_per_step"},
		{Fuel: plenty, Time: time.Hour, Spent: time.Hour, TimeLimit: "time_per_step"},
	} {
		in := instance(t, m)
		use, err := in.Run(in.Func("spin"), []uint64{1<<32 - 1}, b)
		var f *Fault
		if !errors.As(err, &f) || f.Kind != ErrTime ||
			!strings.HasPrefix(err.Error(), "slow: spin: out of time: it ran for ") ||
			!strings.Contains(err.Error(), ", time_per_step is "+b.Time.String()+" (fuel ") {
			t.Errorf("%v", err)
		}
		if use.Ran+b.Spent <= b.Time || use.Slices < 1 {
			t.Errorf("%+v", use)
		}
	}
	in := instance(t, m)
	if use, err := in.Run(in.Func("spin"), []uint64{1_000_000}, Budget{Fuel: plenty, Time: time.Hour}); err != nil ||
		use.Ran <= 0 || use.Paused != 0 {
		t.Errorf("%+v, %v", use, err)
	}
}

// TestShorterSlices checks that slices shrink for a guest whose code is slow for its fuel, also for its later
// instances.
func TestShorterSlices(t *testing.T) {
	m := compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{})
	in := instance(t, m)
	for range 2 {
		in.meter.sliceStart, in.meter.sliceStartCPU, in.meter.sliceFuel = clock()-5*time.Millisecond, -1,
			in.meter.pacer.size
		in.fuel.Set(0)
		in.meter.left = plenty
		in.tick()
	}
	if in.meter.pacer.size >= DefaultSlice/10 || m.slice.Load() != in.meter.pacer.size {
		t.Errorf("slices of %d, the module's are of %d", in.meter.pacer.size, m.slice.Load())
	}
	if next := instance(t, m); next.meter.pacer.size != in.meter.pacer.size {
		t.Errorf("another instance begins with slices of %d", next.meter.pacer.size)
	}
}

// TestLinesArePaid checks that printing costs a guest fuel per line, however short.
func TestLinesArePaid(t *testing.T) {
	in := instance(t, compile(t, engine(t, Config{}), guestFile(t, "walk.wasm"), ModuleConfig{}))
	in.meter.left = plenty
	in.fuel.Set(0)
	in.Print(0, make([]byte, 100)) // one line
	in.Print(0, []byte(strings.Repeat("\n", 1000)))
	if used := plenty - in.meter.left - int64(in.fuel.Get()); used != 1001*lineFuel {
		t.Errorf("1001 lines cost %d fuel, want %d", used, 1001*lineFuel)
	}
}
