package host

import (
	"os"
	"runtime/debug"

	"tgi/models/library/lifecycle"
	"tgi/server/config"
)

// leastHeap is what Go's heap may take in any case: with less, a process that loads its
// first model would collect garbage all the time. See processOverhead.
const leastHeap = processOverhead

// heapLimit is what the memory that Go manages may grow to before the collector works
// harder: what was available at the start without what lies elsewhere, which are the
// weights and caches of models, and the instances of plugins. Compiled grammars, those of
// all models together, are part of the memory of plugins and lie in the heap.
func heapLimit(available, models, plugins, grammars int64) int64 {
	return max(leastHeap, available-models-max(0, plugins-grammars))
}

// limitHeap tells Go's runtime what the heap may take now, unless the user did by
// GOMEMLIMIT. It is called when a model begins to load and when one was stopped; a model
// that could not be loaded counts until then.
func (f *manager) limitHeap() {
	if os.Getenv("GOMEMLIMIT") != "" {
		return
	}
	f.limiting.Lock() // a limit that was computed earlier must not be set later
	defer f.limiting.Unlock()
	models, _ := f.roster.Memory()
	if f.device.onGPU() { // whose memory it is
		models = 0
	}
	plugins := f.memory.Stats().Limit
	debug.SetMemoryLimit(heapLimit(f.atStart, models, plugins, f.allGrammars(plugins)))
}

// allGrammars is what the compiled grammars of all models that are loaded, or begin to be, may take: each has
// plugins.grammar_memory, and all are part of the memory of plugins.
func (f *manager) allGrammars(plugins int64) int64 {
	each := grammarMemory(f.pluginSettings(), plugins)
	var all int64
	for _, m := range f.roster.All() {
		if m.State == lifecycle.Starting || m.State == lifecycle.Running {
			all = min(all+each, plugins)
		}
	}
	return all
}

func (f *manager) pluginSettings() config.Plugins {
	f.mu.Lock()
	defer f.mu.Unlock()
	return f.cfg.Plugins
}

// shrinkGrammars has compiled grammars, and the garbage of compiling them, yield to a model that
// needs so many bytes, where the system has less.
func (f *manager) shrinkGrammars(need int64) {
	if f.device.onGPU() {
		return
	}
	if short := need - f.systemMemory(); short > 0 {
		f.memory.Shrink(short)
		debug.FreeOSMemory()
	}
}
