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

// newImage stores data, by plain copy where plain is set or the system has no memory files.
func newImage(data []byte, plain bool) (image, error) {
	if plain || len(data) == 0 {
		return plainImage(append([]byte(nil), data...)), nil
	}
	fd, err := unix.MemfdCreate("tgi-snapshot", unix.MFD_CLOEXEC|unix.MFD_ALLOW_SEALING)
	if err != nil {
		return plainImage(append([]byte(nil), data...)), nil
	}
	f := &fileImage{fd: fd, size: len(data)}
	if err := f.fill(data); err != nil {
		f.close()
		return nil, fmt.Errorf("write snapshot: %w", err)
	}
	if err := f.seal(); err != nil {
		f.close()
		return nil, fmt.Errorf("seal snapshot: %w", err)
	}
	return f, nil
}

// fill writes data to the file. Pages that are zero take no room in it.
func (f *fileImage) fill(data []byte) error {
	if err := unix.Ftruncate(f.fd, int64(len(data))); err != nil {
		return err
	}
	for at, bytes := range nonZero(data) {
		for end := at + bytes; at < end; {
			n, err := unix.Pwrite(f.fd, data[at:end], int64(at))
			if err != nil {
				return err
			}
			at += uint64(n)
		}
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
