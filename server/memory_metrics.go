package server

import (
	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/collectors"
)

// MemoryMetrics are what plugins and caches take at one moment. Counters never go down.
type MemoryMetrics struct {
	// Limit is plugins.memory, in bytes. Instances, Snapshots and Grammars are what is
	// used of it: by instances, by what those of a plugin share, and by grammars and masks
	// that are remembered.
	Limit, Instances, Snapshots, Grammars int64
	// Waiting are requests that wait for it now. Waited did, Refused were told that there is
	// none, Ended are instances that were ended because they grew, and Reclaimed instances
	// that nobody had and that were given back.
	Waiting                           int
	Waited, Refused, Ended, Reclaimed uint64
	// Caches are what is remembered. No two have name and model in common.
	Caches []CacheMetrics
}

// CacheMetrics are those of one cache.
type CacheMetrics struct {
	// Name says what it holds, Model whose it is; empty for all models'.
	Name, Model  string
	Bytes, Limit int64
	Entries      int64
	// Evictions counts what was forgotten for want of room.
	Evictions uint64
}

// WatchMemory adds the metrics of memory, which read returns at each scrape, and those of the
// process. It is called at most once.
func (m *Metrics) WatchMemory(read func() MemoryMetrics) {
	m.registry.MustRegister(memoryCollector{read}, collectors.NewGoCollector(),
		collectors.NewProcessCollector(collectors.ProcessCollectorOpts{}))
}

// memoryCollector reads the metrics when it is asked for them.
type memoryCollector struct{ read func() MemoryMetrics }

func describeMemory(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, labels, nil)
}

var (
	memoryLimit = describeMemory("tgi_plugin_memory_limit_bytes", "Bytes that all plugins together may take.")
	memoryUsed  = describeMemory("tgi_plugin_memory_bytes",
		"Bytes that plugins take: instances, what those of a plugin share (snapshots), and grammars that are remembered.",
		"of")
	memoryWaiting = describeMemory("tgi_plugin_memory_queue_size", "Requests that wait for memory for plugins.")
	memoryWaited  = describeMemory("tgi_plugin_memory_waits_total",
		"Requests that had to wait for memory for plugins.")
	memoryRefused = describeMemory("tgi_plugin_memory_refusals_total",
		"Instances that were refused for want of memory.")
	memoryEnded     = describeMemory("tgi_plugin_memory_ended_total", "Instances that were ended because they grew.")
	memoryReclaimed = describeMemory("tgi_plugin_memory_reclaimed_total",
		"Waiting instances that were given back for others.")
	cacheBytes     = describeMemory("tgi_cache_bytes", "Bytes of what is remembered.", "cache", "model")
	cacheLimit     = describeMemory("tgi_cache_limit_bytes", "Bytes that may be remembered.", "cache", "model")
	cacheEntries   = describeMemory("tgi_cache_entries", "Entries of what is remembered.", "cache", "model")
	cacheEvictions = describeMemory("tgi_cache_evictions_total", "Entries that were forgotten for want of room.",
		"cache", "model")
)

// Describe implements prometheus.Collector.
func (memoryCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		memoryLimit, memoryUsed, memoryWaiting, memoryWaited, memoryRefused, memoryEnded, memoryReclaimed,
		cacheBytes, cacheLimit, cacheEntries, cacheEvictions,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c memoryCollector) Collect(out chan<- prometheus.Metric) {
	f := c.read()
	gauge := func(d *prometheus.Desc, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.GaugeValue, float64(value), labels...)
	}
	counter := func(d *prometheus.Desc, value uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(value), labels...)
	}
	gauge(memoryLimit, f.Limit)
	gauge(memoryUsed, f.Instances, "instances")
	gauge(memoryUsed, f.Snapshots, "snapshots")
	gauge(memoryUsed, f.Grammars, "grammars")
	gauge(memoryWaiting, int64(f.Waiting))
	counter(memoryWaited, f.Waited)
	counter(memoryRefused, f.Refused)
	counter(memoryEnded, f.Ended)
	counter(memoryReclaimed, f.Reclaimed)
	for _, one := range f.Caches {
		gauge(cacheBytes, one.Bytes, one.Name, one.Model)
		gauge(cacheLimit, one.Limit, one.Name, one.Model)
		gauge(cacheEntries, one.Entries, one.Name, one.Model)
		counter(cacheEvictions, one.Evictions, one.Name, one.Model)
	}
}
