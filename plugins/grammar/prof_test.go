package grammar_test

import (
	"context"
	"fmt"
	"testing"

	"tgi/plugins/grammar"
)

func BenchmarkCompileOnly(b *testing.B) {
	v := largeVocab()
	all := workloads(true, "x")
	for i := range b.N {
		if _, err := v.Compile(context.Background(), all[i%len(all)].g, grammar.Limits{}); err != nil {
			b.Fatal(err)
		}
	}
}

func BenchmarkFreshOnly(b *testing.B) {
	v := largeVocab()
	var c, m, s timings
	for i := range b.N {
		all := workloads(true, fmt.Sprint("y", i))
		for _, wl := range all {
			run(b, v, wl, &c, &m, &s)
		}
	}
	c.report(b, "compile")
	m.report(b, "fresh")
	s.report(b, "accept")
}
