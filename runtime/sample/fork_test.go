package sample

import (
	"fmt"
	"slices"
	"testing"

	"tgi/runtime/llm"
)

// part is user code that notes in a log what is done with it.
func part(name string, log *[]string, mask bool) Plugins {
	note := func(what string) { *log = append(*log, name+" "+what) }
	p := Plugins{
		Processors: []Processor{processorFunc(func(History, []float32) error { note("runs"); return nil })},
		Close:      func() { note("closes") },
		Fork: func() (Plugins, error) {
			note("forks")
			if len(name) > 3 {
				return Plugins{}, errGuest
			}
			return part(name+"'", log, mask), nil
		},
	}
	if mask {
		p.Masker = &script{steps: [][]llm.Token{{1}}}
	}
	return p
}

func TestJoin(t *testing.T) {
	var log []string
	expect := func(want string) {
		t.Helper()
		if got := fmt.Sprint(log); got != want {
			t.Errorf("%s, want %s", got, want)
		}
		log = nil
	}
	j := Join(part("a", &log, false), part("b", &log, true))
	c := chain(t, off(), 2, nil, j)
	if err := c.CanFork(); err != nil {
		t.Fatal(err)
	}
	twin, close, err := c.Fork()
	if err != nil {
		t.Fatal(err)
	}
	expect("[a forks b forks]")
	if list, _ := branches(t, twin, History{}, []float32{1, 1}, Beam{N: 2}); len(list) != 1 || list[0].Token != 1 {
		t.Errorf("under the mask: %+v", list)
	}
	expect("[a' runs b' runs]")
	if _, _, err := twin.Fork(); err != nil {
		t.Error(err)
	}
	close()
	j.Close()
	expect("[a' forks b' forks a' closes b' closes a closes b closes]")

	if _, err := Join(part("a", &log, false), part("long", &log, false)).Fork(); err != errGuest {
		t.Errorf("got %v", err)
	}
	expect("[a forks long forks a' closes]")
}

// TestJoinForks: the whole forks exactly where each part does that has something
// to fork.
func TestJoinForks(t *testing.T) {
	var log []string
	whole := part("a", &log, false)
	fixed := Plugins{Processors: whole.Processors}
	closer := Plugins{Close: func() {}}
	list := []llm.Token{}
	itself, stuck := Plugins{Masker: ledger{&list}}, Plugins{Masker: &script{}}
	for i, c := range []struct {
		a, b Plugins
		want bool
	}{
		{Plugins{}, Plugins{}, true}, {whole, whole, true}, {whole, closer, true}, {closer, whole, true},
		{whole, itself, true},
		{closer, itself, true}, {closer, closer, true}, {itself, Plugins{}, true},
		{whole, fixed, false}, {fixed, whole, false}, {whole, stuck, false}, {stuck, closer, false},
		{fixed, itself, false},
	} {
		ch := chain(t, off(), 4, nil, Join(c.a, c.b))
		err := ch.CanFork()
		if (err == nil) != c.want {
			t.Errorf("case %d: %v", i, err)
		}
		if err != nil {
			continue
		}
		if _, _, err := ch.Fork(); err != nil {
			t.Errorf("case %d: %v", i, err)
		}
	}
	first := Join(Plugins{Sampler: samplerFunc(nil), Masker: ledger{&list}}, Plugins{})
	if first.Sampler == nil || first.Masker == nil || !slices.Equal(Join(Plugins{}, itself).Processors, nil) {
		t.Error("a part is lost")
	}
}
