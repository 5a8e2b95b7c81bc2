package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"tgi/server/quota"
)

// WatchKeys adds the metrics of keys, which list returns at each scrape: one of each key of the settings, and one of
// the requests without a key. It is called at most once.
func (m *Metrics) WatchKeys(list func() []quota.Usage) {
	desc := func(name, help string, labels ...string) *prometheus.Desc {
		return prometheus.NewDesc("tgi_key_"+name, help, append([]string{"key"}, labels...), nil)
	}
	m.registry.MustRegister(keyCollector{list,
		desc("requests_total", "Requests of a key, also those that were refused."),
		desc("batch_lines_total", "Lines of a key's batches that were begun."),
		desc("tokens_total", "Tokens of a key's requests: of prompts, those of them that the cache had, generated, and "+
			"those computed for texts that no client saw.", "kind"),
		desc("refused_total", "Requests, and lines of batches, that a limit of their key refused, each once.", "limit"),
		desc("requests_running", "Requests of a key that are not over."),
	})
}

// keyCollector collects them.
type keyCollector struct {
	list                                      func() []quota.Usage
	requests, lines, tokens, refused, running *prometheus.Desc
}

// Describe implements prometheus.Collector.
func (c keyCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{c.requests, c.lines, c.tokens, c.refused, c.running} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c keyCollector) Collect(out chan<- prometheus.Metric) {
	count := func(d *prometheus.Desc, n uint64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, prometheus.CounterValue, float64(n), labels...)
	}
	for _, u := range c.list() {
		count(c.requests, u.Requests, u.Key)
		count(c.lines, u.Lines, u.Key)
		count(c.tokens, u.Prompt, u.Key, "prompt")
		count(c.tokens, u.Cached, u.Key, "cached")
		count(c.tokens, u.Generated, u.Key, "generated")
		count(c.tokens, u.Unseen, u.Key, "unseen")
		for _, w := range []quota.Window{quota.RequestsPerMinute, quota.TokensPerMinute, quota.TokensPerDay,
			quota.Concurrent} {
			count(c.refused, u.Refused[w], u.Key, string(w))
		}
		out <- prometheus.MustNewConstMetric(c.running, prometheus.GaugeValue, float64(u.Running), u.Key)
	}
}
