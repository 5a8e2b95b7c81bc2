package server

import "github.com/prometheus/client_golang/prometheus"

// ModelMetrics are those of one model at one moment.
type ModelMetrics struct {
	// ID is the model's.
	ID string
	// State is what the models API calls it.
	State string
	// Memory is what it takes, in bytes, as it was estimated before it was loaded;
	// 0 while it is not in memory.
	Memory int64
	// Uses counts the requests that have it now.
	Uses int
	// LoadSeconds is how long its last load took; 0 before the first.
	LoadSeconds float64
}

// WatchModels adds the metrics of models, which list returns at each scrape. It is
// called at most once.
func (m *Metrics) WatchModels(list func() []ModelMetrics) {
	m.registry.MustRegister(modelCollector{list})
}

// modelCollector reads the metrics when it is asked for them.
type modelCollector struct{ list func() []ModelMetrics }

func describeModel(name, help string, labels ...string) *prometheus.Desc {
	return prometheus.NewDesc(name, help, append([]string{"model"}, labels...), nil)
}

var (
	modelInfo   = describeModel("tgi_model_info", "Models and their states; the value is always 1.", "state")
	modelMemory = describeModel("tgi_model_memory_bytes",
		"Bytes that a model takes in memory, as estimated before it was loaded.")
	modelUses = describeModel("tgi_model_uses", "Requests that have a model now.")
	modelLoad = describeModel("tgi_model_load_seconds", "Seconds of a model's last load.")
)

// Describe implements prometheus.Collector.
func (modelCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{modelInfo, modelMemory, modelUses, modelLoad} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c modelCollector) Collect(out chan<- prometheus.Metric) {
	for _, f := range c.list() {
		out <- prometheus.MustNewConstMetric(modelInfo, prometheus.GaugeValue, 1, f.ID, f.State)
		out <- prometheus.MustNewConstMetric(modelMemory, prometheus.GaugeValue, float64(f.Memory), f.ID)
		out <- prometheus.MustNewConstMetric(modelUses, prometheus.GaugeValue, float64(f.Uses), f.ID)
		out <- prometheus.MustNewConstMetric(modelLoad, prometheus.GaugeValue, f.LoadSeconds, f.ID)
	}
}
