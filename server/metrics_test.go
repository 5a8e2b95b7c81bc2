package server_test

import (
	"errors"
	"fmt"
	"strconv"
	"strings"
	"testing"
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/generate"
)

func TestMetrics(t *testing.T) {
	limits, err := config.Default().Limits.Size(1000, 4000)
	if err != nil {
		t.Fatal(err)
	}
	m := server.NewMetrics()
	m.Watch(limits, func() engine.Stats {
		return engine.Stats{Waiting: 3, Running: 2, Parked: 1, KVUsed: 5, KVCached: 4, KVTotal: 250, KVTokens: 80}
	})
	m.Arrived()
	m.Arrived()
	m.Arrived()
	m.Checked(generate.Request{Prompt: make([]llm.Token, 25), Params: llm.Params{MaxNewTokens: 60},
		Checked: time.Millisecond})
	m.Refused(&generate.Overloaded{})
	m.Refused(&generate.Invalid{})
	m.Refused(llm.ErrBackend)
	m.Refused(llm.ErrPlugin)
	m.Refused(generate.ErrIncomplete)
	m.Refused(errors.New("unknown"))
	m.Token(true, time.Second)
	m.Token(false, time.Millisecond)
	m.Finished(generate.Timings{Total: 2 * time.Second, Queue: time.Second}, []llm.Finish{{Generated: 7},
		{Generated: 8}})
	m.Step(engine.Report{PrefillTokens: 30, PrefillRows: 2, DecodeRows: 1, Admitted: 2, PromptTokens: 40,
		CachedTokens: 10, Preempted: 1, Total: time.Second})
	d := engine.DraftCounts{Accepted: [draft.Sources]int{draft.Forced: 4, draft.Repeated: 1},
		Rejected: [draft.Sources]int{draft.Repeated: 2}}
	m.Step(engine.Report{DecodeRows: 3, Drafts: d, Late: 2, ParkedBefore: 4, Total: time.Millisecond,
		Forward: time.Millisecond})
	m.Step(engine.Report{DecodeRows: 3, Err: llm.ErrBackend})

	text := ask(newServer(nil, func(o *server.Options) { o.Metrics = m }), "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		"# TYPE tgi_request_count counter", "tgi_request_count 3", "tgi_request_success 1",
		`tgi_request_failure{err="overloaded"} 1`, `tgi_request_failure{err="validation"} 1`,
		`tgi_request_failure{err="plugin"} 1`, `tgi_request_failure{err="generation"} 2`,
		`tgi_request_failure{err="incomplete"} 1`,
		"# TYPE tgi_request_duration histogram", `tgi_request_duration_bucket{le="0.00015"} 0`,
		"tgi_request_duration_sum 2", "tgi_request_queue_duration_sum 1",
		`tgi_request_input_length_bucket{le="9.99"} 0`, `tgi_request_input_length_bucket{le="29.97"} 1`,
		`tgi_request_max_new_tokens_bucket{le="50"} 0`, `tgi_request_max_new_tokens_bucket{le="60"} 1`,
		"tgi_request_generated_tokens_count 2", "tgi_request_generated_tokens_sum 15",
		"tgi_request_time_to_first_token_duration_sum 1", "tgi_request_inter_token_duration_count 1",
		"# TYPE tgi_queue_size gauge", "tgi_queue_size 3", "tgi_batch_current_size 2",
		"tgi_batch_current_max_tokens 80", "tgi_batch_max_total_tokens 4000",
		"tgi_kv_usage 0.02", "tgi_request_skipped_tokens_sum 5",
		"tgi_request_skipped_tokens_count 7",
		`tgi_draft_tokens_total{accepted="true",source="grammar"} 4`,
		`tgi_draft_tokens_total{accepted="true",source="prompt"} 1`,
		`tgi_draft_tokens_total{accepted="false",source="prompt"} 2`,
		`tgi_draft_tokens_total{accepted="false",source="prediction"} 0`,
		"tgi_kv_blocks 250", "tgi_kv_blocks_used 5", "tgi_kv_blocks_cached 4",
		`tgi_batch_inference_count{method="prefill"} 1`, `tgi_batch_inference_count{method="decode"} 2`,
		`tgi_batch_inference_success{method="decode"} 1`, `tgi_batch_inference_failure{method="decode"} 1`,
		`tgi_batch_inference_duration_sum{method="prefill"} 1`, `tgi_batch_forward_duration_sum{method="decode"} 0.001`,
		`tgi_batch_decode_duration_count{method="decode"} 2`, "tgi_batch_next_size_sum 2",
		`tgi_batch_concat{reason="chunking"} 1`,
		"tgi_prefix_lookup_tokens 40", "tgi_prefix_hit_tokens 10", "tgi_preemption_count 1",
		"tgi_plugin_late_count 2", "tgi_plugin_sat_out_steps 4", "tgi_batch_parked_size 1",
	} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
}

// tgiMetrics are the 26 of TGI's router: name, type and the values of the one
// label, as its sources register and use them. tgi_request_skipped_tokens is the histogram of TGI 2.2, which TGI's own
// board reads; TGI 3 registers a summary without quantiles, which is the same without buckets.
const tgiMetrics = `
tgi_request_count counter
tgi_request_success counter
tgi_request_failure counter err=overloaded|validation|template|generation|incomplete|dropped
tgi_request_duration histogram
tgi_request_validation_duration histogram
tgi_request_queue_duration histogram
tgi_request_inference_duration histogram
tgi_request_mean_time_per_token_duration histogram
tgi_request_input_length histogram
tgi_request_max_new_tokens histogram
tgi_request_generated_tokens histogram
tgi_request_skipped_tokens histogram
tgi_batch_inference_count counter method=prefill|decode
tgi_batch_inference_success counter method=prefill|decode
tgi_batch_inference_failure counter method=prefill|decode
tgi_batch_concat counter reason=chunking
tgi_batch_inference_duration histogram method=prefill|decode
tgi_batch_forward_duration histogram method=prefill|decode
tgi_batch_decode_duration histogram method=prefill|decode
tgi_batch_filter_duration histogram method=prefill|decode
tgi_batch_concat_duration histogram method=decode
tgi_batch_next_size histogram
tgi_batch_current_size gauge
tgi_batch_current_max_tokens gauge
tgi_queue_size gauge
tgi_batch_max_total_tokens gauge`

// TestTGIMetrics holds the names, types, labels and buckets against TGI's, so
// that its dashboards and autoscalers find what they look for.
func TestTGIMetrics(t *testing.T) {
	limits, err := config.Default().Limits.Size(1000, 4000)
	if err != nil {
		t.Fatal(err)
	}
	m := server.NewMetrics()
	m.Watch(limits, func() engine.Stats { return engine.Stats{} })
	s := newServer(nil, func(o *server.Options) { o.Metrics = m })
	// Counters are there before they count, so that their first step is an increase.
	before := ask(s, "GET", "/metrics", "").Body.String()
	for _, line := range []string{`tgi_batch_concat{reason="chunking"} 0`, `tgi_request_failure{err="template"} 0`,
		`tgi_batch_inference_failure{method="decode"} 0`, `tgi_batch_concat_duration_count{method="decode"} 0`} {
		if !strings.Contains(before, line) {
			t.Errorf("at the start no %s", line)
		}
	}
	m.Step(engine.Report{PrefillTokens: 30, PrefillRows: 2, DecodeRows: 1, Admitted: 2})
	m.Step(engine.Report{DecodeRows: 3})
	text := "\n" + ask(s, "GET", "/metrics", "").Body.String()
	lines := strings.Split(strings.TrimSpace(tgiMetrics), "\n")
	if len(lines) != 26 {
		t.Fatalf("%d metrics in the table", len(lines))
	}
	for _, line := range lines {
		fields := strings.Fields(line)
		name, kind := fields[0], fields[1]
		if !strings.Contains(text, "\n# TYPE "+name+" "+kind+"\n") {
			t.Errorf("%s is no %s", name, kind)
		}
		sample := name
		if kind == "histogram" || kind == "summary" {
			sample += "_count"
		}
		if len(fields) == 2 {
			if !strings.Contains(text, "\n"+sample+" ") {
				t.Errorf("%s has no sample without labels", name)
			}
			continue
		}
		label, values, _ := strings.Cut(fields[2], "=")
		for _, value := range strings.Split(values, "|") {
			if !strings.Contains(text, fmt.Sprintf("\n%s{%s=%q} ", sample, label, value)) {
				t.Errorf("%s has no sample with %s=%s", name, label, value)
			}
		}
	}
	for name, want := range map[string]struct {
		count       int
		first, last string
	}{
		"tgi_request_duration": {36, "0.00015", "145"}, "tgi_batch_filter_duration": {36, "0.00015", "145"},
		"tgi_request_input_length": {101, "9.99", "999"}, "tgi_request_max_new_tokens": {101, "10", "1000"},
		"tgi_request_generated_tokens": {101, "10", "1000"},
		"tgi_batch_next_size":          {12, "1", "1024"},
	} {
		edges := edgesOf(text, name)
		if len(edges) != want.count || edges[0] != want.first || !strings.HasPrefix(edges[len(edges)-2], want.last) ||
			edges[len(edges)-1] != "+Inf" {
			t.Errorf("buckets of %s: %v", name, edges)
		}
	}
}

// edgesOf returns the buckets of the first series of a histogram.
func edgesOf(text, name string) (edges []string) {
	for _, line := range strings.Split(text, "\n") {
		if after, ok := strings.CutPrefix(line, name+"_bucket{"); ok {
			_, edge, _ := strings.Cut(after, `le="`)
			edge, _, _ = strings.Cut(edge, `"`)
			edges = append(edges, edge)
			if edge == "+Inf" {
				break
			}
		}
	}
	return edges
}

func TestVLLMMetrics(t *testing.T) {
	stats := func() engine.Stats { return engine.Stats{Waiting: 3, Running: 2, KVUsed: 5, KVTotal: 20} }
	m := server.NewMetrics()
	s := newServer(nil, func(o *server.Options) { o.Metrics = m })
	if text := ask(s, "GET", "/metrics", "").Body.String(); strings.Contains(text, "vllm:") {
		t.Error("vLLM's names without being asked for")
	}
	before := time.Now().Unix()
	adapters := server.AdapterMetrics{Max: 3, Running: []string{"a", "b"}, Bytes: 7, Budget: 9}
	m.WatchVLLM(stats, 16, func() server.AdapterMetrics { return adapters })
	text := "\n" + ask(s, "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		"# TYPE vllm:num_requests_waiting gauge", "vllm:num_requests_waiting 3",
		"# TYPE vllm:num_requests_running gauge", "vllm:num_requests_running 2",
		"# TYPE vllm:kv_cache_usage_perc gauge", "vllm:kv_cache_usage_perc 0.25",
		"# TYPE vllm:cache_config_info gauge", `vllm:cache_config_info{block_size="16",num_gpu_blocks="20"} 1`,
		"# TYPE vllm:lora_requests_info gauge",
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	_, value, _ := strings.Cut(text, "\n"+
		`vllm:lora_requests_info{max_lora="3",running_lora_adapters="a,b",waiting_lora_adapters=""} `)
	value, _, _ = strings.Cut(value, "\n")
	if at, err := strconv.ParseFloat(value, 64); err != nil || int64(at) < before || int64(at) > time.Now().Unix() {
		t.Errorf("the time of vllm:lora_requests_info is %q", value)
	}
}

func TestPluginMetrics(t *testing.T) {
	plugins := []server.Plugin{
		{
			Name: "dry", Version: "1.\xff0", SHA256: "ab12", State: server.PluginReady, Calls: 7, Seconds: 0.25,
			Fuel: 1 << 40, Paused: 1.5, Slices: 9,
			Faults: map[string]uint64{"trap": 2, "out of fuel": 1}, Skips: 3, Resets: 4, Loads: 5, InstancesOut: 6,
			InstancesWaiting: 8,
		},
		{Name: "gone", State: server.PluginFailed},
	}
	m := server.NewMetrics()
	m.WatchPlugins(func() []server.Plugin { return plugins })
	s := newServer(nil, func(o *server.Options) { o.Metrics = m })
	text := "\n" + ask(s, "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		"# TYPE tgi_plugin_calls_total counter", `tgi_plugin_calls_total{plugin="dry"} 7`,
		`tgi_plugin_calls_total{plugin="gone"} 0`,
		"# TYPE tgi_plugin_seconds_total counter", `tgi_plugin_seconds_total{plugin="dry"} 0.25`,
		"# TYPE tgi_plugin_fuel_total counter", `tgi_plugin_fuel_total{plugin="dry"} 1.099511627776e+12`,
		"# TYPE tgi_plugin_paused_seconds_total counter", `tgi_plugin_paused_seconds_total{plugin="dry"} 1.5`,
		"# TYPE tgi_plugin_slices_total counter", `tgi_plugin_slices_total{plugin="dry"} 9`,
		"# TYPE tgi_plugin_faults_total counter", `tgi_plugin_faults_total{kind="trap",plugin="dry"} 2`,
		`tgi_plugin_faults_total{kind="out of fuel",plugin="dry"} 1`,
		`tgi_plugin_skips_total{plugin="dry"} 3`, `tgi_plugin_resets_total{plugin="dry"} 4`,
		`tgi_plugin_loads_total{plugin="dry"} 5`,
		"# TYPE tgi_plugin_instances gauge", `tgi_plugin_instances{plugin="dry",state="out"} 6`,
		`tgi_plugin_instances{plugin="dry",state="waiting"} 8`,
		"# TYPE tgi_plugin_info gauge", `tgi_plugin_info{plugin="dry",sha256="ab12",state="ready",version="1.` +
			"\uFFFD" + `0"} 1`,
		`tgi_plugin_info{plugin="gone",sha256="",state="failed",version=""} 1`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in%s", line, text)
		}
	}
	plugins = plugins[:1]
	if text := ask(s, "GET", "/metrics", "").Body.String(); strings.Contains(text, "gone") {
		t.Error("a plugin that is gone left figures behind")
	}
}

func TestModelMetrics(t *testing.T) {
	models := []server.ModelMetrics{{ID: "a/b", State: "running", Memory: 4096, Uses: 3, LoadSeconds: 1.5},
		{ID: "c", State: "stopped"}}
	m := server.NewMetrics()
	m.WatchModels(func() []server.ModelMetrics { return models })
	s := newServer(nil, func(o *server.Options) { o.Metrics = m })
	text := "\n" + ask(s, "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		`tgi_model_info{model="a/b",state="running"} 1`, `tgi_model_info{model="c",state="stopped"} 1`,
		`tgi_model_memory_bytes{model="a/b"} 4096`, `tgi_model_uses{model="a/b"} 3`,
		`tgi_model_load_seconds{model="a/b"} 1.5`, `tgi_model_uses{model="c"} 0`,
	} {
		if !strings.Contains(text, "\n"+line+"\n") {
			t.Errorf("no line %s in%s", line, text)
		}
	}
}

func TestMetricsCanBeOff(t *testing.T) {
	if rec := ask(newServer(nil, nil), "GET", "/metrics", ""); rec.Code != 404 {
		t.Errorf("got %d", rec.Code)
	}
}
