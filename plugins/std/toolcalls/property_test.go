package toolcalls

import (
	"fmt"
	"math/rand/v2"
	"reflect"
	"slices"
	"strings"
	"testing"
	"unicode/utf8"
)

// TestSplits: a text cut anywhere, inside markers and characters too, gives the same events.
func TestSplits(t *testing.T) {
	r := rand.New(rand.NewPCG(1, 2))
	for _, s := range allSamples(t) {
		want := joined(feed(s.parser(t), s.text))
		check := func(pieces []string) {
			events := feed(s.parser(t), pieces...)
			for _, e := range events {
				if !utf8.ValidString(e.Text) {
					t.Fatalf("%s: %s: pieces %q: a character is divided: %q", s.file, s.name, pieces, e.Text)
				}
			}
			if got := joined(events); !reflect.DeepEqual(got, want) {
				t.Fatalf("%s: %s: pieces %q\ngot\n%s\nwant\n%s", s.file, s.name, pieces, written(got), written(want))
			}
		}
		for i := range len(s.text) + 1 { // every cut in two
			check([]string{s.text[:i], s.text[i:]})
		}
		check(strings.Split(s.text, "")) // characters
		check(bytesOf(s.text))
		for range 30 {
			check(randomPieces(r, s.text))
		}
	}
}

func bytesOf(s string) []string {
	pieces := make([]string, len(s))
	for i := range len(s) {
		pieces[i] = s[i : i+1]
	}
	return pieces
}

// randomPieces cuts s; some pieces are empty.
func randomPieces(r *rand.Rand, s string) []string {
	var pieces []string
	most := 1 + r.IntN(20)
	for s != "" {
		n := min(r.IntN(most+1), len(s))
		pieces = append(pieces, s[:n])
		s = s[n:]
	}
	return pieces
}

// TestPrefixes: what was told of a text's beginning stays true, whatever follows.
func TestPrefixes(t *testing.T) {
	for _, s := range allSamples(t) {
		want := joined(feed(s.parser(t), s.text))
		for i := range len(s.text) + 1 {
			got := joined(s.parser(t).Feed(s.text[:i]))
			if !isPrefix(got, want) {
				t.Fatalf("%s: %s: after %q\n%s\nis no beginning of\n%s", s.file, s.name, s.text[:i], written(got),
					written(want))
			}
		}
	}
}

// isPrefix says whether the events of a could be followed by more text so that they become b.
func isPrefix(a, b []Event) bool {
	if len(a) == 0 {
		return true
	}
	if len(a) > len(b) {
		return false
	}
	n := len(a) - 1
	last, same := a[n], b[n]
	last.Text, same.Text = "", ""
	return reflect.DeepEqual(a[:n], b[:n]) && last == same && strings.HasPrefix(b[n].Text, a[n].Text)
}

// TestEarly: a name is told with the byte that completes it, and arguments in JSON as they come.
func TestEarly(t *testing.T) {
	for _, c := range []struct{ preset, text, want string }{
		{"hermes", `<tool_call>{"name": "get_weather"`, "call 0 get_weather ID"},
		{"hermes", `<tool_call>{"name": "get_weather", "arguments": {"ci`, "call 0 get_weather ID\narguments 0 {\"ci"},
		{"qwen3-coder", "<tool_call>\n<function=get_weather>\n<parameter=city>\nPar",
			"call 0 get_weather ID\narguments 0 {\"city\": \"Par"},
		{"pythonic", `[get_weather(city='Par`, "call 0 get_weather ID\narguments 0 {\"city\": \"Par"},
		{"kimi-k2", `<|tool_call_begin|>functions.now:0<|tool_call_argument_begin|>{`,
			"call 0 now functions.now:0\narguments 0 {"},
		{"mistral-v11", `[TOOL_CALLS]now[ARGS]{ `, "call 0 now ID\narguments 0 { "},
		{"gpt-oss", `<|channel|>analysis<|message|>One t`, `reasoning "One t"`},
		{"hermes", `Hello <tool`, `content "Hello"`},
		{"hermes", `Hello <toolx`, `content "Hello <toolx"`},
		{"llama3-json", `{"city`, ``},
		{"llama3-json", `{"city"`, `content "{\"city\""`},
		{"hermes", `<tool_call>{"name": "nope"`, `content "<tool_call>{\"name\": \"nope\""`},
	} {
		f, _ := Preset(c.preset)
		got := written(New(f, Options{Tools: testTools(t), Seed: 1}).Feed(c.text))
		got = strings.ReplaceAll(strings.ReplaceAll(got, f.id(1), "ID"), "\nID", "ID")
		if got != c.want {
			t.Errorf("%s: %s\ngot\n%s\nwant\n%s", c.preset, c.text, got, c.want)
		}
	}
}

// TestCutInsideMarker: a mark that the end of the text cut in the middle of a character, which the host writes as a
// replacement, is dropped behind a complete call like one that it cut between two.
func TestCutInsideMarker(t *testing.T) {
	f, _ := Preset("deepseek-v3.1")
	const call = "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>now<｜tool▁sep｜>{}<｜tool▁call▁end｜>"
	for _, cut := range []string{"", "<", "<\uFFFD", "<｜tool\uFFFD", "<｜tool▁calls▁end", "<｜tool▁calls▁end\uFFFD"} {
		p := New(f, Options{Tools: testTools(t), Seed: 1})
		got := written(append(slices.Clone(p.Feed(call+cut)), p.Finish()...))
		if strings.Contains(got, "content") || !strings.Contains(got, "now") {
			t.Errorf("%q: %s", cut, got)
		}
	}
}

// id is the id that the format's parser makes for the first call.
func (f *Format) id(seed uint64) string { return compile(f).id(seed, 0) }

// TestLimits: a call that is too long, too deep or one too many fails, and is content where nothing was told of it.
func TestLimits(t *testing.T) {
	f, _ := Preset("hermes")
	long := strings.Repeat("x", 100)
	for _, c := range []struct {
		limits     Limits
		text, want string
	}{
		{Limits{Call: 60}, `<tool_call>{"name": "now", "arguments": {"a": "` + long + `"}}</tool_call>.`, "too long"},
		{Limits{Call: 60}, `<tool_call>{"arguments": {"a": "` + long + `"}, "name": "now"}</tool_call>.`, ""},
		{Limits{Depth: 3}, `<tool_call>{"name": "now", "arguments": {"a": [[[]]]}}</tool_call>.`, "too long"},
		{Limits{Calls: 1}, `<tool_call>{"name": "now"}</tool_call><tool_call>{"name": "now"}</tool_call>.`,
			"too many calls"},
	} {
		for _, pieces := range [][]string{{c.text}, bytesOf(c.text)} {
			events := joined(feed(New(f, Options{Tools: testTools(t), Limits: c.limits}), pieces...))
			checkOrder(t, events)
			var reason Reason
			text := ""
			for _, e := range events {
				if e.Kind == CallFailed {
					reason = e.Reason
				}
				if e.Kind == Content {
					text += e.Text
				}
			}
			want := "."
			if c.want == "" {
				want = c.text
			}
			if string(reason) != c.want || text != want {
				t.Errorf("%+v: %s: reason %q, content %q; want %q, %q", c.limits, c.text, reason, text, c.want, want)
			}
		}
	}
}

// TestHeld: what may still become a name is not held for ever.
func TestHeld(t *testing.T) {
	for _, c := range []struct{ preset, text string }{
		{"mistral-v11", "[TOOL_CALLS]"}, {"hermes", `<tool_call>{"name": "`}, {"hermes", `<tool_call>{"`},
		{"qwen3-coder", "<tool_call><function="}, {"glm-4.5", "<tool_call>"}, {"pythonic", "["},
		{"gpt-oss", "<|channel|>"},
		{"kimi-k2", "<|tool_call_begin|>"},
	} {
		f, _ := Preset(c.preset)
		text := c.text + strings.Repeat("n", maxText+maxMarker+1)
		got := joined(New(f, Options{Tools: testTools(t)}).Feed(text))
		if len(got) != 1 || got[0].Kind != Content || len(got[0].Text) < maxText {
			t.Errorf("%s: %s and %d bytes: %v; want content", c.preset, c.text, len(text)-len(c.text), got)
		}
	}
}

// TestSpaceHeld: a long run of white space is told at last, and split anywhere it is the same text.
func TestSpaceHeld(t *testing.T) {
	f, _ := Preset("hermes")
	text := "a" + strings.Repeat("\n", 50) + "b" + strings.Repeat(" ", 9) + "c\n"
	for _, pieces := range [][]string{{text}, bytesOf(text)} {
		p := New(f, Options{Tools: testTools(t), Limits: Limits{Space: 10}})
		if got := written(feed(p, pieces...)); got != fmt.Sprintf("content %q", text) {
			t.Errorf("%d pieces: %s", len(pieces), got)
		}
	}
}

// TestIDs: ids have the shape that templates demand, differ, and depend on seed and index only.
func TestIDs(t *testing.T) {
	f, _ := Preset("mistral")
	seen := make(map[string]bool)
	for seed := range uint64(200) {
		for i := range 5 {
			id := compile(f).id(seed, i)
			if len(id) != 9 || strings.Trim(id,
				"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789") != "" {
				t.Fatalf("id %q; want 9 letters and digits", id)
			}
			if id != compile(f).id(seed, i) {
				t.Fatalf("seed %d gives two ids", seed)
			}
			seen[id] = true
		}
	}
	if len(seen) != 1000 {
		t.Errorf("%d different ids of 1000", len(seen))
	}
}

// TestLongNames: names and keys at the limit are cut the same way however the text was fed.
func TestLongNames(t *testing.T) {
	r := rand.New(rand.NewPCG(5, 6))
	o := Options{Tools: testTools(t)}
	hermes, _ := Preset("hermes")
	checkText(t, hermes, o, `<tool_call>{"name": "`+strings.Repeat("n", maxText+100)+
		`<tool_call>{"name": "now"}</tool_call>`, r)
	for _, s := range allSamples(t) {
		f := s.parser(t).f.Format
		for _, old := range []string{"get_weather", "city", "now"} {
			if !strings.Contains(s.text, old) {
				continue
			}
			for range 2 {
				n := maxText - 12 + r.IntN(15)
				part := []string{"n", "\n", "<tool_call>", "[TOOL_CALLS]"}[r.IntN(4)]
				long := strings.Repeat(part, n/len(part)+1)
				checkText(t, f, o, strings.Replace(s.text, old, long, 1)+" "+s.text, r)
				if t.Failed() {
					t.Fatalf("%s: %s: %s of %d bytes", s.file, s.name, old, n)
				}
			}
		}
	}
}
