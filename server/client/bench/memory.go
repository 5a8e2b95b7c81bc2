package bench

import (
	"fmt"
	"os"
	"strings"
)

// memoryOf reads how much memory a process holds, and how much of that is mapped files, from Linux's /proc; 0
// elsewhere.
func memoryOf(pid int) (all, mapped int64) {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/status", pid))
	if err != nil {
		return 0, 0
	}
	for line := range strings.Lines(string(text)) {
		var kilobytes int64
		switch name, value, _ := strings.Cut(line, ":"); name {
		case "VmRSS":
			if _, err := fmt.Sscan(value, &kilobytes); err == nil {
				all = kilobytes << 10
			}
		case "RssFile", "RssShmem":
			if _, err := fmt.Sscan(value, &kilobytes); err == nil {
				mapped += kilobytes << 10
			}
		}
	}
	return all, mapped
}
