package toolcalls

import (
	"math/rand/v2"
	"reflect"
	"strings"
	"testing"

	"tgi/conformance/long"
)

// checkText demands of any text what the documentation promises: the same events however it is cut, in order, no more
// text than was fed, and the beginning of a text never says what its whole does not.
func checkText(t testing.TB, f *Format, o Options, text string, r *rand.Rand) {
	t.Helper()
	want := joined(feed(New(f, o), text))
	checkOrder(t, want)
	for _, pieces := range [][]string{bytesOf(text), randomPieces(r, text)} {
		if got := joined(feed(New(f, o), pieces...)); !reflect.DeepEqual(got, want) {
			t.Errorf("%s: text %q: pieces %q\ngot\n%s\nwant\n%s", f.Name, text, pieces, written(got), written(want))
		}
	}
	cut := 0
	if len(text) > 0 {
		cut = r.IntN(len(text))
	}
	if got := joined(New(f, o).Feed(text[:cut])); !isPrefix(got, want) {
		t.Errorf("%s: after %q\n%s\nis no beginning of\n%s", f.Name, text[:cut], written(got), written(want))
	}
	var told string
	for _, e := range want {
		if e.Kind == Content || e.Kind == Reasoning {
			told += e.Text
		}
	}
	if len(f.presetAnswers()) == 0 && !isSubsequence(told, text) {
		t.Errorf("%s: content and reasoning %q are no part of the text %q", f.Name, told, text)
	}
}

// presetAnswers are the names whose content is decoded from JSON, so that it is no part of the source.
func (f *Format) presetAnswers() map[string]string {
	if f.JSON == nil {
		return nil
	}
	return f.JSON.Answers
}

// isSubsequence says whether a is b with some bytes left out.
func isSubsequence(a, b string) bool {
	for i := range len(a) {
		at := strings.IndexByte(b, a[i])
		if at < 0 {
			return false
		}
		b = b[at+1:]
	}
	return true
}

// TestMutations parses texts made of pieces of the samples and the formats' markers, put together wrongly.
func TestMutations(t *testing.T) {
	n := long.Count(30, 150)
	r := rand.New(rand.NewPCG(3, 4))
	tools := testTools(t)
	samples := allSamples(t)
	for _, name := range Presets() {
		f, _ := Preset(name)
		var texts []string
		for _, s := range samples {
			if strings.HasSuffix(s.file, "/"+name+".txt") {
				texts = append(texts, s.text)
			}
		}
		parts := []string{`{"name": "now", "arguments": {}}`, "now", `"`, "{", "}", "[", "]", ",", "\n", " ", "x", "\\",
			"é", "\xff", "now()", ";"}
		for _, list := range f.lists() {
			parts = append(parts, list...)
		}
		for range n {
			o := Options{Tools: tools, Seed: 1, Thinking: r.IntN(4) == 0, Limits: Limits{Space: r.IntN(8),
				Call: 20 + r.IntN(400)}}
			o.Choice.Mode = []Mode{Auto, Auto, None, Required}[r.IntN(4)]
			o.Choice.Single = r.IntN(4) == 0
			checkText(t, f, o, mutated(r, texts, parts), r)
			if t.Failed() {
				return
			}
		}
	}
}

// mutated is a sample with some parts put in, and some bytes taken out or doubled.
func mutated(r *rand.Rand, texts, parts []string) string {
	s := texts[r.IntN(len(texts))]
	for range r.IntN(6) {
		i := r.IntN(len(s) + 1)
		j := min(len(s), i+r.IntN(12))
		switch r.IntN(4) {
		case 0:
			s = s[:i] + s[j:]
		case 1:
			s = s[:j] + s[i:]
		case 2:
			s = s[:i] + parts[r.IntN(len(parts))] + s[i:]
		case 3:
			other := texts[r.IntN(len(texts))]
			s = s[:i] + other[r.IntN(len(other)+1):]
		}
	}
	return s
}

// FuzzParser feeds any text to any preset.
func FuzzParser(f *testing.F) {
	for _, s := range allSamples(f) {
		for i, name := range Presets() {
			if strings.HasSuffix(s.file, "/"+name+".txt") {
				f.Add(uint8(i), uint8(0), s.text)
			}
		}
	}
	tools := testTools(f)
	f.Fuzz(func(t *testing.T, preset, mode uint8, text string) {
		if len(text) > 1<<12 {
			return
		}
		format, _ := Preset(Presets()[int(preset)%len(Presets())])
		o := Options{Tools: tools, Limits: Limits{Call: 300, Space: 20, Depth: 20}}
		o.Choice.Mode = []Mode{Auto, None, Required}[mode%3]
		o.Thinking, o.Choice.Single = mode&8 != 0, mode&16 != 0
		checkText(t, format, o, text, rand.New(rand.NewPCG(uint64(len(text)), uint64(mode))))
	})
}

// FuzzFormat reads any JSON as a format; one that passes its check parses without harm.
func FuzzFormat(f *testing.F) {
	for _, format := range presets {
		f.Add(marshal(f, format), "<tool_call>{\"name\":\"now\"}")
	}
	tools := testTools(f)
	f.Fuzz(func(t *testing.T, data []byte, text string) {
		format, err := ReadFormat(data)
		if err != nil || len(text) > 1<<12 {
			return
		}
		checkOrder(t, feed(New(format, Options{Tools: tools}), text))
		if a, b := joined(feed(New(format, Options{Tools: tools}), text)),
			joined(feed(New(format, Options{Tools: tools}), bytesOf(text)...)); !reflect.DeepEqual(a, b) {
			t.Errorf("format %s: text %q\n%s\nbyte by byte\n%s", data, text, written(a), written(b))
		}
	})
}
