package mcp

import (
	"os/exec"
	"syscall"

	"golang.org/x/sys/unix"
)

// group makes a process the leader of a group, which ends with this process, however that ends.
func group(cmd *exec.Cmd) {
	cmd.SysProcAttr = &syscall.SysProcAttr{Setpgid: true, Pdeathsig: syscall.SIGKILL}
}

// askGroup asks all processes of a group to end, endGroup ends them.
func askGroup(leader int) { _ = unix.Kill(-leader, unix.SIGTERM) }
func endGroup(leader int) { _ = unix.Kill(-leader, unix.SIGKILL) }
