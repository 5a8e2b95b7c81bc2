package server

import (
	"github.com/prometheus/client_golang/prometheus"

	"tgi/runtime/engine"
)

// DeviceMetrics are what the metrics show of a GPU.
type DeviceMetrics struct {
	// Device is its name in the settings.
	Device string
	// Free and Total are bytes of its memory.
	Free, Total int64
	// Models are those that run on it.
	Models []DeviceModel
}

// DeviceModel is a model on a GPU.
type DeviceModel struct {
	Model string
	// Cache is the memory of the KV cache, in bytes.
	Cache int64
	// Steps were computed, Replays of them as CUDA graphs, of which there are Graphs; Refused could not be recorded.
	Steps, Replays, Graphs, Refused int64
	// CopiedIn and CopiedOut are bytes that crossed the bus for steps; WholeRows of logits were copied out, and of
	// ReducedRows only what a pick needs.
	CopiedIn, CopiedOut, WholeRows, ReducedRows int64
	// Whole says why rows came whole.
	Whole engine.WholeRows
}

// WatchDevice adds the metrics of a GPU, which read returns at each scrape. It is called at most once.
func (m *Metrics) WatchDevice(read func() DeviceMetrics) {
	m.registry.MustRegister(deviceCollector{read})
}

// deviceCollector reads the metrics when it is asked for them.
type deviceCollector struct{ read func() DeviceMetrics }

var (
	deviceMemory = describeMemory("tgi_device_memory_bytes", "Bytes of the GPU's memory.", "device")
	deviceFree   = describeMemory("tgi_device_memory_free_bytes", "Bytes of it that are free, for all processes.",
		"device")
	deviceCache  = describeMemory("tgi_device_cache_bytes", "Bytes of the GPU that a model's KV cache takes.", "model")
	deviceSteps  = describeMemory("tgi_device_steps_total", "Steps that a model computed on the GPU.", "model")
	graphReplays = describeMemory("tgi_cuda_graph_replays_total", "Steps among them that were recorded CUDA graphs.",
		"model")
	graphsRefused = describeMemory("tgi_cuda_graphs_refused", "CUDA graphs that could not be recorded: their steps "+
		"are launched kernel by kernel.", "model")
	deviceCopied = describeMemory("tgi_device_copied_bytes_total", "Bytes that were copied to the GPU (in) and from "+
		"it (out) for steps.", "model", "direction")
	deviceRows = describeMemory("tgi_device_rows_total", "Rows of logits of which only what a pick needs came from "+
		"the GPU (reduced), and those that came whole: for plugins, prompts' log-probabilities and beams.", "model", "came")
	wholeRows = describeMemory("tgi_device_whole_rows_total", "Rows of logits that came whole from the GPU, by the "+
		"reason: prompt (its log-probabilities), beams, plugin, late_mask, watermark, settings, undecided.", "model",
		"reason")
	graphs = describeMemory("tgi_cuda_graphs", "CUDA graphs that were recorded for a model.", "model")
)

// Describe implements prometheus.Collector.
func (deviceCollector) Describe(out chan<- *prometheus.Desc) {
	for _, d := range []*prometheus.Desc{
		deviceMemory, deviceFree, deviceCache, deviceSteps, graphReplays, graphs, graphsRefused, deviceCopied,
		deviceRows, wholeRows,
	} {
		out <- d
	}
}

// Collect implements prometheus.Collector.
func (c deviceCollector) Collect(out chan<- prometheus.Metric) {
	put := func(d *prometheus.Desc, kind prometheus.ValueType, value int64, labels ...string) {
		out <- prometheus.MustNewConstMetric(d, kind, float64(value), labels...)
	}
	d := c.read()
	put(deviceMemory, prometheus.GaugeValue, d.Total, d.Device)
	put(deviceFree, prometheus.GaugeValue, d.Free, d.Device)
	for _, m := range d.Models {
		put(deviceCache, prometheus.GaugeValue, m.Cache, m.Model)
		put(deviceSteps, prometheus.CounterValue, m.Steps, m.Model)
		put(graphReplays, prometheus.CounterValue, m.Replays, m.Model)
		put(graphs, prometheus.GaugeValue, m.Graphs, m.Model)
		put(graphsRefused, prometheus.GaugeValue, m.Refused, m.Model)
		put(deviceCopied, prometheus.CounterValue, m.CopiedIn, m.Model, "in")
		put(deviceCopied, prometheus.CounterValue, m.CopiedOut, m.Model, "out")
		put(deviceRows, prometheus.CounterValue, m.ReducedRows, m.Model, "reduced")
		put(deviceRows, prometheus.CounterValue, m.WholeRows, m.Model, "whole")
		for reason, rows := range map[string]int64{"prompt": m.Whole.Prompt, "beams": m.Whole.Beams,
			"plugin": m.Whole.Plugin, "late_mask": m.Whole.LateMask, "watermark": m.Whole.Watermark,
			"settings": m.Whole.Settings, "undecided": m.Whole.Undecided} {
			put(wholeRows, prometheus.CounterValue, rows, m.Model, reason)
		}
	}
}
