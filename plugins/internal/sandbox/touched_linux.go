package sandbox

import (
	"encoding/binary"
	"os"
	"sync"
	"syscall"
	"unsafe"

	"golang.org/x/sys/unix"
)

// pagemap is the kernel's account of the process's pages; nil where there is none.
var pagemap = sync.OnceValue(func() *os.File {
	f, err := os.Open("/proc/self/pagemap")
	if err != nil {
		return nil
	}
	return f
})

// touched returns the bytes of the first size that are private to this memory: pages that the guest wrote, or read
// where nothing was before.
func (l *linear) touched(size int64) (n int64, ok bool) {
	f := pagemap()
	if f == nil || size > int64(len(l.reserved)) || size == 0 {
		return 0, f != nil && size == 0
	}
	from := addressOf(l.reserved)
	if n, ok := scanRanges(f.Fd(), from, uint64(size)); ok {
		return n, true
	}
	return scanPages(f, from, size)
}

// pageRange and scanRequest are struct page_region and struct pm_scan_arg of the kernel's PAGEMAP_SCAN (since 6.7),
// which passes over what is not there quickly.
type pageRange struct{ start, end, _ uint64 }

type scanRequest struct {
	size, flags, start, end, walkEnd, ranges, count, maxPages, inverted, mask, anyOf, returned uint64
}

const (
	pagemapScan = 0xc0606610
	pageIsFile  = 1 << 2
	pageIsThere = 1 << 3
	pageIsSwap  = 1 << 4
	pageIsZero  = 1 << 5
)

// rangePool holds rooms for the kernel's answers: on the heap, whose objects don't move.
var rangePool = sync.Pool{New: func() any { return new([128]pageRange) }}

// scanRanges counts pages that are there, or swapped out, and are neither the file's nor the one of zeros that all
// share.
func scanRanges(fd, from uintptr, size uint64) (n int64, ok bool) {
	ranges := rangePool.Get().(*[128]pageRange)
	defer rangePool.Put(ranges)
	end := uint64(from) + size
	for at := uint64(from); at < end; {
		r := scanRequest{
			start: at, end: end, count: uint64(len(ranges)), ranges: uint64(uintptr(unsafe.Pointer(ranges))),
			inverted: pageIsFile | pageIsZero, mask: pageIsFile | pageIsZero, anyOf: pageIsThere | pageIsSwap,
			returned: pageIsThere,
		}
		r.size = uint64(unsafe.Sizeof(r))
		found, _, errno := unix.Syscall(unix.SYS_IOCTL, fd, pagemapScan, uintptr(unsafe.Pointer(&r)))
		if errno == syscall.EINTR {
			continue
		}
		if errno != 0 || found > uintptr(len(ranges)) || r.walkEnd <= at {
			return 0, false
		}
		for _, p := range ranges[:found] {
			n += int64(p.end - p.start)
		}
		at = r.walkEnd
	}
	return n, true
}

// scanPages counts by the 8 bytes that every kernel has for each page.
func scanPages(f *os.File, from uintptr, size int64) (n int64, ok bool) {
	const there, swapped, file = 1 << 63, 1 << 62, 1 << 61
	page := int64(os.Getpagesize())
	var room [4096]byte
	for first, end := int64(from)/page, (int64(from)+size+page-1)/page; first < end; {
		b := room[:min(int64(len(room)), (end-first)*8)]
		got, err := f.ReadAt(b, first*8)
		if err != nil || got < 8 {
			return 0, false
		}
		for i := 0; i+8 <= got; i += 8 {
			if e := binary.NativeEndian.Uint64(b[i:]); e&(there|swapped) != 0 && e&file == 0 {
				n += page
			}
		}
		first += int64(got) / 8
	}
	return n, true
}

func addressOf(b []byte) uintptr { return uintptr(unsafe.Pointer(unsafe.SliceData(b))) }
