package host

import (
	"log/slog"
	"os"
	"path/filepath"
	"regexp"
	"slices"
	"testing"

	"tgi/server/config"
)

func TestMemAvailable(t *testing.T) {
	got, ok := memAvailable([]byte("MemTotal:       24000000 kB\nMemFree: 1 kB\nMemAvailable:   2048 kB\n"))
	if !ok || got != 2048<<10 {
		t.Fatalf("memAvailable = %d, %v; want %d", got, ok, 2048<<10)
	}
	if _, ok := memAvailable([]byte("MemTotal: 1 kB\n")); ok {
		t.Fatal("memAvailable found what is not there")
	}
}

func TestKVBlocks(t *testing.T) {
	const blockBytes = 16 << 10
	for _, c := range []struct {
		name              string
		wanted, available int64
		rows, perSeq      int
		want              int
	}{
		{"a wanted size is taken", 1 << 20, 1 << 40, 128, 64, 64},
		{"auto takes a quarter of what is available", 0, 8 << 20, 128, 64, 128},
		{"auto holds at least one sequence", 0, 1 << 20, 128, 64, 64},
		{"never more than the rows can use", 1 << 30, 1 << 40, 2, 7, 14},
		{"a wanted size below one sequence stays what was asked", 16 << 10, 1 << 40, 128, 64, 1},
	} {
		if got := kvBlocks(blockBytes, c.wanted, c.available, c.rows, c.perSeq); got != c.want {
			t.Errorf("%s: %d blocks, want %d", c.name, got, c.want)
		}
	}
}

func TestIdleFiles(t *testing.T) {
	const stat = "anon 100\ninactive_file 4096\nactive_file 7\n"
	for name, want := range map[string]int64{"inactive_file": 4096, "active_file": 7, "total_inactive_file": 0} {
		if got := idleFiles([]byte(stat), name); got != want {
			t.Errorf("%s: %d, want %d", name, got, want)
		}
	}
}

// TestMachine reads made-up files: each group that the process is in may have a limit, in
// both versions of control groups, and so may the address space.
func TestMachine(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		space int64
		left  []int64
		want  int64
	}{
		{"nothing is bounded", map[string]string{"proc/meminfo": "MemAvailable: 8192 kB\n"}, 0, nil, 8 << 20},
		{"a group above has the limit", map[string]string{
			"proc/meminfo": "MemAvailable: 8192 kB\n", "proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/memory.max": "max\n", "sys/fs/cgroup/a/b/memory.current": "7\n",
			"sys/fs/cgroup/a/memory.max": "5000\n", "sys/fs/cgroup/a/memory.current": "3000\n",
			"sys/fs/cgroup/a/memory.stat": "inactive_file 500\n",
		}, 0, []int64{2500}, 2500},
		{"version 1, seen from a container", map[string]string{
			"proc/self/cgroup":                                  "4:memory:/docker/x\n2:cpu:/\n",
			"sys/fs/cgroup/memory/memory.limit_in_bytes":        "6000\n",
			"sys/fs/cgroup/memory/memory.usage_in_bytes":        "1000\n",
			"sys/fs/cgroup/memory/memory.stat":                  "total_inactive_file 10\n",
			"sys/fs/cgroup/memory/docker/memory.limit_in_bytes": "9223372036854771712\n",
			"sys/fs/cgroup/memory/docker/memory.usage_in_bytes": "1000\n",
		}, 0, []int64{5010}, 5010},
		{"address space", map[string]string{"proc/meminfo": "MemAvailable: 8192 kB\n"}, addressOverhead + 5000,
			[]int64{addressOverhead + 4000}, 4000},
	} {
		root := t.TempDir()
		for name, text := range c.files {
			path := filepath.Join(root, name)
			if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
				t.Fatal(err)
			}
			if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
				t.Fatal(err)
			}
		}
		m := machine{root: root, space: func() (int64, int64, bool) { return c.space, 1000, c.space > 0 }}
		var left []int64
		for _, b := range m.bounds() {
			left = append(left, b.left)
		}
		if !slices.Equal(left, c.left) || m.available() != c.want {
			t.Errorf("%s: left %v, available %d, want %v and %d", c.name, left, m.available(), c.left, c.want)
		}
	}
}

// TestCachesFitTheMachine: a cache that is larger than all memory is refused by key, bound and value.
func TestCachesFitTheMachine(t *testing.T) {
	root := t.TempDir()
	if err := os.MkdirAll(filepath.Join(root, "proc"), 0o700); err != nil {
		t.Fatal(err)
	}
	text := []byte("MemTotal: 8388608 kB\nMemAvailable: 1024 kB\n")
	if err := os.WriteFile(filepath.Join(root, "proc/meminfo"), text, 0o600); err != nil {
		t.Fatal(err)
	}
	space := int64(0)
	m := machine{root: root, space: func() (int64, int64, bool) { return space, 0, space > 0 }}
	c := config.Default()
	c.Runtime.KVMemory = 8 << 30
	if err := checkCaches(&c, m.total()); err != nil {
		t.Error(err)
	}
	c.ModelList = []config.Model{{Name: "a", KVMemory: 9 << 30}, {Name: "b", KVMemory: 1 << 30}}
	want := "kv_memory of model a must be <= 8GiB, the memory that this process may have, given 9GiB"
	if err := checkCaches(&c, m.total()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
	space = 4 << 30
	want = "runtime.kv_memory must be <= 4GiB, the memory that this process may have, given 8GiB\n" +
		"kv_memory of model a must be <= 4GiB, the memory that this process may have, given 9GiB"
	if err := checkCaches(&c, m.total()); err == nil || err.Error() != want {
		t.Errorf("got %v, want %s", err, want)
	}
}

// TestPluginMemory: what plugins get by themselves.
func TestPluginMemory(t *testing.T) {
	var p config.Plugins
	for available, want := range map[int64]int64{64 << 30: 8 << 30, 1 << 30: 256 << 20, 200 << 20: 100 << 20} {
		if got := pluginMemory(p, available, nil).Bytes; got != want {
			t.Errorf("of %d: %d, want %d", available, got, want)
		}
	}
	p.Memory = 5 << 20
	if got := pluginMemory(p, 1<<30, []bound{{left: 6 << 30, overhead: addressOverhead}}); got.Bytes != 5<<20 ||
		got.Space != 6<<30-1<<29 {
		t.Errorf("%+v", got)
	}
}

// TestTooLittleMemory: where the system's limit is below what the model needs, the start ends with both numbers.
func TestTooLittleMemory(t *testing.T) {
	before := system
	defer func() { system = before }()
	system.space = func() (int64, int64, bool) { return addressOverhead + 1<<20, 1 << 19, true }
	h, err := Open(t.Context(), Options{Config: testConfig(), Version: "dev", Log: slog.New(slog.DiscardHandler)})
	if err == nil {
		h.Close()
		t.Fatal("it started")
	}
	if !regexp.MustCompile(`model tgi-demo: .*not enough memory: it needs about \d+ MiB \(weights \d+, cache \d+, everything else \d+\), the limit of the address space \(ulimit -v\) of 2049 MiB leaves 2048`).MatchString(err.Error()) {
		t.Error(err)
	}
}
