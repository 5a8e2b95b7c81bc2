package host

import (
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"

	"tgi/models"
	"tgi/models/decoder"
	"tgi/models/demo"
	"tgi/models/hf"
	"tgi/models/library"
	"tgi/models/lora"
	"tgi/runtime/llm"
	"tgi/runtime/ort"
	"tgi/server"
	"tgi/server/config"
	"tgi/server/dispatch"
	"tgi/server/generate"
)

// adapting is a backend that computes low-rank adapters.
type adapting interface {
	AddAdapter([]ort.LowRank) (llm.Adapter, error)
	RemoveAdapter(llm.Adapter)
	AdapterBytes([]ort.LowRank) int64
}

// adaptingBackend is a backend as the pool of adapters sees it.
type adaptingBackend struct{ adapting }

// AddAdapter implements lora.Backend.
func (b adaptingBackend) AddAdapter(a *lora.Adapter) (int, error) {
	id, err := b.adapting.AddAdapter(lowRanks(a))
	return int(id), err
}

// RemoveAdapter implements lora.Backend.
func (b adaptingBackend) RemoveAdapter(number int) { b.adapting.RemoveAdapter(llm.Adapter(number)) }

// AdapterBytes implements lora.Backend.
func (b adaptingBackend) AdapterBytes(a *lora.Adapter) int64 {
	return b.adapting.AdapterBytes(lowRanks(a))
}

// lowRanks hands an adapter to the backend.
func lowRanks(a *lora.Adapter) []ort.LowRank {
	out := make([]ort.LowRank, len(a.Matrices))
	for i, m := range a.Matrices {
		out[i] = ort.LowRank{In: m.In, Out: m.Out, Offset: m.Offset, Rank: m.Rank, Scale: m.Scale, BFloat16: m.BFloat16,
			A: m.A, B: m.B}
	}
	return out
}

// adapters are the low-rank adapters of a model that runs. It implements generate.Adapters.
type adapters struct {
	*lora.Pool
	say func(string, ...any) // to the log
}

// Use implements generate.Adapters.
func (a adapters) Use(ctx context.Context, name string) (generate.Adapter, func(), error) {
	switch {
	case !a.Has(name):
		return generate.Adapter{}, nil, generate.ErrNoAdapter
	case !server.MayUse(ctx, name):
		return generate.Adapter{}, nil, fmt.Errorf("%w: `%s`", server.ErrModelKey, name)
	}
	one, release, err := a.Pool.Use(ctx, name)
	switch {
	case err == nil:
	case errors.Is(err, lora.ErrUnknown): // removed meanwhile
		return generate.Adapter{}, nil, generate.ErrNoAdapter
	case ctx.Err() != nil:
		return generate.Adapter{}, nil, err
	case deviceFull(name, err) != nil:
		a.say("adapter %s: %v", name, err)
		return generate.Adapter{}, nil, deviceFull(name, err)
	default: // its files have changed or are gone since it was added
		a.say("adapter %s cannot be read again: %v", name, err)
		return generate.Adapter{}, nil, &server.NotServing{ID: name, RetryAfter: untilStart,
			Reason: "is an adapter that cannot be read again: its files are gone or have changed"}
	}
	return generate.Adapter{ID: llm.Adapter(one.Number), Salt: "adapter " + one.Sum,
		Sum: one.Sum}, release, nil
}

// deviceFull is what a client hears of an adapter that found no room on a GPU, nil for other errors.
func deviceFull(name string, err error) error {
	full := new(ort.DeviceFull)
	if !errors.As(err, &full) {
		return nil
	}
	return &server.NotServing{ID: name, Needed: full.Bytes,
		Reason: "is an adapter that cannot be loaded: " + noRoom(full)}
}

// noRoom says what an adapter finds no room for, and what helps.
func noRoom(full *ort.DeviceFull) string {
	return fmt.Sprintf("the memory of GPU %d is full, it needs %d bytes: a smaller runtime.kv_memory or other programs "+
		"that leave the GPU make room", full.Device, full.Bytes)
}

// names returns the names of the adapters, ascending.
func (a *adapters) names() (list []string) {
	if a != nil {
		for _, one := range a.List() {
			list = append(list, one.Name)
		}
	}
	return list
}

// openCheckpoint opens the weights that the model was built from.
func (s checkpoint) openCheckpoint() (*hf.Checkpoint, error) {
	if s.fsys != nil {
		return hf.OpenFS(demo.Checkpoint(), s.name)
	}
	return hf.Open(s.name)
}

// loadAdapters loads the adapters of the settings.
func (in *instance) loadAdapters(ctx context.Context, cfg config.Config, d models.Device,
	say func(string, ...any)) error {
	if !cfg.Model.Adapts() {
		return nil
	}
	b := adaptingBackend{in.backend.(adapting)}
	in.adapters = &adapters{lora.NewPool(b, d, in.source.openCheckpoint, adapterBytes(cfg.Model)), say}
	for i, a := range cfg.Model.Adapters {
		one, err := in.adapters.Add(ctx, a.Name, a.Path, false)
		if full := new(ort.DeviceFull); errors.As(err, &full) {
			err = errors.New(noRoom(full))
		}
		if err != nil {
			return adapterError(cfg, i, err)
		}
		say("adapter %s: rank %d, %.1f MiB", a.Name, one.Rank, float64(one.Bytes)/(1<<20))
	}
	return nil
}

// fetchAdapters fetches the adapters of a model that have a source and are not there.
func (f *manager) fetchAdapters(ctx context.Context, cfg config.Config, say func(string, ...any)) error {
	for i, a := range cfg.Model.Adapters {
		if !a.Fetched() {
			continue
		}
		from, err := SourceOf(cfg.Models, a.Source)
		if err == nil {
			say("fetching adapter %s from %s", a.Name, a.Source)
			_, err = f.fetcher.Fetch(ctx, f.library, library.ID(a.Name), from, nil)
		}
		if err != nil {
			return adapterError(cfg, i, err)
		}
	}
	return nil
}

// adapterError says of an error of adapter i of a model which setting names it.
func adapterError(cfg config.Config, i int, err error) error {
	at := fmt.Sprintf("model.adapter[%d] %s", i, cfg.Model.Adapters[i].Name)
	for _, key := range []string{"path", "source", "name"} {
		if place := cfg.Place(fmt.Sprintf("adapter[%d].%s", i, key)); place != "" {
			at = place + ": " + at
			break
		}
	}
	return fmt.Errorf("%s: %w", at, err)
}

// adaptable counts the matrices that adapters may add to; 0 for a model without adapters.
func (in *instance) adaptable(cfg config.Config, d models.Device) int {
	if !cfg.Model.Adapts() {
		return 0
	}
	return len(decoder.Matrices(d, in.source.desc.Config))
}

// adapterOverhead bounds what an adapter takes beside its numbers.
const adapterOverhead = 64 << 10

// adapterBytes is the memory for the adapters of a model: what the settings say, or what those that they declare take.
func adapterBytes(m config.Model) (total int64) {
	if m.AdapterMemory > 0 {
		return int64(m.AdapterMemory)
	}
	for _, a := range m.Adapters {
		if bytes, err := lora.EstimateBytes(a.Path); err == nil { // what is wrong the load says
			total += bytes + adapterOverhead
		}
	}
	return total
}

// adapterNames returns the names of a model's adapters, ascending: those of the settings, as requests changed them. The
// caller holds f.mu.
func (f *manager) adapterNames(m config.Model) (list []string) {
	changes := f.adapters[library.ID(m.Name)]
	for _, a := range m.Adapters {
		if _, changed := changes[a.Name]; !changed {
			list = append(list, a.Name)
		}
	}
	for name, dir := range changes {
		if dir != "" {
			list = append(list, name)
		}
	}
	slices.Sort(list)
	return list
}

// adapterOf returns the model that has an adapter of a name, whether it runs or not.
func (f *manager) adapterOf(name string) (library.ID, bool) {
	f.mu.Lock()
	defer f.mu.Unlock()
	for _, m := range f.cfg.All() {
		if slices.Contains(f.adapterNames(m), name) {
			return library.ID(m.Name), true
		}
	}
	return "", false
}

// changeAdapters applies to a model that was loaded what requests changed before. One that cannot be had any more is
// logged and forgotten. f.adapting is held.
func (f *manager) changeAdapters(ctx context.Context, s *loadedModel) {
	f.mu.Lock()
	changes := maps.Clone(f.adapters[s.id])
	f.mu.Unlock()
	if s.adapters == nil { // a model that cannot have adapters has no changes to them
		return
	}
	for _, name := range slices.Sorted(maps.Keys(changes)) {
		var err error
		if dir := changes[name]; dir == "" {
			err = s.adapters.Remove(name)
		} else {
			_, err = s.adapters.Add(ctx, name, dir, true)
		}
		if err == nil || errors.Is(err, lora.ErrUnknown) {
			continue
		}
		f.log.Error("an adapter that a request had added is gone", "model", s.id, "adapter", name, "error", err)
		f.mu.Lock()
		delete(f.adapters[s.id], name)
		f.mu.Unlock()
	}
}

// adapted returns a model whose requests have an adapter unless they choose another.
func adapted(m *dispatch.Model, adapter string) *dispatch.Model {
	if adapter == "" {
		return m
	}
	other := *m
	other.ID, other.Parent, other.Service = adapter, m.ID, m.Service.For(adapter)
	return &other
}
