package plugins

import "tgi/plugins/internal/sandbox"

// Memory bounds what the plugins of all sets that have it take together: instances, by the pages that they touched,
// what they share of a plugin, and what is remembered of grammars. A request that needs more waits for its turn, and
// then fails with ErrBusy; the instance of whoever has most is ended when those that run grow beyond it.
type Memory = sandbox.Quota

// MemoryConfig says how much there is.
type MemoryConfig = sandbox.QuotaConfig

// MemoryStats is the state of a Memory.
type MemoryStats = sandbox.QuotaStats

// NewMemory makes a Memory of which nothing is used.
func NewMemory(c MemoryConfig) *Memory { return sandbox.NewQuota(c) }
