package host

import (
	"math/rand/v2"
	"testing"
)

// TestVectorCache: the cache keeps what was used last, within its bytes.
func TestVectorCache(t *testing.T) {
	c := newVectorCache(100)
	sum := func(n int) [32]byte { return [32]byte{byte(n)} }
	for n := range 4 {
		c.put(sum(n), []float32{float32(n), 0, 0, 0, 0, 0, 0}) // 28 bytes
		c.get(sum(0))
	}
	for n, want := range []bool{true, false, true, true} {
		if v := c.get(sum(n)); (v != nil) != want || want && v[0] != float32(n) {
			t.Errorf("picture %d: %v, want it there: %v", n, v, want)
		}
	}
	c.put(sum(9), make([]float32, 26)) // larger than the cache
	c.put(sum(2), make([]float32, 7))  // is there already
	m := c.metrics("m")
	if m.Bytes != 84 || m.Entries != 3 || m.Evictions != 1 || m.Limit != 100 || c.get(sum(9)) != nil {
		t.Errorf("%+v", m)
	}
	r := rand.New(rand.NewPCG(1, 1))
	for range 1000 {
		c.put(sum(r.IntN(50)), make([]float32, r.IntN(20)))
		if m := c.metrics("m"); m.Bytes > 100 || m.Entries != int64(len(c.bySum)) {
			t.Fatalf("%+v", m)
		}
	}
	off := newVectorCache(0)
	if off.put(sum(1), []float32{1}); off.get(sum(1)) != nil {
		t.Error("a cache of no bytes keeps something")
	}
}
