package bench

import (
	"math"
	"slices"
	"time"
)

// Report is the result of Run. Its JSON field names are stable: fields may be
// added, none is renamed.
type Report struct {
	URL string `json:"url"`
	// PromptTokens and OutputTokens are what was asked for.
	PromptTokens int    `json:"prompt_tokens"`
	OutputTokens int    `json:"output_tokens"`
	SharedPrefix int    `json:"shared_prefix"`
	Seed         uint64 `json:"seed"`
	// Runs has one element for each concurrency, or one for the rate.
	Runs []Measured `json:"runs,omitempty"`
	// Repeat is there when prompts were sent twice.
	Repeat *Repeated `json:"repeat,omitempty"`
	// Beside has one element for each concurrency when prompts came beside streams.
	Beside []*Disturbed `json:"beside,omitempty"`
	// Plan is there when one was asked for; Runs are its trials.
	Plan *Plan `json:"plan,omitempty"`
}

// Measured is what one run of load came to. Tokens, rates and times are those of
// completed requests alone.
type Measured struct {
	// Concurrency is the number of streams of a closed loop, 0 in an open one.
	Concurrency int `json:"concurrency,omitempty"`
	// Rate is the requests per second of an open loop, 0 in a closed one.
	Rate float64 `json:"rate,omitempty"`
	// Sending is how many seconds an open loop sent for. KeptUp is the part of its rate that the server kept up with, 1
	// where no backlog grew; 0 in a closed loop.
	Sending float64 `json:"sending_seconds,omitempty"`
	KeptUp  float64 `json:"kept_up,omitempty"`
	// Seconds from the start to the end of the last request.
	Seconds float64 `json:"seconds"`
	// Requests = Completed + Rejected + the sum of Errors.
	Requests  int `json:"requests"`
	Completed int `json:"completed"`
	// Rejected requests found the server full: status 429 or TGI's "overloaded".
	Rejected int `json:"rejected"`
	// Errors counts failures by HTTP status, by TGI's error_type, or as "timeout",
	// "cancelled", "connection", "incomplete stream", "malformed stream".
	Errors map[string]int `json:"errors,omitempty"`
	// Reasons has for each of Errors what the server said of the first, where it said anything, at most 200 bytes.
	Reasons           map[string]string `json:"error_reasons,omitempty"`
	InputTokens       int               `json:"input_tokens"`
	OutputTokens      int               `json:"output_tokens"`
	RequestsPerSecond float64           `json:"requests_per_s"`
	OutputPerSecond   float64           `json:"output_tokens_per_s"`
	// TotalPerSecond counts input and output tokens.
	TotalPerSecond float64 `json:"total_tokens_per_s"`
	// FirstToken and EndToEnd run from the moment of sending, in an open loop from
	// the moment at which the request was due.
	FirstToken Summary `json:"ttft_ms"`
	// InterToken has each gap between two tokens of a stream.
	InterToken Summary `json:"inter_token_ms"`
	// Together has those of InterToken during which all streams of a closed loop generate and none waits for its first
	// token.
	Together Summary `json:"inter_token_together_ms"`
	EndToEnd Summary `json:"end_to_end_ms"`
}

// Repeated compares the time to first token of prompts sent twice.
type Repeated struct {
	Prompts int     `json:"prompts"`
	Failed  int     `json:"failed"`
	Cold    Summary `json:"cold_ttft_ms"`
	Cached  Summary `json:"cached_ttft_ms"`
}

// Summary describes a set of durations in milliseconds. All are 0 when Count is.
// Quantiles are by nearest rank: each is one of the measured values.
type Summary struct {
	Count int     `json:"count"`
	Mean  float64 `json:"mean"`
	P50   float64 `json:"p50"`
	P90   float64 `json:"p90"`
	P99   float64 `json:"p99"`
	Max   float64 `json:"max"`
}

// summarize sorts ds.
func summarize(ds []time.Duration) Summary {
	if len(ds) == 0 {
		return Summary{}
	}
	slices.Sort(ds)
	sum := 0.0
	for _, d := range ds {
		sum += milliseconds(d)
	}
	return Summary{
		Count: len(ds),
		Mean:  sum / float64(len(ds)),
		P50:   milliseconds(quantile(ds, 50)),
		P90:   milliseconds(quantile(ds, 90)),
		P99:   milliseconds(quantile(ds, 99)),
		Max:   milliseconds(ds[len(ds)-1]),
	}
}

// quantile returns the smallest of the sorted values that at least percent of
// them do not exceed.
func quantile(sorted []time.Duration, percent int) time.Duration {
	rank := (len(sorted)*percent + 99) / 100
	return sorted[max(rank, 1)-1]
}

func milliseconds(d time.Duration) float64 {
	return math.Round(float64(d)/1e3) / 1e3 // whole microseconds
}

// together returns the gaps between tokens during which so many requests generate: neither wait for their first token
// nor have had their last.
func together(all []outcome, streams int) (gaps []time.Duration) {
	var first, last []time.Time
	for _, o := range all {
		if n := len(o.tokens); n > 0 {
			first, last = append(first, o.tokens[0]), append(last, o.tokens[n-1])
		}
	}
	slices.SortFunc(first, time.Time.Compare)
	slices.SortFunc(last, time.Time.Compare)
	for _, o := range all {
		for i := 1; i < len(o.tokens) && o.failure == ""; i++ {
			from, to := o.tokens[i-1], o.tokens[i]
			begun, _ := slices.BinarySearchFunc(first, from.Add(1), time.Time.Compare)
			ended, _ := slices.BinarySearchFunc(last, to, time.Time.Compare)
			if begun-ended >= streams {
				gaps = append(gaps, to.Sub(from))
			}
		}
	}
	return gaps
}

// keptUp is the part of its rate that a server kept up with, of requests that came for the time of sending: without a
// backlog the last of them ends no later after the last moment of sending than requests of the first half took.
func keptUp(start time.Time, sending time.Duration, all []outcome) float64 {
	var usual, until time.Duration
	for _, o := range all {
		if o.due.Sub(start) <= sending/2 {
			usual = max(usual, o.end.Sub(o.due))
		}
		until = max(until, o.end.Sub(start))
	}
	if until-usual <= sending {
		return 1
	}
	return float64(sending) / float64(until-usual)
}

// measure sums up the outcomes of a run that began at start.
func measure(start time.Time, all []outcome) Measured {
	m := Measured{Requests: len(all)}
	var first, gaps, whole []time.Duration
	last := start
	for _, o := range all {
		if o.end.After(last) {
			last = o.end
		}
		switch o.failure {
		case "":
		case overloaded:
			m.Rejected++
			continue
		default:
			if m.Errors == nil {
				m.Errors, m.Reasons = make(map[string]int), make(map[string]string)
			}
			if m.Errors[o.failure]++; o.said != "" && m.Reasons[o.failure] == "" {
				m.Reasons[o.failure] = o.said
			}
			continue
		}
		m.Completed++
		m.InputTokens += o.inputTokens
		m.OutputTokens += o.outputTokens
		whole = append(whole, o.end.Sub(o.due))
		for i, t := range o.tokens {
			if i == 0 {
				first = append(first, t.Sub(o.due))
			} else {
				gaps = append(gaps, t.Sub(o.tokens[i-1]))
			}
		}
	}
	m.FirstToken, m.InterToken, m.EndToEnd = summarize(first), summarize(gaps), summarize(whole)
	if m.Seconds = last.Sub(start).Seconds(); m.Seconds > 0 {
		m.RequestsPerSecond = float64(m.Completed) / m.Seconds
		m.OutputPerSecond = float64(m.OutputTokens) / m.Seconds
		m.TotalPerSecond = float64(m.InputTokens+m.OutputTokens) / m.Seconds
	}
	return m
}
