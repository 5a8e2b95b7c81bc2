package bench

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"
	"time"
)

func TestQuantileIsNearestRank(t *testing.T) {
	upTo := func(n int) (ds []time.Duration) {
		for i := range n {
			ds = append(ds, time.Duration(i+1))
		}
		return ds
	}
	for _, c := range []struct{ n, percent, want int }{
		{1, 50, 1}, {1, 99, 1}, {2, 50, 1}, {2, 51, 2}, {3, 50, 2},
		{4, 50, 2}, {5, 50, 3}, {10, 90, 9}, {10, 91, 10}, {11, 90, 10},
		{100, 99, 99}, {101, 99, 100}, {1000, 99, 990}, {7, 0, 1}, {7, 100, 7},
	} {
		if got := quantile(upTo(c.n), c.percent); got != time.Duration(c.want) {
			t.Errorf("%d %% of 1..%d: %d, want %d", c.percent, c.n, got, c.want)
		}
	}
}

func TestSummarize(t *testing.T) {
	ms := time.Millisecond
	got := summarize([]time.Duration{30 * ms, 10 * ms, 1500 * time.Microsecond, 20*ms + 400})
	if want := (Summary{Count: 4, Mean: 15.375, P50: 10, P90: 30, P99: 30, Max: 30}); got != want {
		t.Errorf("%+v, want %+v", got, want)
	}
	if got := summarize(nil); got != (Summary{}) {
		t.Errorf("%+v of nothing", got)
	}
}

func TestMeasure(t *testing.T) {
	start := time.Unix(1000, 0)
	at := func(ms int) time.Time { return start.Add(time.Duration(ms) * time.Millisecond) }
	m := measure(start, []outcome{
		{due: at(0), tokens: []time.Time{at(100), at(150)}, end: at(160), inputTokens: 10, outputTokens: 2},
		{due: at(50), tokens: []time.Time{at(250)}, end: at(250), inputTokens: 20, outputTokens: 1},
		{due: at(60), failure: overloaded, end: at(70), inputTokens: 99},
		{due: at(60), failure: failTimeout, tokens: []time.Time{at(90)}, end: at(2000), outputTokens: 99},
		{due: at(60), failure: failTimeout, end: at(1000)},
	})
	if m.Requests != 5 || m.Completed != 2 || m.Rejected != 1 || len(m.Errors) != 1 || m.Errors[failTimeout] != 2 {
		t.Errorf("counts %+v", m)
	}
	if m.InputTokens != 30 || m.OutputTokens != 3 || m.Seconds != 2 || m.OutputPerSecond != 1.5 ||
		m.TotalPerSecond != 16.5 || m.RequestsPerSecond != 1 {
		t.Errorf("rates %+v", m)
	}
	if m.FirstToken.P50 != 100 || m.FirstToken.Max != 200 || m.InterToken.Count != 1 || m.InterToken.P50 != 50 ||
		m.EndToEnd.Max != 200 {
		t.Errorf("times %+v", m)
	}
	if m := measure(start, nil); m.Requests != 0 || m.OutputPerSecond != 0 {
		t.Errorf("%+v of nothing", m)
	}
}

// TestTogether: gaps count while as many requests generate as there are streams.
func TestTogether(t *testing.T) {
	start := time.Unix(1000, 0)
	one := func(failure string, tokens ...int) outcome {
		o := outcome{failure: failure}
		for _, ms := range tokens {
			o.tokens = append(o.tokens, start.Add(time.Duration(ms)*time.Millisecond))
		}
		return o
	}
	all := []outcome{
		one("", 100, 110, 130, 165, 205), // alone until 120, with the second until 160, with the third from 170 on
		one("", 120, 131, 143, 160),
		one("", 170, 181, 300),
		one(failTimeout),
	}
	var got []int
	for _, g := range together(all, 2) {
		got = append(got, int(g.Milliseconds()))
	}
	if want := []int{11, 12, 17, 11}; !slices.Equal(got, want) {
		t.Errorf("gaps of %v ms, want %v", got, want)
	}
	if got := together(all, 3); got != nil {
		t.Errorf("gaps of three: %v", got)
	}
}

func sampleReport() Report {
	s := Summary{Count: 9, Mean: 5, P50: 4.25, P90: 33.456, P99: 1234.5, Max: 2000}
	return Report{
		URL: "http://h:1", PromptTokens: 128, OutputTokens: 64, SharedPrefix: 32, Seed: 7,
		Runs: []Measured{
			{Concurrency: 1, Seconds: 12.345, Requests: 9, Completed: 9, OutputTokens: 576, OutputPerSecond: 46.66,
				TotalPerSecond: 140, FirstToken: s, InterToken: s, Together: s,
				EndToEnd: s},
			{Rate: 2.5, Seconds: 100, Requests: 12, Rejected: 3, Errors: map[string]int{"timeout": 8, "500": 1}},
		},
		Repeat: &Repeated{Prompts: 4, Failed: 1, Cold: s},
	}
}

func TestTable(t *testing.T) {
	r := sampleReport()
	both := r
	r.Repeat, both.Runs = nil, nil
	for _, c := range []struct {
		r    Report
		want string
	}{
		{r, `
http://h:1, prompts of 128 tokens (32 shared), up to 64 new, seed 7

                                       tokens/s       first token ms    inter-token ms    end to end ms
load       done  429  failed  seconds  output  total   p50   p90   p99   p50   p90   p99   p50   p90   p99
1 streams     9    0       0     12.3    46.7    140  4.25  33.5  1234  4.25  33.5  1234  4.25  33.5  1234
2.5/s         0    3       9      100    0.00   0.00     -     -     -     -     -     -     -     -     -
1 of 12 requests failed: 500
8 of 12 requests failed: timeout
`},
		{both, `
http://h:1, prompts of 128 tokens (32 shared), up to 64 new, seed 7

first token ms   p50   p90   p99
first time      4.25  33.5  1234
repeated           -     -     -
1 of 8 requests failed
`},
	} {
		var b strings.Builder
		if err := c.r.WriteTable(&b); err != nil {
			t.Fatal(err)
		}
		if got := "\n" + b.String(); got != c.want {
			t.Errorf("table%s\nwant%s", got, c.want)
		}
	}
}

// TestJSONFieldNames: others read them.
func TestJSONFieldNames(t *testing.T) {
	data, err := json.Marshal(sampleReport())
	if err != nil {
		t.Fatal(err)
	}
	summary := `{"count":9,"mean":5,"p50":4.25,"p90":33.456,"p99":1234.5,"max":2000}`
	none := `{"count":0,"mean":0,"p50":0,"p90":0,"p99":0,"max":0}`
	want := `{"url":"http://h:1","prompt_tokens":128,"output_tokens":64,"shared_prefix":32,"seed":7,"runs":[` +
		`{"concurrency":1,"seconds":12.345,"requests":9,"completed":9,"rejected":0,"input_tokens":0,"output_tokens":576,` +
		`"requests_per_s":0,"output_tokens_per_s":46.66,"total_tokens_per_s":140,"ttft_ms":` + summary +
		`,"inter_token_ms":` + summary + `,"inter_token_together_ms":` + summary + `,"end_to_end_ms":` +
		summary + `},` +
		`{"rate":2.5,"seconds":100,"requests":12,"completed":0,"rejected":3,"errors":{"500":1,"timeout":8},"input_tokens":0,"output_tokens":0,` +
		`"requests_per_s":0,"output_tokens_per_s":0,"total_tokens_per_s":0,"ttft_ms":` + none + `,"inter_token_ms":` +
		none + `,"inter_token_together_ms":` + none + `,"end_to_end_ms":` + none + `}],` +
		`"repeat":{"prompts":4,"failed":1,"cold_ttft_ms":` + summary + `,"cached_ttft_ms":` + none + `}}`
	if string(data) != want {
		t.Errorf("JSON\n%s\nwant\n%s", data, want)
	}
}
