package generate

import (
	"context"

	"tgi/runtime/llm"
	"tgi/runtime/sample"
)

// What a request says of plugins, and what they say of it.
type (
	// PluginCall asks for a plugin in one request.
	PluginCall = llm.PluginCall
	// Skip is a plugin that failed and without which the request went on.
	Skip = llm.Skip
	// Dropped is something that a grammar asks for and that the reply is not held to.
	Dropped = llm.Dropped
)

// Plugins are what runs user code in the token loop. It is safe for concurrent use.
type Plugins interface {
	// Bind picks the plugins of a request: those that it calls, in its order,
	// behind those that the operator applies to all. Everything that can be
	// refused without the prompt is refused here, an unknown name and parameters
	// that the plugin does not take among it, with an *Invalid; a plugin that is
	// out of order fails with an error that wraps llm.ErrPlugin, and one without a
	// free instance with llm.ErrOverloaded. The result is nil when there are
	// none; it must be closed. When ctx ends, running guest code does.
	Bind(ctx context.Context, calls []PluginCall) (BoundPlugins, error)
}

// BoundPlugins are the plugins of one request, at the versions that were
// current when it was bound.
type BoundPlugins interface {
	// Begin gives sequence i of the request its user code; the seed of the
	// sequence is llm.SeedFor(seed, i). It is called once, before Sequence. When ctx
	// ends, so does guest code that runs, then or at a later step.
	Begin(ctx context.Context, prompt []llm.Token, maxNew int, seed uint64, n int) error
	// Sequence returns the user code of sequence i < n. The engine closes it.
	Sequence(i int) sample.Plugins
	// Skipped returns the plugins that failed and were passed over since, those
	// of all sequences. It may be called at any time.
	Skipped() []Skip
	// Close gives back what Begin and Bind took; sequences that the engine still
	// runs keep theirs until it is through with them.
	Close()
}
