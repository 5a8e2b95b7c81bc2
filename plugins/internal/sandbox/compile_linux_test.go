package sandbox

import (
	"bytes"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"
)

// compileForever lets a test process compile a bomb.
const compileForever = "TGI_TEST_COMPILE_FOREVER"

// TestWorkerEndsWithItsParent kills a compiling process: its worker ends too, and its files are removed.
func TestWorkerEndsWithItsParent(t *testing.T) {
	if dir := os.Getenv(compileForever); dir != "" {
		e := engine(t, Config{CacheDir: dir, Compile: CompileLimits{Time: time.Minute}})
		_, _ = e.Compile(t.Context(), bombs(1)["branches, one parameter"], ModuleConfig{Name: "bomb"})
		return
	}
	dir := t.TempDir()
	cmd := exec.Command("/proc/self/exe", "-test.run=^TestWorkerEndsWithItsParent$")
	cmd.Env = append(os.Environ(), compileForever+"="+dir)
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	worker := 0
	for deadline := time.Now().Add(time.Minute); worker == 0; time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("no worker")
		}
		worker = childOf(t, cmd.Process.Pid)
	}
	if err := cmd.Process.Kill(); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Wait()
	for deadline := time.Now().Add(20 * time.Second); alive(worker); time.Sleep(10 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal("the worker is still running")
		}
	}
	engine(t, Config{CacheDir: dir})
	if left, _ := filepath.Glob(filepath.Join(dir, "*", stagingPrefix+"*")); len(left) > 0 {
		t.Errorf("left over: %q", left)
	}
}

// childOf returns a worker of a process, 0 while there is none.
func childOf(t *testing.T, parent int) int {
	t.Helper()
	files, err := filepath.Glob("/proc/[0-9]*/cmdline")
	if err != nil {
		t.Fatal(err)
	}
	for _, file := range files {
		line, _ := os.ReadFile(file)
		stat, _ := os.ReadFile(filepath.Join(filepath.Dir(file), "stat"))
		_, rest, _ := strings.Cut(string(stat), ") ")
		fields := strings.Fields(rest)
		if bytes.HasPrefix(line, []byte(workerName+"\x00"+workerMode+"\x00")) && len(fields) > 1 &&
			fields[1] == strconv.Itoa(parent) {
			pid, _ := strconv.Atoi(filepath.Base(filepath.Dir(file)))
			return pid
		}
	}
	return 0
}

func alive(pid int) bool {
	stat, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	_, rest, _ := strings.Cut(string(stat), ") ")
	return err == nil && !strings.HasPrefix(rest, "Z") && !strings.HasPrefix(rest, "X")
}
