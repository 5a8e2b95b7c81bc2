package sandbox

import (
	"errors"
	"testing"
)

// TestQuotaForgetsAPeak checks that an instance which used nearly all memory does not close its module for later ones:
// when nothing else runs they are admitted, and else, or for copies, they are refused for a while but not for ever.
func TestQuotaForgetsAPeak(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 64 * mib})
	p := w.pool("a", PoolConfig{Ready: 1})
	peak := func() {
		t.Helper()
		in := grab(t, p, Lease{})
		if _, err := in.Call(in.Func("grow"), []uint64{512}, plenty); err != nil {
			t.Fatal(err)
		}
		if err := touchPages(in, 11000); err != nil { // 43 MiB of 64, of which 16 are the snapshot
			t.Fatal(err)
		}
		p.Put(in)
	}
	peak()
	var in *Instance
	var err error
	for range 8 {
		in = grab(t, p, Lease{})
		err = p.Reserve(in, 2, Lease{})
		p.Put(in)
		if err == nil {
			break
		}
	}
	if err != nil {
		t.Errorf("copies of an instance that has nothing: %v", err)
	}

	peak()
	other := grab(t, p, Lease{Brief: true})
	if err := touchPages(other, 3072); err != nil { // 12 MiB: beside it there is no room for another peak
		t.Fatal(err)
	}
	var no *Shortage
	_, err = p.Take(Lease{})
	if !errors.As(err, &no) || no.Never {
		t.Fatalf("beside another: %v", err)
	}
	for range 8 {
		if in, err = p.Take(Lease{}); err == nil {
			p.Put(in)
			break
		}
	}
	if err != nil {
		t.Errorf("still refused: %v", err)
	}
	p.Put(other)
	if err := w.q.check(); err != nil {
		t.Error(err)
	}
}

// TestQuotaReserves checks that copies that were reserved for less than the original may come to need can be had.
func TestQuotaReserves(t *testing.T) {
	w := newWorld(t, QuotaConfig{Bytes: 96 * mib})
	p := w.pool("a", PoolConfig{Ready: 1})
	first := grab(t, p, Lease{})
	if err := touchPages(first, 4096); err != nil {
		t.Fatal(err)
	}
	p.Put(first)
	all := []*Instance{grab(t, p, Lease{})} // expected to need 16 MiB, as its copies are
	if err := p.Reserve(all[0], 4, Lease{}); err != nil {
		t.Fatal(err)
	}
	refused := w.q.Stats().Refused
	used := w.q.Stats().Used
	for range 4 {
		twin, err := p.Clone(all[0], Lease{})
		if err != nil {
			t.Fatal(err)
		}
		all = append(all, twin)
	}
	if s := w.q.Stats(); s.Refused != refused || s.Used > used+8*instanceBytes {
		t.Errorf("copies were charged anew: %d, then %+v", used, s)
	}
	for _, in := range all {
		p.Put(in)
	}
	if err := w.q.check(); err != nil {
		t.Error(err)
	}
}
