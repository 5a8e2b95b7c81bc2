package main

import (
	"bufio"
	"bytes"
	"os"
	"strconv"
	"strings"
)

// fallbackMemory is assumed where the system does not say what is free.
const fallbackMemory = 4 << 30

// availableMemory returns the bytes that this process may still take: the
// smallest of what the kernel calls available and what the control group leaves.
func availableMemory() int64 {
	avail := int64(fallbackMemory)
	if b, err := os.ReadFile("/proc/meminfo"); err == nil {
		if v, ok := memAvailable(b); ok {
			avail = v
		}
	}
	for _, g := range []struct{ limit, used, stat, idle string }{
		{"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current", "/sys/fs/cgroup/memory.stat", "inactive_file"},
		{"/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes", "/sys/fs/cgroup/memory/memory.stat", "total_inactive_file"},
	} {
		limit, ok1 := readInt(g.limit)
		used, ok2 := readInt(g.used)
		if ok1 && ok2 {
			stat, _ := os.ReadFile(g.stat)
			avail = min(avail, max(0, limit-used+idleFiles(stat, g.idle)))
		}
	}
	return avail
}

// idleFiles reads from a control group's statistics the bytes of files that are
// kept for nobody: they count as used, and go when memory is wanted.
func idleFiles(stat []byte, name string) int64 {
	for line := range strings.Lines(string(stat)) {
		if key, value, _ := strings.Cut(strings.TrimSpace(line), " "); key == name {
			n, _ := strconv.ParseInt(value, 10, 64)
			return max(0, n)
		}
	}
	return 0
}

// memAvailable reads the MemAvailable line of /proc/meminfo, in bytes.
func memAvailable(meminfo []byte) (int64, bool) {
	s := bufio.NewScanner(bytes.NewReader(meminfo))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) == 3 && f[0] == "MemAvailable:" && f[2] == "kB" {
			v, err := strconv.ParseInt(f[1], 10, 64)
			return v << 10, err == nil
		}
	}
	return 0, false
}

// readInt reads a file that holds one number; "max" and anything else is no number.
func readInt(path string) (int64, bool) {
	b, err := os.ReadFile(path)
	if err != nil {
		return 0, false
	}
	v, err := strconv.ParseInt(strings.TrimSpace(string(b)), 10, 64)
	return v, err == nil
}

// kvBlocks sizes the cache, whose blocks take blockBytes each. A wanted size in
// bytes is taken as it is; 0 means a quarter of the available memory. More
// blocks than rows sequences of perSeq blocks can ever hold are not taken, and a
// cache that was not asked for holds at least one whole sequence.
func kvBlocks(blockBytes, wanted, available int64, rows, perSeq int) int {
	budget := wanted
	if budget == 0 {
		budget = available / 4
	}
	n := budget / blockBytes
	if wanted == 0 {
		n = max(n, int64(perSeq))
	}
	return int(min(n, int64(rows)*int64(perSeq)))
}
