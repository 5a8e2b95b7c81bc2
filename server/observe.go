package server

import (
	"time"

	"tgi/runtime/draft"
	"tgi/runtime/engine"
	"tgi/runtime/llm"
	"tgi/server/generate"
)

var (
	_ generate.Observer = (*Metrics)(nil)
	_ engine.Observer   = (*Metrics)(nil)
)

// Arrived implements generate.Observer.
func (m *Metrics) Arrived() { m.count.Inc() }

// Checked implements generate.Observer.
func (m *Metrics) Checked(r generate.Request) {
	m.validation.Observe(r.Checked.Seconds())
	m.inputLength.Observe(float64(len(r.Prompt)))
	m.maxNewTokens.Observe(float64(r.Params.MaxNewTokens))
	if r.Guidance != "" {
		m.guided.WithLabelValues(r.Guidance).Inc()
	}
}

// Refused implements generate.Observer.
func (m *Metrics) Refused(err error) { m.failure.WithLabelValues(lookUp(err).label).Inc() }

// Token implements generate.Observer.
func (m *Metrics) Token(first bool, gap time.Duration) {
	if first {
		m.first.Observe(gap.Seconds())
		return
	}
	m.between.Observe(gap.Seconds())
}

// Program implements generate.Observer.
func (m *Metrics) Program(tokens int) { m.programTokens.Add(float64(tokens)) }

// Finished implements generate.Observer.
func (m *Metrics) Finished(t generate.Timings, sequences []llm.Finish) {
	m.success.Inc()
	m.duration.Observe(t.Total.Seconds())
	m.queue.Observe(t.Queue.Seconds())
	m.inference.Observe(t.Inference.Seconds())
	m.perToken.Observe(t.PerToken.Seconds())
	for i := range sequences {
		m.generated.Observe(float64(sequences[i].Generated))
	}
}

// countDrafts counts a step's guesses.
func (m *Metrics) countDrafts(r engine.Report) {
	accepted := 0
	for s := range draft.Sources {
		m.draftTokens.WithLabelValues(s.String(), "true").Add(float64(r.Drafts.Accepted[s]))
		m.draftTokens.WithLabelValues(s.String(), "false").Add(float64(r.Drafts.Rejected[s]))
		accepted += r.Drafts.Accepted[s]
	}
	for i := range r.DecodeRows { // sum and count of the summary are right, it has nothing else
		if i == 0 {
			m.skipped.Observe(float64(accepted))
		} else {
			m.skipped.Observe(0)
		}
	}
}

// Step implements engine.Observer.
func (m *Metrics) Step(r engine.Report) {
	method := decode
	if r.PrefillTokens > 0 {
		method = prefill
		m.nextSize.Observe(float64(r.PrefillRows))
	}
	m.stepCount.WithLabelValues(method).Inc()
	m.countDrafts(r)
	if r.Err != nil {
		m.stepFailed.WithLabelValues(method).Inc()
	} else {
		m.stepDone.WithLabelValues(method).Inc()
	}
	m.stepTime.WithLabelValues(method).Observe(r.Total.Seconds())
	m.forwardTime.WithLabelValues(method).Observe(r.Forward.Seconds())
	m.pickNow.WithLabelValues(method).Observe(r.Pick.Seconds())
	m.dropTime.WithLabelValues(method).Observe(r.Plan.Seconds())
	if r.Admitted > 0 && r.DecodeRows > 0 {
		m.joined.WithLabelValues(chunking).Inc()
		m.joinTime.WithLabelValues(decode).Observe(r.Plan.Seconds()) // TGI's label, whatever the step
	}
	m.promptTokens.Add(float64(r.PromptTokens))
	m.cachedTokens.Add(float64(r.CachedTokens))
	m.lookedUp.Add(int64(r.PromptTokens))
	m.found.Add(int64(r.CachedTokens))
	m.preempted.Add(float64(r.Preempted))
	m.late.Add(float64(r.Late))
	m.satOut.Add(float64(r.ParkedBefore))
}

// PrefixHits returns the share of prompt tokens that were found in the cache.
func (m *Metrics) PrefixHits() float64 {
	all := m.lookedUp.Load()
	if all == 0 {
		return 0
	}
	return float64(m.found.Load()) / float64(all)
}
