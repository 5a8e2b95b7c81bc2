//go:build !unix

package mcp

import (
	"os"
	"os/exec"
)

// group does nothing: there are no groups.
func group(*exec.Cmd) {}

// askGroup does nothing, endGroup ends the process.
func askGroup(int) {}

func endGroup(pid int) {
	if p, err := os.FindProcess(pid); err == nil {
		_ = p.Kill()
	}
}
