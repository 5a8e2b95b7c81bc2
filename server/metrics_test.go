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
		`tgi_request_failure{err="generation"} 2`, `tgi_request_failure{err="incomplete"} 1`,
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

func TestMetricsCanBeOff(t *testing.T) {
	if rec := ask(newServer(nil, nil), "GET", "/metrics", ""); rec.Code != 404 {
		t.Errorf("got %d", rec.Code)
	}
}
