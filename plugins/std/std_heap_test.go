package std_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"runtime"
	"testing"

	"tgi/plugins"
	"tgi/plugins/internal/testcache"
	"tgi/plugins/std"
	"tgi/sdk/abi"
)

// schemaOf makes a schema like those that clients send, each with names of its own.
func schemaOf(r *rand.Rand) []byte {
	name := func(n int) string {
		b := make([]byte, n)
		for i := range b {
			b[i] = byte('a' + r.IntN(26))
		}
		return string(b)
	}
	props, required := map[string]any{}, []string{}
	for range 5 + r.IntN(20) {
		k := name(3 + r.IntN(12))
		required = append(required, k)
		switch r.IntN(6) {
		case 0:
			props[k] = map[string]any{"type": "string", "maxLength": 5 + r.IntN(195)}
		case 1:
			props[k] = map[string]any{"type": "integer", "minimum": r.IntN(99), "maximum": 100 + r.IntN(9000)}
		case 2:
			var words []string
			for range 3 + r.IntN(37) {
				words = append(words, name(8))
			}
			props[k] = map[string]any{"type": "array", "items": map[string]any{"enum": words}, "minItems": 1,
				"maxItems": 2 + r.IntN(18)}
		case 3:
			props[k] = map[string]any{"type": "string", "pattern": fmt.Sprintf("^[a-%c]{1,%d}$", 'd'+r.IntN(20),
				2+r.IntN(38))}
		case 4:
			props[k] = map[string]any{"type": "object", "additionalProperties": false,
				"properties": map[string]any{"x": map[string]any{"type": "number"},
					"y": map[string]any{"type": "boolean"}}}
		default:
			props[k] = map[string]any{"type": "string", "format": []string{"date", "date-time", "email",
				"uuid"}[r.IntN(4)]}
		}
	}
	b, _ := json.Marshal(map[string]any{"type": "object", "additionalProperties": false, "properties": props,
		"required": required[:len(required)/2]})
	return b
}

func heap() int64 {
	runtime.GC()
	runtime.GC()
	var m runtime.MemStats
	runtime.ReadMemStats(&m)
	return int64(m.HeapAlloc)
}

// TestGrammarBytes: what grammars are said to take is what they take, within a factor.
func TestGrammarBytes(t *testing.T) {
	set, err := plugins.Open(t.Context(), plugins.Options{
		Specs:   []plugins.Spec{{Name: "grammar", Source: plugins.Builtin + "grammar"}},
		Builtin: std.FS(), Vocabulary: newLexicon(4096), CacheDir: testcache.Dir()})
	if err != nil {
		t.Fatal(err)
	}
	defer set.Close()
	set.Prepared()
	r := rand.New(rand.NewPCG(1, 2))
	bits := make([]uint32, 4096/32)
	follow := func() {
		g, err := set.Compile(t.Context(), plugins.GrammarCall{Language: "json_schema", Source: schemaOf(r)})
		if err != nil {
			t.Fatal(err)
		}
		defer g.Close()
		c, err := g.Sequence(t.Context(), 1)
		if err != nil {
			t.Fatal(err)
		}
		defer c.Close()
		for range 60 {
			if _, err := c.Mask(bits); err != nil {
				return
			}
			var ids []uint32
			for w, x := range bits {
				for b := range 32 {
					if x>>b&1 != 0 {
						ids = append(ids, uint32(32*w+b))
					}
				}
			}
			if c.Accept(ids[r.IntN(len(ids))]) != nil {
				return
			}
		}
	}
	for range 20 {
		follow()
	}
	before, was := heap(), set.GrammarStats()
	for range 200 {
		follow()
	}
	after, is := heap(), set.GrammarStats()
	grown, said, masks := after-before, is.Bytes-was.Bytes, is.Masks.Bytes-was.Masks.Bytes
	said += masks
	if is.Kept-was.Kept != 200 || is.Limit == 0 {
		t.Fatalf("%d of 200 grammars kept, limit %d", is.Kept-was.Kept, is.Limit)
	}
	if said < grown*2/3 || said > 3*grown {
		t.Errorf("%d grammars grew the heap by %d KiB and are said to take %d", 200, grown>>10, said>>10)
	}
	runtime.KeepAlive(set)
}

// lexicon is a vocabulary of all bytes, made-up words and an end.
type lexicon [][]byte

func newLexicon(size int) lexicon {
	r := rand.New(rand.NewPCG(3, 4))
	v := make(lexicon, 0, size)
	for b := range 256 {
		v = append(v, []byte{byte(b)})
	}
	for seen := map[string]bool{}; len(v) < size-1; {
		word := make([]byte, 2+r.IntN(5))
		for i := range word {
			word[i] = " etaoinshrdlu\"{}:,_0123456789-"[r.IntN(30)]
		}
		if !seen[string(word)] {
			seen[string(word)] = true
			v = append(v, word)
		}
	}
	return append(v, []byte("</s>"))
}

func (v lexicon) Size() int              { return len(v) }
func (v lexicon) Bytes(id uint32) []byte { return v[id] }
func (v lexicon) Flags(id uint32) uint32 {
	if int(id) == len(v)-1 {
		return abi.TokenSpecial | abi.TokenEnd
	}
	return 0
}
func (v lexicon) EncodeData(text string) []uint32 { return v.Encode(text) }

func (v lexicon) Encode(text string) (ids []uint32) {
	for i := range len(text) {
		ids = append(ids, uint32(text[i]))
	}
	return ids
}
