package ort

import (
	"fmt"

	"tgi/runtime/llm"
)

// BlockBytes returns the bytes of a cache block, which are bits of this version of the program alone.
func (p *Paged) BlockBytes() int { return p.o.BlockBytes() }

// ReadBlock copies a cache block of all layers to memory of BlockBytes.
func (p *Paged) ReadBlock(block int32, to []byte) error {
	return p.eachPart(block, to, func(part, memory []byte) { copy(memory, part) })
}

// WriteBlock fills a cache block with what ReadBlock gave.
func (p *Paged) WriteBlock(block int32, from []byte) error {
	return p.eachPart(block, from, func(part, memory []byte) { copy(part, memory) })
}

// eachPart calls do with each layer's keys, or values, of a block, and their part of the memory.
func (p *Paged) eachPart(block int32, memory []byte, do func(part, memory []byte)) error {
	switch {
	case p.bound == nil:
		return fmt.Errorf("%w: the model is closed", llm.ErrBackend)
	case uint32(block) >= uint32(p.o.Blocks) || len(memory) != p.o.BlockBytes():
		return fmt.Errorf("%w: BUG: block %d of %d has %d bytes, want %d", llm.ErrBackend, block, p.o.Blocks,
			len(memory), p.o.BlockBytes())
	}
	n := p.o.halfBytes()
	for layer := range p.o.Layers {
		for half := range p.o.halves() {
			do(p.layerCache(layer, half)[int(block)*n:][:n], memory[:n])
			memory = memory[n:]
		}
	}
	return nil
}
