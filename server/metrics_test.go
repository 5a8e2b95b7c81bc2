package server_test

import (
	"errors"
	"strings"
	"testing"
	"time"

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
	m.Watch(limits, func() engine.Stats { return engine.Stats{Waiting: 3, Running: 2, KVUsed: 5, KVCached: 4, KVTotal: 250} }, 16)
	m.Arrived()
	m.Arrived()
	m.Arrived()
	m.Checked(generate.Request{Prompt: make([]llm.Token, 25), Params: llm.Params{MaxNewTokens: 60}, Checked: time.Millisecond})
	m.Refused(&generate.Overloaded{})
	m.Refused(&generate.Invalid{})
	m.Refused(llm.ErrBackend)
	m.Refused(llm.ErrPlugin)
	m.Refused(generate.ErrIncomplete)
	m.Refused(errors.New("unknown"))
	m.Token(true, time.Second)
	m.Token(false, time.Millisecond)
	m.Finished(generate.Timings{Total: 2 * time.Second, Queue: time.Second}, []llm.Finish{{Generated: 7}, {Generated: 8}})
	m.Step(engine.Report{PrefillTokens: 30, PrefillRows: 2, DecodeRows: 1, Admitted: 2, PromptTokens: 40, CachedTokens: 10, Preempted: 1, Total: time.Second})
	m.Step(engine.Report{DecodeRows: 3, Total: time.Millisecond, Forward: time.Millisecond})
	m.Step(engine.Report{DecodeRows: 3, Err: llm.ErrBackend})

	text := ask(newServer(nil, func(o *server.Options) { o.Metrics = m }), "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		"# TYPE tgi_request_count counter", "tgi_request_count 3", "tgi_request_success 1",
		`tgi_request_failure{err="overloaded"} 1`, `tgi_request_failure{err="validation"} 1`,
		`tgi_request_failure{err="plugin"} 1`, `tgi_request_failure{err="generation"} 2`, `tgi_request_failure{err="incomplete"} 1`,
		"# TYPE tgi_request_duration histogram", `tgi_request_duration_bucket{le="0.00015"} 0`, "tgi_request_duration_sum 2", "tgi_request_queue_duration_sum 1",
		`tgi_request_input_length_bucket{le="9.99"} 0`, `tgi_request_input_length_bucket{le="29.97"} 1`,
		`tgi_request_max_new_tokens_bucket{le="50"} 0`, `tgi_request_max_new_tokens_bucket{le="60"} 1`,
		"tgi_request_generated_tokens_count 2", "tgi_request_generated_tokens_sum 15",
		"tgi_request_time_to_first_token_duration_sum 1", "tgi_request_inter_token_duration_count 1",
		"# TYPE tgi_queue_size gauge", "tgi_queue_size 3", "tgi_batch_current_size 2", "tgi_batch_current_max_tokens 80", "tgi_batch_max_total_tokens 4000",
		"tgi_kv_blocks 250", "tgi_kv_blocks_used 5", "tgi_kv_blocks_cached 4",
		`tgi_batch_inference_count{method="prefill"} 1`, `tgi_batch_inference_count{method="decode"} 2`,
		`tgi_batch_inference_success{method="decode"} 1`, `tgi_batch_inference_failure{method="decode"} 1`,
		`tgi_batch_inference_duration_sum{method="prefill"} 1`, `tgi_batch_forward_duration_sum{method="decode"} 0.001`,
		`tgi_batch_decode_duration_count{method="decode"} 2`, "tgi_batch_next_size_sum 2", `tgi_batch_concat{reason="chunking"} 1`,
		"tgi_prefix_lookup_tokens 40", "tgi_prefix_hit_tokens 10", "tgi_preemption_count 1",
	} {
		if !strings.Contains("\n"+text, "\n"+line+"\n") {
			t.Errorf("no line %s", line)
		}
	}
	last := durationsOf(text)
	if len(last) != 36 || last[34] != "145.6" && !strings.HasPrefix(last[34], "145.") || last[35] != "+Inf" {
		t.Errorf("buckets of tgi_request_duration: %v", last)
	}
}

func durationsOf(text string) (edges []string) {
	for _, line := range strings.Split(text, "\n") {
		if after, ok := strings.CutPrefix(line, `tgi_request_duration_bucket{le="`); ok {
			edge, _, _ := strings.Cut(after, `"`)
			edges = append(edges, edge)
		}
	}
	return edges
}

func TestPluginMetrics(t *testing.T) {
	plugins := []server.Plugin{
		{
			Name: "dry", Version: "1.\xff0", SHA256: "ab12", State: server.PluginReady, Calls: 7, Seconds: 0.25, Fuel: 1 << 40,
			Faults: map[string]uint64{"trap": 2, "out of fuel": 1}, Skips: 3, Resets: 4, Loads: 5, InstancesOut: 6, InstancesWaiting: 8,
		},
		{Name: "gone", State: server.PluginFailed},
	}
	m := server.NewMetrics()
	m.WatchPlugins(func() []server.Plugin { return plugins })
	s := newServer(nil, func(o *server.Options) { o.Metrics = m })
	text := "\n" + ask(s, "GET", "/metrics", "").Body.String()
	for _, line := range []string{
		"# TYPE tgi_plugin_calls_total counter", `tgi_plugin_calls_total{plugin="dry"} 7`, `tgi_plugin_calls_total{plugin="gone"} 0`,
		"# TYPE tgi_plugin_seconds_total counter", `tgi_plugin_seconds_total{plugin="dry"} 0.25`,
		"# TYPE tgi_plugin_fuel_total counter", `tgi_plugin_fuel_total{plugin="dry"} 1.099511627776e+12`,
		"# TYPE tgi_plugin_faults_total counter", `tgi_plugin_faults_total{kind="trap",plugin="dry"} 2`, `tgi_plugin_faults_total{kind="out of fuel",plugin="dry"} 1`,
		`tgi_plugin_skips_total{plugin="dry"} 3`, `tgi_plugin_resets_total{plugin="dry"} 4`, `tgi_plugin_loads_total{plugin="dry"} 5`,
		"# TYPE tgi_plugin_instances gauge", `tgi_plugin_instances{plugin="dry",state="out"} 6`, `tgi_plugin_instances{plugin="dry",state="waiting"} 8`,
		"# TYPE tgi_plugin_info gauge", `tgi_plugin_info{plugin="dry",sha256="ab12",state="ready",version="1.` + "\uFFFD" + `0"} 1`,
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

func TestMetricsCanBeOff(t *testing.T) {
	if rec := ask(newServer(nil, nil), "GET", "/metrics", ""); rec.Code != 404 {
		t.Errorf("got %d", rec.Code)
	}
}
