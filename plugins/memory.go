package plugins

import "tgi/plugins/internal/sandbox"

// Memory bounds what the plugins of all sets that have it take together: instances, by the pages that they touched,
// what they share of a plugin, and cached grammars. A request that needs more waits for a limited time, then fails with
// ErrBusy. When running instances grow beyond the bound, an instance of the plugin that uses most is ended.
type Memory = sandbox.Quota

// MemoryConfig says how much there is.
type MemoryConfig = sandbox.QuotaConfig

// MemoryStats is the state of a Memory.
type MemoryStats = sandbox.QuotaStats

// NewMemory returns a Memory that is entirely free.
func NewMemory(c MemoryConfig) *Memory { return sandbox.NewQuota(c) }
