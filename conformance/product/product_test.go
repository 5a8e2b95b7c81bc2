// Package product compares the kernels for quantised products with each other, also those of other CPUs.
package product

import (
	"os/exec"
	"strings"
	"testing"
)

func TestKernelsAgree(t *testing.T) {
	out, err := exec.Command("./run").CombinedOutput()
	if err != nil || !strings.Contains(string(out), "as the portable kernel") &&
		!strings.Contains(string(out), "skipped") {
		t.Errorf("%v\n%s", err, out)
	}
	t.Logf("%s", out)
}
