package ort

// #include <stdlib.h>
// #include "lora.h"
import "C"

import (
	"errors"
	"fmt"
	"sync"
	"unsafe"

	"tgi/runtime/llm"
	"tgi/runtime/lowrank"
)

// LowRank is what an adapter adds to one matrix of the model.
type LowRank = lowrank.Matrix

// packedBytes returns the size of a matrix of Rank rows as lora.h packs it.
func packedBytes(l *LowRank, columns int) int {
	rows, chunks := (l.Rank+C.LORA_ROWS-1)/C.LORA_ROWS*C.LORA_ROWS, (columns+C.LORA_CHUNK-1)/C.LORA_CHUNK
	return rows * chunks * C.LORA_CHUNK * l.ElementBytes()
}

// packMatrix writes a matrix of an adapter's as lora.h describes. to is zero.
func packMatrix(l *LowRank, to, from []byte, columns int) {
	const half = C.LORA_CHUNK / 2
	size, chunks := l.ElementBytes(), (columns+C.LORA_CHUNK-1)/C.LORA_CHUNK
	for r := range l.Rank {
		for c := range columns {
			place := c % C.LORA_CHUNK
			if l.BFloat16 {
				place = 2*(place%half) + place/half
			}
			piece := (r/C.LORA_ROWS*chunks+c/C.LORA_CHUNK)*C.LORA_ROWS + r%C.LORA_ROWS
			copy(to[(piece*C.LORA_CHUNK+place)*size:][:size], from[(r*columns+c)*size:])
		}
	}
}

// adapters are the low-rank adapters of a model.
type adapters struct {
	// mu is held for reading while a step runs, so that none of its adapters is freed.
	mu sync.RWMutex
	// loaded[i] is adapter i+1; its memory is nil where there is none.
	loaded []adapter
}

// adapter is one adapter in C memory: a struct tgi_lora, its sites and their numbers.
type adapter struct{ memory pages }

// alignment of matrices: a line of the processor's cache.
const alignment = 64

func align(n int) int { return (n + alignment - 1) &^ (alignment - 1) }

// adapterHead returns where the sites of an adapter begin in its memory, and where their numbers do.
func adapterHead(sites int) (at, numbers int) {
	at = align(int(unsafe.Sizeof(C.struct_tgi_lora{})))
	return at, at + align(sites*int(unsafe.Sizeof(C.struct_tgi_lora_site{})))
}

// adapterBytes returns the memory that an adapter takes.
func adapterBytes(sites []LowRank) int64 {
	_, bytes := adapterHead(len(sites))
	for i := range sites {
		s := &sites[i]
		bytes += align(packedBytes(s, s.In)) + align(packedBytes(s, s.Out))
	}
	return int64(bytes)
}

// newAdapter copies an adapter into C memory.
func newAdapter(sites []LowRank) (adapter, error) {
	for i := range sites {
		if err := sites[i].Check(); err != nil {
			return adapter{}, fmt.Errorf("matrix %d of the adapter: %w", i, err)
		}
	}
	head, at := adapterHead(len(sites))
	memory, err := mapPages(int(adapterBytes(sites)))
	if err != nil {
		return adapter{}, err
	}
	packed := func(s *LowRank, data []byte, columns int) unsafe.Pointer {
		to := unsafe.Add(memory.at, at)
		bytes := packedBytes(s, columns)
		packMatrix(s, unsafe.Slice((*byte)(to), bytes), data, columns)
		at += align(bytes)
		return to
	}
	l := (*C.struct_tgi_lora)(memory.at)
	l.count, l.sites = C.int64_t(len(sites)), (*C.struct_tgi_lora_site)(unsafe.Add(memory.at, head))
	for i := range sites {
		s := &sites[i]
		if s.Rank == 0 {
			continue
		}
		unsafe.Slice(l.sites, len(sites))[i] = C.struct_tgi_lora_site{
			a: packed(s, s.A, s.In), b: packed(s, s.B, s.Out),
			in: C.int64_t(s.In), out: C.int64_t(s.Out), offset: C.int64_t(s.Offset),
			rank: C.int64_t(s.Rank), scale: C.float(s.Scale), bfloat16: flag(s.BFloat16),
		}
	}
	return adapter{memory}, nil
}

// errNoAdapters says that a model was opened without Options.Adapters.
var errNoAdapters = errors.New("the model was opened without adapters")

// AdapterBytes returns the memory that an adapter takes.
func (p *Paged) AdapterBytes(sites []LowRank) int64 { return adapterBytes(sites) }

// AddAdapter loads an adapter and returns its number. sites has one entry for each matrix that Options.Adapters
// counts. It may run beside Forward.
func (p *Paged) AddAdapter(sites []LowRank) (llm.Adapter, error) {
	switch {
	case p.o.Adapters == 0:
		return 0, errNoAdapters
	case len(sites) != p.o.Adapters:
		return 0, fmt.Errorf("an adapter for %d matrices, the model has %d", len(sites), p.o.Adapters)
	}
	a, err := newAdapter(sites)
	if err != nil {
		return 0, err
	}
	p.adapters.mu.Lock()
	defer p.adapters.mu.Unlock()
	for i := range p.adapters.loaded {
		if p.adapters.loaded[i].memory.at == nil {
			p.adapters.loaded[i] = a
			return llm.Adapter(i + 1), nil
		}
	}
	p.adapters.loaded = append(p.adapters.loaded, a)
	return llm.Adapter(len(p.adapters.loaded)), nil
}

// RemoveAdapter frees an adapter, after the step that runs; no later step may name it.
func (p *Paged) RemoveAdapter(id llm.Adapter) {
	p.adapters.mu.Lock()
	defer p.adapters.mu.Unlock()
	if at := p.adapters.of(id); at != nil {
		p.adapters.loaded[id-1].memory.unmap()
	}
}

// of returns the address of an adapter in C memory; nil if it is not loaded. The caller holds mu.
func (a *adapters) of(id llm.Adapter) unsafe.Pointer {
	if id < 1 || int(id) > len(a.loaded) {
		return nil
	}
	return a.loaded[id-1].memory.at
}

// bindAdapters binds the address of each token's adapter. The caller holds adapters.mu.
func (p *Paged) bindAdapters(s *llm.Step) error {
	buf := p.inputs[adaptersInput]
	if err := buf.reserve(len(s.Tokens) * int64s.size()); err != nil {
		return err
	}
	to := unsafe.Slice((*int64)(buf.at), len(s.Tokens))
	clear(to)
	for row, id := range s.Adapters {
		if id == llm.NoAdapter {
			continue
		}
		at := p.adapters.of(id)
		if at == nil {
			return fmt.Errorf("BUG: step: row %d has adapter %d, which is not loaded", row, id)
		}
		for t := s.CuSeqlens[row]; t < s.CuSeqlens[row+1]; t++ {
			to[t] = int64(uintptr(at))
		}
	}
	return p.bound.bind(false, adaptersInput, int64s, buf.at, int64(len(s.Tokens)))
}

// close frees all adapters.
func (a *adapters) close() {
	a.mu.Lock()
	defer a.mu.Unlock()
	for i := range a.loaded {
		a.loaded[i].memory.unmap()
	}
	a.loaded = nil
}
