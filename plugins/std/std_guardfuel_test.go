package std_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"

	"tgi/conformance/long"
	"tgi/plugins/guard"
	"tgi/plugins/internal/guest"
	"tgi/runtime/llm"
)

// tokens is a vocabulary in which a token is the bytes at its place.
type pieced []string

func (v pieced) Size() int                    { return len(v) }
func (v pieced) Bytes(id uint32) []byte       { return []byte(v[id]) }
func (v pieced) Flags(uint32) uint32          { return 0 }
func (v pieced) Encode(s string) []uint32     { return make([]uint32, min(len(s), 1)) }
func (v pieced) EncodeData(s string) []uint32 { return v.Encode(s) }

// watched is a sequence beside which another guard lets nothing go until `others` tokens are held.
type watched struct {
	t      *testing.T
	g      *guest.Guest
	s      *guest.Session
	check  *guard.Checker
	vocab  pieced
	others int

	prompt, output []uint32
	text           []byte
	ends           []uint32 // of all tokens of the output
	released, kept int

	shown []byte // what went out
	most  uint64 // fuel of the dearest check
	full  bool   // it holds more than it may: the text has ended
}

// push shows the guard a token and does what it says. It reports whether that took tokens back.
func (w *watched) push(id uint32, reason llm.Reason) (back bool) {
	w.t.Helper()
	w.text = append(w.text, w.vocab[id]...)
	w.output, w.ends = append(w.output, id), append(w.ends, uint32(len(w.text)))
	for {
		seen := 0
		if w.released > 0 {
			seen = int(w.ends[w.released-1])
		}
		from := max(seen-llm.GuardContext, 0)
		view := llm.GuardView{Prompt: w.prompt, Output: w.output, Released: w.released, New: len(w.output) - w.kept,
			Text: w.text[from:], Context: seen - from, Reason: reason}
		for _, end := range w.ends[w.released:] {
			view.Ends = append(view.Ends, end-uint32(from))
		}
		before := w.g.Stats().Fuel
		v, err := w.check.Check(&view)
		if err != nil {
			w.t.Fatalf("behind %d tokens, %d bytes of them held: %v", len(w.output), len(w.text)-seen, err)
		}
		w.most = max(w.most, w.g.Stats().Fuel-before)
		w.kept = len(w.output)
		switch v.Kind {
		case llm.VerdictRewind:
			w.cut(v.Position)
			return true
		case llm.VerdictReplace:
			w.shown = append(w.shown, v.Text...)
			w.released = v.Position
			if w.released < len(w.output) {
				continue
			}
		default:
			w.full = len(w.output)-v.Position > llm.MaxHold
			to := min(v.Position, len(w.output)-w.others)
			if reason != llm.FinishNone {
				to = v.Position
			}
			if to > w.released {
				w.shown = append(w.shown, w.text[seen:w.ends[to-1]]...)
				w.released = to
			}
		}
		return false
	}
}

// write shows the guard a text, with another token wherever one was taken back, as long as tokens may be.
func (w *watched) write(ids []uint32) {
	w.t.Helper()
	backs := 0
	for i, id := range ids {
		reason := llm.FinishNone
		if i == len(ids)-1 {
			reason = llm.FinishLength
		}
		if w.push(id, reason) {
			backs++
			w.push(0, llm.FinishNone)
		}
		if w.full || backs > 32 {
			return
		}
	}
}

// cut takes all tokens from a position on back.
func (w *watched) cut(position int) {
	w.output, w.ends, w.kept = w.output[:position], w.ends[:position], min(w.kept, position)
	w.text = w.text[:0]
	for _, id := range w.output {
		w.text = append(w.text, w.vocab[id]...)
	}
}

// watch begins a sequence with a guard.
func watch(t *testing.T, g *guest.Guest, params string, prompt []uint32, others int) *watched {
	t.Helper()
	if err := g.Validate(nil, []byte(params)); err != nil {
		t.Fatal(err)
	}
	s := begin(t, g, params, prompt)
	return &watched{t: t, g: g, s: s, check: guard.NewChecker(s), vocab: g.Vocabulary().(pieced), prompt: prompt,
		others: others}
}

// badTexts are what the lists of badLists and the built-in guards are worst with.
var badTexts = []string{
	strings.Repeat("a", 4000),
	strings.Repeat("aa-", 1500),
	strings.Repeat(strings.Repeat("a", 254)+"c", 16),
	strings.Repeat("aé", 1500),
	strings.Repeat("\xc3", 1500),
	strings.Repeat(" ", 9000),
	strings.Repeat(" sk-", 1000),
	strings.Repeat("a@a.", 1000),
	strings.Repeat("4000 0000 0000 0000 000 ", 200),
	strings.Repeat("-----BEGIN ", 400),
	strings.Repeat(`\`, 4000),
	strings.Repeat(`\u0061`, 1500),
	strings.Repeat(`aaa\u00e9`, 800),
	`\` + strings.Repeat("aa-", 1500),
	strings.Repeat(`\ud83d`, 1000),
	strings.Repeat("-----BEGIN PRIVATE KEY", 200), // the dashes in front of each end the one before
	strings.Repeat("eyJ.", 1200),
	strings.Repeat("a@b.cd", 800),
	strings.Repeat(strings.Repeat("a", 64)+"@"+strings.Repeat("b.", 100), 20),
	"-----BEGIN PRIVATE KEY-----" + strings.Repeat("sk-aaaaaaaaaaaaaaaaaaaaaaaaaaaaa.", 200),
}

// cutTexts are the texts, each cut into tokens of 1, 4 and 256 bytes, and one of the tokens, ".".
func cutTexts() (vocab pieced, texts [][]uint32) {
	vocab = pieced{"."}
	at := map[string]uint32{}
	for _, text := range badTexts {
		for _, size := range []int{1, 4, 256} {
			var ids []uint32
			for left := text; left != ""; left = left[min(size, len(left)):] {
				piece := left[:min(size, len(left))]
				id, ok := at[piece]
				if !ok {
					id = uint32(len(vocab))
					at[piece], vocab = id, append(vocab, piece)
				}
				ids = append(ids, id)
			}
			texts = append(texts, ids)
		}
	}
	return vocab, texts
}

// badLists are as large as banned-strings takes them, and as bad for a search as they can be.
var badLists = map[string]func() []string{
	"random": func() (out []string) {
		r := rand.New(rand.NewPCG(1, 2))
		for range 1024 {
			b := make([]byte, 32)
			for i := range b {
				b[i] = "abcdefghijklmnopqrstuvwxyz "[r.IntN(27)]
			}
			out = append(out, string(b))
		}
		return out
	},
	"end": func() (out []string) { // they differ where they end
		for i := range 1024 {
			out = append(out, strings.Repeat("a", 28)+fmt.Sprintf("%04d", i))
		}
		return out
	},
	"nested": func() (out []string) { // of all lengths, and of each the next is a part
		for i := 1; i < 255; i++ {
			out = append(out, strings.Repeat("a", i)+"b")
		}
		return out
	},
	"long": func() (out []string) {
		for i := range 128 {
			out = append(out, strings.Repeat("a", 253)+fmt.Sprintf("%03d", i))
		}
		return out
	},
	"words": func() (out []string) { // that begin within words
		for n, i := 0, 1; n+i <= 32_768; i++ {
			if word := strings.Repeat("aa-", 86)[258-i:]; i < 256 && word[0] == 'a' {
				out = append(out, word)
				n += i
			} else if i >= 256 {
				break
			}
		}
		return out
	},
	"two": func() (out []string) { // letters of two bytes
		r := rand.New(rand.NewPCG(3, 4))
		for range 1024 {
			b := make([]rune, 16)
			for i := range b {
				b[i] = []rune("éàüöäßñçжщюяêîôûΩ×")[r.IntN(18)]
			}
			out = append(out, string(b))
		}
		return out
	},
	"cut": func() (out []string) { // letters that are alone
		r := rand.New(rand.NewPCG(3, 4))
		for range 1024 {
			b := make([]byte, 32)
			for i := range b {
				b[i] = "abcdefghijklmnopqrstuvwxyz.,:; -+"[r.IntN(26)+i%2*7]
			}
			out = append(out, string(b))
		}
		return out
	},
	"wide": func() (out []string) { // many go on from each letter
		for c := rune(32); len(out) < 1024; c++ {
			out = append(out, "aa"+string(c), "a"+string(c)+"a", string(c)+strings.Repeat("a", 20))
		}
		return out[:1024]
	},
}

// TestGuardFuel: with the largest parameters and the worst texts, no guard uses up what a step may use, and each is
// ready within what a request may use.
func TestGuardFuel(t *testing.T) {
	vocab, texts := cutTexts()
	cases := map[string][]string{"loop-breaker": {`{}`, `{"rounds":2,"tokens":200}`, `{"rounds":64,"period":100}`}}
	config := map[string]string{}
	with := strings.Repeat("*", 64)
	cases["redact"] = []string{`{}`, string(marshal(t, object{"strings": []string{"a", " ", "aa", "4"}, "with": with}))}
	for name, list := range badLists {
		all := list()
		// as many as redact takes; those of an operator may be longer
		some := slices.Clone(all[:min(len(all), 256)])
		for i := range some {
			some[i] += strings.Repeat("a", max(0, 128-len(some[i])))
			some[i] = strings.ToValidUTF8(some[i][len(some[i])-128:], "")
		}
		most := slices.Clone(some)
		for i := range most {
			most[i] += strings.Repeat("a", 128)
		}
		for _, list := range [][]string{some, all[:min(len(all), 128)]} {
			cases["redact"] = append(cases["redact"],
				string(marshal(t, object{"strings": list, "ignore_case": true, "with": with})))
		}
		config["redact "+name] = string(marshal(t, object{"strings": most, "with": with}))
		cases["redact "+name] = []string{`{}`, `{"patterns":[]}`}
		for _, more := range []object{{}, {"whole_word": true, "depth": 16}, {"ignore_case": false}} {
			more["strings"] = all
			cases["banned-strings"] = append(cases["banned-strings"], string(marshal(t, more)))
		}
		// those of the operator and of the request together
		of := "banned-strings " + name
		config[of] = string(marshal(t, object{"strings": all[:len(all)/2]}))
		cases[of] = []string{`{"depth":16}`,
			string(marshal(t, object{"strings": all[len(all)/2:], "whole_word": true}))}
	}
	for of, params := range cases {
		name, _, _ := strings.Cut(of, " ")
		t.Run(of, func(t *testing.T) {
			t.Parallel()
			g, err := tryLoadWith(t, module(t, name), config[of], vocab)
			if err != nil {
				t.Fatal(err)
			}
			var runs []func()
			var most, dearest uint64
			for i, p := range params {
				for j, ids := range texts {
					runs = append(runs, func() {
						before := g.Stats().Fuel
						w := watch(t, g, p, ids[:min(len(ids), 600)], (i+j)%2*500)
						dearest = max(dearest, g.Stats().Fuel-before)
						w.write(ids)
						w.s.Close()
						most = max(most, w.most)
					})
				}
			}
			for _, run := range long.Every(7, runs) {
				run()
			}
			t.Logf("fuel: at most %d to validate and begin, and %d a step", dearest, most)
			if s := g.Stats(); s.Faults != (guest.Faults{}) {
				t.Errorf("%+v", s.Faults)
			}
		})
	}
}

// TestGuardsBesideOthers: what goes out does not depend on how long another guard holds it.
func TestGuardsBesideOthers(t *testing.T) {
	parts := []string{"a", " ", "sk-", "0123456789abcdefghij", "bob@x.io", "4111 1111 1111 1111",
		"-----BEGIN PRIVATE KEY-----", "KEY-----", "aab", "aaaab", "é", ".", `\`, "u0061b", `\u00`}
	r := rand.New(rand.NewPCG(5, 6))
	vocab := pieced(parts)
	g, err := tryLoadWith(t, module(t, "redact"), ``, vocab)
	if err != nil {
		t.Fatal(err)
	}
	params := `{"strings":["aab","aaaaaaaaab"],"with":"*"}`
	replaced := 0
	for range long.Count(60, 600) {
		var ids []uint32
		for range 120 + r.IntN(2)*400 { // some have more than a step looks at
			id := uint32(r.IntN(len(parts)))
			for range 1 + r.IntN(3)*r.IntN(2) {
				ids = append(ids, id)
			}
		}
		var shown []string
		for _, others := range []int{0, 5, 50, 500} {
			w := watch(t, g, params, nil, others)
			w.write(ids)
			w.s.Close()
			shown = append(shown, string(w.shown))
		}
		if len(slices.Compact(slices.Clone(shown))) > 1 {
			t.Fatalf("alone, and beside others that hold more and more:\n%q", shown)
		}
		replaced += strings.Count(shown[0], "*")
	}
	if replaced < 500 {
		t.Errorf("%d parts were replaced", replaced)
	}
}

// TestBehindAnothersReplacement: where another guard replaces the first tokens of what redact looks at, redact replaces
// the rest of what it finds there.
func TestBehindAnothersReplacement(t *testing.T) {
	text := "a SECRETWORD, bob@mail.example.org, 4111 1111 1111 1111, sk-0123456789abcdefghij."
	vocab := pieced{"."}
	var ids []uint32
	for i := range text {
		ids = append(ids, uint32(len(vocab)))
		vocab = append(vocab, text[i:i+1])
	}
	g, err := tryLoadWith(t, module(t, "redact"), ``, vocab)
	if err != nil {
		t.Fatal(err)
	}
	want := "a *, *, *, *."
	for from := range len(text) - 2 {
		w := watch(t, g, `{"strings":["SECRETWORD"],"with":"*"}`, nil, 500)
		for i, id := range ids {
			reason := llm.FinishNone
			if i == len(ids)-1 {
				reason = llm.FinishLength
			}
			if i == from+2 && w.released <= from {
				w.released, w.shown = from+1, append(w.shown, '?')
			}
			w.push(id, reason)
		}
		w.s.Close()
		_, rest, _ := strings.Cut(string(w.shown), "?")
		if !strings.HasSuffix(want, rest) {
			t.Errorf("behind %q, which another guard replaced, goes out %q", text[:from+1], rest)
		}
	}
}
