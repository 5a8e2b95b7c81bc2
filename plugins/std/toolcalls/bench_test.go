package toolcalls

import (
	"fmt"
	"strings"
	"testing"
)

// tokens cuts a text as a tokenizer would, about 4 bytes each.
func tokens(s string) []string {
	var out []string
	for len(s) > 4 {
		out = append(out, s[:4])
		s = s[4:]
	}
	return append(out, s)
}

// BenchmarkFeed is the time to feed one piece: text, thoughts, JSON arguments, and tagged arguments.
func BenchmarkFeed(b *testing.B) {
	tools := testTools(b)
	long := strings.Repeat("A sentence with <b>marks</b>, and a line break.\n", 200)
	quoted := quote(long)
	for _, c := range []struct{ name, preset, text string }{
		{"content", "hermes", long},
		{"reasoning", "hermes", "<think>" + long},
		{"json", "hermes", `<tool_call>{"name": "write_file", "arguments": {"path": "a", "text": ` + quoted +
			`}}</tool_call>`},
		{"tagged", "qwen3-coder", "<tool_call>\n<function=write_file>\n<parameter=text>\n" + long +
			"</parameter>\n</function>\n</tool_call>"},
		{"python", "pythonic", "[write_file(text=" + quoted + ")]"},
		{"harmony", "gpt-oss", "<|channel|>final<|message|>" + long},
	} {
		f, ok := Preset(c.preset)
		if !ok {
			b.Fatal(c.preset)
		}
		pieces := tokens(c.text)
		b.Run(c.name, func(b *testing.B) {
			b.ReportAllocs()
			n := 0
			for b.Loop() {
				p := New(f, Options{Tools: tools})
				for _, s := range pieces {
					p.Feed(s)
				}
				p.Finish()
				n += len(pieces)
			}
			b.ReportMetric(float64(b.Elapsed().Nanoseconds())/float64(n), "ns/piece")
		})
	}
}

// BenchmarkNew is the time to start a message.
func BenchmarkNew(b *testing.B) {
	f, _ := Preset("qwen3-coder")
	o := Options{Tools: testTools(b)}
	b.ReportAllocs()
	for b.Loop() {
		New(f, o)
	}
}

// BenchmarkConstraint makes the grammar of a request that demands a call of one of ten tools.
func BenchmarkConstraint(b *testing.B) {
	f, _ := Preset("hermes")
	d := Demand{Choice: Choice{Mode: Required}}
	for i := range 10 {
		d.Tools = append(d.Tools, Tool{Name: fmt.Sprintf("tool_%d", i), Strict: true,
			Parameters: []byte(`{"type":"object","properties":{"name":{"type":"string","description":"The name."},` +
				`"place":{"type":"string","enum":["here","there"]},"count":{"type":"integer"}},"required":["name"]}`)})
	}
	for b.Loop() {
		if c, err := f.Constraint(d); err != nil || c.Source == "" {
			b.Fatal(err)
		}
	}
}
