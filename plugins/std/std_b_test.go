package std_test

import (
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"math/rand/v2"
	"os"
	"slices"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
	"tgi/plugins/check"
	"tgi/plugins/internal/guest"
	"tgi/plugins/internal/sandbox"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/logits"
	"tgi/plugins/std"
)

func init() {
	maps.Copy(cases, map[string][]check.Case{
		"banned-words": {
			{},
			{Params: `{"words":["a","the","é"]}`},
			{Params: `{"words":["tHe"],"ignore_case":true,"whole_word":true,"from_prompt":true}`},
			{Config: `{"words":["b"],"whole_word":true}`, Params: `{"words":[" the"]}`},
			{Params: `{"words":[""]}`, Refused: true},
			{Params: `{"words":"a"}`, Refused: true},
			{Params: `{"banned":[]}`, Refused: true},
		},
		"thinking-budget": {
			{},
			{Params: `{"budget":3,"start_inside":true,"open":"<s>","message":"Enough."}`},
			{Params: `{"budget":9,"min":7,"start_inside":true,"open":"<<","close":">>"}`},
			{Config: `{"open":"a","close":"<s>","budget":2}`},
			{Params: `{"budget":1,"min":2}`, Refused: true},
			{Params: `{"open":""}`, Refused: true},
			{Params: `{"start_inside":"no"}`, Refused: true},
		},
		"watermark": {
			{},
			{Params: `{"bias":8,"greenlist_ratio":0.5,"context_width":2}`},
			{Params: `{"scheme":"transformers"}`},
			{Config: `{"hashing_key":7,"context_width":1,"locked":true}`},
			{Config: `{"locked":true}`, Params: `{"bias":1}`, Refused: true},
			{Params: `{"hashing_key":1}`, Refused: true},
			{Params: `{"scheme":"lefthash"}`, Refused: true},
		},
	})
}

// TestBannedWords draws text at random among the tokens that are left and looks for the words in it.
func TestBannedWords(t *testing.T) {
	g := load(t, modules(t)["banned-words"], `{"words":["ab"]}`)
	random := rand.New(rand.NewPCG(1, 2))
	prompt := []uint32{'a'}
	letters := []uint32{'a', 'b', 'c', 'C', 't', 'h', 'e', 256}
	for _, c := range []struct {
		params string
		never  []string
	}{
		{`{"words":["the","bc"]}`, []string{"ab", "the", "bc"}},
		{`{"words":["Ca"],"ignore_case":true}`, []string{"ab", "ca", "Ca", "cA", "CA"}},
	} {
		p := logits.NewProcessor(begin(t, g, c.params, prompt))
		var output []uint32
		var text strings.Builder
		denied := 0
		for range 400 {
			logits := row(nil)
			if _, err := p.Process(prompt, output, logits); err != nil {
				t.Fatal(err)
			}
			left := slices.DeleteFunc(slices.Clone(letters), func(id uint32) bool {
				return math.IsInf(float64(logits[id]), -1)
			})
			denied += len(letters) - len(left)
			id := left[random.IntN(len(left))]
			output = append(output, id)
			if id == 256 {
				text.WriteString(" the")
			} else {
				text.WriteByte(byte(id))
			}
		}
		for _, w := range c.never {
			if strings.Contains(text.String(), w) {
				t.Errorf("%s: %q contains %q", c.params, text.String(), w)
			}
		}
		if denied == 0 {
			t.Errorf("%s: nothing was denied", c.params)
		}
	}
}

// TestThinkingBudget follows a model that never stops thinking.
func TestThinkingBudget(t *testing.T) {
	g := load(t, modules(t)["thinking-budget"], `{"open":"<s>","close":"</s>","message":"So"}`)
	prompt := []uint32{'a', 257}
	p := logits.NewProcessor(begin(t, g, `{"budget":2}`, prompt))
	var output []uint32
	for range 7 {
		e, err := p.Process(prompt, output, row(nil))
		if err != nil {
			t.Fatal(err)
		}
		if e.Force < 0 {
			e.Force = 'x'
		}
		output = append(output, uint32(e.Force))
	}
	if want := []uint32{'x', 'x', 'S', 'o', 258, 'x', 'x'}; !slices.Equal(output, want) {
		t.Errorf("%v, want %v", output, want)
	}
	after := row(nil)
	if _, err := p.Process(prompt, output, after); err != nil {
		t.Fatal(err)
	}
	if got := changed(row(nil), after); !maps.Equal(got, map[uint32]float32{257: never}) {
		t.Errorf("after the budget: %v, want the opening marker denied", got)
	}
}

// numbered is a vocabulary of any size.
type numbered int

func (n numbered) Size() int                { return int(n) }
func (numbered) Bytes(id uint32) []byte     { return fmt.Appendf(nil, "%d ", id) }
func (numbered) Flags(uint32) uint32        { return 0 }
func (numbered) Encode(string) []uint32     { return nil }
func (numbered) EncodeData(string) []uint32 { return nil }

// golden is a case of testdata/watermark_goldens.json.
type golden struct {
	Vocab, Width int
	Key          uint64
	Ratio        float64
	Steps        []struct{ Tokens, Candidates, Green, Keyed []uint32 }
}

// TestWatermark: the module, with its vector instructions, makes green what transformers does, and in the keyed scheme
// what the detector's script does.
func TestWatermark(t *testing.T) {
	b, err := os.ReadFile("testdata/watermark_goldens.json")
	if err != nil {
		t.Fatal(err)
	}
	var goldens struct{ Cases []golden }
	if err := json.Unmarshal(b, &goldens); err != nil || len(goldens.Cases) == 0 {
		t.Fatal(err, len(goldens.Cases))
	}
	e, err := sandbox.New(sandbox.Config{CacheDir: t.TempDir()})
	if err != nil {
		t.Fatal(err)
	}
	wasm := modules(t)["watermark"]
	for _, c := range goldens.Cases {
		g, err := guest.Load(t.Context(), e, guest.Config{
			Name: "watermark", Wasm: wasm, Vocabulary: numbered(c.Vocab),
			Limits: guest.Limits{FuelPerStep: 400_000_000},
			Config: fmt.Appendf(nil, `{"greenlist_ratio":%v,"hashing_key":%d,"context_width":%d}`, c.Ratio, c.Key,
				c.Width),
		})
		if err != nil {
			t.Fatal(err)
		}
		for _, s := range c.Steps {
			for scheme, want := range map[string][]uint32{"transformers": s.Green, "keyed": s.Keyed} {
				if got := favoured(t, g, scheme, c.Vocab, s.Tokens, s.Candidates); !slices.Equal(got, want) {
					t.Errorf("vocabulary %d, %s: %v, want %v", c.Vocab, scheme, got, want)
				}
			}
		}
		g.Close()
		<-g.Drained()
	}
}

// favoured gives the candidates, most likely first, that get the bias.
func favoured(t *testing.T, g *guest.Guest, scheme string, vocabulary int, tokens, candidates []uint32) (out []uint32) {
	t.Helper()
	s, err := g.Begin(guest.Start{Params: []byte(`{"scheme":"` + scheme + `"}`), Prompt: tokens})
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	p := logits.NewProcessor(s)
	row := slices.Repeat([]float32{-1000}, vocabulary)
	for rank, id := range candidates {
		row[id] = float32(-rank)
	}
	if _, err := p.Process(tokens, nil, row); err != nil {
		t.Fatal(err)
	}
	for rank, id := range candidates {
		if row[id] == float32(2-rank) {
			out = append(out, id)
		}
	}
	return out
}

// TestBadConfigOfText: as TestBadConfig.
func TestBadConfigOfText(t *testing.T) {
	all := modules(t)
	for plugin, c := range map[string]struct{ config, want string }{
		"banned-words": {`{"words":["a",""]}`, "words[1] has 0 bytes, want 1 to 256"},
		"thinking-budget": {`{"message":"` + strings.Repeat("a", 300) + `"}`,
			"message: 308 tokens with the closing marker, want at most 256"},
		"watermark": {`{"hashing_key":0}`, "hashing_key: 0 is not a whole number from 1 to 9007199254740991"},
	} {
		_, err := tryLoad(t, all[plugin], c.config)
		var r *guest.Refusal
		if !errors.As(err, &r) || r.Text != c.want {
			t.Errorf("%s: %v, want %s", plugin, err, c.want)
		}
	}
}

// BenchmarkSecondModel loads the plugins that every model has, beside another model that has them.
func BenchmarkSecondModel(b *testing.B) {
	open := func() *plugins.Set {
		var specs []plugins.Spec
		for _, name := range []string{"jinja", "toolcalls", "grammar"} {
			specs = append(specs, plugins.Spec{Name: name, Source: plugins.Builtin + name})
		}
		s, err := plugins.Open(b.Context(), plugins.Options{
			Specs: specs, Builtin: std.FS(), Model: []byte(`{"templates":{"default":"x"}}`),
			Vocabulary: words{kit.NewWorld()}, CacheDir: testcache.Dir(),
		})
		if err != nil {
			b.Fatal(err)
		}
		return s
	}
	defer open().Close()
	for b.Loop() {
		open().Close()
	}
}
