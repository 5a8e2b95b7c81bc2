// Package check_test holds every file of examples/deploy to the tool that will read it: promtool, helm, kubeconform,
// Compose's own reader, systemd-analyze, hadolint, and Prometheus beside a running server. `make test-deploy` runs it.
package check_test

import (
	"bytes"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
)

// deploy is the folder of what is tested, root that of the tree.
const deploy, root = "../..", "../../../.."

// path returns the absolute path of a file of examples/deploy.
func path(t *testing.T, name ...string) string {
	t.Helper()
	p, err := filepath.Abs(filepath.Join(append([]string{deploy}, name...)...))
	if err != nil {
		t.Fatal(err)
	}
	return p
}

// read returns a file of examples/deploy.
func read(t *testing.T, name ...string) string {
	t.Helper()
	text, err := os.ReadFile(path(t, name...))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tool runs a program and returns what it printed. A program that is not installed fails the test: a check that is left
// out looks like one that passed.
func tool(t *testing.T, argv ...string) (string, error) {
	t.Helper()
	if _, err := exec.LookPath(argv[0]); err != nil {
		t.Fatalf("%v: install it (.ci/toolchains does)", err)
	}
	cmd := exec.CommandContext(t.Context(), argv[0], argv[1:]...)
	out, err := cmd.CombinedOutput()
	return string(out), err
}

// passes runs a program that must succeed, and returns what it printed.
func passes(t *testing.T, argv ...string) string {
	t.Helper()
	out, err := tool(t, argv...)
	if err != nil {
		t.Fatalf("%s: %v\n%s", strings.Join(argv, " "), err, out)
	}
	return out
}

// module returns the folder of a Go module, which holds data that is read. Go's checksum database vouches for it.
func module(t *testing.T, version string) string {
	t.Helper()
	cmd := exec.CommandContext(t.Context(), "go", "mod", "download", "-json", version)
	cmd.Dir = t.TempDir() // outside of any module
	cmd.Env = append(os.Environ(), "GOFLAGS=-mod=mod", "GOWORK=off")
	var complaint bytes.Buffer
	cmd.Stderr = &complaint
	out, err := cmd.Output()
	var found struct{ Dir, Error string }
	if json.Unmarshal(out, &found) != nil || err != nil || found.Dir == "" {
		t.Fatalf("go mod download %s: %v %s%s", version, err, found.Error, &complaint)
	}
	return found.Dir
}
