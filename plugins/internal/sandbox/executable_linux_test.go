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

// TestInterpreted: a process that may not make memory executable says so, another one does not.
func TestInterpreted(t *testing.T) {
	if os.Getenv(confined) != "" {
		if err := unix.Prctl(unix.PR_SET_MDWE, unix.PR_MDWE_REFUSE_EXEC_GAIN, 0, 0, 0); err != nil {
			t.Skipf("the kernel, before 6.3, cannot forbid it: %v", err)
		}
		if err := Interpreted(); err == nil || !strings.Contains(err.Error(), "may not become executable") {
			t.Fatal(err)
		}
		return
	}
	if err := Interpreted(); err != nil {
		t.Error(err)
	}
	cmd := exec.Command(os.Args[0], "-test.run=^TestInterpreted$", "-test.v")
	cmd.Env = append(os.Environ(), confined+"=1")
	out, err := cmd.CombinedOutput()
	if err != nil {
		t.Errorf("%v\n%s", err, out)
	}
	if strings.Contains(string(out), "SKIP") {
		t.Skip(string(out))
	}
}
