package ort

import (
	"io/fs"
	"math"
	"os"
	"path"
	"runtime"
	"strconv"
	"strings"
	"time"
)

// Threads returns the default number of threads of a step: the CPUs available to this process,
// limited by GOMAXPROCS and the control group's CPU quota (rounded to the nearest whole CPU),
// and at least 1.
func Threads() int {
	n := min(runtime.NumCPU(), runtime.GOMAXPROCS(0))
	if quota, ok := cpuQuota(os.DirFS("/")); ok {
		n = min(n, int(math.Round(quota)))
	}
	return max(n, 1)
}

// spinTime is how long a thread looks for work before it sleeps, if it spins at all: longer than nearly all waits
// within a step. ONNX Runtime's own default is a million pauses, which is no faster on a quiet machine, and
// takes several times as much of a busy one.
const spinTime = 20 * time.Microsecond

// spinByDefault reports whether idle threads should spin in all steps: not with few CPUs, and not under a
// quota, which spinning would use up.
func spinByDefault(threads int) bool { return threads > 4 && spinsWhenQuiet(threads) }

// spinsWhenQuiet reports whether idle threads may spin while nobody else wants the cores.
func spinsWhenQuiet(threads int) bool {
	_, limited := cpuQuota(os.DirFS("/"))
	return threads > 1 && !limited
}

// smallStep is the most tokens of a step that threads spin in. The parts of larger ones take so long that waking a
// thread for them costs little.
const smallStep = 64

// Bounds of quiet.
const (
	mostLost  = 0.15                   // share of a step that a thread may lose to others
	lossSteps = 8                      // steps that a loss is averaged over, about
	firstRest = 500 * time.Millisecond // without spinning after too much was lost; doubled up to longRest
	longRest  = 8 * time.Second
)

// quiet decides whether threads spin. A thread that spins has its core until the step ends, unless others want it:
// what it lost tells how busy the machine is. Then a scheduler soon takes the core from those who spin, for long, and
// gives it at once to those who sleep and are woken.
type quiet struct {
	lost float64 // share, averaged
	rest time.Duration
	till time.Time // no spinning until then
}

// may reports whether the threads of the next step may spin.
func (q *quiet) may(now time.Time) bool { return !now.Before(q.till) }

// spun takes note of a step whose threads could spin: how long it took, and how much of that its first thread had a
// core.
func (q *quiet) spun(took, computed time.Duration, now time.Time) {
	if took <= 0 {
		return
	}
	q.lost += (max(0, 1-float64(computed)/float64(took)) - q.lost) / lossSteps
	switch {
	case q.lost > mostLost:
		q.rest = min(max(2*q.rest, firstRest), longRest)
		q.till, q.lost = now.Add(q.rest), 0
	case now.Sub(q.till) > q.rest: // for as long as it rested nothing was lost
		q.rest = 0
	}
}

// cpuQuota returns the CPU quota of the process's control groups: the least of its own group and
// all groups above it, for versions 1 and 2. ok is false if no quota is set or the system has no
// control groups. root is the root of the file system.
func cpuQuota(root fs.FS) (cpus float64, ok bool) {
	listed, err := fs.ReadFile(root, "proc/self/cgroup")
	if err != nil {
		return 0, false
	}
	cpus = math.Inf(1)
	for line := range strings.Lines(string(listed)) {
		// hierarchy:controllers:path; version 2 has no controllers here.
		f := strings.SplitN(strings.TrimSpace(line), ":", 3)
		if len(f) != 3 {
			continue
		}
		switch {
		case f[1] == "":
			cpus = min(cpus, minQuota(root, "sys/fs/cgroup", f[2], quotaV2))
		case contains(f[1], "cpu"):
			cpus = min(cpus, minQuota(root, "sys/fs/cgroup/cpu", f[2], quotaV1),
				minQuota(root, "sys/fs/cgroup/cpu,cpuacct", f[2], quotaV1))
		}
	}
	return cpus, !math.IsInf(cpus, 1)
}

func contains(list, item string) bool {
	for f := range strings.SplitSeq(list, ",") {
		if f == item {
			return true
		}
	}
	return false
}

// minQuota returns the least quota of the groups from group up to the mount point. In a container
// the group's path may not exist below the mount; then only the mount's own files count.
func minQuota(root fs.FS, mount, group string, read func(fs.FS, string) float64) float64 {
	least := math.Inf(1)
	for dir := path.Join("/", group); ; dir = path.Dir(dir) {
		least = min(least, read(root, path.Join(mount, dir)))
		if dir == "/" {
			return least
		}
	}
}

// quotaV2 parses "max 100000" or "150000 100000".
func quotaV2(root fs.FS, dir string) float64 {
	b, err := fs.ReadFile(root, path.Join(dir, "cpu.max"))
	if err != nil {
		return math.Inf(1)
	}
	f := strings.Fields(string(b))
	if len(f) != 2 {
		return math.Inf(1)
	}
	return ratio(f[0], f[1])
}

func quotaV1(root fs.FS, dir string) float64 {
	quota, err1 := fs.ReadFile(root, path.Join(dir, "cpu.cfs_quota_us"))
	period, err2 := fs.ReadFile(root, path.Join(dir, "cpu.cfs_period_us"))
	if err1 != nil || err2 != nil {
		return math.Inf(1)
	}
	return ratio(strings.TrimSpace(string(quota)), strings.TrimSpace(string(period)))
}

// ratio returns quota/period, or infinity if there is no quota.
func ratio(quota, period string) float64 {
	q, err1 := strconv.ParseFloat(quota, 64)
	p, err2 := strconv.ParseFloat(period, 64)
	if err1 != nil || err2 != nil || q <= 0 || p <= 0 {
		return math.Inf(1)
	}
	return q / p
}
