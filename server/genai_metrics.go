package server

import (
	"time"

	"github.com/prometheus/client_golang/prometheus"

	"tgi/server/record"
)

// genAIMetrics are those of OpenTelemetry's GenAI conventions, version 1.41, under the names that its exporter to
// Prometheus gives them.
type genAIMetrics struct {
	duration, first, perToken, tokens, tools *prometheus.HistogramVec
}

// addGenAI adds them, with the buckets of the conventions.
func (m *Metrics) addGenAI() {
	vec := func(name, help string, buckets []float64, more ...string) *prometheus.HistogramVec {
		h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets},
			append([]string{"gen_ai_operation_name", "gen_ai_provider_name", "gen_ai_request_model",
				"gen_ai_response_model"}, more...))
		m.registry.MustRegister(h)
		return h
	}
	g := &m.genAI
	g.duration = vec("gen_ai_server_request_duration_seconds",
		"Seconds from a request's arrival to the end of its reply.", prometheus.ExponentialBuckets(0.01, 2, 14),
		"error_type")
	g.first = vec("gen_ai_server_time_to_first_token_seconds", "Seconds from submission to the first token.",
		[]float64{0.001, 0.005, 0.01, 0.02, 0.04, 0.06, 0.08, 0.1, 0.25, 0.5, 0.75, 1, 2.5, 5, 7.5, 10})
	g.perToken = vec("gen_ai_server_time_per_output_token_seconds", "Seconds per token after the first.",
		[]float64{0.01, 0.025, 0.05, 0.075, 0.1, 0.15, 0.2, 0.3, 0.4, 0.5, 0.75, 1, 2.5})
	g.tokens = vec("gen_ai_client_token_usage", "Tokens of a call of a model.",
		prometheus.ExponentialBuckets(1, 4, 14), "gen_ai_token_type")
}

// addTools adds the metric of calls of tools of MCP servers, as the conventions have it, with the server's name.
func (m *Metrics) addTools() {
	m.genAI.tools = prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: "mcp_client_operation_duration_seconds",
		Help:    "Seconds of a call of a tool of an MCP server.",
		Buckets: []float64{0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300},
	}, []string{"mcp_method_name", "tgi_mcp_server", "gen_ai_tool_name", "error_type"})
	m.registry.MustRegister(m.genAI.tools)
}

// observeTool counts a call of a tool.
func (m *Metrics) observeTool(c *toolCall) {
	if m != nil {
		m.genAI.tools.WithLabelValues("tools/call", c.server, c.tool, c.errorType()).Observe(
			c.ended.Sub(c.began).Seconds())
	}
}

// otherModel stands for names that clients made up: a label must not have as many values as they like.
const otherModel = "_OTHER"

// requestedLabel is the label gen_ai_request_model.
func requestedLabel(requested, served string) string {
	if requested == served {
		return served
	}
	return otherModel
}

// WatchRecorder adds the metrics of what is recorded; r may be nil. It is called at most once.
func (m *Metrics) WatchRecorder(r *record.Recorder) {
	if r == nil {
		return
	}
	count := func(name, help string, read func() int64) {
		m.registry.MustRegister(prometheus.NewCounterFunc(prometheus.CounterOpts{Name: name, Help: help},
			func() float64 { return float64(read()) }))
	}
	count("tgi_record_requests_total", "Requests that were recorded.", func() int64 { n, _ := r.Counts(); return n })
	count("tgi_record_dropped_total", "Requests that were not, for lack of memory, time or disk.",
		func() int64 { _, n := r.Counts(); return n })
	m.gauge("tgi_record_memory_bytes", "Bytes that wait to be recorded.", func() float64 { return float64(r.Held()) })
}

// observeOperation counts a request that wanted something of a model.
func (m *Metrics) observeOperation(o *operation, requested, wrong string) {
	if m == nil {
		return
	}
	m.genAI.duration.WithLabelValues(string(o.name), provider, requestedLabel(requested, o.served), o.served,
		wrong).Observe(time.Since(o.began).Seconds())
}

// observeCall counts a call of a model that has a result.
func (m *Metrics) observeCall(c *modelCall, requested, served string) {
	if m == nil || c.wrong() != nil {
		return
	}
	labels := []string{string(c.operation), provider, requestedLabel(requested, served), served}
	m.genAI.tokens.WithLabelValues(append(labels, "input")...).Observe(float64(c.input))
	if !c.generates {
		return
	}
	m.genAI.tokens.WithLabelValues(append(labels, "output")...).Observe(float64(c.output()))
	m.genAI.first.WithLabelValues(labels...).Observe(c.first.Sub(c.submitted).Seconds())
	if n := c.most(); n > 1 {
		m.genAI.perToken.WithLabelValues(labels...).Observe(c.last.Sub(c.first).Seconds() / float64(n-1))
	}
}
