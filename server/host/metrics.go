package host

import (
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/api/generateapi/store"
	responsestore "tgi/server/api/responses/store"
)

// grammarMetrics are what the metrics show of the grammars of the models that run.
func (f *manager) grammarMetrics() []server.GrammarMetrics {
	var out []server.GrammarMetrics
	for _, s := range f.running() {
		st := s.control.set.GrammarStats()
		out = append(out, server.GrammarMetrics{
			Model: string(s.id), Compiles: st.Compiled, CompileSeconds: st.Seconds, Hits: st.Found + st.Shared,
			Kept: st.Kept, Bytes: st.Bytes,
			Masks: st.Asked, MaskSeconds: st.MaskSeconds, DeadEnds: st.DeadEnds,
			CacheHits: uint64(st.Masks.Hits), CacheMisses: uint64(st.Masks.Misses), CacheBytes: st.Masks.Bytes,
		})
	}
	return out
}

// adapterMetrics are what the metrics show of the adapters of the models that run.
func (f *manager) adapterMetrics() (m server.AdapterMetrics) {
	for _, s := range f.running() {
		if s.adapters == nil {
			continue
		}
		used, budget := s.adapters.Bytes()
		m.Bytes, m.Budget = m.Bytes+used, m.Budget+budget
		for _, a := range s.adapters.List() {
			m.Max++
			if a.Users > 0 {
				m.Running = append(m.Running, a.Name)
			}
			if a.Waiters > 0 {
				m.Waiting = append(m.Waiting, a.Name)
			}
		}
	}
	return m
}

// deviceMetrics are what the metrics show of a GPU and of the models on it.
func (f *manager) deviceMetrics() server.DeviceMetrics {
	d := server.DeviceMetrics{Device: f.device.setting()}
	d.Free, d.Total = f.device.free()
	for _, s := range f.running() {
		m := server.DeviceModel{Model: string(s.id), Cache: s.backend.CacheBytes()}
		if b, ok := s.backend.(*ort.CUDA); ok {
			n := b.Counts()
			m.Steps, m.Replays, m.Graphs, m.Refused = n.Steps, n.Replays, n.Graphs, n.Refused
			m.CopiedIn, m.CopiedOut, m.WholeRows, m.ReducedRows = n.CopiedIn, n.CopiedOut, n.WholeRows, n.ReducedRows
			m.Whole = s.engine.WholeRows()
		}
		d.Models = append(d.Models, m)
	}
	return d
}

// memoryMetrics are what the metrics show of the memory of plugins and of what is
// remembered.
func (f *manager) memoryMetrics() server.MemoryMetrics {
	m := f.memory.Stats()
	out := server.MemoryMetrics{
		Limit: m.Limit, Instances: m.Used - m.Snapshots - m.Cached, Snapshots: m.Snapshots, Grammars: m.Cached,
		Waiting: m.Queue, Waited: m.Waited, Refused: m.Refused, Ended: m.Ended, Reclaimed: m.Reclaimed,
	}
	for _, s := range f.running() {
		if s.images != nil {
			out.Caches = append(out.Caches, s.images.cache.metrics(string(s.id)))
		}
		g, id := s.control.set.GrammarStats(), string(s.id)
		out.Caches = append(out.Caches,
			server.CacheMetrics{Name: "grammars", Model: id, Bytes: g.Bytes, Limit: g.Limit, Entries: int64(g.Kept),
				Evictions: g.Evicted},
			server.CacheMetrics{Name: "masks", Model: id, Bytes: g.Masks.Bytes, Limit: g.Masks.Limit,
				Entries: g.Masks.Entries, Evictions: uint64(g.Masks.Evicted)},
		)
	}
	if kept, ok := f.continuations.(*store.Memory); ok {
		s := kept.Stats()
		out.Caches = append(out.Caches, server.CacheMetrics{Name: "continuations", Bytes: s.Bytes, Limit: s.Limit,
			Entries: int64(s.Entries), Evictions: s.Evicted})
	}
	if kept, ok := f.responses.(*responsestore.Memory); ok {
		s := kept.Stats()
		out.Caches = append(out.Caches, server.CacheMetrics{Name: "responses", Bytes: s.Bytes, Limit: s.Limit,
			Entries: int64(s.Records), Evictions: s.Evicted})
	}
	return out
}
