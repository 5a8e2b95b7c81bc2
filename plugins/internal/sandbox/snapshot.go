package sandbox

import (
	"bytes"
	"context"
	"fmt"
	"iter"

	"github.com/tetratelabs/wazero/api"

	"tgi/plugins/internal/sandbox/rewrite"
)

// state is one mutable global of an instance: read and written whole, also where the engine's API can't (v128).
type state struct {
	global   api.MutableGlobal
	get, set api.Function // of a v128 global
}

func statesOf(in *Instance) []state {
	list := make([]state, 0, len(in.module.info.Globals))
	for _, g := range in.module.info.Globals {
		switch g.Type {
		case rewrite.V128:
			list = append(list, state{get: in.guest.ExportedFunction(g.Get), set: in.guest.ExportedFunction(g.Set)})
		case rewrite.FuncRef, rewrite.ExternRef: // such a module is never snapshotted: HiddenState
		default:
			list = append(list, state{global: in.guest.ExportedGlobal(g.Name).(api.MutableGlobal)})
		}
	}
	return list
}

// read and write run an accessor for v128: a function without charges or checks.
func (s state) read() ([2]uint64, error) {
	if s.global != nil {
		return [2]uint64{s.global.Get()}, nil
	}
	var v [2]uint64
	err := s.get.CallWithStack(context.Background(), v[:])
	return v, err
}

func (s state) write(v [2]uint64) error {
	if s.global != nil {
		s.global.Set(v[0])
		return nil
	}
	return s.set.CallWithStack(context.Background(), v[:])
}

// snapshot is the state of an instance after init. It is shared by all instances made from it; its pool closes it.
type snapshot struct {
	memory  image
	size    uint64
	globals [][2]uint64
	slept   uint64
}

// capture takes the state of an instance that is not broken.
func (in *Instance) capture() (*snapshot, error) {
	if in.broken != nil {
		return nil, in.broken
	}
	if h := in.module.info.HiddenState; h != "" {
		return nil, fmt.Errorf("%s: %w: %s", in.module.name, ErrHiddenState, h)
	}
	globals := make([][2]uint64, len(in.states))
	for i, g := range in.states {
		var err error
		if globals[i], err = g.read(); err != nil {
			return nil, err
		}
	}
	memory := in.memoryBytes()
	return in.module.newSnapshot(uint64(len(memory)), globals, in.slept, func(put func(uint64, []byte) error) error {
		for at, bytes := range nonZero(memory) {
			if err := put(at, memory[at:][:bytes]); err != nil {
				return err
			}
		}
		return nil
	})
}

// newSnapshot makes a snapshot of a memory of so many bytes, which is charged before write is called, and all other
// state.
func (m *Module) newSnapshot(size uint64, globals [][2]uint64, slept uint64, write contents) (*snapshot, error) {
	s := &snapshot{size: size, globals: globals, slept: slept}
	if err := m.engine.quota.chargeSnapshot(m.share, int64(size)); err != nil {
		return nil, err
	}
	var err error
	if s.memory, err = newImage(size, m.engine.plain, write); err != nil {
		_ = m.engine.quota.chargeSnapshot(m.share, -int64(size)) // which can't fail
		return nil, err
	}
	return s, nil
}

// freeSnapshot frees a snapshot that no instance has.
func (m *Module) freeSnapshot(s *snapshot) {
	_ = s.memory.close()
	_ = m.engine.quota.chargeSnapshot(m.share, -int64(s.size)) // which can't fail
}

// restore makes a new instance in the snapshot's state.
func (m *Module) restore(s *snapshot) (*Instance, error) {
	in, err := m.instantiate()
	if err != nil {
		return nil, err
	}
	if err = in.grow(s.size); err == nil && in.memory != nil {
		err = s.memory.attach(in.memory)
	}
	if err == nil {
		err = in.putGlobals(s.globals)
	}
	if err != nil {
		in.Close()
		return nil, fmt.Errorf("%s: restore: %w", m.name, err)
	}
	in.origin, in.slept = s, s.slept
	return in, nil
}

// grow brings the memory to size bytes.
func (in *Instance) grow(size uint64) error {
	if in.memory == nil || in.memory.size >= size {
		return nil
	}
	if _, ok := in.guest.Memory().Grow(uint32((size - in.memory.size) / pageBytes)); !ok {
		return fmt.Errorf("memory can't grow to %d bytes", size)
	}
	return nil
}

func (in *Instance) putGlobals(values [][2]uint64) error {
	for i, g := range in.states {
		if err := g.write(values[i]); err != nil {
			return err
		}
	}
	return nil
}

// copied reports whether instances have a copy of the snapshot, and don't share its pages.
func (s *snapshot) copied() bool {
	_, plain := s.memory.(plainImage)
	return plain
}

// reusable reports whether reset can bring the instance back: memory that grew can't shrink.
func (in *Instance) reusable() bool {
	return in.broken == nil && in.origin != nil && (in.memory == nil || in.memory.size == in.origin.size)
}

// reset brings a reusable instance back to its snapshot.
func (in *Instance) reset() error {
	if in.memory != nil {
		if err := in.origin.memory.reset(in.memory); err != nil {
			return err
		}
	}
	in.slept = in.origin.slept
	in.resetCharge()
	return in.putGlobals(in.origin.globals)
}

// copyFrom makes the instance's state that of src, an instance of the same snapshot.
func (in *Instance) copyFrom(src *Instance) error {
	if src.memory != nil {
		if err := in.grow(src.memory.size); err != nil {
			return err
		}
		copyPages(in.memory.bytes(), src.memory.bytes())
	}
	for i, g := range src.states {
		v, err := g.read()
		if err != nil {
			return err
		}
		if err := in.states[i].write(v); err != nil {
			return err
		}
	}
	in.seed, in.slept = src.seed, src.slept
	in.printed.part = append(in.printed.part[:0], src.printed.part...)
	in.printed.tail = append(in.printed.tail[:0], src.printed.tail...)
	return nil
}

// nonZero yields where b has pages that are not zero, and how many bytes of such pages follow each other there.
func nonZero(b []byte) iter.Seq2[uint64, uint64] {
	const page = 4096
	return func(yield func(at, bytes uint64) bool) {
		zero := make([]byte, page)
		begin := -1
		for at := 0; ; at += page {
			end := min(at+page, len(b))
			switch empty := at >= len(b) || bytes.Equal(b[at:end], zero[:end-at]); {
			case !empty && begin < 0:
				begin = at
			case empty && begin >= 0:
				if !yield(uint64(begin), uint64(min(at, len(b))-begin)) {
					return
				}
				begin = -1
			}
			if at >= len(b) {
				return
			}
		}
	}
}

// copyPages makes to what from is. Pages that are alike are left alone: they are most of a guest's memory, and mapped
// from the snapshot in both, so that writing to them would cost a page each.
func copyPages(to, from []byte) {
	const page = 4096
	for len(from) > 0 {
		n := min(page, len(from))
		if !bytes.Equal(to[:n], from[:n]) {
			copy(to, from[:n])
		}
		to, from = to[n:], from[n:]
	}
}
