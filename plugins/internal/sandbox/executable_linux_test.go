package sandbox

import (
	"os"
	"os/exec"
	"strings"
	"testing"

	"golang.org/x/sys/unix"
)

// confined has this test process forbid itself to make memory executable.
const confined = "TGI_TEST_CONFINED"

// forbidExecutable has this process forbid itself to make memory executable.
func forbidExecutable(t *testing.T) {
	t.Helper()
	if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
		t.Skipf("the kernel, before 6.3, cannot forbid it: %v", err)
	}
}

// TestInterpreted: a process that may not make memory executable says so, another one does not.
func TestInterpreted(t *testing.T) {
	if os.Getenv(confined) != "" {
		forbidExecutable(t)
		if err := Interpreted(); err == nil || !strings.Contains(err.Error(), "may not become executable") {
			t.Fatal(err)
		}
		return
	}
	if err := Interpreted(); err != nil {
		t.Error(err)
	}
	runConfined(t, "1")
}

// runConfined runs the test once more in a process of its own, in which the variable has a value.
func runConfined(t *testing.T, value string) {
	t.Helper()
	cmd := exec.Command(os.Args[0], "-test.run=^"+t.Name()+"$", "-test.v")
	cmd.Env = append(os.Environ(), confined+"="+value)
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "SKIP") {
		t.Skip(string(out))
	}
}

// TestInterpretedCache: where guests are interpreted, what the cache has of a module is of no use, and does no harm.
func TestInterpretedCache(t *testing.T) {
	dir, inside := os.Getenv(confined), false
	if inside = dir != ""; inside {
		forbidExecutable(t)
	} else {
		dir = t.TempDir()
	}
	e := engine(t, Config{CacheDir: dir})
	if got := treeAlone(t, e, guestFile(t, "walk.wasm")); got != 32 {
		t.Errorf("tree(5) = %d", got)
	}
	if entries, err := os.ReadDir(e.cache); err != nil || len(entries) != 1 {
		t.Errorf("the cache holds %v, %v", entries, err)
	}
	if !inside {
		runConfined(t, dir)
	}
}
