package sandbox

// pageBytes is the unit in which a guest's memory grows.
const pageBytes = 65536

// linear is one guest's memory: address space for all it may become, reserved at once, so that it never moves. It
// implements the engine's LinearMemory.
type linear struct {
	reserved []byte // full size of the limit
	size     uint64 // what the guest has
	refused  uint64 // the size that it asked for in vain in the call under way, 0 for none
}

// Reallocate implements the engine's LinearMemory: growth within the reservation, nil (memory.grow fails) beyond.
func (l *linear) Reallocate(size uint64) []byte {
	if size > uint64(len(l.reserved)) {
		l.refused = size
		return nil
	}
	l.size = size
	return l.reserved[:size:size]
}

// Free implements the engine's LinearMemory.
func (l *linear) Free() {
	if l.reserved != nil {
		release(l.reserved)
		l.reserved, l.size = nil, 0
	}
}

func (l *linear) bytes() []byte { return l.reserved[:l.size] }

// image is the memory of a snapshot. It is safe for concurrent use; close it when no instance uses it any more.
type image interface {
	// attach makes the first len bytes of a fresh memory those of the image.
	attach(l *linear) error
	// reset makes them so again after the guest ran.
	reset(l *linear) error
	close() error
}

// contents writes a memory into an image: put lays bytes at an address. Where none are laid, the memory is zero.
type contents func(put func(at uint64, b []byte) error) error

// plainImage is an image that is copied: what works on every system.
type plainImage []byte

// newPlainImage makes one of a memory of so many bytes.
func newPlainImage(size uint64, write contents) (image, error) {
	p := make(plainImage, size)
	err := write(func(at uint64, b []byte) error {
		copy(p[at:], b)
		return nil
	})
	if err != nil {
		return nil, err
	}
	return p, nil
}

func (p plainImage) attach(l *linear) error { return p.reset(l) }

func (p plainImage) reset(l *linear) error {
	copy(l.reserved, p)
	return nil
}

func (plainImage) close() error { return nil }
