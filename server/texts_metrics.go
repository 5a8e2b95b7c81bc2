package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tgi/server/embeddings"
)

// textsMetrics are those of models that turn texts into vectors or scores: text-embeddings-inference's under its names.
// Its method says how a client asked; here there is one.
type textsMetrics struct {
	count   prometheus.Counter
	success *prometheus.CounterVec
	failure *prometheus.CounterVec
	duration, tokenization, inference,
	texts, tokens prometheus.Histogram
}

// TextsStats are a snapshot of all models of texts.
type TextsStats struct {
	// Waiting counts texts that wait; Steps, Texts and Tokens what was computed.
	Waiting, Steps, Texts, Tokens int
}

// addTexts adds the metrics of requests with texts.
func (m *Metrics) addTexts() {
	t := &m.ofTexts
	t.count = m.counter("te_request_count", "Requests with texts that arrived.")
	t.success = m.counters("te_request_success", "Requests with texts that ran to their end.", "method")
	t.failure = m.counters("te_request_failure", "Requests with texts that did not, by reason.", "err")
	for _, r := range table {
		t.failure.WithLabelValues(r.label)
	}
	t.success.WithLabelValues(textsMethod)
	t.duration = m.histogram("te_request_duration", "Seconds from arrival to the result.", durations())
	t.tokenization = m.histogram("te_request_tokenization_duration", "Seconds of turning texts into tokens.",
		durations())
	t.inference = m.histogram("te_request_inference_duration", "Seconds of waiting for steps, and in them.",
		durations())
	t.texts = m.histogram("tgi_texts_request_texts", "Texts of a request.", prometheus.ExponentialBuckets(1, 2, 13))
	t.tokens = m.histogram("tgi_texts_request_tokens", "Tokens of a text.", prometheus.ExponentialBuckets(1, 2, 16))
}

// WatchTexts adds those of steps; read returns the snapshot at each scrape. It is called at most once.
func (m *Metrics) WatchTexts(read func() TextsStats) {
	m.gauge("te_queue_size", "Texts that wait.", func() float64 { return float64(read().Waiting) })
	total := func(name, help string, value func(TextsStats) int) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(value(read())) }))
	}
	total("tgi_texts_steps_total", "Steps of texts.", func(s TextsStats) int { return s.Steps })
	total("tgi_texts_total", "Texts that were computed.", func(s TextsStats) int { return s.Texts })
	total("tgi_texts_tokens_total", "Tokens of texts that were computed.", func(s TextsStats) int { return s.Tokens })
}

// textsMethod is the label method.
const textsMethod = "batch"

var _ embeddings.Observer = (*Metrics)(nil)

// TextsArrived implements embeddings.Observer.
func (m *Metrics) TextsArrived(texts int) {
	m.ofTexts.count.Inc()
	m.ofTexts.texts.Observe(float64(texts))
}

// TextsRefused implements embeddings.Observer.
func (m *Metrics) TextsRefused(err error) { m.ofTexts.failure.WithLabelValues(lookUp(err).label).Inc() }

// TextsDone implements embeddings.Observer.
func (m *Metrics) TextsDone(tokens []int, encoding, computing time.Duration) {
	t := &m.ofTexts
	t.success.WithLabelValues(textsMethod).Inc()
	t.duration.Observe((encoding + computing).Seconds())
	t.tokenization.Observe(encoding.Seconds())
	t.inference.Observe(computing.Seconds())
	for _, n := range tokens {
		t.tokens.Observe(float64(n))
	}
}
