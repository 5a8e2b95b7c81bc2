package generate

import (
	"context"
	"errors"

	"tgi/runtime/llm"
)

// Adapters are the low-rank adapters of a model. It is safe for concurrent use.
type Adapters interface {
	// Use returns the adapter of a name. It stays loaded until release, which is called exactly once. Errors are
	// replied to the client; one that wraps ErrNoAdapter says that there is none of that name.
	Use(ctx context.Context, name string) (a Adapter, release func(), err error)
}

// Adapter is an adapter that is loaded.
type Adapter struct {
	// ID is the backend's number.
	ID llm.Adapter
	// Salt separates its cached prefixes from those of all others, which had its number before, too.
	Salt string
	// Sum is the checksum of its weights, in hex.
	Sum string
}

// ErrNoAdapter says that a model has no adapter of a name.
var ErrNoAdapter = errors.New("no such adapter")

// noAdapters is the Adapters of models that have none.
type noAdapters struct{}

func (noAdapters) Use(context.Context, string) (Adapter, func(), error) {
	return Adapter{}, nil, ErrNoAdapter
}

// WithAdapters lets requests choose adapters. It is called before the first request.
func (s *Service) WithAdapters(a Adapters) *Service {
	s.adapters = a
	return s
}

// For returns a service of the same engine, whose requests have the adapter of a name unless they choose another.
func (s *Service) For(adapter string) *Service {
	other := *s
	other.adapter = adapter
	return &other
}

// useAdapter takes the adapter that d asks for, until release.
func (r *Run) useAdapter(ctx context.Context, d *Draft) error {
	name := r.service.adapter
	if d.Adapter != nil {
		name = *d.Adapter
	}
	if name == "" {
		return nil
	}
	a, release, err := r.service.adapters.Use(ctx, name)
	if err != nil {
		if errors.Is(err, ErrNoAdapter) {
			err = invalid("adapter_id", "adapter `%.64s` is not loaded", name)
		}
		return err
	}
	r.adapter, r.releaseAdapter, r.adapterName = a, release, name
	return nil
}
