package bridge

import (
	"context"
	"errors"
	"fmt"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/config"
	"tgi/server/generate"
)

// Plugins returns a set of plugins as requests want it.
func Plugins(set *plugins.Set) generate.Plugins { return pluginSet{set} }

// pluginSet implements generate.Plugins.
type pluginSet struct{ *plugins.Set }

// Bind implements generate.Plugins.
func (u pluginSet) Bind(ctx context.Context, calls []generate.PluginCall) (generate.BoundPlugins, error) {
	b, err := u.Set.Bind(ctx, calls)
	switch {
	case err != nil:
		return nil, bindError(err)
	case b == nil:
		return nil, nil // a nil *plugins.Bound is no nil interface
	}
	return &boundPlugins{Bound: b}, nil
}

// bindError says what an error of the plugins means to a request.
func bindError(err error) error {
	switch {
	case errors.Is(err, plugins.ErrUnknown), errors.Is(err, plugins.ErrParams):
		return &generate.Invalid{Msg: err.Error() + Suggestion(err)}
	case errors.Is(err, plugins.ErrBusy):
		return &generate.Overloaded{Reason: err.Error()}
	}
	var fault *plugins.BindError
	if !errors.As(err, &fault) && !errors.Is(err, plugins.ErrClosed) {
		return err // why the request's context ended
	}
	return fmt.Errorf("%w: %w", llm.ErrPlugin, err)
}

// Suggestion offers the name that was meant, where err is about one that nothing has.
func Suggestion(err error) string {
	var m *plugins.Misnamed
	if !errors.As(err, &m) {
		return ""
	}
	return config.Suggest(m.Name, m.Known)
}

// boundPlugins is the plugins of one request.
type boundPlugins struct {
	*plugins.Bound
	seeds []uint64 // of its sequences
}

// Begin implements generate.BoundPlugins.
func (b *boundPlugins) Begin(ctx context.Context, prompt []llm.Token, maxNew int, seed uint64, n int) error {
	seeds := make([]uint64, n)
	for i := range seeds {
		seeds[i] = llm.SeedFor(seed, i)
	}
	b.seeds = seeds
	if err := b.Bound.Begin(ctx, prompt, maxNew, seeds); err != nil {
		return bindError(err)
	}
	return nil
}

// Sequence implements generate.BoundPlugins.
func (b *boundPlugins) Sequence(i int) sample.Plugins {
	return pluginsOf(b.Bound.Sequence(i), b.seeds[i])
}

// pluginsOf is a sequence of plugins as the engine wants it. seed is the sequence's: forks draw by seeds that follow
// from it and from how many were made before.
func pluginsOf(s plugins.Sequence, seed uint64) sample.Plugins {
	p := sample.Plugins{Guests: s.Names(), Close: s.ReleaseLater}
	if s.CanFork() {
		forks := 0
		p.Fork = func() (sample.Plugins, error) {
			forks++
			own := llm.SeedFor(seed, forks)
			twin, err := s.Fork(own)
			if err != nil {
				return sample.Plugins{}, err
			}
			return pluginsOf(twin, own), nil
		}
	}
	for _, x := range s.Processors {
		if x.Ahead() {
			p.Processors = append(p.Processors, plugins.Preparer{Processor: x})
		} else {
			p.Processors = append(p.Processors, x)
		}
	}
	if s.Sampler != nil {
		p.Sampler = s.Sampler
	}
	return p
}
