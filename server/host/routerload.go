package host

import (
	"cmp"

	"tgi/server"
	"tgi/server/api/routing"
)

// endpointLoad is routerLoad as the replies of generating routes tell it.
func (f *manager) endpointLoad() server.EndpointLoad {
	l := f.routerLoad()
	return server.EndpointLoad{Utilization: routing.Share(l.Running+l.Waiting, l.MaxRunning),
		CacheUsage: routing.Share(l.UsedTokens, l.TotalTokens), Waiting: l.Waiting, Running: l.Running}
}

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
