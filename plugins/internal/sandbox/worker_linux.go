package sandbox

import (
	"errors"
	"fmt"
	"os"
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// workerNice is how much a compilation gives way to those who serve.
const workerNice = 5

// program is what a worker runs: this very program, also where its file was replaced or deleted meanwhile.
func program() (string, error) { return "/proc/self/exe", nil }

// prepare has the worker end with this process, however it ends, and makes it a group that can be killed whole. It
// stays in the session: a session of its own could be scheduled as an equal of the server, whatever its priority.
func prepare(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// killGroup ends a worker and all that belongs to it.
func killGroup(p *os.Process) {
	_ = unix.Kill(-p.Pid, unix.SIGKILL)
	_ = p.Kill()
}

// confine limits this process, which is a worker.
func (j workerJob) confine() error {
	// At the first limit Go's runtime says so and ends the process, at the second the system does.
	seconds := uint64(j.cpu.Seconds())
	err := errors.Join(
		unix.Setrlimit(unix.RLIMIT_CORE, &unix.Rlimit{}),
		unix.Setrlimit(unix.RLIMIT_CPU, &unix.Rlimit{Cur: seconds, Max: seconds + 2}),
		unix.Setrlimit(unix.RLIMIT_DATA, &unix.Rlimit{Cur: uint64(j.memory), Max: uint64(j.memory)}),
		unix.Setpriority(unix.PRIO_PGRP, 0, workerNice),
	)
	// When the machine has no memory left, this process goes first. A system that does not know the file takes its
	// chance.
	_ = os.WriteFile("/proc/self/oom_score_adj", fmt.Append(nil, 1000), 0)
	return err
}

// peakMemory returns the most memory that an ended worker had, 0 where nobody knows.
func peakMemory(s *os.ProcessState) int64 {
	if u, ok := s.SysUsage().(*syscall.Rusage); ok {
		return u.Maxrss << 10
	}
	return 0
}
