package host

import (
	"debug/elf"
	"os"
	"runtime"
)

// BuildID is what the linker called this program, by all that is in it; "" where its file does not tell.
func BuildID() string {
	path, err := os.Executable()
	if runtime.GOOS == "linux" { // also where the file was replaced meanwhile
		path, err = "/proc/self/exe", nil
	}
	if err != nil {
		return ""
	}
	f, err := elf.Open(path)
	if err != nil {
		return ""
	}
	defer f.Close()
	const head = 16 // lengths, type and owner of the note
	if s := f.Section(".note.go.buildid"); s != nil {
		if note, err := s.Data(); err == nil && len(note) > head {
			return string(note[head:])
		}
	}
	return ""
}
