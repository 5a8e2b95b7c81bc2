package server

import "github.com/prometheus/client_golang/prometheus"

// CanaryMetrics are those of a new version of a plugin that is tried beside the one that serves. Its counters begin
// anew with the next.
type CanaryMetrics struct {
	// Plugin is what requests call it, SHA256 that of its module, State as the admin routes show it. Shadow says that
	// no reply depends on it.
	Plugin, SHA256, State string
	Shadow                bool
	// Share of the requests that get it, or are shown to it.
	Share float64
	// Bound are the requests that got it, Finished those that ended well, Faulty those in which it failed, Fallbacks
	// those that went on with the version that serves.
	Bound, Finished, Faulty, Fallbacks uint64
	// Of a shadow: Answers that were compared, those that differed, requests with one, and requests that there was no
	// room or time for.
	Answers, DifferentAnswers, Different, Dropped uint64
	// Calls are those of its functions; Fuel and Seconds are what they used.
	Calls, Fuel uint64
	Seconds     float64
}

// WatchCanaries adds the metrics of canaries, which list returns at each scrape. It is called at most once.
func (m *Metrics) WatchCanaries(list func() []CanaryMetrics) {
	m.registry.MustRegister(canaryCollector{list})
}

// canaryCollector reads the metrics when it is asked for them.
type canaryCollector struct{ list func() []CanaryMetrics }

func describeCanary(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"plugin", "mode"}, labels...), nil)
}

var (
	canaryInfo = describeCanary("tgi_canary_info",
		"New versions of plugins that are tried beside those that serve; the value is always 1.", "sha256", "state")
	canaryShare    = describeCanary("tgi_canary_share_ratio", "Part of the requests that a canary gets or is shown.")
	canaryRequests = describeCanary("tgi_canary_requests_total",
		"Requests, and runs of programs, that a canary got or was shown.")
	canaryFinished  = describeCanary("tgi_canary_finished_requests_total", "Those of them that ended well.")
	canaryFaulty    = describeCanary("tgi_canary_faulty_requests_total", "Those of them in which the canary failed.")
	canaryFallbacks = describeCanary("tgi_canary_fallbacks_total",
		"Those of them that went on with the version that serves.")
	canaryAnswers = describeCanary("tgi_canary_answers_total",
		"Answers of a shadow that were compared, by what came of it: same or different.", "result")
	canaryDifferent = describeCanary("tgi_canary_different_requests_total",
		"Requests that a shadow answered differently.")
	canaryDropped = describeCanary("tgi_canary_dropped_requests_total",
		"Requests that a shadow had no room or no time for.")
	canaryCalls   = describeCanary("tgi_canary_calls_total", "Calls of a canary's functions.")
	canaryFuel    = describeCanary("tgi_canary_fuel_total", "Fuel that a canary used.")
	canarySeconds = describeCanary("tgi_canary_seconds_total", "Seconds that a canary ran.")
)

// Describe implements prometheus.Collector.
func (canaryCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{canaryInfo, canaryShare, canaryRequests, canaryFinished, canaryFaulty,
		canaryFallbacks, canaryAnswers, canaryDifferent, canaryDropped, canaryCalls, canaryFuel,
		canarySeconds} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c canaryCollector) Collect(out chan<- prometheus.Metric) {
	for _, x := range c.list() {
		mode := "canary"
		if x.Shadow {
			mode = "shadow"
		}
		send := func(d *prometheus.Desc, kind prometheus.ValueType, value float64, labels ...string) {
			out <- prometheus.MustNewConstMetric(d, kind, value, append([]string{x.Plugin, mode}, labels...)...)
		}
		count := func(d *prometheus.Desc, n uint64, labels ...string) {
			send(d, prometheus.CounterValue, float64(n), labels...)
		}
		send(canaryInfo, prometheus.GaugeValue, 1, x.SHA256, x.State)
		send(canaryShare, prometheus.GaugeValue, x.Share)
		count(canaryRequests, x.Bound)
		count(canaryFinished, x.Finished)
		count(canaryFaulty, x.Faulty)
		count(canaryFallbacks, x.Fallbacks)
		if x.Shadow {
			count(canaryAnswers, x.Answers-x.DifferentAnswers, "same")
			count(canaryAnswers, x.DifferentAnswers, "different")
			count(canaryDifferent, x.Different)
			count(canaryDropped, x.Dropped)
		}
		count(canaryCalls, x.Calls)
		count(canaryFuel, x.Fuel)
		send(canarySeconds, prometheus.CounterValue, x.Seconds)
	}
}
