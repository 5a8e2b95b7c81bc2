package main

import (
	"testing"

	"tgi/sdk/go/plugintest"
)

func TestSample(t *testing.T) {
	plugintest.New(t, "a", "b", "c")
	p, _ := open(nil)
	for _, bad := range []string{`{"epsilon":1.5}`, `{"epsilon":-1}`, `{"margin":-1}`, `{"eps":1}`, `{`} {
		if _, err := p.Begin([]byte(bad), nil); err == nil {
			t.Errorf("%s is accepted", bad)
		}
	}
	c := plugintest.Candidates(0.5, 0.4, 0.1)
	for params, want := range map[string][3]bool{
		`{"epsilon":0}`:            {true, false, false},
		`{"epsilon":1,"margin":1}`: {true, true, false},
		`{"epsilon":1,"margin":9}`: {true, true, true},
	} {
		s, err := p.Begin([]byte(params), nil)
		if err != nil {
			t.Fatal(err)
		}
		var seen [3]bool
		for range 100 {
			i, err := s.Sample(c)
			if err != nil {
				t.Fatal(err)
			}
			seen[i] = true
		}
		if seen != want {
			t.Errorf("%s chose %v, want %v", params, seen, want)
		}
	}
}
