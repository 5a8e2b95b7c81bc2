package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listener names the program that listens on a port, as far as Linux tells; else it is empty.
func listener(port int) string {
	inodes := map[string]bool{}
	for _, table := range []string{"/proc/net/tcp", "/proc/net/tcp6"} {
		text, _ := os.ReadFile(table)
		for line := range strings.Lines(string(text)) {
			f := strings.Fields(line)
			const listens = "0A"
			if len(f) < 10 || f[3] != listens {
				continue
			}
			_, hex, _ := strings.Cut(f[1], ":")
			if n, err := strconv.ParseUint(hex, 16, 16); err == nil && int(n) == port {
				inodes["socket:["+f[9]+"]"] = true
			}
		}
	}
	files, _ := filepath.Glob("/proc/[0-9]*/fd/*")
	for _, file := range files {
		to, err := os.Readlink(file)
		if err != nil || !inodes[to] {
			continue
		}
		process := filepath.Dir(filepath.Dir(file))
		name, _ := os.ReadFile(filepath.Join(process, "comm"))
		return fmt.Sprintf("%s (process %s)", strings.TrimSpace(string(name)), filepath.Base(process))
	}
	return ""
}
