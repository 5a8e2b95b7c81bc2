package server

import (
	"testing"
	"time"
)

// TestRate: it is the mean of the seconds that are over, of ten at most, and forgets.
func TestRate(t *testing.T) {
	var r rate
	at := func(second int) time.Time { return time.Unix(1000+int64(second), 0) }
	for range 4 {
		r.count(at(0))
	}
	if got := r.perSecond(at(0)); got != 4 {
		t.Errorf("in the first second: %v", got)
	}
	if got := r.perSecond(at(2)); got != 2 {
		t.Errorf("after two seconds: %v", got)
	}
	for second := 2; second < 30; second++ {
		for range 3 {
			r.count(at(second))
		}
	}
	if got := r.perSecond(at(30)); got != 3 {
		t.Errorf("steady: %v", got)
	}
	if got := r.perSecond(at(35)); got != 1.5 {
		t.Errorf("five seconds later: %v", got)
	}
	if got := r.perSecond(at(100)); got != 0 {
		t.Errorf("long after: %v", got)
	}
}
