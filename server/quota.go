package server

import (
	"context"
	"net/http"
	"strconv"
	"strings"
	"time"

	"tgi/server/quota"
)

// enter lets a request in by the limits of its key. Headers say what is left when the reply begins. The lease is nil
// for routes that compute nothing, and where nothing is counted.
func (s *Server) enter(w http.ResponseWriter, r *http.Request, scope Scope) (*quota.Lease, error) {
	if s.options.Quotas == nil || scope != Generate || r.Method != http.MethodPost {
		return nil, nil
	}
	ctx := r.Context()
	l, err := s.options.Quotas.Enter(ctx, KeyName(ctx), lineOf(ctx) != nil)
	if out, ok := w.(*reply); ok && l != nil {
		anthropic := strings.HasPrefix(r.URL.Path, "/v1/messages")
		out.begins = func(h http.Header) { setRates(h, l.States(), anthropic, time.Now()) }
	}
	return l, err
}

// setRates sets the headers that say what is left of a key's rates: OpenAI's, or Anthropic's. Of two rates of tokens
// they tell the one that is nearer to its end.
func setRates(h http.Header, states []quota.State, anthropic bool, now time.Time) {
	least := map[string]quota.State{}
	for _, st := range states {
		kind := "tokens"
		if st.Window == quota.RequestsPerMinute {
			kind = "requests"
		}
		if before, ok := least[kind]; !ok || st.Remaining < before.Remaining {
			least[kind] = st
		}
	}
	for kind, st := range least {
		if anthropic {
			at := "Anthropic-Ratelimit-" + kind + "-"
			h.Set(at+"Limit", strconv.Itoa(st.Limit))
			h.Set(at+"Remaining", strconv.Itoa(st.Remaining))
			h.Set(at+"Reset", now.Add(st.Reset).UTC().Format(time.RFC3339))
			continue
		}
		h.Set("X-Ratelimit-Limit-"+kind, strconv.Itoa(st.Limit))
		h.Set("X-Ratelimit-Remaining-"+kind, strconv.Itoa(st.Remaining))
		h.Set("X-Ratelimit-Reset-"+kind, st.Reset.Round(time.Millisecond).String())
	}
}

// Usage returns what keys have used, with the states of their rates.
func (s *Server) Usage(ctx context.Context) (since time.Time, list []quota.Usage) {
	if s.options.Quotas == nil {
		return since, nil
	}
	list = s.options.Quotas.Usage()
	for i := range list {
		s.options.Quotas.States(ctx, &list[i])
	}
	return s.options.Quotas.Since(), list
}
