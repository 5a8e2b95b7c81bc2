package ort

import (
	"errors"
	"unsafe"

	"tgi/runtime/cuda"
)

// deviceMem is memory of a CUDA device.
type deviceMem struct {
	device, bytes int
	at            unsafe.Pointer
}

func newDeviceMem(device, bytes int) (*deviceMem, error) {
	at, err := cuda.Malloc(device, int64(bytes))
	if err != nil {
		return nil, err
	}
	return &deviceMem{device, bytes, at}, nil
}

func (d *deviceMem) free() {
	if d.at != nil {
		_ = cuda.Free(d.device, d.at) // fails where the device does
		d.at = nil
	}
}

// pinnedMem is memory of the host that a device copies from and to by itself.
type pinnedMem struct {
	bytes int
	at    unsafe.Pointer
}

func newPinnedMem(device, bytes int) (*pinnedMem, error) {
	at, err := cuda.HostAlloc(device, int64(bytes))
	if err != nil {
		return nil, err
	}
	return &pinnedMem{bytes, at}, nil
}

func (p *pinnedMem) free() {
	if p.at != nil {
		_ = cuda.FreeHost(p.at)
		p.at = nil
	}
}

// mirror is memory of the host and as much of a device.
type mirror struct {
	host   *pinnedMem
	device *deviceMem
}

// reserve makes room for n bytes. The contents are lost when the memory grows; nothing that uses them may be under way.
func (m *mirror) reserve(device, n int) error {
	if m.host != nil {
		if n <= m.host.bytes {
			return nil
		}
		n += n / 2
	}
	m.free()
	host, err1 := newPinnedMem(device, n)
	mem, err2 := newDeviceMem(device, n)
	if err1 == nil {
		m.host = host
	}
	if err2 == nil {
		m.device = mem
	}
	if err := errors.Join(err1, err2); err != nil {
		m.free()
		return err
	}
	return nil
}

func (m *mirror) free() {
	if m.host != nil {
		m.host.free()
	}
	if m.device != nil {
		m.device.free()
	}
	*m = mirror{}
}

// stepMem is the memory of a step's arrays and of its logits.
type stepMem struct {
	device     int
	in, logits mirror
	meta       buffer // attention_metadata, which the operator reads on the CPU
}

func (s *stepMem) reserve(in, logits int) error {
	return errors.Join(s.in.reserve(s.device, in), s.logits.reserve(s.device, logits),
		s.meta.reserve(metadataSize*int32s.size()))
}

func (s *stepMem) free() {
	s.in.free()
	s.logits.free()
	s.meta.free()
}
