package std_test

import (
	"context"
	"encoding/json"
	"errors"
	"math/bits"
	"math/rand/v2"
	"os"
	"regexp"
	"strings"
	"testing"

	kit "tgi/conformance/guest"
	"tgi/plugins"
	"tgi/plugins/grammar"
)

// crowded is a vocabulary of as many tokens as large models have: all bytes, and words of several scripts, with and
// without a space or a mark before them, some cut within a character.
func crowded() *kit.World {
	const size = 100_000
	world, r := kit.NewWorld(), rand.New(rand.NewPCG(7, 7))
	seen := map[string]bool{}
	alphabets := []struct{ lo, hi rune }{{'a', 'z'}, {'a', 'z'}, {'A', 'Z'}, {'0', '9'}, {'!', '~'}, {0xE0, 0xFF},
		{0x3B1, 0x3C9}, {0x430, 0x44F},
		{0x627, 0x64A}, {0x915, 0x94D}, {0x4E00, 0x5FFF}, {0xAC00, 0xBFFF}, {0x1F300, 0x1F5FF}}
	for len(world.Words) < size {
		a := alphabets[r.IntN(len(alphabets))]
		word := []string{"", " ", " ", ".", "-", "@", "/"}[r.IntN(7)]
		for range 1 + r.IntN(8) {
			word += string(a.lo + r.Int32N(a.hi-a.lo+1))
		}
		if r.IntN(20) == 0 {
			word = word[:len(word)-1]
		}
		if len(word) > 1 && word[0] != '<' && !seen[word] { // those that begin with < are special
			seen[word] = true
			world.Words = append(world.Words, word)
		}
	}
	return world
}

// formatNames are those that the plugin's source has a case for, but for those that it refuses.
func formatNames(t *testing.T) (names []string) {
	t.Helper()
	source, err := os.ReadFile("grammar/src/schema/formats.rs")
	if err != nil {
		t.Fatal(err)
	}
	_, cases, _ := strings.Cut(string(source), "match name {")
	cases, _, _ = strings.Cut(cases, "_ =>")
	for _, list := range regexp.MustCompile(`(?m)^\s*("[a-z0-9"| -]+") => (.*)$`).FindAllStringSubmatch(cases, -1) {
		if strings.HasPrefix(list[2], "return None") {
			continue
		}
		for name := range strings.SplitSeq(list[1], "|") {
			names = append(names, strings.Trim(name, ` "`))
		}
	}
	if len(names) < 26 {
		t.Fatalf("found the formats %q: want 26 and more", names)
	}
	return names
}

// TestFormatsWithinLimits: texts of every format can be followed over a large vocabulary, whatever they turn to,
// without a mask that takes more work than it may, and are JSON when they end.
func TestFormatsWithinLimits(t *testing.T) {
	world := crowded()
	set := openGrammarOver(t, world)
	for _, name := range formatNames(t) {
		g, err := set.Compile(context.Background(), plugins.GrammarCall{
			Plugin: "grammar", Language: "json_schema", Source: marshal(t, object{"type": "string", "format": name})})
		if err != nil {
			t.Errorf("%s: %v", name, err)
			continue
		}
		ended := 0
		for seed := range uint64(20) {
			text, end, err := wander(t, world, g, rand.New(rand.NewPCG(seed, 1)))
			var value string
			switch {
			case err != nil:
				t.Errorf("%s, text %d, behind %q: %v (limit: %v)", name, seed, text, err,
					errors.Is(err, grammar.ErrLimit))
			case end && json.Unmarshal([]byte(text), &value) != nil:
				t.Errorf("%s, text %d: %q is no string in JSON", name, seed, text)
			case end:
				ended++
			}
		}
		if ended == 0 {
			t.Errorf("%s: no text ended", name)
		}
		g.Close()
	}
}

// wander takes up to 60 tokens of those that may come, as often a mark, a byte or any of them, and from half of the way
// on the end where it may come. The text is what there is when it ends or fails.
func wander(t *testing.T, world *kit.World, g *plugins.Grammar, r *rand.Rand) (text string, end bool, err error) {
	t.Helper()
	const theEnd, bytes = 258, 256
	s, err := g.Sequence(context.Background(), 1)
	if err != nil {
		t.Fatal(err)
	}
	defer s.Close()
	mask := make([]uint32, (len(world.Words)+31)/32)
	for n := range 60 {
		if _, err := s.Mask(mask); err != nil {
			return text, false, err
		}
		var marks, single, all []uint32
		for i, word := range mask {
			for ; word != 0; word &= word - 1 {
				id := uint32(i*32 + bits.TrailingZeros32(word))
				all = append(all, id)
				if id < bytes {
					single = append(single, id)
				}
				if id < 0x80 && strings.ContainsRune(`!"#%&*+,-./:;=?@[]_{}~`, rune(id)) {
					marks = append(marks, id)
				}
			}
		}
		list := [][]uint32{marks, single, all}[r.IntN(3)]
		if len(list) == 0 {
			list = all
		}
		token := list[r.IntN(len(list))]
		if n >= 30 && mask['"'/32]>>('"'%32)&1 != 0 {
			token = '"'
		}
		if mask[theEnd/32]>>(theEnd%32)&1 != 0 {
			token = theEnd
		}
		if err := s.Accept(token); err != nil {
			return text, false, err
		}
		if token == theEnd {
			return text, true, nil
		}
		text += world.Words[token]
	}
	return text, false, nil
}
