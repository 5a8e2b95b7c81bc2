package server

import (
	"net/http"
	"strconv"
	"strings"
	"sync/atomic"
	"time"

	"github.com/prometheus/client_golang/prometheus"
	"github.com/prometheus/client_golang/prometheus/promhttp"

	"tgi/runtime/engine"
	"tgi/server/config"
	"tgi/server/generate"
)

// Metrics are the server's: TGI's under TGI's names, so that dashboards
// and autoscalers keep working, and below them what TGI has none for. It is
// notified of requests as a generate.Observer and of steps as an engine.Observer.
type Metrics struct {
	registry        *prometheus.Registry
	outline, detail *prometheus.Registry // of plugins: for all, and for those who may see how much they work
	handler, whole  http.Handler         // with outline, and with detail

	// Requests.
	count, success  prometheus.Counter
	programTokens   prometheus.Counter
	failure, images *prometheus.CounterVec
	duration, validation, queue,
	inference, perToken prometheus.Histogram
	inputLength, maxNewTokens, generated prometheus.Histogram
	first, between                       prometheus.Histogram
	skipped                              prometheus.Histogram
	draftTokens                          *prometheus.CounterVec
	guided                               *prometheus.CounterVec

	// Steps.
	stepCount, stepDone, stepFailed *prometheus.CounterVec
	stepTime, forwardTime, pickNow  *prometheus.HistogramVec
	dropTime, joinTime              *prometheus.HistogramVec
	nextSize                        prometheus.Histogram
	joined                          *prometheus.CounterVec
	promptTokens, cachedTokens      prometheus.Counter
	preempted, late, satOut         prometheus.Counter
	lookedUp, found                 atomic.Int64 // as promptTokens and cachedTokens

	genAI   genAIMetrics
	ofTexts textsMetrics
}

// NewMetrics returns metrics that steps can be reported to; Watch adds those of
// requests.
func NewMetrics() *Metrics {
	m := &Metrics{registry: prometheus.NewRegistry(), outline: prometheus.NewRegistry(),
		detail: prometheus.NewRegistry()}
	m.addSteps()
	m.addGenAI()
	m.addTools()
	m.addTexts()
	m.handler = promhttp.HandlerFor(prometheus.Gatherers{m.registry, m.outline}, promhttp.HandlerOpts{})
	m.whole = promhttp.HandlerFor(prometheus.Gatherers{m.registry, m.detail}, promhttp.HandlerOpts{})
	return m
}

// Watch adds the metrics of requests, in buckets that suit l (which Limits.Size
// made), and the engine's own, which stats returns at each scrape. It is called
// once, before the first request; it is apart from NewMetrics because the engine
// wants its observer before the limits are known.
func (m *Metrics) Watch(l config.Limits, stats func() engine.Stats) {
	m.addRequests(l)
	m.gauge("tgi_batch_max_total_tokens", "Tokens that all running sequences may hold.",
		func() float64 { return float64(l.MaxBatchTotalTokens) })
	m.gauge("tgi_queue_size", "Sequences that wait.", func() float64 { return float64(stats().Waiting) })
	m.gauge("tgi_batch_current_size", "Sequences that run.", func() float64 { return float64(stats().Running) })
	m.gauge("tgi_batch_parked_size", "Running or waiting sequences that are parked because their plugins are not done.",
		func() float64 { return float64(stats().Parked) })
	m.gauge("tgi_batch_current_max_tokens", "Tokens that the running sequences hold cache for.",
		func() float64 { return float64(stats().KVTokens) })
	m.gauge("tgi_kv_usage", "Share of the cache that sequences hold, 0 to 1.", func() float64 { return usage(stats()) })
	m.gauge("tgi_kv_blocks", "Cache blocks.", func() float64 { return float64(stats().KVTotal) })
	m.gauge("tgi_kv_blocks_used", "Cache blocks that sequences hold.", func() float64 {
		return float64(stats().KVUsed)
	})
	m.gauge("tgi_kv_blocks_cached", "Cache blocks that a prefix can be found in.",
		func() float64 { return float64(stats().KVCached) })
}

// usage is the share of the cache blocks that sequences hold.
func usage(s engine.Stats) float64 {
	if s.KVTotal == 0 {
		return 0
	}
	return float64(s.KVUsed) / float64(s.KVTotal)
}

// WatchVLLM serves five gauges once more under vLLM's names, in its units:
// those of the model-server protocol of Kubernetes' Gateway API Inference
// Extension, whose endpoint pickers take a server for vLLM unless told
// otherwise. blockSize is how many tokens a cache block holds. It is called at
// most once.
func (m *Metrics) WatchVLLM(stats func() engine.Stats, blockSize int, adapters func() AdapterMetrics) {
	m.gauge("vllm:num_requests_waiting", "Sequences that wait.", func() float64 { return float64(stats().Waiting) })
	m.gauge("vllm:num_requests_running", "Sequences that run.", func() float64 { return float64(stats().Running) })
	m.gauge("vllm:kv_cache_usage_perc", "Share of the cache that sequences hold, 0 to 1.",
		func() float64 { return usage(stats()) })
	constant := func(name, help string, value float64, labels prometheus.Labels) {
		g := prometheus.NewGauge(prometheus.GaugeOpts{Name: name, Help: help, ConstLabels: labels})
		g.Set(value)
		m.registry.MustRegister(g)
	}
	constant("vllm:cache_config_info", "Size of the cache; the value is always 1.", 1, prometheus.Labels{
		"block_size": strconv.Itoa(blockSize), "num_gpu_blocks": strconv.Itoa(stats().KVTotal),
	})
	m.registry.MustRegister(loraInfo{adapters})
}

// WatchAdapters adds the metrics of low-rank adapters. It is called at most once.
func (m *Metrics) WatchAdapters(read func() AdapterMetrics) {
	m.gauge("tgi_adapter_memory_bytes", "Bytes that low-rank adapters take.",
		func() float64 { return float64(read().Bytes) })
	m.gauge("tgi_adapter_memory_limit_bytes", "Bytes that they may take.",
		func() float64 { return float64(read().Budget) })
}

// AdapterMetrics are about the low-rank adapters of all models.
type AdapterMetrics struct {
	// Max is how many there are at most.
	Max int
	// Running are those that requests use, Waiting those that requests wait for; ascending.
	Running, Waiting []string
	// Bytes are what adapters in memory take, Budget what they may take.
	Bytes, Budget int64
}

// loraInfo is vLLM's gauge of adapters, whose labels name those in use and whose value is the time.
type loraInfo struct{ adapters func() AdapterMetrics }

var loraInfoDesc = prometheus.NewDesc("vllm:lora_requests_info",
	"Adapters that requests use; the value is the time of the answer, in seconds.",
	[]string{"max_lora", "running_lora_adapters", "waiting_lora_adapters"}, nil)

// Describe implements prometheus.Collector.
func (l loraInfo) Describe(to chan<- *prometheus.Desc) { to <- loraInfoDesc }

// Collect implements prometheus.Collector.
func (l loraInfo) Collect(to chan<- prometheus.Metric) {
	a := l.adapters()
	to <- prometheus.MustNewConstMetric(loraInfoDesc, prometheus.GaugeValue, float64(time.Now().Unix()),
		strconv.Itoa(a.Max), strings.Join(a.Running, ","), strings.Join(a.Waiting, ","))
}

// Image counts an image that a request brought: it was encoded, or what it became was in the cache.
func (m *Metrics) Image(cached bool) {
	source := "encoder"
	if cached {
		source = "cache"
	}
	m.images.WithLabelValues(source).Inc()
}

func (m *Metrics) addRequests(l config.Limits) {
	m.count = m.counter("tgi_request_count", "Requests that arrived.")
	m.images = m.counters("tgi_image_count", "Images of requests, by where their vectors came from.", "source")
	m.success = m.counter("tgi_request_success", "Requests that ran to their end.")
	m.failure = m.counters("tgi_request_failure", "Requests that did not, by reason.", "err")
	for _, r := range table {
		m.failure.WithLabelValues(r.label) // so that the first one is an increase
	}
	m.duration = m.histogram("tgi_request_duration", "Seconds from arrival to the last token.", durations())
	m.validation = m.histogram("tgi_request_validation_duration", "Seconds of checking and tokenizing.", durations())
	m.queue = m.histogram("tgi_request_queue_duration", "Seconds from submission to the first step.", durations())
	m.inference = m.histogram("tgi_request_inference_duration", "Seconds from the first step to the last token.",
		durations())
	m.perToken = m.histogram("tgi_request_mean_time_per_token_duration", "Seconds of inference per token.", durations())
	m.inputLength = m.histogram("tgi_request_input_length", "Tokens of the prompt.", linear(l.MaxInputTokens))
	m.maxNewTokens = m.histogram("tgi_request_max_new_tokens", "Tokens that a request may generate.",
		linear(l.MaxTotalTokens))
	m.generated = m.histogram("tgi_request_generated_tokens", "Tokens that a request generated.",
		linear(l.MaxTotalTokens))
	// TGI's board reads buckets, as TGI 2.2 had them; TGI 3 has the sum and the count alone.
	m.skipped = m.histogram("tgi_request_skipped_tokens", "Tokens that a step gave a sequence beyond the first.",
		[]float64{0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 16, 24, 32})
	m.guided = m.counters("tgi_guided_requests_total", "Requests with a second prompt, by what it is for.", "kind")
	for _, kind := range []string{generate.GuidanceCFG, generate.GuidanceContrastive} {
		m.guided.WithLabelValues(kind)
	}
	m.programTokens = m.counter("tgi_program_tokens_total", "Tokens that the model computed for programs.")
	m.draftTokens = m.counters("tgi_draft_tokens_total",
		"Guessed tokens that steps computed, by where the guess came from and whether it was right.", "source",
		"accepted")
	m.first = m.histogram("tgi_request_time_to_first_token_duration",
		"Seconds from submission to a sequence's first token.", durations())
	m.between = m.histogram("tgi_request_inter_token_duration", "Seconds between two tokens of a sequence.",
		durations())
}

func (m *Metrics) addSteps() {
	m.stepCount = m.counters("tgi_batch_inference_count", "Steps: prefill when they hold prompt tokens, else decode.",
		"method")
	m.stepDone = m.counters("tgi_batch_inference_success", "Steps whose forward pass succeeded.", "method")
	m.stepFailed = m.counters("tgi_batch_inference_failure", "Steps whose forward pass failed.", "method")
	m.stepTime = m.histograms("tgi_batch_inference_duration", "Seconds of a step.", "method")
	m.forwardTime = m.histograms("tgi_batch_forward_duration", "Seconds of a step's forward pass.", "method")
	m.pickNow = m.histograms("tgi_batch_decode_duration", "Seconds of a step's picking and detokenizing.", "method")
	m.dropTime = m.histograms("tgi_batch_filter_duration",
		"Seconds of choosing a step's sequences, which leaves out those that ended.", "method")
	m.joinTime = m.histograms("tgi_batch_concat_duration",
		"Seconds of that in steps in which prompts joined running sequences.", "method")
	m.joinTime.WithLabelValues(decode)
	m.nextSize = m.histogram("tgi_batch_next_size", "Prompts in a step that holds any.",
		prometheus.ExponentialBuckets(1, 2, 11))
	m.joined = m.counters("tgi_batch_concat", "Steps in which prompts joined running sequences.", "reason")
	m.joined.WithLabelValues(chunking)
	for _, method := range []string{prefill, decode} {
		for _, c := range []*prometheus.CounterVec{m.stepCount, m.stepDone, m.stepFailed} {
			c.WithLabelValues(method)
		}
	}
	m.promptTokens = m.counter("tgi_prefix_lookup_tokens", "Prompt tokens looked up in the cache.")
	m.cachedTokens = m.counter("tgi_prefix_hit_tokens", "Prompt tokens found in the cache.")
	m.late = m.counter("tgi_plugin_late_count",
		"Tokens that plugins or masks did not finish in the step that computed them.")
	m.satOut = m.counter("tgi_plugin_sat_out_steps",
		"Steps that sequences sat out because their plugins or masks were not done.")
	m.preempted = m.counter("tgi_preemption_count", "Sequences that were preempted for lack of cache blocks.")
}

// serve replies with the metrics in Prometheus' text format. whole says that those are among them that tell how much
// plugins had to do with texts.
func (m *Metrics) serve(w http.ResponseWriter, r *http.Request, whole bool) {
	if whole {
		m.whole.ServeHTTP(w, r)
		return
	}
	m.handler.ServeHTTP(w, r)
}

func (m *Metrics) counter(name, help string) prometheus.Counter {
	c := prometheus.NewCounter(prometheus.CounterOpts{Name: name, Help: help})
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) counters(name, help string, labels ...string) *prometheus.CounterVec {
	c := prometheus.NewCounterVec(prometheus.CounterOpts{Name: name, Help: help}, labels)
	m.registry.MustRegister(c)
	return c
}

func (m *Metrics) histogram(name, help string, buckets []float64) prometheus.Histogram {
	h := prometheus.NewHistogram(prometheus.HistogramOpts{Name: name, Help: help, Buckets: buckets})
	m.registry.MustRegister(h)
	return h
}

func (m *Metrics) histograms(name, help, label string) *prometheus.HistogramVec {
	h := prometheus.NewHistogramVec(prometheus.HistogramOpts{Name: name, Help: help, Buckets: durations()},
		[]string{label})
	m.registry.MustRegister(h)
	return h
}

func (m *Metrics) gauge(name, help string, value func() float64) {
	m.registry.MustRegister(prometheus.NewGaugeFunc(prometheus.GaugeOpts{Name: name, Help: help}, value))
}

// Values of labels.
const (
	prefill, decode = "prefill", "decode"
	// chunking is why prompts join: they are computed in chunks beside the rows
	// that run, so that none waits for the others.
	chunking = "chunking"
)

// durations are TGI's buckets of seconds: 0.15 ms to 146 s.
func durations() []float64 { return prometheus.ExponentialBuckets(0.00015, 1.5, 35) }

// linear are 100 buckets up to limit.
func linear(limit int) []float64 {
	return prometheus.LinearBuckets(float64(limit)/100, float64(limit)/100, 100)
}
