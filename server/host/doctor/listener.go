package doctor

import (
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
)

// listener returns the process that listens on a port, with the name of its program, as far as Linux tells: of other
// users' processes it tells root alone. Else the name is empty.
func listener(port int) (name string, process int) {
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
		folder := filepath.Dir(filepath.Dir(file))
		text, _ := os.ReadFile(filepath.Join(folder, "comm"))
		process, _ = strconv.Atoi(filepath.Base(folder))
		return strings.TrimSpace(string(text)), process
	}
	return "", 0
}

// isServer says whether a process that listens is a server like the one that is looked at: it runs the same program, or
// one of the same name.
func isServer(name string, process int) bool {
	if process == os.Getpid() {
		return false
	}
	if name == "tgi" {
		return true
	}
	own, err := os.Stat("/proc/self/exe")
	if err != nil {
		return false
	}
	other, err := os.Stat(fmt.Sprintf("/proc/%d/exe", process))
	return err == nil && os.SameFile(own, other)
}
