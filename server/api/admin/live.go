package admin

import (
	"context"
	"net/http"
	"strings"
	"sync"
	"time"

	"tgi/server"
)

// Live is the reply of GET /admin/live: what the engines do at one moment. Counters count since a model or plugin was
// loaded and start again when it is loaded again.
type Live struct {
	// At is the moment, Started when the server began, and Uptime the seconds between them.
	At      time.Time `json:"at"`
	Version string    `json:"version"`
	Started time.Time `json:"started"`
	Uptime  float64   `json:"uptime_seconds"`
	// Draining says that the server shuts down. Requests counts those that run, whatever they wait for.
	Draining bool       `json:"draining"`
	Requests int        `json:"requests"`
	Memory   LiveMemory `json:"memory"`
	// KVDisk is what is kept of prompts on disk; nil without runtime.kv_disk.
	KVDisk *server.KVDisk `json:"kv_disk,omitempty"`
	// Models has at most MaxLive models that are loaded, Plugins as many plugins. OmittedModels and OmittedPlugins
	// count the others.
	Models         []LiveModel  `json:"models"`
	Plugins        []LivePlugin `json:"plugins"`
	OmittedModels  int          `json:"omitted_models,omitempty"`
	OmittedPlugins int          `json:"omitted_plugins,omitempty"`
}

// MaxLive bounds the lists of Live.
const MaxLive = 100

// LiveMemory is what the process takes, in bytes.
type LiveMemory struct {
	// Resident is what the process has in memory, 0 where the system does not say. Free is what the system says is
	// available.
	Resident int64 `json:"resident_bytes"`
	Free     int64 `json:"free_bytes"`
	// Models is what the loaded models take as it was estimated, ModelsLimit what they may take.
	Models      int64 `json:"models_bytes"`
	ModelsLimit int64 `json:"models_limit_bytes"`
	// Plugins is what plugins and what is remembered for them take, PluginsLimit what they may take.
	Plugins      int64 `json:"plugins_bytes"`
	PluginsLimit int64 `json:"plugins_limit_bytes"`
	// Device names a GPU; DeviceFree and DeviceTotal are its memory.
	Device      string `json:"device,omitempty"`
	DeviceFree  int64  `json:"device_free_bytes,omitempty"`
	DeviceTotal int64  `json:"device_total_bytes,omitempty"`
}

// LiveModel is what the engine of one model does.
type LiveModel struct {
	ID string `json:"id"`
	// State is what GET /v1/models calls status.
	State string `json:"state"`
	// DType is the form of the weights, Device what computes them.
	DType  string `json:"dtype"`
	Device string `json:"device"`
	// Memory is what the model takes, in bytes, as it was estimated.
	Memory int64 `json:"memory_bytes"`
	// Waiting and Running count sequences, Parked those among them whose plugins are not done.
	Waiting int `json:"waiting"`
	Running int `json:"running"`
	Parked  int `json:"parked"`
	// Limit bounds the sequences that run and wait together; 0 of a model that makes vectors.
	Limit int `json:"max_concurrent_requests,omitempty"`
	// Steps counts forward passes; StepSeconds is what they took together.
	Steps       int     `json:"steps"`
	StepSeconds float64 `json:"step_seconds"`
	// Preempted counts sequences that lost their cache for want of blocks.
	Preempted int `json:"preempted"`
	// PrefillTokens counts computed tokens of prompts, GeneratedTokens those that sequences got.
	PrefillTokens   int `json:"prefill_tokens"`
	GeneratedTokens int `json:"generated_tokens"`
	// PromptTokens counts tokens of prompts that were looked up in the prefix cache, CachedTokens those that it had.
	PromptTokens int `json:"prompt_tokens"`
	CachedTokens int `json:"cached_tokens"`
	// Cache is that of keys and values; nil for a model that makes vectors.
	Cache *LiveCache `json:"cache,omitempty"`
	// Rates are those of the last seconds; nil until two readings are far enough apart.
	Rates *LiveRates `json:"rates"`
}

// LiveCache is a cache of keys and values, in blocks of BlockSize tokens.
type LiveCache struct {
	BlockSize int `json:"block_size"`
	// Used counts the blocks that sequences hold, Cached those that only hold prefixes which may come again, and Total
	// all of them.
	Used   int `json:"used"`
	Cached int `json:"cached"`
	Total  int `json:"total"`
	// Bytes is what all take.
	Bytes int64 `json:"bytes"`
}

// LiveRates are of the Window seconds before a reading.
type LiveRates struct {
	Window    float64 `json:"window_seconds"`
	Prefill   float64 `json:"prefill_tokens_per_second"`
	Generated float64 `json:"generated_tokens_per_second"`
	Steps     float64 `json:"steps_per_second"`
	// StepTime is the mean time of a step in seconds, 0 without steps.
	StepTime float64 `json:"step_seconds"`
	// Hits is the share of looked-up prompt tokens that the prefix cache had, 0 to 1; nil without any.
	Hits *float64 `json:"prefix_hit_share"`
}

// LivePlugin is what one plugin did, in all models together.
type LivePlugin struct {
	Name string `json:"name"`
	// Version is the module's own word, cut after MaxLiveText bytes.
	Version string   `json:"version"`
	SHA256  string   `json:"sha256"`
	Kinds   []string `json:"kinds"`
	State   string   `json:"state"`
	// Calls are those of its functions; Seconds and Fuel are what they took, Faults those that failed.
	Calls   uint64  `json:"calls"`
	Seconds float64 `json:"seconds"`
	Fuel    uint64  `json:"fuel"`
	Faults  uint64  `json:"faults"`
	// Skips counts sequences that went on without it. Instances are in use by sequences now.
	Skips     uint64 `json:"skips"`
	Instances int    `json:"instances"`
	Bytes     int64  `json:"instance_bytes"`
	// Canary is the new version that is tried beside it, whose calls are not among those above; nil for none.
	Canary *CanaryInShort `json:"canary,omitempty"`
}

// MaxLiveText bounds texts that are not the server's own, in bytes.
const MaxLiveText = 64

// NewLivePlugin is p as Live shows it.
func NewLivePlugin(p server.Plugin) LivePlugin {
	p = shown(p)
	l := LivePlugin{Name: p.Name, Version: cut(p.Version), SHA256: p.SHA256, Kinds: p.Kinds,
		State: p.State, Calls: p.Calls, Seconds: p.Seconds, Fuel: p.Fuel, Skips: p.Skips, Instances: p.InstancesOut,
		Bytes: p.InstanceBytes}
	for _, n := range p.Faults {
		l.Faults += n
	}
	return l
}

// cut is text with at most MaxLiveText bytes, valid as JSON has it.
func cut(text string) string {
	return strings.ToValidUTF8(text[:min(len(text), MaxLiveText)], "")
}

// live replies with what the engines do now.
func (a *API) live(w http.ResponseWriter, r *http.Request) error {
	return server.WriteValue(w, http.StatusOK, a.Live(r.Context()))
}

// Live returns what GET /admin/live replies with.
func (a *API) Live(ctx context.Context) Live {
	l := a.options.Live(ctx)
	a.rates.add(&l)
	if n := len(l.Models) - MaxLive; n > 0 {
		l.Models, l.OmittedModels = l.Models[:MaxLive], n
	}
	if n := len(l.Plugins) - MaxLive; n > 0 {
		l.Plugins, l.OmittedPlugins = l.Plugins[:MaxLive], n
	}
	if a.options.Plugins != nil {
		tried := inShort(a.options.Plugins.Canaries())
		for i := range l.Plugins {
			if c := tried[l.Plugins[i].Name]; c != nil {
				c.Version = cut(c.Version)
				l.Plugins[i].Canary = c
			}
		}
	}
	if l.Models == nil {
		l.Models = []LiveModel{}
	}
	if l.Plugins == nil {
		l.Plugins = []LivePlugin{}
	}
	return l
}

// Rates are differences of readings that are at least leastWindow and, while somebody reads, about window apart.
// Readings closer than keepEvery are not kept, so that few are, however many clients read.
const (
	leastWindow = 500 * time.Millisecond
	window      = 5 * time.Second
	keepEvery   = 250 * time.Millisecond
)

// rates keeps the last readings. Nothing is counted while nobody reads.
type rates struct {
	mu   sync.Mutex
	kept []reading // oldest first
}

// reading is the counters of the loaded models at a moment.
type reading struct {
	at     time.Time
	models map[string]LiveModel
}

// add adds to l the rates since an earlier reading, and keeps it as one.
func (k *rates) add(l *Live) {
	k.mu.Lock()
	defer k.mu.Unlock()
	for len(k.kept) > 0 && l.At.Sub(k.kept[0].at) > window {
		k.kept = k.kept[1:]
	}
	if len(k.kept) > 0 {
		if before := k.kept[0]; l.At.Sub(before.at) >= leastWindow {
			for i := range l.Models {
				m := &l.Models[i]
				if was, ok := before.models[m.ID]; ok {
					m.Rates = m.since(&was, l.At.Sub(before.at).Seconds())
				}
			}
		}
	}
	if n := len(k.kept); n > 0 && l.At.Sub(k.kept[n-1].at) < keepEvery {
		return
	}
	one := reading{l.At, make(map[string]LiveModel, len(l.Models))}
	for _, m := range l.Models {
		one.models[m.ID] = m
	}
	k.kept = append(k.kept, one)
}

// since returns the rates between two readings of a model, nil where it was loaded again between them.
func (m *LiveModel) since(was *LiveModel, seconds float64) *LiveRates {
	if m.Steps < was.Steps || m.GeneratedTokens < was.GeneratedTokens || m.PrefillTokens < was.PrefillTokens {
		return nil
	}
	r := &LiveRates{Window: seconds, Prefill: float64(m.PrefillTokens-was.PrefillTokens) / seconds,
		Generated: float64(m.GeneratedTokens-was.GeneratedTokens) / seconds,
		Steps:     float64(m.Steps-was.Steps) / seconds}
	if n := m.Steps - was.Steps; n > 0 {
		r.StepTime = (m.StepSeconds - was.StepSeconds) / float64(n)
	}
	if n := m.PromptTokens - was.PromptTokens; n > 0 {
		hits := float64(m.CachedTokens-was.CachedTokens) / float64(n)
		r.Hits = &hits
	}
	return r
}
