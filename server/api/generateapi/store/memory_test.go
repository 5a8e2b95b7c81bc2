package store

import (
	"errors"
	"fmt"
	"sync"
	"testing"
	"testing/synctest"
	"time"
)

// keep saves a state under a name.
func keep(t *testing.T, s Store, name, state string) {
	t.Helper()
	c, err := s.Claim(t.Context(), KeyOf("", []string{name}))
	if err == nil {
		err = c.Save(t.Context(), []byte(state))
	}
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
}

// kept returns what is kept under a name.
func kept(t *testing.T, s Store, name string) string {
	t.Helper()
	c, err := s.Claim(t.Context(), KeyOf("", []string{name}))
	if err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	defer c.Release()
	return string(c.State())
}

// follow is what every store does.
func follow(t *testing.T, s Store) {
	ctx, key := t.Context(), KeyOf("", []string{"a"})
	keep(t, s, "a", "one")
	c, err := s.Claim(ctx, key)
	if err != nil || string(c.State()) != "one" {
		t.Fatalf("%v", err)
	}
	if _, err := s.Claim(ctx, key); !errors.Is(err, ErrBusy) {
		t.Errorf("claimed twice: %v", err)
	}
	if got := kept(t, s, "b"); got != "" {
		t.Errorf("b has %q", got)
	}
	buf := []byte("two")
	if err := c.Save(ctx, buf); err != nil {
		t.Error(err)
	}
	buf[0] = 'x'
	if got := kept(t, s, "a"); got != "two" {
		t.Errorf("saved: %q", got)
	}
	if c, err = s.Claim(ctx, key); err != nil {
		t.Fatal(err)
	}
	c.Release()
	if got := kept(t, s, "a"); got != "two" {
		t.Errorf("released: %q", got)
	}
	if c, err = s.Claim(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := c.Save(ctx, make([]byte, 2000)); !errors.Is(err, ErrTooLarge) {
		t.Errorf("a large one: %v", err)
	}
	if got := kept(t, s, "a"); got != "two" {
		t.Errorf("after one that was too large: %q", got)
	}
	if c, err = s.Claim(ctx, key); err != nil {
		t.Fatal(err)
	}
	if err := c.Drop(ctx); err != nil {
		t.Error(err)
	}
	if got := kept(t, s, "a"); got != "" {
		t.Errorf("dropped: %q", got)
	}
	won := make(chan Claim, 20) // of many at once, one has the claim
	var group sync.WaitGroup
	for range cap(won) {
		group.Go(func() {
			c, err := s.Claim(ctx, key)
			if err == nil {
				won <- c
			} else if !errors.Is(err, ErrBusy) {
				t.Error(err)
			}
		})
	}
	group.Wait()
	if len(won) != 1 {
		t.Errorf("%d claims at once", len(won))
	}
	for range len(won) {
		(<-won).Release()
	}
}

func TestContinuationMemory(t *testing.T) {
	follow(t, NewMemory(Limits{TTL: time.Hour, MaxState: 1000, MaxEntries: 10, MaxMemory: 1 << 20}))
}

func TestContinuationMemoryIsBounded(t *testing.T) {
	for _, l := range []Limits{
		{TTL: time.Hour, MaxState: 1000, MaxEntries: 3, MaxMemory: 1 << 20},
		{TTL: time.Hour, MaxState: 1000, MaxEntries: 100, MaxMemory: 3*(entryCost+100) + 99},
	} {
		m := NewMemory(l)
		for i := range 3 {
			keep(t, m, fmt.Sprint(i), fmt.Sprintf("%100d", i))
		}
		kept(t, m, "0") // used
		keep(t, m, "3", fmt.Sprintf("%100d", 3))
		for name, want := range map[string]bool{"0": true, "1": false, "2": true, "3": true} {
			if got := kept(t, m, name) != ""; got != want {
				t.Errorf("%+v: %s is kept: %v", l, name, got)
			}
		}
		if s := m.Stats(); s.Entries != 3 || s.Bytes != 3*(entryCost+100) || s.Evicted != 1 {
			t.Errorf("%+v", s)
		}
	}
	m := NewMemory(Limits{TTL: time.Hour, MaxState: 1000, MaxEntries: 3, MaxMemory: entryCost + 5})
	c, err := m.Claim(t.Context(), Key{})
	if err == nil {
		err = c.Save(t.Context(), make([]byte, 6))
	}
	if !errors.Is(err, ErrTooLarge) || err.Error() != "the state is too large: 6 bytes of at most 5" {
		t.Errorf("more than the memory: %v", err)
	}
}

func TestContinuationMemoryForgets(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		m := NewMemory(Limits{TTL: time.Minute, MaxState: 1000, MaxEntries: 10, MaxMemory: 1 << 20})
		keep(t, m, "a", "one")
		keep(t, m, "b", "one")
		time.Sleep(time.Minute - 1)
		if got := kept(t, m, "a"); got != "one" {
			t.Errorf("before its time: %q", got)
		}
		time.Sleep(time.Nanosecond)
		if got := kept(t, m, "a"); got != "" {
			t.Errorf("after its time: %q", got)
		}
		keep(t, m, "c", "one")
		if n := m.Stats().Entries; n != 1 {
			t.Errorf("%d states, want the last alone", n)
		}
	})
}
