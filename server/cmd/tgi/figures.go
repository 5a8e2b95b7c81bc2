package main

import "tgi/server"

// grammarFigures are what the metrics show of the grammars of the models that run.
func (f *fleet) grammarFigures() []server.GrammarFigures {
	var out []server.GrammarFigures
	for _, s := range f.all() {
		st := s.control.set.GrammarStats()
		out = append(out, server.GrammarFigures{
			Model: string(s.id), Compiles: st.Compiled, CompileSeconds: st.Seconds, Hits: st.Found + st.Shared, Kept: st.Kept, Bytes: st.Bytes,
			Masks: st.Asked, MaskSeconds: st.MaskSeconds, DeadEnds: st.DeadEnds,
			CacheHits: uint64(st.Masks.Hits), CacheMisses: uint64(st.Masks.Misses), CacheBytes: st.Masks.Bytes,
		})
	}
	return out
}
