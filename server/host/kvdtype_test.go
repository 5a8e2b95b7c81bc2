package host

import (
	"testing"

	"tgi/server/config"
)

// TestKVDType: runtime.kv_dtype decides what a token takes in the cache, and so how many tokens one of a given size
// holds; what is planned for it is what it takes.
func TestKVDType(t *testing.T) {
	most := 0
	for _, form := range config.KVDTypes {
		c := config.Default()
		c.Model.Weights, c.Runtime.KVMemory, c.Runtime.KVDType = config.WeightsFP32, 8_765_432, form
		h := openServer(t, c)
		m := h.defaultModel()
		token := m.built.CacheBytesPerToken()
		if got := m.backend.CacheBytes(); got != token*int64(cacheTokens(m.backend)) {
			t.Errorf("%s: the cache has %d bytes for %d tokens of %d", form, got, cacheTokens(m.backend), token)
		}
		if n := cacheTokens(m.backend); form != "bfloat16" && n <= most {
			t.Errorf("%s: %d tokens fit, more fit larger ones", form, n)
		} else {
			most = n
		}
		p, err := h.models.planFor(c, m.id, 1<<30)
		if err != nil {
			t.Fatal(err)
		}
		if p.cache != m.backend.CacheBytes() {
			t.Errorf("%s: %d bytes are planned for a cache of %d", form, p.cache, m.backend.CacheBytes())
		}
	}
}
