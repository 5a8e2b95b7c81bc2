package logits_test

import (
	"cmp"
	"encoding/binary"
	"fmt"
	"math"
	"slices"
	"sync"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/conformance/long"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/guest/guesttest"
	"tgi/plugins/logits"
	"tgi/sdk/abi"
)

var (
	negInf = float32(math.Inf(-1))
	nan    = float32(math.NaN())
)

// load loads a module and closes it at the test's end.
func load(t testing.TB, wasm []byte, v guest.Vocabulary) *guest.Guest {
	t.Helper()
	g, err := guest.Load(t.Context(), guesttest.Engine(t), guest.Config{Name: "plugin", Wasm: wasm, Vocabulary: v})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		g.Close()
		<-g.Drained()
	})
	return g
}

func begin(t testing.TB, g *guest.Guest, s guest.Start) *guest.Session {
	t.Helper()
	session, err := g.Begin(s)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(session.Close)
	return session
}

// languages runs a test for an example guest of the SDKs in each language that has it.
func languages(t *testing.T, name string, test func(t *testing.T, wasm []byte)) {
	for language, wasm := range guesttest.SDK(t, name) {
		t.Run(language, func(t *testing.T) { test(t, wasm) })
	}
}

// prompt and logit are the kit's: rows from -8 to below 8 that differ at every position.
var prompt = []uint32{'a', 'b', 256, 'a', 'b'}

func logit(position, id uint32) float32 {
	h := (position*0x9e3779b1 ^ id*0x85ebca6b) + 0x7f4a7c15
	h ^= h >> 15
	h *= 0x2c1b3c6d
	h ^= h >> 13
	return float32(h>>8)/(1<<20) - 8
}

func rowAt(position, vocab int) []float32 {
	row := make([]float32, vocab)
	for id := range row {
		row[id] = logit(uint32(position), uint32(id))
	}
	return row
}

// sorted returns all ids by falling logit, ties by rising id.
func sorted(row []float32) []uint32 {
	ids := make([]uint32, len(row))
	for i := range ids {
		ids[i] = uint32(i)
	}
	slices.SortStableFunc(ids, func(a, b uint32) int { return cmp.Compare(row[b], row[a]) })
	return ids
}

// reference applies a valid answer to a row in the simplest way.
func reference(row []float32, mode, flags uint32, out []byte) {
	word := func(i int) uint32 { return binary.LittleEndian.Uint32(out[4*i:]) }
	value := func(i int) float32 { return math.Float32frombits(word(i)) }
	listed := make([]bool, len(row))
	switch mode {
	case abi.ModeAllow, abi.ModeDeny:
		for i := range len(out) / 4 {
			listed[word(i)] = true
		}
		for id := range row {
			if listed[id] == (mode == abi.ModeDeny) {
				row[id] = negInf
			}
		}
	case abi.ModeSparse, abi.ModeView:
		for i := 0; i < len(out)/4; i += 2 {
			if mode == abi.ModeSparse && value(i+1) > negInf {
				row[word(i)] += value(i + 1)
			} else {
				row[word(i)] = value(i + 1)
			}
			listed[word(i)] = true
		}
		for id := range row {
			if flags&abi.FlagOnly != 0 && !listed[id] {
				row[id] = negInf
			}
		}
	case abi.ModeBitmask:
		for id := range row {
			if word(id/32)>>(id%32)&1 == 0 {
				row[id] = negInf
			}
		}
	case abi.ModeRow:
		for id := range row {
			row[id] = value(id)
		}
	}
}

// TestKit checks the example guests, with this host's imports, against every rule of the contract.
func TestKit(t *testing.T) {
	long.Test(t)
	for name, cases := range kit.Examples {
		t.Run(name, func(t *testing.T) {
			languages(t, name, func(t *testing.T, wasm []byte) {
				for _, v := range kit.Run(guesttest.NewKit(t, guesttest.Engine(t), wasm, guesttest.NewWords()),
					cases...) {
					t.Error(v)
				}
			})
		})
	}
}

// TestAnswersAreThoseOfTheKit runs every case of every example guest in every language twice: with the kit, export by
// export, and with this host. Both must get the same answers; the kit's are applied by the reference.
func TestAnswersAreThoseOfTheKit(t *testing.T) {
	for name, cases := range kit.Examples {
		t.Run(name, func(t *testing.T) {
			languages(t, name, func(t *testing.T, wasm []byte) {
				words := guesttest.NewWords()
				k, g := guesttest.NewKit(t, guesttest.Engine(t), wasm, words), load(t, wasm, words)
				for _, c := range cases {
					if c.Refused {
						if err := g.Validate(nil, []byte(c.Params)); err == nil {
							t.Errorf("%s is accepted", c.Params)
						}
						continue
					}
					answers, broken := kit.Play(k, c)
					if len(broken) > 0 {
						t.Fatal(broken)
					}
					same(t, g, c, k.Seed, answers)
				}
			})
		})
	}
}

// same runs one case on this host and compares.
func same(t *testing.T, g *guest.Guest, c kit.Case, seed uint64, answers []kit.Answer) {
	t.Helper()
	if err := g.Validate(nil, []byte(c.Params)); err != nil {
		t.Error(err)
	}
	for _, kind := range []string{abi.KindLogits, abi.KindSampler} {
		if !g.Description().Serves(kind) {
			continue
		}
		n := slices.IndexFunc(answers, func(a kit.Answer) bool { return a.Kind != answers[0].Kind })
		if n < 0 {
			n = len(answers)
		}
		if kind == answers[0].Kind {
			s := begin(t, g, guest.Start{Kinds: []string{kind}, Params: []byte(c.Params), Prompt: prompt, Seed: seed})
			if kind == abi.KindLogits {
				sameSteps(t, logits.NewProcessor(s), answers[:n])
			} else {
				sameChoices(t, logits.NewSampler(s), answers[:n])
			}
			answers = answers[n:]
		}
		if len(answers) == 0 {
			return
		}
	}
}

func sameSteps(t *testing.T, p *logits.Processor, answers []kit.Answer) {
	t.Helper()
	var output []uint32
	for i, a := range answers {
		position := len(prompt) + len(output)
		row := rowAt(position, 259)
		want := slices.Clone(row)
		if i%2 == 0 { // calling Prepare must make no difference
			if err := p.Prepare(prompt, output); err != nil && a.Fault == "" {
				t.Fatal(err)
			}
		}
		e, err := p.Process(prompt, output, row)
		if a.Fault != "" {
			if err == nil || !slices.Equal(row, want) {
				t.Fatalf("answer %d: %v, want %q", i, err, a.Fault)
			}
			return
		}
		if err != nil {
			t.Fatalf("answer %d: %v", i, err)
		}
		force := int64(-1)
		if len(a.Force) > 0 {
			force = int64(a.Force[0])
		}
		stop := a.Flags&abi.FlagStop != 0
		if e.Force != force || e.Stop != stop || math.Float32bits(e.Temperature) != math.Float32bits(a.Temperature) {
			t.Fatalf("answer %d: %+v, the kit's is %v", i, e, a)
		}
		reference(want, a.Mode, a.Flags, a.Out)
		if force < 0 && !stop && !slices.Equal(row, want) {
			t.Fatalf("answer %d: the row differs from the reference for %.200v", i, a)
		}
		if force < 0 {
			output = append(output, sorted(want)[0])
			continue
		}
		for _, id := range a.Force[1:] {
			output = append(output, uint32(e.Force))
			untouched := slices.Clone(row)
			if e, err = p.Process(prompt, output, row); err != nil || e.Force != int64(id) ||
				!slices.Equal(row, untouched) {
				t.Fatalf("forced %d: %+v, %v", id, e, err)
			}
		}
		output = append(output, uint32(e.Force))
	}
}

func sameChoices(t *testing.T, p *logits.Sampler, answers []kit.Answer) {
	t.Helper()
	position := len(prompt)
	for i, a := range answers {
		row := rowAt(position, 259)
		n := min(i+1, p.Candidates())
		if i%3 == 2 {
			n = p.Candidates()
		}
		var sum float64
		for _, l := range row {
			sum += math.Exp(float64(l))
		}
		ids := sorted(row)
		values, logprobs := make([]float32, len(ids)), make([]float32, len(ids))
		for i, id := range ids {
			values[i], logprobs[i] = row[id], float32(float64(row[id])-math.Log(sum))
		}
		index, err := p.Sample(ids[:n], values[:n], logprobs[:n])
		if err != nil || index != a.Index {
			t.Fatalf("choice %d: %d, %v; the kit's is %d", i, index, err, a.Index)
		}
		position++
	}
}

// TestLanguagesAgree checks that every-mode gives the same rows and effects in all languages, in each mode.
func TestLanguagesAgree(t *testing.T) {
	guests := map[string]*guest.Guest{}
	for language, wasm := range guesttest.SDK(t, "every-mode") {
		guests[language] = load(t, wasm, guesttest.NewWords())
	}
	if len(guests) != 4 {
		t.Fatalf("%d languages", len(guests))
	}
	for _, c := range kit.Examples["every-mode"] {
		if c.Refused {
			continue
		}
		records := map[string]string{}
		for language, g := range guests {
			records[language] = record(t, g, guest.Start{Params: []byte(c.Params), Seed: 3, Prompt: prompt})
		}
		for language, r := range records {
			if r != records["c"] {
				t.Errorf("%s: %s gives\n%.300s\nC gives\n%.300s", c.Params, language, r, records["c"])
			}
		}
	}
}

// record runs a sequence of 20 steps and records all results.
func record(t *testing.T, g *guest.Guest, start guest.Start) string {
	t.Helper()
	s, err := g.Begin(start)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	return play(logits.NewProcessor(s), start.Prompt, nil, 20)
}

// play continues a sequence and records the results.
func play(p *logits.Processor, prompt, output []uint32, steps int) (log string) {
	output = slices.Clone(output)
	for range steps {
		row := rowAt(len(prompt)+len(output), 259)
		e, err := p.Process(prompt, output, row)
		log += fmt.Sprintf("%x %v %d %v %v\n", row, e.Temperature, e.Force, e.Stop, err != nil)
		if err != nil || e.Stop {
			return log
		}
		if e.Force < 0 {
			e.Force = int64(sorted(row)[0])
		}
		output = append(output, uint32(e.Force))
	}
	return log
}

// TestSequencesAreAlone checks in every language that a guest with state sees nothing of earlier or concurrent
// sequences, and that a clone continues like its original.
func TestSequencesAreAlone(t *testing.T) {
	languages(t, "every-mode", func(t *testing.T, wasm []byte) {
		g := load(t, wasm, guesttest.NewWords()) // refuses to begin twice in one memory
		start := guest.Start{Params: []byte(`{"mode":"sparse","ids":[97,98],"bias":3,"stop_at":15}`), Prompt: prompt}
		want := record(t, g, start)
		beside := begin(t, g, guest.Start{Params: []byte(`{"mode":"deny","ids":[1]}`), Prompt: prompt[:2]})
		other := logits.NewProcessor(beside)
		play(other, prompt[:2], nil, 7)
		for range 5 {
			if got := record(t, g, start); got != want {
				t.Fatalf("got\n%.300s\nwant\n%.300s", got, want)
			}
		}
		s := begin(t, g, start)
		clone, err := s.Clone(9, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer clone.Close()
		if got := play(logits.NewProcessor(s), prompt, nil, 20); got != want {
			t.Errorf("the original of a clone gives\n%.300s", got)
		}
		if got := play(logits.NewProcessor(clone), prompt, nil, 20); got != want {
			t.Errorf("the clone gives\n%.300s", got)
		}
		if stats := g.Stats(); stats.Instances.Reset == 0 || stats.Faults.All() > 0 {
			t.Errorf("%+v: instances were not reused", stats)
		}
	})
}

// TestManySequencesAtOnce checks that sequences in several goroutines are independent.
func TestManySequencesAtOnce(t *testing.T) {
	languages(t, "every-mode", func(t *testing.T, wasm []byte) {
		g := load(t, wasm, guesttest.NewWords())
		starts := []guest.Start{
			{Prompt: prompt, Params: []byte(`{"mode":"row","ids":[97,98],"bias":3}`)},
			{Prompt: prompt[:2], Params: []byte(`{"mode":"topk","ids":[1],"temperature":0.5}`)},
			{Prompt: prompt[1:], Params: []byte(`{"force_at":3,"force":[1,2,3],"fail_at":9}`)},
		}
		var want []string
		for _, start := range starts {
			want = append(want, record(t, g, start))
		}
		var group sync.WaitGroup
		for i := range 12 {
			group.Go(func() {
				for j := range 4 {
					s, err := g.Begin(starts[(i+j)%3])
					if err != nil {
						t.Error(err)
						return
					}
					clone, err := s.Clone(uint64(j), nil)
					if err != nil {
						t.Error(err)
						s.Close()
						return
					}
					for _, s := range []*guest.Session{s, clone} {
						if got := play(logits.NewProcessor(s), starts[(i+j)%3].Prompt, nil, 20); got != want[(i+j)%3] {
							t.Errorf("got\n%.300s\nwant\n%.300s", got, want[(i+j)%3])
						}
						s.Close()
					}
				}
			})
		}
		group.Wait()
	})
}

// TestSeeds checks in every language that equal seeds give equal random numbers, different seeds different ones, and
// clones their own.
func TestSeeds(t *testing.T) {
	languages(t, "epsilon-greedy", func(t *testing.T, wasm []byte) {
		g := load(t, wasm, guesttest.NewWords())
		choices := func(s *guest.Session) string {
			p, log := logits.NewSampler(s), ""
			for range 64 {
				i, err := p.Sample([]uint32{5, 3, 1, 2}, []float32{3, 2.9, 2.8, 2.7}, []float32{-1.2, -1.3, -1.4, -1.5})
				log += fmt.Sprint(i, err, " ")
			}
			return log
		}
		start := guest.Start{Params: []byte(`{"epsilon":1,"margin":4}`), Seed: 1}
		s := begin(t, g, start)
		clone, err := s.Clone(2, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer clone.Close()
		want := choices(s)
		if got := choices(begin(t, g, start)); got != want {
			t.Errorf("seed 1 gives\n%s\nand then\n%s", want, got)
		}
		start.Seed = 2
		second := choices(begin(t, g, start))
		if second == want {
			t.Error("seeds 1 and 2 give the same")
		}
		if got := choices(clone); got != second {
			t.Errorf("a clone of seed 2 gives\n%s\nwant\n%s", got, second)
		}
	})
}
