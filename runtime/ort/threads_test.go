package ort

import (
	"runtime"
	"testing"
	"testing/fstest"
	"time"
)

func TestCPUQuota(t *testing.T) {
	for _, c := range []struct {
		name  string
		files map[string]string
		want  float64 // 0 is none
	}{
		{"no control groups", nil, 0},
		{"v2 without a limit", map[string]string{"proc/self/cgroup": "0::/a\n",
			"sys/fs/cgroup/a/cpu.max": "max 100000\n"}, 0},
		{"v2", map[string]string{"proc/self/cgroup": "0::/a/b\n", "sys/fs/cgroup/a/b/cpu.max": "150000 100000\n"}, 1.5},
		{"v2, tighter parent", map[string]string{"proc/self/cgroup": "0::/a/b\n",
			"sys/fs/cgroup/a/b/cpu.max": "400000 100000\n", "sys/fs/cgroup/a/cpu.max": "200000 100000\n"}, 2},
		{"v2 in a container", map[string]string{"proc/self/cgroup": "0::/host/path\n",
			"sys/fs/cgroup/cpu.max": "50000 100000\n"}, 0.5},
		{"v2 outside its namespace", map[string]string{"proc/self/cgroup": "0::/../x\n",
			"sys/fs/cgroup/cpu.max": "300000 100000\n"}, 3},
		{"v1", map[string]string{"proc/self/cgroup": "4:memory:/m\n3:cpu,cpuacct:/a\n",
			"sys/fs/cgroup/cpu/a/cpu.cfs_quota_us": "250000\n", "sys/fs/cgroup/cpu/a/cpu.cfs_period_us": "100000\n"},
			2.5},
		{"v1, other mount", map[string]string{"proc/self/cgroup": "3:cpu,cpuacct:/a\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_quota_us":  "100000\n",
			"sys/fs/cgroup/cpu,cpuacct/cpu.cfs_period_us": "100000\n"}, 1},
		{"v1 without a limit", map[string]string{"proc/self/cgroup": "3:cpu:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "-1\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0},
		{"only cpuset", map[string]string{"proc/self/cgroup": "3:cpuset:/\n",
			"sys/fs/cgroup/cpu/cpu.cfs_quota_us": "100000\n", "sys/fs/cgroup/cpu/cpu.cfs_period_us": "100000\n"}, 0},
		{"nonsense", map[string]string{"proc/self/cgroup": "what\n0::/\n", "sys/fs/cgroup/cpu.max": "many few\n"}, 0},
		{"short", map[string]string{"proc/self/cgroup": "0::/\n", "sys/fs/cgroup/cpu.max": "100000"}, 0},
	} {
		root := fstest.MapFS{}
		for name, text := range c.files {
			root[name] = &fstest.MapFile{Data: []byte(text)}
		}
		got, ok := cpuQuota(root)
		if ok != (c.want != 0) || ok && got != c.want {
			t.Errorf("%s: %v, %v; want %v", c.name, got, ok, c.want)
		}
	}
}

func TestThreads(t *testing.T) {
	if n := Threads(); n < 1 || n > runtime.NumCPU() {
		t.Errorf("%d threads on %d CPUs", n, runtime.NumCPU())
	}
	defer runtime.GOMAXPROCS(runtime.GOMAXPROCS(1))
	if n := Threads(); n != 1 {
		t.Errorf("%d threads with GOMAXPROCS 1", n)
	}
	if spinByDefault(4) {
		t.Error("spins with 4 threads")
	}
}

// TestQuiet: threads that lose their cores stop to spin, for longer each time that they lose them again, and try anew
// once nothing is lost.
func TestQuiet(t *testing.T) {
	now, step := time.Unix(0, 0), 10*time.Millisecond
	var q quiet
	// run takes steps for a while, in which spinning threads lose a share, and returns for how much of it they spun.
	run := func(all time.Duration, lost float64) float64 {
		spun, end := time.Duration(0), now.Add(all)
		for now.Before(end) {
			spins := q.may(now)
			now = now.Add(step)
			if spins {
				spun += step
				q.spun(step, time.Duration((1-lost)*float64(step)), now)
			}
		}
		return float64(spun) / float64(all)
	}
	if got := run(time.Minute, 0.05); got != 1 {
		t.Errorf("alone threads spin %.2f of the time", got)
	}
	if got := run(time.Second, 0.6); got > 0.1 {
		t.Errorf("in the first second beside others %.2f", got)
	}
	if got := run(time.Minute, 0.6); got > 0.01 {
		t.Errorf("beside others %.3f", got)
	}
	if run(longRest, 0); run(time.Minute, 0) != 1 {
		t.Error("alone again they do not spin")
	}
	if run(longRest+time.Second, 0); q.rest != 0 {
		t.Errorf("the next rest would take twice %v", q.rest)
	}
}

// TestChoose: steps that are small run on the runner that spins, if there is one, unless it rests.
func TestChoose(t *testing.T) {
	still, spins, now := &bound{}, &bound{}, time.Unix(0, 0)
	one, two := &Paged{runners: []runner{{bound: still}}}, &Paged{runners: []runner{{bound: still}, {bound: spins}}}
	for _, c := range []struct {
		p      *Paged
		tokens int
		rests  bool
		want   *bound
	}{{one, 1, false, still}, {two, 1, false, spins}, {two, smallStep, false, spins},
		{two, smallStep + 1, false, still}, {two, 1, true, still}} {
		if c.p.quiet.till = now; c.rests {
			c.p.quiet.till = now.Add(1)
		}
		if got := c.p.choose(c.tokens, now); c.p.bound != c.want || got != (c.want == spins) {
			t.Errorf("%d runners, %d tokens, rests %v: spins %v", len(c.p.runners), c.tokens, c.rests, got)
		}
	}
}
