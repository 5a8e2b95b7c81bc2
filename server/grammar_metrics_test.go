package server_test

import (
	"strings"
	"testing"

	"tgi/server"
)

func TestGrammarMetrics(t *testing.T) {
	figures := []server.GrammarMetrics{
		{
			Model: "a/b", Compiles: 3, CompileSeconds: 0.5, Hits: 4, Kept: 2, Bytes: 4096, Masks: 5, MaskSeconds: 0.25,
			DeadEnds:  6,
			CacheHits: 7, CacheMisses: 8, CacheBytes: 8192,
		},
		{Model: "gone"},
	}
	m := server.NewMetrics()
	m.WatchGrammars(func() []server.GrammarMetrics { return figures })
	s := newServer(nil, func(o *server.Options) { o.Metrics = m })
	text := "\n" + ask(s, "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		"# TYPE tgi_grammar_compiles_total counter", `tgi_grammar_compiles_total{model="a/b"} 3`,
		`tgi_grammar_compiles_total{model="gone"} 0`,
		`tgi_grammar_compile_seconds_total{model="a/b"} 0.5`, `tgi_grammar_hits_total{model="a/b"} 4`,
		"# TYPE tgi_grammar_kept gauge", `tgi_grammar_kept{model="a/b"} 2`, `tgi_grammar_bytes{model="a/b"} 4096`,
		`tgi_grammar_masks_total{model="a/b"} 5`, `tgi_grammar_mask_seconds_total{model="a/b"} 0.25`,
		`tgi_grammar_dead_ends_total{model="a/b"} 6`,
		`tgi_grammar_mask_cache_hits_total{model="a/b"} 7`, `tgi_grammar_mask_cache_misses_total{model="a/b"} 8`,
		"# TYPE tgi_grammar_mask_cache_bytes gauge", `tgi_grammar_mask_cache_bytes{model="a/b"} 8192`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in%s", line, text)
		}
	}
	figures = figures[:1]
	if text := ask(s, "GET", "/metrics", "").Body.String(); strings.Contains(text, "gone") {
		t.Error("a model that is gone left figures behind")
	}
}
