package ort

import (
	"bytes"
	"os"
	"testing"
	"unsafe"

	"golang.org/x/sys/unix"
)

// TestCachePages writes to the parts of a cache: where one begins it takes pages as small as the system has, and large
// ones behind that.
func TestCachePages(t *testing.T) {
	const part, parts = 40<<20 + 5<<10, 3
	p, err := mapPages(part * parts)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(p.unmap)
	p.enlarge(part)
	memory := unsafe.Slice((*byte)(p.at), p.bytes)
	small := os.Getpagesize()
	for i := range parts {
		memory[i*part] = 1
		memory[i*part+part/smallShare-small] = 1
	}
	if got := backed(t, memory); got != 2*parts*small {
		t.Errorf("%d bytes are backed after the first were written, want %d pages of %d", got, 2*parts, small)
	}
	for i := range parts {
		memory[i*part+part/2] = 1
	}
	want := 2*parts*small + parts*largePage
	enabled, err := os.ReadFile("/sys/kernel/mm/transparent_hugepage/enabled")
	if err != nil || bytes.Contains(enabled, []byte("[never]")) {
		want = 3 * parts * small
	}
	if got := backed(t, memory); got != want {
		t.Errorf("%d bytes are backed after those in the middle were written, want %d", got, want)
	}
}

// backed returns how many bytes of memory are backed.
func backed(t *testing.T, memory []byte) (n int) {
	t.Helper()
	small := os.Getpagesize()
	pages := make([]byte, (len(memory)+small-1)/small)
	_, _, failed := unix.Syscall(unix.SYS_MINCORE, uintptr(unsafe.Pointer(unsafe.SliceData(memory))),
		uintptr(len(memory)), uintptr(unsafe.Pointer(unsafe.SliceData(pages))))
	if failed != 0 {
		t.Fatal(failed)
	}
	for _, page := range pages {
		n += int(page&1) * small
	}
	return n
}
