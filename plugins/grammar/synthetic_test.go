package grammar_test

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync"

	"tgi/plugins/grammar"
	"tgi/sdk/abi"
)

// large is a made-up vocabulary of 128,256 tokens in the shape of those of large models: all bytes, words with and
// without a space and a capital, pieces of words, numbers to 999, runs of white space, punctuation with and without
// quotes, other scripts, partly cut within characters, and special tokens at the end. TGI_BENCH_TOKENIZER names a
// tokenizer.json with byte-level BPE to use instead.
var large = sync.OnceValue(func() words {
	if path := os.Getenv("TGI_BENCH_TOKENIZER"); path != "" {
		return fromFile(path)
	}
	const size = 128_256
	r := rand.New(rand.NewPCG(7, 7))
	seen := map[string]bool{}
	var w words
	add := func(t string) {
		if t != "" && len(w) < size-256 && !seen[t] {
			seen[t] = true
			w = append(w, struct {
				text  string
				flags uint32
			}{t, 0})
		}
	}
	for b := range 256 {
		add(string([]byte{byte(b)}))
	}
	for n := range 1000 {
		add(fmt.Sprint(n))
		add(fmt.Sprintf("%02d", n%100))
		add(fmt.Sprintf("%03d", n))
	}
	whites(add)
	punctuation(r, add)
	scripts(r, add)
	for len(w) < size-256 {
		p := word26(r)
		switch r.IntN(9) {
		case 0, 1, 2, 3:
			p = " " + p
		case 4:
			p = " " + strings.ToUpper(p[:1]) + p[1:]
		case 5:
			p = strings.ToUpper(p[:1]) + p[1:]
		case 6:
			p = strings.ToUpper(p)
		}
		add(p)
	}
	for i := range 256 {
		f := abi.TokenSpecial
		if i < 2 {
			f |= abi.TokenEnd
		}
		w = append(w, struct {
			text  string
			flags uint32
		}{fmt.Sprintf("<|special_%d|>", i), uint32(f)})
	}
	return w
})

// fromFile reads the vocabulary of a tokenizer.json; it panics if it can't.
func fromFile(path string) words {
	b, err := os.ReadFile(path)
	if err != nil {
		panic(err)
	}
	var file struct {
		Model struct {
			Vocab map[string]uint32 `json:"vocab"`
		} `json:"model"`
		Added []struct {
			ID      uint32 `json:"id"`
			Content string `json:"content"`
			Special bool   `json:"special"`
		} `json:"added_tokens"`
	}
	if err := json.Unmarshal(b, &file); err != nil {
		panic(err)
	}
	alphabet, next := map[rune]byte{}, rune(256) // GPT-2's letters for bytes
	for b := range rune(256) {
		if '!' <= b && b <= '~' || 0xA1 <= b && b <= 0xAC || 0xAE <= b {
			alphabet[b] = byte(b)
		} else {
			alphabet[next] = byte(b)
			next++
		}
	}
	w := make(words, len(file.Model.Vocab)+len(file.Added))
	for letters, id := range file.Model.Vocab {
		var t []byte
		for _, r := range letters {
			t = append(t, alphabet[r])
		}
		w[id].text = string(t)
	}
	for _, a := range file.Added {
		w[a.ID].text = a.Content
		if a.Special {
			w[a.ID].flags = abi.TokenSpecial
		}
	}
	w[len(file.Model.Vocab)].flags |= abi.TokenEnd
	return w
}

func whites(add func(string)) {
	for n := 1; n <= 128; n++ {
		add(strings.Repeat(" ", n))
	}
	for n := 1; n <= 24; n++ {
		add(strings.Repeat("\t", n))
		add(strings.Repeat("\n", n))
		for m := range 40 {
			if n <= 4 {
				add(strings.Repeat("\n", n) + strings.Repeat(" ", m))
				add("\r\n" + strings.Repeat(" ", m))
				add(strings.Repeat(" ", m) + strings.Repeat("\n", n))
			}
			if n <= 6 && m <= 12 {
				add(strings.Repeat("\n", n) + strings.Repeat("\t", m))
			}
		}
	}
}

// punctuation makes about 6,000 tokens, half of them with a quote or a backslash.
func punctuation(r *rand.Rand, add func(string)) {
	const marks = "!#$%&'()*+,-./:;<=>?@[]^_`{|}~\"\"\"\"\"\"\\\\"
	for _, t := range strings.Fields(`", ": "," ":" "} "}, "}] "] "], {" [{" ["  ": " "," "," {"" "", "/> "> ")) ") "); ="  =" (" ("" `) {
		add(t)
		add(" " + t)
		add(t + "\n")
	}
	for range 4200 {
		n := 1 + r.IntN(4)
		var t []byte
		for range n {
			t = append(t, marks[r.IntN(len(marks))])
		}
		add(string(t))
	}
	for range 900 {
		add(string(marks[r.IntN(len(marks))]) + word26(r))
		add("\"" + word26(r))
		add(" \"" + word26(r))
	}
	for n := 2; n <= 64; n++ {
		for _, c := range "-=*#_.~" {
			add(strings.Repeat(string(c), n))
		}
	}
}

// scripts makes about 18,000 tokens of other scripts, 1,000 of them cut within a character.
func scripts(r *rand.Rand, add func(string)) {
	for _, s := range []struct {
		lo, hi rune
		n, max int
	}{{0x430, 0x44F, 6000, 8}, {0x3B1, 0x3C9, 1200, 6}, {0x4E00, 0x5FFF, 5000, 3}, {0xAC00, 0xBFFF, 2500, 3},
		{0x627, 0x64A, 1500, 6}, {0xE0, 0xFF, 1500, 4}, {0x1F300, 0x1F5FF, 300, 1}} {
		for i := range s.n {
			var t []rune
			for range 1 + r.IntN(s.max) {
				t = append(t, s.lo+rune(r.IntN(int(s.hi-s.lo+1))))
			}
			p := string(t)
			if r.IntN(2) == 0 {
				p = " " + p
			}
			add(p)
			if i%18 == 0 {
				add(p[:len(p)-1])
			}
		}
	}
}

// word26 returns a word or a piece of one, made of syllables; longer ones are rarer.
func word26(r *rand.Rand) string {
	const cons, vowels = "bcdfghjklmnpqrstvwxyz", "aeiou"
	var b strings.Builder
	for n := 1 + r.IntN(3) + r.IntN(2); n > 0; n-- {
		b.WriteByte(cons[min(r.IntN(len(cons)), r.IntN(len(cons)))])
		b.WriteByte(vowels[r.IntN(len(vowels))])
		if r.IntN(3) == 0 {
			b.WriteByte(cons[r.IntN(len(cons))])
		}
	}
	return b.String()
}

var largeVocab = sync.OnceValue(func() *grammar.Vocab { return grammar.NewVocab(large(), 0) })

// longest splits a text greedily into the longest tokens, which is close to what a tokenizer does.
var longest = sync.OnceValue(func() func(text string) []uint32 {
	ids, most := map[string]uint32{}, 0
	for id, t := range large() {
		if t.flags == 0 {
			ids[t.text] = uint32(id)
			most = max(most, len(t.text))
		}
	}
	return func(text string) (out []uint32) {
		for text != "" {
			n := min(most, len(text))
			for ; ids[text[:n]] == 0 && text[:n] != "\x00"; n-- {
			}
			out, text = append(out, ids[text[:n]]), text[n:]
		}
		return out
	}
})
