package host

import (
	"bufio"
	"bytes"
	"fmt"
	"os"
	"path"
	"strings"

	"golang.org/x/sys/unix"
)

// forgetMapped gives back what the start has read of the program and of ONNX Runtime, which are mapped files: most of
// it is modules that were checked, and code that runs no more. What is used again comes back from the page cache. Both
// stay where they are mapped for as long as the process lives; other files may not, so they are left alone: by the time
// they are forgotten, their addresses could be those of memory that nobody can bring back.
func forgetMapped() {
	program, err := os.Readlink("/proc/self/exe")
	if err != nil {
		return
	}
	all, err := os.ReadFile("/proc/self/smaps")
	if err != nil {
		return
	}
	for _, m := range unwritten(all) {
		if m.file == program || strings.HasPrefix(path.Base(m.file), "libonnxruntime") {
			forgetRange(m.from, m.to)
		}
	}
}

// mappedRange is a range of addresses that a file is mapped to.
type mappedRange struct {
	from, to uintptr
	file     string
}

// unwritten reads smaps, and returns the ranges of files that may not be written to, and that have no page of their
// own: where the linker wrote before it took the permission away, forgetting would undo that.
func unwritten(smaps []byte) (list []mappedRange) {
	var m mappedRange
	lines := bufio.NewScanner(bytes.NewReader(smaps))
	for lines.Scan() {
		fields := strings.Fields(lines.Text())
		switch {
		case len(fields) >= 6 && !strings.HasSuffix(fields[0], ":"):
			m = mappedRange{file: fields[5]}
			if len(fields) > 6 || fields[1] != "r--p" && fields[1] != "r-xp" || !strings.HasPrefix(m.file, "/") {
				m.file = ""
			} else if _, err := fmt.Sscanf(fields[0], "%x-%x", &m.from, &m.to); err != nil {
				m.file = ""
			}
		case len(fields) >= 5 && !strings.HasSuffix(fields[0], ":"): // memory of no file
			m.file = ""
		case m.file != "" && fields[0] == "Anonymous:":
			if fields[1] == "0" {
				list = append(list, m)
			}
			m.file = ""
		}
	}
	return list
}

// forgetRange has the system take the pages of a range away until they are touched. One that it keeps costs memory and
// nothing else.
func forgetRange(from, to uintptr) {
	_, _, _ = unix.Syscall(unix.SYS_MADVISE, from, to-from, unix.MADV_DONTNEED)
}
