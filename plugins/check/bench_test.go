package check

import (
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"

	"tgi/plugins/internal/guest"
	"tgi/sdk/abi"
)

func committed(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "..", "sdk", "testdata", "guests", filepath.FromSlash(name)+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

func builtin(t *testing.T, name string) []byte {
	t.Helper()
	b, err := os.ReadFile(filepath.Join("..", "std", "wasm", name+".wasm"))
	if err != nil {
		t.Fatal(err)
	}
	return b
}

// find returns the series of a name, of which there must be one.
func find(t *testing.T, list []Series, name string) Series {
	t.Helper()
	for _, s := range list {
		if s.Name == name {
			if s.Count == 0 || s.P50 <= 0 || s.P99 < s.P50 {
				t.Errorf("series %+v", s)
			}
			return s
		}
	}
	t.Fatalf("no series %q in %+v", name, list)
	return Series{}
}

// TestBenchModes: each mode is measured as itself, with fuel, against a guest that does nothing.
func TestBenchModes(t *testing.T) {
	modes := []string{"allow", "deny", "sparse", "bitmask", "topk", "row"}
	o := BenchOptions{Vocabulary: 1000, Steps: 40}
	for _, m := range modes {
		o.Params = append(o.Params, `{"mode":"`+m+`","ids":[1,2,3]}`)
	}
	r, err := Bench(t.Context(), "every-mode", committed(t, "c/every-mode"), o)
	if err != nil {
		t.Fatal(err)
	}
	if nothing := find(t, r.Baseline, "process of a guest that does nothing"); nothing.Count != 40 {
		t.Errorf("baseline %+v", nothing)
	}
	find(t, r.Baseline, "copying a row of 4000 bytes")
	find(t, r.Load, "load, compiled")
	find(t, r.Load, "load, from the cache")
	if s := find(t, r.Load, "tgi_init"); s.Budget != DefaultLimits().FuelLoad {
		t.Errorf("init %+v", s)
	}
	for i, m := range modes {
		run := r.Runs[i]
		if run.Fault != "" || run.Memory == 0 || run.Grown != 0 || run.Params != o.Params[i] {
			t.Errorf("%s: %s; memory %d, grown %d", m, run.Fault, run.Memory, run.Grown)
		}
		if run.Fault != "" {
			continue
		}
		steps := find(t, run.Calls, "process, "+m)
		if steps.Count != 40 || steps.FuelP50 == 0 || steps.FuelP99 < steps.FuelP50 || steps.GuestP50 == 0 ||
			steps.GuestP50 > steps.P50 || steps.Budget != DefaultLimits().FuelPerStep {
			t.Errorf("%s: %+v", m, steps)
		}
		for _, name := range []string{"validate", "begin", "clone", "reset"} {
			find(t, run.Calls, name)
		}
	}
}

// TestBenchForced: steps whose token is known are counted apart, and the guest's end of a sequence begins the next.
func TestBenchForced(t *testing.T) {
	r, err := Bench(t.Context(), "every-mode", committed(t, "rust/every-mode"), BenchOptions{
		Vocabulary: 1000, Steps: 60, Params: []string{`{"force_at":2,"force":[1,2,3,4],"stop_at":16}`}})
	if err != nil {
		t.Fatal(err)
	}
	run := r.Runs[0]
	// 60 steps and those before; of each 17 steps of a sequence, the guest is not asked at 3.
	if s := find(t, run.Calls, "process, pass"); run.Forced < 6 || s.Count+run.Forced != 60 {
		t.Errorf("forced %d, called %d", run.Forced, s.Count)
	}
	if s := find(t, run.Calls, "begin"); s.Count < benchRequests+4 {
		t.Errorf("%d sequences began, %d of requests alone", s.Count, benchRequests)
	}
}

func TestBenchSampler(t *testing.T) {
	r, err := Bench(t.Context(), "epsilon-greedy", committed(t, "assemblyscript/epsilon-greedy"),
		BenchOptions{Vocabulary: 600, Steps: 30})
	if err != nil {
		t.Fatal(err)
	}
	if s := find(t, r.Runs[0].Calls, "sample"); s.Count != 30 || s.FuelP50 == 0 || r.Runs[0].Fault != "" {
		t.Errorf("%+v", r.Runs[0])
	}
}

// TestBenchGrammar: a guest that compiles is measured apart from what the host does, one that follows texts itself call
// by call.
func TestBenchGrammar(t *testing.T) {
	picture := []Grammar{{Language: "picture", Text: "A#-@@"}}
	o := BenchOptions{Vocabulary: 600, Steps: 40, Grammars: picture}
	r, err := Bench(t.Context(), "picture", committed(t, "c/picture"), o)
	if err != nil || r.Runs[0].Fault != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	run := r.Runs[0]
	if s := find(t, run.Calls, "picture: mask"); s.Count != 40 || s.Budget != DefaultLimits().FuelPerStep {
		t.Errorf("%+v", s)
	}
	// A text is five letters long, and has a mask for its end.
	if s := find(t, run.Calls, "picture: accept"); s.Count < 20 || s.Count > 36 || s.FuelP50 == 0 || s.GuestP50 == 0 {
		t.Errorf("%+v", s)
	}
	if s := find(t, run.Calls, "picture: begin of a text"); s.Count < 40/6 || s.Budget == 0 {
		t.Errorf("%+v", s)
	}
	if len(run.Masks) != 1 || run.Masks[0].Language != "picture" || run.Masks[0].PerSecond <= 0 || run.Memory == 0 {
		t.Errorf("%+v", run)
	}

	compiles := BenchOptions{Vocabulary: 600, Steps: 40, Grammars: []Grammar{{Language: "regex", Text: "[a-c]{3}"},
		{Language: "choice", Text: `["a","b"]`}}}
	r, err = Bench(t.Context(), "grammar", builtin(t, "grammar"), compiles)
	if err != nil || r.Runs[0].Fault != "" {
		t.Fatalf("%+v, %v", r, err)
	}
	for _, g := range compiles.Grammars {
		if s := find(t, r.Runs[0].Calls, g.Language+": compile"); s.Count != benchCompiles || s.FuelP50 == 0 ||
			s.Budget == 0 {
			t.Errorf("%+v", s)
		}
		find(t, r.Runs[0].Calls, g.Language+": prepare by the host")
		if s := find(t, r.Runs[0].Calls, g.Language+": mask by the host"); s.Count != 40 || s.FuelP50 != 0 {
			t.Errorf("%+v", s)
		}
	}
	for want, x := range map[string]BenchOptions{
		`no source is known in its languages ["picture"]`: {Vocabulary: 600, Steps: 5},
		"picture: it refuses the source: the picture has 0 bytes": {Vocabulary: 600, Steps: 5,
			Grammars: []Grammar{{Language: "picture", Text: ""}}},
	} {
		r, err := Bench(t.Context(), "picture", committed(t, "c/picture"), x)
		if err != nil || !strings.HasPrefix(r.Runs[0].Fault, want) {
			t.Errorf("%+v, %v; want %s", r.Runs[0], err, want)
		}
	}
}

// TestBenchProgram: whole texts of a program are measured, with fuel and the tokens that it has computed.
func TestBenchProgram(t *testing.T) {
	r, err := Bench(t.Context(), "vote", builtin(t, "vote"), BenchOptions{Vocabulary: 1000, Steps: 5,
		Params: []string{`{"n":2}`, `{"n":4}`, `{"n":0}`}})
	if err != nil {
		t.Fatal(err)
	}
	for _, run := range r.Runs[:2] {
		s := find(t, run.Calls, "run of a program")
		if s.Count != 5 || s.FuelP50 <= 0 || s.Budget == 0 || run.Fault != "" {
			t.Errorf("%+v, fault %q", s, run.Fault)
		}
	}
	two, four := r.Runs[0].Program, r.Runs[1].Program
	if two.Prompt != benchPrompt || two.Generated == 0 || two.Computed < two.Generated || two.Emitted == 0 {
		t.Errorf("%+v", two)
	}
	if four.Generated != 2*two.Generated {
		t.Errorf("4 texts are %d tokens, 2 are %d", four.Generated, two.Generated)
	}
	if r.Runs[2].Fault == "" {
		t.Error("a vote of none is measured")
	}
	var b strings.Builder
	if err := r.WriteTables(&b); err != nil || !strings.Contains(b.String(), "tokens generated") {
		t.Errorf("%v\n%s", err, &b)
	}
}

// TestBenchFaults: what a server would have said ends the run that it happens in, and no other.
func TestBenchFaults(t *testing.T) {
	r, err := Bench(t.Context(), "every-mode", committed(t, "c/every-mode"), BenchOptions{Vocabulary: 600, Steps: 30,
		Params: []string{`{"mode":"none"}`, `{"fail_at":6}`, `{}`}})
	if err != nil {
		t.Fatal(err)
	}
	for i, want := range []string{"it refuses the parameters: mode",
		"step 6 of a sequence: every-mode: tgi_logits_process: ", ""} {
		if got := r.Runs[i].Fault; !strings.HasPrefix(got, want) || (got == "") != (want == "") {
			t.Errorf("run %d: %q, want %q", i, got, want)
		}
	}
	slow := with(func(a *assembly) { a.export("tgi_logits_process").code = forever })
	r, err = Bench(t.Context(), "slow", slow, BenchOptions{Vocabulary: 600, Steps: 30})
	if err != nil || !strings.Contains(r.Runs[0].Fault, "out of fuel") {
		t.Errorf("%+v, %v", r, err)
	}
	if _, err := Bench(t.Context(), "x", noop().encode(), BenchOptions{Vocabulary: 10}); err == nil {
		t.Error("a vocabulary of 10 is accepted")
	}
	if _, err := Bench(t.Context(), "x", noop().encode()[:50], BenchOptions{Vocabulary: 600}); err == nil {
		t.Error("half a module is measured")
	}
}

// TestSynthetic: the vocabulary is one, and texts come back from their tokens.
func TestSynthetic(t *testing.T) {
	v := newSynthetic(5000)
	var _ guest.Vocabulary = v
	seen := map[string]bool{}
	for id := range uint32(5000) {
		b := string(v.Bytes(id))
		if b == "" || seen[b] {
			t.Fatalf("token %d is %q", id, b)
		}
		seen[b] = true
	}
	if v.Size() != 5000 || v.Bytes(5000) != nil || v.Flags(4999) != abi.TokenSpecial|abi.TokenEnd ||
		v.Flags(4998) != abi.TokenSpecial || v.Flags(4997) != 0 {
		t.Error("size or flags")
	}
	if ids := v.Encode(" the"); len(ids) != 1 {
		t.Errorf("%v for a common word", ids)
	}
	text := "A tale of bavo, ünïcode\n and </s>"
	back := ""
	ids := v.Encode(text)
	for _, id := range ids {
		back += string(v.Bytes(id))
	}
	if back != text || len(ids) >= len(text) || ids[len(ids)-1] != 4999 {
		t.Errorf("%v gives %q", ids, back)
	}
}

// TestRows: a row has every token once, falling by rank, and turns from step to step.
func TestRows(t *testing.T) {
	r := newRows(1000, 3)
	row := make([]float32, 1000)
	r.fill(5, row)
	for rank := 1; rank < 1000; rank++ {
		if row[r.id(5, rank)] >= row[r.id(5, rank-1)] || r.logprobs[rank] > 0 {
			t.Fatalf("rank %d", rank)
		}
	}
	sorted := slices.Clone(row)
	slices.Sort(sorted)
	if len(slices.Compact(sorted)) != 1000 {
		t.Error("two tokens have the same logit")
	}
	if r.id(0, 0) == r.id(1, 0) || r.id(0, 0) != r.id(rowKinds, 0) {
		t.Error("rows do not turn")
	}
	for id := range row {
		row[id] = float32(-1e30)
	}
	for range 100 {
		if id := r.draw(2, row); id >= 998 {
			t.Errorf("special token %d is drawn", id)
		}
	}
}

func TestQuantile(t *testing.T) {
	for _, c := range []struct {
		n, percent int
		want       int64
	}{{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {2, 99, 2}, {100, 50, 50}, {100, 99, 99}, {1000, 99, 990}, {0, 50, 0}} {
		var list []int64
		for i := range c.n {
			list = append(list, int64(c.n-i))
		}
		if got := quantile(list, c.percent); got != c.want {
			t.Errorf("%d%% of 1 to %d: %d, want %d", c.percent, c.n, got, c.want)
		}
	}
}
