package plugins

import (
	"bytes"
	"os"
	"runtime"
	"testing"
)

// held is what the process holds.
type held struct{ goroutines, maps int }

func holding(t *testing.T) held {
	t.Helper()
	runtime.GC()
	maps, err := os.ReadFile("/proc/self/maps")
	if err != nil {
		t.Skip("no list of memory maps here: ", err)
	}
	return held{runtime.NumGoroutine(), bytes.Count(maps, []byte("\n"))}
}

// TestFaultsLeakNothing: ten thousand faulting sequences, in steps, in copies, in begin and in validate, leave as many
// instances, goroutines and memory maps as there were after the first hundred.
func TestFaultsLeakNothing(t *testing.T) {
	skipping := spec(t, "skips", faulty())
	skipping.OnError = OnErrorSkip
	s := open(t, Options{Specs: []Spec{spec(t, "fails", faulty()), skipping}})
	run := func(requests int) (faults int) {
		for i := range requests {
			params := []string{doTrap, doRogue}[i%2]
			b := bind(t, s, 2, Call{Name: "fails", Params: []byte(params)}, Call{Name: "skips", Params: []byte(params)})
			for j := range 2 {
				for k, p := range b.Sequence(j).Processors {
					if _, err := p.Run(prompt, nil, row()); (err != nil) != (k == 0) {
						t.Fatalf("processor %d: %v", k, err)
					}
					faults++
				}
			}
			b.Close()
			b.Release(1)
			b.Release(0)
		}
		return faults
	}
	run(25)
	settle(t, s, 4)
	before := holding(t)
	if n := run(2500); n != 10_000 {
		t.Fatalf("%d faults", n)
	}
	settle(t, s, 4)
	after := holding(t)
	t.Logf("before %+v, after %+v", before, after)
	// Arenas of the collector come and go; an instance has several maps, a version dozens.
	if after.goroutines > before.goroutines || after.maps > before.maps+64 {
		t.Errorf("held %+v before and %+v after", before, after)
	}
	for _, st := range s.List() {
		if st.Stats.InstancesOut != 0 || st.Stats.Discarded != 5050 ||
			st.Stats.Faults["trap"]+st.Stats.Faults["access"]+st.Stats.Faults["result"] != 5050 {
			t.Errorf("%s: %+v", st.Name, st.Stats)
		}
	}
}

// TestVersionsLeakNothing: a hundred versions, good and bad, that came and went leave nothing behind.
func TestVersionsLeakNothing(t *testing.T) {
	s := open(t, Options{})
	good, bad := bias(1).Wasm(), obligatory()
	run := func(n int) {
		for range n {
			if _, err := s.Put(t.Context(), "a", good, Upload{}); err != nil {
				t.Fatal(err)
			}
			v := s.names["a"].current
			if _, err := s.Put(t.Context(), "a", bad, Upload{Apply: ApplyAlways}); err == nil {
				t.Fatal("the bad version was taken")
			}
			b := bind(t, s, 1, Call{Name: "a"})
			if err := s.Delete("a"); err != nil {
				t.Fatal(err)
			}
			b.Close()
			<-v.guest.Drained()
		}
	}
	run(5)
	before := holding(t)
	run(50)
	after := holding(t)
	for range 10_000 { // a rejected version is freed behind Put's back
		if after.goroutines <= before.goroutines {
			break
		}
		runtime.Gosched()
		after.goroutines = runtime.NumGoroutine()
	}
	t.Logf("before %+v, after %+v", before, after)
	if after.goroutines > before.goroutines || after.maps > before.maps+64 {
		t.Errorf("held %+v before and %+v after", before, after)
	}
}
