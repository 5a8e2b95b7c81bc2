package server

import "github.com/prometheus/client_golang/prometheus"

// GrammarMetrics are what became of the grammars of one model since it was loaded.
// Counters never go down while the model stays.
type GrammarMetrics struct {
	Model string // its id; no two have the same

	Compiles       uint64  // by plugins, failures among them
	CompileSeconds float64 // that they took
	Hits           uint64  // requests whose grammar was there, or on its way
	Kept           int     // compiled grammars now
	Bytes          int64   // that these take, about

	Masks       uint64  // that sequences asked for
	MaskSeconds float64 // that they took, most of it while the model computed
	DeadEnds    uint64  // masks where no token goes on, or a limit was reached: they end their sequence

	// The memory of masks that grammars have in common.
	CacheHits, CacheMisses uint64
	CacheBytes             int64
}

// WatchGrammars adds the metrics of grammars, which list returns at each scrape, one
// for each model that is loaded. It is called at most once.
func (m *Metrics) WatchGrammars(list func() []GrammarMetrics) {
	m.registry.MustRegister(grammarCollector{list})
}

// grammarCollector reads the metrics when it is asked for them.
type grammarCollector struct{ list func() []GrammarMetrics }

// grammarMetric is a figure and its name.
type grammarMetric struct {
	desc  *prometheus.Desc
	kind  prometheus.ValueType
	value func(GrammarMetrics) float64
}

var grammarMetrics = []grammarMetric{
	grammarCounter("tgi_grammar_compiles_total", "Grammars compiled by plugins, failures among them.",
		func(f GrammarMetrics) float64 { return float64(f.Compiles) }),
	grammarCounter("tgi_grammar_compile_seconds_total", "Seconds in compiling grammars.",
		func(f GrammarMetrics) float64 { return f.CompileSeconds }),
	grammarCounter("tgi_grammar_hits_total", "Requests whose grammar was compiled already, or for another request.",
		func(f GrammarMetrics) float64 { return float64(f.Hits) }),
	grammarGauge("tgi_grammar_kept", "Compiled grammars that are kept.",
		func(f GrammarMetrics) float64 { return float64(f.Kept) }),
	grammarGauge("tgi_grammar_bytes", "Bytes of the grammars that are kept.",
		func(f GrammarMetrics) float64 { return float64(f.Bytes) }),
	grammarCounter("tgi_grammar_masks_total", "Masks that sequences asked for.",
		func(f GrammarMetrics) float64 { return float64(f.Masks) }),
	grammarCounter("tgi_grammar_mask_seconds_total",
		"Seconds in computing masks, most of them while the model computed.",
		func(f GrammarMetrics) float64 { return f.MaskSeconds }),
	grammarCounter("tgi_grammar_dead_ends_total", "Masks without a token, or that reached a limit.",
		func(f GrammarMetrics) float64 { return float64(f.DeadEnds) }),
	grammarCounter("tgi_grammar_mask_cache_hits_total", "Masks and parts of masks that were remembered.",
		func(f GrammarMetrics) float64 { return float64(f.CacheHits) }),
	grammarCounter("tgi_grammar_mask_cache_misses_total", "Masks and parts of masks that were computed.",
		func(f GrammarMetrics) float64 { return float64(f.CacheMisses) }),
	grammarGauge("tgi_grammar_mask_cache_bytes", "Bytes of the masks that are remembered.",
		func(f GrammarMetrics) float64 { return float64(f.CacheBytes) }),
}

func grammarCounter(name, help string, value func(GrammarMetrics) float64) grammarMetric {
	return grammarMetric{prometheus.NewDesc(name, help, []string{"model"}, nil), prometheus.CounterValue, value}
}

func grammarGauge(name, help string, value func(GrammarMetrics) float64) grammarMetric {
	return grammarMetric{prometheus.NewDesc(name, help, []string{"model"}, nil), prometheus.GaugeValue, value}
}

// Describe implements prometheus.Collector.
func (grammarCollector) Describe(out chan<- *prometheus.Desc) {
	for _, m := range grammarMetrics {
		out <- m.desc
	}
}

// Collect implements prometheus.Collector.
func (c grammarCollector) Collect(out chan<- prometheus.Metric) {
	for _, f := range c.list() {
		for _, m := range grammarMetrics {
			out <- prometheus.MustNewConstMetric(m.desc, m.kind, m.value(f), f.Model)
		}
	}
}
