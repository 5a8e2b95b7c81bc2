package host

import (
	"cmp"

	"tgi/server/api/routing"
)

// routerLoad is what routers are told of all models together.
func (f *manager) routerLoad() routing.Load {
	l := routing.Load{CacheHits: f.boot.metrics.PrefixHits()}
	for _, s := range f.running() {
		st := s.engine.Stats()
		l.Running += st.Running
		l.Waiting += st.Waiting
		l.UsedTokens += st.KVTokens
		l.TotalTokens += st.KVTotal * s.backend.BlockSize()
		places := s.limits.MaxConcurrentRequests
		l.MaxRunning += min(places, cmp.Or(s.limits.MaxBatchSize, places))
	}
	return l
}
