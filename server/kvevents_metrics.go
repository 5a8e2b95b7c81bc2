package server

import "github.com/prometheus/client_golang/prometheus"

// KVEventsMetrics are those of the events of the cache that are told to routers. Counters never go down.
type KVEventsMetrics struct {
	// Subscribers are connected; Queued bytes wait for them.
	Subscribers, Queued int64
	// Batches counts messages that were sent, Skipped those that a subscriber missed since its queue was full, Replays
	// requests for what was missed.
	Batches, Skipped, Replays int64
	// Full counts connections that were one too many, Broken those of peers that did not keep to the protocol or were
	// too slow.
	Full, Broken int64
}

// WatchKVEvents adds the metrics of events of the cache, which read returns at each scrape. It is called at most once.
func (m *Metrics) WatchKVEvents(read func() KVEventsMetrics) {
	gauge := func(name, help string, value func(KVEventsMetrics) int64) {
		m.gauge("tgi_kv_events_"+name, help, func() float64 { return float64(value(read())) })
	}
	counter := func(name, help string, labels prometheus.Labels, value func(KVEventsMetrics) int64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: "tgi_kv_events_" + name,
			Help: help, ConstLabels: labels}, func() float64 { return float64(value(read())) }))
	}
	gauge("subscribers", "Subscribers of the events of the cache.",
		func(k KVEventsMetrics) int64 { return k.Subscribers })
	gauge("queued_bytes", "Bytes that wait for all subscribers.", func(k KVEventsMetrics) int64 { return k.Queued })
	counter("batches_total", "Messages with events.", nil, func(k KVEventsMetrics) int64 { return k.Batches })
	counter("skipped_total", "Messages that a subscriber missed since its queue was full.", nil,
		func(k KVEventsMetrics) int64 { return k.Skipped })
	counter("replays_total", "Requests for what was missed.", nil, func(k KVEventsMetrics) int64 { return k.Replays })
	const refused = "Connections that were ended: one too many (full), or of a peer that did not keep to the protocol " +
		"or was too slow (broken)."
	counter("refused_total", refused, prometheus.Labels{"reason": "full"},
		func(k KVEventsMetrics) int64 { return k.Full })
	counter("refused_total", refused, prometheus.Labels{"reason": "broken"},
		func(k KVEventsMetrics) int64 { return k.Broken })
}
