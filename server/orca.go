package server

import (
	"context"
	"encoding/json"
	"net/http"
	"strconv"
	"strings"
	"sync"
	"time"
)

// LoadFormat and LoadHeader are ORCA's (Open Request Cost Aggregation): a balancer that sends the first with a request
// gets the second with the reply, and learns the server's load from it without asking /metrics.
const (
	LoadFormat = "Endpoint-Load-Metrics-Format"
	LoadHeader = "Endpoint-Load-Metrics"
)

// EndpointLoad is the load of a server as ORCA tells it.
type EndpointLoad struct {
	// Utilization is the share of what may run that runs or waits; more than 1 where much waits.
	Utilization float64
	// CacheUsage is the share of the cache that sequences hold, Waiting and Running count sequences.
	CacheUsage       float64
	Waiting, Running int
}

// WatchLoad has replies tell what read returns, to those that ask. It is called at most once, before Open.
func (s *Server) WatchLoad(read func() EndpointLoad) { s.load = read }

// tellLoad has the reply to r tell the load, as it is when its header is sent, if r asks for it. Whom /metrics is
// closed to is not told. A stream's header is sent before its tokens: that is the load that the request met.
func (s *Server) tellLoad(w http.ResponseWriter, r *http.Request, scope Scope) {
	if scope != Generate || s.load == nil {
		return
	}
	s.rate.count(time.Now())
	out, ok := w.(*reply)
	format := strings.ToUpper(r.Header.Get(LoadFormat))
	if !ok || format != "TEXT" && format != "JSON" || s.options.Config.ProtectMetrics && !hasKey(r.Context()) {
		return
	}
	before := out.begins
	out.begins = func(h http.Header) {
		if before != nil {
			before(h)
		}
		h.Set(LoadHeader, s.load().header(format, s.rate.perSecond(time.Now())))
	}
}

// hasKey reports whether the request of ctx showed a key.
func hasKey(ctx context.Context) bool {
	_, ok := ctx.Value(keyKey{}).(*key)
	return ok
}

// header is the value of LoadHeader. Members of vLLM's have vLLM's names.
func (l EndpointLoad) header(format string, rate float64) string {
	if format == "JSON" {
		b, err := json.Marshal(map[string]any{"application_utilization": l.Utilization, "rps_fractional": rate,
			"named_metrics": map[string]any{"kv_cache_usage_perc": l.CacheUsage, "num_requests_waiting": l.Waiting,
				"num_requests_running": l.Running}})
		if err != nil {
			panic("BUG: a load that is no number: " + err.Error())
		}
		return "JSON " + string(b)
	}
	number := func(n float64) string { return strconv.FormatFloat(n, 'g', -1, 64) }
	return "TEXT application_utilization=" + number(l.Utilization) + ",rps_fractional=" + number(rate) +
		",named_metrics.kv_cache_usage_perc=" + number(l.CacheUsage) +
		",named_metrics.num_requests_waiting=" + strconv.Itoa(l.Waiting) +
		",named_metrics.num_requests_running=" + strconv.Itoa(l.Running)
}

// rateSeconds is how many past seconds a rate is the mean of.
const rateSeconds = 10

// rate counts requests of the last seconds, one place for each.
type rate struct {
	mu    sync.Mutex
	began int64 // the second of the first request
	last  int64 // the newest second that has a place
	in    [rateSeconds + 1]int
}

// forward frees the places of the seconds that passed. The caller holds the lock.
func (r *rate) forward(now int64) {
	if r.began == 0 {
		r.began, r.last = now, now
	}
	for from := max(r.last, now-int64(len(r.in))); from < now; from++ {
		r.in[(from+1)%int64(len(r.in))] = 0
	}
	r.last = max(r.last, now)
}

// count counts a request.
func (r *rate) count(now time.Time) {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forward(now.Unix())
	r.in[r.last%int64(len(r.in))]++
}

// perSecond returns the mean of the seconds before this one, and of this one before there is any.
func (r *rate) perSecond(now time.Time) float64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	r.forward(now.Unix())
	passed := min(r.last-r.began, rateSeconds)
	if passed == 0 {
		return float64(r.in[r.last%int64(len(r.in))])
	}
	sum := 0
	for i := range passed {
		sum += r.in[(r.last-1-i)%int64(len(r.in))]
	}
	return float64(sum) / float64(passed)
}
