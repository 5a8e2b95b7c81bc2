package std_test

import (
	"errors"
	"maps"
	"math"
	"testing"

	"tgi/plugins/check"
	"tgi/plugins/internal/guest"
	"tgi/plugins/logits"
)

func init() {
	maps.Copy(cases, map[string][]check.Case{
		"no-repeat-ngram": {
			{},
			{Params: `{"n":1}`},
			{Params: `{"n":2,"prompt":false}`},
			{Config: `{"n":2}`, Params: `{"prompt":true}`},
			{Params: `{"n":0}`, Refused: true},
			{Params: `{"n":"2"}`, Refused: true},
			{Params: `{"size":2}`, Refused: true},
		},
		"dry": {
			{},
			{Params: `{"multiplier":100,"base":10,"allowed_length":1,"sequence_breakers":[]}`},
			{Params: `{"allowed_length":1,"range":4,"sequence_breakers":[" the","ab","é"]}`},
			{Config: `{"sequence_breakers":["b"],"allowed_length":1}`},
			{Params: `{"sequence_breakers":[""]}`, Refused: true},
			{Params: `{"base":0.5}`, Refused: true},
			{Params: `{"dry":1}`, Refused: true},
		},
		"xtc": {
			{},
			{Params: `{"probability":1,"threshold":0.01}`},
			{Config: `{"probability":1}`, Params: `{"threshold":0.05}`},
			{Params: `{"threshold":0}`, Refused: true},
			{Params: `{"probability":2}`, Refused: true},
			{Params: `{"p":1}`, Refused: true},
		},
		"mirostat": {
			{},
			{Params: `{"tau":0}`},
			{Config: `{"tau":2}`, Params: `{"eta":1}`},
			{Params: `{"tau":-1}`, Refused: true},
			{Params: `{"eta":2}`, Refused: true},
			{Params: `{"mode":2}`, Refused: true},
		},
	})
}

var never = float32(math.Inf(-1))

// TestLayers: the configuration replaces the plugin's defaults, a request's parameters replace both, one by one.
func TestLayers(t *testing.T) {
	all := modules(t)
	prompt := []uint32{'a', 'b', 'c', 'a', 'b'}
	for _, c := range []struct {
		plugin, config, params string
		want                   map[uint32]float32
	}{
		{"no-repeat-ngram", `{}`, `{}`, map[uint32]float32{'c': never}},
		{"no-repeat-ngram", `{"n":4}`, `{}`, map[uint32]float32{}},
		{"no-repeat-ngram", `{"n":4}`, `{"n":2}`, map[uint32]float32{'c': never}},
		{"no-repeat-ngram", `{"prompt":false}`, `{"n":1}`, map[uint32]float32{}},
		{"dry", `{}`, `{"multiplier":0.5}`, map[uint32]float32{'c': -0.5}},
		{"dry", `{"multiplier":0.5,"sequence_breakers":["a"]}`, `{}`, map[uint32]float32{}},
		{"dry", `{"multiplier":0.5,"sequence_breakers":["a"]}`, `{"sequence_breakers":["c"],"allowed_length":1}`,
			map[uint32]float32{}},
		{"dry", `{"multiplier":0.5,"sequence_breakers":["a"]}`, `{"allowed_length":1}`, map[uint32]float32{'c': -0.5}},
		{"xtc", `{"probability":1}`, `{}`, map[uint32]float32{'a': never}},
		{"xtc", `{"probability":1}`, `{"threshold":0.6}`, map[uint32]float32{}},
		{"xtc", `{"probability":0}`, `{"threshold":0.1}`, map[uint32]float32{}},
	} {
		p := logits.NewProcessor(begin(t, load(t, all[c.plugin], c.config), c.params, prompt))
		before := row(map[uint32]float32{'a': 3, 'c': 2.5})
		after := row(map[uint32]float32{'a': 3, 'c': 2.5})
		if _, err := p.Process(prompt, nil, after); err != nil {
			t.Fatal(err)
		}
		if got := changed(before, after); !maps.Equal(got, c.want) {
			t.Errorf("%s with config %s and parameters %s: %v, want %v", c.plugin, c.config, c.params, got, c.want)
		}
	}
}

// TestBadConfig: a configuration that a plugin can't take keeps the server from starting, with the plugin's words.
func TestBadConfig(t *testing.T) {
	all := modules(t)
	for plugin, c := range map[string]struct{ config, want string }{
		"no-repeat-ngram": {`{"n":100}`, "n: 100 is not a whole number from 1 to 64"},
		"dry":             {`{"range":1.5}`, "range: 1.5 is not a whole number from 0 to 16777216"},
		"xtc":             {`{"threshold":0.001}`, "threshold: 0.001 is not from 0.01 to 1"},
		"mirostat":        {`{"tau":"5"}`, "tau: want a number from 0 to 20"},
	} {
		_, err := tryLoad(t, all[plugin], c.config)
		var r *guest.Refusal
		if !errors.As(err, &r) || r.Text != c.want {
			t.Errorf("%s: %v, want %s", plugin, err, c.want)
		}
	}
}

// TestLongPrompts: prompts of 49152 tokens stay within the default limits, also such as repeat all the time.
func TestLongPrompts(t *testing.T) {
	const n = 49152
	mixed, same, period := make([]uint32, n), make([]uint32, n), make([]uint32, n)
	seed := uint64(1)
	for i := range n {
		seed = seed*6364136223846793005 + 1442695040888963407
		mixed[i], period[i], same[i] = uint32(seed>>33)%256, uint32(i%97), 'a'
	}
	all := modules(t)
	for name, prompt := range map[string][]uint32{"mixed": mixed, "same": same, "period": period} {
		for _, c := range [][2]string{
			{"no-repeat-ngram", `{}`}, {"no-repeat-ngram", `{"n":8}`}, {"dry", `{}`}, {"dry", `{"range":20000}`},
			{"dry", `{"sequence_breakers":[]}`},
		} {
			p := logits.NewProcessor(begin(t, load(t, all[c[0]], `{}`), c[1], prompt))
			output := []uint32{}
			for range 20 {
				if _, err := p.Process(prompt, output, row(nil)); err != nil {
					t.Errorf("%s %s, %s prompt, after %d tokens: %v", c[0], c[1], name, len(output), err)
					break
				}
				output = append(output, prompt[len(output)])
			}
		}
	}
}

// TestMirostatIndex: the sampler answers with an index among the candidates, the first at tau 0.
func TestMirostatIndex(t *testing.T) {
	g := load(t, modules(t)["mirostat"], `{}`)
	ids, l := []uint32{'a', 'b', 'c'}, []float32{2, 1, 0}
	probs := []float32{-0.40760595, -1.407606, -2.407606}
	for params, want := range map[string]int{`{"tau":0}`: 1, `{"tau":20}`: 3} {
		s := logits.NewSampler(begin(t, g, params, []uint32{'a'}))
		seen := map[int]bool{}
		for range 100 {
			i, err := s.Sample(ids, l, probs)
			if err != nil {
				t.Fatal(err)
			}
			seen[i] = true
		}
		if len(seen) != want || !seen[0] {
			t.Errorf("%s: chose %v, want %d different", params, seen, want)
		}
	}
}
