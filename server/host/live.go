package host

import (
	"cmp"
	"context"
	"slices"
	"time"

	"tgi/server"
	"tgi/server/api/admin"
)

// live is what GET /admin/live tells of the engines and plugins, as the key of ctx may know the models: what the
// metrics show, with no counter of its own.
func (f *manager) live(ctx context.Context) admin.Live {
	now := time.Now()
	l := admin.Live{At: now, Version: f.boot.version, Started: f.opened, Uptime: now.Sub(f.opened).Seconds()}
	l.Requests, l.Draining = f.boot.server.Load()
	l.Memory = admin.LiveMemory{Resident: residentBytes(), Free: f.systemMemory()}
	l.Memory.Models, l.Memory.ModelsLimit = f.roster.Memory()
	kept := f.memory.Stats()
	l.Memory.Plugins, l.Memory.PluginsLimit = kept.Used, kept.Limit
	if f.device.onGPU() {
		l.Memory.Device = f.device.setting()
		l.Memory.DeviceFree, l.Memory.DeviceTotal = f.device.free()
	}
	if f.kvDisk != nil {
		state := f.kvDiskState()
		l.KVDisk = &state
	}
	for _, s := range f.running() {
		if server.MayUse(ctx, string(s.id)) {
			l.Models = append(l.Models, f.liveModel(s))
		}
	}
	texts := f.embeddersNow()
	slices.SortFunc(texts, func(a, b *embedder) int { return cmp.Compare(a.id, b.id) })
	for _, e := range texts {
		if server.MayUse(ctx, string(e.id)) && e.batcher != nil {
			l.Models = append(l.Models, f.liveEmbedder(e))
		}
	}
	for _, p := range f.List() {
		l.Plugins = append(l.Plugins, admin.NewLivePlugin(p))
	}
	return l
}

// liveModel is what the engine of s does.
func (f *manager) liveModel(s *loadedModel) admin.LiveModel {
	st := s.engine.Stats()
	m := admin.LiveModel{
		ID: string(s.id), DType: string(s.built.Weights), Device: string(s.built.Device),
		Waiting: st.Waiting, Running: st.Running, Parked: st.Parked, Limit: s.limits.MaxConcurrentRequests,
		Steps: st.Steps, StepSeconds: st.StepTime.Seconds(), Preempted: st.Preempted,
		PrefillTokens: st.PrefillTokens, GeneratedTokens: st.Generated,
		PromptTokens: st.PromptTokens, CachedTokens: st.CachedTokens,
		Cache: &admin.LiveCache{BlockSize: s.backend.BlockSize(), Used: st.KVUsed, Cached: st.KVCached,
			Total: st.KVTotal, Bytes: s.backend.CacheBytes()},
	}
	if status, ok := f.roster.Get(s.id); ok {
		m.State, m.Memory = string(status.State), status.Memory
	}
	return m
}

// liveEmbedder is what a model of texts does.
func (f *manager) liveEmbedder(e *embedder) admin.LiveModel {
	st := e.batcher.Stats()
	m := admin.LiveModel{ID: string(e.id), DType: string(e.built.Weights), Device: string(e.built.Device),
		Waiting: st.Waiting, Steps: st.Steps, PrefillTokens: st.Tokens}
	if status, ok := f.roster.Get(e.id); ok {
		m.State, m.Memory = string(status.State), status.Memory
	}
	return m
}
