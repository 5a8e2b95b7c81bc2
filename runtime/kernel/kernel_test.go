package kernel

import (
	"os"
	"os/exec"
	"testing"
)

// TestPTXIsCurrent compiles the kernels where NVRTC is.
func TestPTXIsCurrent(t *testing.T) {
	if os.Getenv("TGI_NVRTC") == "" {
		t.Skip("TGI_NVRTC does not name a folder with NVRTC: `make cuda-kernels-check` downloads it")
	}
	args := []string{"compile.py", "--check", "../attend/attend.cu", "../lowrank/lowrank.cu", "../reduce/reduce.cu"}
	if text, err := exec.Command("python3", args...).CombinedOutput(); err != nil {
		t.Errorf("%v: %s", err, text)
	}
}
