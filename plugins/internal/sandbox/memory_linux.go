package sandbox

import (
	"errors"
	"fmt"
	"unsafe"

	"golang.org/x/sys/unix"
)

// reserve maps n bytes of address space; pages cost nothing until the guest touches them.
func reserve(n uint64) ([]byte, error) {
	b, err := unix.Mmap(-1, 0, int(n), unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_ANON|
		unix.MAP_NORESERVE)
	if err != nil {
		return nil, fmt.Errorf("reserve %d bytes of guest memory: %w", n, err)
	}
	_ = unix.Madvise(b, unix.MADV_NOHUGEPAGE) // one byte must not cost 2 MiB; a kernel without them refuses
	return b, nil
}

func release(b []byte) { _ = unix.Munmap(b) }

// fileImage is an image in a sealed memory file. An instance maps it copy-on-write: what no guest writes exists once.
type fileImage struct {
	fd   int
	size int
}

// newImage stores a memory of so many bytes, by plain copy where plain is set or the system has no memory files.
func newImage(size uint64, plain bool, write contents) (image, error) {
	if plain || size == 0 {
		return newPlainImage(size, write)
	}
	fd, err := unix.MemfdCreate("tgi-snapshot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return newPlainImage(size, write)
	}
	f := &fileImage{fd: fd, size: int(size)}
	if err := unix.Ftruncate(f.fd, int64(size)); err != nil {
		f.close()
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	if err := write(f.put); err != nil {
		f.close()
		return nil, err
	}
	if err := f.seal(); err != nil {
		f.close()
		return nil, fmt.Errorf("seal snapshot: %w", err)
	}
	return f, nil
}

// put writes a part of the file. What is not written takes no room in it.
func (f *fileImage) put(at uint64, b []byte) error {
	for len(b) > 0 {
		n, err := unix.Pwrite(f.fd, b, int64(at))
		if err != nil {
			return fmt.Errorf("write snapshot: %w", err)
		}
		at, b = at+uint64(n), b[n:]
	}
	return nil
}

// seal keeps the file as it is: mappings share it, so nobody may change or shorten it. The kernel refuses the seal
// against writing for as long as anything else (compaction, a reader of the process's memory) holds one of the pages;
// then the file goes without that one, which guards against our own mistakes only: all mappings are private.
func (f *fileImage) seal() error {
	fixed := unix.F_SEAL_SHRINK | unix.F_SEAL_GROW | unix.F_SEAL_SEAL
	_, err := unix.FcntlInt(uintptr(f.fd), unix.F_ADD_SEALS, fixed|unix.F_SEAL_WRITE)
	if errors.Is(err, unix.EBUSY) {
		_, err = unix.FcntlInt(uintptr(f.fd), unix.F_ADD_SEALS, fixed)
	}
	return err
}

// attach lays a private map of the file over the memory's beginning.
func (f *fileImage) attach(l *linear) error {
	_, err := unix.MmapPtr(f.fd, 0, unsafe.Pointer(unsafe.SliceData(l.reserved)), uintptr(f.size),
		unix.PROT_READ|unix.PROT_WRITE, unix.MAP_PRIVATE|unix.MAP_FIXED)
	if err != nil {
		return fmt.Errorf("map snapshot: %w", err)
	}
	return nil
}

// reset lays the map anew, which drops every page the guest wrote.
func (f *fileImage) reset(l *linear) error { return f.attach(l) }

func (f *fileImage) close() error { return unix.Close(f.fd) }
