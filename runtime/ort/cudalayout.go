package ort

import (
	"errors"
	"unsafe"

	"tgi/runtime/llm"
)

// partAlign is the alignment of an array within the block that a step's arrays are packed into.
const partAlign = 256

// placesPerToken are the positions of a token in time, height and width.
const placesPerToken = 3

// metadataSize is the number of integers of attention_metadata.
const metadataSize = 3

// sizes are the sizes of a step's arrays.
type sizes struct {
	tokens, rows, width, logits int
	has                         extras
}

// extras are the arrays that only some models read.
type extras struct{ adapters, places bool }

// sizesOf are those of a step; a step without logit rows computes one that nobody reads, because no operator takes
// none.
func sizesOf(s *llm.Step, has extras) sizes {
	return sizes{tokens: len(s.Tokens), rows: s.Rows(), width: s.MaxBlocks, logits: max(len(s.LogitRows), 1), has: has}
}

// part is one of a step's arrays in the block.
type part struct {
	name     string
	kind     element
	at       int // bytes from the start of the block
	dims     [2]int64
	rank     int
	elements int
}

// The parts of a layout, in their order.
const (
	partIDs = iota
	partCuSeqlens
	partPastLens
	partTable
	partSlots
	partLogitRows
	partAdapters // those of extras have no name in models that do not read them
	partPlaces
	partCount
)

// layout says where the arrays of steps of some sizes lie.
type layout struct {
	sizes
	parts [partCount]part
	bytes int
}

func (z sizes) layout() (l layout) {
	l.sizes = z
	add := func(i int, name string, kind element, dims ...int) {
		p := part{name: name, kind: kind, at: l.bytes, rank: len(dims), elements: 1}
		for d, n := range dims {
			p.dims[d] = int64(n)
			p.elements *= n
		}
		l.parts[i] = p
		l.bytes += (p.elements*kind.size() + partAlign - 1) / partAlign * partAlign
	}
	add(partIDs, "input_ids", int64s, z.tokens)
	add(partCuSeqlens, "cu_seqlens", int32s, z.rows+1)
	add(partPastLens, "past_lens", int32s, z.rows)
	add(partTable, "block_table", int32s, z.rows, z.width)
	add(partSlots, "slot_mapping", int32s, z.tokens)
	add(partLogitRows, "logit_rows", int64s, z.logits)
	if z.has.adapters {
		add(partAdapters, adaptersInput, int64s, z.tokens)
	}
	if z.has.places {
		add(partPlaces, placesInput, int64s, z.tokens, placesPerToken)
	}
	return l
}

// array returns a part of the block at base as Go sees it.
func array[T int32 | int64](base unsafe.Pointer, p part) []T {
	return unsafe.Slice((*T)(unsafe.Add(base, p.at)), p.elements)
}

// pack writes a step that was checked, and fits, into the block at base. Rows that are left over have one token, which
// is written nowhere. Entries of the block table that no row uses name spare: the device checks no block, so every
// entry names one that exists.
func (l *layout) pack(base unsafe.Pointer, s *llm.Step, blockSize int, spare int32) {
	ids := array[int64](base, l.parts[partIDs])
	for i, t := range s.Tokens {
		ids[i] = int64(t)
	}
	clear(ids[len(s.Tokens):])
	lens := array[int32](base, l.parts[partCuSeqlens])
	for i := copy(lens, s.CuSeqlens); i < len(lens); i++ {
		lens[i] = lens[i-1] + 1
	}
	past := array[int32](base, l.parts[partPastLens])
	clear(past[copy(past, s.PastLens):])
	slots := array[int32](base, l.parts[partSlots])
	fillWith(slots[copy(slots, s.SlotMapping):], -1)
	table := array[int32](base, l.parts[partTable])
	for row := range s.Rows() {
		used := (rowEnd(s, row) + blockSize - 1) / blockSize
		copy(table, s.BlockTable[row*s.MaxBlocks:][:used])
		fillWith(table[used:l.width], spare)
		table = table[l.width:]
	}
	fillWith(table, spare)
	rows := array[int64](base, l.parts[partLogitRows])
	for i, r := range s.LogitRows {
		rows[i] = int64(r)
	}
	clear(rows[len(s.LogitRows):])
	if l.has.places {
		packPlaces(array[int64](base, l.parts[partPlaces]), s)
	}
}

// packPlaces writes the three positions of each token, which are those of text if the step names none. Tokens behind
// those of the step are at the begin of a sequence.
func packPlaces(to []int64, s *llm.Step) {
	n := 0
	for _, p := range s.Places {
		to[n] = int64(p)
		n++
	}
	for row := 0; len(s.Places) == 0 && row < s.Rows(); row++ {
		for at := int(s.PastLens[row]); at < rowEnd(s, row); at++ {
			to[n], to[n+1], to[n+2] = int64(at), int64(at), int64(at)
			n += placesPerToken
		}
	}
	clear(to[n:])
}

func fillWith(s []int32, v int32) {
	for i := range s {
		s[i] = v
	}
}

// rowEnd is the length of a row's sequence after the step.
func rowEnd(s *llm.Step, row int) int {
	return int(s.PastLens[row] + s.CuSeqlens[row+1] - s.CuSeqlens[row])
}

// metadata returns what attention is told of a step on the CPU, so that it need not ask the device: the longest row's
// tokens, the longest sequence, and a lower bound of that.
func metadata(s *llm.Step) (m [metadataSize]int32) {
	for row := range s.Rows() {
		m[0] = max(m[0], s.CuSeqlens[row+1]-s.CuSeqlens[row])
		m[1] = max(m[1], int32(rowEnd(s, row)))
	}
	m[2] = m[1]
	return m
}

// bindStep binds the arrays of a step that lie in mem.
func (m *CUDA) bindStep(b *bound, l layout, mem *stepMem, meta unsafe.Pointer) error {
	for i := range l.parts {
		p := &l.parts[i]
		if p.name == "" {
			continue
		}
		err := b.bindDevice(false, p.name, p.kind, unsafe.Add(mem.in.device.at, p.at), p.dims[:p.rank]...)
		if err != nil {
			return err
		}
	}
	if l.has.adapters {
		if err := b.bind(false, loraInput, int64s, m.adapters.address(m.o.Adapters), 1); err != nil {
			return err
		}
	}
	if !m.o.Latent {
		if err := b.bind(false, attendInput, int64s, m.attention.address(), 1); err != nil {
			return err
		}
	}
	return errors.Join(
		b.bind(false, "attention_metadata", int32s, meta, metadataSize),
		b.bindDevice(true, "logits", float32s, mem.logits.device.at, int64(l.logits), int64(m.o.Vocab)))
}
