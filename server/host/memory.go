package host

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"tgi/plugins"
	"tgi/server/config"
)

// fallbackMemory is assumed where the system does not say what is free.
const fallbackMemory = 4 << 30

// machine is where the system says what memory there is.
type machine struct {
	root string // before /proc and /sys
	// space returns the limit of the process's address space and what it has of it;
	// ok is false where there is no limit.
	space func() (limit, used int64, ok bool)
}

// system is the one that this process runs on.
var system = machine{root: "/", space: addressSpace}

// bound is a limit of memory that the system enforces: who passes it is refused memory,
// or killed.
type bound struct {
	name        string
	limit, left int64 // bytes
	// overhead is what the process must have of it beyond what is planned.
	overhead int64
}

// addressOverhead is address space that is taken and hardly used: by Go's heap, ONNX
// Runtime's library and arenas, the stacks and the heaps of threads, and one instance of each plugin
// that is built in.
const addressOverhead = 2 << 30

// bounds returns what the system enforces.
func (m machine) bounds() (list []bound) {
	for _, g := range m.groups() {
		limit, ok1 := readInt(filepath.Join(g.dir, g.limit))
		used, ok2 := readInt(filepath.Join(g.dir, g.used))
		if ok1 && ok2 && limit < 1<<60 { // version 1 says so for "none"
			stat, _ := os.ReadFile(filepath.Join(g.dir, "memory.stat"))
			list = append(list, bound{name: "the memory limit of the control group", limit: limit, left: limit - used +
				idleFiles(stat, g.idle)})
		}
	}
	if limit, used, ok := m.space(); ok {
		list = append(list, bound{name: "the limit of the address space (ulimit -v)", limit: limit, left: limit - used,
			overhead: addressOverhead})
	}
	return list
}

// checkMemory refuses to begin where the process would not get to the point of asking what its model
// needs: the Go runtime and ONNX Runtime end it when the system refuses them memory.
func checkMemory(bounds []bound) error {
	for _, b := range bounds {
		if b.left < b.overhead {
			return fmt.Errorf("not enough memory: the program needs about %d MiB before any model, %s of %d MiB leaves %d",
				b.overhead>>20, b.name, b.limit>>20, max(0, b.left)>>20)
		}
	}
	return nil
}

// checkCaches refuses a key/value cache that the machine cannot hold, whatever else it runs.
func checkCaches(c *config.Config, total int64) error {
	check := func(key string, size config.Size) error {
		if int64(size) > total {
			return fmt.Errorf("%s must be <= %s, the memory that this process may have, given %s", key,
				config.Size(total), size)
		}
		return nil
	}
	errs := []error{check("runtime.kv_memory", c.Runtime.KVMemory)}
	for _, m := range c.All() {
		errs = append(errs, check("kv_memory of model "+m.Name, m.KVMemory))
	}
	return errors.Join(errs...)
}

// total returns the bytes that this process may have, were it alone.
func (m machine) total() int64 {
	total := int64(math.MaxInt64)
	if b, err := os.ReadFile(filepath.Join(m.root, "proc/meminfo")); err == nil {
		if v, ok := memoryLine(b, "MemTotal:"); ok {
			total = v
		}
	}
	for _, b := range m.bounds() {
		total = min(total, b.limit)
	}
	return total
}

// group is a control group's folder, and what its files are called.
type group struct{ dir, limit, used, idle string }

// groups returns the control groups that the process is in, which are those above its
// own too: each may have a limit.
func (m machine) groups() (list []group) {
	own, _ := os.ReadFile(filepath.Join(m.root, "proc/self/cgroup"))
	base := filepath.Join(m.root, "sys/fs/cgroup")
	for line := range strings.Lines(string(own) + "0::/\n0:memory:/\n") { // a container sees its own group as the root
		parts := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(parts) < 3 {
			continue
		}
		g := group{base, "memory.max", "memory.current", "inactive_file"}
		if controllers := strings.Split(parts[1], ","); slices.Contains(controllers, "memory") {
			g = group{filepath.Join(base, "memory"), "memory.limit_in_bytes", "memory.usage_in_bytes",
				"total_inactive_file"}
		} else if parts[1] != "" {
			continue
		}
		for path := filepath.Clean("/" + parts[2]); ; path = filepath.Dir(path) {
			at := g
			at.dir = filepath.Join(g.dir, path)
			if !slices.Contains(list, at) {
				list = append(list, at)
			}
			if path == "/" {
				break
			}
		}
	}
	return list
}

// available returns the bytes that this process may still take: the smallest of what the
// kernel calls available and what the bounds leave.
func (m machine) available() int64 {
	avail := int64(fallbackMemory)
	if b, err := os.ReadFile(filepath.Join(m.root, "proc/meminfo")); err == nil {
		if v, ok := memAvailable(b); ok {
			avail = v
		}
	}
	for _, b := range m.bounds() {
		avail = min(avail, max(0, b.left-b.overhead))
	}
	return avail
}

func availableMemory() int64 { return system.available() }

// Shares of what is available.
const (
	pluginShare   = 8 // for plugins, an eighth
	grammarShare  = 4 // of that for the grammars of a model, a quarter
	leastPlugins  = 256 << 20
	mostGrammars  = 256 << 20
	leastGrammars = 8 << 20
)

// pluginMemory says what plugins may take together where so much is available.
func pluginMemory(p config.Plugins, available int64, bounds []bound) plugins.MemoryConfig {
	c := plugins.MemoryConfig{Bytes: int64(p.Memory), Wait: time.Duration(p.MemoryWait), Name: "plugins.memory"}
	if c.Bytes == 0 {
		c.Bytes = max(available/pluginShare, min(leastPlugins, available/2), 1<<20)
	}
	for _, b := range bounds {
		if b.overhead > 0 { // instances reserve more address space than they use
			c.Space = max(b.left-available/2, addressOverhead/2)
		}
	}
	return c
}

// grammarMemory says what the grammars of a model may take of what plugins may.
func grammarMemory(p config.Plugins, all int64) int64 {
	if p.GrammarMemory > 0 {
		return int64(p.GrammarMemory)
	}
	return min(mostGrammars, max(all/grammarShare, leastGrammars))
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
func memAvailable(meminfo []byte) (int64, bool) { return memoryLine(meminfo, "MemAvailable:") }

// memoryLine reads a line of /proc/meminfo, in bytes.
func memoryLine(meminfo []byte, name string) (int64, bool) {
	s := bufio.NewScanner(bytes.NewReader(meminfo))
	for s.Scan() {
		f := strings.Fields(s.Text())
		if len(f) == 3 && f[0] == name && f[2] == "kB" {
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
