package ort

// #include <stdlib.h>
// #include "shim.h"
import "C"

import (
	"context"
	"fmt"
	"time"
	"unsafe"
)

// bound is a set of tensors that a session runs on. It is closed before the session.
type bound struct {
	c     *C.struct_tgi_bound
	names map[string]*C.char
}

// bindings returns an empty set of tensors.
func (s *session) bindings() (*bound, error) {
	b := &bound{names: map[string]*C.char{}}
	if err := takeError(C.tgi_bound_open(s.c, &b.c)); err != nil {
		return nil, err
	}
	return b, nil
}

// option sets a run option.
func (b *bound) option(key, value string) error {
	k, v := C.CString(key), C.CString(value)
	defer C.free(unsafe.Pointer(k))
	defer C.free(unsafe.Pointer(v))
	return takeError(C.tgi_bound_option(b.c, k, v))
}

// bind binds the named input or output to data: C memory that must stay valid until the name is
// bound again or b is closed.
func (b *bound) bind(output bool, name string, kind element, data unsafe.Pointer, shape ...int64) error {
	return b.bindAt(false, output, name, kind, data, shape...)
}

// bindDevice is bind for memory of the session's device.
func (b *bound) bindDevice(output bool, name string, kind element, data unsafe.Pointer, shape ...int64) error {
	return b.bindAt(true, output, name, kind, data, shape...)
}

func (b *bound) bindAt(device, output bool, name string, kind element, data unsafe.Pointer, shape ...int64) error {
	t := C.struct_tgi_tensor{name: b.name(name), data: data, rank: C.size_t(len(shape)), _type: C.unsigned(kind),
		output: flag(output), on_device: flag(device)}
	if len(shape) > len(t.shape) {
		return fmt.Errorf("BUG: binding %s: %d dimensions", name, len(shape))
	}
	bytes := int64(kind.size())
	for i, d := range shape {
		t.shape[i] = C.int64_t(d)
		bytes *= d
	}
	t.bytes = C.size_t(bytes)
	if err := takeError(C.tgi_bound_bind(b.c, &t)); err != nil {
		return fmt.Errorf("binding %s: %w", name, err)
	}
	return nil
}

// name returns the C string of a tensor's name, which lives as long as b.
func (b *bound) name(name string) *C.char {
	c, ok := b.names[name]
	if !ok {
		c = C.CString(name)
		b.names[name] = c
	}
	return c
}

// run runs the model on the bound tensors.
func (b *bound) run() error { return takeError(C.tgi_bound_run(b.c)) }

// took returns how long the last run took, and for how much of that its first thread, which waits for all others, had a
// core.
func (b *bound) took() (all, computed time.Duration) {
	return time.Duration(b.c.took), time.Duration(b.c.computed)
}

// runUntil is run, but ends between two nodes of the graph when ctx does, with its cause.
func (b *bound) runUntil(ctx context.Context) error {
	asked := make(chan struct{})
	stop := context.AfterFunc(ctx, func() {
		defer close(asked)
		// An error would only let the run go on to its end.
		_ = takeError(C.tgi_bound_terminate(b.c))
	})
	err := b.run()
	if !stop() {
		<-asked // b may be closed next
	}
	if err != nil && ctx.Err() != nil {
		return context.Cause(ctx)
	}
	return err
}

// close frees the set, but not the memory bound in it, which the caller owns.
func (b *bound) close() {
	if b.c != nil {
		C.tgi_bound_close(b.c)
		b.c = nil
	}
	for _, c := range b.names {
		C.free(unsafe.Pointer(c))
	}
	b.names = nil
}
