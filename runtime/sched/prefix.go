package sched

import "tgi/runtime/kv"

// Chain names the blocks of a job's prompt that the prefix cache may hold. It may be called from any goroutine.
func (s *Scheduler) Chain(j Job) []kv.Block {
	if s.settings.NoPrefixSharing {
		return nil
	}
	row := kv.NewRow(j.Salt, j.Embeddings...)
	if s.original != 0 && len(j.Prompt) > s.original {
		row.Resalt(longSalt)
	}
	return row.Chain(j.Prompt, s.pool.BlockSize())
}

// Lookup returns the cache block that holds what a key names, if there is one.
func (s *Scheduler) Lookup(k kv.Key) (block int32, ok bool) { return s.pool.Lookup(k) }

// Import has write fill a cache block with what block names, unless there is one, and keeps it in the prefix cache. It
// reports whether there was room. Like Abort, it must not be called between Plan and Commit.
func (s *Scheduler) Import(b kv.Block, write func(block int32) error) (done bool, err error) {
	return s.pool.Import(b, write)
}

// Refresh has the prefix cache evict the blocks of a chain last, the end of the chain before its beginning.
func (s *Scheduler) Refresh(chain []kv.Block) { s.pool.Refresh(chain) }

// Room returns how many blocks Import can fill before it evicts those that it filled first.
func (s *Scheduler) Room() int { return s.pool.Available() }

// Watch tells w which blocks of the prefix cache can be found. It is called before the first Add.
func (s *Scheduler) Watch(w kv.Watcher) { s.pool.Watch(w) }
