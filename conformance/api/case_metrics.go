package api

import (
	"bufio"
	"bytes"
	"fmt"
	"math"
	"net/http"
	"strconv"
	"strings"
)

// tgiMetrics are TGI's metrics: name and type. The late ones appear at TGI when
// something happens that a short visit cannot bring about.
var tgiMetrics = []struct {
	name, kind string
	late       bool
}{
	{"tgi_request_count", "counter", false}, {"tgi_request_success", "counter", false}, {"tgi_request_failure",
		"counter", false},
	{"tgi_request_duration", "histogram", false}, {"tgi_request_validation_duration", "histogram", false},
	{"tgi_request_queue_duration", "histogram", false},
	{"tgi_request_inference_duration", "histogram", false}, {"tgi_request_mean_time_per_token_duration", "histogram",
		false},
	{"tgi_request_input_length", "histogram", false}, {"tgi_request_max_new_tokens", "histogram", false},
	{"tgi_request_generated_tokens", "histogram", false},
	{"tgi_request_skipped_tokens", "histogram|summary", true},
	{"tgi_batch_inference_count", "counter", false}, {"tgi_batch_inference_success", "counter", false},
	{"tgi_batch_inference_failure", "counter", true},
	{"tgi_batch_concat", "counter", true}, {"tgi_batch_inference_duration", "histogram", false},
	{"tgi_batch_forward_duration", "histogram", false},
	{"tgi_batch_decode_duration", "histogram", false}, {"tgi_batch_filter_duration", "histogram", true},
	{"tgi_batch_concat_duration", "histogram", true},
	{"tgi_batch_next_size", "histogram", false}, {"tgi_batch_current_size", "gauge", false},
	{"tgi_batch_current_max_tokens", "gauge", false},
	{"tgi_queue_size", "gauge", false}, {"tgi_batch_max_total_tokens", "gauge", false},
}

// metricsOf06 are the metrics that TGI 0.6 already had.
const metricsOf06 = " tgi_queue_size tgi_batch_current_size tgi_batch_next_size tgi_batch_inference_count tgi_batch_inference_success tgi_batch_inference_failure " +
	"tgi_batch_inference_duration tgi_request_count tgi_request_success tgi_request_failure tgi_request_duration tgi_request_validation_duration " +
	"tgi_request_queue_duration tgi_request_inference_duration tgi_request_mean_time_per_token_duration tgi_request_input_length tgi_request_max_new_tokens tgi_request_generated_tokens "

var metricsCases = []Case{
	{ID: "metrics", Rule: "GET /metrics is Prometheus' text format", Source: ofMetrics, run: func(p *probe) {
		r := p.get("/metrics")
		p.status(r, http.StatusOK)
		p.media(r, "text/plain")
		for _, wrong := range p.scrape(r).wrong {
			p.fail("%s", wrong)
		}
	}},
	{ID: "metrics-names", Rule: "TGI's figures have their names and types", Source: ofMetrics, run: func(p *probe) {
		p.ask("/generate", generate(`"max_new_tokens":3`), "GenerateResponse")
		p.post("/generate", generate(`"temperature":0.0`))
		s := p.scrape(p.get("/metrics"))
		for _, f := range tgiMetrics {
			if !p.form.latestMetrics && !strings.Contains(metricsOf06, " "+f.name+" ") {
				continue
			}
			switch kind := s.kinds[f.name]; {
			case kind == "" && f.late && !p.form.this:
			case kind == "":
				p.fail("%s is missing", f.name)
			case !strings.Contains(f.kind, kind):
				p.fail("%s is a %s, want a %s", f.name, kind, f.kind)
			}
		}
	}},
	{ID: "metrics-counts",
		Rule:   "a text adds to count and success, a refusal to count and to failure with err=\"validation\"",
		Source: ofMetrics, run: func(p *probe) {
			before := p.scrape(p.get("/metrics"))
			p.ask("/generate", generate(`"max_new_tokens":3`), "GenerateResponse")
			p.post("/generate", generate(`"temperature":0.0`))
			after := p.scrape(p.get("/metrics"))
			for name, least := range map[string]float64{"tgi_request_count": 2, "tgi_request_success": 1,
				`tgi_request_failure{err="validation"}`: 1, "tgi_request_duration_count": 1,
				"tgi_request_generated_tokens_sum": 1} {
				if d := after.values[name] - before.values[name]; !(d >= least) {
					p.fail("%s grew by %v, want at least %v", name, d, least)
				}
			}
			for _, name := range []string{`tgi_batch_inference_count{method="prefill"}`,
				`tgi_batch_inference_count{method="decode"}`} {
				if d := after.values[name]; !(d > 0) {
					p.fail("%s is %v", name, d)
				}
			}
		}},
	{ID: "metrics-more", Rule: "figures of the cache, of the first token, of those between and of prefixes",
		Source: ofServer, This: true, run: func(p *probe) {
			p.ask("/generate", generate(`"max_new_tokens":3`), "GenerateResponse")
			s := p.scrape(p.get("/metrics"))
			for name, kind := range map[string]string{
				"tgi_kv_usage": "gauge", "tgi_kv_blocks": "gauge", "tgi_kv_blocks_used": "gauge",
				"tgi_prefix_lookup_tokens": "counter", "tgi_prefix_hit_tokens": "counter",
				"tgi_request_time_to_first_token_duration": "histogram",
				"tgi_request_inter_token_duration":         "histogram",
			} {
				if s.kinds[name] != kind {
					p.fail("%s is %q, want a %s", name, s.kinds[name], kind)
				}
			}
			if s.values["tgi_request_time_to_first_token_duration_count"] == 0 ||
				s.values["tgi_request_inter_token_duration_count"] == 0 {
				p.fail("a text of three tokens has no first one, or none behind it")
			}
			if u := s.values["tgi_kv_usage"]; !(u >= 0 && u <= 1) {
				p.fail("tgi_kv_usage is %v", u)
			}
		}},
	{ID: "metrics-buckets",
		Rule:   "durations have buckets of 0.0001*1.5^k, k = 1 to 35; lengths have 100 up to their limit",
		Source: ofMetrics, run: func(p *probe) {
			p.ask("/generate", generate(`"max_new_tokens":3`), "GenerateResponse")
			s := p.scrape(p.get("/metrics"))
			for _, f := range tgiMetrics {
				if strings.HasSuffix(f.name, "_duration") && (s.kinds[f.name] != "" || p.form.this) {
					p.bounds(f.name, s.bounds[f.name], func(k int) float64 {
						return 0.0001 * math.Pow(1.5, float64(k))
					},
						35)
				}
			}
			for name, most := range map[string]string{"tgi_request_input_length": "max_input_tokens",
				"tgi_request_generated_tokens": "max_total_tokens"} {
				if n := p.limit(most, 0); n > 0 {
					p.bounds(name, s.bounds[name], func(k int) float64 { return float64(n) * float64(k) / 100 }, 100)
				}
			}
		}},
}

// bounds checks that a histogram has the n buckets of want(1) to want(n), and
// the open one.
func (p *probe) bounds(name string, got []float64, want func(int) float64, n int) {
	if len(got) != n+1 {
		p.fail("%s has %d buckets, want %d and the open one", name, len(got), n)
		return
	}
	for k := range n {
		if w := want(k + 1); math.Abs(got[k]-w) > 1e-6*w {
			p.fail("%s has a bucket up to %v, want %v", name, got[k], w)
			return
		}
	}
}

// scraped is what a reply of /metrics says.
type scraped struct {
	kinds  map[string]string
	values map[string]float64
	// bounds are those of a histogram's buckets, of its first labels.
	bounds map[string][]float64
	wrong  []string
}

// scrape reads Prometheus' text format, version 0.0.4.
func (p *probe) scrape(r *reply) scraped {
	s := scraped{kinds: map[string]string{}, values: map[string]float64{}, bounds: map[string][]float64{}}
	lines := bufio.NewScanner(bytes.NewReader(r.body))
	closed := map[string]bool{}
	for lines.Scan() {
		line := lines.Text()
		if rest, ok := strings.CutPrefix(line, "# TYPE "); ok {
			name, kind, _ := strings.Cut(rest, " ")
			s.kinds[name] = kind
			continue
		}
		if line == "" || strings.HasPrefix(line, "#") {
			continue
		}
		cut := strings.LastIndexByte(line, ' ')
		f, err := strconv.ParseFloat(line[cut+1:], 64)
		if cut < 0 || err != nil {
			s.wrong = append(s.wrong, fmt.Sprintf("the line %q has no value", shorten(line, 80)))
			continue
		}
		series := line[:cut]
		s.values[series] = f
		name, labels, _ := strings.Cut(series, "{")
		family, isBucket := strings.CutSuffix(name, "_bucket")
		if s.kinds[name] == "" && s.kinds[strings.TrimSuffix(strings.TrimSuffix(family, "_sum"), "_count")] == "" {
			s.wrong = append(s.wrong, fmt.Sprintf("%s has no type", name))
		}
		if isBucket && !closed[family] {
			_, le, _ := strings.Cut(labels, `le="`)
			le, _, _ = strings.Cut(le, `"`)
			bound, err := strconv.ParseFloat(le, 64)
			if err != nil {
				s.wrong = append(s.wrong, fmt.Sprintf("%s has the bucket %q", family, le))
			}
			s.bounds[family] = append(s.bounds[family], bound)
			closed[family] = math.IsInf(bound, 1)
		}
	}
	return s
}
