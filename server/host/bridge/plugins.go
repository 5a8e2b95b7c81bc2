package bridge

import (
	"errors"
	"fmt"
	"time"

	"tgi/plugins"
	"tgi/runtime/llm"
	"tgi/runtime/sample"
	"tgi/server/config"
	"tgi/server/generate"
)

// busyRetry is how long to wait before asking again for plugins that have no memory: requests end at any time.
const busyRetry = time.Second

// bindError says what an error of the plugins means to a request.
func bindError(err error) error {
	switch {
	case errors.Is(err, plugins.ErrUnknown), errors.Is(err, plugins.ErrParams):
		return &generate.Invalid{Msg: err.Error() + Suggestion(err), Field: "plugins"}
	case errors.Is(err, plugins.ErrBusy):
		return &generate.Overloaded{Reason: err.Error(), RetryAfter: busyRetry}
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
	for _, d := range s.Drafters {
		p.Proposers = append(p.Proposers, sample.Proposer{Name: d.Name(), Drafter: d})
	}
	for _, g := range s.Guards {
		p.Guards = append(p.Guards, g)
	}
	return p
}
