package ort

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"fmt"
	"unsafe"
)

// buffer is C memory for bound tensors. It grows and never shrinks.
type buffer struct {
	at    unsafe.Pointer
	bytes int
}

// reserve makes room for n bytes; the address is valid even if n is 0. The contents are lost
// when the buffer grows.
func (b *buffer) reserve(n int) error {
	if n <= b.bytes && b.at != nil {
		return nil
	}
	want := max(n+n/2, 4096)
	var at unsafe.Pointer
	if C.posix_memalign(&at, 64, C.size_t(want)) != 0 {
		return fmt.Errorf("out of memory: %d bytes", want)
	}
	b.free()
	b.at, b.bytes = at, want
	return nil
}

func (b *buffer) free() {
	C.free(b.at)
	*b = buffer{}
}

// fill copies values into the buffer, converting each.
func fill[To, From int32 | int64 | uint32](b *buffer, values []From) error {
	var one To
	if err := b.reserve(len(values) * int(unsafe.Sizeof(one))); err != nil {
		return err
	}
	to := unsafe.Slice((*To)(b.at), len(values))
	for i, v := range values {
		to[i] = To(v)
	}
	return nil
}

// pages is zeroed memory outside Go's heap that the system backs on first touch.
type pages struct {
	at    unsafe.Pointer
	bytes int
}

func mapPages(bytes int) (pages, error) {
	at := C.tgi_pages_map(C.size_t(bytes))
	if at == nil {
		return pages{}, fmt.Errorf("the system cannot provide %d MiB", bytes>>20)
	}
	return pages{at, bytes}, nil
}

// largePage is the size of a large page, smallShare the part of each part of a cache that keeps small ones.
const (
	largePage  = 2 << 20
	smallShare = 16
)

// enlarge asks for pages of 2 MB where each of the parts that the memory is used in, which are so long, has many of
// them. A part is filled from its beginning, which keeps small pages: a server that has little to do, or has just
// begun, has what it needs backed and not 2 MB of each part, which takes a virtual machine milliseconds within a step.
func (p *pages) enlarge(part int) {
	if part < 16*largePage {
		return
	}
	start := uintptr(p.at)
	for at := start; at < start+uintptr(p.bytes); at += uintptr(part) {
		from := (at + uintptr(part/smallShare) + largePage - 1) / largePage * largePage
		to := (at + uintptr(part)) / largePage * largePage
		C.tgi_pages_large(unsafe.Add(p.at, from-start), C.size_t(to-from))
	}
}

func (p *pages) unmap() {
	if p.at != nil {
		C.tgi_pages_unmap(p.at, C.size_t(p.bytes))
		*p = pages{}
	}
}

// trimHeap returns the free memory of C's heap to the system.
func trimHeap() { C.tgi_heap_trim() }
